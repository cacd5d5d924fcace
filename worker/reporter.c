#include "worker/reporter.h"

#include "common/clock.h"
#include "common/log.h"
#include "common/mem.h"

#include <stdlib.h>
#include <utlist.h>

enum {
	REPORT_RESULTS_MAX = 5000, /* per report */
	LATER_FIRST_MS = 20,       /* delay of a result acknowledged as LATER, doubling up to */
	LATER_MAX_MS = 1000,
};

/* A Report in flight. */
struct report {
	struct reporter *reporter;
	int64_t answer_ms; /* how long to wait for the answer */
	struct sent_fetch fetch;
	Reeve__V1__ReportRequest request;
	size_t count;
	struct attempt *attempts[REPORT_RESULTS_MAX];
	Reeve__V1__Result *results[REPORT_RESULTS_MAX];
};

/* Puts results that were not acknowledged back to the front, to be reported again later. */
static void retry(struct reporter *reporter, struct attempt *const *attempts, size_t count)
{
	unacked_put_back(&reporter->in_flight->unacked, attempts, count);
	backoff_fail(&reporter->retry, clock_monotonic_ms());
}

/* Removes an attempt whose result the managers have, or do not want. */
static void forget(struct reporter *reporter, struct attempt *attempt)
{
	unacked_remove(&reporter->in_flight->unacked, attempt);
	in_flight_forget(reporter->in_flight, attempt);
}

/* Counts a completion that no manager accepted. */
static void count_late(struct reporter *reporter, const struct attempt *attempt)
{
	reporter->in_flight->late += attempt->result.outcome == REEVE__V1__OUTCOME__OUTCOME_COMPLETED;
}

/* Handles a result that the manager called invalid when it was reported alone: reports a fatal error with the reason
 * instead. If that is refused too, drops the result; the next heartbeat then shows that the worker no longer has the
 * attempt, and the manager reclaims it. */
static void replace_result(struct reporter *reporter, struct attempt *attempt, const char *why)
{
	struct unacked *unacked = &reporter->in_flight->unacked;
	char name[48];

	attempt_name(attempt, name);
	if (attempt->refused) {
		log_error(name, "the manager does not take its result, dropped: %s", why);
		forget(reporter, attempt);
		return;
	}
	log_warn(name, "the manager refused its result, reporting that instead: %s", why);
	count_late(reporter, attempt);
	unacked_remove(unacked, attempt);
	attempt->refused = true;
	attempt_end(
	    attempt, REEVE__V1__OUTCOME__OUTCOME_FATAL, "result-refused", "the manager refused the result: %s", why);
	attempt_seal(attempt, attempt->result.run_ms);
	attempt->group = ++unacked->last_group;
	unacked_add(unacked, attempt);
}

/* Handles a failed report. Called with the lock. */
static void report_failed(struct reporter *reporter, struct report *report, const struct rpc_answer *answer)
{
	if (answer->code != STATUS(INVALID_ARGUMENT)) {
		retry(reporter, report->attempts, report->count);
		if (answer->code == STATUS(UNAUTHENTICATED))
			session_unauthenticated(reporter->session, answer->message);
		else if (answer->code != STATUS(CANCELLED)) /* the worker is ending */
			log_warn(reporter->shared->object, "a report of %zu results failed, trying again: %s", report->count,
			    answer->message);
	} else if (report->count > 1) {
		unacked_split(&reporter->in_flight->unacked, report->attempts, report->count);
	} else {
		replace_result(reporter, report->attempts[0], answer->message);
	}
	if (answer->code == STATUS(FAILED_PRECONDITION) && fetcher_waits_for(reporter->fetcher, &report->fetch))
		session_lost(reporter->session, answer->message);
	else
		fetcher_failed(reporter->fetcher, &report->fetch, answer->code);
}

/* Delays a result that a manager has not processed yet, each time longer. */
static void delay(struct reporter *reporter, struct attempt *attempt)
{
	attempt->later_ms = attempt->later_ms ? attempt->later_ms * 2 : LATER_FIRST_MS;
	if (attempt->later_ms > LATER_MAX_MS)
		attempt->later_ms = LATER_MAX_MS;
	attempt->later_until_ms = clock_monotonic_ms() + attempt->later_ms;
	DL_APPEND(reporter->delayed, attempt);
}

/* Applies the ack of one result. Called with the lock. */
static void apply_ack(struct reporter *reporter, struct attempt *attempt, const Reeve__V1__ResultAck *ack)
{
	char name[48];

	switch (ack->status) {
	case REEVE__V1__RESULT_STATUS__RESULT_STATUS_ACCEPTED: break;
	case REEVE__V1__RESULT_STATUS__RESULT_STATUS_LOST:
		count_late(reporter, attempt);
		log_info(attempt_name(attempt, name), "its result came too late: %s", ack->note);
		break;
	case REEVE__V1__RESULT_STATUS__RESULT_STATUS_REFUSED:
		count_late(reporter, attempt);
		log_warn(attempt_name(attempt, name), "its result was refused: %s", ack->note);
		break;
	case REEVE__V1__RESULT_STATUS__RESULT_STATUS_LATER:
		log_debug(attempt_name(attempt, name), "its result is not processed yet: %s", ack->note);
		delay(reporter, attempt);
		return;
	case REEVE__V1__RESULT_STATUS__RESULT_STATUS_UNSPECIFIED:
	default:
		log_warn(attempt_name(attempt, name), "no status of its result, reporting it again");
		retry(reporter, &attempt, 1);
		return;
	}
	forget(reporter, attempt);
}

/* Queues results whose delay has passed for the next report, after the new ones: however many they are, they delay no
 * other results. */
static void resend_delayed(struct reporter *reporter, int64_t now_ms)
{
	struct attempt *attempt, *next;

	DL_FOREACH_SAFE (reporter->delayed, attempt, next) {
		if (attempt->later_until_ms > now_ms)
			continue;
		DL_DELETE(reporter->delayed, attempt);
		unacked_resend(&reporter->in_flight->unacked, attempt);
	}
}

/* Applies the acks of a report, which are in the order of its results. Called with the lock. */
static void report_answered(struct reporter *reporter, struct report *report, Reeve__V1__ReportResponse *response)
{
	static const Reeve__V1__ResultAck nothing = REEVE__V1__RESULT_ACK__INIT;

	backoff_clear(&reporter->retry);
	/* New tasks first: otherwise a worker with one slot would appear to have nothing left after each task. */
	fetcher_answered(reporter->fetcher, &report->fetch, response->fetch);
	for (size_t i = report->count; i-- > 0;) { /* backwards: results that return to the front keep their order */
		const Reeve__V1__ResultAck *ack = i < response->n_acks ? response->acks[i] : &nothing;

		if (ack->task_id != report->attempts[i]->key.task_id || ack->token != report->attempts[i]->key.token)
			ack = &nothing;
		apply_ack(reporter, report->attempts[i], ack);
	}
}

static void report_done(void *arg, struct rpc_answer *answer)
{
	struct report *report = arg;
	struct reporter *reporter = report->reporter;

	shared_lock(reporter->shared);
	reporter->in_flight->unacked.reports--;
	if (answer->code == STATUS(OK))
		report_answered(reporter, report, (Reeve__V1__ReportResponse *)answer->response);
	else
		report_failed(reporter, report, answer);
	fetcher_release(&report->fetch);
	shared_unlock(reporter->shared);
	if (answer->response)
		protobuf_c_message_free_unpacked(answer->response, NULL);
	free(report);
	shared_wake(reporter->shared);
}

/* Creates a report if one is due, else returns NULL. Called with the lock. */
static struct report *next_report(struct reporter *reporter)
{
	struct unacked *unacked = &reporter->in_flight->unacked;
	int64_t now_ms = clock_monotonic_ms();
	struct report *report;

	resend_delayed(reporter, now_ms);
	if (!unacked_report_due(unacked, (size_t)slots_capacity(reporter->slots)) || now_ms < reporter->retry.until_ms)
		return NULL;
	report = mem_malloc(sizeof *report);
	report->reporter = reporter;
	report->answer_ms = fetcher_answer_ms(reporter->session->lease_ms);
	report->fetch = (struct sent_fetch){0};
	reeve__v1__report_request__init(&report->request);
	report->request.incarnation = reporter->session->incarnation;
	report->count = unacked_take(unacked, report->attempts, REPORT_RESULTS_MAX, REPORT_BYTES_MAX);
	for (size_t i = 0; i < report->count; i++)
		report->results[i] = &report->attempts[i]->result;
	report->request.results = report->results;
	report->request.n_results = report->count;
	unacked->reports++;
	/* A report that may be called invalid carries no Fetch, so that INVALID_ARGUMENT can only mean its results. */
	if (!report->attempts[0]->group && fetcher_attach(reporter->fetcher, &report->fetch))
		report->request.fetch = &report->fetch.request;
	return report;
}

static void mark_resend(ProtobufCMessage *request, void *arg)
{
	Reeve__V1__FetchRequest *fetch = ((Reeve__V1__ReportRequest *)request)->fetch;

	(void)arg;
	if (fetch)
		fetch->resend = true;
}

void reporter_step(struct reporter *reporter)
{
	struct report *report;

	for (;;) {
		shared_lock(reporter->shared);
		report = next_report(reporter);
		shared_unlock(reporter->shared);
		if (!report)
			return;
		rpc_client_start(reporter->shared->rpc, &reeve__v1__worker_service__descriptor, "Report", &report->request.base,
		    &(struct rpc_call_options){.timeout_ms = report->answer_ms, .before_resend = mark_resend}, report_done,
		    report);
	}
}

int64_t reporter_next_ms(const struct reporter *reporter)
{
	const struct attempt *attempt;
	int64_t next_ms = INT64_MAX;

	DL_FOREACH (reporter->delayed, attempt) {
		if (attempt->later_until_ms < next_ms)
			next_ms = attempt->later_until_ms;
	}
	if (unacked_report_due(&reporter->in_flight->unacked, (size_t)slots_capacity(reporter->slots)) &&
	    reporter->retry.until_ms < next_ms)
		next_ms = reporter->retry.until_ms;
	return next_ms;
}
