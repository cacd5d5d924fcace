/* The structs and functions that the files of the ready cache share. */
#ifndef REEVE_MANAGER_CORE_READY_INTERNAL_H
#define REEVE_MANAGER_CORE_READY_INTERNAL_H

#include "common/deadlines.h"
#include "common/hash.h"
#include "manager/core/db_clock.h"
#include "manager/core/levels.h"
#include "manager/core/ready.h"

/* The interval of full rescans. */
enum { READY_ALL_EVERY_MS = 60 * 1000 };

/* The state of a task in the hash `known`. */
enum known_state {
	KNOWN_WAITS,     /* it is a candidate, in its stream's list */
	KNOWN_CLAIMED,   /* it was taken for a claim, which is in flight */
	KNOWN_SUSPENDED, /* its claim found it locked: it is suspended, see ready_suspend */
	KNOWN_GONE,      /* claimed while a page was read that may still show it as waiting: kept until that page arrives */
};

struct known {
	struct candidate c;
	enum known_state state;
	bool probe; /* a task of another manager's shard, tried to see whether that manager takes it */
	bool newer; /* it waits again in a later version, in this stream from this time on: */
	int32_t newer_route, newer_priority;
	int64_t newer_run_at;
	int64_t suspended_until_ms; /* KNOWN_SUSPENDED */
	struct known *prev, *next;
	UT_hash_handle hh;
};

/* Whether there may be due rows after a stream's cursor. */
enum unread {
	UNREAD_NOTHING,
	UNREAD_POLL,    /* for a rescan: most find nothing, and no other stream waits for it */
	UNREAD_CHANGE,  /* since a notification or a change of our own */
	UNREAD_BACKLOG, /* the last page was full, or none has been read since discovery found the stream */
};

/* The purpose of the page that is being read. */
enum reading {
	READING_NOTHING,
	READING_ON,     /* the rows after the cursor */
	READING_PASSED, /* the first of the skipped rows, and nothing else */
};

/* What is known of the first skipped task of another manager's shard. */
enum passed_state {
	PASSED_WAITS,  /* the other manager has time to take it */
	PASSED_TRIED,  /* it is, or was, a candidate here: until a later one is skipped */
	PASSED_UNSURE, /* it may be gone: the first one from there on must be searched */
};

struct stream_key {
	int32_t route, priority;
};

struct stream {
	struct stream_key key;
	struct ready_cache *cache;
	struct known *candidates;
	struct known *gone; /* list */
	int count, taken;   /* candidates that wait; candidates in claims */
	int64_t stuck;      /* see stream_set_stuck */
	int64_t cursor_run_at, cursor_id;
	int64_t kept_run_at, kept_id; /* before a full rescan, in case that fails: all before this has been read */
	enum unread unread;
	bool asked;             /* UNREAD_CHANGE: by stream_holds_from, since the last change */
	int64_t unread_from_us; /* … none of its rows is due before this */
	enum reading reading;
	bool reread; /* the cursor was rewound while a page was being read */
	bool noted;  /* tasks were noted while a page was being read that may have begun before their commit: */
	int64_t noted_run_at, noted_id; /* they come after this */
	struct place place;             /* among the active streams */
	int failed;                     /* how many reads of pages have failed in a row */
	bool too_long;                  /* it has a task that is longer than this manager sends: others may take it */
	int64_t next_due_us;            /* the first task that is not due yet, by the database's clock (not the estimate) */
	int64_t trail_ms;               /* the next rescan of the last seconds */
	int64_t retry_ms;               /* no read before this, after a failed one */
	bool polling;                   /* a rescan is in progress: */
	int64_t poll_began_us;          /* … when it began, */
	int64_t poll_spent_ms; /* … and how long its pages have taken so far; it may have to wait for a Fetch or for room */
	int64_t poll_took_ms;          /* of the last rescan */
	int64_t polled_us;             /* when the last completed rescan began, by the estimate of the database's time */
	int64_t all_read_ms;           /* when the last page was requested that ended with all tasks of all shards */
	int64_t read_ms;               /* when the page in flight was requested */
	bool all_shards;               /* pages contain all shards */
	int64_t unsharded_until_ms;    /* at least until then they do */
	struct store_candidate passed; /* the first skipped task of another shard; id 0: none */
	enum passed_state passed_state;
	int64_t probe_ms;                         /* when `passed` is tried, or searched for */
	int64_t suspended_ms, suspended_until_ms; /* suspended until then because its tasks were locked; 0: not suspended */
	struct deadline timer;                    /* see stream_schedule */
	struct store_page page;
	struct stream *route_prev, *route_next;
	struct stream *passed_prev, *passed_next; /* while it has `passed` */
	UT_hash_handle hh;
};

/* The streams of a route. */
struct route_streams {
	bool wanted; /* a Fetch accepts it */
	bool over;   /* it is in the list of routes that may have too many streams */
	bool slow;   /* the beginning of one of its streams could not be read: see skip_beginning */
	bool cut;    /* those of its streams below this priority are dropped: */
	int32_t cut_below;
	struct stream *streams; /* list */
	int count, active;      /* all; those in the list of their priority */
	int64_t trim_ms;        /* it is not trimmed before: the last time streams in use could not be dropped */
	int64_t check_us;       /* when a dropped stream may have a due task; 0: at no known time */
};

struct ready_cache {
	struct base *base;
	const struct db_clock *clock;
	struct ready_fetches fetches;
	struct stream *streams; /* hash */
	struct stream *passed;  /* list: those with tasks left to other managers */
	struct levels active;
	struct route_streams *routes; /* by route number */
	int route_count;
	int routes_used; /* number of routes with streams */
	int *over;       /* routes that may have too many streams */
	int over_count;
	int64_t check_ms;            /* when a route's check_us may have come; 0: no route has one */
	struct known *known;         /* hash */
	struct discovery *discovery; /* discovery */
	int size;                    /* candidates not taken */
	int expected;                /* maximum number of candidates of the pages in flight */
	struct deadlines timers;     /* of the streams */
	bool left_unread;            /* a stream that has unread rows is not being read */
	int64_t rounds;              /* the number of statements that have read pages */
	int64_t held_until_round;    /* see stream_holds_from */
	bool holding;                /* no matching has begun since that round */
	bool lets;                   /* this matching is the first one since then */
	struct known *resting; /* list of suspended candidates, in the order in which they wait again: see ready_suspend */
	int resting_count;
	int hinted;            /* streams added by notifications since the last full rescan */
	int64_t again_from_us; /* all streams are to be rescanned from here on; STORE_TIME_NEVER: no */
	int64_t all_ms;        /* no full rescan before then */
	int shards, shard;     /* see ready_shard */
};

/* --- ready_streams.c ---- */

/* Returns whether a claim keeps a task from being a candidate. */
static inline bool known_taken(const struct known *known)
{
	return known->state == KNOWN_CLAIMED || known->state == KNOWN_SUSPENDED;
}

/* Returns a stream, or NULL if it is not known. */
struct stream *stream_find(struct ready_cache *cache, int route, int32_t priority);

/* Adds a stream, unread from its beginning. */
struct stream *stream_add(struct ready_cache *cache, int route, int32_t priority);

/* Frees a stream. None of its tasks may be in a claim, and no page of it in flight. */
void stream_free(struct stream *stream);

/* Returns the streams of a route. The pointer is valid until a new route is passed. */
struct route_streams *ready_route(struct ready_cache *cache, int route);

/* Returns whether a Fetch accepts its route. */
bool stream_wanted(const struct stream *stream);

/* Lists or unlists the stream, depending on what it has. */
void stream_update(struct stream *stream);

/* Returns whether the cursor has passed this position. */
bool stream_behind_cursor(const struct stream *stream, int64_t run_at_us, int64_t id);

/* Records the position of a noted task while a page is being read: the page's end is not known, so the task may lie
 * before it and yet not be in the page. */
void stream_note_position(struct stream *stream, int64_t run_at_us, int64_t id);

/* Marks the stream as unread from this position on. */
void stream_rewind(struct stream *stream, int64_t run_at_us, int64_t id);

/* --- ready_limit.c ---- */

/* Returns how many streams of a route are kept. */
int ready_route_limit(const struct ready_cache *cache);

/* Notes that a stream was added to the route. */
void ready_route_grown(struct ready_cache *cache, int route);

/* Returns whether as many streams of the route are active, from this priority up, as are kept. Then lower ones will be
 * dropped. `arg` is a struct ready_cache *. */
bool ready_enough(void *arg, int route, int32_t from);

/* Drops streams of routes that have too many. No stream may be in use by a caller. */
void ready_trim(struct ready_cache *cache);

/* Discovers the streams of a route when this time has come: they are not kept. */
void ready_check_at(struct ready_cache *cache, int route, int64_t due_us);

/* Discovers streams that were dropped and may have due tasks now. Returns when to call this again; INT64_MAX: never. */
int64_t ready_check_dropped(struct ready_cache *cache, int64_t now_ms);

/* --- ready_read.c ---- */

/* Sets the stream's timer to the next time at which it has work. Call it after any change of such a time. */
void stream_schedule(struct stream *stream);

/* Reads the stream if it has unread rows and no candidates, a Fetch waits for its route, and there is room. */
void stream_read(struct stream *stream);

/* The same, but a Fetch is known to want its tasks. */
void stream_read_asked(struct stream *stream);

/* Calls stream_read for all streams, if it was not possible for some before. */
void ready_read_unread(struct ready_cache *cache);

/* The job "streams": handles due timers and suspended candidates. `arg` is a struct ready_cache *. */
bool ready_fire(void *arg);

/* Searches the first task of other shards, from the position of `passed` on. */
void stream_find_passed(struct stream *stream);

/* --- ready.c ---- */

/* Adds a candidate unless it is known. A newer version replaces a known one. */
void stream_add_candidate(struct stream *stream, const struct store_candidate *candidate);

/* Makes suspended candidates available again. Returns when the next one will be. */
int64_t ready_resume_suspended(struct ready_cache *cache, int64_t now_ms);

/* Removes a KNOWN_GONE task. */
void stream_drop_gone(struct ready_cache *cache, struct known *known);

/* Drops the candidates of an unwanted stream, to make room for others. They are read again when it is wanted. */
void stream_let_go(struct stream *stream);

/* --- ready_shards.c ---- */

/* Returns whether a task belongs to another manager's shard. */
bool ready_is_others(const struct ready_cache *cache, int64_t id);

/* Records a skipped task of another shard. Only the first one is kept; reading returns to it if necessary. */
void stream_pass_over(struct stream *stream, const struct store_candidate *candidate);

/* Forgets the first skipped task. */
void stream_forget_passed(struct stream *stream);

/* Marks `passed` as unsure: it could not be claimed, and other tasks were skipped after it. */
void stream_passed_lost(struct stream *stream);

/* Reads all shards of the stream, from the first skipped task on. */
void stream_read_unsharded(struct stream *stream, int64_t for_ms);

/* Tries the first skipped task after the other managers have had time to take it. */
void stream_probe_passed(struct stream *stream, int64_t now_ms);

#endif
