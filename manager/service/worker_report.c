/*
 * Report. One with a Fetch starts the commit of the results and the claim together, and is answered when both are done.
 */
#include "common/limits.h"
#include "common/text.h"
#include "manager/access/scope.h"
#include "manager/core/report.h"
#include "manager/service/check.h"
#include "manager/service/ownership.h"
#include "manager/service/worker_methods.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct report_call {
	struct store_report op;
	struct rpc_call *call;
	struct services *services;
	bool reported, fetched; /* the answer waits for both */
	bool refused;
	struct reeve_error problem;
	uint8_t *packed_fetch; /* the Fetch's answer, packed while its strings were valid */
	size_t packed_length;
	bool *too_long; /* one for each result */
	int64_t incarnation, fetch_id;
	const Reeve__V1__FetchRequest *fetch; /* or NULL */
	struct store_own owning;
	struct store_attempt_progress *progress; /* one for each result; NULL: none has any */
	struct store_result results[];
};

static void report_free(struct report_call *c)
{
	for (int i = 0; c->progress && i < c->op.count; i++)
		free(c->progress[i].lines);
	free(c->progress);
	free((int64_t *)c->owning.ids);
	free(c->owning.own);
	free(c->packed_fetch);
	free(c->too_long);
	free(c);
}

static void report_answer(struct report_call *c)
{
	if (!c->reported || !c->fetched)
		return;
	if (c->refused) {
		rpc_call_fail_error(c->call, &c->problem);
	} else {
		Reeve__V1__ReportResponse response = REEVE__V1__REPORT_RESPONSE__INIT;
		Reeve__V1__ResultAck *acks = mem_calloc((size_t)c->op.count + 1, sizeof *acks);
		response.acks = mem_calloc((size_t)c->op.count + 1, sizeof *response.acks);
		response.n_acks = (size_t)c->op.count;
		for (int i = 0; i < c->op.count; i++) {
			const struct store_result *r = &c->results[i];
			Reeve__V1__ResultAck *ack = response.acks[i] = &acks[i];
			worker_ack_fill(ack, r->id, r->token, r->ack);
			if (r->ack == STORE_LATER) {
				ack->note = (char *)"another transaction has locked the task, or its batch; report it again";
			} else if (r->ack == STORE_LATE) {
				ack->note = (char *)"the lock had been lost; nothing was changed";
			} else if (c->too_long[i]) {
				ack->status = REEVE__V1__RESULT_STATUS__RESULT_STATUS_REFUSED;
				ack->note = (char *)"the result is too long; the attempt was ended as fatal";
			}
		}
		if (c->packed_fetch)
			response.fetch = reeve__v1__fetch_response__unpack(NULL, c->packed_length, c->packed_fetch);
		rpc_call_reply(c->call, &response.base);
		if (response.fetch)
			reeve__v1__fetch_response__free_unpacked(response.fetch, NULL);
		free(response.acks);
		free(acks);
	}
	report_free(c);
}

static void on_reported(struct store_op *op, const struct reeve_error *error)
{
	struct report_call *c = (struct report_call *)op;
	c->reported = true;
	if (error) {
		c->refused = true;
		c->problem = *error;
	}
	report_answer(c);
}

static void on_report_fetched(void *arg, const struct fetch_answer *answer, const struct reeve_error *error)
{
	struct report_call *c = arg;
	c->fetched = true;
	/* A failed Fetch does not change the result statuses: the worker fetches again in a separate call. */
	if (!error) {
		struct fetch_message m;
		fetch_message_fill(&m, c->services->core, c->incarnation, c->fetch_id, answer);
		c->packed_length = reeve__v1__fetch_response__get_packed_size(&m.response);
		c->packed_fetch = mem_malloc(c->packed_length + 1);
		reeve__v1__fetch_response__pack(&m.response, c->packed_fetch);
		fetch_message_free(&m);
	}
	report_answer(c);
}

static void on_report_gone(void *arg)
{
	struct report_call *c = arg;
	dispatch_gone(c->services->core->dispatch, c->incarnation, c->fetch_id, c);
}

static const enum store_outcome outcomes[] = {
    [REEVE__V1__OUTCOME__OUTCOME_COMPLETED] = STORE_COMPLETED,
    [REEVE__V1__OUTCOME__OUTCOME_FAILED] = STORE_FAILED,
    [REEVE__V1__OUTCOME__OUTCOME_FATAL] = STORE_FATAL,
    [REEVE__V1__OUTCOME__OUTCOME_RETURNED] = STORE_RETURNED,
    [REEVE__V1__OUTCOME__OUTCOME_CANCELLED] = STORE_CANCELLED,
    [REEVE__V1__OUTCOME__OUTCOME_LEASE_ENDED] = STORE_LEASE_ENDED,
};

static bool check_result(size_t i, const Reeve__V1__Result *r, int64_t incarnation, struct reeve_error *error)
{
	char field[48];
	if (r->outcome >= REEVE__V1__OUTCOME__OUTCOME_COMPLETED && r->outcome <= REEVE__V1__OUTCOME__OUTCOME_LEASE_ENDED &&
	    r->task_id >= 1 && r->token >= 1 && !name_problem(r->error_code, true) && !*r->stage &&
	    !r->last_progress_case && !r->n_lines)
		return true;
	snprintf(field, sizeof field, "results[%zu].outcome", i);
	if (!check_range(
	        field, r->outcome, REEVE__V1__OUTCOME__OUTCOME_COMPLETED, REEVE__V1__OUTCOME__OUTCOME_LEASE_ENDED, error))
		return false;
	snprintf(field, sizeof field, "results[%zu].task_id", i);
	if (!check_range(field, r->task_id, 1, INT64_MAX, error))
		return false;
	snprintf(field, sizeof field, "results[%zu].token", i);
	if (!check_range(field, r->token, 1, INT64_MAX, error))
		return false;
	snprintf(field, sizeof field, "results[%zu].error_code", i);
	if (!check_name(field, r->error_code, true, error))
		return false;
	snprintf(field, sizeof field, "results[%zu].stage", i);
	if (!check_name(field, r->stage, true, error))
		return false;
	snprintf(field, sizeof field, "results[%zu]", i);
	if (!worker_reported_check(field, &REPORTED_BY(r), incarnation, error))
		return false;
	return !*r->stage || r->outcome == REEVE__V1__OUTCOME__OUTCOME_COMPLETED ||
	    error_set(error, STATUS(INVALID_ARGUMENT), "%s.stage needs the outcome COMPLETED", field);
}

static void report_start(struct report_call *c)
{
	struct services *s = c->services;
	bool fetches = c->fetch != NULL;
	if (fetches)
		rpc_call_on_closed(c->call, on_report_gone, c);
	/* The report must begin before the call can be answered. Without a Fetch the call is, if the store refuses it. */
	report_results(s->core->reports, &c->op);
	if (fetches)
		worker_fetch_start(s, c->call, c->fetch, true, on_report_fetched, c);
}

static void on_report_owned(struct store_op *op, const struct reeve_error *error)
{
	struct report_call *c = (struct report_call *)((char *)op - offsetof(struct report_call, owning));
	if (error) {
		rpc_call_fail_error(c->call, error);
		report_free(c);
		return;
	}
	for (int i = 0; i < c->op.count; i++)
		c->results[i].foreign = !c->owning.own[i];
	report_start(c);
}

/* A caller that may not act for all workers reports only what its own hold. */
static void report_own(struct report_call *c)
{
	size_t n = (size_t)c->op.count;
	int64_t *ids = mem_malloc(2 * n * sizeof *ids), *tokens = ids + n;
	for (size_t i = 0; i < n; i++) {
		ids[i] = c->results[i].id;
		tokens[i] = c->results[i].token;
	}
	c->owning = (struct store_own){
	    .op = service_op(c->services, c->call, on_report_owned),
	    .identity = scope_owner(rpc_call_identity(c->call)),
	    .count = c->op.count,
	    .ids = ids,
	    .tokens = tokens,
	    .own = mem_calloc(n, sizeof *c->owning.own),
	};
	store_own(c->services->core->base.store, &c->owning);
}

static bool check_fetch(const struct rpc_call *call, const Reeve__V1__ReportRequest *r, struct reeve_error *error)
{
	if (!r->fetch)
		return true;
	if (r->fetch->where || r->fetch->wait_retries)
		return error_set(error, STATUS(INVALID_ARGUMENT), "fetch.%s cannot be used in a report; make a call of its own",
		    r->fetch->where ? "where" : "wait_retries");
	return worker_fetch_check(call, r->fetch, error) &&
	    (r->fetch->incarnation == r->incarnation || !scope_owner(rpc_call_identity(call)) ||
	        error_set(error, STATUS(PERMISSION_DENIED), "fetch.incarnation must be the report's incarnation"));
}

/* Takes the progress and the lines of a result. */
static void take_progress(struct report_call *c, size_t i, const Reeve__V1__ReportRequest *request)
{
	const Reeve__V1__Result *given = request->results[i];
	struct store_result *r = &c->results[i];
	if (!given->last_progress_case && !given->n_lines)
		return;
	if (!c->progress)
		c->progress = mem_calloc(request->n_results, sizeof *c->progress);
	struct store_attempt_progress *progress = &c->progress[i];
	worker_reported_fill(progress, &REPORTED_BY(given));
	progress->id = r->id;
	progress->token = r->token;
	progress->remark = ""; /* the end of the attempt sets it */
	r->progress = progress;
}

void worker_report(void *service, struct rpc_call *call, const ProtobufCMessage *message)
{
	const Reeve__V1__ReportRequest *request = (const Reeve__V1__ReportRequest *)message;
	struct services *s = service;
	struct reeve_error error;
	bool bad = !check_range("incarnation", request->incarnation, 0, INT64_MAX, &error) ||
	    !check_range("results", (int64_t)request->n_results, 1, LIMIT_CALL_TASKS, &error) ||
	    !check_fetch(call, request, &error);
	for (size_t i = 0; !bad && i < request->n_results; i++)
		bad = !check_result(i, request->results[i], request->incarnation, &error);
	if (bad) {
		rpc_call_fail_error(call, &error);
		return;
	}
	if (request->incarnation && owner_wait(s, call, message, worker_report, request->incarnation))
		return;
	struct report_call *c = mem_calloc(1, sizeof *c + sizeof *c->results * request->n_results);
	c->call = call;
	c->services = s;
	c->incarnation = request->incarnation;
	c->too_long = mem_calloc(request->n_results, sizeof *c->too_long);
	size_t longest = (size_t)s->core->base.options.max_result_bytes;
	for (size_t i = 0; i < request->n_results; i++) {
		const Reeve__V1__Result *given = request->results[i];
		struct store_result *r = &c->results[i];
		r->id = given->task_id;
		r->token = given->token;
		r->outcome = outcomes[given->outcome];
		c->too_long[i] = strlen(given->result) > longest || strlen(given->error) > longest;
		if (c->too_long[i]) {
			r->outcome = STORE_FATAL;
			r->error = "the handler's result is longer than the manager accepts (--max-result)";
			r->error_code = "too_long";
		} else if (r->outcome == STORE_COMPLETED) {
			r->result = given->result;
			r->stage = *given->stage ? given->stage : NULL;
		} else {
			r->error = given->error;
			r->error_code = given->error_code;
			r->stack_trace = worker_text_cut(given->stack_trace, LIMIT_STACK_BYTES);
			r->retry_in_ms = given->retry_in_ms < 0 ? 0 : given->retry_in_ms;
			if (r->retry_in_ms > DAYS_MS(LIMIT_RETRY_DAYS))
				r->retry_in_ms = DAYS_MS(LIMIT_RETRY_DAYS);
		}
		r->remark = worker_text_cut(given->remark, LIMIT_REMARK_BYTES);
		take_progress(c, i, request);
	}
	c->op = (struct store_report){
	    .op = service_op(s, call, on_reported),
	    .incarnation = request->incarnation,
	    .for_another = !request->incarnation || owner_differs(s, rpc_call_identity(call), request->incarnation),
	    .identity = scope_owner(rpc_call_identity(call)),
	    .actor = rpc_call_actor(call),
	    .count = (int)request->n_results,
	    .results = c->results,
	};
	/* A worker that asks for many more tasks than it reports, or for none, does not need the answer to go on. A pull
	 * client (incarnation 0) may report one task after another. */
	c->op.op.can_wait = request->incarnation && (!request->fetch || request->fetch->slots / 4 >= request->n_results);
	c->fetched = request->fetch == NULL;
	if (request->fetch) {
		c->fetch = request->fetch;
		c->fetch_id = request->fetch->fetch_id;
		c->incarnation = request->fetch->incarnation;
	}
	if (scope_owner(rpc_call_identity(call)))
		report_own(c);
	else
		report_start(c);
}
