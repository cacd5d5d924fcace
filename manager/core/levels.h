/* Streams by priority: one list for each priority that has any. There are many streams, and few priorities. */
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
	struct level *by_priority; /* hash */
};

/* Lists a place that is not listed, as the last one of its priority. Walks the priorities if this one is new. */
void levels_add(struct levels *levels, struct place *place, int32_t priority);

/* Takes a listed place out. */
void levels_remove(struct levels *levels, struct place *place);

/* The first place of the highest priority, and the one after another; NULL: none. */
struct place *levels_first(const struct levels *levels);
struct place *levels_next(const struct place *place);

#endif
