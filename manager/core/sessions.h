/*
 * What this manager remembers of the incarnations it has heard from: only what saves questions to the database, which
 * has the truth. One that is unknown here has been with another manager, or here before a restart, or never was; what the
 * database does not know is not kept.
 */
#ifndef REEVE_MANAGER_CORE_SESSIONS_H
#define REEVE_MANAGER_CORE_SESSIONS_H

#include "common/hash.h"
#include "manager/core/base.h"

struct fetch;

enum session_state {
	SESSION_ASKED, /* the database has not yet told what it is */
	SESSION_LIVES,
	SESSION_LOST,  /* for ever */
};

struct session {
	int64_t incarnation;
	enum session_state state;
	int64_t highest_fetch;  /* the highest Fetch id seen here */
	struct fetch *fetches;  /* those that are here: the dispatcher's list */
	bool looking;           /* the database is being asked whether it still lives: the dispatcher's, too */
	int64_t heard_ms;       /* monotonic */
	int64_t orders_ms;      /* its orders are not read for a notification before */
	bool taking_back;       /* what never arrived there is being taken back */
	int64_t lowest_open;    /* the lowest Fetch that had something open when that was last looked at */
	int64_t whole_look_ms;  /* when all of them are looked at again */
	UT_hash_handle hh;
};

/* The session's incarnation is over: what it has here is to be ended. */
typedef void sessions_lost_fn(struct session *session);

struct sessions *sessions_create(struct base *base, sessions_lost_fn *lost);
void sessions_destroy(struct sessions *sessions);

/* The session of an incarnation, or NULL. */
struct session *sessions_find(struct sessions *sessions, int64_t incarnation);

/* The session of an incarnation that has been heard from just now; SESSION_ASKED if it is new. Whoever has no Fetch of such a
 * one any more calls sessions_leave. */
struct session *sessions_hear(struct sessions *sessions, int64_t incarnation);

/* Frees a session that has no Fetch and of which the database has not told. */
void sessions_leave(struct sessions *sessions, struct session *session);

/* The database knows that the incarnation lives, or did a moment ago. Its session, made if need be. */
struct session *sessions_live(struct sessions *sessions, int64_t incarnation);

/* The incarnation is over: its Fetches are answered. Nothing happens if it is not known here. */
void sessions_lost(struct sessions *sessions, int64_t incarnation);

#endif
