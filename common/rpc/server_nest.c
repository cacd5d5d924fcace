/* Calls that another call makes for its caller. To the limits and methods they are like those of the caller's own. */
#include "common/rpc/server_internal.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static const struct method *find_method(const struct rpc_server *server, const char *name)
{
	const struct method *method;

	HASH_FIND(hh, server->methods, name, strlen(name), method);
	return method && method->class != RPC_WAITING ? method : NULL;
}

const ProtobufCMessageDescriptor *rpc_server_input(const struct rpc_server *server, const char *method)
{
	const struct method *found = find_method(server, method);

	return found ? found->input : NULL;
}

void rpc_call_nest(struct rpc_call *outer, struct rpc_nested *nested, const char *method, const void *request,
    size_t length, uint32_t max_age_ms)
{
	struct rpc_message message = {
	    .envelope =
	        {
	            .actor = {(const uint8_t *)outer->texts, strlen(outer->texts)},
	            .body = {request, length},
	            .deadline_ms = outer->deadline_ms,
	        },
	    .max_age_ms = max_age_ms,
	};
	struct rpc_call *call = server_open_call(outer->server, outer->peer, outer->arrived_ms, &message);
	struct reeve_error error;

	call->nested = nested;
	nested->call = call;
	call->method = find_method(outer->server, method);
	assert(call->method && outer->identity);
	outer->server->n_calls++;
	if (guard_admit_nested(call, outer, &error) && limits_enter(call, &error) &&
	    server_unpack(call, &message.envelope, &error))
		server_begin_call(call, &message);
	else
		rpc_call_fail_error(call, &error);
}

void rpc_call_give_up(struct rpc_nested *nested)
{
	if (nested->call)
		server_withdraw(nested->call);
}

bool nest_answer(struct rpc_call *call, const ProtobufCMessage *response, const struct reeve_error *error)
{
	struct rpc_nested *nested = call->nested;

	if (!nested)
		return false;
	call->nested = NULL;
	nested->call = NULL;
	nested->done(nested, response, error);
	return true;
}

bool nest_fail(struct rpc_call *call, reeve_status code, const char *text)
{
	struct reeve_error error;

	if (!call->nested)
		return false;
	error.code = code;
	snprintf(error.message, sizeof error.message, "%s", text);
	return nest_answer(call, NULL, &error);
}
