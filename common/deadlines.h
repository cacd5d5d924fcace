/* A heap of points in time: which comes first? Its members are embedded in what they belong to. */
#ifndef REEVE_COMMON_DEADLINES_H
#define REEVE_COMMON_DEADLINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct deadline {
	int64_t at_ms;
	size_t place; /* in the heap, counted from 1; 0: in none */
};

/* All zero is an empty heap. */
struct deadlines {
	struct deadline **members;
	size_t count, room;
};

/* Puts a member in, or moves one whose at_ms is to change. False: no memory, and it is not in; never for one that is in, nor
 * after deadlines_reserve. */
bool deadlines_set(struct deadlines *heap, struct deadline *member, int64_t at_ms);

/* Makes sure that one more member fits. False: no memory. */
bool deadlines_reserve(struct deadlines *heap);

/* Takes a member out; nothing happens if it is not in. */
void deadlines_remove(struct deadlines *heap, struct deadline *member);

/* The earliest, or NULL. */
struct deadline *deadlines_first(const struct deadlines *heap);

/* Frees the heap's memory; the members are the caller's. */
void deadlines_free(struct deadlines *heap);

#endif
