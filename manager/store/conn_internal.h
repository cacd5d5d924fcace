/*
 * The parts of a connection: conn.c resolves, connects, sets the session up, and connects again when it has broken;
 * conn_statement.c runs and cancels statements.
 */
#ifndef REEVE_MANAGER_STORE_CONN_INTERNAL_H
#define REEVE_MANAGER_STORE_CONN_INTERNAL_H

#include "manager/store/background.h"
#include "manager/store/conn.h"
#include "manager/store/resolve.h"

enum state { DOWN, RESOLVING, CONNECTING, SETUP, READY };

struct conn {
	struct event_base *base;
	struct conn_settings settings;
	struct conn_listener listener;
	char *conninfo, *name;
	enum state state;
	PGconn *pg;
	struct resolve *resolve;
	struct event *io;    /* on libpq's socket */
	struct event *timer; /* the next try while down, the timeout while connecting or cancelling, the next cancel */
	int retry_ms;
	bool reported; /* that it is down has been logged */
	char problem[400];

	/* the statement in flight */
	bool busy, preparing, flushing, unsent;
	bool prepare_only; /* it is prepared ahead, not run */
	bool unreplicated; /* it was committed here, but the synchronous standby may not have it */
	enum sql_id statement;
	int64_t begun_us; /* monotonic */
	conn_done *done;
	void *arg;
	PGresult *result;   /* its latest one */
	struct params kept; /* parameters, while the statement is being prepared */
	bool prepared[SQL_COUNT];
	int ahead;                 /* how many of settings.first were prepared during setup, or refused */
	struct background *cancel; /* a request to cancel is in flight */
	bool unwanted;             /* conn_cancel was called for the statement in flight */
};

/* ---- conn.c ---- */

void conn_timer_set(struct conn *conn, int ms);

/* Notes why the connection is broken: the first line of the text. */
void conn_problem_set(struct conn *conn, const char *text);

/* Closes a broken connection, notifies the statement's caller and the owner, and schedules the next try. `why` may be
 * NULL if the problem is set. */
void conn_broken(struct conn *conn, const char *why);

/* Sets the socket's events. */
void conn_want(struct conn *conn, short events);

/* ---- conn_statement.c ---- */

/* Prepares a statement; `done` is called as by conn_run. */
void statement_prepare(struct conn *conn, enum sql_id statement, conn_done *done, void *arg);

/* Writes what libpq has not written yet. If some is left, waits until the socket is writable, or has input. */
void statement_flush(struct conn *conn);

/* Takes the results that have arrived, and ends the statement in flight if it is complete. */
void statement_results(struct conn *conn);

/* Forgets the statement in flight and its cancellation, without calling its callback. */
void statement_drop(struct conn *conn);

/* libpq's receiver of notices: notes that a commit may not be on the synchronous standby. */
void statement_on_notice(void *conn, const PGresult *notice);

#endif
