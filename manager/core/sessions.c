/* Incarnations by number. */
#include "manager/core/sessions.h"

#include "manager/core/dispatch.h"

#include <stdlib.h>

enum { FORGET_MS = 15 * 60 * 1000 };

struct sessions {
	struct core *core;
	struct session *all;
};

struct sessions *sessions_create(struct core *core)
{
	struct sessions *s = mem_calloc(1, sizeof *s);
	s->core = core;
	return s;
}

void sessions_destroy(struct sessions *sessions)
{
	struct session *s, *tmp;
	HASH_ITER (hh, sessions->all, s, tmp) {
		HASH_DEL(sessions->all, s);
		free(s);
	}
	free(sessions);
}

struct session *sessions_find(struct sessions *sessions, int64_t incarnation)
{
	struct session *s;
	HASH_FIND(hh, sessions->all, &incarnation, sizeof incarnation, s);
	return s;
}

struct session *sessions_hear(struct sessions *sessions, int64_t incarnation)
{
	struct session *s = sessions_find(sessions, incarnation);
	if (!s) {
		s = mem_calloc(1, sizeof *s);
		s->incarnation = incarnation;
		HASH_ADD(hh, sessions->all, incarnation, sizeof s->incarnation, s);
	}
	s->heard_ms = core_now(sessions->core);
	return s;
}

static void forget(struct sessions *sessions, struct session *s)
{
	HASH_DEL(sessions->all, s);
	free(s);
}

void sessions_leave(struct sessions *sessions, struct session *s)
{
	if (s->state == SESSION_ASKED && !s->fetches)
		forget(sessions, s);
}

struct session *sessions_live(struct sessions *sessions, int64_t incarnation)
{
	struct session *s = sessions_hear(sessions, incarnation);
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
	dispatch_lost(s);
}

void sessions_turn(struct sessions *sessions, int64_t now_ms)
{
	struct session *s, *tmp;
	HASH_ITER (hh, sessions->all, s, tmp)
		if (now_ms - s->heard_ms > FORGET_MS && !s->fetches && !s->looking)
			forget(sessions, s);
}
