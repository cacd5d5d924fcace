/*
 * What this manager remembers of the incarnations it has heard from: only what saves questions to the database, which
 * has the truth. One that is unknown here has been with another manager, or here before a restart.
 */
#ifndef REEVE_MANAGER_CORE_SESSIONS_H
#define REEVE_MANAGER_CORE_SESSIONS_H

#include "manager/core/core.h"

#include <uthash.h>

struct session {
	int64_t incarnation;
	int64_t highest_fetch;  /* the highest Fetch id seen here */
	int64_t heard_ms;       /* monotonic */
	bool lost;
	bool taking_back;       /* what never arrived there is being taken back */
	int64_t lowest_open;    /* the lowest Fetch that had something open when that was last looked at */
	int64_t whole_look_ms;  /* when all of them are looked at again */
	UT_hash_handle hh;
};

struct sessions *sessions_create(struct core *core);
void sessions_destroy(struct sessions *sessions);

/* The session of an incarnation, made if need be (*fresh tells); it has been heard from now. */
struct session *sessions_get(struct sessions *sessions, int64_t incarnation, bool *fresh);

/* The incarnation is over. */
void sessions_lost(struct sessions *sessions, int64_t incarnation);

/* The same, unless nobody has heard of it here. */
void sessions_lost_if_known(struct sessions *sessions, int64_t incarnation);

/* Forgets those not heard from for a long time. */
void sessions_turn(struct sessions *sessions, int64_t now_ms);

#endif
