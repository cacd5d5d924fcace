/* Heartbeat. */
#include "common/limits.h"
#include "common/text.h"
#include "manager/access/scope.h"
#include "manager/core/leases.h"
#include "manager/service/check.h"
#include "manager/service/ownership.h"
#include "manager/service/worker_methods.h"

#include <stdlib.h>
#include <string.h>

struct heartbeat_call {
	struct store_heartbeat op;
	struct rpc_call *call;
	struct services *services;
	struct store_worker_count counts[]; /* their names belong to the call */
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
		rpc_call_fail(
		    c->call, STATUS(ABORTED), "a later heartbeat of incarnation %lld has come", (long long)c->op.incarnation);
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
		worker_command_fill(&commands[i], &c->op.commands[i]);
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
	    !check_range("concurrency", r->concurrency, 0, LIMIT_CONCURRENCY, error) ||
	    !check_range("completed", r->completed, 0, INT64_MAX, error) ||
	    !check_range("failed", r->failed, 0, INT64_MAX, error) || !check_range("seq", r->seq, 1, INT64_MAX, error) ||
	    !check_range("highest_fetch_id", r->highest_fetch_id, 0, INT64_MAX, error) ||
	    !check_range("in_flight", (int64_t)r->n_in_flight, 0, LIMIT_IN_FLIGHT, error) ||
	    !check_range("remarks", (int64_t)r->n_remarks, 0, LIMIT_IN_FLIGHT, error) ||
	    !check_range("counts", (int64_t)r->n_counts, 0, LIMIT_LIST, error) ||
	    !check_range("waiting_fetch_ids", (int64_t)r->n_waiting_fetch_ids, 0, LIMIT_WAITING_FETCHES, error) ||
	    !check_names("types", r->types, r->n_types, error) || !worker_names_check(NULL, 0, r->types, r->n_types, error))
		return false;
	for (size_t i = 0; i < r->n_in_flight; i++)
		if (r->in_flight[i]->task_id < 1 || r->in_flight[i]->token < 1)
			return error_set(
			    error, STATUS(INVALID_ARGUMENT), "in_flight[%zu] must have a task_id and a token, both from 1", i);
	for (size_t i = 0; i < r->n_counts; i++)
		if (name_problem(r->counts[i]->queue, false) || r->counts[i]->batch_id < 0 || r->counts[i]->completed < 0 ||
		    r->counts[i]->failed < 0)
			return error_set(error, STATUS(INVALID_ARGUMENT),
			    "counts[%zu] must have a queue, and a batch_id, completed and failed from 0", i);
	for (size_t i = 0; i < r->n_remarks; i++)
		if (r->remarks[i]->task_id < 1 || r->remarks[i]->token < 1)
			return error_set(
			    error, STATUS(INVALID_ARGUMENT), "remarks[%zu] must have a task_id and a token, both from 1", i);
	return true;
}

/* Leaves out types and queues that the caller may not use. A worker that reads its handlers again, or gets another
 * identity, may have such; it must not lose its lease by that. */
static void limit(const struct rpc_identity *identity, Reeve__V1__HeartbeatRequest *r)
{
	struct reeve_error error;
	size_t types = 0, counts = 0;
	for (size_t i = 0; i < r->n_types; i++)
		if (scope_type(identity, "types", r->types[i], &error))
			r->types[types++] = r->types[i];
	for (size_t i = 0; i < r->n_counts; i++)
		if (scope_queue(identity, "counts", r->counts[i]->queue, &error))
			r->counts[counts++] = r->counts[i];
	r->n_types = types;
	r->n_counts = counts;
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
	struct remarks_kept *k = mem_calloc(1, sizeof *k + 3 * n * sizeof *k->numbers);
	int64_t *ids = k->numbers, *tokens = ids + n, *workers = tokens + n;
	k->texts = mem_malloc(n * sizeof *k->texts);
	k->op = (struct store_remarks){
	    .op = service_op(s, call, on_remarks_kept),
	    .count = (int)n,
	    .ids = ids,
	    .tokens = tokens,
	    .texts = (const char *const *)k->texts,
	    .workers = workers,
	};
	for (size_t i = 0; i < n; i++) {
		const Reeve__V1__Remark *remark = request->remarks[i];
		const char *text = worker_text_cut(remark->text, LIMIT_REMARK_BYTES);
		ids[i] = remark->task_id;
		tokens[i] = remark->token;
		workers[i] = request->incarnation;
		k->texts[i] = mem_strdup(text ? text : "");
		k->op.bytes += strlen(k->texts[i]) + 3 * sizeof *ids;
	}
	store_remarks(s->core->base.store, &k->op);
}

void worker_heartbeat(void *service, struct rpc_call *call, const ProtobufCMessage *message)
{
	Reeve__V1__HeartbeatRequest *request = (Reeve__V1__HeartbeatRequest *)message; /* of the call alone */
	struct services *s = service;
	struct reeve_error error;
	if (!check_heartbeat(request, &error)) {
		rpc_call_fail_error(call, &error);
		return;
	}
	limit(rpc_call_identity(call), request);
	if (owner_wait(s, call, message, worker_heartbeat, request->incarnation))
		return;
	struct heartbeat_call *c = mem_calloc(1, sizeof *c + sizeof *c->counts * request->n_counts);
	c->call = call;
	c->services = s;
	c->op = (struct store_heartbeat){
	    .op = service_op(s, call, on_heartbeat),
	    .incarnation = request->incarnation,
	    .seq = request->seq,
	    .mode = worker_modes[request->mode],
	    .concurrency = request->no_slots ? -1 : (int32_t)request->concurrency,
	    .completed = request->completed,
	    .failed = request->failed,
	    .type_count = (int)request->n_types,
	    .types = request->types,
	    .count_count = (int)request->n_counts,
	    .counts = c->counts,
	};
	for (size_t i = 0; i < request->n_counts; i++)
		c->counts[i] = (struct store_worker_count){.incarnation = request->incarnation,
		    .queue = request->counts[i]->queue,
		    .batch_id = request->counts[i]->batch_id,
		    .completed = request->counts[i]->completed,
		    .failed = request->counts[i]->failed};
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
