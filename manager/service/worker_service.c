/*
 * WorkerService. A Report with a Fetch starts the commit of the results and the claim together, and is answered when
 * both are done.
 */
#include "common/log.h"
#include "common/text.h"
#include "manager/core/dispatch.h"
#include "manager/core/leases.h"
#include "manager/core/queues.h"
#include "manager/core/report.h"
#include "manager/core/routes.h"
#include "manager/core/sessions.h"
#include "manager/service/check.h"
#include "manager/service/services.h"

#include <assert.h>
#include <reeve/v1/worker.pb-c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	RESULTS_MAX = 10000,
	SLOTS_MAX = 10000,
	EXCLUDE_MAX = 1000,
	IN_FLIGHT_MAX = 200000, /* attempts held at once: waiting, running, or with an unacknowledged result */
	WAITING_MAX = 10000,
	REMARK_MAX = 4096,
	STACK_MAX = 65536,
};
static const int64_t RUN_MAX_MS = INT64_C(365) * 24 * 3600 * 1000;

/* --- Register ---------------------------------------------------------------------------------------------------- */

struct register_call {
	struct store_register op;
	struct rpc_call *call;
	struct services *services;
};

static void on_registered(struct store_op *op, const struct reeve_error *error)
{
	struct register_call *c = (struct register_call *)op;
	const struct core *core = c->services->core;
	if (error) {
		rpc_call_fail_error(c->call, error);
	} else if (!c->op.incarnation) {
		struct reeve_error taken;
		error_set(&taken, STATUS(ALREADY_EXISTS),
		    "a worker named \"%s\" lives already, process %d on %s; give each its own name, or wait until that one is gone",
		    c->op.name, (int)c->op.other_pid, c->op.other_host);
		uint64_t who = (uint64_t)c->op.pid;
		for (const char *at = c->op.name; *at; at++)
			who = who * 31 + (unsigned char)*at;
		if (remarks_new(&c->services->core->base.remarks, REMARK_NAME_TAKEN, (int64_t)who, c->op.other_pid, core_now(core)))
			log_warn(NULL, "%s/%d was refused: %s", c->op.host, (int)c->op.pid, taken.message);
		rpc_call_fail_error(c->call, &taken);
	} else {
		if (c->op.previous)
			leases_gone(core->leases, c->op.previous);
		Reeve__V1__RegisterResponse response = REEVE__V1__REGISTER_RESPONSE__INIT;
		sessions_live(core->sessions, c->op.incarnation);
		response.incarnation = c->op.incarnation;
		response.lease_ms = c->op.manual ? 0 : (uint32_t)core->base.options.lease_ms;
		response.heartbeat_ms = c->op.manual ? 0 : (uint32_t)core->base.options.heartbeat_ms;
		response.max_result_bytes = (uint32_t)core->base.options.max_result_bytes;
		rpc_call_reply(c->call, &response.base);
	}
	free(c);
}

/* Limits the names of a worker, because every answer that lists it has them. */
static bool check_names_together(
    const char *const *queues, size_t n_queues, const char *const *types, size_t n_types, struct reeve_error *error)
{
	enum { NAMES_BYTES_MAX = 128 * 1024 };
	size_t bytes = 0;
	for (size_t i = 0; i < n_queues; i++)
		bytes += strlen(queues[i]);
	for (size_t i = 0; i < n_types; i++)
		bytes += strlen(types[i]);
	return bytes <= NAMES_BYTES_MAX ||
	    error_set(error, STATUS(INVALID_ARGUMENT), "queues and types have %zu bytes together; at most %d are taken", bytes,
	        NAMES_BYTES_MAX);
}

static void register_worker(void *service, struct rpc_call *call, const ProtobufCMessage *message)
{
	const Reeve__V1__RegisterRequest *request = (const Reeve__V1__RegisterRequest *)message;
	struct services *s = service;
	struct reeve_error error;
	if (!check_name("name", request->name, false, &error) || !check_name("host", request->host, true, &error) ||
	    !check_name("version", request->version, true, &error) ||
	    !check_range("concurrency", request->concurrency, 1, CONCURRENCY_MAX, &error) ||
	    !check_names("queues", request->queues, request->n_queues, &error) ||
	    !check_names("types", request->types, request->n_types, &error) ||
	    !check_names_together(request->queues, request->n_queues, request->types, request->n_types, &error) ||
	    !check_range("previous", request->previous, 0, INT64_MAX, &error)) {
		rpc_call_fail_error(call, &error);
		return;
	}
	struct register_call *c = mem_calloc(1, sizeof *c);
	c->call = call;
	c->services = s;
	c->op = (struct store_register){
	    .op.done = on_registered,
	    .op.deadline_ms = service_deadline(s, call),
	    .op.origin = rpc_call_origin(call),
	    .name = request->name,
	    .host = request->host,
	    .version = request->version,
	    .pid = request->pid,
	    .concurrency = (int32_t)request->concurrency,
	    .queue_count = (int)request->n_queues,
	    .type_count = (int)request->n_types,
	    .queues = request->queues,
	    .types = request->types,
	    .lease_ms = s->core->base.options.lease_ms,
	    .previous = request->previous,
	    .manual = request->manual,
	};
	store_register(s->core->base.store, &c->op);
}

/* --- Fetch ------------------------------------------------------------------------------------------------------- */

static bool check_fetch(const Reeve__V1__FetchRequest *r, struct reeve_error *error)
{
	return check_range("incarnation", r->incarnation, 1, INT64_MAX, error) &&
	    check_range("fetch_id", r->fetch_id, 1, INT64_MAX, error) &&
	    check_range("slots", r->slots, 1, SLOTS_MAX, error) &&
	    check_names("queues", r->queues, r->n_queues, error) && check_names("types", r->types, r->n_types, error) &&
	    check_range("idle_since_start_ms", r->idle_since_start_ms, 0, INT64_MAX / 4, error) &&
	    check_range("exclude_ids", (int64_t)r->n_exclude_ids, 0, EXCLUDE_MAX, error);
}

static struct fetch_request fetch_from(const struct rpc_call *call, const Reeve__V1__FetchRequest *r)
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

static Reeve__V1__WorkerCommandKind command_kind(const char *name)
{
	static const struct {
		const char *name;
		Reeve__V1__WorkerCommandKind kind;
	} all[] = {
	    {"cancel", REEVE__V1__WORKER_COMMAND_KIND__WORKER_COMMAND_KIND_CANCEL},
	    {"drain", REEVE__V1__WORKER_COMMAND_KIND__WORKER_COMMAND_KIND_DRAIN},
	    {"pause", REEVE__V1__WORKER_COMMAND_KIND__WORKER_COMMAND_KIND_PAUSE},
	    {"resume", REEVE__V1__WORKER_COMMAND_KIND__WORKER_COMMAND_KIND_RESUME},
	    {"concurrency", REEVE__V1__WORKER_COMMAND_KIND__WORKER_COMMAND_KIND_CONCURRENCY},
	    {"stop", REEVE__V1__WORKER_COMMAND_KIND__WORKER_COMMAND_KIND_STOP},
	};
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		if (!strcmp(all[i].name, name))
			return all[i].kind;
	return REEVE__V1__WORKER_COMMAND_KIND__WORKER_COMMAND_KIND_UNSPECIFIED;
}

static void command_fill(Reeve__V1__WorkerCommand *out, const struct store_worker_command *command)
{
	reeve__v1__worker_command__init(out);
	out->kind = command_kind(command->kind);
	out->task_id = command->task_id;
	out->token = command->token;
	out->value = (uint32_t)command->value;
}

/* A Fetch answer as a message. */
struct fetch_message {
	Reeve__V1__FetchResponse response;
	Reeve__V1__Assignment *assignments;
	Reeve__V1__WorkerCommand *commands;
};

/* Fills the message. Its strings belong to the answer. */
static void fetch_message_fill(struct fetch_message *m, const struct core *core, int64_t incarnation, int64_t fetch_id,
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
		a->key = (char *)won->key;
		a->stage = (char *)won->stage;
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
		command_fill(&m->commands[i], &answer->commands[i]);
	}
}

static void fetch_message_free(struct fetch_message *m)
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

static void fetch(void *service, struct rpc_call *call, const ProtobufCMessage *message)
{
	const Reeve__V1__FetchRequest *request = (const Reeve__V1__FetchRequest *)message;
	struct services *s = service;
	struct reeve_error error;
	if (!check_fetch(request, &error)) {
		rpc_call_fail_error(call, &error);
		return;
	}
	struct fetch_call *c = mem_calloc(1, sizeof *c);
	*c = (struct fetch_call){call, s, request->incarnation, request->fetch_id};
	struct fetch_request f = fetch_from(call, request);
	rpc_call_on_closed(call, on_fetch_gone, c);
	dispatch_fetch(s->core->dispatch, &f, on_fetched, c);
}

/* --- Report ------------------------------------------------------------------------------------------------------ */

struct report_call {
	struct store_report op;
	struct rpc_call *call;
	struct services *services;
	bool reported, fetched;     /* the answer waits for both */
	bool refused;
	struct reeve_error problem;
	uint8_t *packed_fetch;      /* the Fetch's answer, packed while its strings were valid */
	size_t packed_length;
	bool *too_long;             /* one for each result */
	int64_t incarnation, fetch_id;
	struct store_result results[];
};

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
			reeve__v1__result_ack__init(ack);
			ack->task_id = r->id;
			ack->token = r->token;
			ack->status = r->ack == STORE_LATE ? REEVE__V1__RESULT_STATUS__RESULT_STATUS_LOST
			    : r->ack == STORE_LATER    ? REEVE__V1__RESULT_STATUS__RESULT_STATUS_LATER
			    : c->too_long[i]           ? REEVE__V1__RESULT_STATUS__RESULT_STATUS_REFUSED
			                               : REEVE__V1__RESULT_STATUS__RESULT_STATUS_ACCEPTED;
			if (r->ack == STORE_LATER)
				ack->note = (char *)"another transaction has locked the task, or its batch; report it again";
			else if (r->ack == STORE_LATE)
				ack->note = (char *)"the lock had been lost; nothing was changed";
			else if (c->too_long[i])
				ack->note = (char *)"the result is too long; the attempt was ended as fatal";
		}
		if (c->packed_fetch)
			response.fetch =
			    reeve__v1__fetch_response__unpack(NULL, c->packed_length, c->packed_fetch);
		rpc_call_reply(c->call, &response.base);
		if (response.fetch)
			reeve__v1__fetch_response__free_unpacked(response.fetch, NULL);
		free(response.acks);
		free(acks);
	}
	free(c->packed_fetch);
	free(c->too_long);
	free(c);
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

static bool check_result(size_t i, const Reeve__V1__Result *r, struct reeve_error *error)
{
	char field[48];
	if (r->outcome >= REEVE__V1__OUTCOME__OUTCOME_COMPLETED && r->outcome <= REEVE__V1__OUTCOME__OUTCOME_LEASE_ENDED &&
	    r->task_id >= 1 && r->token >= 1 && !name_problem(r->error_code, true) && !*r->stage)
		return true;
	snprintf(field, sizeof field, "results[%zu].outcome", i);
	if (!check_range(field, r->outcome, REEVE__V1__OUTCOME__OUTCOME_COMPLETED,
	        REEVE__V1__OUTCOME__OUTCOME_LEASE_ENDED, error))
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
	return r->outcome == REEVE__V1__OUTCOME__OUTCOME_COMPLETED ||
	    error_set(error, STATUS(INVALID_ARGUMENT), "%s needs the outcome COMPLETED", field);
}

/* Returns the text, or NULL if it is empty. Cuts a text that is too long, without splitting a character: its result
 * must not be lost. */
static const char *clipped(const char *text, size_t most)
{
	if (strlen(text) > most)
		((char *)text)[utf8_cut(text, most)] = 0; /* of the call's own message */
	return *text ? text : NULL;
}

static void report(void *service, struct rpc_call *call, const ProtobufCMessage *message)
{
	const Reeve__V1__ReportRequest *request = (const Reeve__V1__ReportRequest *)message;
	struct services *s = service;
	struct reeve_error error;
	bool bad = !check_range("incarnation", request->incarnation, 0, INT64_MAX, &error) ||
	    !check_range("results", (int64_t)request->n_results, 1, RESULTS_MAX, &error) ||
	    (request->fetch && !check_fetch(request->fetch, &error));
	for (size_t i = 0; !bad && i < request->n_results; i++)
		bad = !check_result(i, request->results[i], &error);
	if (bad) {
		rpc_call_fail_error(call, &error);
		return;
	}
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
			r->error = "the handler's result is longer than the manager takes (--max-result)";
			r->error_code = "too_long";
		} else if (r->outcome == STORE_COMPLETED) {
			r->result = given->result;
			r->stage = *given->stage ? given->stage : NULL;
		} else {
			r->error = given->error;
			r->error_code = given->error_code;
			r->stack = clipped(given->stack_trace, STACK_MAX);
			r->retry_in_ms = given->retry_in_ms < 0 ? 0 : given->retry_in_ms;
			if (r->retry_in_ms > 365 * DAY_MS)
				r->retry_in_ms = 365 * DAY_MS;
		}
		r->remark = clipped(given->remark, REMARK_MAX);
	}
	c->op = (struct store_report){
	    .op.done = on_reported,
	    .op.deadline_ms = service_deadline(s, call),
	    .op.origin = rpc_call_origin(call),
	    .incarnation = request->incarnation,
	    .count = (int)request->n_results,
	    .results = c->results,
	};
	/* A worker that asks for many more tasks than it reports, or for none, does not need the answer to go on. A pull client
	 * (incarnation 0) may report one task after another. */
	c->op.op.can_wait =
	    request->incarnation && (!request->fetch || request->fetch->slots / 4 >= request->n_results);
	c->fetched = request->fetch == NULL;
	if (request->fetch) {
		struct fetch_request f = fetch_from(call, request->fetch);
		f.wait_ms = 0; /* it never parks, … */
		f.goes_on = true; /* … but is a worker's, which then parks another one */
		c->fetch_id = f.fetch_id;
		c->incarnation = f.incarnation;
		rpc_call_on_closed(call, on_report_gone, c);
		/* The report must begin before the call can be answered. */
		report_results(s->core->reports, &c->op);
		dispatch_fetch(s->core->dispatch, &f, on_report_fetched, c);
	} else {
		report_results(s->core->reports, &c->op);
	}
}

/* --- Heartbeat --------------------------------------------------------------------------------------------------- */

struct heartbeat_call {
	struct store_heartbeat op;
	struct rpc_call *call;
	struct services *services;
};

static void on_heartbeat(struct store_op *op, const struct reeve_error *error)
{
	struct heartbeat_call *c = (struct heartbeat_call *)op;
	if (error) {
		rpc_call_fail_error(c->call, error);
		free(c);
		return;
	}
	if (c->op.locked) {
		rpc_call_fail(c->call, STATUS(UNAVAILABLE),
		    "another transaction has locked the row of incarnation %lld in \"workers\"; try again",
		    (long long)c->op.incarnation);
		free(c);
		return;
	}
	if (c->op.overtaken && !c->op.lost) {
		/* Either it is late, and no caller waits for its answer, or another process uses this incarnation and must not
		 * get a lease. */
		rpc_call_fail(c->call, STATUS(ABORTED), "a later heartbeat of incarnation %lld has come",
		    (long long)c->op.incarnation);
		free(c);
		return;
	}
	Reeve__V1__HeartbeatResponse response = REEVE__V1__HEARTBEAT_RESPONSE__INIT;
	Reeve__V1__WorkerCommand *commands = mem_calloc((size_t)c->op.command_count + 1, sizeof *commands);
	response.lost = c->op.lost;
	response.commands = mem_calloc((size_t)c->op.command_count + 1, sizeof *response.commands);
	response.n_commands = (size_t)c->op.command_count;
	for (int i = 0; i < c->op.command_count; i++) {
		response.commands[i] = &commands[i];
		command_fill(&commands[i], &c->op.commands[i]);
	}
	rpc_call_reply(c->call, &response.base);
	free(response.commands);
	free(commands);
	free(c);
}

/* The names in the tables. */
static const char *const worker_modes[] = {
    [REEVE__V1__WORKER_MODE__WORKER_MODE_UNSPECIFIED] = "running",
    [REEVE__V1__WORKER_MODE__WORKER_MODE_RUNNING] = "running",
    [REEVE__V1__WORKER_MODE__WORKER_MODE_PAUSED] = "paused",
    [REEVE__V1__WORKER_MODE__WORKER_MODE_DRAINING] = "draining",
};

static bool check_heartbeat(const Reeve__V1__HeartbeatRequest *r, struct reeve_error *error)
{
	if (!check_range("incarnation", r->incarnation, 1, INT64_MAX, error) ||
	    !check_range("mode", r->mode, 0, REEVE__V1__WORKER_MODE__WORKER_MODE_DRAINING, error) ||
	    !check_range("concurrency", r->concurrency, 0, CONCURRENCY_MAX, error) ||
	    !check_range("succeeded", r->succeeded, 0, INT64_MAX, error) ||
	    !check_range("failed", r->failed, 0, INT64_MAX, error) ||
	    !check_range("seq", r->seq, 1, INT64_MAX, error) ||
	    !check_range("highest_fetch_id", r->highest_fetch_id, 0, INT64_MAX, error) ||
	    !check_range("in_flight", (int64_t)r->n_in_flight, 0, IN_FLIGHT_MAX, error) ||
	    !check_range("remarks", (int64_t)r->n_remarks, 0, IN_FLIGHT_MAX, error) ||
	    !check_range("waiting_fetch_ids", (int64_t)r->n_waiting_fetch_ids, 0, WAITING_MAX, error) ||
	    !check_names("types", r->types, r->n_types, error) ||
	    !check_names_together(NULL, 0, r->types, r->n_types, error))
		return false;
	for (size_t i = 0; i < r->n_in_flight; i++)
		if (r->in_flight[i]->task_id < 1 || r->in_flight[i]->token < 1)
			return error_set(error, STATUS(INVALID_ARGUMENT), "in_flight[%zu] is not an attempt", i);
	for (size_t i = 0; i < r->n_remarks; i++)
		if (r->remarks[i]->task_id < 1 || r->remarks[i]->token < 1)
			return error_set(error, STATUS(INVALID_ARGUMENT), "remarks[%zu] is of no attempt", i);
	return true;
}

struct remarks_kept {
	struct store_remarks op;
	char **texts;
	int64_t numbers[];
};

static void on_remarks_kept(struct store_op *op, const struct reeve_error *error)
{
	struct remarks_kept *k = (struct remarks_kept *)op;
	(void)error; /* the remarks then appear only when the attempts end */
	for (int i = 0; i < k->op.count; i++)
		free(k->texts[i]);
	free(k->texts);
	free(k);
}

/* Stores the remarks of a heartbeat. Its answer does not wait for that. */
static void keep_remarks(struct services *s, struct rpc_call *call, const Reeve__V1__HeartbeatRequest *request)
{
	size_t n = request->n_remarks;
	if (n == 0)
		return;
	struct remarks_kept *k = mem_calloc(1, sizeof *k + 2 * n * sizeof *k->numbers);
	int64_t *ids = k->numbers, *tokens = ids + n;
	k->texts = mem_malloc(n * sizeof *k->texts);
	k->op = (struct store_remarks){
	    .op.done = on_remarks_kept,
	    .op.deadline_ms = service_deadline(s, call),
	    .op.origin = rpc_call_origin(call),
	    .count = (int)n,
	    .ids = ids,
	    .tokens = tokens,
	    .texts = (const char *const *)k->texts,
	};
	for (size_t i = 0; i < n; i++) {
		const Reeve__V1__Remark *remark = request->remarks[i];
		const char *text = clipped(remark->text, REMARK_MAX);
		ids[i] = remark->task_id;
		tokens[i] = remark->token;
		k->texts[i] = mem_strdup(text ? text : "");
		k->op.bytes += strlen(k->texts[i]) + 2 * sizeof *ids;
	}
	store_remarks(s->core->base.store, &k->op);
}

static void heartbeat(void *service, struct rpc_call *call, const ProtobufCMessage *message)
{
	const Reeve__V1__HeartbeatRequest *request = (const Reeve__V1__HeartbeatRequest *)message;
	struct services *s = service;
	struct reeve_error error;
	if (!check_heartbeat(request, &error)) {
		rpc_call_fail_error(call, &error);
		return;
	}
	struct heartbeat_call *c = mem_calloc(1, sizeof *c);
	c->call = call;
	c->services = s;
	c->op = (struct store_heartbeat){
	    .op.done = on_heartbeat,
	    .op.deadline_ms = service_deadline(s, call),
	    .op.origin = rpc_call_origin(call),
	    .incarnation = request->incarnation,
	    .seq = request->seq,
	    .mode = worker_modes[request->mode],
	    .concurrency = (int32_t)request->concurrency,
	    .succeeded = request->succeeded,
	    .failed = request->failed,
	    .type_count = (int)request->n_types,
	    .types = request->types,
	};
	int64_t *ids = mem_malloc(sizeof *ids * 2 * (request->n_in_flight + 1)), *tokens = ids + request->n_in_flight;
	for (size_t i = 0; i < request->n_in_flight; i++) {
		ids[i] = request->in_flight[i]->task_id;
		tokens[i] = request->in_flight[i]->token;
	}
	const struct store_holding holding = {
	    .incarnation = request->incarnation,
	    .highest_fetch = request->highest_fetch_id,
	    .waiting_count = (int)request->n_waiting_fetch_ids,
	    .waiting = request->waiting_fetch_ids,
	    .held_count = (int)request->n_in_flight,
	    .held_ids = ids,
	    .held_tokens = tokens,
	};
	keep_remarks(s, call, request);
	leases_heartbeat(s->core->leases, &c->op, &holding);
	free(ids);
}

/* --- Extend ------------------------------------------------------------------------------------------------------ */

struct extend_call {
	struct store_extend op;
	struct rpc_call *call;
	struct services *services;
};

static void on_extended(struct store_op *op, const struct reeve_error *error)
{
	struct extend_call *c = (struct extend_call *)op;
	struct reeve_error refused;
	if (error) {
		rpc_call_fail_error(c->call, error);
	} else if (!c->op.held) {
		error_set(&refused, STATUS(FAILED_PRECONDITION), "task %lld is not held by this attempt", (long long)c->op.id);
		rpc_call_fail_error(c->call, &refused);
	} else if (c->op.locked) {
		error_set(&refused, STATUS(UNAVAILABLE), "another transaction has locked task %lld; try again", (long long)c->op.id);
		rpc_call_fail_error(c->call, &refused);
	} else if (c->op.run_ms <= 0) {
		error_set(&refused, STATUS(FAILED_PRECONDITION),
		    "the attempt has run for as long as an attempt may (--max-runtime)");
		rpc_call_fail_error(c->call, &refused);
	} else {
		Reeve__V1__ExtendResponse response = REEVE__V1__EXTEND_RESPONSE__INIT;
		response.run_ms = c->op.run_ms;
		response.expires_in_ms = c->op.expires_in_ms;
		c->services->core->base.counters.extended++;
		rpc_call_reply(c->call, &response.base);
	}
	free(c);
}

static void extend(void *service, struct rpc_call *call, const ProtobufCMessage *message)
{
	const Reeve__V1__ExtendRequest *request = (const Reeve__V1__ExtendRequest *)message;
	struct services *s = service;
	struct reeve_error error;
	if (!check_range("incarnation", request->incarnation, 0, INT64_MAX, &error) ||
	    !check_range("task_id", request->task_id, 1, INT64_MAX, &error) ||
	    !check_range("token", request->token, 1, INT64_MAX, &error) ||
	    !check_range("run_ms", request->run_ms, 1, RUN_MAX_MS, &error)) {
		rpc_call_fail_error(call, &error);
		return;
	}
	struct extend_call *c = mem_calloc(1, sizeof *c);
	c->call = call;
	c->services = s;
	c->op = (struct store_extend){
	    .op.done = on_extended,
	    .op.deadline_ms = service_deadline(s, call),
	    .op.origin = rpc_call_origin(call),
	    .id = request->task_id,
	    .token = request->token,
	    .run_ms = request->run_ms,
	    .max_runtime_ms = s->core->base.options.max_runtime_ms,
	};
	store_extend(s->core->base.store, &c->op);
}

/* --- Leave ------------------------------------------------------------------------------------------------------- */

struct leave_call {
	struct store_leave op;
	struct rpc_call *call;
	struct services *services;
};

static void on_left(struct store_op *op, const struct reeve_error *error)
{
	struct leave_call *c = (struct leave_call *)op;
	if (error) {
		rpc_call_fail_error(c->call, error);
	} else {
		Reeve__V1__LeaveResponse response = REEVE__V1__LEAVE_RESPONSE__INIT;
		rpc_call_reply(c->call, &response.base);
		sessions_lost(c->services->core->sessions, c->op.incarnation);
		leases_gone(c->services->core->leases, c->op.incarnation);
	}
	free(c);
}

static void leave(void *service, struct rpc_call *call, const ProtobufCMessage *message)
{
	const Reeve__V1__LeaveRequest *request = (const Reeve__V1__LeaveRequest *)message;
	struct services *s = service;
	struct reeve_error error;
	if (!check_range("incarnation", request->incarnation, 1, INT64_MAX, &error) ||
	    !check_text("reason", request->reason, &error)) {
		rpc_call_fail_error(call, &error);
		return;
	}
	struct leave_call *c = mem_calloc(1, sizeof *c);
	c->call = call;
	c->services = s;
	c->op = (struct store_leave){
	    .op.done = on_left,
	    .op.deadline_ms = service_deadline(s, call),
	    .op.origin = rpc_call_origin(call),
	    .incarnation = request->incarnation,
	    .reason = request->reason,
	};
	store_leave(s->core->base.store, &c->op);
}

const struct rpc_entry worker_methods[] = {
	{"Register", register_worker, RPC_LEASE, NULL},
	{"Fetch", fetch, RPC_ORDINARY, NULL},
	{"Report", report, RPC_LEASE, NULL},
	{"Heartbeat", heartbeat, RPC_LEASE, NULL},
	{"Leave", leave, RPC_LEASE, NULL},
	{"Extend", extend, RPC_LEASE, NULL},
	{0},
};
