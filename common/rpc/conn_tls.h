/*
 * TLS below a connection: a carrier that encrypts, over the connection's own carrier.
 *
 * On a loop, threads take the steps of handshakes, in an order that the loop decides, and only so many handshakes are
 * unfinished at the same time. Those that have begun come first. The others begin address by address, and the newest of
 * an address first: if there are too many, the callers of the oldest have given up.
 * Open connections have turns, of a few milliseconds of one iteration of the loop, for what a long backlog still has to
 * send and for repeated checks of certificates.
 */
#ifndef REEVE_COMMON_RPC_CONN_TLS_H
#define REEVE_COMMON_RPC_CONN_TLS_H

#include "common/rpc/conn.h"
#include "common/rpc/tls.h"

struct tls_turns;

/* The connections of one address whose handshake has not begun. Zeros at first; kept as long as they are. */
struct tls_queue {
	struct tls_layer *newest;
	int begun; /* unfinished handshakes */
	struct tls_queue *prev, *next;
};

struct tls_turns *tls_turns_create(struct event_base *base);

/* Ends the threads: a connection that is closed after that ends at once. Call it when the loop has ended. */
void tls_turns_stop(struct tls_turns *turns);

/* Call it after the end of the connections. NULL is allowed. */
void tls_turns_destroy(struct tls_turns *turns);

/* Returns the number of unfinished handshakes. */
int tls_turns_unfinished(const struct tls_turns *turns);

/* Makes a connection use TLS. Call it before rpc_conn_start. `host`: as for tls_filter_open. `turns`: of its loop, and
 * `queue`: of its address; NULL without a loop. All must live as long as the connection. */
void rpc_conn_secure(
    struct rpc_conn *conn, struct tls *tls, const char *host, struct tls_turns *turns, struct tls_queue *queue);

/* Returns why the connection was refused (enum tls_problem), and copies details for people, or "" ("reeve://w1"). Also
 * of plain connections: TLS_PEER_IS_TLS. */
int rpc_conn_problem(struct rpc_conn *conn, char *detail, size_t size);

/* Returns the URI in the verified certificate of the other end (the first one of its alternative names); NULL: none. It
 * lives as long as the connection. */
const char *rpc_conn_peer_name(struct rpc_conn *conn);

/* Returns whether this end requires certificates, and the other end has shown none. */
bool rpc_conn_uncertified(struct rpc_conn *conn);

/* Closes the connection, now or in its turn, if the other end's certificate has expired or does not pass the check by
 * changed files. Call it about once a second. */
void rpc_conn_recheck(struct rpc_conn *conn);

#endif
