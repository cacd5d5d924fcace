/* A binary heap in an array. Members know their place, so that they can be moved and removed. */
#include "common/deadlines.h"

#include "common/mem.h"

#include <stdlib.h>

/* Makes room for one more member. */
static void reserve(struct deadlines *heap)
{
	if (heap->count < heap->room)
		return;
	heap->room = heap->room ? 2 * heap->room : 64;
	heap->members = mem_realloc(heap->members, heap->room * sizeof(struct deadline *));
}

static void put(struct deadlines *heap, size_t place, struct deadline *member)
{
	heap->members[place - 1] = member;
	member->place = place;
}

static struct deadline *get(const struct deadlines *heap, size_t place)
{
	return heap->members[place - 1];
}

/* Moves a member up or down to its right place. */
static void settle(struct deadlines *heap, struct deadline *member)
{
	size_t place = member->place;

	while (place > 1 && get(heap, place / 2)->at_ms > member->at_ms) {
		put(heap, place, get(heap, place / 2));
		place /= 2;
	}
	for (;;) {
		size_t child = 2 * place;

		if (child < heap->count && get(heap, child + 1)->at_ms < get(heap, child)->at_ms)
			child++;
		if (child > heap->count || get(heap, child)->at_ms >= member->at_ms)
			break;
		put(heap, place, get(heap, child));
		place = child;
	}
	put(heap, place, member);
}

void deadlines_set(struct deadlines *heap, struct deadline *member, int64_t at_ms)
{
	member->at_ms = at_ms;
	if (!member->place) {
		reserve(heap);
		put(heap, ++heap->count, member);
	}
	settle(heap, member);
}

void deadlines_remove(struct deadlines *heap, struct deadline *member)
{
	size_t place = member->place;
	struct deadline *last;

	if (!place)
		return;
	last = get(heap, heap->count--);
	member->place = 0;
	if (last == member)
		return;
	put(heap, place, last);
	settle(heap, last);
}

struct deadline *deadlines_first(const struct deadlines *heap)
{
	return heap->count ? heap->members[0] : NULL;
}

void deadlines_free(struct deadlines *heap)
{
	free(heap->members);
	*heap = (struct deadlines){0};
}
