/*
 * Waiting. The ids that have not ended are in one sorted array without duplicates. A poll asks for up to ten thousand
 * of them, and the manager answers when all of those have ended or the poll's time is over. Ended ids are removed from
 * the array. If there are more ids, each poll that waits is followed by one that does not, of others.
 */
#include "client/lib/internal.h"

#include "common/clock.h"
#include "common/mem.h"

#include <stdlib.h>
#include <string.h>

enum { LONGEST_POLL_MS = 20000, PAUSE_MS = 100 };

struct waiting {
	struct reeve_client *client;
	const struct reeve_wait *wait;
	int64_t *ids; /* the first `count`: not known to have ended, ascending */
	size_t count;
};

static int compare_ids(const void *a, const void *b)
{
	int64_t one = *(const int64_t *)a, other = *(const int64_t *)b;

	return (one > other) - (one < other);
}

static size_t drop_doubles(int64_t *ids, size_t count)
{
	size_t kept = 0;

	for (size_t i = 0; i < count; i++) {
		if (kept == 0 || ids[kept - 1] != ids[i])
			ids[kept++] = ids[i];
	}
	return kept;
}

/* Reports an ended task and marks its id; returns false if it was not asked for or is in the answer twice. */
static bool take_ended(struct waiting *waiting, size_t from, size_t n, bool *gone, Reeve__V1__Task *message)
{
	const int64_t *found = bsearch(&message->id, waiting->ids + from, n, sizeof *found, compare_ids);

	if (!found || gone[found - (waiting->ids + from)])
		return false;
	gone[found - (waiting->ids + from)] = true;
	if (!*message->details)
		message->details = NULL; /* it was not sent: the JSON must not show it as empty */
	if (waiting->wait->ended)
		waiting->wait->ended(waiting->wait->arg, message);
	return true;
}

/* Polls up to REEVE_MAX_BATCH ids from index `from` on. Removes those that have ended from the array, adds their number
 * to *n_ended, and sets *more if the answer did not have all that have ended. */
static bool poll_once(
    struct waiting *waiting, size_t from, int64_t wait_ms, size_t *n_ended, bool *more, struct reeve_failure *failure)
{
	size_t n = waiting->count - from < REEVE_MAX_BATCH ? waiting->count - from : REEVE_MAX_BATCH;
	Reeve__V1__WaitRequest request = {.n_ids = n, .ids = waiting->ids + from, .wait_ms = wait_ms};
	const struct reeve_call_options options = {.timeout_ms = wait_ms + waiting->client->call_timeout_ms};
	Reeve__V1__WaitResponse *response = reeve_task_wait(waiting->client, &request, &options, failure);
	bool *gone;
	size_t kept = from, before = *n_ended;

	if (!response)
		return false;
	gone = mem_calloc(n, sizeof *gone);
	for (size_t i = 0; i < response->n_ended; i++)
		*n_ended += take_ended(waiting, from, n, gone, response->ended[i]);
	for (size_t i = from; i < waiting->count; i++) {
		if (i >= from + n || !gone[i - from])
			waiting->ids[kept++] = waiting->ids[i];
	}
	waiting->count = kept;
	*more = response->more && *n_ended > before;
	free(gone);
	reeve_free(response);
	return true;
}

/* Polls one place, and at once again while there is more, which its other tasks must not hold back. */
static bool poll_place(
    struct waiting *waiting, size_t from, int64_t wait_ms, size_t *n_ended, struct reeve_failure *failure)
{
	bool more;

	*n_ended = 0;
	if (!poll_once(waiting, from, wait_ms, n_ended, &more, failure))
		return false;
	while (more)
		if (!poll_once(waiting, from, 0, n_ended, &more, failure))
			return false;
	return true;
}

/* Polls all ids, without waiting, each place until nothing there has ended. */
static bool poll_over(struct waiting *waiting, struct reeve_failure *failure)
{
	size_t from = 0;

	while (from < waiting->count) {
		size_t n = waiting->count - from < REEVE_MAX_BATCH ? waiting->count - from : REEVE_MAX_BATCH;
		size_t n_ended;

		if (!poll_place(waiting, from, 0, &n_ended, failure))
			return false;
		if (n_ended == 0)
			from += n;
	}
	return true;
}

static bool poll_until(struct waiting *waiting, int64_t end_ms, int64_t poll_ms, struct reeve_failure *failure)
{
	size_t place = 0, other = 0; /* where it waits, and where it only looks: one place further each time */

	while (waiting->count > 0) {
		int64_t begin = clock_monotonic_ms();
		int64_t left = end_ms - begin;
		size_t n_ended, n_others = 0;

		if (left <= 0)
			return poll_over(waiting, failure);
		if (!poll_place(waiting, place, left < poll_ms ? left : poll_ms, &n_ended, failure))
			return false;
		other += REEVE_MAX_BATCH;
		if (other >= waiting->count)
			other = 0;
		if (waiting->count > REEVE_MAX_BATCH && !poll_place(waiting, other, 0, &n_others, failure))
			return false;
		if (n_ended == 0 || place >= waiting->count)
			place = other < waiting->count ? other : 0;
		if (waiting->wait->polled && !waiting->wait->polled(waiting->wait->arg, waiting->count))
			return true;
		/* A manager may answer early with nothing; do not poll it in a tight loop. */
		if (n_ended + n_others == 0 && waiting->count > 0 && clock_monotonic_ms() - begin < PAUSE_MS &&
		    left > PAUSE_MS && !client_pause(waiting->client, PAUSE_MS))
			return fail(failure, STATUS(CANCELLED), "interrupted");
	}
	return true;
}

bool reeve_wait(struct reeve_client *client, const int64_t *ids, size_t count, const struct reeve_wait *wait,
    size_t *pending, struct reeve_failure *failure)
{
	int64_t poll_ms = wait->poll_ms > 0 && wait->poll_ms < LONGEST_POLL_MS ? wait->poll_ms : LONGEST_POLL_MS;
	struct waiting waiting = {.client = client, .wait = wait, .count = count};
	int64_t end_ms = INT64_MAX;
	bool done;

	waiting.ids = mem_calloc(count, sizeof *waiting.ids);
	if (count)
		memcpy(waiting.ids, ids, count * sizeof *ids);
	qsort(waiting.ids, count, sizeof *waiting.ids, compare_ids);
	waiting.count = drop_doubles(waiting.ids, count);
	if (wait->timeout_ms >= 0 && wait->timeout_ms < INT64_MAX / 2)
		end_ms = clock_monotonic_ms() + wait->timeout_ms;
	done = poll_until(&waiting, end_ms, poll_ms, failure);
	if (done && pending)
		*pending = waiting.count;
	free(waiting.ids);
	return done;
}
