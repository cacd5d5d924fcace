/* A level goes with its last place. */
#include "manager/core/levels.h"

#include "common/hash.h"

#include <assert.h>
#include <stdlib.h>
#include <utlist.h>

struct level {
	int32_t priority;
	struct place *places; /* list */
	struct level *prev, *next;
	UT_hash_handle hh;
};

static int highest_first(const struct level *a, const struct level *b)
{
	return (a->priority < b->priority) - (a->priority > b->priority);
}

void levels_add(struct levels *levels, struct place *place, int32_t priority)
{
	struct level *level;
	assert(!place->level);
	HASH_FIND(hh, levels->by_priority, &priority, sizeof priority, level);
	if (!level) {
		level = calloc(1, sizeof *level);
		level->priority = priority;
		HASH_ADD(hh, levels->by_priority, priority, sizeof level->priority, level);
		DL_INSERT_INORDER(levels->first, level, highest_first);
	}
	place->level = level;
	DL_APPEND(level->places, place);
}

void levels_remove(struct levels *levels, struct place *place)
{
	struct level *level = place->level;
	DL_DELETE(level->places, place);
	place->level = NULL;
	if (level->places)
		return;
	DL_DELETE(levels->first, level);
	HASH_DEL(levels->by_priority, level);
	free(level);
}

struct place *levels_first(const struct levels *levels)
{
	return levels->first ? levels->first->places : NULL;
}

struct place *levels_next(const struct place *place)
{
	if (place->next)
		return place->next;
	const struct level *lower = place->level->next;
	return lower ? lower->places : NULL;
}
