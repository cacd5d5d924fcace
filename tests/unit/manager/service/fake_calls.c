#include "tests/unit/manager/service/fake_calls.h"

#include "manager/access/access.h"
#include "manager/callbacks/callbacks.h"

#include <stdarg.h>
#include <stdio.h>

uint64_t rpc_call_origin(const struct rpc_call *call)
{
	(void)call;
	return ORIGIN;
}

const uint8_t *rpc_call_request_id(const struct rpc_call *call)
{
	return call->request_id;
}

bool rpc_call_backlogged(const struct rpc_call *call, size_t max)
{
	(void)call, (void)max;
	return false;
}

const char *rpc_call_actor(const struct rpc_call *call)
{
	(void)call;
	return "someone";
}

const struct rpc_identity *rpc_call_identity(const struct rpc_call *call)
{
	static const struct identity everyone = {.rpc = {.name = "", .roles = ~RPC_ANYONE}};

	(void)call;
	return &everyone.rpc;
}

const char *rpc_call_traceparent(const struct rpc_call *call)
{
	(void)call;
	return NULL;
}

const void *rpc_call_declared(const struct rpc_call *call)
{
	return call->entry->declared;
}

int64_t rpc_call_remaining_ms(const struct rpc_call *call)
{
	(void)call;
	return 10000;
}

bool rpc_call_hold(struct rpc_call *call, size_t bytes, struct reeve_error *error)
{
	(void)call;
	(void)bytes;
	(void)error;
	return true;
}

bool rpc_call_gone(const struct rpc_call *call)
{
	(void)call;
	return false;
}

void rpc_call_on_closed(struct rpc_call *call, void (*closed)(void *arg), void *arg)
{
	(void)call;
	(void)closed;
	(void)arg;
}

void rpc_call_reply(struct rpc_call *call, const ProtobufCMessage *response)
{
	(void)response;
	call->answers++;
}

void rpc_call_fail(struct rpc_call *call, reeve_status code, const char *format, ...)
{
	va_list args;

	call->code = code;
	va_start(args, format);
	vsnprintf(call->problem, sizeof call->problem, format, args);
	va_end(args);
	call->answers++;
}

void rpc_call_fail_error(struct rpc_call *call, const struct reeve_error *error)
{
	rpc_call_fail(call, error->code, "%s", error->message);
}

int64_t rpc_server_idle_ping_ms(const struct rpc_server *server)
{
	(void)server;
	return 0;
}

struct rpc_server_memory rpc_server_memory(const struct rpc_server *server)
{
	(void)server;
	return (struct rpc_server_memory){0};
}

int rpc_server_connections(const struct rpc_server *server)
{
	(void)server;
	return 0;
}

int rpc_server_open_calls(const struct rpc_server *server)
{
	(void)server;
	return 0;
}

int64_t rpc_server_calls(const struct rpc_server *server)
{
	(void)server;
	return 0;
}

int64_t rpc_server_refused(const struct rpc_server *server)
{
	(void)server;
	return 0;
}

int64_t rpc_server_denied(const struct rpc_server *server)
{
	(void)server;
	return 0;
}

bool store_counters(const struct store *store, int role, const char **name, int64_t *batches, int64_t *operations)
{
	(void)store;
	(void)role;
	(void)name;
	(void)batches;
	(void)operations;
	return false;
}

bool store_statement(const struct store *store, int statement, const char **name, int64_t *count, int64_t *us)
{
	(void)store;
	(void)statement;
	(void)name;
	(void)count;
	(void)us;
	return false;
}

const struct callbacks_counters *callbacks_counters(const struct callbacks *callbacks)
{
	static const struct callbacks_counters none;

	(void)callbacks;
	return &none;
}

void access_reload(struct access *access, int64_t deadline_ms, identities_done *done, void *arg)
{
	(void)access;
	(void)deadline_ms;
	done(arg, NULL);
}
