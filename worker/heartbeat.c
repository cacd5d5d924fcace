/*
 * Heartbeats: one call every heartbeat_ms, or sooner if there is news, with what the worker holds. Only one is in
 * flight at a time.
 *
 * The message is one snapshot under the worker's lock, and stays true however long it is in transit: an attempt that it
 * does not list, and whose Fetch it does not list as open, can never run here later.
 */
#include "worker/heartbeat.h"

#include "common/clock.h"
#include "common/log.h"
#include "common/text.h"
#include "worker/held.h"
#include "worker/commands.h"
#include "worker/session.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
	FAILED_REST_MS = 500,   /* delay after a heartbeat that failed at once */
	NEWS_REST_MS = 1000,    /* minimum time between heartbeats if the later one is not urgent */
	LOG_EVERY_FAILURES = 5, /* failed heartbeats per log line */
	REMARK_BYTES = 1000,    /* maximum for the remark of a running handler … */
	REMARKS_BYTES = 65536,  /* … and, roughly, for all remarks in a heartbeat */
};

/* One heartbeat: the message and its answer. Guarded by the worker's lock once it is sent. */
struct beat {
	struct reeve_worker *worker;
	Reeve__V1__HeartbeatRequest request;
	Reeve__V1__Attempt *attempts;
	Reeve__V1__Attempt **held;
	int64_t *fetch_ids;
	Reeve__V1__Remark *remarks;
	Reeve__V1__Remark **told;
	struct accepts *accepts; /* has the types in the message; NULL: it has none */
	int64_t sent_ms;
	bool done;
	struct rpc_answer answer;
};

/* Returns true if the heartbeat must carry the attempt's remark. Once an attempt has ended, its result has the
 * remark. */
static bool goes_out(const struct attempt *attempt)
{
	return attempt->remark && attempt->place == PLACE_TAKEN;
}

/* Copies the remarks of running handlers, up to REMARKS_BYTES. Called with the lock. */
static void add_remarks(struct beat *beat)
{
	struct reeve_worker *worker = beat->worker;
	size_t count = 0, bytes = 0, i = 0;
	struct attempt *attempt;

	for (attempt = worker->held; attempt; attempt = attempt->hh.next)
		count += goes_out(attempt);
	beat->remarks = malloc((count + 1) * sizeof *beat->remarks);
	beat->told = malloc((count + 1) * sizeof *beat->told);
	if (!beat->remarks || !beat->told)
		abort();
	for (attempt = worker->held; attempt && bytes < REMARKS_BYTES; attempt = attempt->hh.next) {
		if (!goes_out(attempt))
			continue;
		reeve__v1__remark__init(&beat->remarks[i]);
		beat->remarks[i].task_id = attempt->key.task_id;
		beat->remarks[i].token = attempt->key.token;
		beat->remarks[i].text = strdup(attempt->remark);
		if (!beat->remarks[i].text)
			abort();
		bytes += strlen(attempt->remark);
		attempt->remark_sent = true;
		beat->told[i] = &beat->remarks[i];
		i++;
	}
	beat->request.remarks = beat->told;
	beat->request.n_remarks = i;
}

/* Frees the acknowledged remarks, except those that changed since the heartbeat was sent. Called with the lock. */
static void forget_remarks(const struct beat *beat)
{
	for (size_t i = 0; i < beat->request.n_remarks; i++) {
		struct attempt *attempt = held_find(beat->worker, beat->remarks[i].task_id, beat->remarks[i].token);

		if (attempt && attempt->remark_sent) {
			free(attempt->remark);
			attempt->remark = NULL;
		}
	}
}

/* Takes the snapshot. Called with the lock. */
static void compose(struct beat *beat)
{
	struct reeve_worker *worker = beat->worker;
	size_t count = HASH_COUNT(worker->held), i = 0;
	const struct attempt *attempt;
	const struct fetch *fetch;

	reeve__v1__heartbeat_request__init(&beat->request);
	beat->attempts = malloc((count + 1) * sizeof *beat->attempts);
	beat->held = malloc((count + 1) * sizeof *beat->held);
	beat->fetch_ids = malloc((worker->fetches.waiting_count + 1) * sizeof *beat->fetch_ids);
	if (!beat->attempts || !beat->held || !beat->fetch_ids)
		abort();
	for (attempt = worker->held; attempt; attempt = attempt->hh.next, i++) {
		reeve__v1__attempt__init(&beat->attempts[i]);
		beat->attempts[i].task_id = attempt->key.task_id;
		beat->attempts[i].token = attempt->key.token;
		beat->held[i] = &beat->attempts[i];
	}
	beat->request.held = beat->held;
	beat->request.n_held = count;
	for (fetch = worker->fetches.waiting; fetch; fetch = fetch->next)
		beat->fetch_ids[beat->request.n_waiting_fetch_ids++] = fetch->id;
	beat->request.waiting_fetch_ids = beat->fetch_ids;
	add_remarks(beat);
	beat->request.incarnation = worker->incarnation;
	beat->request.seq = ++worker->heartbeat_seq;
	beat->request.highest_fetch_id = worker->fetches.highest_id;
	beat->request.running = (uint32_t)slots_busy(worker);
	beat->request.state = worker->draining ? REEVE__V1__WORKER_STATE__WORKER_STATE_DRAINING
	                      : worker->paused ? REEVE__V1__WORKER_STATE__WORKER_STATE_PAUSED
	                                       : REEVE__V1__WORKER_STATE__WORKER_STATE_RUNNING;
	beat->request.concurrency = (uint32_t)worker->slots.wanted;
	beat->request.succeeded = worker->succeeded;
	beat->request.failed_attempts = worker->failed;
	if (!worker->accepts_sent) {
		beat->accepts = accepts_use(worker->accepts);
		beat->request.types = (const char **)beat->accepts->types.list;
		beat->request.n_types = beat->accepts->types.count;
	}
	beat->sent_ms = clock_monotonic_ms();
	worker->heartbeat_sent_ms = beat->sent_ms;
	worker->heartbeat_by_ms = INT64_MAX;
}

static void beat_clear(struct beat *beat)
{
	free(beat->attempts);
	free(beat->held);
	free(beat->fetch_ids);
	for (size_t i = 0; i < beat->request.n_remarks; i++)
		free((char *)beat->remarks[i].text);
	free(beat->remarks);
	free(beat->told);
	accepts_drop(beat->accepts);
	if (beat->answer.response)
		protobuf_c_message_free_unpacked(beat->answer.response, NULL);
}

static void beat_done(void *arg, struct rpc_answer *answer)
{
	struct beat *beat = arg;
	struct reeve_worker *worker = beat->worker;

	pthread_mutex_lock(&worker->lock);
	beat->answer = *answer;
	beat->done = true;
	pthread_cond_broadcast(&worker->heartbeat_cond);
	pthread_mutex_unlock(&worker->lock);
}

/* Applies the answer. Called with the lock. Returns when to send the next heartbeat. */
static int64_t apply(struct beat *beat)
{
	struct reeve_worker *worker = beat->worker;
	const struct rpc_answer *answer = &beat->answer;
	const Reeve__V1__HeartbeatResponse *response = (const Reeve__V1__HeartbeatResponse *)answer->response;
	int64_t now_ms = clock_monotonic_ms(), next_ms = beat->sent_ms + worker->heartbeat_ms;

	if (worker->phase != PHASE_SERVING || worker->incarnation != beat->request.incarnation)
		return now_ms;
	if (answer->code == STATUS(FAILED_PRECONDITION) || answer->code == STATUS(NOT_FOUND)) {
		session_lost(worker, answer->message);
		return now_ms;
	}
	if (answer->code != STATUS(OK)) {
		if (answer->code != STATUS(CANCELLED) && worker->heartbeat_failures++ % LOG_EVERY_FAILURES == 0)
			log_warn(worker->object, "heartbeat %lld failed, the lease %s %lld ms: %s",
			    (long long)beat->request.seq, lease_ends(worker, now_ms),
			    llabs((long long)(worker->lease_until_ms - now_ms)), answer->message);
		if (now_ms >= next_ms) /* it failed only after its full timeout */
			return now_ms;
		return now_ms + (worker->heartbeat_ms < FAILED_REST_MS ? worker->heartbeat_ms : FAILED_REST_MS);
	}
	if (response->lost) {
		session_lost(worker, "the manager has counted it as lost");
		return now_ms;
	}
	if (worker->heartbeat_failures) {
		/* A manager, or its database, is back. Send unacknowledged results now, before the manager reclaims attempts
		 * whose time ended during the outage. */
		backoff_clear(&worker->report_rest);
		backoff_clear(&worker->fetch_rest);
		worker_wake(worker);
	}
	worker->heartbeat_failures = 0;
	forget_remarks(beat);
	worker->accepts_sent |= beat->accepts == worker->accepts;
	session_renew(worker, beat->sent_ms);
	commands_apply(worker, response->commands, response->n_commands, true);
	return next_ms;
}

/* Sends one heartbeat and waits for its answer, or for the end of the worker or incarnation. Called with the lock, and
 * returns with it. Returns when to send the next heartbeat. */
static int64_t beat_once(struct reeve_worker *worker)
{
	struct beat beat = {.worker = worker};
	struct rpc_call_options options = {.timeout_ms = worker->heartbeat_ms};
	rpc_call_id call;
	bool cancelled = false;
	int64_t next_ms;

	compose(&beat);
	pthread_mutex_unlock(&worker->lock);
	call = rpc_client_start(worker->rpc, &reeve__v1__worker_service__descriptor, "Heartbeat", &beat.request.base,
	    &options, beat_done, &beat);
	pthread_mutex_lock(&worker->lock);
	while (!beat.done) {
		if ((worker->heartbeat_end || worker->phase != PHASE_SERVING) && !cancelled) {
			cancelled = true;
			pthread_mutex_unlock(&worker->lock);
			rpc_client_cancel(worker->rpc, call);
			pthread_mutex_lock(&worker->lock);
			continue;
		}
		pthread_cond_wait(&worker->heartbeat_cond, &worker->lock);
	}
	next_ms = apply(&beat);
	beat_clear(&beat);
	return next_ms;
}

static void wait_until(struct reeve_worker *worker, int64_t until_ms)
{
	struct timespec until = {.tv_sec = until_ms / 1000, .tv_nsec = until_ms % 1000 * 1000000};

	pthread_cond_timedwait(&worker->heartbeat_cond, &worker->lock, &until);
}

static void *heartbeat_main(void *arg)
{
	struct reeve_worker *worker = arg;
	int64_t incarnation = 0, next_ms = 0;

	pthread_mutex_lock(&worker->lock);
	while (!worker->heartbeat_end) {
		if (worker->phase != PHASE_SERVING) {
			pthread_cond_wait(&worker->heartbeat_cond, &worker->lock);
			continue;
		}
		if (incarnation != worker->incarnation) {
			/* Register started the lease. */
			incarnation = worker->incarnation;
			next_ms = worker->lease_until_ms - worker->lease_ms + worker->heartbeat_ms;
		}
		int64_t due_ms = worker->heartbeat_failures || worker->heartbeat_by_ms > next_ms ? next_ms : worker->heartbeat_by_ms;

		if (clock_monotonic_ms() < due_ms)
			wait_until(worker, due_ms);
		else
			next_ms = beat_once(worker);
	}
	pthread_mutex_unlock(&worker->lock);
	return NULL;
}

bool heartbeat_start(struct reeve_worker *worker, struct reeve_error *error)
{
	sigset_t all, before;
	int problem;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	problem = pthread_create(&worker->heartbeat_thread, NULL, heartbeat_main, worker);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (problem)
		return error_set(error, STATUS(RESOURCE_EXHAUSTED), "cannot start a thread: %s", strerror(problem));
	return true;
}

void heartbeat_soon(struct reeve_worker *worker, bool urgent)
{
	int64_t by_ms = urgent ? clock_monotonic_ms() : worker->heartbeat_sent_ms + NEWS_REST_MS;

	if (by_ms >= worker->heartbeat_by_ms)
		return;
	worker->heartbeat_by_ms = by_ms;
	pthread_cond_broadcast(&worker->heartbeat_cond);
}

void heartbeat_remark(struct attempt *attempt, const char *remark)
{
	struct reeve_worker *worker = attempt->worker;
	size_t length = remark ? strlen(remark) : 0;
	char *text;

	if (!worker)
		return;
	text = utf8_repair(remark ? remark : "", utf8_cut(remark, length < REMARK_BYTES ? length : REMARK_BYTES));
	text[utf8_cut(text, strlen(text) < REMARK_BYTES ? strlen(text) : REMARK_BYTES)] = '\0';
	pthread_mutex_lock(&worker->lock);
	free(attempt->remark);
	attempt->remark = text;
	attempt->remark_sent = false;
	pthread_mutex_unlock(&worker->lock);
}

void heartbeat_stop(struct reeve_worker *worker)
{
	pthread_mutex_lock(&worker->lock);
	worker->heartbeat_end = true;
	pthread_cond_broadcast(&worker->heartbeat_cond);
	pthread_mutex_unlock(&worker->lock);
	pthread_join(worker->heartbeat_thread, NULL);
}
