/* What the files of the dispatcher share. */
#ifndef REEVE_MANAGER_CORE_DISPATCH_INTERNAL_H
#define REEVE_MANAGER_CORE_DISPATCH_INTERNAL_H

#include "common/deadlines.h"
#include "manager/core/demand.h"
#include "manager/core/dispatch.h"
#include "manager/core/window.h"

struct session;
struct deal;

enum {
	ASSIGNMENT_BYTES = 400, /* what an assignment costs in an answer beside its texts: numbers, and a key of 255 bytes */
};

enum fetch_state {
	WAITING,
	CLAIMING,
	ASKING,   /* what it was given, and whether its incarnation lives */
	CHECKING, /* whether its incarnation still lives: its claim won nothing */
};

struct fetch {
	struct dispatch *dispatch;
	struct session *session;
	struct profile *profile;
	struct fetch_request request; /* without the names, which its profile has */
	enum fetch_state state;
	bool parks;              /* may wait for work to come */
	int64_t number;          /* in the order they came */
	int64_t arrived_ms;
	int64_t claimed_ms;      /* when its claim, or the question what it was given, was sent */
	int64_t until_ms;        /* is answered by then, even if empty */
	fetch_done *done;
	void *arg;
	int64_t let_from_ms;     /* from then on it is given what is kept from it now; 0: nothing is */
	int granted;             /* candidates tried for it by the claim under way */
	int64_t granted_bytes;
	int slot;                /* its place in the claim; −1: none yet */
	bool ask_again;          /* a claim for an earlier copy of it ended while the journal was asked, which may not have told of it */
	struct store_redeliver ask;
	struct deadline deadline;
	struct fetch *prev, *next;                       /* among all */
	struct fetch *session_prev, *session_next;
	struct fetch *waiting_prev, *waiting_next;       /* in its profile, while it waits */
	struct fetch *unparked_prev, *unparked_next;     /* while it waits, and does not park */
};

struct grant {
	struct candidate candidate;
	struct fetch *fetch;
	int slot;
};

struct dispatch {
	struct base *base;
	struct window *window;
	struct routes *routes;
	struct queues *queues;
	struct sessions *sessions;
	const struct verbose *verbose;
	struct demand *demand;
	struct deal *deal;
	struct fetch *fetches;   /* list: all */
	struct fetch *unparked;  /* list */
	struct deadlines deadlines;
	int64_t last_number;
	int waiting;             /* Fetches in state WAITING */
	int64_t room;            /* candidates that those can still take */
	int64_t coming;          /* slots that the Fetches of the claim under way have left */
	bool claiming;
	struct store_claim claim;
	struct store_try *tries;
	struct grant *grants;    /* what is tried, and for whom */
	struct store_fetch *slots;
	struct fetch **by_slot;
};

struct deal *deal_create(struct dispatch *dispatch);
void deal_destroy(struct deal *deal);

/* Takes candidates for the waiting Fetches, into dispatch->grants. Returns how many; *unsure is set if rows that are due, and
 * that one of them might get, are still being read. Takes time by the streams and the profiles that accept them. */
int deal_candidates(struct deal *deal, bool *unsure);

/* True if a waiting Fetch may be given tasks of this route now, or, with `or_next`, one that comes after the claim under way. */
bool deal_wants(struct deal *deal, int route, bool or_next);

#endif
