/*
 * Manual pull. A fetch registers an incarnation of its own, which needs no heartbeats. If the fetch received tasks, the
 * incarnation stays: the journal has those tasks under it, and the manager removes it some time after they have ended.
 * A report and an extension need only the token.
 */
#include "client/lib/internal.h"

#include "common/clock.h"
#include "common/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RESULT(name) REEVE__V1__RESULT_STATUS__RESULT_STATUS_##name

enum {
	REPORT_TRIES = 20,            /* attempts of a report whose task another transaction has locked */
	REPORT_PAUSE_US = 250 * 1000, /* the delay between them */
	PARK_MS = 10000,              /* how long a Fetch waits on the manager before it is sent again */
	UNSURE_MS = 10000,            /* how long to ask again while a manager does not know if a task waits */
	UNSURE_PAUSE_MS = 1000, /* … only if it asks for a repeat this soon; otherwise no task may be assigned yet */
	ANSWER_MS = 10000,      /* how long an answer may take beyond the wait */
	LEAVE_MS = 2000,
};

/* Registers an incarnation and returns it; returns 0 with *failure set on an error. */
static int64_t come(struct reeve_client *client, const char *name, struct reeve_failure *failure)
{
	char host[256] = "";
	Reeve__V1__RegisterRequest request = {.name = name ? name : rpc_client_actor(client->rpc),
	    .host = host,
	    .pid = getpid(),
	    .concurrency = 1,
	    .version = REEVE_VERSION,
	    .manual = true};
	Reeve__V1__RegisterResponse *response;
	int64_t incarnation;

	gethostname(host, sizeof host - 1);
	response = reeve_worker_register(client, &request, NULL, failure);
	incarnation = response ? response->incarnation : 0;
	reeve_free(response);
	return incarnation;
}

/* Leaves, for an incarnation that received no tasks, or none that its caller knows of; those then go to other workers.
 * Works also for a client that was interrupted. A failure is harmless: the managers remove the incarnation later. */
static void go(struct reeve_client *client, int64_t incarnation)
{
	Reeve__V1__LeaveRequest request = REEVE__V1__LEAVE_REQUEST__INIT;
	const struct rpc_call_options options = {.timeout_ms = LEAVE_MS};

	request.incarnation = incarnation;
	request.reason = "manual; nothing was fetched";
	reeve_free(
	    rpc_client_call(client->rpc, &reeve__v1__worker_service__descriptor, "Leave", &request.base, &options, NULL));
}

/* Returns true if an answer is empty only because the manager did not know yet: it was reading rows, or other managers
 * claimed what it had read. */
static bool is_unsure(const Reeve__V1__FetchResponse *response)
{
	return response->n_assignments == 0 && response->retry_after_ms > 0 && response->retry_after_ms <= UNSURE_PAUSE_MS;
}

enum { WHERE_EVERY_MS = 500 }; /* how often one with a filter is repeated, which does not park */

/* Sends Fetches until one returns tasks, or the time is over and the manager is sure that no task waits. None parks
 * before that: one that does not park gets all tasks that wait, and one that parks gets the first. The manager counts
 * expires_in_ms from the claim, which was not before the Fetch was sent and had waited for parked_ms. */
static Reeve__V1__FetchResponse *fetch_until(
    struct reeve_client *client, Reeve__V1__FetchRequest *request, int64_t wait_ms, struct reeve_failure *failure)
{
	int64_t end_ms = clock_monotonic_ms() + wait_ms, unsure_end_ms = end_ms + UNSURE_MS;
	bool parks = false;

	/* The call may be sent to several managers: each first checks the journal for assignments of this Fetch. */
	request->resend = true;
	for (;;) {
		int64_t sent_ms = clock_monotonic_ms();
		int64_t left_ms = end_ms > sent_ms ? end_ms - sent_ms : 0;
		Reeve__V1__FetchResponse *response;

		request->fetch_id++;
		request->wait_ms = parks ? (uint32_t)(left_ms < PARK_MS ? left_ms : PARK_MS) : 0;
		response = reeve_worker_fetch(
		    client, request, &(struct reeve_call_options){.timeout_ms = request->wait_ms + ANSWER_MS}, failure);
		if (!response)
			return NULL;
		int64_t now_ms = clock_monotonic_ms();
		if (response->n_assignments || now_ms >= (is_unsure(response) ? unsure_end_ms : end_ms)) {
			int64_t since_ms = now_ms - sent_ms - response->parked_ms;

			for (size_t i = 0; i < response->n_assignments; i++)
				response->assignments[i]->expires_in_ms -= since_ms;
			return response;
		}
		if (is_unsure(response))
			usleep((useconds_t)response->retry_after_ms * 1000);
		else if (request->where)
			usleep(WHERE_EVERY_MS * 1000);
		else
			parks = true;
		reeve_free(response);
	}
}

Reeve__V1__FetchResponse *reeve_fetch(struct reeve_client *client, const char *name, Reeve__V1__FetchRequest *request,
    int64_t wait_ms, struct reeve_failure *failure)
{
	Reeve__V1__FetchResponse *response;

	if (wait_ms < 0) {
		fail(failure, STATUS(INVALID_ARGUMENT), "wait_ms is negative");
		return NULL;
	}
	request->incarnation = come(client, name, failure);
	if (!request->incarnation)
		return NULL;
	request->slots = request->slots ? request->slots : 1;
	request->fetch_id = 0;
	response = fetch_until(client, request, wait_ms, failure);
	if (!response || response->n_assignments == 0)
		go(client, request->incarnation);
	return response;
}

/* Returns whether a report is sent again, after a pause: another transaction has locked its task. */
static bool report_again(int *tries, size_t n_acks, Reeve__V1__ResultAck *const *acks)
{
	if (++*tries == REPORT_TRIES || n_acks != 1 || acks[0]->status != RESULT(LATER))
		return false;
	usleep(REPORT_PAUSE_US);
	return true;
}

/* Returns whether the report of an attempt was committed; if not, sets *failure. */
static bool accepted(
    int64_t id, int64_t token, size_t n_acks, Reeve__V1__ResultAck *const *acks, struct reeve_failure *failure)
{
	const Reeve__V1__ResultAck *ack;

	if (n_acks != 1)
		return fail(failure, STATUS(INTERNAL), "the manager answered %zu reports to one", n_acks);
	ack = acks[0];
	switch (ack->status) {
	case RESULT(ACCEPTED): return true;
	case RESULT(LOST):
		return fail(failure, STATUS(FAILED_PRECONDITION),
		    "task %" PRId64 " is not held by token %" PRId64
		    ": the attempt has expired, was taken away or has ended, or never was; nothing was changed",
		    id, token);
	case RESULT(LATER): return fail(failure, STATUS(UNAVAILABLE), "task %" PRId64 ": %s", id, ack->note);
	default: return fail(failure, STATUS(INVALID_ARGUMENT), "task %" PRId64 ": %s", id, ack->note);
	}
}

bool reeve_report(struct reeve_client *client, Reeve__V1__Result *result, struct reeve_failure *failure)
{
	Reeve__V1__ReportRequest request = {.n_results = 1, .results = &result};
	Reeve__V1__ReportResponse *response = NULL;
	int tries = 0;
	bool good;

	if (result->outcome < REEVE__V1__OUTCOME__OUTCOME_COMPLETED ||
	    result->outcome > REEVE__V1__OUTCOME__OUTCOME_RETURNED)
		return fail(failure, STATUS(INVALID_ARGUMENT), "outcome is missing");
	if (result->retry_in_ms && result->outcome != REEVE__V1__OUTCOME__OUTCOME_FAILED)
		return fail(failure, STATUS(INVALID_ARGUMENT), "retry_in_ms is for attempts that failed");
	if (text_given(result->stage) && result->outcome != REEVE__V1__OUTCOME__OUTCOME_COMPLETED)
		return fail(failure, STATUS(INVALID_ARGUMENT), "stage is for attempts that completed");
	do {
		reeve_free(response);
		response = reeve_worker_report(client, &request, NULL, failure);
	} while (response && report_again(&tries, response->n_acks, response->acks));
	good = response && accepted(result->task_id, result->token, response->n_acks, response->acks, failure);
	reeve_free(response);
	return good;
}

bool reeve_report_progress(
    struct reeve_client *client, Reeve__V1__AttemptProgress *progress, struct reeve_failure *failure)
{
	Reeve__V1__ProgressRequest request = {.n_attempts = 1, .attempts = &progress};
	Reeve__V1__ProgressResponse *response = NULL;
	int tries = 0;
	bool good;

	do {
		reeve_free(response);
		response = reeve_worker_progress(client, &request, NULL, failure);
	} while (response && report_again(&tries, response->n_acks, response->acks));
	good = response && accepted(progress->task_id, progress->token, response->n_acks, response->acks, failure);
	reeve_free(response);
	return good;
}
