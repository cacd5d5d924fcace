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
	struct sessions *s = calloc(1, sizeof *s);
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

struct session *sessions_get(struct sessions *sessions, int64_t incarnation, bool *fresh)
{
	struct session *s;
	HASH_FIND(hh, sessions->all, &incarnation, sizeof incarnation, s);
	*fresh = s == NULL;
	if (!s) {
		s = calloc(1, sizeof *s);
		s->incarnation = incarnation;
		HASH_ADD(hh, sessions->all, incarnation, sizeof s->incarnation, s);
	}
	s->heard_ms = core_now(sessions->core);
	return s;
}

void sessions_lost(struct sessions *sessions, int64_t incarnation)
{
	bool fresh;
	sessions_get(sessions, incarnation, &fresh)->lost = true;
	dispatch_lost(sessions->core->dispatch, incarnation);
}

void sessions_lost_if_known(struct sessions *sessions, int64_t incarnation)
{
	struct session *s;
	HASH_FIND(hh, sessions->all, &incarnation, sizeof incarnation, s);
	if (s && !s->lost)
		sessions_lost(sessions, incarnation);
}

void sessions_turn(struct sessions *sessions, int64_t now_ms)
{
	struct session *s, *tmp;
	HASH_ITER (hh, sessions->all, s, tmp)
		if (now_ms - s->heard_ms > FORGET_MS) {
			HASH_DEL(sessions->all, s);
			free(s);
		}
}
