#include "worker/counts.h"

#include "common/mem.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static struct count *find(const struct counts *counts, const char *queue, int64_t batch_id)
{
	size_t length = sizeof batch_id + strlen(queue);
	char *key = mem_malloc(length);
	struct count *count;

	memcpy(key, &batch_id, sizeof batch_id);
	memcpy(key + sizeof batch_id, queue, strlen(queue));
	HASH_FIND(hh, counts->all, key, length, count);
	free(key);
	return count;
}

/* Makes room for one more. */
static void forget_oldest(struct counts *counts)
{
	struct count *count = counts->all;

	while (count && count->changed)
		count = count->hh.next;
	if (!count)
		return;
	HASH_DEL(counts->all, count);
	free(count);
}

void counts_add(struct counts *counts, const char *queue, int64_t batch_id, bool completed)
{
	struct count *count = find(counts, queue, batch_id);

	if (!count && HASH_COUNT(counts->all) >= COUNTS_MAX)
		forget_oldest(counts);
	if (!count && HASH_COUNT(counts->all) >= COUNTS_MAX)
		return;
	if (!count) {
		size_t length = strlen(queue);

		count = mem_calloc(1, sizeof *count + length + 1);
		count->batch_id = batch_id;
		memcpy(count->queue, queue, length);
		HASH_ADD_KEYPTR(hh, counts->all, &count->batch_id, sizeof count->batch_id + length, count);
	}
	count->completed += completed;
	count->failed += !completed;
	count->changed = true;
}

void counts_send(const struct counts *counts, struct counts_sent *sent)
{
	sent->count = 0;
	for (struct count *count = counts->all; count && sent->count < COUNTS_SENT_MAX; count = count->hh.next) {
		Reeve__V1__WorkerCount *item = &sent->items[sent->count];

		if (!count->changed)
			continue;
		reeve__v1__worker_count__init(item);
		item->queue = count->queue;
		item->batch_id = count->batch_id;
		item->completed = count->completed;
		item->failed = count->failed;
		sent->list[sent->count++] = item;
	}
}

void counts_sent_acked(struct counts *counts, const struct counts_sent *sent)
{
	for (size_t i = 0; i < sent->count; i++) {
		struct count *count = find(counts, sent->items[i].queue, sent->items[i].batch_id);

		if (count && count->completed == sent->items[i].completed && count->failed == sent->items[i].failed)
			count->changed = false;
	}
}

void counts_resend(struct counts *counts)
{
	for (struct count *count = counts->all; count; count = count->hh.next)
		count->changed = true;
}

void counts_clear(struct counts *counts)
{
	struct count *count, *next;

	HASH_ITER (hh, counts->all, count, next) {
		/* The analyzer misses that HASH_DEL unlinks it. NOLINTNEXTLINE(clang-analyzer-unix.Malloc) */
		HASH_DEL(counts->all, count);
		free(count);
	}
}
