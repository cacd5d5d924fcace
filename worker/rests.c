#include "worker/rests.h"

#include "common/limits.h"
#include "common/mem.h"

#include <stdlib.h>
#include <string.h>

void rests_begin(struct rests *rests, const char *queue, int64_t until_ms)
{
	struct queue_rests *q;

	HASH_FIND_STR(rests->queues, queue, q);
	if (!q) {
		q = mem_calloc(1, sizeof *q);
		q->queue = mem_strdup(queue);
		HASH_ADD_KEYPTR(hh, rests->queues, q->queue, strlen(q->queue), q);
	}
	if (q->count == q->size) {
		q->size = q->size ? 2 * q->size : 4;
		q->until_ms = mem_realloc(q->until_ms, q->size * sizeof *q->until_ms);
	}
	q->until_ms[q->count++] = until_ms;
	rests->count++;
	rests->changes++;
}

static void forget(struct rests *rests, struct queue_rests *q)
{
	HASH_DEL(rests->queues, q);
	free(q->until_ms);
	free(q->queue);
	free(q);
}

bool rests_end(struct rests *rests, int64_t now_ms)
{
	struct queue_rests *q, *next;
	size_t before = rests->count;

	HASH_ITER (hh, rests->queues, q, next) {
		for (size_t i = q->count; i-- > 0;)
			if (q->until_ms[i] <= now_ms) {
				q->until_ms[i] = q->until_ms[--q->count];
				rests->count--;
			}
		if (!q->count)
			forget(rests, q);
	}
	rests->changes += before - rests->count;
	return rests->count < before;
}

int64_t rests_next_ms(const struct rests *rests)
{
	int64_t next_ms = INT64_MAX;

	for (const struct queue_rests *q = rests->queues; q; q = q->hh.next)
		for (size_t i = 0; i < q->count; i++)
			if (q->until_ms[i] < next_ms)
				next_ms = q->until_ms[i];
	return next_ms;
}

/* Returns how many attempts of the queue have slots, or, with `ready`, how many have not ended. */
static int64_t unfinished(const struct in_flight *in_flight, const char *queue, bool ready)
{
	int64_t count = 0;

	for (const struct attempt *attempt = in_flight->all; attempt; attempt = attempt->hh.next)
		count += (attempt->place == PLACE_TAKEN || (ready && attempt->place == PLACE_READY)) &&
		    !strcmp(attempt->public.queue, queue);
	return count;
}

bool rests_block(const struct rests *rests, const struct in_flight *in_flight, const struct attempt *attempt, int slots)
{
	const struct queue_rests *q;

	HASH_FIND_STR(rests->queues, attempt->public.queue, q);
	return q && unfinished(in_flight, q->queue, false) + (int64_t)q->count >= slots;
}

struct queue_slots *rests_queue_slots(
    const struct rests *rests, const struct in_flight *in_flight, int64_t capacity, uint32_t slots)
{
	size_t queues = HASH_COUNT(rests->queues);
	struct queue_slots *limits = queues ? mem_calloc(1, sizeof *limits + queues * sizeof *limits->items) : NULL;

	if (!limits)
		return NULL;
	limits->list = mem_malloc(queues * sizeof *limits->list);
	for (const struct queue_rests *q = rests->queues; q && limits->count < LIMIT_ACCEPTED; q = q->hh.next) {
		int64_t room = capacity - (int64_t)q->count - unfinished(in_flight, q->queue, true);
		Reeve__V1__QueueSlots *item = &limits->items[limits->count];

		if (room >= slots)
			continue;
		reeve__v1__queue_slots__init(item);
		item->queue = mem_strdup(q->queue);
		item->slots = room > 0 ? (uint32_t)room : 0;
		limits->list[limits->count++] = item;
	}
	return limits;
}

void queue_slots_free(struct queue_slots *slots)
{
	if (!slots)
		return;
	for (size_t i = 0; i < slots->count; i++)
		free((char *)slots->items[i].queue);
	free(slots->list);
	free(slots);
}

void rests_clear(struct rests *rests)
{
	struct queue_rests *q, *next;

	HASH_ITER (hh, rests->queues, q, next)
		forget(rests, q);
	rests->count = 0;
}
