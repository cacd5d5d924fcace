/* A hash of sessions by incarnation. */
#include "manager/core/sessions.h"

#include <stdlib.h>

enum { FORGET_MS = 15 * 60 * 1000 };

struct sessions {
	struct base *base;
	sessions_lost_fn *lost;
	struct session *all;
};

static void forget(struct sessions *sessions, struct session *s)
{
	HASH_DEL(sessions->all, s);
	free(s);
}

/* Forgets incarnations that have made no call for FORGET_MS. */
static bool forget_silent(void *arg)
{
	struct sessions *sessions = arg;
	int64_t now_ms = base_now(sessions->base);
	struct session *s, *tmp;
	HASH_ITER (hh, sessions->all, s, tmp)
		if (now_ms - s->last_call_ms > FORGET_MS && !s->fetches && !s->checking)
			forget(sessions, s);
	return false;
}

struct sessions *sessions_create(struct base *base, sessions_lost_fn *lost)
{
	struct sessions *s = mem_calloc(1, sizeof *s);
	s->base = base;
	s->lost = lost;
	jobs_bind(base->jobs, JOB_SESSIONS, forget_silent, s);
	return s;
}

void sessions_destroy(struct sessions *sessions)
{
	struct session *s, *tmp;
	HASH_ITER (hh, sessions->all, s, tmp)
		forget(sessions, s);
	free(sessions);
}

struct session *sessions_find(struct sessions *sessions, int64_t incarnation)
{
	struct session *s;
	HASH_FIND(hh, sessions->all, &incarnation, sizeof incarnation, s);
	return s;
}

struct session *sessions_on_call(struct sessions *sessions, int64_t incarnation)
{
	struct session *s = sessions_find(sessions, incarnation);
	if (!s) {
		s = mem_calloc(1, sizeof *s);
		s->incarnation = incarnation;
		s->identity = -1;
		HASH_ADD(hh, sessions->all, incarnation, sizeof s->incarnation, s);
	}
	s->last_call_ms = base_now(sessions->base);
	return s;
}

void sessions_leave(struct sessions *sessions, struct session *s)
{
	if (s->state == SESSION_ASKED && !s->fetches)
		forget(sessions, s);
}

struct session *sessions_live(struct sessions *sessions, int64_t incarnation)
{
	struct session *s = sessions_on_call(sessions, incarnation);
	if (s->state == SESSION_ASKED)
		s->state = SESSION_LIVES;
	return s;
}

void sessions_lost(struct sessions *sessions, int64_t incarnation)
{
	struct session *s = sessions_find(sessions, incarnation);
	if (!s || s->state == SESSION_LOST)
		return;
	s->state = SESSION_LOST;
	sessions->lost(s);
}
