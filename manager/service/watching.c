/* AdminService.Check: measures for alerts. The caller sets the thresholds. */
#include "common/limits.h"
#include "manager/service/admin_methods.h"
#include "manager/service/check.h"
#include "manager/service/reading.h"

#include <reeve/v1/admin.pb-c.h>
#include <stdlib.h>
#include <string.h>

#define LONGER_MAX_MS (100 * 365 * DAY_MS)

static bool is_of_time(Reeve__V1__CheckKind kind)
{
	return kind == REEVE__V1__CHECK_KIND__CHECK_KIND_RUNNING || kind == REEVE__V1__CHECK_KIND__CHECK_KIND_SCHEDULES;
}

static bool check_questions(const Reeve__V1__CheckRequest *r, struct reeve_error *error)
{
	unsigned asked = 0;
	for (size_t i = 0; i < r->n_questions; i++) {
		const Reeve__V1__CheckQuestion *q = r->questions[i];
		if (!check_range("questions.kind", q->kind, REEVE__V1__CHECK_KIND__CHECK_KIND_DEAD,
		        REEVE__V1__CHECK_KIND__CHECK_KIND_HALTED, error))
			return false;
		if (asked & 1U << q->kind)
			return error_set(error, STATUS(INVALID_ARGUMENT), "questions.kind: %d is asked for twice", q->kind);
		asked |= 1U << q->kind;
		if (!check_range("questions.longer_ms", q->longer_ms, 0, is_of_time(q->kind) ? LONGER_MAX_MS : 0, error))
			return false;
	}
	return check_name("queue", r->queue, true, error) && check_name("type", r->type, true, error);
}

struct check_call {
	struct reading reading;
	char *queue, *type;
};

static void on_checked(struct store_op *op, const struct reeve_error *error)
{
	struct check_call *c = (struct check_call *)op;
	char *queue = c->queue, *type = c->type;
	struct reeve_error unknown;
	if (!error && !*((Reeve__V1__CheckResponse *)c->reading.response)->manager) {
		if (*type)
			error_set(&unknown, STATUS(NOT_FOUND), "there has never been a task of type \"%s\"%s%s%s", type,
			    *queue ? " in queue \"" : "", queue, *queue ? "\"" : "");
		else
			error_set(&unknown, STATUS(NOT_FOUND), "queue: there is no queue \"%s\"", queue);
		error = &unknown;
	}
	reading_end(&c->reading, error);
	free(queue);
	free(type);
}

void admin_check(void *service, struct rpc_call *call, const ProtobufCMessage *message)
{
	const Reeve__V1__CheckRequest *request = (const Reeve__V1__CheckRequest *)message;
	struct services *s = service;
	struct reeve_error error;
	if (!check_questions(request, &error)) {
		rpc_call_fail_error(call, &error);
		return;
	}
	/* A health check must not wait for an unreachable database: another manager may reach it. */
	if (!store_up(s->core->base.store) || !core_database_fresh(s->core)) {
		const char *problem = store_problem(s->core->base.store);
		rpc_call_fail(call, STATUS(UNAVAILABLE), "manager \"%s\" does not reach its database%s%s", s->manager_name,
		    *problem ? ": " : "", problem);
		return;
	}
	struct check_call *c = mem_calloc(1, sizeof *c);
	c->queue = mem_strdup(request->queue);
	c->type = mem_strdup(request->type);
	reading_begin(&c->reading, s, call, STORE_CHECK, message, &reeve__v1__check_response__descriptor, on_checked);
	c->reading.op.quick = true;
	Reeve__V1__CheckResponse *response = (Reeve__V1__CheckResponse *)c->reading.response;
	response->manager = mem_strdup(s->manager_name);
	response->n_measures = request->n_questions;
	response->measures = mem_calloc(request->n_questions + 1, sizeof *response->measures);
	for (size_t i = 0; i < request->n_questions; i++) {
		response->measures[i] = mem_malloc(sizeof **response->measures);
		reeve__v1__check_measure__init(response->measures[i]);
		response->measures[i]->kind = request->questions[i]->kind;
	}
	reading_send(&c->reading);
}
