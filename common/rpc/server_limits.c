/*
 * The limits on open calls and on their memory. There is a limit for all calls together, and beyond it a reserve for
 * each class of calls but those that wait, for that class alone. So calls that wait cannot keep out others, nor can a
 * flood of one class keep out another (invariant I8).
 *
 * One rule keeps callers from each other: a connection, or an address, may have a share of what the others leave. What
 * is refused then is a call of a caller that has much; there is room for one that has little, however many greedy ones
 * there are. If their number leaves very little, each connection may still have a few small calls of each class.
 */
#include "common/rpc/server_internal.h"

#include "common/mem.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

enum {
	HELD_MESSAGES = 64,   /* maximum memory of open calls, in longest messages */
	SHARE_MIN = 64,       /* open calls that a connection or an address may have while others have none, at least */
	RESERVE_PERCENT = 50, /* share of a connection in a reserve */
	/* Small calls of a connection, of each class. For their memory the connections share an OWN_PART-th of the limit:
	 * each gets between OWN_MIN and OWN_MAX bytes. */
	OWN_CALLS = 2,
	OWN_PART = 64,
	OWN_MIN = 4 << 10,
	OWN_MAX = 64 << 10,
};

/* The reserve of a class is this part of the limit; 0: none. */
static const int reserve_parts[RPC_CLASSES] = {[RPC_ORDINARY] = 8, [RPC_OPERATOR] = 16, [RPC_LEASE] = 8};

/* A limit on usage, and the parts of its error message. */
struct limit {
	struct usage *usage;
	int percent, reserve_percent;
	const char *whose, *option;
};

/* Sets the limits that apply to a call: that of all calls, that of its connection, and that of its address if that has
 * a share. Returns their number. */
static int limits_of(const struct rpc_call *call, struct limit limits[LIMITS_MAX])
{
	struct rpc_server *server = call->server;
	struct peer *peer = call->peer;
	int address_percent = server->options.address_percent;

	limits[0] = (struct limit){&server->usage, 100, 100, "", ""};
	limits[1] = (struct limit){&peer->usage, server->options.connection_percent, RESERVE_PERCENT, " of one connection",
	    "--connection-share of "};
	limits[2] = (struct limit){
	    &peer->address->usage, address_percent, address_percent, " of one address", "--address-share of "};
	return address_percent < 100 ? 3 : 2;
}

static enum rpc_class class_of(const struct rpc_call *call)
{
	return call->method ? call->method->class : RPC_ORDINARY;
}

/* Returns the size of a pool: calls, or bytes that they may hold. */
static int64_t size_of(const struct rpc_server *server, int pool, enum measure measure)
{
	int64_t limit = measure == CALLS ? server->options.max_open_calls
	                                 : (int64_t)(HELD_MESSAGES * server->options.max_message_bytes);

	if (pool == GENERAL)
		return limit;
	return reserve_parts[pool] ? limit / reserve_parts[pool] + 1 : 0;
}

/* Adds an amount to what a call uses, or subtracts it. */
static void count(struct rpc_call *call, int pool, enum measure measure, int64_t amount)
{
	call->usage.of[pool][measure] += amount;
	call->peer->usage.of[pool][measure] += amount;
	call->peer->address->usage.of[pool][measure] += amount;
	call->server->usage.of[pool][measure] += amount;
}

/* Returns the part of a pool that one of its users may have: its share of what the others leave, rounded up. */
static int64_t part_of(const struct limit *limit, int pool, enum measure measure, int64_t size, int64_t left)
{
	int64_t share = pool == GENERAL ? limit->percent : limit->reserve_percent, whole = 100;

	if (pool == GENERAL && measure == CALLS && share * size < whole * SHARE_MIN) {
		share = size < SHARE_MIN ? size : SHARE_MIN;
		whole = size;
	}
	return left > 0 ? (share * left + whole - 1) / whole : 0;
}

/* Returns whether the connection, and the address if it has a share, have no other call in the general pool. */
static bool is_alone(const struct rpc_call *call, const struct limit limits[], int n, enum measure measure)
{
	for (int i = 1; i < n; i++)
		if (limits[i].usage->of[GENERAL][measure] > call->usage.of[GENERAL][measure])
			return false;
	return true;
}

/* Sets *error to the limit that an amount exceeds. Returns false. */
static bool refuse(
    const struct limit *limit, enum measure measure, int64_t amount, int64_t left, struct reeve_error *error)
{
	long long own = limit->usage->of[GENERAL][measure];

	if (measure == CALLS && !*limit->whose)
		return error_set(
		    error, STATUS(RESOURCE_EXHAUSTED), "%lld calls are open, the maximum (--max-calls); try again later", own);
	if (measure == CALLS)
		return error_set(error, STATUS(RESOURCE_EXHAUSTED),
		    "%lld calls%s are open, its share of the %lld that others leave (%s--max-calls); try again later", own,
		    limit->whose, (long long)left, limit->option);
	if (!*limit->whose)
		return error_set(error, STATUS(RESOURCE_EXHAUSTED),
		    "open calls hold %lld bytes, the maximum (%d times --max-message); try again later", own, HELD_MESSAGES);
	return error_set(error, STATUS(RESOURCE_EXHAUSTED),
	    "open calls%s hold %lld bytes, and %lld more exceed its share of the %lld that others leave (%s%d times "
	    "--max-message); try again later",
	    limit->whose, own, (long long)amount, (long long)left, limit->option, HELD_MESSAGES);
}

/* Returns whether an amount fits into a pool; if not, *error names the limit. A caller's only call may have any length
 * while half of the memory is free: a long message passes however small a share is. */
static bool fits(const struct rpc_call *call, int pool, enum measure measure, int64_t amount, struct reeve_error *error)
{
	int64_t size = size_of(call->server, pool, measure), used = call->server->usage.of[pool][measure];
	struct limit limits[LIMITS_MAX];
	int n = limits_of(call, limits);

	if (pool == GENERAL && used < size / 2 && is_alone(call, limits, n, measure))
		return true;
	for (int i = 0; i < n; i++) {
		int64_t own = limits[i].usage->of[pool][measure], left = size - used + own;

		if (own + amount > part_of(&limits[i], pool, measure, size, left))
			return refuse(&limits[i], measure, amount, left, error);
	}
	return true;
}

/* Returns whether a connection, and its address if that has a share, have so few small calls of the class beyond the
 * limits that this one passes whatever others have. */
static bool has_little(const struct rpc_call *call, enum measure measure, int64_t amount)
{
	const struct rpc_server *server = call->server;
	int64_t part = OWN_CALLS;
	struct limit limits[LIMITS_MAX];
	int n = limits_of(call, limits);

	if (measure == BYTES) {
		part = size_of(server, GENERAL, BYTES) / OWN_PART / (server->n_peers + 1);
		part = part < OWN_MAX ? part : OWN_MAX;
		part = part > OWN_MIN ? part : OWN_MIN;
	}
	for (int i = 1; i < n; i++)
		if (limits[i].usage->of[class_of(call)][measure] + amount > part)
			return false;
	return true;
}

/* Counts an amount in the general pool if it fits there, else in the reserve of its class. */
static bool take(struct rpc_call *call, enum measure measure, int64_t amount, struct reeve_error *error)
{
	enum rpc_class class = class_of(call);
	struct reeve_error ignored;
	int pool = GENERAL;

	if (!fits(call, GENERAL, measure, amount, error)) {
		if (!fits(call, (int)class, measure, amount, &ignored) && !has_little(call, measure, amount))
			return false;
		pool = (int)class;
	}
	count(call, pool, measure, amount);
	return true;
}

bool limits_enter(struct rpc_call *call, struct reeve_error *error)
{
	return take(call, CALLS, 1, error);
}

bool limits_hold(struct rpc_call *call, size_t bytes, struct reeve_error *error)
{
	return take(call, BYTES, (int64_t)bytes, error);
}

void limits_leave(struct rpc_call *call)
{
	for (int pool = 0; pool < POOLS; pool++)
		for (enum measure measure = 0; measure < MEASURES; measure++)
			count(call, pool, measure, -call->usage.of[pool][measure]);
}

int64_t limits_used(const struct rpc_server *server, enum measure measure)
{
	int64_t used = 0;

	for (int pool = 0; pool < POOLS; pool++)
		used += server->usage.of[pool][measure];
	return used;
}

int limits_of_address(const struct rpc_server *server, int total)
{
	int share = (int)((int64_t)total * server->options.address_percent / 100);

	return share > 1 ? share : 1;
}

bool limits_is_local(const struct sockaddr *address)
{
	const struct sockaddr_in *v4 = (const struct sockaddr_in *)address;
	const struct in6_addr *v6 = &((const struct sockaddr_in6 *)address)->sin6_addr;

	if (address->sa_family == AF_INET)
		return ntohl(v4->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
	if (address->sa_family == AF_INET6)
		return IN6_IS_ADDR_LOOPBACK(v6) || (IN6_IS_ADDR_V4MAPPED(v6) && v6->s6_addr[12] == IN_LOOPBACKNET);
	return true; /* ipc */
}

/* Reads the part of an address that identifies its user. */
static void read_address(const struct sockaddr *from, struct address *address)
{
	memset(address, 0, sizeof *address);
	address->local = limits_is_local(from);
	switch (from->sa_family) {
	case AF_INET:
		address->bytes[0] = 4;
		memcpy(address->bytes + 1, &((const struct sockaddr_in *)from)->sin_addr, 4);
		break;
	case AF_INET6: {
		static const uint8_t mapped[12] = {[10] = 0xff, 0xff};
		const uint8_t *bytes = ((const struct sockaddr_in6 *)from)->sin6_addr.s6_addr;
		bool inner = !memcmp(bytes, mapped, sizeof mapped);

		/* A subscriber has a network of at least 64 bits. */
		address->bytes[0] = inner ? 4 : 6;
		memcpy(address->bytes + 1, inner ? bytes + 12 : bytes, inner ? 4 : 8);
		break;
	}
	}
}

struct address *limits_connect(struct rpc_server *server, const struct sockaddr *from)
{
	struct address found, *address;

	read_address(from, &found);
	HASH_FIND(hh, server->addresses, found.bytes, sizeof found.bytes, address);
	if (!address) {
		address = mem_malloc(sizeof *address);
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
