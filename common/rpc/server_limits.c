/*
 * What everybody may have of the server: open calls, and memory for them. There is a limit for all together, a share of
 * it for each connection and one for each address, so that nobody can take all, and reserves beyond it: one for
 * operators, so that they are heard when ordinary calls have taken all there is, and one for what leases depend on, so
 * that they are kept when operators' calls have taken theirs. Of a reserve a connection may have as much as is left for
 * others: so there is always some left, however many connections flood it.
 */
#include "common/rpc/server_internal.h"

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	HELD_MESSAGES = 64, /* open calls hold at most so many of the longest messages in memory */
	OPERATOR_PART = 16, /* such a part of a limit operators' calls have in addition, … */
	LEASE_PART = 8,     /* … and such a part beyond that those that leases depend on */
	SHARE_LEAST = 64,   /* open calls that a connection or an address may have however small its share is */
};

/* A limit on usage, and how its text begins and ends when it is reached. */
struct limit {
	struct usage *usage;
	int percent, reserve_percent; /* of what is left of a reserve, with what it has of it */
	const char *whose, *option;
};

enum { LIMITS = 3 };

/* A share of all is no limit of its own. */
static bool applies(const struct limit *limit, const struct rpc_server *server)
{
	return limit->usage == &server->usage || limit->percent < 100;
}

static void limits_of(const struct rpc_call *call, struct limit limits[LIMITS])
{
	struct rpc_server *server = call->server;
	struct peer *peer = call->peer;

	limits[0] = (struct limit){&server->usage, 100, 100, "", ""};
	limits[1] = (struct limit){
	    &peer->usage, server->options.connection_percent, 50, " of one connection", "--connection-share of "};
	limits[2] = (struct limit){
	    &peer->address->usage, server->options.address_percent, server->options.address_percent, " of one address", "--address-share of "};
}

static int64_t share_of(int64_t whole, int percent, int64_t least, enum rpc_class class)
{
	int64_t share = whole * percent / 100;

	least = least < whole ? least : whole;
	share = share > least ? share : least;
	whole = share;
	if (class != RPC_ORDINARY)
		share += whole / OPERATOR_PART + 1;
	if (class == RPC_LEASE)
		share += whole / LEASE_PART + 1;
	return share;
}

size_t limits_bytes(const struct rpc_server *server)
{
	return HELD_MESSAGES * server->options.max_message_bytes;
}

int limits_of_address(const struct rpc_server *server, int whole)
{
	return (int)share_of(whole, server->options.address_percent, 1, RPC_ORDINARY);
}

static enum rpc_class class_of(const struct rpc_call *call)
{
	return call->method ? call->method->class : RPC_ORDINARY;
}

static void count(struct rpc_call *call, int calls, size_t bytes)
{
	struct limit limits[LIMITS];

	enum rpc_class class = class_of(call);

	limits_of(call, limits);
	for (int i = 0; i < LIMITS; i++) {
		limits[i].usage->calls += calls;
		limits[i].usage->bytes += bytes;
		limits[i].usage->of[class].calls += calls;
		limits[i].usage->of[class].bytes += bytes;
	}
}

/* Whether this is one too many of what its class has in addition: `own` of the class's are the limit's, `left` are left for
 * everybody. */
static bool over_reserve(const struct limit *limit, int64_t own, int64_t left)
{
	return own * (100 - limit->reserve_percent) >= left * limit->reserve_percent;
}

bool limits_enter(struct rpc_call *call, struct reeve_error *error)
{
	struct rpc_server *server = call->server;
	enum rpc_class class = class_of(call);
	int64_t left = share_of(server->options.max_open_calls, 100, 0, class) - server->usage.calls;
	bool reserve = class != RPC_ORDINARY && server->usage.calls >= server->options.max_open_calls;
	struct limit limits[LIMITS];

	limits_of(call, limits);
	for (int i = LIMITS - 1; i >= 0; i--) {
		int64_t most = share_of(server->options.max_open_calls, limits[i].percent, SHARE_LEAST, class);

		if (applies(&limits[i], server) && limits[i].usage->calls >= most)
			return error_set(error, STATUS(RESOURCE_EXHAUSTED),
			    "%d calls%s are open, as many as the manager takes (%s--max-calls); try again later",
			    limits[i].usage->calls, limits[i].whose, limits[i].option);
		if (reserve && over_reserve(&limits[i], limits[i].usage->of[class].calls, left))
			return error_set(error, STATUS(RESOURCE_EXHAUSTED),
			    "%d calls of this kind%s are open, and the %d that are left (--max-calls) are kept for others; "
			    "try again later",
			    limits[i].usage->of[class].calls, limits[i].whose, (int)left);
	}
	count(call, 1, 0);
	call->counted = true;
	return true;
}

bool limits_hold(struct rpc_call *call, size_t bytes, struct reeve_error *error)
{
	enum rpc_class class = class_of(call);
	int64_t whole = (int64_t)limits_bytes(call->server), used = (int64_t)call->server->usage.bytes;
	int64_t left = share_of(whole, 100, 0, class) - used;
	struct limit limits[LIMITS];

	limits_of(call, limits);
	for (int i = LIMITS - 1; i >= 0; i--) {
		int64_t most = share_of(whole, limits[i].percent, 0, class);

		/* Beyond it by one message at most: however small the share is, one that is long can come through. */
		if (applies(&limits[i], call->server) && limits[i].usage->bytes >= (size_t)most)
			return error_set(error, STATUS(RESOURCE_EXHAUSTED),
			    "open calls%s hold %zu bytes, as much as the manager takes (%s%d times --max-message); try "
			    "again later",
			    limits[i].whose, limits[i].usage->bytes, limits[i].option, HELD_MESSAGES);
		if (class != RPC_ORDINARY && used >= whole && over_reserve(&limits[i], (int64_t)limits[i].usage->of[class].bytes, left))
			return error_set(error, STATUS(RESOURCE_EXHAUSTED),
			    "open calls of this kind%s hold %zu bytes, and what is left (%d times --max-message) is kept for "
			    "others; try again later",
			    limits[i].whose, limits[i].usage->of[class].bytes, HELD_MESSAGES);
	}
	count(call, 0, bytes);
	call->held += bytes;
	return true;
}

void limits_leave(struct rpc_call *call)
{
	if (call->counted)
		count(call, -1, -call->held);
	call->counted = false;
	call->held = 0;
}

/* What tells addresses apart. */
static void read_address(const struct sockaddr *from, struct address *address)
{
	memset(address, 0, sizeof *address);
	switch (from->sa_family) {
	case AF_INET:
		address->bytes[0] = 4;
		memcpy(address->bytes + 1, &((const struct sockaddr_in *)from)->sin_addr, 4);
		address->local = address->bytes[1] == 127;
		break;
	case AF_INET6: {
		static const uint8_t loopback[16] = {[15] = 1}, mapped[12] = {[10] = 0xff, 0xff};
		const uint8_t *bytes = ((const struct sockaddr_in6 *)from)->sin6_addr.s6_addr;
		bool inner = !memcmp(bytes, mapped, sizeof mapped);

		/* A subscriber has a network of at least 64 bits. */
		address->bytes[0] = inner ? 4 : 6;
		memcpy(address->bytes + 1, inner ? bytes + 12 : bytes, inner ? 4 : 8);
		address->local = !memcmp(bytes, loopback, sizeof loopback) || (inner && bytes[12] == 127);
		break;
	}
	default: /* ipc */
		address->local = true;
	}
}

struct address *limits_connect(struct rpc_server *server, const struct sockaddr *from)
{
	struct address found, *address;

	read_address(from, &found);
	HASH_FIND(hh, server->addresses, found.bytes, sizeof found.bytes, address);
	if (!address) {
		address = malloc(sizeof *address);
		if (!address)
			return NULL;
		*address = found;
		HASH_ADD(hh, server->addresses, bytes, sizeof address->bytes, address);
	}
	address->connections++;
	address->peers++;
	return address;
}

void limits_forget(struct rpc_server *server, struct address *address)
{
	if (--address->peers > 0)
		return;
	HASH_DEL(server->addresses, address);
	free(address);
}
