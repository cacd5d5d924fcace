/*
 * Identifies callers and checks their roles, before a message is unpacked; no other file does. A connection is
 * identified at its first call, and again when it sends another token or its identity has ended.
 */
#include "common/rpc/server_internal.h"

#include "common/clock.h"
#include "common/mem.h"
#include "common/rpc/conn_tls.h"

#include <assert.h>
#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

enum { LAST_ANSWER_MS = 10000 }; /* how long a peer whose identity has ended may wait for the answer to a call */

void rpc_server_guard(struct rpc_server *server, const struct rpc_guard *guard)
{
	server->guard = *guard;
}

void guard_note_origin(struct peer *peer, int fd, const struct sockaddr *from)
{
	struct ucred user;
	socklen_t length = sizeof user;

	peer->local = limits_is_local(from);
	peer->by_ipc = from->sa_family == AF_UNIX && getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &user, &length) == 0;
	peer->uid = peer->by_ipc ? user.uid : (uid_t)-1;
}

void rpc_identity_release(struct rpc_identity *identity)
{
	if (identity && --identity->references == 0)
		identity->free(identity);
}

void guard_forget_peer(struct peer *peer)
{
	rpc_identity_release(peer->identity);
	free(peer->token);
	peer->identity = NULL;
	peer->token = NULL;
}

void guard_forget_call(struct rpc_call *call)
{
	free(call->own_actor);
	rpc_identity_release(call->identity);
	call->identity = NULL;
}

/* Compares in a time that depends on the lengths alone. */
static bool same_token(const struct peer *peer, const struct envelope_view *token)
{
	return peer->token_length == token->length && CRYPTO_memcmp(peer->token, token->bytes, token->length) == 0;
}

static bool is_known(const struct peer *peer, const struct envelope_view *token)
{
	return peer->identity && !peer->identity->ended && same_token(peer, token);
}

/* Finds the identity of a call's peer with this token. Returns false with *error set if it has none, or without *error
 * if the identity may appear. */
static bool identify(const struct rpc_call *call, const struct envelope_view *token, struct reeve_error *error)
{
	struct peer *peer = call->peer;
	const struct rpc_guard *guard = &peer->server->guard;
	struct rpc_caller caller = {
	    .token = (const char *)token->bytes,
	    .token_length = token->length,
	    .local = peer->local,
	    .by_ipc = peer->by_ipc,
	    .uid = peer->uid,
	    .certificate = rpc_conn_peer_name(peer->conn),
	    .uncertified = rpc_conn_uncertified(peer->conn),
	    .arrived_ms = call->arrived_ms,
	    .suspect = guesses_suspect(peer),
	};
	struct rpc_identity *identity;
	struct reeve_error why = {0};
	bool unknown;

	if (!guard->identify)
		return error_set(error, STATUS(UNAUTHENTICATED), "this server has no identities: it serves no callers");
	identity = guard->identify(guard->arg, &caller, &why);
	unknown = !identity && why.code == STATUS(UNAUTHENTICATED);
	/* Without `error` the caller need not have an identity. */
	peer->identifying = unknown && error && guard->may_appear && guard->may_appear(guard->arg, &caller, &why);
	if (peer->identifying) {
		peer->server->identifying = true;
		return false;
	}
	if (caller.uncertified && why.code != STATUS(UNAVAILABLE) && !(identity && identity->check_calls)) {
		rpc_identity_release(identity);
		identity = NULL;
		server_tls_note_uncertified(peer);
		error_set(&why, STATUS(UNAUTHENTICATED),
		    "the manager requires a certificate (--tls-cert), except of handlers with the access token of their attempt");
	}
	if (!identity) {
		if (unknown || why.code == STATUS(UNAUTHENTICATED))
			guesses_note(peer, token->length > 0);
		return error_set(error, why.code, "%s", why.message);
	}
	guard_forget_peer(peer);
	peer->identity = identity;
	peer->token = mem_malloc(token->length + 1);
	memcpy(peer->token, token->bytes, token->length);
	peer->token_length = token->length;
	return true;
}

static void take_identity(struct rpc_call *call, struct rpc_identity *identity)
{
	call->identity = identity;
	identity->references++;
	identity->used = true;
	call->own_actor = rpc_identity_qualify(identity, call->actor);
	call->actor = call->own_actor ? call->own_actor : call->actor;
}

/* Returns whether the call's identity has a role for its method. */
static bool has_role(struct rpc_call *call, struct reeve_error *error)
{
	struct rpc_server *server = call->server;
	uint32_t roles = call->method ? call->method->roles : 0;

	if (!call->method || roles & RPC_ANYONE || roles & call->identity->roles)
		return true;
	server->n_denied++;
	server->guard.denied(server->guard.arg, call->identity, call->method->name, roles, error);
	return false;
}

bool guard_admit_nested(struct rpc_call *call, const struct rpc_call *outer, struct reeve_error *error)
{
	take_identity(call, outer->identity);
	if (call->identity->ended)
		return error_set(error, STATUS(UNAUTHENTICATED), "the caller's identity has ended or has changed");
	return has_role(call, error);
}

bool guard_admit(struct rpc_call *call, const struct envelope_view *token, struct reeve_error *error)
{
	struct peer *peer = call->peer;
	uint32_t roles = call->method ? call->method->roles : 0;
	bool known = is_known(peer, token);

	if (roles & RPC_ANYONE) {
		/* An unknown token must not change the answer. Otherwise callers could guess tokens here. */
		known = known || (!token->length && identify(call, token, NULL));
	} else if (!known && !(known = identify(call, token, error))) {
		return false;
	}
	if (known)
		take_identity(call, peer->identity);
	return has_role(call, error);
}

bool rpc_call_gone(const struct rpc_call *call)
{
	return (call->peer->closed || call->answered) && !share_awaited(call);
}

void rpc_call_serve(struct rpc_call *call, const ProtobufCMessage *request)
{
	if (rpc_call_gone(call))
		server_drop_call(call);
	else if (call->key)
		keys_find(call);
	else
		call->method->serve(call->method->service, call, request);
}

uint32_t rpc_call_roles(const struct rpc_call *call)
{
	return call->method->roles;
}

void guard_serve(struct rpc_call *call, const ProtobufCMessage *request)
{
	if (call->identity && call->identity->check_calls)
		call->server->guard.check_call(call->server->guard.arg, call, request);
	else
		rpc_call_serve(call, request);
}

static bool is_of_ended(const struct peer *peer)
{
	const struct rpc_call *call;

	if (peer->identity && peer->identity->ended)
		return true;
	DL_FOREACH2 (peer->calls, call, next_of_peer)
		if (call->identity && call->identity->ended)
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

/* Returns whether a short call of an ended identity is open. It may have ended that identity, so it gets its answer. */
static bool awaits_answer(const struct peer *peer)
{
	int64_t since_ms = clock_monotonic_ms() - LAST_ANSWER_MS;
	const struct rpc_call *call;

	DL_FOREACH2 (peer->calls, call, next_of_peer)
		if (call->identity && call->identity->ended && call->method->class == RPC_OPERATOR &&
		    call->arrived_ms > since_ms)
			return true;
	return false;
}

bool guard_identity_ended(const struct peer *peer)
{
	return is_of_ended(peer) && !awaits_answer(peer);
}

void rpc_server_close_ended(struct rpc_server *server)
{
	struct peer *peer;

	DL_FOREACH (server->peers, peer)
		if (guard_identity_ended(peer))
			rpc_conn_close(peer->conn);
}

const struct rpc_identity *rpc_call_identity(const struct rpc_call *call)
{
	return call->identity;
}

int64_t rpc_server_denied(const struct rpc_server *server)
{
	return server->n_denied;
}
