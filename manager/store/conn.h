/*
 * One asynchronous connection to PostgreSQL, that comes back by itself: it resolves, connects, sets the session up,
 * prepares each statement before its first use, and runs one statement at a time. Only this folder talks to libpq.
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

struct conn_settings {
	const char *conninfo;     /* as libpq takes it, string or URI */
	const char *name;         /* the role, for the log and application_name */
	bool planned_once;        /* a statement has one plan for all parameters; so too with hot */
	bool hot;                 /* plans are pinned: see session_hot.sql */
	bool hash_joins;          /* with hot: hash joins are allowed */
	bool listens;             /* hears NOTIFY */
	int statement_timeout_ms;
	int lock_timeout_ms;      /* how long a statement waits for a lock; 0: as long as it may run */
	int idle_timeout_ms;      /* PostgreSQL ends the session after so long between two statements of a transaction */
};

/* How a statement came out. */
enum conn_kind {
	CONN_OK,      /* rows are there, and committed unless a transaction is open */
	CONN_REFUSED, /* PostgreSQL said no: sqlstate and message; the connection is fine */
	CONN_LOST,    /* the connection broke: whether it happened is unknown */
};

struct conn_result {
	enum conn_kind kind;
	const PGresult *rows; /* lives during the callback */
	char sqlstate[6];
	char message[400];
};

typedef void conn_done(void *arg, const struct conn_result *result);

/* What its owner is told. */
struct conn_listener {
	void (*ready)(void *arg);                          /* connected and set up, or free again after conn_cancel */
	void (*lost)(void *arg);                           /* was ready and is no longer; after the statement's callback */
	void (*notified)(void *arg, const char *payload);  /* a NOTIFY came */
	void *arg;
};

/* Starts connecting. Texts are copied. */
struct conn *conn_create(
    struct event_base *base, const struct conn_settings *settings, const struct conn_listener *listener);

/* Closes at once; a running statement's callback is not called. Not from within a callback of this connection. */
void conn_destroy(struct conn *conn);

/* True if a statement can be run now. */
bool conn_idle(const struct conn *conn);

/* True if it is connected, idle or not. */
bool conn_up(const struct conn *conn);

/* Runs a statement; conn_idle must hold. The parameters are taken before it returns. */
void conn_run(struct conn *conn, enum sql_id statement, const struct params *params, conn_done *done, void *arg);

/* Asks the server to cancel the statement in flight, if there is one; its callback comes as always. No statement can be run
 * until the server has taken the request, so that it cannot hit the next one; a server that does not take it within 5 s
 * loses the connection. */
void conn_cancel(struct conn *conn);

/* Whether a transaction is open. */
bool conn_in_transaction(const struct conn *conn);

/* Drops the connection and makes a new one, as if it had broken. */
void conn_reset(struct conn *conn);

/* Why it is down, for messages; "" while it is up. */
const char *conn_problem(const struct conn *conn);

#endif
