/*
 * How tasks come and results go.
 *
 * At rest one Fetch is parked at a manager, for all free slots. At work it is the Reports that fetch: each carries all
 * the results that have gathered and a Fetch for the slots that are free, and whatever gathers while it is under way
 * goes out with the next; a second one may go meanwhile once it is worth while. When slots are free and no Fetch is
 * out, one is parked. What all Fetches out may bring and what has not ended never exceeds the worker's capacity.
 *
 * A Fetch that failed is sent again under its number, by the next call that can carry one; a result that could not be
 * reported waits in the outbox. A worker that drains asks its parked Fetch for a last answer at once: what the manager
 * may just have assigned to it comes with that, and goes back. So does one that pauses, and one that is to end when no task
 * waits, once nothing runs: it is that last answer's emptiness that ends it.
 */
#include "worker/courier.h"

#include "common/clock.h"
#include "common/log.h"
#include "worker/held.h"
#include "worker/orders.h"
#include "worker/session.h"

#include <assert.h>
#include <stdlib.h>
#include <utlist.h>

enum {
	REPORTS_MAX = 2,                    /* under way at once */
	REPORT_RESULTS_MAX = 5000,          /* in one */
	REPORT_BYTES_MAX = 2 * 1024 * 1024, /* in one, roughly */
	SECOND_REPORT_MAX = 256,            /* so many results are always worth a second report */
	LATER_FIRST_MS = 20,                /* how long a result rests that the manager could not judge, doubling up to */
	LATER_LONGEST_MS = 1000,
	FETCH_SLOTS_MAX = 10000,
	FETCH_WAIT_MS = 14 * 1000,  /* how long a parked Fetch may be kept at most */
	ANSWER_LEAST_MS = 1000,     /* how long an answer is waited for at least … */
	ANSWER_MOST_MS = 30 * 1000, /* … and at most */
	EMPTY_REST_MS = 500,        /* before it is asked again whether anything is left, at most */
	FETCH_QUICK_MS = 100,       /* a parked Fetch that comes back empty sooner is not sent again at once */
	/* Results that no manager takes are kept, but no new tasks are fetched beyond so many bytes of them. */
	OUTBOX_BYTES_MAX = 64 * 1024 * 1024,
};

/* A Fetch in a call. */
struct errand {
	int64_t incarnation;
	int64_t fetch_id; /* 0: none */
	int64_t sent_ms;
	bool parked;
	bool last_look; /* is anything left? (worker->until_empty) */
	struct accepts *accepts; /* whose types the request points to */
	Reeve__V1__FetchRequest request;
};

struct fetch_call {
	struct reeve_worker *worker;
	int64_t answer_ms; /* how long to wait for the answer */
	struct errand errand;
};

struct report {
	struct reeve_worker *worker;
	int64_t answer_ms;
	struct errand errand;
	Reeve__V1__ReportRequest request;
	size_t count;
	struct attempt *attempts[REPORT_RESULTS_MAX];
	Reeve__V1__Result *results[REPORT_RESULTS_MAX];
};

/* How many more tasks may be asked for. */
static uint32_t free_slots(const struct reeve_worker *worker)
{
	int64_t capacity = worker->slots.wanted - worker->slots.resting + worker->prefetch;
	int64_t spoken_for = (int64_t)worker_unfinished(worker) + worker->fetches.slots;

	if (!lease_runs(worker->lease, clock_monotonic_ms()) || spoken_for >= capacity ||
	    worker->outbox.waiting_bytes + worker->outbox.reported_bytes > OUTBOX_BYTES_MAX)
		return 0;
	return capacity - spoken_for < FETCH_SLOTS_MAX ? (uint32_t)(capacity - spoken_for) : FETCH_SLOTS_MAX;
}

/* Nothing runs, and all that has ended has been taken: what waits now is all there is. */
static bool at_rest(const struct reeve_worker *worker)
{
	return !worker_unfinished(worker) && !worker->outbox.waiting_count && !worker->outbox.reported_count;
}

/* How many results are worth a second report. */
static size_t second_report(const struct reeve_worker *worker)
{
	size_t quarter = (size_t)(worker->slots.wanted + worker->prefetch) / 4;

	if (quarter > SECOND_REPORT_MAX)
		return SECOND_REPORT_MAX;
	return quarter ? quarter : 1;
}

bool courier_has_report(const struct reeve_worker *worker)
{
	if (worker->outbox.waiting_count == 0 || worker->reports >= REPORTS_MAX)
		return false;
	return worker->reports == 0 || worker->outbox.waiting_count >= second_report(worker) ||
	       worker->outbox.waiting_bytes >= REPORT_BYTES_MAX;
}

/* How long to wait for an answer that should come at once, before the call goes out again. An answer can be lost on a
 * connection that is well; then the results that lie here, and the tasks that a Fetch was given, must not be late by
 * more than a lease. */
static int64_t answer_ms(int64_t ms)
{
	return ms < ANSWER_LEAST_MS ? ANSWER_LEAST_MS : ms > ANSWER_MOST_MS ? ANSWER_MOST_MS : ms;
}

/* How long the manager may keep a parked Fetch. With the wait for its answer, a lease. */
static int64_t park_ms(const struct reeve_worker *worker)
{
	int64_t most_ms = worker->lease_ms * 2 / 3;

	return most_ms < FETCH_WAIT_MS ? most_ms : FETCH_WAIT_MS;
}

/* Puts a Fetch on its way: the message, and that a call carries it. */
static void fetch_leaves(struct reeve_worker *worker, struct fetch *fetch, bool parked, struct errand *errand)
{
	Reeve__V1__FetchRequest *request = &errand->request;

	reeve__v1__fetch_request__init(request);
	request->incarnation = worker->incarnation;
	request->fetch_id = fetch->id;
	request->slots = worker_takes(worker) ? fetch->slots : 1;
	request->queues = worker->queues.list;
	request->n_queues = worker->queues.count;
	request->types = worker->accepts->types.list;
	request->n_types = worker->accepts->types.count;
	request->wait_ms = parked ? park_ms(worker) : 0;
	request->again = fetch->sent_before;
	if (!worker->begun)
		request->idle_since_start_ms = clock_monotonic_ms() - worker->created_ms + 1;
	fetches_sent(&worker->fetches, fetch, parked);
	fetch->accepts = errand->accepts = accepts_use(worker->accepts);
	errand->incarnation = worker->incarnation;
	errand->fetch_id = fetch->id;
	errand->sent_ms = clock_monotonic_ms();
	errand->parked = parked;
	errand->last_look = worker->until_empty && at_rest(worker) && !parked;
}

static void free_message(ProtobufCMessage *message)
{
	if (message)
		protobuf_c_message_free_unpacked(message, NULL);
}

/* Makes attempts of an answer's assignments, which leave it. `into` has room for all. */
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

/* The attempts were not claimed before this: when the Fetch was sent, and as long after as it was parked. */
static int64_t claimed_after_ms(const struct errand *errand, const Reeve__V1__FetchResponse *response)
{
	int64_t parked_ms = response->parked_ms;

	if (parked_ms < 0 || parked_ms > clock_monotonic_ms() - errand->sent_ms)
		parked_ms = 0; /* cannot be */
	return errand->sent_ms + parked_ms;
}

/* The Fetch that an errand is about, if it is still waited for. */
static struct fetch *fetch_of(const struct reeve_worker *worker, const struct errand *errand)
{
	if (!errand->fetch_id || worker->phase != PHASE_SERVING || worker->incarnation != errand->incarnation)
		return NULL;
	return fetches_find(&worker->fetches, errand->fetch_id);
}

/* A last look has found nothing: the end, unless the manager is not sure of it. */
static void heed_empty(struct reeve_worker *worker, const Reeve__V1__FetchResponse *response)
{
	int64_t rest_ms = response->again_in_ms < EMPTY_REST_MS ? response->again_in_ms : EMPTY_REST_MS;

	if (response->again_in_ms > 0) {
		worker->fetch_rest.until_ms = clock_monotonic_ms() + rest_ms;
	} else if (!response->n_orders && worker_takes(worker) && at_rest(worker)) {
		log_info(worker->object, "no task waits any more");
		worker->draining = true;
	}
}

/* Takes in the answer to a Fetch that is waited for. Under the lock. */
static void accept_answer(
    struct reeve_worker *worker, struct fetch *fetch, const struct errand *errand, Reeve__V1__FetchResponse *response)
{
	int64_t now_ms = clock_monotonic_ms();
	size_t count = response ? response->n_assignments : 0;
	struct attempt **attempts;

	fetches_settle(&worker->fetches, fetch);
	backoff_clear(&worker->fetch_rest);
	if (errand->parked && !count && now_ms - errand->sent_ms < FETCH_QUICK_MS)
		backoff_fail(&worker->fetch_rest, now_ms);
	if (count) {
		attempts = malloc(count * sizeof *attempts);
		if (!attempts)
			abort();
		make_attempts(worker, response, worker->max_result_bytes, claimed_after_ms(errand, response), attempts);
		held_receive(worker, attempts, count);
		free(attempts);
	}
	if (response && errand->last_look && !count)
		heed_empty(worker, response);
	if (response)
		orders_obey(worker, response->orders, response->n_orders, false);
}

/* What came of the Fetch in a call that was answered. `response` NULL: nothing. Under the lock. */
static void fetch_answered(struct reeve_worker *worker, const struct errand *errand, Reeve__V1__FetchResponse *response)
{
	struct fetch *fetch = fetch_of(worker, errand);

	if (!errand->fetch_id)
		return;
	if (!fetch) {
		log_debug(worker->object, "an answer to Fetch %lld of incarnation %lld came too late",
		    (long long)errand->fetch_id, (long long)errand->incarnation);
	} else if (response &&
	           (response->incarnation != errand->incarnation || response->fetch_id != errand->fetch_id)) {
		log_warn(worker->object,
		    "the manager answered Fetch %lld of incarnation %lld to Fetch %lld of incarnation %lld; not "
		    "accepted",
		    (long long)response->fetch_id, (long long)response->incarnation, (long long)errand->fetch_id,
		    (long long)errand->incarnation);
		fetches_unsent(&worker->fetches, fetch);
		backoff_fail(&worker->fetch_rest, clock_monotonic_ms());
	} else if (!response) { /* the manager could not say what it gave: the Fetch is still open, and asks again */
		fetches_unsent(&worker->fetches, fetch);
		backoff_fail(&worker->fetch_rest, clock_monotonic_ms());
	} else {
		accept_answer(worker, fetch, errand, response);
	}
}

/* What comes of the Fetch in a call that failed. Under the lock. */
static void fetch_failed(struct reeve_worker *worker, const struct errand *errand, const struct rpc_answer *answer)
{
	struct fetch *fetch = fetch_of(worker, errand);

	if (!fetch)
		return;
	if (answer->code == STATUS(CANCELLED)) { /* our own doing: it goes out again, differently */
		fetches_unsent(&worker->fetches, fetch);
		return;
	}
	if (answer->code == STATUS(INVALID_ARGUMENT)) /* nothing was assigned; the same would fail again */
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
		fetch_answered(worker, &call->errand, (Reeve__V1__FetchResponse *)answer->response);
	} else if ((answer->code == STATUS(FAILED_PRECONDITION) || answer->code == STATUS(NOT_FOUND)) &&
	           fetch_of(worker, &call->errand)) {
		session_lost(worker, answer->message);
	} else {
		if (answer->code != STATUS(CANCELLED) && fetch_of(worker, &call->errand))
			log_warn(worker->object, "Fetch %lld failed, trying again: %s",
			    (long long)call->errand.fetch_id, answer->message);
		fetch_failed(worker, &call->errand, answer);
	}
	accepts_drop(call->errand.accepts);
	pthread_mutex_unlock(&worker->lock);
	free_message(answer->response);
	free(call);
	worker_kick(worker);
}

/* One result alone was called invalid: what is wrong with it is reported in its place. One that even then is refused is
 * given up; the next heartbeat shows that the attempt is not here any more, and the manager takes it back. */
static void replace_result(struct reeve_worker *worker, struct attempt *attempt, const char *why)
{
	char name[48];

	attempt_name(attempt, name);
	if (attempt->refused) {
		log_error(name, "the manager does not take its result, given up: %s", why);
		outbox_remove(&worker->outbox, attempt);
		held_forget(worker, attempt);
		return;
	}
	log_warn(name, "the manager refused its result, reporting that instead: %s", why);
	worker->late += attempt->result.outcome == REEVE__V1__OUTCOME__OUTCOME_COMPLETED;
	outbox_put_back(&worker->outbox, &attempt, 1);
	outbox_remove(&worker->outbox, attempt);
	attempt->refused = true;
	attempt_end(
	    attempt, REEVE__V1__OUTCOME__OUTCOME_FATAL, "result-refused", "the manager refused the result: %s", why);
	attempt_seal(attempt, attempt->result.run_ms);
	attempt->group = ++worker->outbox.last_group;
	outbox_add(&worker->outbox, attempt);
}

/* A report was not taken. Under the lock. */
static void report_failed(struct reeve_worker *worker, struct report *report, const struct rpc_answer *answer)
{
	if (answer->code == STATUS(INVALID_ARGUMENT)) {
		if (report->count > 1)
			outbox_split(&worker->outbox, report->attempts, report->count);
		else
			replace_result(worker, report->attempts[0], answer->message);
	} else {
		outbox_put_back(&worker->outbox, report->attempts, report->count);
		backoff_fail(&worker->report_rest, clock_monotonic_ms());
		if (answer->code != STATUS(CANCELLED)) /* the end */
			log_warn(worker->object, "a report of %zu results failed, trying again: %s", report->count,
			    answer->message);
	}
	if (answer->code == STATUS(FAILED_PRECONDITION) && fetch_of(worker, &report->errand))
		session_lost(worker, answer->message);
	else
		fetch_failed(worker, &report->errand, answer);
}

/* Acts on the verdict on one result. Under the lock. */
static void judged(struct reeve_worker *worker, struct attempt *attempt, const Reeve__V1__Judged *verdict)
{
	char name[48];

	switch (verdict->verdict) {
	case REEVE__V1__VERDICT__VERDICT_ACCEPTED:
		break;
	case REEVE__V1__VERDICT__VERDICT_LOST:
		worker->late += attempt->result.outcome == REEVE__V1__OUTCOME__OUTCOME_COMPLETED;
		log_info(attempt_name(attempt, name), "its result came too late: %s", verdict->note);
		break;
	case REEVE__V1__VERDICT__VERDICT_REFUSED:
		worker->late += attempt->result.outcome == REEVE__V1__OUTCOME__OUTCOME_COMPLETED;
		log_warn(attempt_name(attempt, name), "its result was refused: %s", verdict->note);
		break;
	case REEVE__V1__VERDICT__VERDICT_LATER:
		attempt->later_ms = attempt->later_ms ? attempt->later_ms * 2 : LATER_FIRST_MS;
		if (attempt->later_ms > LATER_LONGEST_MS)
			attempt->later_ms = LATER_LONGEST_MS;
		attempt->later_until_ms = clock_monotonic_ms() + attempt->later_ms;
		log_debug(attempt_name(attempt, name), "its result is not judged yet: %s", verdict->note);
		DL_APPEND(worker->later, attempt);
		return;
	case REEVE__V1__VERDICT__VERDICT_UNSPECIFIED:
	default:
		log_warn(attempt_name(attempt, name), "no verdict on its result, reporting it again");
		outbox_put_back(&worker->outbox, &attempt, 1);
		backoff_fail(&worker->report_rest, clock_monotonic_ms());
		return;
	}
	outbox_remove(&worker->outbox, attempt);
	held_forget(worker, attempt);
}

/* Results that have rested go out again, behind and with those that are new: however many they are, they hold up no others. */
static void later_take(struct reeve_worker *worker, int64_t now_ms)
{
	struct attempt *attempt, *tmp;

	DL_FOREACH_SAFE(worker->later, attempt, tmp) {
		if (attempt->later_until_ms > now_ms)
			continue;
		DL_DELETE(worker->later, attempt);
		outbox_again(&worker->outbox, attempt);
	}
}

/* The results have been judged, in their order. Under the lock. */
static void report_taken(struct reeve_worker *worker, struct report *report, Reeve__V1__ReportResponse *response)
{
	static const Reeve__V1__Judged nothing = REEVE__V1__JUDGED__INIT;

	backoff_clear(&worker->report_rest);
	/* The new tasks come first: otherwise a worker with one slot would seem to have done all there is after each of them. */
	fetch_answered(worker, &report->errand, response->fetch);
	for (size_t i = report->count; i-- > 0;) { /* backwards: those that go back to the front keep their order */
		const Reeve__V1__Judged *verdict = i < response->n_judged ? response->judged[i] : &nothing;

		if (verdict->task_id != report->attempts[i]->key.task_id ||
		    verdict->token != report->attempts[i]->key.token)
			verdict = &nothing;
		judged(worker, report->attempts[i], verdict);
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
	accepts_drop(report->errand.accepts);
	pthread_mutex_unlock(&worker->lock);
	free_message(answer->response);
	free(report);
	worker_kick(worker);
}

/* Composes a report, if one is to go now. */
static struct report *next_report(struct reeve_worker *worker)
{
	struct report *report;
	struct fetch *fetch = NULL;
	int64_t now_ms = clock_monotonic_ms();
	uint32_t slots;

	later_take(worker, now_ms);
	if (!courier_has_report(worker) || now_ms < worker->report_rest.until_ms)
		return NULL;
	report = malloc(sizeof *report);
	if (!report)
		abort();
	report->worker = worker;
	report->answer_ms = answer_ms(worker->lease_ms);
	report->errand = (struct errand){0};
	reeve__v1__report_request__init(&report->request);
	report->request.incarnation = worker->incarnation;
	report->count = outbox_take(&worker->outbox, report->attempts, REPORT_RESULTS_MAX, REPORT_BYTES_MAX);
	for (size_t i = 0; i < report->count; i++)
		report->results[i] = &report->attempts[i]->result;
	report->request.results = report->results;
	report->request.n_results = report->count;
	worker->reports++;
	/* A report that may be called invalid carries no Fetch, so that this is told apart. */
	if (worker_takes(worker) && !report->attempts[0]->group && now_ms >= worker->fetch_rest.until_ms) {
		fetch = fetches_unsettled(&worker->fetches);
		slots = fetch ? 0 : free_slots(worker);
		if (slots)
			fetch = fetches_new(&worker->fetches, slots);
	}
	if (fetch) {
		fetch_leaves(worker, fetch, false, &report->errand);
		report->request.fetch = &report->errand.request;
	}
	return report;
}

/* Composes a call of Fetch alone, if one is to go now. */
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
	    &call->errand);
	return call;
}

/* A call that is of no use any more: of a lost incarnation, or parked while the worker takes no tasks, wants to know
 * whether there are any, or runs other types by now. 0: none. */
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
	    .timeout_ms = call->errand.request.wait_ms + call->answer_ms, .parks = true, .before_resend = mark_fetch};
	struct errand errand = call->errand; /* the call may be over, and freed, before the next line */
	rpc_call_id id = rpc_client_start(worker->rpc, &reeve__v1__worker_service__descriptor, "Fetch",
	    &call->errand.request.base, &options, fetch_done, call);
	struct fetch *fetch;

	pthread_mutex_lock(&worker->lock);
	fetch = fetch_of(worker, &errand);
	if (fetch && fetch->in_flight)
		fetch->call = id;
	else if (!fetch && worker->stale_count < (int)(sizeof worker->stale_calls / sizeof *worker->stale_calls))
		worker->stale_calls[worker->stale_count++] =
		    id; /* lost meanwhile; if it is over, nothing comes of it */
	pthread_mutex_unlock(&worker->lock);
}

void courier_step(struct reeve_worker *worker)
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

int64_t courier_next_ms(const struct reeve_worker *worker)
{
	int64_t now_ms = clock_monotonic_ms(), next_ms = INT64_MAX;
	const struct attempt *attempt;

	DL_FOREACH(worker->later, attempt)
		if (attempt->later_until_ms < next_ms)
			next_ms = attempt->later_until_ms;
	if (worker->report_rest.until_ms > now_ms && worker->outbox.waiting_count && worker->report_rest.until_ms < next_ms)
		next_ms = worker->report_rest.until_ms;
	if (worker->fetch_rest.until_ms > now_ms && worker->fetch_rest.until_ms < next_ms)
		next_ms = worker->fetch_rest.until_ms;
	return next_ms;
}
