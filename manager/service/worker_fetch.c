/* Fetch: checks a request, and fills the answer with assignments and commands. */
#include "common/field.h"
#include "common/limits.h"
#include "manager/access/scope.h"
#include "manager/core/queues.h"
#include "manager/core/routes.h"
#include "manager/service/check.h"
#include "manager/service/filter.h"
#include "manager/service/ownership.h"
#include "manager/service/reading.h"
#include "manager/service/worker_methods.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

static bool check_limits(const Reeve__V1__FetchRequest *r, struct reeve_error *error)
{
	char field[48];
	bool good = check_range("queue_slots", (int64_t)r->n_queue_slots, 0, LIMIT_ACCEPTED, error) &&
	    check_range("type_slots", (int64_t)r->n_type_slots, 0, LIMIT_ACCEPTED, error);
	for (size_t i = 0; good && i < r->n_queue_slots; i++) {
		snprintf(field, sizeof field, "queue_slots[%zu].queue", i);
		good = check_name(field, r->queue_slots[i]->queue, false, error);
	}
	for (size_t i = 0; good && i < r->n_type_slots; i++) {
		snprintf(field, sizeof field, "type_slots[%zu].type", i);
		good = check_name(field, r->type_slots[i]->type, false, error);
	}
	return good;
}

/* A filter is for a call of its own that does not park. */
static bool check_where(const Reeve__V1__FetchRequest *r, struct reeve_error *error)
{
	const Reeve__V1__TaskFilter *f = r->where;
	if (!f)
		return true;
	if (!filter_check(f, error))
		return false;
	if (r->wait_ms || f->after_id || f->running_longer_ms)
		return error_set(error, STATUS(INVALID_ARGUMENT), "where cannot be combined with %s",
		    r->wait_ms        ? "wait_ms"
		        : f->after_id ? "after_id"
		                      : "running_longer_ms");
	for (size_t i = 0; i < f->n_statuses; i++)
		if (f->statuses[i] != REEVE__V1__TASK_STATUS__TASK_STATUS_QUEUED &&
		    f->statuses[i] != REEVE__V1__TASK_STATUS__TASK_STATUS_FAILED)
			return error_set(error, STATUS(INVALID_ARGUMENT),
			    "where.statuses selects tasks that do not wait; only queued and failed ones can be fetched");
	return true;
}

bool worker_fetch_check(const struct rpc_call *call, Reeve__V1__FetchRequest *r, struct reeve_error *error)
{
	const struct rpc_identity *identity = rpc_call_identity(call);
	return check_range("incarnation", r->incarnation, 1, INT64_MAX, error) &&
	    check_range("fetch_id", r->fetch_id, 1, INT64_MAX, error) &&
	    check_range("slots", r->slots, 1, LIMIT_CALL_TASKS, error) &&
	    check_names("queues", r->queues, r->n_queues, error) && check_names("types", r->types, r->n_types, error) &&
	    check_range("idle_since_start_ms", r->idle_since_start_ms, 0, INT64_MAX / 4, error) &&
	    check_range("exclude_ids", (int64_t)r->n_exclude_ids, 0, LIMIT_EXCLUDED, error) && check_limits(r, error) &&
	    check_where(r, error) && scope_accept_queues(identity, &r->queues, &r->n_queues, error) &&
	    scope_accept_types(identity, &r->types, &r->n_types, error);
}

static bool backlogged(const void *call, int64_t max)
{
	return rpc_call_backlogged(call, (size_t)max);
}

void worker_fetch_start(struct services *s, struct rpc_call *call, const Reeve__V1__FetchRequest *r, bool in_report,
    fetch_done *done, void *arg)
{
	struct fetch_limit *limits = mem_calloc(r->n_queue_slots + r->n_type_slots + 1, sizeof *limits);
	int count = 0;
	for (size_t i = 0; i < r->n_queue_slots; i++)
		limits[count++] =
		    (struct fetch_limit){.queue = r->queue_slots[i]->queue, .slots = (int)r->queue_slots[i]->slots};
	for (size_t i = 0; i < r->n_type_slots; i++)
		limits[count++] = (struct fetch_limit){.type = r->type_slots[i]->type, .slots = (int)r->type_slots[i]->slots};
	struct fetch_request request = {
	    .incarnation = r->incarnation,
	    .fetch_id = r->fetch_id,
	    .slots = (int)r->slots,
	    .queue_count = (int)r->n_queues,
	    .type_count = (int)r->n_types,
	    .queues = r->queues,
	    .types = r->types,
	    .exclude_count = (int)r->n_exclude_ids,
	    .exclude = r->exclude_ids,
	    .limit_count = count,
	    .limits = limits,
	    .wait_ms = in_report ? 0 : r->wait_ms,    /* in a report it never parks */
	    .continues = in_report || r->wait_ms > 0, /* it is a worker's, which then parks another one */
	    .again = r->resend,
	    .max_bytes = r->max_bytes,
	    .where = r->where && !in_report ? &r->base : NULL,
	    .idle_ms = r->idle_since_start_ms,
	    .origin = rpc_call_origin(call),
	    .backlogged = backlogged,
	    .caller = call,
	};
	dispatch_fetch(s->core->dispatch, &request, done, arg);
	free(limits);
}

/* Sets the texts that a task has under the same name. */
static void give_texts(Reeve__V1__Assignment *assignment, const struct store_claimed *won)
{
	static const ProtobufCFieldDescriptor *fields[SQL_ASSIGNED];
	for (int i = 0; i < SQL_ASSIGNED; i++) {
		if (!fields[i])
			fields[i] = field_named(assignment->base.descriptor, sql_columns_assigned[i]);
		*(const char **)field_at(&assignment->base, fields[i]) = won->texts[i];
	}
}

void fetch_message_fill(struct fetch_message *m, const struct core *core, int64_t incarnation, int64_t fetch_id,
    const struct fetch_answer *answer)
{
	reeve__v1__fetch_response__init(&m->response);
	m->response.incarnation = incarnation;
	m->response.fetch_id = fetch_id;
	m->response.parked_ms = answer->parked_ms;
	m->response.retry_after_ms = answer->retry_after_ms;
	m->assignments = mem_calloc((size_t)answer->won_count + 1, sizeof *m->assignments);
	m->response.assignments = mem_calloc((size_t)answer->won_count + 1, sizeof *m->response.assignments);
	m->response.n_assignments = (size_t)answer->won_count;
	for (int i = 0; i < answer->won_count; i++) {
		const struct store_claimed *won = answer->won[i];
		const struct route *route = won->queue ? NULL : routes_get(core->routes, won->route);
		assert(won->queue || route); /* only tasks of known routes are claimed */
		Reeve__V1__Assignment *a = m->response.assignments[i] = &m->assignments[i];
		reeve__v1__assignment__init(a);
		a->task_id = won->id;
		a->token = won->token;
		a->queue = route ? route->queue : (char *)won->queue;
		a->type = route ? route->type : (char *)won->type;
		a->details = (char *)won->details;
		give_texts(a, won);
		a->attempt = (uint32_t)won->attempt;
		a->max_attempts = (uint32_t)won->max_attempts;
		a->timeout_ms = won->timeout_ms;
		a->expires_in_ms = won->expires_in_ms;
		a->assignment_id = won->assignment_id;
		a->batch_id = won->batch_id;
		a->resting_ms = queues_get(core->queues, a->queue)->resting_ms;
	}
	m->commands = mem_calloc((size_t)answer->command_count + 1, sizeof *m->commands);
	m->response.commands = mem_calloc((size_t)answer->command_count + 1, sizeof *m->response.commands);
	m->response.n_commands = (size_t)answer->command_count;
	for (int i = 0; i < answer->command_count; i++) {
		m->response.commands[i] = &m->commands[i];
		worker_command_fill(&m->commands[i], &answer->commands[i]);
	}
}

void fetch_message_free(struct fetch_message *m)
{
	free(m->assignments);
	free(m->response.assignments);
	free(m->commands);
	free(m->response.commands);
}

struct fetch_call {
	struct rpc_call *call;
	struct services *services;
	const Reeve__V1__FetchRequest *request; /* of the call */
	int64_t incarnation, fetch_id;
};

static void on_retries_read(struct store_op *op, const struct reeve_error *error)
{
	struct reading *r = (struct reading *)op;
	const Reeve__V1__FetchRequest *request = (const Reeve__V1__FetchRequest *)r->request;
	Reeve__V1__FetchResponse *response = (Reeve__V1__FetchResponse *)r->response;
	response->incarnation = request->incarnation;
	response->fetch_id = request->fetch_id;
	reading_end(r, error);
}

static void on_fetched(void *arg, const struct fetch_answer *answer, const struct reeve_error *error)
{
	struct fetch_call *c = arg;
	bool nothing = !error && !answer->won_count && !answer->command_count && !answer->retry_after_ms;
	if (error) {
		rpc_call_fail_error(c->call, error);
	} else if (nothing && c->request->wait_retries && !c->request->wait_ms) {
		reading_send(reading_of(c->services, c->call, SQL_RETRIES_WAIT, &c->request->base, on_retries_read));
	} else {
		struct fetch_message m;
		fetch_message_fill(&m, c->services->core, c->incarnation, c->fetch_id, answer);
		rpc_call_reply(c->call, &m.response.base);
		fetch_message_free(&m);
	}
	free(c);
}

static void on_fetch_gone(void *arg)
{
	struct fetch_call *c = arg;
	dispatch_gone(c->services->core->dispatch, c->incarnation, c->fetch_id, c);
}

void worker_fetch(void *service, struct rpc_call *call, const ProtobufCMessage *message)
{
	Reeve__V1__FetchRequest *request = (Reeve__V1__FetchRequest *)message; /* of the call alone */
	struct services *s = service;
	struct reeve_error error;
	if (!worker_fetch_check(call, request, &error)) {
		rpc_call_fail_error(call, &error);
		return;
	}
	if (owner_wait(s, call, message, worker_fetch, request->incarnation))
		return;
	struct fetch_call *c = mem_calloc(1, sizeof *c);
	*c = (struct fetch_call){call, s, request, request->incarnation, request->fetch_id};
	rpc_call_on_closed(call, on_fetch_gone, c);
	worker_fetch_start(s, call, request, false, on_fetched, c);
}
