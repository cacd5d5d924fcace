/* Streams ordered by priority: one list for each priority that has streams. There are many streams, and usually few
 * priorities. */
#ifndef REEVE_MANAGER_CORE_LEVELS_H
#define REEVE_MANAGER_CORE_LEVELS_H

#include <stdint.h>

struct level;

/* Embedded in a stream. */
struct place {
	struct level *level; /* NULL: not listed */
	struct place *prev, *next;
};

/* All zero: empty. */
struct levels {
	struct level *first; /* list, the highest priority first */
	void *by_priority;   /* tree of tsearch */
};

/* Adds a place, which must not be listed, as the last one of its priority. The time is logarithmic in the number of
 * priorities. */
void levels_add(struct levels *levels, struct place *place, int32_t priority);

/* Removes a listed place. */
void levels_remove(struct levels *levels, struct place *place);

/* Makes a listed place the first one of its priority. Those before it then follow the others, in their order. */
void levels_begin_at(struct place *place);

/* Return the first place of the highest priority, and the place after another; NULL: none. */
struct place *levels_first(const struct levels *levels);
struct place *levels_next(const struct place *place);

#endif
