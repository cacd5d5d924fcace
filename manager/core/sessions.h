/*
 * What this manager remembers of incarnations that have called it. This only saves queries: the database is
 * authoritative. An unknown incarnation has used another manager, or this one before a restart, or never existed.
 * Incarnations that the database does not know are not kept.
 */
#ifndef REEVE_MANAGER_CORE_SESSIONS_H
#define REEVE_MANAGER_CORE_SESSIONS_H

#include "common/hash.h"
#include "manager/core/base.h"

struct fetch;

enum session_state {
	SESSION_ASKED, /* the database has not confirmed it yet */
	SESSION_LIVES,
	SESSION_LOST, /* final */
};

struct session {
	int64_t incarnation;
	enum session_state state;
	int64_t highest_fetch; /* the highest Fetch id seen here */
	struct fetch *fetches; /* that are open here; owned by the dispatcher */
	int parked;            /* how many of them park; also the dispatcher's */
	bool checking;         /* a query whether it still lives is in flight; also the dispatcher's */
	int64_t last_call_ms;  /* monotonic: its last call */
	int64_t commands_ms;   /* notifications do not cause a read of its commands before this time */
	bool requeuing;        /* a requeue of tasks that never arrived there is in flight */
	int64_t lowest_open;   /* the lowest Fetch with an open assignment, by the last check */
	int64_t full_check_ms; /* when all its Fetches are checked again */
	int64_t identity;      /* that registered it; 0: an admin; −1: not known here. For the services */
	UT_hash_handle hh;
};

/* Ends what an incarnation that is over has at this manager. */
typedef void sessions_lost_fn(struct session *session);

struct sessions *sessions_create(struct base *base, sessions_lost_fn *lost);
void sessions_destroy(struct sessions *sessions);

/* Returns the session of an incarnation, or NULL. */
struct session *sessions_find(struct sessions *sessions, int64_t incarnation);

/* Returns the session of an incarnation that has just made a call; a new one is SESSION_ASKED. A caller that keeps no
 * Fetch in such a session calls sessions_leave. */
struct session *sessions_on_call(struct sessions *sessions, int64_t incarnation);

/* Frees a session that is SESSION_ASKED and has no Fetch. */
void sessions_leave(struct sessions *sessions, struct session *session);

/* Records that the incarnation is alive, or was a moment ago, by the database. Returns its session, which is created if
 * needed. */
struct session *sessions_live(struct sessions *sessions, int64_t incarnation);

/* Records that the incarnation is over, and answers its Fetches. Does nothing if it is not known here. */
void sessions_lost(struct sessions *sessions, int64_t incarnation);

#endif
