/*
 * The fetch and report loop.
 *
 * An idle worker has one Fetch parked at a manager, for all free slots. In a busy worker the Reports fetch: each
 * carries all results so far, and a Fetch for the free slots. Later results go with the next Report; with enough of
 * them, a second Report may be in flight. If slots are free and no Fetch is in flight, one is parked. What all Fetches
 * in flight may bring and what has not ended together never exceed the worker's capacity.
 *
 * A failed Fetch is resent with the same id, by the next call that can carry one. A result that could not be reported
 * stays among the unacknowledged results (unacked.h). A draining worker cancels its parked Fetch and resends it without
 * parking, to get the answer at once: it may bring tasks that the manager has just assigned, and these are returned. A
 * worker that pauses does the same. So does one that must end when no task waits (until_empty), once nothing runs: it
 * ends if that last answer is empty.
 */
#include "worker/fetch_report.h"

#include "common/clock.h"
#include "common/log.h"
#include "worker/held.h"
#include "worker/commands.h"
#include "worker/session.h"

#include <assert.h>
#include <stdlib.h>
#include <utlist.h>

enum {
	REPORTS_MAX = 2,                    /* in flight at once */
	REPORT_RESULTS_MAX = 5000,          /* per report */
	REPORT_BYTES_MAX = 2 * 1024 * 1024, /* per report, roughly */
	SECOND_REPORT_MAX = 256,            /* this many results are always enough for a second report */
	LATER_FIRST_MS = 20,                /* delay of a result acknowledged as LATER, doubling up to */
	LATER_LONGEST_MS = 1000,
	FETCH_SLOTS_MAX = 10000,
	FETCH_WAIT_MS = 14 * 1000,  /* maximum time that a Fetch is parked */
	ANSWER_MIN_MS = 1000,     /* minimum time to wait for an answer … */
	ANSWER_MAX_MS = 30 * 1000, /* … and maximum */
	EMPTY_REST_MS = 500,        /* maximum delay before it asks again whether tasks wait */
	FETCH_QUICK_MS = 100,       /* after an empty answer to a parked Fetch within this time, the next one is delayed */
	/* Results that no manager accepts are kept, but the worker fetches no new tasks beyond this many bytes of them. */
	UNACKED_BYTES_MAX = 64 * 1024 * 1024,
};

/* A Fetch in an in-flight call. */
struct in_flight {
	int64_t incarnation;
	int64_t fetch_id; /* 0: none */
	int64_t sent_ms;
	bool parked;
	bool last_poll; /* asks whether tasks are left (worker->until_empty) */
	struct accepts *accepts; /* has the types that the request points to */
	Reeve__V1__FetchRequest request;
};

struct fetch_call {
	struct reeve_worker *worker;
	int64_t answer_ms; /* how long to wait for the answer */
	struct in_flight in_flight;
};

struct report {
	struct reeve_worker *worker;
	int64_t answer_ms;
	struct in_flight in_flight;
	Reeve__V1__ReportRequest request;
	size_t count;
	struct attempt *attempts[REPORT_RESULTS_MAX];
	Reeve__V1__Result *results[REPORT_RESULTS_MAX];
};

/* Returns how many more tasks the worker may request. */
static uint32_t free_slots(const struct reeve_worker *worker)
{
	int64_t capacity = worker->slots.wanted - worker->slots.resting + worker->prefetch;
	int64_t spoken_for = (int64_t)worker_unfinished(worker) + worker->fetches.slots;

	if (!lease_runs(worker->lease, clock_monotonic_ms()) || spoken_for >= capacity ||
	    worker->unacked.waiting_bytes + worker->unacked.reported_bytes > UNACKED_BYTES_MAX)
		return 0;
	return capacity - spoken_for < FETCH_SLOTS_MAX ? (uint32_t)(capacity - spoken_for) : FETCH_SLOTS_MAX;
}

/* Returns true if nothing runs and all results are acknowledged: the tasks that wait now are all that are left. */
static bool at_rest(const struct reeve_worker *worker)
{
	return !worker_unfinished(worker) && !worker->unacked.waiting_count && !worker->unacked.reported_count;
}

/* Returns the number of results that are enough for a second report. */
static size_t second_report(const struct reeve_worker *worker)
{
	size_t quarter = (size_t)(worker->slots.wanted + worker->prefetch) / 4;

	if (quarter > SECOND_REPORT_MAX)
		return SECOND_REPORT_MAX;
	return quarter ? quarter : 1;
}

bool fetch_report_has_report(const struct reeve_worker *worker)
{
	if (worker->unacked.waiting_count == 0 || worker->reports >= REPORTS_MAX)
		return false;
	return worker->reports == 0 || worker->unacked.waiting_count >= second_report(worker) ||
	       worker->unacked.waiting_bytes >= REPORT_BYTES_MAX;
}

/* Limits the time to wait for an answer that should come at once, before the call is resent. An answer can be lost on a
 * working connection. The limit ensures that this delays the results held here, and the tasks assigned to a Fetch, by
 * no more than a lease. */
static int64_t answer_ms(int64_t ms)
{
	return ms < ANSWER_MIN_MS ? ANSWER_MIN_MS : ms > ANSWER_MAX_MS ? ANSWER_MAX_MS : ms;
}

/* Returns how long the manager may keep a parked Fetch: with the time to wait for the answer, one lease. */
static int64_t park_ms(const struct reeve_worker *worker)
{
	int64_t max_ms = worker->lease_ms * 2 / 3;

	return max_ms < FETCH_WAIT_MS ? max_ms : FETCH_WAIT_MS;
}

/* Fills in a Fetch request for a call, and marks the Fetch as in flight. */
static void fetch_leaves(struct reeve_worker *worker, struct fetch *fetch, bool parked, struct in_flight *in_flight)
{
	Reeve__V1__FetchRequest *request = &in_flight->request;

	reeve__v1__fetch_request__init(request);
	request->incarnation = worker->incarnation;
	request->fetch_id = fetch->id;
	request->slots = worker_takes(worker) ? fetch->slots : 1;
	request->queues = (const char **)worker->queues.list;
	request->n_queues = worker->queues.count;
	request->types = (const char **)worker->accepts->types.list;
	request->n_types = worker->accepts->types.count;
	request->wait_ms = parked ? park_ms(worker) : 0;
	request->again = fetch->sent_before;
	if (!worker->begun)
		request->idle_since_start_ms = clock_monotonic_ms() - worker->created_ms + 1;
	fetches_sent(&worker->fetches, fetch, parked);
	fetch->accepts = in_flight->accepts = accepts_use(worker->accepts);
	in_flight->incarnation = worker->incarnation;
	in_flight->fetch_id = fetch->id;
	in_flight->sent_ms = clock_monotonic_ms();
	in_flight->parked = parked;
	in_flight->last_poll = worker->until_empty && at_rest(worker) && !parked;
}

static void free_message(ProtobufCMessage *message)
{
	if (message)
		protobuf_c_message_free_unpacked(message, NULL);
}

/* Creates attempts from an answer's assignments and takes these out of the answer. `into` has room for all. */
static void make_attempts(struct reeve_worker *worker, Reeve__V1__FetchResponse *response, size_t max_result,
    int64_t claimed_ms, struct attempt **into)
{
	for (size_t i = 0; i < response->n_assignments; i++) {
		Reeve__V1__Assignment *assignment = response->assignments[i];

		response->assignments[i] = NULL;
		into[i] = attempt_create(assignment, handler_find(worker->handlers, assignment->type), worker->lease,
		    max_result, claimed_ms);
	}
}

/* Returns a time before which the attempts were not claimed: when the Fetch was sent, plus the time it was parked. */
static int64_t claimed_after_ms(const struct in_flight *in_flight, const Reeve__V1__FetchResponse *response)
{
	int64_t parked_ms = response->parked_ms;

	if (parked_ms < 0 || parked_ms > clock_monotonic_ms() - in_flight->sent_ms)
		parked_ms = 0; /* invalid */
	return in_flight->sent_ms + parked_ms;
}

/* Returns the Fetch of an in-flight call, or NULL if the worker no longer waits for it. */
static struct fetch *fetch_of(const struct reeve_worker *worker, const struct in_flight *in_flight)
{
	if (!in_flight->fetch_id || worker->phase != PHASE_SERVING || worker->incarnation != in_flight->incarnation)
		return NULL;
	return fetches_find(&worker->fetches, in_flight->fetch_id);
}

/* Ends the worker after an empty answer to the last Fetch of `until_empty`, unless the manager does not know yet
 * whether tasks wait. */
static void apply_empty(struct reeve_worker *worker, const Reeve__V1__FetchResponse *response)
{
	int64_t rest_ms = response->retry_after_ms < EMPTY_REST_MS ? response->retry_after_ms : EMPTY_REST_MS;

	if (response->retry_after_ms > 0) {
		worker->fetch_rest.until_ms = clock_monotonic_ms() + rest_ms;
	} else if (!response->n_commands && worker_takes(worker) && at_rest(worker)) {
		log_info(worker->object, "no task waits any more");
		worker->draining = true;
	}
}

/* Applies the answer to a Fetch that the worker waits for. Called with the lock. */
static void accept_answer(
    struct reeve_worker *worker, struct fetch *fetch, const struct in_flight *in_flight, Reeve__V1__FetchResponse *response)
{
	int64_t now_ms = clock_monotonic_ms();
	size_t count = response ? response->n_assignments : 0;
	struct attempt **attempts;

	fetches_settle(&worker->fetches, fetch);
	backoff_clear(&worker->fetch_rest);
	if (in_flight->parked && !count && now_ms - in_flight->sent_ms < FETCH_QUICK_MS)
		backoff_fail(&worker->fetch_rest, now_ms);
	if (count) {
		attempts = malloc(count * sizeof *attempts);
		if (!attempts)
			abort();
		make_attempts(worker, response, worker->max_result_bytes, claimed_after_ms(in_flight, response), attempts);
		held_receive(worker, attempts, count);
		free(attempts);
	}
	if (response && in_flight->last_poll && !count)
		apply_empty(worker, response);
	if (response)
		commands_apply(worker, response->commands, response->n_commands, false);
}

/* Handles the Fetch of an answered call. `response` is NULL if the answer has none. Called with the lock. */
static void fetch_answered(struct reeve_worker *worker, const struct in_flight *in_flight, Reeve__V1__FetchResponse *response)
{
	struct fetch *fetch = fetch_of(worker, in_flight);

	if (!in_flight->fetch_id)
		return;
	if (!fetch) {
		log_debug(worker->object, "an answer to Fetch %lld of incarnation %lld came too late",
		    (long long)in_flight->fetch_id, (long long)in_flight->incarnation);
	} else if (response &&
	           (response->incarnation != in_flight->incarnation || response->fetch_id != in_flight->fetch_id)) {
		log_warn(worker->object,
		    "the manager answered Fetch %lld of incarnation %lld to Fetch %lld of incarnation %lld; not "
		    "accepted",
		    (long long)response->fetch_id, (long long)response->incarnation, (long long)in_flight->fetch_id,
		    (long long)in_flight->incarnation);
		fetches_unsent(&worker->fetches, fetch);
		backoff_fail(&worker->fetch_rest, clock_monotonic_ms());
	} else if (!response) { /* the manager does not know what it assigned: the Fetch stays open and is resent */
		fetches_unsent(&worker->fetches, fetch);
		backoff_fail(&worker->fetch_rest, clock_monotonic_ms());
	} else {
		accept_answer(worker, fetch, in_flight, response);
	}
}

/* Handles the Fetch of a failed call. Called with the lock. */
static void fetch_failed(struct reeve_worker *worker, const struct in_flight *in_flight, const struct rpc_answer *answer)
{
	struct fetch *fetch = fetch_of(worker, in_flight);

	if (!fetch)
		return;
	if (answer->code == STATUS(CANCELLED)) { /* by us: it is resent with other parameters */
		fetches_unsent(&worker->fetches, fetch);
		return;
	}
	if (answer->code == STATUS(INVALID_ARGUMENT)) /* nothing was assigned, and a resend would fail again */
		fetches_settle(&worker->fetches, fetch);
	else
		fetches_unsent(&worker->fetches, fetch);
	backoff_fail(&worker->fetch_rest, clock_monotonic_ms());
}

static void fetch_done(void *arg, struct rpc_answer *answer)
{
	struct fetch_call *call = arg;
	struct reeve_worker *worker = call->worker;

	pthread_mutex_lock(&worker->lock);
	if (answer->code == STATUS(OK)) {
		fetch_answered(worker, &call->in_flight, (Reeve__V1__FetchResponse *)answer->response);
	} else if ((answer->code == STATUS(FAILED_PRECONDITION) || answer->code == STATUS(NOT_FOUND)) &&
	           fetch_of(worker, &call->in_flight)) {
		session_lost(worker, answer->message);
	} else {
		if (answer->code != STATUS(CANCELLED) && fetch_of(worker, &call->in_flight))
			log_warn(worker->object, "Fetch %lld failed, trying again: %s",
			    (long long)call->in_flight.fetch_id, answer->message);
		fetch_failed(worker, &call->in_flight, answer);
	}
	accepts_drop(call->in_flight.accepts);
	pthread_mutex_unlock(&worker->lock);
	free_message(answer->response);
	free(call);
	worker_wake(worker);
}

/* Handles a result that the manager called invalid when it was reported alone: reports a fatal error with the reason
 * instead. If that is refused too, drops the result; the next heartbeat then shows that the worker no longer has the
 * attempt, and the manager reclaims it. */
static void replace_result(struct reeve_worker *worker, struct attempt *attempt, const char *why)
{
	char name[48];

	attempt_name(attempt, name);
	if (attempt->refused) {
		log_error(name, "the manager does not take its result, given up: %s", why);
		unacked_remove(&worker->unacked, attempt);
		held_forget(worker, attempt);
		return;
	}
	log_warn(name, "the manager refused its result, reporting that instead: %s", why);
	worker->late += attempt->result.outcome == REEVE__V1__OUTCOME__OUTCOME_COMPLETED;
	unacked_put_back(&worker->unacked, &attempt, 1);
	unacked_remove(&worker->unacked, attempt);
	attempt->refused = true;
	attempt_end(
	    attempt, REEVE__V1__OUTCOME__OUTCOME_FATAL, "result-refused", "the manager refused the result: %s", why);
	attempt_seal(attempt, attempt->result.run_ms);
	attempt->group = ++worker->unacked.last_group;
	unacked_add(&worker->unacked, attempt);
}

/* Handles a failed report. Called with the lock. */
static void report_failed(struct reeve_worker *worker, struct report *report, const struct rpc_answer *answer)
{
	if (answer->code == STATUS(INVALID_ARGUMENT)) {
		if (report->count > 1)
			unacked_split(&worker->unacked, report->attempts, report->count);
		else
			replace_result(worker, report->attempts[0], answer->message);
	} else {
		unacked_put_back(&worker->unacked, report->attempts, report->count);
		backoff_fail(&worker->report_rest, clock_monotonic_ms());
		if (answer->code != STATUS(CANCELLED)) /* the worker is ending */
			log_warn(worker->object, "a report of %zu results failed, trying again: %s", report->count,
			    answer->message);
	}
	if (answer->code == STATUS(FAILED_PRECONDITION) && fetch_of(worker, &report->in_flight))
		session_lost(worker, answer->message);
	else
		fetch_failed(worker, &report->in_flight, answer);
}

/* Applies the ack of one result. Called with the lock. */
static void ack_apply(struct reeve_worker *worker, struct attempt *attempt, const Reeve__V1__ResultAck *ack)
{
	char name[48];

	switch (ack->status) {
	case REEVE__V1__RESULT_STATUS__RESULT_ACCEPTED:
		break;
	case REEVE__V1__RESULT_STATUS__RESULT_LOST:
		worker->late += attempt->result.outcome == REEVE__V1__OUTCOME__OUTCOME_COMPLETED;
		log_info(attempt_name(attempt, name), "its result came too late: %s", ack->note);
		break;
	case REEVE__V1__RESULT_STATUS__RESULT_REFUSED:
		worker->late += attempt->result.outcome == REEVE__V1__OUTCOME__OUTCOME_COMPLETED;
		log_warn(attempt_name(attempt, name), "its result was refused: %s", ack->note);
		break;
	case REEVE__V1__RESULT_STATUS__RESULT_LATER:
		attempt->later_ms = attempt->later_ms ? attempt->later_ms * 2 : LATER_FIRST_MS;
		if (attempt->later_ms > LATER_LONGEST_MS)
			attempt->later_ms = LATER_LONGEST_MS;
		attempt->later_until_ms = clock_monotonic_ms() + attempt->later_ms;
		log_debug(attempt_name(attempt, name), "its result is not processed yet: %s", ack->note);
		DL_APPEND(worker->later, attempt);
		return;
	case REEVE__V1__RESULT_STATUS__RESULT_UNSPECIFIED:
	default:
		log_warn(attempt_name(attempt, name), "no status of its result, reporting it again");
		unacked_put_back(&worker->unacked, &attempt, 1);
		backoff_fail(&worker->report_rest, clock_monotonic_ms());
		return;
	}
	unacked_remove(&worker->unacked, attempt);
	held_forget(worker, attempt);
}

/* Queues results whose delay has passed for the next report, after the new ones: however many they are, they delay no
 * other results. */
static void later_take(struct reeve_worker *worker, int64_t now_ms)
{
	struct attempt *attempt, *tmp;

	DL_FOREACH_SAFE(worker->later, attempt, tmp) {
		if (attempt->later_until_ms > now_ms)
			continue;
		DL_DELETE(worker->later, attempt);
		unacked_resend(&worker->unacked, attempt);
	}
}

/* Applies the acks of a report, which are in the order of its results. Called with the lock. */
static void report_taken(struct reeve_worker *worker, struct report *report, Reeve__V1__ReportResponse *response)
{
	static const Reeve__V1__ResultAck nothing = REEVE__V1__RESULT_ACK__INIT;

	backoff_clear(&worker->report_rest);
	/* New tasks first: otherwise a worker with one slot would appear to have nothing left after each task. */
	fetch_answered(worker, &report->in_flight, response->fetch);
	for (size_t i = report->count; i-- > 0;) { /* backwards: results that return to the front keep their order */
		const Reeve__V1__ResultAck *ack = i < response->n_acks ? response->acks[i] : &nothing;

		if (ack->task_id != report->attempts[i]->key.task_id ||
		    ack->token != report->attempts[i]->key.token)
			ack = &nothing;
		ack_apply(worker, report->attempts[i], ack);
	}
}

static void report_done(void *arg, struct rpc_answer *answer)
{
	struct report *report = arg;
	struct reeve_worker *worker = report->worker;

	pthread_mutex_lock(&worker->lock);
	worker->reports--;
	if (answer->code == STATUS(OK))
		report_taken(worker, report, (Reeve__V1__ReportResponse *)answer->response);
	else
		report_failed(worker, report, answer);
	accepts_drop(report->in_flight.accepts);
	pthread_mutex_unlock(&worker->lock);
	free_message(answer->response);
	free(report);
	worker_wake(worker);
}

/* Creates a report if one is due, else returns NULL. */
static struct report *next_report(struct reeve_worker *worker)
{
	struct report *report;
	struct fetch *fetch = NULL;
	int64_t now_ms = clock_monotonic_ms();
	uint32_t slots;

	later_take(worker, now_ms);
	if (!fetch_report_has_report(worker) || now_ms < worker->report_rest.until_ms)
		return NULL;
	report = malloc(sizeof *report);
	if (!report)
		abort();
	report->worker = worker;
	report->answer_ms = answer_ms(worker->lease_ms);
	report->in_flight = (struct in_flight){0};
	reeve__v1__report_request__init(&report->request);
	report->request.incarnation = worker->incarnation;
	report->count = unacked_take(&worker->unacked, report->attempts, REPORT_RESULTS_MAX, REPORT_BYTES_MAX);
	for (size_t i = 0; i < report->count; i++)
		report->results[i] = &report->attempts[i]->result;
	report->request.results = report->results;
	report->request.n_results = report->count;
	worker->reports++;
	/* A report that may be called invalid carries no Fetch, so that INVALID_ARGUMENT can only mean its results. */
	if (worker_takes(worker) && !report->attempts[0]->group && now_ms >= worker->fetch_rest.until_ms) {
		fetch = fetches_unsettled(&worker->fetches);
		slots = fetch ? 0 : free_slots(worker);
		if (slots)
			fetch = fetches_new(&worker->fetches, slots);
	}
	if (fetch) {
		fetch_leaves(worker, fetch, false, &report->in_flight);
		report->request.fetch = &report->in_flight.request;
	}
	return report;
}

/* Creates a call of Fetch if one is due, else returns NULL. */
static struct fetch_call *next_fetch(struct reeve_worker *worker)
{
	struct fetch *fetch = fetches_unsettled(&worker->fetches);
	struct fetch_call *call;
	uint32_t slots;

	if (worker->phase != PHASE_SERVING || clock_monotonic_ms() < worker->fetch_rest.until_ms)
		return NULL;
	if (!fetch) {
		slots = worker_takes(worker) && worker->fetches.in_flight_count == 0 ? free_slots(worker) : 0;
		if (!slots)
			return NULL;
		fetch = fetches_new(&worker->fetches, slots);
	}
	call = calloc(1, sizeof *call);
	if (!call)
		abort();
	call->worker = worker;
	call->answer_ms = answer_ms(worker->lease_ms / 3);
	fetch_leaves(worker, fetch,
	    worker_takes(worker) && worker->fetches.parked_count == 0 && !(worker->until_empty && at_rest(worker)),
	    &call->in_flight);
	return call;
}

/* Returns a call that must be cancelled: one of a lost incarnation, or a parked Fetch while the worker takes no tasks,
 * must know whether any wait, or runs other types by now. 0: none. */
static rpc_call_id next_cancel(struct reeve_worker *worker)
{
	bool all = worker->draining || worker->paused || (worker->until_empty && at_rest(worker));
	struct fetch *fetch;

	if (worker->stale_count)
		return worker->stale_calls[--worker->stale_count];
	for (fetch = worker->fetches.waiting; fetch; fetch = fetch->next) {
		if (!fetch->parked || fetch->given_up || !fetch->call || (!all && fetch->accepts == worker->accepts))
			continue;
		fetch->given_up = true;
		return fetch->call;
	}
	return 0;
}

static void mark_fetch(ProtobufCMessage *request, void *arg)
{
	(void)arg;
	((Reeve__V1__FetchRequest *)request)->again = true;
}

static void mark_report(ProtobufCMessage *request, void *arg)
{
	Reeve__V1__FetchRequest *fetch = ((Reeve__V1__ReportRequest *)request)->fetch;

	(void)arg;
	if (fetch)
		fetch->again = true;
}

static void start_report(struct reeve_worker *worker, struct report *report)
{
	struct rpc_call_options options = {.timeout_ms = report->answer_ms, .before_resend = mark_report};

	rpc_client_start(worker->rpc, &reeve__v1__worker_service__descriptor, "Report", &report->request.base, &options,
	    report_done, report);
}

static void start_fetch(struct reeve_worker *worker, struct fetch_call *call)
{
	struct rpc_call_options options = {
	    .timeout_ms = call->in_flight.request.wait_ms + call->answer_ms, .parks = true, .before_resend = mark_fetch};
	struct in_flight in_flight = call->in_flight; /* the call may have ended, and been freed, before the next line */
	rpc_call_id id = rpc_client_start(worker->rpc, &reeve__v1__worker_service__descriptor, "Fetch",
	    &call->in_flight.request.base, &options, fetch_done, call);
	struct fetch *fetch;

	pthread_mutex_lock(&worker->lock);
	fetch = fetch_of(worker, &in_flight);
	if (fetch && fetch->in_flight)
		fetch->call = id;
	else if (!fetch && worker->stale_count < (int)(sizeof worker->stale_calls / sizeof *worker->stale_calls))
		worker->stale_calls[worker->stale_count++] =
		    id; /* lost in the meantime; cancelling a call that has ended does nothing */
	pthread_mutex_unlock(&worker->lock);
}

void fetch_report_step(struct reeve_worker *worker)
{
	for (;;) {
		struct report *report = NULL;
		struct fetch_call *fetch = NULL;
		rpc_call_id cancel;

		pthread_mutex_lock(&worker->lock);
		cancel = next_cancel(worker);
		if (!cancel)
			report = next_report(worker);
		if (!cancel && !report)
			fetch = next_fetch(worker);
		pthread_mutex_unlock(&worker->lock);
		if (cancel)
			rpc_client_cancel(worker->rpc, cancel);
		else if (report)
			start_report(worker, report);
		else if (fetch)
			start_fetch(worker, fetch);
		else
			return;
	}
}

int64_t fetch_report_next_ms(const struct reeve_worker *worker)
{
	int64_t now_ms = clock_monotonic_ms(), next_ms = INT64_MAX;
	const struct attempt *attempt;

	DL_FOREACH(worker->later, attempt)
		if (attempt->later_until_ms < next_ms)
			next_ms = attempt->later_until_ms;
	if (worker->report_rest.until_ms > now_ms && worker->unacked.waiting_count && worker->report_rest.until_ms < next_ms)
		next_ms = worker->report_rest.until_ms;
	if (worker->fetch_rest.until_ms > now_ms && worker->fetch_rest.until_ms < next_ms)
		next_ms = worker->fetch_rest.until_ms;
	return next_ms;
}
