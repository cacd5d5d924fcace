/*
 * Calls of Extend. The answer arrives on a thread of the client and finds the attempt by its key, under the worker's
 * lock, because the attempt may have ended. Calls start under extensions->lock, which extensions_end takes before the
 * client is destroyed.
 */
#include "worker/extensions.h"

#include "common/clock.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/rpc/client.h"

#include <stdlib.h>

enum { EXTEND_TIMEOUT_MS = 5 * 1000 };

/* A function that waits for its answer. Guarded by the worker's lock. */
struct waiter {
	pthread_cond_t answered;
	bool done, granted;
};

/* A call in flight. */
struct extension {
	struct extensions *extensions;
	struct attempt_key key;
	int64_t sent_ms;
	struct waiter *waiter; /* NULL: no function waits */
};

void extensions_init(
    struct extensions *extensions, struct shared *shared, struct session *session, struct in_flight *in_flight)
{
	*extensions = (struct extensions){.shared = shared, .session = session, .in_flight = in_flight};
	pthread_mutex_init(&extensions->lock, NULL);
}

void extensions_destroy(struct extensions *extensions)
{
	pthread_mutex_destroy(&extensions->lock);
}

/* Moves the attempt's timeout and expiry to later times. False: the attempt has ended or must stop. Called with the
 * lock. */
static bool apply(struct attempt *attempt, int64_t sent_ms, const Reeve__V1__ExtendResponse *response)
{
	int64_t end_ms = sent_ms + response->run_ms, expires_ms = sent_ms + response->expires_in_ms, last_ms;

	if (attempt->place != PLACE_TAKEN || atomic_load(&attempt->stop) != STOP_NONE)
		return false;
	if (response->expires_in_ms > 0 && expires_ms > atomic_load(&attempt->expires_ms))
		atomic_store(&attempt->expires_ms, expires_ms);
	last_ms = attempt_last_moment(attempt);
	if (end_ms > last_ms)
		end_ms = last_ms;
	if (response->run_ms > 0 && end_ms > atomic_load(&attempt->timeout_at_ms))
		atomic_store(&attempt->timeout_at_ms, end_ms);
	return true;
}

static void extend_done(void *arg, struct rpc_answer *answer)
{
	struct extension *extension = arg;
	struct shared *shared = extension->extensions->shared;
	struct attempt *attempt;
	bool granted = false;
	char name[48];

	shared_lock(shared);
	attempt = in_flight_find(extension->extensions->in_flight, extension->key.task_id, extension->key.token);
	if (attempt && answer->code == STATUS(OK))
		granted = apply(attempt, extension->sent_ms, (const Reeve__V1__ExtendResponse *)answer->response);
	else if (attempt && answer->code != STATUS(CANCELLED)) {
		if (!attempt->refusal_logged)
			log_info(attempt_name(attempt, name), "may not run longer: %s", answer->message);
		attempt->refusal_logged = true;
	}
	if (extension->waiter) {
		extension->waiter->granted = granted;
		extension->waiter->done = true;
		pthread_cond_signal(&extension->waiter->answered);
	} else if (attempt) {
		atomic_store(&attempt->extending, false);
		if (attempt->place == PLACE_TAKEN)
			attempt_notify(attempt);
	}
	shared_unlock(shared);
	if (answer->response)
		protobuf_c_message_free_unpacked(answer->response, NULL);
	free(extension);
}

/* Starts the call. False: extensions_end was called. */
static bool start(struct attempt *attempt, int64_t run_ms, struct waiter *waiter)
{
	struct extensions *extensions = attempt->extensions;
	struct shared *shared = extensions->shared;
	Reeve__V1__ExtendRequest request = REEVE__V1__EXTEND_REQUEST__INIT;
	struct rpc_call_options options = {.timeout_ms = EXTEND_TIMEOUT_MS};
	struct extension *extension = mem_malloc(sizeof *extension);
	bool open;

	*extension = (struct extension){extensions, attempt->key, clock_monotonic_ms(), waiter};
	if (waiter) { /* the function must learn in time that its lease ends */
		int64_t left_ms = atomic_load(&shared->lease->stop_ms) - extension->sent_ms;

		options.timeout_ms = left_ms < 1 ? 1 : left_ms < EXTEND_TIMEOUT_MS ? left_ms : EXTEND_TIMEOUT_MS;
	}
	request.task_id = attempt->key.task_id;
	request.token = attempt->key.token;
	request.run_ms = run_ms;
	shared_lock(shared);
	request.incarnation = extensions->session->incarnation;
	shared_unlock(shared);
	pthread_mutex_lock(&extensions->lock);
	open = !extensions->ended;
	if (open)
		rpc_client_start(shared->rpc, &reeve__v1__worker_service__descriptor, "Extend", &request.base, &options,
		    extend_done, extension);
	pthread_mutex_unlock(&extensions->lock);
	if (!open)
		free(extension);
	return open;
}

void extensions_request(struct attempt *attempt, int64_t run_ms)
{
	atomic_store(&attempt->extending, true);
	if (!start(attempt, run_ms, NULL))
		atomic_store(&attempt->extending, false);
}

void extensions_end(struct extensions *extensions)
{
	pthread_mutex_lock(&extensions->lock);
	extensions->ended = true;
	pthread_mutex_unlock(&extensions->lock);
}

bool reeve_attempt_extend(const struct reeve_attempt *public, int64_t run_ms)
{
	struct attempt *attempt = (struct attempt *)public; /* ours; only the handler's view of it is const */
	struct shared *shared = attempt->extensions->shared;
	struct waiter waiter = {.answered = PTHREAD_COND_INITIALIZER};

	if (run_ms <= 0 || reeve_attempt_cancelled(public) || !start(attempt, run_ms, &waiter))
		return false;
	shared_lock(shared);
	while (!waiter.done)
		pthread_cond_wait(&waiter.answered, &shared->lock);
	shared_unlock(shared);
	pthread_cond_destroy(&waiter.answered);
	return waiter.granted;
}
