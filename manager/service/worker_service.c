/* WorkerService: its methods, of which the longer ones have files of their own (worker_methods.h). */
#include "common/json_names.h"
#include "common/limits.h"
#include "common/log.h"
#include "common/text.h"
#include "manager/access/scope.h"
#include "manager/core/leases.h"
#include "manager/core/sessions.h"
#include "manager/service/check.h"
#include "manager/service/ownership.h"
#include "manager/service/worker_methods.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void worker_command_fill(Reeve__V1__WorkerCommand *out, const struct store_worker_command *command)
{
	int kind;
	reeve__v1__worker_command__init(out);
	if (json_enum_number(&reeve__v1__worker_command_kind__descriptor, command->kind, &kind))
		out->kind = (Reeve__V1__WorkerCommandKind)kind;
	out->task_id = command->task_id;
	out->token = command->token;
	out->value = (uint32_t)command->value;
}

void worker_ack_fill(Reeve__V1__ResultAck *out, int64_t id, int64_t token, enum store_ack ack)
{
	reeve__v1__result_ack__init(out);
	out->task_id = id;
	out->token = token;
	out->status = ack == STORE_LATE ? REEVE__V1__RESULT_STATUS__RESULT_STATUS_LOST
	    : ack == STORE_LATER        ? REEVE__V1__RESULT_STATUS__RESULT_STATUS_LATER
	                                : REEVE__V1__RESULT_STATUS__RESULT_STATUS_ACCEPTED;
}

const char *worker_text_cut(const char *text, size_t max)
{
	if (strlen(text) > max)
		((char *)text)[utf8_cut(text, max)] = 0; /* of the call's own message */
	return *text ? text : NULL;
}

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
		if (c->op.other_pid || *c->op.other_host)
			error_set(&taken, STATUS(ALREADY_EXISTS),
			    "a worker named \"%s\" is already running, process %d on %s; give each its own name, or wait until that one is gone",
			    c->op.name, (int)c->op.other_pid, c->op.other_host);
		else
			error_set(&taken, STATUS(ALREADY_EXISTS),
			    "a worker named \"%s\" of another caller is already running; give each its own name", c->op.name);
		uint64_t who = (uint64_t)c->op.pid;
		for (const char *at = c->op.name; *at; at++)
			who = who * 31 + (unsigned char)*at;
		if (remarks_new(
		        &c->services->core->base.remarks, REMARK_NAME_TAKEN, (int64_t)who, c->op.other_pid, core_now(core)))
			log_warn(NULL, "%s/%d was refused: %s", c->op.host, (int)c->op.pid, taken.message);
		rpc_call_fail_error(c->call, &taken);
	} else {
		if (c->op.previous)
			leases_gone(core->leases, c->op.previous);
		Reeve__V1__RegisterResponse response = REEVE__V1__REGISTER_RESPONSE__INIT;
		sessions_live(core->sessions, c->op.incarnation)->identity = c->op.identity;
		response.incarnation = c->op.incarnation;
		response.lease_ms = c->op.manual ? 0 : (uint32_t)core->base.options.lease_ms;
		response.heartbeat_ms = c->op.manual ? 0 : (uint32_t)core->base.options.heartbeat_ms;
		response.max_result_bytes = (uint32_t)core->base.options.max_result_bytes;
		char key[2 * CREDENTIAL_KEY_BYTES + 1];
		response.identity = c->op.signer;
		response.credential_key = text_hex(c->op.credential_key, CREDENTIAL_KEY_BYTES, key);
		rpc_call_reply(c->call, &response.base);
	}
	free(c);
}

bool worker_names_check(
    const char *const *queues, size_t n_queues, const char *const *types, size_t n_types, struct reeve_error *error)
{
	size_t bytes = 0;
	for (size_t i = 0; i < n_queues; i++)
		bytes += strlen(queues[i]);
	for (size_t i = 0; i < n_types; i++)
		bytes += strlen(types[i]);
	return bytes <= LIMIT_ACCEPTED_BYTES ||
	    error_set(error, STATUS(INVALID_ARGUMENT), "queues and types have %zu bytes together; at most %d are allowed",
	        bytes, LIMIT_ACCEPTED_BYTES);
}

/* Limits a worker to what its caller may use. */
static bool may_register(const struct rpc_identity *identity, Reeve__V1__RegisterRequest *r, struct reeve_error *error)
{
	if (!r->manual && !(identity->roles & MAY_HEARTBEAT))
		return error_set(error, STATUS(PERMISSION_DENIED), "manual: \"%s\" may only be a pull client", identity->name);
	return scope_accept_queues(identity, &r->queues, &r->n_queues, error) &&
	    scope_accept_types(identity, &r->types, &r->n_types, error);
}

static void register_worker(void *service, struct rpc_call *call, const ProtobufCMessage *message)
{
	Reeve__V1__RegisterRequest *request = (Reeve__V1__RegisterRequest *)message; /* of the call alone */
	struct services *s = service;
	struct reeve_error error;
	if (!check_name("name", request->name, false, &error) || !check_name("host", request->host, true, &error) ||
	    !check_name("version", request->version, true, &error) ||
	    !check_range("concurrency", request->concurrency, 1, LIMIT_CONCURRENCY, &error) ||
	    !check_names("queues", request->queues, request->n_queues, &error) ||
	    !check_names("types", request->types, request->n_types, &error) ||
	    !worker_names_check(request->queues, request->n_queues, request->types, request->n_types, &error) ||
	    !check_range("previous", request->previous, 0, INT64_MAX, &error) ||
	    !may_register(rpc_call_identity(call), request, &error)) {
		rpc_call_fail_error(call, &error);
		return;
	}
	struct register_call *c = mem_calloc(1, sizeof *c);
	c->call = call;
	c->services = s;
	c->op = (struct store_register){
	    .op = service_op(s, call, on_registered),
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
	    .identity = scope_owner(rpc_call_identity(call)),
	    .actor = rpc_call_actor(call),
	    .signer = scope_identity(rpc_call_identity(call)),
	};
	store_register(s->core->base.store, &c->op);
}

/* --- Extend ------------------------------------------------------------------------------------------------------ */

struct extend_call {
	struct store_extend op;
	struct store_own owning;
	bool own;
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
		error_set(
		    &refused, STATUS(UNAVAILABLE), "another transaction has locked task %lld; try again", (long long)c->op.id);
		rpc_call_fail_error(c->call, &refused);
	} else if (c->op.run_ms < 0) {
		error_set(
		    &refused, STATUS(FAILED_PRECONDITION), "the attempt has run for as long as an attempt may (--max-runtime)");
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

static void on_extend_owned(struct store_op *op, const struct reeve_error *error)
{
	struct extend_call *c = (struct extend_call *)((char *)op - offsetof(struct extend_call, owning));
	if (error || !c->own)
		on_extended(&c->op.op, error); /* it is not held by this caller */
	else
		store_extend(c->services->core->base.store, &c->op);
}

static void extend(void *service, struct rpc_call *call, const ProtobufCMessage *message)
{
	const Reeve__V1__ExtendRequest *request = (const Reeve__V1__ExtendRequest *)message;
	struct services *s = service;
	struct reeve_error error;
	if (!check_range("incarnation", request->incarnation, 0, INT64_MAX, &error) ||
	    !check_range("task_id", request->task_id, 1, INT64_MAX, &error) ||
	    !check_range("token", request->token, 1, INT64_MAX, &error) ||
	    !check_range("run_ms", request->run_ms, 1, DAYS_MS(LIMIT_RUN_DAYS), &error)) {
		rpc_call_fail_error(call, &error);
		return;
	}
	struct extend_call *c = mem_calloc(1, sizeof *c);
	c->call = call;
	c->services = s;
	c->op = (struct store_extend){
	    .op = service_op(s, call, on_extended),
	    .id = request->task_id,
	    .token = request->token,
	    .run_ms = request->run_ms,
	    .max_runtime_ms = s->core->base.options.max_runtime_ms,
	};
	c->owning = (struct store_own){
	    .op = service_op(s, call, on_extend_owned),
	    .identity = scope_owner(rpc_call_identity(call)),
	    .count = 1,
	    .ids = &c->op.id,
	    .tokens = &c->op.token,
	    .own = &c->own,
	};
	if (c->owning.identity)
		store_own(s->core->base.store, &c->owning);
	else
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
	if (owner_wait(s, call, message, leave, request->incarnation))
		return;
	struct leave_call *c = mem_calloc(1, sizeof *c);
	c->call = call;
	c->services = s;
	c->op = (struct store_leave){
	    .op = service_op(s, call, on_left),
	    .incarnation = request->incarnation,
	    .reason = request->reason,
	    .actor = rpc_call_actor(call),
	};
	store_leave(s->core->base.store, &c->op);
}

const struct rpc_entry worker_methods[] = {
    {"Register", register_worker, RPC_LEASE, MAY_WORK, NULL},
    {"Fetch", worker_fetch, RPC_WAITING, MAY_WORK, NULL},
    {"Report", worker_report, RPC_LEASE, MAY_WORK, NULL},
    {"Heartbeat", worker_heartbeat, RPC_LEASE, MAY_HEARTBEAT, NULL},
    {"Leave", leave, RPC_LEASE, MAY_WORK, NULL},
    {"Extend", extend, RPC_LEASE, MAY_WORK, NULL},
    {"Progress", worker_progress, RPC_ORDINARY, MAY_REPORT, NULL},
    {0},
};
