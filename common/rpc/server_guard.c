/*
 * Who calls, and whether it may: the only place that decides that, before a message is unpacked. The identity of a
 * connection is found with its first call, and again when it sends another token or its identity is over.
 */
#include "common/rpc/server_internal.h"

#include "common/mem.h"
#include "common/rpc/conn_tls.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

void rpc_server_guard(struct rpc_server *server, const struct rpc_guard *guard)
{
	server->guard = *guard;
}

static void release(struct rpc_identity *identity)
{
	if (identity && --identity->references == 0)
		identity->free(identity);
}

void guard_forget_peer(struct peer *peer)
{
	release(peer->identity);
	free(peer->token);
	peer->identity = NULL;
	peer->token = NULL;
}

void guard_forget_call(struct rpc_call *call)
{
	free(call->own_actor);
	release(call->identity);
	call->identity = NULL;
}

/* Compares in a time that depends on the lengths alone. */
static bool same_token(const struct peer *peer, const struct envelope_view *token)
{
	uint8_t difference = 0;

	if (peer->token_length != token->length)
		return false;
	for (size_t i = 0; i < token->length; i++)
		difference |= (uint8_t)(peer->token[i] ^ token->bytes[i]);
	return !difference;
}

static bool is_known(const struct peer *peer, const struct envelope_view *token)
{
	return peer->identity && !peer->identity->over && same_token(peer, token);
}

/* Finds the identity of a peer that shows this token. Returns false with *error set if it has none. */
static bool identify(struct peer *peer, const struct envelope_view *token, struct reeve_error *error)
{
	const struct rpc_guard *guard = &peer->server->guard;
	struct rpc_caller caller = {
	    .token = (const char *)token->bytes,
	    .token_length = token->length,
	    .local = peer->local,
	    .by_ipc = peer->by_ipc,
	    .uid = peer->uid,
	    .certificate = rpc_conn_peer_name(peer->conn),
	    .uncertified = rpc_conn_uncertified(peer->conn),
	};
	struct rpc_identity *identity;
	struct reeve_error why = {0};

	if (!guard->identify)
		return error_set(error, STATUS(UNAUTHENTICATED), "this server has no identities: it serves no callers");
	identity = guard->identify(guard->arg, &caller, &why);
	if (caller.uncertified && why.code != STATUS(UNAVAILABLE) && !(identity && identity->held)) {
		release(identity);
		identity = NULL;
		server_tls_note_uncertified(peer);
		error_set(&why, STATUS(UNAUTHENTICATED),
		    "the manager requires a certificate (--tls-cert), except of handlers with the access token of their attempt");
	}
	if (!identity) {
		if (token->length && why.code == STATUS(UNAUTHENTICATED))
			guesses_note(peer);
		return error_set(error, why.code, "%s", why.message);
	}
	guard_forget_peer(peer);
	peer->identity = identity;
	peer->token = mem_malloc(token->length + 1);
	memcpy(peer->token, token->bytes, token->length);
	peer->token_length = token->length;
	return true;
}

bool guard_admit(struct rpc_call *call, const struct envelope_view *token, struct reeve_error *error)
{
	struct peer *peer = call->peer;
	uint32_t roles = call->method ? call->method->roles : 0;
	bool known = is_known(peer, token);

	if (roles & RPC_ANYONE) {
		/* An unknown token must not change the answer. Otherwise callers could guess tokens here. */
		known = known || (!token->length && identify(peer, token, NULL));
	} else if (!known && !(known = identify(peer, token, error))) {
		return false;
	}
	if (known) {
		call->identity = peer->identity;
		call->identity->references++;
		call->identity->used = true;
		call->own_actor = rpc_identity_says(call->identity, call->actor);
		call->actor = call->own_actor ? call->own_actor : call->actor;
	}
	if (!call->method || roles & RPC_ANYONE || roles & call->identity->roles)
		return true;
	peer->server->guard.denied(peer->server->guard.arg, call->identity, call->method->name, roles, error);
	return false;
}

bool rpc_call_gone(const struct rpc_call *call)
{
	return call->peer->over || call->answered;
}

void rpc_call_serve(struct rpc_call *call, const ProtobufCMessage *request)
{
	if (rpc_call_gone(call))
		server_drop_call(call);
	else
		call->method->serve(call->method->service, call, request);
}

uint32_t rpc_call_roles(const struct rpc_call *call)
{
	return call->method->roles;
}

void guard_serve(struct rpc_call *call, const ProtobufCMessage *request)
{
	if (call->identity && call->identity->held)
		call->server->guard.hold(call->server->guard.arg, call, request);
	else
		rpc_call_serve(call, request);
}

static bool is_of_ended(const struct peer *peer)
{
	const struct rpc_call *call;

	if (peer->identity && peer->identity->over)
		return true;
	DL_FOREACH2 (peer->calls, call, next_of_peer)
		if (call->identity && call->identity->over)
			return true;
	return false;
}

void rpc_server_open_method(struct rpc_server *server, const char *name)
{
	struct method *method;

	HASH_FIND(hh, server->methods, name, strlen(name), method);
	assert(method);
	method->roles |= RPC_ANYONE;
}

void rpc_server_expel(struct rpc_server *server)
{
	struct peer *peer;

	DL_FOREACH (server->peers, peer)
		if (is_of_ended(peer))
			rpc_conn_close(peer->conn);
}

const struct rpc_identity *rpc_call_identity(const struct rpc_call *call)
{
	return call->identity;
}
