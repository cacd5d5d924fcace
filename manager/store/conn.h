/*
 * One asynchronous connection to PostgreSQL, which reconnects automatically: it resolves, connects, sets the session
 * up, prepares some statements then and each other one before its first use, and runs one statement at a time. Only
 * this folder uses libpq.
 *
 * Runs on the loop's thread; nothing here blocks.
 */
#ifndef REEVE_MANAGER_STORE_CONN_H
#define REEVE_MANAGER_STORE_CONN_H

#include "manager/store/params.h"

#include <event2/event.h>
#include <libpq-fe.h>
#include <sql/sql.h>
#include <stdbool.h>

struct conn;

/* How often a statement has ended, and how long all its runs took, until their result was there. */
struct statement_times {
	int64_t count, us;
};

struct conn_settings {
	const char *conninfo; /* for libpq: string or URI */
	const char *name;     /* the role, for the log and application_name */
	bool generic_plans;   /* a statement has one plan for all parameters; also with hot */
	bool hot;             /* plans are pinned: see session_hot.sql */
	bool hash_joins;      /* with hot: hash joins are allowed */
	bool listens;         /* receives notifications */
	/* `first_count` statements to prepare during setup: a round trip less at their first use */
	const enum sql_id *first;
	int first_count;
	int statement_timeout_ms;
	struct statement_times *times; /* by enum sql_id, where the connection counts its statements; it must outlive it */
	int lock_timeout_ms;           /* how long a statement waits for a lock; 0: until its own timeout */
	int idle_timeout_ms;           /* how long PostgreSQL waits for the next statement of a transaction before it ends
	                                * the session */
};

/* The outcome of a statement. */
enum conn_kind {
	CONN_OK,      /* there are rows; committed unless a transaction is open */
	CONN_REFUSED, /* PostgreSQL refused: see sqlstate and message; the connection is intact */
	CONN_LOST,    /* the connection broke: the outcome is unknown */
};

struct conn_result {
	enum conn_kind kind;
	const PGresult *rows; /* valid during the callback */
	char sqlstate[6];
	char message[400];
};

typedef void conn_done(void *arg, const struct conn_result *result);

/* Callbacks to the connection's owner. */
struct conn_listener {
	void (*ready)(void *arg);                         /* connected and set up, or free again after conn_cancel */
	void (*lost)(void *arg);                          /* was ready and broke; after the statement's callback */
	void (*refused)(void *arg);                       /* PostgreSQL has too many connections for this one */
	void (*notified)(void *arg, const char *payload); /* a notification arrived */
	void *arg;
};

/* Creates a connection and starts connecting. Copies the strings. */
struct conn *conn_create(
    struct event_base *base, const struct conn_settings *settings, const struct conn_listener *listener);

/* Closes the connection at once; a running statement's callback is not called. Must not be called from within a
 * callback of this connection. */
void conn_destroy(struct conn *conn);

/* True if a statement can run now. */
bool conn_idle(const struct conn *conn);

/* True if it is connected, idle or not. */
bool conn_up(const struct conn *conn);

/* Runs a statement; conn_idle must be true. Copies the parameters before it returns. */
void conn_run(struct conn *conn, enum sql_id statement, const struct params *params, conn_done *done, void *arg);

/* Asks the server to cancel the statement in flight, if there is one, and again until it ends; its callback is called
 * as always. No statement can run until the server has received the request, so that it cannot cancel the next one. If
 * the server does not receive it within 5 s, the connection is closed. */
void conn_cancel(struct conn *conn);

/* True if a transaction is open. */
bool conn_in_transaction(const struct conn *conn);

/* Closes the connection and opens a new one, as if it had broken. */
void conn_reset(struct conn *conn);

/* Closes the connection, and opens a new one after a pause. `why` is its problem until then. */
void conn_pause(struct conn *conn, int ms, const char *why);

/* Returns why the connection is down, for messages; "" while it is up. */
const char *conn_problem(const struct conn *conn);

#endif
