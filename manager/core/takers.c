/* A binary heap in an array, by the numbers of the Fetches, and the line in another. */
#include "manager/core/takers.h"

#include <stdlib.h>
#include <string.h>

static bool earlier(struct takers *t, int a, int b)
{
	++*t->steps;
	return t->heap[a]->number < t->heap[b]->number;
}

static void sink(struct takers *t, int at)
{
	for (;;) {
		int child = 2 * at + 1;
		if (child + 1 < t->heap_count && earlier(t, child + 1, child))
			child++;
		if (child >= t->heap_count || !earlier(t, child, at))
			return;
		struct fetch *was = t->heap[at];
		t->heap[at] = t->heap[child];
		t->heap[child] = was;
		at = child;
	}
}

static void *grown(void *array, int *capacity)
{
	*capacity = *capacity ? 2 * *capacity : 16;
	return mem_realloc(array, sizeof(struct fetch *) * (size_t)*capacity);
}

void takers_begin(struct takers *t, struct demand *demand, int route, unsigned group, int share, int64_t *steps)
{
	struct demand_walk walk;
	int capacity = 0;
	if (t->begun)
		return;
	t->begun = true;
	t->steps = steps;
	for (struct profile *p = demand_first(&walk, demand, route); p; p = demand_next(&walk)) {
		++*steps;
		if (p->round != group) { /* it has no room for tasks of this queue */
			t->removed |= p->count > 0;
			continue;
		}
		while (p->at && fetch_full(p->at, share))
			p->at = p->at->waiting_next;
		t->removed |= p->at != p->waiting;
		if (!p->at)
			continue;
		if (t->heap_count == capacity)
			t->heap = grown(t->heap, &capacity);
		t->heap[t->heap_count++] = p->at;
	}
	for (int at = t->heap_count / 2 - 1; at >= 0; at--)
		sink(t, at);
}

/* Moves the first Fetch of the heap into the line. */
static void line_up(struct takers *t)
{
	struct fetch *f = t->heap[0];
	if (t->line_count == t->line_capacity)
		t->line = grown(t->line, &t->line_capacity);
	t->line[t->line_count++] = f;
	t->heap[0] = f->waiting_next ? f->waiting_next : t->heap[--t->heap_count];
	sink(t, 0);
}

void takers_walk(struct takers *t)
{
	if (t->kept < t->walked) {
		memmove(t->line + t->kept, t->line + t->walked, sizeof *t->line * (size_t)(t->line_count - t->walked));
		t->line_count -= t->walked - t->kept;
	}
	t->walked = t->kept = 0;
}

struct fetch *takers_next(struct takers *t, int share)
{
	for (;;) {
		if (t->walked == t->line_count) {
			if (!t->heap_count)
				return NULL;
			line_up(t);
		}
		struct fetch *f = t->line[t->walked++];
		++*t->steps;
		t->line[t->kept++] = f;
		if (!fetch_full(f, share))
			return f;
		takers_remove(t);
	}
}

void takers_remove(struct takers *t)
{
	t->kept--;
	t->removed = true;
}

bool takers_none(const struct takers *t)
{
	return !t->kept;
}

void takers_free(struct takers *t)
{
	free(t->heap);
	free(t->line);
	*t = (struct takers){0};
}
