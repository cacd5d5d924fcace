/*
 * Register, Leave, and the end of an incarnation.
 *
 * A worker that has lost its incarnation first stops every handler and gives up every Fetch. It registers again only
 * when none of its handlers runs. Unacknowledged results are kept: managers accept them by their tokens, whichever
 * incarnation reports them.
 */
#include "worker/session.h"

#include "common/clock.h"
#include "common/log.h"
#include "worker/heartbeat.h"
#include "worker/held.h"

#include <reeve/v1/worker.pb-c.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum {
	REGISTER_TIMEOUT_MS = 5 * 1000,
	LEAVE_TIMEOUT_MS = 5 * 1000,
	REGISTER_LAST_MS = 1000, /* how long a stopping worker waits for the answer, so that it can leave */
	NAME_REST_MS = 1000,     /* maximum delay before it tries a name again that is in use */
	LOG_EVERY_FAILURES = 10, /* failed registrations per log line */
	/* Defaults for what a manager leaves out. */
	LEASE_MS = 15 * 1000,
	HEARTBEAT_MS = 4 * 1000,
	RESULT_MAX_BYTES = 1024 * 1024,
};

/* A Register in flight. */
struct registration {
	struct reeve_worker *worker;
	struct accepts *accepts; /* the types that it registers */
	int64_t sent_ms;
};

void session_renew(struct reeve_worker *worker, int64_t sent_ms)
{
	int64_t now_ms = clock_monotonic_ms();
	bool stood = !lease_runs(worker->lease, now_ms);

	worker->lease_until_ms = sent_ms + worker->lease_ms;
	lease_set(worker->lease, worker->lease_until_ms, worker->lease_ms);
	if (worker->supervisor)
		supervisor_client_renewed(worker->supervisor);
	if (!lease_runs(worker->lease, now_ms))
		return;
	if (worker->lease_stopped)
		log_info(worker->object, "the lease is renewed: going on");
	worker->lease_stopped = false;
	if (stood) {
		slots_wake(worker, (int64_t)worker->ready_count * HANDLER_COST_FULL_US);
		worker_wake(worker);
	}
}

const char *lease_ends(const struct reeve_worker *worker, int64_t now_ms)
{
	return worker->lease_until_ms < now_ms ? "has been over for" : "ends in";
}

void session_apply_lease(struct reeve_worker *worker, int64_t now_ms)
{
	if (worker->phase != PHASE_SERVING || worker->lease_stopped || lease_runs(worker->lease, now_ms))
		return;
	worker->lease_stopped = true;
	log_warn(worker->object,
	    "no heartbeat sent in the last %lld ms was answered, the lease %s %lld ms: stopping the %zu task%s that run%s",
	    (long long)(worker->lease_ms - (worker->lease_until_ms - now_ms)), lease_ends(worker, now_ms),
	    llabs((long long)(worker->lease_until_ms - now_ms)), worker->taken_count, worker->taken_count == 1 ? "" : "s",
	    worker->taken_count == 1 ? "s" : "");
	held_stop_taken(worker, STOP_LEASE);
}

static void begin(struct reeve_worker *worker, const Reeve__V1__RegisterResponse *response,
    const struct registration *registration)
{
	int64_t sent_ms = registration->sent_ms;

	worker->incarnation = response->incarnation;
	worker->lease_ms = response->lease_ms ? response->lease_ms : LEASE_MS;
	worker->heartbeat_ms = response->heartbeat_ms ? response->heartbeat_ms : HEARTBEAT_MS;
	worker->max_result_bytes = response->max_result_bytes ? response->max_result_bytes : RESULT_MAX_BYTES;
	worker->phase = PHASE_SERVING;
	worker->heartbeat_seq = 0;
	worker->heartbeat_sent_ms = sent_ms;
	worker->heartbeat_by_ms = INT64_MAX;
	fetches_reset(&worker->fetches);
	backoff_clear(&worker->register_rest);
	backoff_clear(&worker->fetch_rest);
	worker->register_failures = 0;
	worker->name_taken = false;
	worker->lease_stopped = false;
	session_renew(worker, sent_ms);
	worker->accepts_sent = worker->accepts == registration->accepts;
	if (!worker->accepts_sent)
		heartbeat_soon(worker, true);
	pthread_cond_broadcast(&worker->heartbeat_cond);
	log_info(worker->object, "registered as incarnation %lld", (long long)worker->incarnation);
}

/* Returns true if registering again after this answer would be pointless. */
static bool is_refusal(reeve_status code)
{
	return code == STATUS(INVALID_ARGUMENT) || code == STATUS(UNAUTHENTICATED) ||
	       code == STATUS(PERMISSION_DENIED) || code == STATUS(UNIMPLEMENTED) || code == STATUS(NOT_FOUND) ||
	       code == STATUS(FAILED_PRECONDITION);
}

static void register_failed(struct reeve_worker *worker, const struct rpc_answer *answer)
{
	if (answer->code == STATUS(ALREADY_EXISTS)) { /* perhaps our own previous incarnation, not yet marked lost */
		if (!worker->name_taken)
			log_warn(worker->object, "cannot register yet: %s", answer->message);
		worker->name_taken = true;
		backoff_fail(&worker->register_rest, clock_monotonic_ms());
		if (worker->register_rest.delay_ms > NAME_REST_MS) /* serve soon after the old lease's end */
			worker->register_rest.until_ms = clock_monotonic_ms() + NAME_REST_MS;
		return;
	}
	if (is_refusal(answer->code)) {
		worker->refused = true;
		worker->exit_code = EXIT_REFUSED;
		error_set(&worker->error, answer->code, "the manager refuses this worker: %s", answer->message);
		log_error(worker->object, "%s", worker->error.message);
		return;
	}
	if (worker->register_failures++ % LOG_EVERY_FAILURES == 0)
		log_warn(worker->object, "cannot register at %s, trying again: %s", worker->managers, answer->message);
	backoff_fail(&worker->register_rest, clock_monotonic_ms());
}

static void register_done(void *arg, struct rpc_answer *answer)
{
	struct registration *registration = arg;
	struct reeve_worker *worker = registration->worker;
	const Reeve__V1__RegisterResponse *response = (const Reeve__V1__RegisterResponse *)answer->response;

	pthread_mutex_lock(&worker->lock);
	worker->registering = false;
	worker->register_call = 0;
	if (answer->code == STATUS(OK))
		begin(worker, response, registration);
	else if (answer->code != STATUS(CANCELLED))
		register_failed(worker, answer);
	accepts_drop(registration->accepts);
	pthread_mutex_unlock(&worker->lock);
	if (answer->response)
		protobuf_c_message_free_unpacked(answer->response, NULL);
	free(registration);
	worker_wake(worker);
}

static void start_register(
    struct reeve_worker *worker, struct accepts *accepts, uint32_t concurrency, int64_t previous)
{
	static char version[] = REEVE_VERSION;
	Reeve__V1__RegisterRequest request = REEVE__V1__REGISTER_REQUEST__INIT;
	struct rpc_call_options options = {.timeout_ms = REGISTER_TIMEOUT_MS};
	struct registration *registration = malloc(sizeof *registration);
	rpc_call_id call;

	if (!registration)
		abort();
	*registration = (struct registration){worker, accepts, clock_monotonic_ms()};
	request.name = worker->name;
	request.host = worker->host;
	request.pid = getpid();
	request.concurrency = concurrency;
	request.queues = (const char **)worker->queues.list;
	request.n_queues = worker->queues.count;
	request.types = (const char **)accepts->types.list;
	request.n_types = accepts->types.count;
	request.version = version;
	request.previous = previous;
	call = rpc_client_start(worker->rpc, &reeve__v1__worker_service__descriptor, "Register", &request.base,
	    &options, register_done, registration);
	pthread_mutex_lock(&worker->lock);
	if (worker->registering)
		worker->register_call = call;
	pthread_mutex_unlock(&worker->lock);
}

/* Gives up the Register in flight of a stopping worker. If it has reached a manager, waits up to REGISTER_LAST_MS for
 * the answer, so that the worker can leave; otherwise managers would consider it alive until its lease ends. */
static void give_register_up(struct reeve_worker *worker)
{
	int64_t now_ms = clock_monotonic_ms();
	rpc_call_id call = 0;

	pthread_mutex_lock(&worker->lock);
	if (worker->phase == PHASE_REGISTERING && worker->draining && !worker->register_given_up)
		call = worker->register_call;
	if (call && !worker->register_until_ms)
		worker->register_until_ms = now_ms + REGISTER_LAST_MS;
	bool late = now_ms >= worker->register_until_ms;
	pthread_mutex_unlock(&worker->lock);
	if (!call || (!late && rpc_client_alive(worker->rpc, 0)))
		return;
	pthread_mutex_lock(&worker->lock);
	worker->register_given_up = true;
	pthread_mutex_unlock(&worker->lock);
	rpc_client_cancel(worker->rpc, call);
}

void session_step(struct reeve_worker *worker)
{
	struct accepts *accepts = NULL;
	uint32_t concurrency = 0;
	int64_t previous = 0;

	give_register_up(worker);
	pthread_mutex_lock(&worker->lock);
	if (worker->phase == PHASE_LOST && worker_unfinished(worker) == 0)
		worker->phase = PHASE_REGISTERING;
	if (worker->phase == PHASE_REGISTERING && !worker->draining && !worker->registering && !worker->refused &&
	    clock_monotonic_ms() >= worker->register_rest.until_ms) {
		worker->registering = true;
		accepts = accepts_use(worker->accepts);
		concurrency = (uint32_t)worker->slots.wanted;
		previous = worker->incarnation;
	}
	pthread_mutex_unlock(&worker->lock);
	if (accepts)
		start_register(worker, accepts, concurrency, previous);
}

void session_lost(struct reeve_worker *worker, const char *why)
{
	struct fetch *fetch;

	if (worker->phase != PHASE_SERVING)
		return;
	size_t unfinished = worker_unfinished(worker);
	log_warn(worker->object, "%s; stopping %zu task%s", why, unfinished, unfinished == 1 ? "" : "s");
	worker->phase = PHASE_LOST;
	for (fetch = worker->fetches.waiting; fetch; fetch = fetch->next)
		if (fetch->call &&
		    worker->stale_count < (int)(sizeof worker->stale_calls / sizeof *worker->stale_calls))
			worker->stale_calls[worker->stale_count++] = fetch->call;
	fetches_reset(&worker->fetches);
	held_stop_all(worker, STOP_LOST);
	pthread_cond_broadcast(&worker->heartbeat_cond);
	worker_wake(worker);
}

void session_leave(struct reeve_worker *worker)
{
	static char reason[] = "stopped";
	Reeve__V1__LeaveRequest request = REEVE__V1__LEAVE_REQUEST__INIT;
	struct rpc_call_options options = {.timeout_ms = LEAVE_TIMEOUT_MS};
	struct reeve_error error;
	ProtobufCMessage *response;

	request.incarnation = worker->incarnation;
	request.reason = reason;
	response = rpc_client_call(
	    worker->rpc, &reeve__v1__worker_service__descriptor, "Leave", &request.base, &options, &error);
	if (response)
		protobuf_c_message_free_unpacked(response, NULL);
	else
		log_warn(worker->object, "cannot leave in good order: %s", error.message);
}
