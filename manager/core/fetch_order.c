/* A binary heap in an array, by the numbers of the Fetches, and the line in another. */
#include "manager/core/fetch_order.h"

#include <stdlib.h>
#include <string.h>

static bool earlier(struct fetch_order *t, int a, int b)
{
	++*t->steps;
	return t->heap[a]->number < t->heap[b]->number;
}

static void sink(struct fetch_order *t, int at)
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

void fetch_order_begin(
    struct fetch_order *t, struct demand *demand, int route, unsigned group, int share, int64_t *steps)
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
static void move_to_line(struct fetch_order *t)
{
	struct fetch *f = t->heap[0];
	if (t->line_count == t->line_capacity)
		t->line = grown(t->line, &t->line_capacity);
	t->line[t->line_count++] = f;
	t->heap[0] = f->waiting_next ? f->waiting_next : t->heap[--t->heap_count];
	sink(t, 0);
}

void fetch_order_restart(struct fetch_order *t)
{
	if (t->kept < t->walked) {
		memmove(t->line + t->kept, t->line + t->walked, sizeof *t->line * (size_t)(t->line_count - t->walked));
		t->line_count -= t->walked - t->kept;
	}
	t->walked = t->kept = 0;
}

struct fetch *fetch_order_next(struct fetch_order *t, int share)
{
	for (;;) {
		if (t->walked == t->line_count) {
			if (!t->heap_count)
				return NULL;
			move_to_line(t);
		}
		struct fetch *f = t->line[t->walked++];
		++*t->steps;
		t->line[t->kept++] = f;
		if (!fetch_full(f, share))
			return f;
		fetch_order_remove(t);
	}
}

void fetch_order_remove(struct fetch_order *t)
{
	t->kept--;
	t->removed = true;
}

bool fetch_order_none(const struct fetch_order *t)
{
	return !t->kept;
}

void fetch_order_free(struct fetch_order *t)
{
	free(t->heap);
	free(t->line);
	*t = (struct fetch_order){0};
}
