/* Fetch: checks a request, and fills the answer with assignments and commands. */
#include "common/limits.h"
#include "manager/core/queues.h"
#include "manager/core/routes.h"
#include "manager/service/check.h"
#include "manager/service/field.h"
#include "manager/service/worker_methods.h"

#include <assert.h>
#include <stdlib.h>

bool worker_fetch_check(const Reeve__V1__FetchRequest *r, struct reeve_error *error)
{
	return check_range("incarnation", r->incarnation, 1, INT64_MAX, error) &&
	    check_range("fetch_id", r->fetch_id, 1, INT64_MAX, error) &&
	    check_range("slots", r->slots, 1, LIMIT_CALL_TASKS, error) &&
	    check_names("queues", r->queues, r->n_queues, error) && check_names("types", r->types, r->n_types, error) &&
	    check_range("idle_since_start_ms", r->idle_since_start_ms, 0, INT64_MAX / 4, error) &&
	    check_range("exclude_ids", (int64_t)r->n_exclude_ids, 0, LIMIT_EXCLUDED, error);
}

struct fetch_request worker_fetch_request(const struct rpc_call *call, const Reeve__V1__FetchRequest *r)
{
	return (struct fetch_request){
	    .incarnation = r->incarnation,
	    .fetch_id = r->fetch_id,
	    .slots = (int)r->slots,
	    .queue_count = (int)r->n_queues,
	    .type_count = (int)r->n_types,
	    .queues = r->queues,
	    .types = r->types,
	    .exclude_count = (int)r->n_exclude_ids,
	    .exclude = r->exclude_ids,
	    .wait_ms = r->wait_ms,
	    .goes_on = r->wait_ms > 0,
	    .again = r->resend,
	    .max_bytes = r->max_bytes,
	    .idle_ms = r->idle_since_start_ms,
	    .origin = rpc_call_origin(call),
	};
}

/* Sets the texts that a task has under the same name. */
static void give_texts(Reeve__V1__Assignment *assignment, const struct store_claimed *won)
{
	static const ProtobufCFieldDescriptor *fields[SQL_ASSIGNED];
	for (int i = 0; i < SQL_ASSIGNED; i++) {
		if (!fields[i])
			fields[i] = field_named(&assignment->base, sql_columns_assigned[i]);
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
	int64_t incarnation, fetch_id;
};

static void on_fetched(void *arg, const struct fetch_answer *answer, const struct reeve_error *error)
{
	struct fetch_call *c = arg;
	if (error) {
		rpc_call_fail_error(c->call, error);
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
	const Reeve__V1__FetchRequest *request = (const Reeve__V1__FetchRequest *)message;
	struct services *s = service;
	struct reeve_error error;
	if (!worker_fetch_check(request, &error)) {
		rpc_call_fail_error(call, &error);
		return;
	}
	struct fetch_call *c = mem_calloc(1, sizeof *c);
	*c = (struct fetch_call){call, s, request->incarnation, request->fetch_id};
	struct fetch_request f = worker_fetch_request(call, request);
	rpc_call_on_closed(call, on_fetch_gone, c);
	dispatch_fetch(s->core->dispatch, &f, on_fetched, c);
}
