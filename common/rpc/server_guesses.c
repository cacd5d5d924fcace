/*
 * Wrong tokens. An address may send a few at once. After that, the answer to each one is delayed by about a second, and
 * a second one on the same connection suspends the connection until then. So guessing is slow and fills no log. Callers
 * with valid tokens are not affected: neither on other connections of the address nor, if guesses are rare, on the same
 * one, which a proxy may share. The guard does not read the identities for such an address alone. The delay is shorter
 * than the time after which a client regards a silent manager as dead.
 */
#include "common/rpc/server_internal.h"

#include "common/clock.h"
#include "common/log.h"
#include "common/mem.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

enum {
	FREE_GUESSES = 5,
	PAUSE_MS = 200,       /* and until the sweep after that, up to a second */
	FORGET_MS = 600000,   /* an address without a wrong token for this long is forgotten */
	ADDRESSES_MAX = 4096, /* with more of them, the one that guessed first is forgotten */
};

struct held_guess {
	struct rpc_call *call;
	struct reeve_error error;
	struct held_guess *next;
};

struct guesses {
	uint8_t address[16];
	int count;   /* wrong tokens */
	int refused; /* calls without an identity, with or without a token */
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

void guesses_note(struct peer *peer, bool token)
{
	int64_t now_ms = clock_monotonic_ms();
	struct guesses *guesses = guesses_of(peer->server, peer->address, now_ms);
	char text[INET6_ADDRSTRLEN + 8];

	guesses->last_ms = now_ms;
	guesses->refused += guesses->refused < INT32_MAX;
	if (!token)
		return;
	if (guesses->count < FREE_GUESSES) {
		guesses->count++;
		return;
	}
	if (guesses->count++ == FREE_GUESSES)
		log_warn("rpc",
		    "%s has sent %d access tokens that are not valid: from now on each one is answered after a while",
		    address_text(peer, text), FREE_GUESSES + 1);
	if (guesses->count == INT32_MAX)
		guesses->count = FREE_GUESSES + 1;
	peer->guessed = true;
}

bool guesses_suspect(const struct peer *peer)
{
	const struct guesses *guesses;

	HASH_FIND(hh, peer->server->guesses, peer->address->bytes, sizeof guesses->address, guesses);
	return guesses && guesses->refused > FREE_GUESSES && clock_monotonic_ms() - guesses->last_ms <= FORGET_MS;
}

void guesses_hold(struct rpc_call *call, const struct reeve_error *error)
{
	struct held_guess *guess = mem_malloc(sizeof *guess);
	struct peer *peer = call->peer;

	*guess = (struct held_guess){call, *error, NULL};
	if (!peer->guesses)
		peer->guess_ms = clock_monotonic_ms() + PAUSE_MS;
	peer->paused = peer->guesses != NULL;
	LL_APPEND(peer->guesses, guess);
}

void guesses_answer(struct peer *peer, int64_t now_ms)
{
	struct reeve_error error;

	if (!peer->guesses)
		return;
	error = peer->guesses->error;
	rpc_call_fail_error(peer->guesses->call, &error); /* forgets it */
	peer->guess_ms = now_ms + PAUSE_MS;
}

void guesses_forget(struct rpc_call *call)
{
	struct peer *peer = call->peer;
	struct held_guess **at = &peer->guesses, *guess;

	while (*at && (*at)->call != call)
		at = &(*at)->next;
	guess = *at;
	if (!guess)
		return;
	*at = guess->next;
	free(guess);
	peer->paused = peer->guesses && peer->guesses->next;
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
