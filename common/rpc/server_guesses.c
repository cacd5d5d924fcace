/*
 * Wrong tokens. An address may send some at once; after that, each one suspends its connection for a while. So a caller that
 * guesses tokens is slow and fills no log, and other connections of its address, with valid tokens, notice nothing.
 */
#include "common/rpc/server_internal.h"

#include "common/clock.h"
#include "common/log.h"
#include "common/mem.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

enum {
	FREE_GUESSES = 5,
	PAUSE_MS = 1000,
	FORGET_MS = 600000,   /* an address without a wrong token for this long is forgotten */
	ADDRESSES_MAX = 4096, /* with more of them, the one that guessed first is forgotten */
};

struct guesses {
	uint8_t address[16];
	int count;
	int64_t last_ms;
	UT_hash_handle hh; /* in the order in which they were added */
};

/* Writes an address for the log. */
static const char *address_text(const struct peer *peer, char text[INET6_ADDRSTRLEN + 8])
{
	struct in6_addr v6 = {0};

	if (peer->address->bytes[0] == 4) {
		inet_ntop(AF_INET, peer->address->bytes + 1, text, INET6_ADDRSTRLEN);
	} else if (peer->address->bytes[0] == 6) {
		memcpy(v6.s6_addr, peer->address->bytes + 1, 8);
		inet_ntop(AF_INET6, &v6, text, INET6_ADDRSTRLEN);
		strcat(text, "/64");
	} else {
		strcpy(text, "an ipc socket");
	}
	return text;
}

static void forget(struct rpc_server *server, struct guesses *guesses)
{
	HASH_DEL(server->guesses, guesses);
	free(guesses);
}

static struct guesses *guesses_of(struct rpc_server *server, const struct address *address, int64_t now_ms)
{
	struct guesses *guesses;

	HASH_FIND(hh, server->guesses, address->bytes, sizeof guesses->address, guesses);
	if (guesses && now_ms - guesses->last_ms <= FORGET_MS)
		return guesses;
	if (guesses)
		forget(server, guesses);
	else if (HASH_COUNT(server->guesses) >= ADDRESSES_MAX)
		forget(server, server->guesses);
	guesses = mem_calloc(1, sizeof *guesses);
	memcpy(guesses->address, address->bytes, sizeof guesses->address);
	HASH_ADD(hh, server->guesses, address, sizeof guesses->address, guesses);
	return guesses;
}

void guesses_note(struct peer *peer)
{
	int64_t now_ms = clock_monotonic_ms();
	struct guesses *guesses = guesses_of(peer->server, peer->address, now_ms);
	char text[INET6_ADDRSTRLEN + 8];

	guesses->last_ms = now_ms;
	if (guesses->count < FREE_GUESSES) {
		guesses->count++;
		return;
	}
	if (guesses->count++ == FREE_GUESSES)
		log_warn("rpc",
		    "%s has sent %d access tokens that are not valid: from now on each one suspends its connection for a second",
		    address_text(peer, text), FREE_GUESSES + 1);
	if (guesses->count == INT32_MAX)
		guesses->count = FREE_GUESSES + 1;
	peer->paused_ms = now_ms + PAUSE_MS;
}

void guesses_forget_all(struct rpc_server *server)
{
	struct guesses *guesses, *next = server->guesses;

	HASH_CLEAR(hh, server->guesses);
	while ((guesses = next)) {
		next = guesses->hh.next;
		free(guesses);
	}
}
