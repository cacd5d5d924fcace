/* A binary heap in an array. Members know their place, so that they can be moved and removed. */
#include "common/deadlines.h"

#include "common/mem.h"

#include <stdlib.h>

/* Makes room for one more member. */
static void reserve(struct deadlines *heap)
{
	if (heap->count < heap->capacity)
		return;
	heap->capacity = heap->capacity ? 2 * heap->capacity : 64;
	heap->members = mem_realloc(heap->members, heap->capacity * sizeof(struct deadline *));
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
static void sift(struct deadlines *heap, struct deadline *member)
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
	sift(heap, member);
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
	sift(heap, last);
}

struct deadline *deadlines_first(const struct deadlines *heap)
{
	return heap->count ? heap->members[0] : NULL;
}

/* Counts in the subtree at a place: no child is earlier than its parent. */
static size_t count_from(const struct deadlines *heap, size_t place, int64_t until_ms, size_t max)
{
	size_t count;

	if (place > heap->count || !max || get(heap, place)->at_ms > until_ms)
		return 0;
	count = 1 + count_from(heap, 2 * place, until_ms, max - 1);
	return count < max ? count + count_from(heap, 2 * place + 1, until_ms, max - count) : count;
}

size_t deadlines_count(const struct deadlines *heap, int64_t until_ms, size_t max)
{
	return count_from(heap, 1, until_ms, max);
}

void deadlines_free(struct deadlines *heap)
{
	free(heap->members);
	*heap = (struct deadlines){0};
}
