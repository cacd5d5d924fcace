/* A heap of deadlines, which finds the earliest. Callers embed the members in their own structs. */
#ifndef REEVE_COMMON_DEADLINES_H
#define REEVE_COMMON_DEADLINES_H

#include <stddef.h>
#include <stdint.h>

struct deadline {
	int64_t at_ms;
	size_t place; /* in the heap, from 1; 0: not in a heap */
};

/* A zeroed struct is an empty heap. */
struct deadlines {
	struct deadline **members;
	size_t count, capacity;
};

/* Adds a member, or changes the at_ms of one that is in the heap. */
void deadlines_set(struct deadlines *heap, struct deadline *member, int64_t at_ms);

/* Removes a member. Does nothing if it is not in the heap. */
void deadlines_remove(struct deadlines *heap, struct deadline *member);

/* Returns the earliest member, or NULL. */
struct deadline *deadlines_first(const struct deadlines *heap);

/* Returns how many members have an at_ms up to this one; counts no further than `most`. */
size_t deadlines_count(const struct deadlines *heap, int64_t until_ms, size_t max);

/* Frees the heap's memory, but not the members, which belong to the caller. */
void deadlines_free(struct deadlines *heap);

#endif
