/* Calls with an idempotency key, which stands for a request id. The host finds that before the method serves the call.
 */
#include "common/rpc/server_internal.h"

#include "common/mem.h"

#include <stdlib.h>
#include <string.h>

void rpc_server_keys(struct rpc_server *server, rpc_find_key *find, void *arg)
{
	server->find_key = find;
	server->find_key_arg = arg;
}

void rpc_call_resume(struct rpc_call *call, const uint8_t *request_id)
{
	memcpy(call->request_id, request_id, UUID_BYTES);
	if (rpc_call_gone(call))
		server_drop_call(call);
	else
		guard_serve(call, call->request);
}

void keys_find(struct rpc_call *call)
{
	struct rpc_key *key = call->key;

	call->key = NULL;
	call->server->find_key(call->server->find_key_arg, call, key);
	free(key);
}

/* Copies a key and its request. */
static struct rpc_key *key_copy(const struct rpc_key *key)
{
	struct rpc_key *copy = mem_malloc(sizeof *copy + key->length + key->request_length);
	char *text = (char *)(copy + 1);

	memcpy(text, key->text, key->length);
	memcpy(text + key->length, key->request, key->request_length);
	*copy = (struct rpc_key){text, text + key->length, key->length, key->request_length};
	return copy;
}

void server_begin_call(struct rpc_call *call, const struct rpc_message *message)
{
	const struct rpc_key key = {
	    .text = message->key.bytes,
	    .length = message->key.length,
	    .request = message->envelope.body.bytes,
	    .request_length = message->envelope.body.length,
	};
	struct reeve_error error;

	if (share_join(call, message))
		return;
	/* Keys are stored, so those of callers without an identity are ignored, and those of an identity with check_calls
	 * wait for the guard. */
	if (!key.text || !call->identity || !call->server->find_key) {
		guard_serve(call, call->request);
	} else if (!call->identity->check_calls) {
		call->server->find_key(call->server->find_key_arg, call, &key);
	} else if (!limits_hold(call, sizeof key + key.length + key.request_length, &error)) {
		rpc_call_fail_error(call, &error);
	} else {
		call->key = key_copy(&key);
		guard_serve(call, call->request);
	}
}
