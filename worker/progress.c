/* The answer arrives on a thread of the client and finds the attempts by their keys, because they may have ended. */
#include "worker/progress.h"

#include "common/clock.h"
#include "common/limits.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/rpc/client.h"
#include "worker/news.h"

#include <stdlib.h>
#include <string.h>

enum {
	CALL_TIMEOUT_MS = 5 * 1000,
	CALL_BYTES = 256 * 1024, /* a call with so much takes no further attempt */
};

/* A call. */
struct sent {
	struct progress *progress;
	int64_t incarnation;
	bool full; /* further attempts have news */
	Reeve__V1__ProgressRequest request;
	Reeve__V1__AttemptProgress *items;
};

static void sent_free(struct sent *sent)
{
	for (size_t i = 0; i < sent->request.n_attempts; i++)
		news_clear_message(&sent->items[i]);
	free(sent->items);
	free(sent->request.attempts);
	free(sent);
}

/* Copies the news of attempts that run. Called with the lock. */
static struct sent *compose(struct progress *progress, int64_t now_ms)
{
	struct in_flight *in_flight = progress->in_flight;
	struct sent *sent = mem_calloc(1, sizeof *sent);
	size_t max = in_flight->taken_count < LIMIT_CALL_TASKS ? in_flight->taken_count : LIMIT_CALL_TASKS, bytes = 0,
	       n = 0;
	bool wait = false;

	reeve__v1__progress_request__init(&sent->request);
	sent->progress = progress;
	sent->incarnation = sent->request.incarnation = progress->session->incarnation;
	sent->items = mem_malloc((max + 1) * sizeof *sent->items);
	sent->request.attempts = mem_malloc((max + 1) * sizeof *sent->request.attempts);
	atomic_store(&progress->any, false);
	for (struct attempt *attempt = in_flight->all; attempt; attempt = attempt->hh.next) {
		struct news *news = atomic_load(&attempt->news);
		size_t length;

		if (!news || attempt->place != PLACE_TAKEN)
			continue;
		sent->full = n == max || bytes >= CALL_BYTES;
		if (sent->full)
			break;
		reeve__v1__attempt_progress__init(&sent->items[n]);
		length = news_compose(news, &sent->items[n], now_ms, &wait);
		if (!length)
			continue;
		bytes += length;
		sent->items[n].task_id = attempt->key.task_id;
		sent->items[n].token = attempt->key.token;
		sent->request.attempts[n] = &sent->items[n];
		n++;
	}
	sent->request.n_attempts = n;
	if (sent->full || wait)
		atomic_store(&progress->any, true);
	return sent;
}

/* Returns true if repeating the call would be pointless. */
static bool is_refusal(reeve_status code)
{
	return code == STATUS(UNIMPLEMENTED) || code == STATUS(NOT_FOUND) || code == STATUS(INVALID_ARGUMENT) ||
	    code == STATUS(PERMISSION_DENIED);
}

/* Applies the answer. Called with the lock. */
static void apply(const struct sent *sent, const struct rpc_answer *answer)
{
	struct progress *progress = sent->progress;
	const Reeve__V1__ProgressResponse *response = (const Reeve__V1__ProgressResponse *)answer->response;

	if (is_refusal(answer->code)) {
		progress->refused_by = sent->incarnation;
		log_warn(progress->shared->object,
		    "a manager does not take the progress of tasks; their results will have it: %s", answer->message);
	} else if (answer->code != STATUS(OK)) {
		atomic_store(&progress->any, true);
		return;
	}
	for (size_t i = 0; response && i < sent->request.n_attempts && i < response->n_acks; i++) {
		const Reeve__V1__AttemptProgress *item = &sent->items[i];
		const struct attempt *attempt = in_flight_find(progress->in_flight, item->task_id, item->token);

		if (response->acks[i]->status == REEVE__V1__RESULT_STATUS__RESULT_STATUS_LATER)
			atomic_store(&progress->any, true);
		else if (attempt)
			news_acknowledged(atomic_load(&attempt->news), item);
	}
}

static void progress_done(void *arg, struct rpc_answer *answer)
{
	struct sent *sent = arg;
	struct progress *progress = sent->progress;

	shared_lock(progress->shared);
	apply(sent, answer);
	progress->open = false;
	progress->next_ms = clock_monotonic_ms() + (sent->full && answer->code == STATUS(OK) ? 0 : LIMIT_PROGRESS_MS);
	shared_unlock(progress->shared);
	if (answer->response)
		protobuf_c_message_free_unpacked(answer->response, NULL);
	sent_free(sent);
	shared_wake(progress->shared);
}

int64_t progress_next_ms(const struct progress *progress)
{
	if (progress->open || !atomic_load(&progress->any) || progress->session->phase != SESSION_SERVING ||
	    progress->refused_by == progress->session->incarnation)
		return INT64_MAX;
	return progress->next_ms;
}

void progress_step(struct progress *progress)
{
	int64_t now_ms = clock_monotonic_ms();
	struct sent *sent = NULL;

	shared_lock(progress->shared);
	if (now_ms >= progress_next_ms(progress)) {
		sent = compose(progress, now_ms);
		progress->open = sent->request.n_attempts > 0;
		progress->next_ms = now_ms + LIMIT_PROGRESS_MS;
	}
	shared_unlock(progress->shared);
	if (sent && !sent->request.n_attempts)
		sent_free(sent);
	else if (sent)
		rpc_client_start(progress->shared->rpc, &reeve__v1__worker_service__descriptor, "Progress", &sent->request.base,
		    &(struct rpc_call_options){.timeout_ms = CALL_TIMEOUT_MS}, progress_done, sent);
}

/* Returns the attempt's news, which another thread may just be creating. */
static struct news *news_of(struct attempt *attempt)
{
	struct news *news = atomic_load(&attempt->news), *mine;

	if (news)
		return news;
	mine = news_create();
	if (atomic_compare_exchange_strong(&attempt->news, &news, mine))
		return mine;
	news_free(mine);
	return news;
}

/* Control sends them when a second has passed since the last call. */
static void wake(const struct attempt *attempt)
{
	if (attempt->progress && !atomic_exchange(&attempt->progress->any, true))
		shared_wake(attempt->progress->shared);
}

void attempt_report_progress(struct attempt *attempt, double percent, const char *remark)
{
	news_progress(news_of(attempt), percent, remark);
	wake(attempt);
}

void attempt_report_remark(struct attempt *attempt, const char *remark)
{
	news_remark(news_of(attempt), remark);
	wake(attempt);
}

void attempt_report_log(struct attempt *attempt, const char *text, size_t length)
{
	news_log(news_of(attempt), text, length);
	wake(attempt);
}

void reeve_attempt_progress(const struct reeve_attempt *public, double percent, const char *remark)
{
	attempt_report_progress((struct attempt *)public, percent, remark); /* ours; only the handler's view is const */
}

void reeve_attempt_log(const struct reeve_attempt *public, const char *text)
{
	attempt_report_log((struct attempt *)public, text, strlen(text));
}

void reeve_outcome_remark(struct reeve_outcome *outcome, const char *remark)
{
	attempt_report_remark((struct attempt *)((char *)outcome - offsetof(struct attempt, outcome)), remark);
}
