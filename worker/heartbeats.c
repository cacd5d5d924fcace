#include "worker/heartbeats.h"

#include "common/clock.h"
#include "common/log.h"
#include "common/mem.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
	FAILED_RETRY_MS = 500,  /* delay after a heartbeat that failed at once */
	LOG_EVERY_FAILURES = 5, /* failed heartbeats per log line */
};

/* One heartbeat: the message and its answer. Guarded by the worker's lock once it is sent. */
struct beat {
	struct heartbeats *heartbeats;
	Reeve__V1__HeartbeatRequest request;
	Reeve__V1__Attempt *attempts;
	Reeve__V1__Attempt **attempt_pointers;
	int64_t *fetch_ids;
	struct accepts *accepts; /* has the types in the message; NULL: it has none */
	struct counts_sent counts;
	int64_t sent_ms;
	bool done;
	struct rpc_answer answer;
};

/* Adds the attempts that the worker holds and the Fetches that it waits for. Called with the lock. */
static void add_in_flight(struct beat *beat)
{
	const struct fetches *fetches = beat->heartbeats->fetches;
	const struct attempt *attempt = beat->heartbeats->in_flight->all;
	size_t count = HASH_COUNT(beat->heartbeats->in_flight->all);
	const struct fetch *fetch;

	beat->attempts = mem_malloc((count + 1) * sizeof *beat->attempts);
	beat->attempt_pointers = mem_malloc((count + 1) * sizeof *beat->attempt_pointers);
	beat->fetch_ids = mem_malloc((fetches->waiting_count + 1) * sizeof *beat->fetch_ids);
	for (size_t i = 0; attempt; attempt = attempt->hh.next, i++) {
		reeve__v1__attempt__init(&beat->attempts[i]);
		beat->attempts[i].task_id = attempt->key.task_id;
		beat->attempts[i].token = attempt->key.token;
		beat->attempt_pointers[i] = &beat->attempts[i];
	}
	beat->request.in_flight = beat->attempt_pointers;
	beat->request.n_in_flight = count;
	for (fetch = fetches->waiting; fetch; fetch = fetch->next)
		beat->fetch_ids[beat->request.n_waiting_fetch_ids++] = fetch->id;
	beat->request.waiting_fetch_ids = beat->fetch_ids;
	beat->request.highest_fetch_id = fetches->highest_id;
}

static Reeve__V1__WorkerMode mode_of(const struct life *life)
{
	return life_draining(life)       ? REEVE__V1__WORKER_MODE__WORKER_MODE_DRAINING
	    : life->phase == LIFE_PAUSED ? REEVE__V1__WORKER_MODE__WORKER_MODE_PAUSED
	                                 : REEVE__V1__WORKER_MODE__WORKER_MODE_RUNNING;
}

/* Takes the snapshot. Called with the lock. */
static void compose(struct beat *beat)
{
	struct heartbeats *heartbeats = beat->heartbeats;
	Reeve__V1__HeartbeatRequest *request = &beat->request;

	reeve__v1__heartbeat_request__init(request);
	add_in_flight(beat);
	request->incarnation = heartbeats->incarnation;
	request->seq = ++heartbeats->seq;
	request->running = (uint32_t)slots_busy(heartbeats->slots);
	request->mode = mode_of(heartbeats->life);
	request->concurrency = (uint32_t)heartbeats->slots->concurrency;
	request->no_slots = !heartbeats->slots->concurrency;
	request->completed = heartbeats->in_flight->completed;
	request->failed = heartbeats->in_flight->failed;
	counts_send(&heartbeats->in_flight->counts, &beat->counts);
	request->counts = beat->counts.list;
	request->n_counts = beat->counts.count;
	if (!heartbeats->handlers->types_sent) {
		beat->accepts = accepts_use(heartbeats->handlers->accepts);
		request->types = beat->accepts->types.list;
		request->n_types = beat->accepts->types.count;
	}
	beat->sent_ms = clock_monotonic_ms();
	heartbeat_timer_sent(heartbeats->timer, beat->sent_ms);
}

static void beat_clear(struct beat *beat)
{
	free(beat->attempts);
	free(beat->attempt_pointers);
	free(beat->fetch_ids);
	accepts_drop(beat->accepts);
	if (beat->answer.response)
		protobuf_c_message_free_unpacked(beat->answer.response, NULL);
}

static void beat_done(void *arg, struct rpc_answer *answer)
{
	struct beat *beat = arg;
	struct shared *shared = beat->heartbeats->shared;

	shared_lock(shared);
	beat->answer = *answer;
	beat->done = true;
	heartbeat_timer_wake(beat->heartbeats->timer);
	shared_unlock(shared);
}

/* Handles a heartbeat that failed. Returns when to send the next one. */
static int64_t beat_failed(const struct beat *beat, int64_t now_ms, int64_t next_ms)
{
	struct heartbeats *heartbeats = beat->heartbeats;
	struct session *session = heartbeats->session;

	if (beat->answer.code == STATUS(UNAUTHENTICATED))
		session_unauthenticated(session, beat->answer.message);
	else if (beat->answer.code != STATUS(CANCELLED) && heartbeats->failures++ % LOG_EVERY_FAILURES == 0)
		log_warn(heartbeats->shared->object, "heartbeat %lld failed, the lease %s %lld ms: %s",
		    (long long)beat->request.seq, session_lease_ends(session, now_ms),
		    llabs((long long)(session->lease_until_ms - now_ms)), beat->answer.message);
	if (now_ms >= next_ms) /* it failed only after its full timeout */
		return now_ms;
	return now_ms + (session->heartbeat_ms < FAILED_RETRY_MS ? session->heartbeat_ms : FAILED_RETRY_MS);
}

/* Applies the answer. Called with the lock. Returns when to send the next heartbeat. */
static int64_t apply(struct beat *beat)
{
	struct heartbeats *heartbeats = beat->heartbeats;
	struct session *session = heartbeats->session;
	const struct rpc_answer *answer = &beat->answer;
	const Reeve__V1__HeartbeatResponse *response = (const Reeve__V1__HeartbeatResponse *)answer->response;
	int64_t now_ms = clock_monotonic_ms(), next_ms = beat->sent_ms + session->heartbeat_ms;

	if (!session_serves(session, beat->request.incarnation))
		return now_ms;
	if (answer->code == STATUS(FAILED_PRECONDITION) || answer->code == STATUS(NOT_FOUND) ||
	    answer->code == STATUS(UNIMPLEMENTED)) {
		session_lost(session, answer->message);
		return now_ms;
	}
	if (answer->code != STATUS(OK))
		return beat_failed(beat, now_ms, next_ms);
	if (response->lost) {
		session_lost(session, "the manager has counted it as lost");
		return now_ms;
	}
	if (heartbeats->failures) {
		/* A manager, or its database, is back. Send unacknowledged results now, before the manager reclaims attempts
		 * whose time ended during the outage. */
		backoff_clear(&heartbeats->reporter->retry);
		backoff_clear(&heartbeats->fetches->retry);
		shared_wake(heartbeats->shared);
	}
	heartbeats->failures = 0;
	counts_sent_acked(&heartbeats->in_flight->counts, &beat->counts);
	heartbeats->handlers->types_sent |= beat->accepts == heartbeats->handlers->accepts;
	session_renew(session, beat->sent_ms);
	commands_apply_all(heartbeats->commands, response->commands, response->n_commands, beat->sent_ms);
	return next_ms;
}

/* Sends one heartbeat and waits for its answer, or for the end of the worker or incarnation. Called with the lock, and
 * returns with it. Returns when to send the next heartbeat. */
static int64_t beat_once(struct heartbeats *heartbeats)
{
	struct beat beat = {.heartbeats = heartbeats};
	struct rpc_call_options options = {.timeout_ms = heartbeats->session->heartbeat_ms};
	struct shared *shared = heartbeats->shared;
	rpc_call_id call;
	bool cancelled = false;
	int64_t next_ms;

	compose(&beat);
	shared_unlock(shared);
	call = rpc_client_start(shared->rpc, &reeve__v1__worker_service__descriptor, "Heartbeat", &beat.request.base,
	    &options, beat_done, &beat);
	shared_lock(shared);
	while (!beat.done) {
		if ((heartbeats->end || heartbeats->session->phase != SESSION_SERVING) && !cancelled) {
			cancelled = true;
			shared_unlock(shared);
			rpc_client_cancel(shared->rpc, call);
			shared_lock(shared);
			continue;
		}
		pthread_cond_wait(&heartbeats->timer->changed, &shared->lock);
	}
	next_ms = apply(&beat);
	beat_clear(&beat);
	return next_ms;
}

/* Waits until something has changed, or until the time has come. Called with the lock. */
static void wait_until(struct heartbeats *heartbeats, int64_t until_ms)
{
	struct timespec until = {.tv_sec = until_ms / 1000, .tv_nsec = until_ms % 1000 * 1000000};

	pthread_cond_timedwait(&heartbeats->timer->changed, &heartbeats->shared->lock, &until);
}

/* Returns when the next heartbeat is due. News must wait after a failure. */
static int64_t due_ms(const struct heartbeats *heartbeats)
{
	int64_t early_ms = heartbeats->timer->early_ms;

	return heartbeats->failures || early_ms > heartbeats->next_ms ? heartbeats->next_ms : early_ms;
}

static void *heartbeats_main(void *arg)
{
	struct heartbeats *heartbeats = arg;
	const struct session *session = heartbeats->session;

	shared_lock(heartbeats->shared);
	while (!heartbeats->end) {
		if (session->phase != SESSION_SERVING) {
			pthread_cond_wait(&heartbeats->timer->changed, &heartbeats->shared->lock);
			continue;
		}
		if (heartbeats->incarnation != session->incarnation) {
			heartbeats->incarnation = session->incarnation;
			heartbeats->seq = 0;
			counts_resend(&heartbeats->in_flight->counts);
			heartbeats->next_ms =
			    session->lease_until_ms - session->lease_ms + session->heartbeat_ms; /* Register started the lease */
		}
		if (clock_monotonic_ms() < due_ms(heartbeats))
			wait_until(heartbeats, due_ms(heartbeats));
		else
			heartbeats->next_ms = beat_once(heartbeats);
	}
	shared_unlock(heartbeats->shared);
	return NULL;
}

bool heartbeats_start(struct heartbeats *heartbeats, struct reeve_error *error)
{
	sigset_t all, before;
	int problem;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	problem = pthread_create(&heartbeats->thread, NULL, heartbeats_main, heartbeats);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (problem)
		return error_set(error, STATUS(RESOURCE_EXHAUSTED), "cannot start a thread: %s", strerror(problem));
	return true;
}

void heartbeats_stop(struct heartbeats *heartbeats)
{
	shared_lock(heartbeats->shared);
	heartbeats->end = true;
	heartbeat_timer_wake(heartbeats->timer);
	shared_unlock(heartbeats->shared);
	pthread_join(heartbeats->thread, NULL);
}
