#include "worker/session.h"

#include "common/clock.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/rpc/client.h"

#include <reeve/v1/worker.pb-c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	REGISTER_TIMEOUT_MS = 5 * 1000,
	LEAVE_TIMEOUT_MS = 5 * 1000,
	REGISTER_LAST_MS = 1000, /* how long a stopping worker waits for the answer, so that it can leave */
	NAME_RETRY_MS = 1000,    /* maximum delay before it tries a name again that is in use */
	LOG_EVERY_FAILURES = 10, /* failed registrations per log line */
	UNAUTHENTICATED_QUIET_MS = 60 * 1000,
	/* Defaults for what a manager leaves out. */
	LEASE_MS = 15 * 1000,
	HEARTBEAT_MS = 4 * 1000,
	RESULT_MAX_BYTES = 1024 * 1024,
};

/* A Register in flight. */
struct registration {
	struct session *session;
	struct accepts *accepts; /* the types that it registers */
	int64_t sent_ms;
};

void session_clear(struct session *session)
{
	free(session->managers);
	token_source_free(&session->token);
	tls_files_free(&session->tls);
	free(session->name);
	names_free(&session->queues);
}

void session_renew(struct session *session, int64_t sent_ms)
{
	struct shared *shared = session->shared;
	int64_t now_ms = clock_monotonic_ms();
	bool was_over = !lease_runs(shared->lease, now_ms);

	session->answered_ms = now_ms;
	session->lease_until_ms = sent_ms + session->lease_ms;
	lease_set(shared->lease, session->lease_until_ms, session->lease_ms);
	if (session->supervisor)
		supervisor_client_renewed(session->supervisor);
	if (!lease_runs(shared->lease, now_ms))
		return;
	if (session->lease_stopped)
		log_info(shared->object, "the lease is renewed: going on");
	session->lease_stopped = false;
	if (was_over) {
		in_flight_wake_slots(session->in_flight, (int64_t)session->in_flight->ready_count * HANDLER_COST_FULL_US);
		shared_wake(shared);
	}
}

const char *session_lease_ends(const struct session *session, int64_t now_ms)
{
	return session->lease_until_ms < now_ms ? "has been over for" : "ends in";
}

void session_check_lease(struct session *session, int64_t now_ms)
{
	size_t running = session->in_flight->taken_count;

	if (session->phase != SESSION_SERVING || session->lease_stopped || lease_runs(session->shared->lease, now_ms))
		return;
	session->lease_stopped = true;
	log_warn(session->shared->object,
	    "no heartbeat sent in the last %lld ms was answered, the lease %s %lld ms: stopping the %zu task%s that "
	    "run%s",
	    (long long)(session->lease_ms - (session->lease_until_ms - now_ms)), session_lease_ends(session, now_ms),
	    llabs((long long)(session->lease_until_ms - now_ms)), running, running == 1 ? "" : "s",
	    running == 1 ? "s" : "");
	in_flight_stop_taken(session->in_flight, STOP_LEASE);
}

/* Returns when the worker must end because no manager answers; INT64_MAX: never. The time until the next heartbeat does
 * not count. */
static int64_t manager_until_ms(const struct session *session)
{
	if (!session->manager_timeout_ms || life_draining(session->life))
		return INT64_MAX;
	return session->answered_ms + session->manager_timeout_ms +
	    (session->phase == SESSION_SERVING ? session->heartbeat_ms : 0);
}

void session_check_manager(struct session *session, int64_t now_ms)
{
	struct reeve_error error;

	if (now_ms < manager_until_ms(session))
		return;
	error_set(&error, STATUS(UNAVAILABLE), "no manager at %s has answered for %lld ms (--manager-timeout)",
	    session->managers, (long long)(now_ms - session->answered_ms));
	log_error(session->shared->object, "%s; stopping", error.message);
	life_fail(session->life, &error, EXIT_NO_MANAGER);
	life_drain(session->life, now_ms);
}

/* Takes the key for credentials; a manager of an older release gives none. */
static void take_key(struct credential_signer *signer, const Reeve__V1__RegisterResponse *response)
{
	const char *at = response->credential_key;

	*signer = (struct credential_signer){.identity = response->identity, .incarnation = response->incarnation};
	signer->known = strlen(at) == 2 * sizeof signer->key;
	for (size_t i = 0; signer->known && i < sizeof signer->key; i++, at += 2)
		signer->known = sscanf(at, "%2hhx", &signer->key[i]) == 1;
}

static void begin(
    struct session *session, const Reeve__V1__RegisterResponse *response, const struct registration *registration)
{
	session->incarnation = response->incarnation;
	session->lease_ms = response->lease_ms ? response->lease_ms : LEASE_MS;
	session->heartbeat_ms = response->heartbeat_ms ? response->heartbeat_ms : HEARTBEAT_MS;
	session->max_result_bytes = response->max_result_bytes ? response->max_result_bytes : RESULT_MAX_BYTES;
	take_key(&session->signer, response);
	session->phase = SESSION_SERVING;
	session->register_failures = 0;
	session->name_taken = false;
	session->lease_stopped = false;
	session->unauthenticated_ms = 0;
	backoff_clear(&session->retry);
	fetches_reset(session->fetches);
	session_renew(session, registration->sent_ms);
	heartbeat_timer_sent(session->timer, registration->sent_ms);
	session->handlers->types_sent = session->handlers->accepts == registration->accepts;
	if (!session->handlers->types_sent)
		heartbeat_timer_soon(session->timer, true);
	heartbeat_timer_wake(session->timer);
	log_info(session->shared->object, "registered as incarnation %lld", (long long)session->incarnation);
}

/* Returns true if registering again after this answer would be pointless. */
static bool is_refusal(reeve_status code)
{
	return code == STATUS(INVALID_ARGUMENT) || code == STATUS(UNAUTHENTICATED) || code == STATUS(PERMISSION_DENIED) ||
	    code == STATUS(UNIMPLEMENTED) || code == STATUS(NOT_FOUND) || code == STATUS(FAILED_PRECONDITION);
}

/* Ends the worker, because the manager refuses it. */
static void refused(struct session *session, reeve_status code, const char *why)
{
	struct reeve_error error;

	error_set(&error, code, "the manager refuses this worker: %s", why);
	log_error(session->shared->object, "%s", error.message);
	life_fail(session->life, &error, EXIT_REFUSED);
	life_drain(session->life, clock_monotonic_ms());
}

void session_unauthenticated(struct session *session, const char *why)
{
	const char *file = rpc_client_token_file(session->shared->rpc);
	int64_t now_ms = clock_monotonic_ms();

	if (!file) {
		if (!session->life->error.code)
			refused(session, STATUS(UNAUTHENTICATED), why);
	} else if (!session->unauthenticated_ms || now_ms - session->unauthenticated_ms >= UNAUTHENTICATED_QUIET_MS) {
		session->unauthenticated_ms = now_ms;
		log_error(session->shared->object, "%s; waiting until %s has another one", why, file);
	}
}

static void register_failed(struct session *session, const struct rpc_answer *answer)
{
	int64_t now_ms = clock_monotonic_ms();

	if (answer->code == STATUS(ALREADY_EXISTS))
		session->answered_ms = now_ms;
	if (answer->code == STATUS(ALREADY_EXISTS)) { /* perhaps our own previous incarnation, not yet marked lost */
		if (!session->name_taken)
			log_warn(session->shared->object, "cannot register yet: %s", answer->message);
		session->name_taken = true;
		backoff_fail(&session->retry, now_ms);
		if (session->retry.delay_ms > NAME_RETRY_MS) /* serve soon after the old lease's end */
			session->retry.until_ms = now_ms + NAME_RETRY_MS;
		return;
	}
	if (answer->code == STATUS(UNAUTHENTICATED) && session->incarnation) {
		session_unauthenticated(session, answer->message);
		backoff_fail(&session->retry, now_ms);
		return;
	}
	if (is_refusal(answer->code)) {
		refused(session, answer->code, answer->message);
		return;
	}
	if (session->register_failures++ % LOG_EVERY_FAILURES == 0)
		log_warn(
		    session->shared->object, "cannot register at %s, trying again: %s", session->managers, answer->message);
	backoff_fail(&session->retry, now_ms);
}

static void register_done(void *arg, struct rpc_answer *answer)
{
	struct registration *registration = arg;
	struct session *session = registration->session;

	shared_lock(session->shared);
	session->phase = SESSION_UNREGISTERED;
	session->register_call = 0;
	if (answer->code == STATUS(OK))
		begin(session, (const Reeve__V1__RegisterResponse *)answer->response, registration);
	else if (answer->code != STATUS(CANCELLED))
		register_failed(session, answer);
	accepts_drop(registration->accepts);
	shared_unlock(session->shared);
	if (answer->response)
		protobuf_c_message_free_unpacked(answer->response, NULL);
	free(registration);
	shared_wake(session->shared);
}

static void start_register(struct session *session, struct accepts *accepts, uint32_t concurrency, int64_t previous)
{
	Reeve__V1__RegisterRequest request = REEVE__V1__REGISTER_REQUEST__INIT;
	struct rpc_call_options options = {.timeout_ms = REGISTER_TIMEOUT_MS};
	struct registration *registration = mem_malloc(sizeof *registration);
	rpc_call_id call;

	*registration = (struct registration){session, accepts, clock_monotonic_ms()};
	request.name = session->name;
	request.host = session->host;
	request.pid = getpid();
	request.concurrency = concurrency;
	request.queues = session->queues.list;
	request.n_queues = session->queues.count;
	request.types = accepts->types.list;
	request.n_types = accepts->types.count;
	request.version = REEVE_VERSION;
	request.previous = previous;
	call = rpc_client_start(session->shared->rpc, &reeve__v1__worker_service__descriptor, "Register", &request.base,
	    &options, register_done, registration);
	shared_lock(session->shared);
	if (session->phase == SESSION_REGISTERING)
		session->register_call = call;
	shared_unlock(session->shared);
}

/* Gives up the Register in flight of a stopping worker. If it has reached a manager, waits up to REGISTER_LAST_MS for
 * the answer, so that the worker can leave; otherwise managers would consider it alive until its lease ends. */
static void give_register_up(struct session *session, rpc_call_id call, bool late)
{
	if (!late && rpc_client_alive(session->shared->rpc, 0))
		return;
	shared_lock(session->shared);
	session->register_call = 0;
	shared_unlock(session->shared);
	rpc_client_cancel(session->shared->rpc, call);
}

void session_step(struct session *session)
{
	int64_t now_ms = clock_monotonic_ms(), previous = 0;
	bool draining, late;
	struct accepts *accepts = NULL;
	uint32_t concurrency = 0;
	rpc_call_id abandoned;

	shared_lock(session->shared);
	draining = life_draining(session->life);
	abandoned = draining ? session->register_call : 0;
	if (abandoned && !session->give_up_ms)
		session->give_up_ms = now_ms + REGISTER_LAST_MS;
	late = now_ms >= session->give_up_ms;
	if (session->phase == SESSION_LOST && in_flight_unfinished(session->in_flight) == 0)
		session->phase = SESSION_UNREGISTERED;
	if (session->phase == SESSION_UNREGISTERED && !draining && now_ms >= session->retry.until_ms) {
		session->phase = SESSION_REGISTERING;
		accepts = accepts_use(session->handlers->accepts);
		concurrency = session->slots->concurrency ? (uint32_t)session->slots->concurrency : 1; /* heartbeats report 0 */
		previous = session->incarnation;
	}
	shared_unlock(session->shared);
	if (abandoned)
		give_register_up(session, abandoned, late);
	if (accepts)
		start_register(session, accepts, concurrency, previous);
}

void session_lost(struct session *session, const char *why)
{
	size_t unfinished = in_flight_unfinished(session->in_flight);

	if (session->phase != SESSION_SERVING)
		return;
	log_warn(session->shared->object, "%s; stopping %zu task%s", why, unfinished, unfinished == 1 ? "" : "s");
	session->phase = SESSION_LOST;
	fetches_abandon(session->fetches);
	in_flight_stop_all(session->in_flight, STOP_LOST);
	slots_end_request(session->slots); /* the managers forget it with the incarnation */
	heartbeat_timer_wake(session->timer);
	shared_wake(session->shared);
}

void session_leave(struct session *session)
{
	Reeve__V1__LeaveRequest request = REEVE__V1__LEAVE_REQUEST__INIT;
	struct rpc_call_options options = {.timeout_ms = LEAVE_TIMEOUT_MS};
	struct reeve_error error;
	ProtobufCMessage *response;

	request.incarnation = session->incarnation;
	request.reason = "stopped";
	response = rpc_client_call(
	    session->shared->rpc, &reeve__v1__worker_service__descriptor, "Leave", &request.base, &options, &error);
	if (response)
		protobuf_c_message_free_unpacked(response, NULL);
	else
		log_warn(session->shared->object, "cannot leave: %s", error.message);
}

int64_t session_next_ms(const struct session *session)
{
	bool draining = life_draining(session->life);
	int64_t next_ms = INT64_MAX, until_ms = manager_until_ms(session);

	switch (session->phase) {
	case SESSION_UNREGISTERED: next_ms = draining ? INT64_MAX : session->retry.until_ms; break;
	case SESSION_REGISTERING: next_ms = draining && session->register_call ? session->give_up_ms : INT64_MAX; break;
	case SESSION_SERVING:
		next_ms = session->lease_stopped ? INT64_MAX : atomic_load(&session->shared->lease->stop_ms);
		break;
	case SESSION_LOST: break;
	}
	return until_ms < next_ms ? until_ms : next_ms;
}
