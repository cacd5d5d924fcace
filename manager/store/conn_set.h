/*
 * Room at PostgreSQL for a manager's connections. PostgreSQL may refuse some because it has too many (max_connections,
 * or the limit of the role or the database). Managers that each keep a part would stop each other for ever. So one that
 * has been refused connections for a while closes all, and tries again after a pause, in which others get theirs. The
 * times are random, and the pauses grow.
 *
 * A manager without connections collecting them: it uses none before it has all. Otherwise it would count among the
 * live managers, with a share of the tasks, before it can work. One that has worked and lacks some keeps the rest if
 * its heartbeats show that no other is alive.
 */
#ifndef REEVE_MANAGER_STORE_CONN_SET_H
#define REEVE_MANAGER_STORE_CONN_SET_H

#include "manager/store/conn.h"

enum { CONN_SET_CONNECTIONS = 32 };

struct conn_set {
	struct conn *conns[CONN_SET_CONNECTIONS];
	int count;
	bool collecting;     /* no operation begins until all connections are ready */
	bool others;         /* other managers are alive, or may be: the connection for heartbeats is lost */
	bool logged;         /* the lack has been logged as an error */
	struct event *limit; /* pending since a refusal: when it fires, on_limit decides whether to close all */
	int64_t pause_ms;    /* the longest next pause */
	char refusal[300];   /* PostgreSQL's words at the last refusal */
};

void conn_set_open(struct conn_set *set, struct event_base *base);
void conn_set_close(struct conn_set *set);

/* Adds a connection that has just been created. */
void conn_set_add(struct conn_set *set, struct conn *conn);

/* Handles that a connection is ready. Returns true if that was the last missing one: operations may begin now. */
bool conn_set_ready(struct conn_set *set);

/* Handles that a connection is lost. */
void conn_set_lost(struct conn_set *set);

/* Handles that PostgreSQL has refused a connection, with these words, because it has too many. */
void conn_set_refused(struct conn_set *set, const char *words);

#endif
