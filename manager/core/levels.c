/*
 * A level is freed with its last place. The tree search for a new level passes both levels that will be next to it in
 * the list; the last higher one that it meets is the one before it.
 */
#include "manager/core/levels.h"

#include "common/mem.h"

#include <assert.h>
#include <search.h>
#include <stdlib.h>
#include <utlist.h>

struct level {
	int32_t priority;
	struct place *places; /* list */
	struct level *prev, *next;
	struct level *higher; /* of a new level: the last higher one met in the tree */
};

/* Compares priorities, and notes the last higher level. POSIX: the first argument is the level that is searched for. */
static int compare(const void *wanted, const void *met)
{
	struct level *a = (struct level *)wanted;
	const struct level *b = met;
	if (b->priority > a->priority)
		a->higher = (struct level *)b;
	return (a->priority > b->priority) - (a->priority < b->priority);
}

static struct level *level_of(struct levels *levels, int32_t priority)
{
	struct level wanted = {.priority = priority}, *level;
	struct level **found = tfind(&wanted, &levels->by_priority, compare);
	if (found)
		return *found;
	level = mem_calloc(1, sizeof *level);
	level->priority = priority;
	tsearch(level, &levels->by_priority, compare);
	if (level->higher)
		DL_APPEND_ELEM(levels->first, level->higher, level);
	else
		DL_PREPEND(levels->first, level);
	return level;
}

void levels_add(struct levels *levels, struct place *place, int32_t priority)
{
	assert(!place->level);
	place->level = level_of(levels, priority);
	DL_APPEND(place->level->places, place);
}

void levels_remove(struct levels *levels, struct place *place)
{
	struct level *level = place->level;
	DL_DELETE(level->places, place);
	place->level = NULL;
	if (level->places)
		return;
	DL_DELETE(levels->first, level);
	tdelete(level, &levels->by_priority, compare);
	free(level);
}

/* The list is utlist's: its first element knows the last one, and the last one is followed by NULL. */
void levels_begin_at(struct place *place)
{
	struct place *first = place->level->places;
	if (place == first)
		return;
	first->prev->next = first;
	place->prev->next = NULL;
	place->level->places = place;
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
