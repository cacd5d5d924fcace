/* Calls with an idempotency key, which stands for a request id. The host finds that before the method serves the call. */
#include "common/rpc/server_internal.h"

#include <string.h>

void rpc_server_keys(struct rpc_server *server, rpc_find_key *find, void *arg)
{
	server->find_key = find;
	server->find_key_arg = arg;
}

void rpc_call_go_on(struct rpc_call *call, const uint8_t *request_id)
{
	memcpy(call->request_id, request_id, UUID_BYTES);
	if (rpc_call_gone(call))
		server_drop_call(call);
	else
		guard_serve(call, call->request);
}

void server_begin_call(struct rpc_call *call, const struct rpc_message *message)
{
	const struct rpc_key key = {
	    .text = message->key.bytes,
	    .length = message->key.length,
	    .request = message->envelope.body.bytes,
	    .request_length = message->envelope.body.length,
	};

	/* Keys are stored, so those of callers without an identity are ignored. */
	if (key.text && call->identity && call->server->find_key)
		call->server->find_key(call->server->find_key_arg, call, &key);
	else
		guard_serve(call, call->request);
}
