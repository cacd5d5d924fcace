/* Streams by priority: one list for each priority that has any. There are many streams, and usually few priorities. */
#ifndef REEVE_MANAGER_CORE_LEVELS_H
#define REEVE_MANAGER_CORE_LEVELS_H

#include <stdint.h>

struct level;

/* Embedded in what is listed. */
struct place {
	struct level *level; /* NULL: not listed */
	struct place *prev, *next;
};

/* All zero: empty. */
struct levels {
	struct level *first;       /* list, the highest priority first */
	void *by_priority;         /* tree of tsearch */
};

/* Lists a place that is not listed, as the last one of its priority. Takes time by the logarithm of the priorities. */
void levels_add(struct levels *levels, struct place *place, int32_t priority);

/* Takes a listed place out. */
void levels_remove(struct levels *levels, struct place *place);

/* The first place of the highest priority, and the one after another; NULL: none. */
struct place *levels_first(const struct levels *levels);
struct place *levels_next(const struct place *place);

#endif
