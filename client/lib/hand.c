/*
 * Manual pull. A fetch registers an incarnation of its own, which needs no heartbeats. If the fetch received tasks, the
 * incarnation stays: the journal has those tasks under it, and the manager removes it some time after they have ended.
 * A report and an extension need only the token.
 */
#include "client/lib/internal.h"

#include "common/clock.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	REPORT_TRIES = 20,            /* attempts of a report whose task another transaction has locked */
	REPORT_REST_US = 250 * 1000,  /* the delay between them */
	PARK_MS = 10000,   /* how long a Fetch waits on the manager before it is sent again */
	UNSURE_MS = 10000,       /* how long to ask again while a manager does not know if a task waits */
	UNSURE_REST_MS = 1000,   /* … only if it asks for a repeat this soon; otherwise no task may be assigned yet */
	ANSWER_MS = 10000, /* how long an answer may take beyond the wait */
	LEAVE_MS = 2000,
};

static ProtobufCMessage *ask(struct reeve_client *client, const char *method, ProtobufCMessage *request,
    int64_t timeout_ms, struct reeve_failure *failure)
{
	return client_call(client, &reeve__v1__worker_service__descriptor, method, request, NULL, timeout_ms, failure);
}

/* Registers an incarnation and returns it; returns 0 with *failure set on an error. */
static int64_t come(struct reeve_client *client, const char *name, struct reeve_failure *failure)
{
	Reeve__V1__RegisterRequest request = REEVE__V1__REGISTER_REQUEST__INIT;
	Reeve__V1__RegisterResponse *response;
	char host[256] = "";
	int64_t incarnation;

	gethostname(host, sizeof host - 1);
	request.name = (char *)(name ? name : rpc_client_actor(client->rpc));
	request.host = host;
	request.pid = getpid();
	request.concurrency = 1;
	request.version = REEVE_VERSION;
	request.manual = true;
	response = (Reeve__V1__RegisterResponse *)ask(client, "Register", &request.base, 0, failure);
	if (!response)
		return 0;
	incarnation = response->incarnation;
	reeve__v1__register_response__free_unpacked(response, NULL);
	return incarnation;
}

/* Leaves, for an incarnation that received no tasks, or none that its caller knows of; those then go to other workers.
 * Works also for a client that was interrupted. A failure is harmless: the managers remove the incarnation later. */
static void go(struct reeve_client *client, int64_t incarnation)
{
	Reeve__V1__LeaveRequest request = REEVE__V1__LEAVE_REQUEST__INIT;
	const struct rpc_call_options options = {.timeout_ms = LEAVE_MS};
	ProtobufCMessage *response;

	request.incarnation = incarnation;
	request.reason = "manual; nothing was fetched";
	response = rpc_client_call(
	    client->rpc, &reeve__v1__worker_service__descriptor, "Leave", &request.base, &options, NULL);
	if (response)
		protobuf_c_message_free_unpacked(response, NULL);
}

struct taken_result {
	struct reeve_taken_list list;
	Reeve__V1__FetchResponse *response;
};

static struct reeve_taken_list *make_result(int64_t incarnation, Reeve__V1__FetchResponse *response)
{
	struct taken_result *result = allocate(1, sizeof *result);

	result->response = response;
	result->list.incarnation = incarnation;
	result->list.count = response->n_assignments;
	result->list.tasks = allocate(response->n_assignments, sizeof *result->list.tasks);
	for (size_t i = 0; i < response->n_assignments; i++) {
		const Reeve__V1__Assignment *message = response->assignments[i];

		result->list.tasks[i] = (struct reeve_taken){
		    .id = message->task_id,
		    .token = message->token,
		    .queue = message->queue,
		    .type = message->type,
		    .details = message->details,
		    .key = message->key,
		    .stage = message->stage,
		    .attempt = message->attempt,
		    .max_attempts = message->max_attempts,
		    .timeout_ms = message->timeout_ms,
		    .expires_in_ms = message->expires_in_ms,
		    .wire = message,
		};
	}
	return &result->list;
}

/* Returns true if an answer is empty only because the manager did not know yet: it was reading rows, or other managers
 * claimed what it had read. */
static bool is_unsure(const Reeve__V1__FetchResponse *response)
{
	return response->n_assignments == 0 && response->retry_after_ms > 0 && response->retry_after_ms <= UNSURE_REST_MS;
}

/* Sends Fetches until one returns tasks, or the time is over and the manager is sure that no task waits. The manager
 * counts expires_in_ms from the claim, which was not before the Fetch was sent and had waited for parked_ms. */
static Reeve__V1__FetchResponse *fetch_until(struct reeve_client *client, const struct reeve_fetch *fetch,
    int64_t incarnation, struct reeve_failure *failure)
{
	Reeve__V1__FetchRequest request = REEVE__V1__FETCH_REQUEST__INIT;
	int64_t end_ms = clock_monotonic_ms() + fetch->wait_ms, unsure_end_ms = end_ms + UNSURE_MS;

	request.incarnation = incarnation;
	request.slots = fetch->most ? fetch->most : 1;
	request.n_queues = fetch->n_queues;
	request.queues = (const char **)fetch->queues;
	request.n_types = fetch->n_types;
	request.types = (const char **)fetch->types;
	request.n_exclude_ids = fetch->n_exclude;
	request.exclude_ids = (int64_t *)fetch->exclude;
	/* The call may be sent to several managers: each first checks the journal for assignments of this Fetch. */
	request.resend = true;
	for (;;) {
		int64_t sent_ms = clock_monotonic_ms();
		int64_t left_ms = end_ms > sent_ms ? end_ms - sent_ms : 0;
		Reeve__V1__FetchResponse *response;

		request.fetch_id++;
		request.wait_ms = (uint32_t)(left_ms < PARK_MS ? left_ms : PARK_MS);
		response = (Reeve__V1__FetchResponse *)ask(
		    client, "Fetch", &request.base, request.wait_ms + ANSWER_MS, failure);
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
		reeve__v1__fetch_response__free_unpacked(response, NULL);
	}
}

struct reeve_taken_list *reeve_fetch(
    struct reeve_client *client, const struct reeve_fetch *fetch, struct reeve_failure *failure)
{
	Reeve__V1__FetchResponse *response;
	int64_t incarnation;

	if (fetch->wait_ms < 0) {
		fail(failure, STATUS(INVALID_ARGUMENT), "wait_ms is negative");
		return NULL;
	}
	incarnation = come(client, fetch->name, failure);
	if (!incarnation)
		return NULL;
	response = fetch_until(client, fetch, incarnation, failure);
	if (!response || response->n_assignments == 0)
		go(client, incarnation);
	return response ? make_result(incarnation, response) : NULL;
}

void reeve_taken_free(struct reeve_taken_list *list)
{
	struct taken_result *result = (struct taken_result *)list;

	if (!list)
		return;
	reeve__v1__fetch_response__free_unpacked(result->response, NULL);
	free(list->tasks);
	free(result);
}

bool reeve_report(struct reeve_client *client, const struct reeve_report *report, struct reeve_failure *failure)
{
	Reeve__V1__Result result = REEVE__V1__RESULT__INIT, *results[] = {&result};
	Reeve__V1__ReportRequest request = REEVE__V1__REPORT_REQUEST__INIT;
	Reeve__V1__ReportResponse *response;
	Reeve__V1__ResultStatus status;
	bool good;

	if (report->outcome < REEVE_OUTCOME_COMPLETED || report->outcome > REEVE_OUTCOME_RETURNED)
		return fail(failure, STATUS(INVALID_ARGUMENT), "outcome is none");
	if (report->retry_in_ms && report->outcome != REEVE_OUTCOME_FAILED)
		return fail(failure, STATUS(INVALID_ARGUMENT), "retry_in_ms is for attempts that failed");
	if (report->stage && *report->stage && report->outcome != REEVE_OUTCOME_COMPLETED)
		return fail(failure, STATUS(INVALID_ARGUMENT), "stage is for attempts that completed");
	result.task_id = report->id;
	result.token = report->token;
	result.outcome = (Reeve__V1__Outcome)report->outcome;
	if (report->result)
		result.result = report->result;
	if (report->error)
		result.error = report->error;
	if (report->error_code)
		result.error_code = report->error_code;
	if (report->remark)
		result.remark = report->remark;
	if (report->stack_trace)
		result.stack_trace = report->stack_trace;
	result.retry_in_ms = report->retry_in_ms;
	if (report->stage)
		result.stage = report->stage;
	request.n_results = 1;
	request.results = results;
	response = (Reeve__V1__ReportResponse *)ask(client, "Report", &request.base, 0, failure);
	for (int tries = 1; tries < REPORT_TRIES && response && response->n_acks == 1 &&
	    response->acks[0]->status == REEVE__V1__RESULT_STATUS__RESULT_STATUS_LATER; tries++) {
		reeve__v1__report_response__free_unpacked(response, NULL);
		usleep(REPORT_REST_US);
		response = (Reeve__V1__ReportResponse *)ask(client, "Report", &request.base, 0, failure);
	}
	if (!response)
		return false;
	if (response->n_acks == 1) {
		status = response->acks[0]->status;
		good = status == REEVE__V1__RESULT_STATUS__RESULT_STATUS_ACCEPTED;
		if (status == REEVE__V1__RESULT_STATUS__RESULT_STATUS_LOST)
			fail(failure, STATUS(FAILED_PRECONDITION),
			    "task %" PRId64 " is not held by token %" PRId64
			    ": the attempt has expired, was taken away or has ended, or never was; nothing was changed",
			    report->id, report->token);
		else if (status == REEVE__V1__RESULT_STATUS__RESULT_STATUS_LATER)
			fail(failure, STATUS(UNAVAILABLE), "task %" PRId64 ": %s", report->id, response->acks[0]->note);
		else if (!good)
			fail(failure, STATUS(INVALID_ARGUMENT), "task %" PRId64 ": %s", report->id, response->acks[0]->note);
	} else {
		good = fail(failure, STATUS(INTERNAL), "the manager answered %zu verdicts to one result", response->n_acks);
	}
	reeve__v1__report_response__free_unpacked(response, NULL);
	return good;
}

bool reeve_extend(struct reeve_client *client, int64_t id, int64_t token, int64_t by_ms, int64_t *run_ms,
    int64_t *expires_in_ms, struct reeve_failure *failure)
{
	Reeve__V1__ExtendRequest request = REEVE__V1__EXTEND_REQUEST__INIT;
	Reeve__V1__ExtendResponse *response;

	request.task_id = id;
	request.token = token;
	request.run_ms = by_ms;
	response = (Reeve__V1__ExtendResponse *)ask(client, "Extend", &request.base, 0, failure);
	if (!response)
		return false;
	if (run_ms)
		*run_ms = response->run_ms;
	if (expires_in_ms)
		*expires_in_ms = response->expires_in_ms;
	reeve__v1__extend_response__free_unpacked(response, NULL);
	return true;
}
