/* Progress: percentages, remarks and log lines of running attempts. Results have them, too. */
#include "common/text.h"
#include "manager/access/scope.h"
#include "manager/service/check.h"
#include "manager/service/worker_methods.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* FIRST_LINE_MAX: so that no sum of numbers overflows. */
#define FIRST_LINE_MAX INT64_C(1000000000000)

bool worker_reported_check(
    const char *message, const struct reported *reported, int64_t incarnation, struct reeve_error *error)
{
	char field[64];
	if (reported->has_progress && !(reported->progress >= 0 && reported->progress <= 100))
		return error_set(error, STATUS(INVALID_ARGUMENT), "%s.progress must be from 0 to 100", message);
	snprintf(field, sizeof field, "%s.first_line", message);
	if (!check_range(field, reported->first_line, 0, FIRST_LINE_MAX, error))
		return false;
	if (reported->first_line && !incarnation)
		return error_set(error, STATUS(INVALID_ARGUMENT),
		    "%s needs the request's incarnation: only workers number their lines", field);
	snprintf(field, sizeof field, "%s.lines", message);
	return check_range(field, (int64_t)reported->n_lines, 0, LIMIT_LOG_LINES, error);
}

/* Returns how many of the last lines have up to LIMIT_LOG_BYTES together, after cutting each. */
static size_t fitting(Reeve__V1__LoggedLine *const *lines, size_t n)
{
	size_t kept = 0, bytes = 0;
	while (kept < n) {
		const char *text = worker_text_cut(lines[n - kept - 1]->text, LIMIT_LOG_LINE_BYTES);
		bytes += text ? strlen(text) : 0;
		if (bytes > LIMIT_LOG_BYTES)
			break;
		kept++;
	}
	return kept;
}

void worker_reported_fill(struct store_attempt_progress *out, const struct reported *reported)
{
	size_t kept = fitting(reported->lines, reported->n_lines), dropped = reported->n_lines - kept;
	out->hundredths = reported->has_progress ? (int32_t)(reported->progress * 100 + 0.5) : -1;
	out->first_line = reported->first_line ? reported->first_line + (int64_t)dropped : 0;
	out->line_count = (int32_t)kept;
	out->lines = kept ? mem_malloc(sizeof *out->lines * kept) : NULL;
	for (size_t i = 0; i < kept; i++) {
		const Reeve__V1__LoggedLine *line = reported->lines[dropped + i];
		int64_t age_ms = line->age_ms < 0 ? 0 : line->age_ms > DAY_MS ? DAY_MS : line->age_ms;
		out->lines[i] = (struct store_line){line->text, age_ms, (int32_t)strlen(line->text)};
	}
}

struct progress_call {
	struct store_progress op;
	struct rpc_call *call;
	struct store_attempt_progress attempts[];
};

static void progress_free(struct progress_call *c)
{
	for (int i = 0; i < c->op.count; i++)
		free(c->attempts[i].lines);
	free(c);
}

static void on_progress(struct store_op *op, const struct reeve_error *error)
{
	struct progress_call *c = (struct progress_call *)op;
	if (error) {
		rpc_call_fail_error(c->call, error);
		progress_free(c);
		return;
	}
	Reeve__V1__ProgressResponse response = REEVE__V1__PROGRESS_RESPONSE__INIT;
	Reeve__V1__ResultAck *acks = mem_calloc((size_t)c->op.count, sizeof *acks);
	response.acks = mem_calloc((size_t)c->op.count, sizeof *response.acks);
	response.n_acks = (size_t)c->op.count;
	for (int i = 0; i < c->op.count; i++) {
		const struct store_attempt_progress *a = &c->attempts[i];
		response.acks[i] = &acks[i];
		worker_ack_fill(&acks[i], a->id, a->token, a->ack);
		if (a->ack == STORE_LATE)
			acks[i].note = (char *)"the attempt does not hold the task; nothing was stored";
		else if (a->ack == STORE_LATER)
			acks[i].note = (char *)"written less than a second ago, or locked by another transaction; send it again";
	}
	rpc_call_reply(c->call, &response.base);
	free(response.acks);
	free(acks);
	progress_free(c);
}

static bool check_progress(
    const struct rpc_identity *identity, const Reeve__V1__ProgressRequest *r, struct reeve_error *error)
{
	if (!check_range("attempts", (int64_t)r->n_attempts, 1, LIMIT_CALL_TASKS, error) ||
	    !check_range("incarnation", r->incarnation, 0, INT64_MAX, error))
		return false;
	if (r->incarnation && !(identity->roles & MAY_WORK))
		return error_set(error, STATUS(PERMISSION_DENIED),
		    "incarnation: \"%s\" is no worker, and must leave it and first_line out", identity->name);
	for (size_t i = 0; i < r->n_attempts; i++) {
		const Reeve__V1__AttemptProgress *a = r->attempts[i];
		char field[48];
		snprintf(field, sizeof field, "attempts[%zu]", i);
		if (!worker_reported_check(field, &REPORTED_BY(a), r->incarnation, error))
			return false;
		if (a->task_id < 1 || a->token < 1)
			return error_set(error, STATUS(INVALID_ARGUMENT), "%s must have a task_id and a token, both from 1", field);
		if (!scope_attempt(identity, field, a->task_id, a->token, error))
			return false;
	}
	return true;
}

void worker_progress(void *service, struct rpc_call *call, const ProtobufCMessage *message)
{
	const Reeve__V1__ProgressRequest *request = (const Reeve__V1__ProgressRequest *)message;
	struct services *s = service;
	struct reeve_error error;
	if (!check_progress(rpc_call_identity(call), request, &error)) {
		rpc_call_fail_error(call, &error);
		return;
	}
	struct progress_call *c = mem_calloc(1, sizeof *c + sizeof *c->attempts * request->n_attempts);
	c->call = call;
	for (size_t i = 0; i < request->n_attempts; i++) {
		const Reeve__V1__AttemptProgress *given = request->attempts[i];
		const char *remark = worker_text_cut(given->remark, LIMIT_REMARK_BYTES);
		struct store_attempt_progress *a = &c->attempts[i];
		worker_reported_fill(a, &REPORTED_BY(given));
		a->id = given->task_id;
		a->token = given->token;
		a->identity = scope_owner(rpc_call_identity(call));
		a->remark = remark ? remark : "";
	}
	c->op = (struct store_progress){
	    .op = service_op(s, call, on_progress),
	    .count = (int)request->n_attempts,
	    .attempts = c->attempts,
	};
	store_progress(s->core->base.store, &c->op);
}
