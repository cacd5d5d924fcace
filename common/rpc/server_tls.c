/*
 * TLS of the server: which listeners use it, the repeated check of certificates, and the log of refused connections. A
 * caller that is refused usually tries again at once and for ever, so each reason is logged once for each address,
 * until some time has passed.
 */
#include "common/rpc/server_internal.h"

#include "common/clock.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/rpc/conn_tls.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

enum {
	REMARKS =
	    64, /* reasons of addresses that are remembered; when all are recent, others are logged every ten seconds */
	QUIET_MS = 600000,
};

/* What was logged. */
struct remark {
	uint8_t address[16];
	int problem; /* 0: unused */
	int64_t logged_ms;
	int64_t count; /* since then */
};

struct server_tls {
	struct tls_turns *turns; /* NULL: no listener uses TLS */
	struct remark remarks[REMARKS];
	int64_t other_logged_ms;
};

static struct server_tls *tls_of(struct rpc_server *server)
{
	if (!server->tls)
		server->tls = mem_calloc(1, sizeof *server->tls);
	return server->tls;
}

bool server_tls_listen(struct rpc_server *server, const char *url, bool *secure, struct reeve_error *error)
{
	*secure = strncmp(url, "tls+", 4) == 0;
	if (*secure && !server->options.tls)
		return error_set(
		    error, STATUS(INVALID_ARGUMENT), "%s needs a certificate and its key (--tls-cert, --tls-key)", url);
	if (*secure && !tls_of(server)->turns)
		server->tls->turns = tls_turns_create(server->base);
	return true;
}

void server_tls_secure(struct peer *peer)
{
	struct rpc_server *server = peer->server;

	rpc_conn_secure(peer->conn, server->options.tls, NULL, server->tls->turns, &peer->address->handshakes);
}

int server_tls_unfinished(const struct rpc_server *server)
{
	return server->tls && server->tls->turns ? tls_turns_unfinished(server->tls->turns) : 0;
}

void server_tls_stop(struct rpc_server *server)
{
	if (server->tls && server->tls->turns)
		tls_turns_stop(server->tls->turns);
}

void server_tls_free(struct rpc_server *server)
{
	if (server->tls)
		tls_turns_destroy(server->tls->turns);
	free(server->tls);
}

/* Writes an address as people know it. */
static void write_address(const uint8_t bytes[16], char *out, size_t size)
{
	uint8_t network[16] = {0};
	char text[INET6_ADDRSTRLEN];

	memcpy(network, bytes + 1, 8);
	if (bytes[0] == 4)
		snprintf(out, size, "%s", inet_ntop(AF_INET, bytes + 1, text, sizeof text));
	else if (bytes[0] == 6)
		snprintf(out, size, "%s/64", inet_ntop(AF_INET6, network, text, sizeof text));
	else
		snprintf(out, size, "this machine");
}

/* Returns the place for a reason of an address: its own, or the one that was logged longest ago. */
static struct remark *place_of(struct server_tls *tls, const uint8_t address[16], int problem)
{
	struct remark *oldest = tls->remarks;

	for (int i = 0; i < REMARKS; i++) {
		struct remark *remark = &tls->remarks[i];

		if (remark->problem == problem && !memcmp(remark->address, address, sizeof remark->address))
			return remark;
		if (oldest->problem && (!remark->problem || remark->logged_ms < oldest->logged_ms))
			oldest = remark;
	}
	return oldest;
}

/* Logs that a peer is refused, unless that was logged not long ago. */
static void note(struct peer *peer, int problem, const char *detail)
{
	int64_t now_ms = clock_monotonic_ms();
	char address[64], more[64] = "";
	struct server_tls *tls = tls_of(peer->server);
	struct remark *remark;
	bool same;

	remark = place_of(tls, peer->address->bytes, problem);
	same = remark->problem == problem && !memcmp(remark->address, peer->address->bytes, sizeof remark->address);
	remark->count += same;
	if (remark->problem && now_ms - remark->logged_ms < QUIET_MS && (same || !log_again(&tls->other_logged_ms, now_ms)))
		return;
	if (same)
		snprintf(more, sizeof more, "; %lld since this was logged", (long long)remark->count);
	*remark = (struct remark){.problem = problem, .logged_ms = now_ms};
	memcpy(remark->address, peer->address->bytes, sizeof remark->address);
	write_address(remark->address, address, sizeof address);
	log_warn("tls", "no connection with %s: %s%s%s%s%s", address, tls_problem_text(problem, TLS_SERVER),
	    *detail ? " (" : "", detail, *detail ? ")" : "", more);
}

void server_tls_note(struct peer *peer)
{
	char detail[160];
	int problem = rpc_conn_problem(peer->conn, detail, sizeof detail);

	if (problem != TLS_FINE)
		note(peer, problem, detail);
}

void server_tls_note_uncertified(struct peer *peer)
{
	note(peer, TLS_NO_CERTIFICATE, "");
}
