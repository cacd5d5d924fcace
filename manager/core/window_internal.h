/* What the files of the window share: the structs, and what one of them does for the others. */
#ifndef REEVE_MANAGER_CORE_WINDOW_INTERNAL_H
#define REEVE_MANAGER_CORE_WINDOW_INTERNAL_H

#include "common/deadlines.h"
#include "common/hash.h"
#include "manager/core/db_clock.h"
#include "manager/core/levels.h"
#include "manager/core/window.h"


/* Everything is read again from the top so often. */
enum { WINDOW_ALL_EVERY_MS = 60 * 1000 };

/* What has become of a task that the window knows. */
enum known_state {
	KNOWN_WAITS,   /* it is a candidate, in its stream's list */
	KNOWN_CLAIMED, /* it was taken for a claim, which has not ended */
	KNOWN_RESTS,   /* its claim found it locked: it is in the list of those that rest, see window_rest */
	KNOWN_GONE,    /* it was claimed while a page was read that may still show it as waiting: known until that has come */
};

struct known {
	struct candidate c;
	enum known_state state;
	bool probe; /* of another manager's slice: tried to see whether that one takes it */
	bool newer; /* it waits again in a later version, in this stream from this time on: */
	int32_t newer_route, newer_priority;
	int64_t newer_run_at;
	int64_t rest_until_ms; /* KNOWN_RESTS */
	struct known *prev, *next;
	UT_hash_handle hh;
};

/* Whether rows of a stream that are due may lie behind its cursor's next step. */
enum unread {
	UNREAD_NOTHING,
	UNREAD_LOOK,    /* they are looked at again; most looks find nothing, and nobody waits for them */
	UNREAD_CHANGE,  /* since a notification or a change of our own, which the round `unread_round` will have read */
	UNREAD_BACKLOG, /* the last page was full, or none was ever read since this manager began */
};

/* What the page that is being read is for. */
enum reading {
	READING_NOTHING,
	READING_ON,     /* the rows after the cursor */
	READING_PASSED, /* the first of those that were passed over, and nothing else */
};

/* What is known of the first task of another manager's slice that was passed over. */
enum passed_state {
	PASSED_WAITS,  /* the other one has time to take it */
	PASSED_TRIED,  /* it is, or was, a candidate here: until a later one is passed over */
	PASSED_UNSURE, /* it may be gone: the first from there on is to be found */
};

struct stream_key {
	int32_t route, priority;
};

struct stream {
	struct stream_key key;
	struct window *window;
	struct known *candidates;
	struct known *gone;     /* list */
	int count, taken;       /* candidates that wait, and that are being claimed */
	int64_t cursor_run_at, cursor_id;
	enum unread unread;
	int64_t unread_round;   /* UNREAD_CHANGE */
	int64_t unread_from_us; /* … and none of its rows is due before this */
	enum reading reading;
	bool reread;            /* the cursor went back while a page was read */
	bool noted;             /* tasks were noted while a page was read that may have begun before their commit: */
	int64_t noted_run_at, noted_id; /* they come after this */
	struct place place;     /* among the active streams */
	bool failed;            /* the last page could not be read */
	bool too_long;          /* a task of it is longer than this manager sends: others may take it */
	int64_t next_due_us;    /* the first task that is not due yet, by the database's clock as it is */
	int64_t trail_ms;       /* the next trailing look */
	int64_t retry_ms;       /* a read failed: not before this */
	int64_t look_began_ms, look_began_us; /* of the look under way; look_began_ms 0: none is */
	int64_t look_took_ms;   /* the last one */
	int64_t looked_us;      /* when the last one that has ended began, by the reckoning of the database's time */
	bool whole;             /* pages are read of all slices */
	int64_t whole_until_ms; /* … until then at least */
	struct store_candidate passed; /* the first task of another slice that was passed over; id 0: none */
	enum passed_state passed_state;
	int64_t probe_ms;       /* it is tried, or they are looked for, then */
	int64_t rest_ms, rest_until_ms; /* not listed until then: what it had was locked; 0: it is not resting */
	struct deadline timer;  /* see stream_schedule */
	struct store_page page;
	struct stream *route_prev, *route_next;
	UT_hash_handle hh;
};

/* What the window knows of a route. */
struct route_streams {
	bool unwanted;          /* no Fetch accepts it */
	struct stream *streams; /* list */
};

struct window {
	struct base *base;
	const struct db_clock *clock;
	struct window_fetches fetches;
	struct stream *streams; /* hash */
	struct levels active;
	struct route_streams *routes; /* by their numbers */
	int route_count;
	struct known *known;    /* hash */
	struct scopes *scopes;  /* which streams there are */
	int size;               /* candidates not taken */
	int expected;           /* candidates that the pages under way may bring */
	struct deadlines timers; /* of the streams */
	bool cold;              /* not every stream has been found since this manager began */
	bool left_unread;       /* a stream that has unread rows is not being read */
	int64_t rounds;         /* statements that have read pages */
	int64_t held_until_round; /* see stream_holds_from */
	struct known *resting;  /* list, in the order they are candidates again: see window_rest */
	int resting_count;
	int hinted;             /* streams that were added for a notification since everything was read */
	int64_t again_from_us;  /* the streams are looked at again from here on; STORE_TIME_NEVER: they need not */
	int64_t all_ms;         /* everything is not read again before then */
	int slices, slice;      /* see window_slice */
};

/* --- window_streams.c ---- */

/* Whether a task is kept from being a candidate by a claim of it. */
static inline bool known_taken(const struct known *known)
{
	return known->state == KNOWN_CLAIMED || known->state == KNOWN_RESTS;
}

/* NULL: the stream is not known. */
struct stream *stream_find(struct window *window, int route, int32_t priority);

/* Adds a stream, unread from its beginning. */
struct stream *stream_add(struct window *window, int route, int32_t priority);

/* Frees a stream without candidates. */
void stream_free(struct stream *stream);

/* Whether a Fetch accepts its route. */
bool stream_wanted(const struct stream *stream);

/* Lists or unlists the stream by what it has. */
void stream_settle(struct stream *stream);

/* Whether this place is one that the cursor has passed. */
bool stream_behind_cursor(const struct stream *stream, int64_t run_at_us, int64_t id);

/* While a page is read its end is not known: what was noted meanwhile may lie before it, and not be in it. */
void stream_note_position(struct stream *stream, int64_t run_at_us, int64_t id);

/* The stream is unread from this place on. */
void stream_rewind(struct stream *stream, int64_t run_at_us, int64_t id);

/* --- window_read.c ---- */

/* Sets the stream's timer by what it waits for. Call it when that has changed. */
void stream_schedule(struct stream *stream);

/* Reads the stream if it has unread rows and no candidates, a Fetch waits, and there is room. */
void stream_read(struct stream *stream);

/* The same for all streams, where that was not possible before. */
void window_read_unread(struct window *window);

/* The job "streams": what is due of their timers. `window`: the window. */
bool window_fire(void *window);

/* Looks for the first task of other shards from the place of the one that was passed over. */
void stream_find_passed(struct stream *stream);

/* --- window.c ---- */

/* Enters a candidate unless it is known. A newer version of a known one replaces it. */
void stream_add_candidate(struct stream *stream, const struct store_candidate *candidate);

/* Those that have rested are candidates again. Returns when the next one will be. */
int64_t window_wake_rested(struct window *window, int64_t now_ms);

/* Forgets one that was claimed while a page was read. */
void stream_drop_gone(struct window *window, struct known *known);

/* Candidates of a stream that nobody wants make room for others': they are read again when somebody does. */
void stream_let_go(struct stream *stream);

/* --- window_shards.c ---- */

/* Whether a task is of another manager's shard. */
bool window_is_others(const struct window *window, int64_t id);

/* A task of another shard was passed over. The first one is remembered: reading goes back there when need be. */
void stream_pass_over(struct stream *stream, const struct store_candidate *candidate);

/* The task that was passed over could not be claimed: others were passed over after it. */
void stream_passed_lost(struct stream *stream);

/* Reads the stream whole, from the first task that was passed over. */
void stream_read_whole(struct stream *stream, int64_t for_ms);

/* The first task that was passed over is tried when the others have had their time. */
void stream_probe_passed(struct stream *stream, int64_t now_ms);

#endif
