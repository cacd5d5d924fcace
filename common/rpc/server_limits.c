/*
 * The limits on open calls and on their memory. There is a limit for all calls together, a share of it for each
 * connection and for each address, so that none of them can take everything, and two reserves beyond it: one for
 * operators, so that their calls are served when ordinary calls have reached the limit, and one for the calls on which
 * leases depend, so that workers keep their leases. Each reserve is for its own class alone. A connection may take only
 * as much of a reserve as it leaves for others. That is little when many connections flood the server, or a few with
 * long messages. So each connection may also have a few small calls on which leases depend when the reserve is used up.
 */
#include "common/rpc/server_internal.h"

#include "common/mem.h"

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	HELD_MESSAGES = 64, /* maximum memory of open calls, in longest messages */
	OPERATOR_PART = 16, /* calls of operators have this part of a limit in addition … */
	LEASE_PART = 8,     /* … and calls on which leases depend have this part */
	SHARE_MIN = 64,   /* open calls of a connection or an address, even if its share is smaller */
	/* A connection may have OWN_CALLS calls on which leases depend even if their reserve is used up. For the memory of
	 * these calls the connections share an OWN_PART-th of the reserve: each gets between OWN_MIN and OWN_MAX bytes. */
	OWN_CALLS = 2,
	OWN_PART = 8,
	OWN_MIN = 4 << 10,
	OWN_MAX = 64 << 10,
};

/* A limit on usage, and the parts of its error message. */
struct limit {
	struct usage *usage;
	/* reserve_percent: of what the server's reserve has left plus what `usage` has of it. */
	int percent, reserve_percent;
	const char *whose, *option;
};

/* A share of 100 % is not a separate limit. */
static bool applies(const struct limit *limit, const struct rpc_server *server)
{
	return limit->usage == &server->usage || limit->percent < 100;
}

static void limits_of(const struct rpc_call *call, struct limit limits[LIMITS])
{
	struct rpc_server *server = call->server;
	struct peer *peer = call->peer;
	int address_percent = server->options.address_percent;

	limits[0] = (struct limit){&server->usage, 100, 100, "", ""};
	limits[1] = (struct limit){
	    &peer->usage, server->options.connection_percent, 50, " of one connection", "--connection-share of "};
	limits[2] = (struct limit){
	    &peer->address->usage, address_percent, address_percent, " of one address", "--address-share of "};
}

static int64_t share_of(int64_t total, int percent, int64_t min)
{
	int64_t share = total * percent / 100;

	min = min < total ? min : total;
	return share > min ? share : min;
}

/* Returns the reserve of a class beyond a limit. */
static int64_t reserve_of(int64_t limit, enum rpc_class class)
{
	switch (class) {
	case RPC_OPERATOR:
		return limit / OPERATOR_PART + 1;
	case RPC_LEASE:
		return limit / LEASE_PART + 1;
	default:
		return 0;
	}
}

int limits_of_address(const struct rpc_server *server, int total)
{
	return (int)share_of(total, server->options.address_percent, 1);
}

static enum rpc_class class_of(const struct rpc_call *call)
{
	return call->method ? call->method->class : RPC_ORDINARY;
}

/* Returns the server's limit: bytes that open calls may hold, or their number. */
static int64_t total_of(const struct rpc_server *server, enum measure measure)
{
	return measure == CALLS ? server->options.max_open_calls
	                        : (int64_t)(HELD_MESSAGES * server->options.max_message_bytes);
}

static void count(struct rpc_call *call, enum measure measure, int64_t amount, const int64_t reserved[LIMITS])
{
	enum rpc_class class = class_of(call);
	struct limit limits[LIMITS];

	limits_of(call, limits);
	call->counted[measure] += amount;
	for (int i = 0; i < LIMITS; i++) {
		limits[i].usage->all[measure] += amount;
		limits[i].usage->reserve[class][measure] += reserved[i];
		limits[i].usage->shared[class][measure] += reserved[0];
		call->reserved[i][measure] += reserved[i];
	}
}

/* Returns what a connection, or an address with a share, may have of a class even if the reserve is used up. */
static int64_t own_part(const struct rpc_server *server, enum measure measure, enum rpc_class class)
{
	int64_t part;

	if (class != RPC_LEASE)
		return 0;
	if (measure == CALLS)
		return OWN_CALLS;
	part = reserve_of(total_of(server, BYTES), class) / OWN_PART / (server->n_peers + 1);
	part = part < OWN_MAX ? part : OWN_MAX;
	return part > OWN_MIN ? part : OWN_MIN;
}

/* Returns true if a connection, and its address if that has a share, have so little that it may have more even if the
 * reserve is used up. */
static bool has_little(
    const struct rpc_server *server, const struct limit limits[LIMITS], enum measure measure, enum rpc_class class, int64_t amount)
{
	int64_t part = own_part(server, measure, class);

	return limits[1].usage->shared[class][measure] + amount <= part &&
	       (!applies(&limits[2], server) || limits[2].usage->shared[class][measure] + amount <= part);
}

/* Returns where an amount of a class fits: 0: in the ordinary part, which one amount may exceed; 1: in the reserve, if
 * it has room for `room`; -1: nowhere. */
static int place_in(const struct usage *usage, enum measure measure, int64_t max, enum rpc_class class, int64_t room)
{
	int64_t ordinary = usage->all[measure];

	for (int i = 0; i < RPC_CLASSES; i++)
		ordinary -= usage->reserve[i][measure];
	if (ordinary < max)
		return 0;
	return usage->reserve[class][measure] + room <= reserve_of(max, class) ? 1 : -1;
}

static bool refuse_at(const struct limit *limit, enum measure measure, struct reeve_error *error)
{
	if (measure == CALLS)
		return error_set(error, STATUS(RESOURCE_EXHAUSTED),
		    "%lld calls%s are open, as many as the manager takes (%s--max-calls); try again later",
		    (long long)limit->usage->all[CALLS], limit->whose, limit->option);
	return error_set(error, STATUS(RESOURCE_EXHAUSTED),
	    "open calls%s hold %lld bytes, as much as the manager takes (%s%d times --max-message); try again later",
	    limit->whose, (long long)limit->usage->all[BYTES], limit->option, HELD_MESSAGES);
}

static bool refuse_reserve(const struct limit *limit, enum measure measure, int64_t own, int64_t left, struct reeve_error *error)
{
	if (measure == CALLS)
		return error_set(error, STATUS(RESOURCE_EXHAUSTED),
		    "%lld calls of this kind%s are open beyond the limit, and the %lld that are left (--max-calls) are kept for "
		    "others; try again later",
		    (long long)own, limit->whose, (long long)left);
	return error_set(error, STATUS(RESOURCE_EXHAUSTED),
	    "open calls of this kind%s hold %lld bytes beyond the limit, and what is left (%d times --max-message) is kept for "
	    "others; try again later",
	    limit->whose, (long long)own, HELD_MESSAGES);
}

/* Counts an amount where it fits. A limit may be exceeded by one amount: a long message passes however small a share
 * is. The server's reserves are not exceeded, except by those who have little. */
static bool take(struct rpc_call *call, enum measure measure, int64_t amount, int64_t share_min, struct reeve_error *error)
{
	struct rpc_server *server = call->server;
	int64_t total = total_of(server, measure), reserved[LIMITS] = {0};
	enum rpc_class class = class_of(call);
	int64_t left = reserve_of(total, class) - server->usage.reserve[class][measure];
	int place = place_in(&server->usage, measure, total, class, amount);
	struct limit limits[LIMITS];
	bool little;

	limits_of(call, limits);
	little = place != 0 && has_little(server, limits, measure, class, amount);
	if (little)
		place = 1;
	reserved[0] = place ? amount : 0;
	for (int i = LIMITS - 1; i >= 0; i--) {
		const struct limit *limit = &limits[i];
		int64_t own = limit->usage->shared[class][measure];
		int in_share = 0;

		if (i > 0 && applies(limit, server)) {
			in_share = place_in(limit->usage, measure, share_of(total, limit->percent, share_min), class, 1);
			reserved[i] = in_share ? amount : 0;
		}
		if (in_share < 0 || (i == 0 && place < 0))
			return refuse_at(limit, measure, error);
		if (place == 1 && !little && own * (100 - limit->reserve_percent) >= left * limit->reserve_percent)
			return refuse_reserve(limit, measure, own, left, error);
	}
	count(call, measure, amount, reserved);
	return true;
}

bool limits_enter(struct rpc_call *call, struct reeve_error *error)
{
	return take(call, CALLS, 1, SHARE_MIN, error);
}

bool limits_hold(struct rpc_call *call, size_t bytes, struct reeve_error *error)
{
	return take(call, BYTES, (int64_t)bytes, 0, error);
}

void limits_leave(struct rpc_call *call)
{
	for (enum measure measure = 0; measure < MEASURES; measure++) {
		int64_t reserved[LIMITS];

		for (int i = 0; i < LIMITS; i++)
			reserved[i] = -call->reserved[i][measure];
		count(call, measure, -call->counted[measure], reserved);
	}
}

/* Reads the part of an address that identifies its user. */
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
