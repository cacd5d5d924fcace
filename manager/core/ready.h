/*
 * The ready cache: candidates in memory, read ahead in pages with a keyset cursor for each stream (a route and a
 * priority). So a claim locks rows by their ids, and never walks the dead entries at the head of the index.
 *
 * Tasks that appear behind a cursor come in other ways. This manager's own submits, failures and edits are noted
 * (ready_note). Other managers send notifications (ready_rewind). A rescan reads the last seconds again, and takes up
 * to a hundredth of the time. Once a minute everything is read from the beginning.
 *
 * With other live managers, pages contain only the ids of this manager's shard. Of the tasks that are skipped the first
 * is remembered and tried after a while. If it can still be claimed, the other managers do not take the tasks of this
 * stream, and all shards of it are read for some time.
 *
 * Memory is bounded: over the limit nothing is read ahead, and notes only rewind a cursor. Of each route the streams of
 * its highest priorities are kept, and lower ones are discovered when those run empty (ready_limit.c).
 */
#ifndef REEVE_MANAGER_CORE_READY_H
#define REEVE_MANAGER_CORE_READY_H

#include "manager/core/base.h"

struct db_clock;
struct stream;

struct candidate {
	int64_t id, version, run_at_us;
	int32_t bytes;   /* of its details */
	bool was_locked; /* another transaction had locked it at the last try */
	struct stream *stream;
};

/* What the ready cache asks the dispatcher about Fetches. */
struct ready_fetches {
	bool (*waiting)(void *arg);         /* whether a Fetch waits for work */
	bool (*want)(void *arg, int route); /* whether one waits that may get tasks of this route now */
	bool (*take)(void *arg, int route, int candidates, int all); /* see dispatch_takes */
	void *arg;
};

struct ready_cache *ready_create(struct base *base, const struct db_clock *clock, const struct ready_fetches *fetches);
void ready_destroy(struct ready_cache *cache);

/* Notes a task of this stream that waits, from this version on. `bytes`: of its details, −1 if unknown. */
void ready_note(struct ready_cache *cache, int route, int32_t priority, int64_t id, int64_t version, int64_t run_at_us,
    int32_t bytes);

/* Rewinds the stream: it may have tasks from run_at on that this manager has not read. */
void ready_rewind(struct ready_cache *cache, int route, int32_t priority, int64_t run_at_us);

/* Returns whether the stream's cursor is far past this time. */
bool ready_passed_by(struct ready_cache *cache, int route, int32_t priority, int64_t run_at_us);

/* Adds tasks of a stream that were read separately from its cursor (see rescan.h). Returns false if there is no room
 * for them, or no Fetch accepts the route. */
bool ready_late(
    struct ready_cache *cache, int route, int32_t priority, const struct store_candidate *candidates, int count);

/* Rescans everything from the beginning. */
void ready_rewind_all(struct ready_cache *cache);

/* Rescans the last seconds of all streams, and what is due from `run_at_us` on, and discovers new streams. For changes
 * that name no stream. Runs up to once a second. */
void ready_poll_again(struct ready_cache *cache, int64_t run_at_us);

/* Adjusts the timers after a jump of the database's clock. */
void ready_clock_changed(struct ready_cache *cache);

/* Sets how many managers share the tasks, and the place of this one among them, from 0. It takes tasks of its own shard
 * first; others when it has none left, or when no manager has taken them for a while: perhaps no other can. */
void ready_shard(struct ready_cache *cache, int shards, int shard);

/* Returns the shard of a task: see shard_of.sql, which computes the same. */
int ready_shard_of(int64_t id, int shards);

/* Sets whether a waiting or recent Fetch accepts the route. No route is wanted at first. Of unwanted routes no stream
 * is kept; when they are wanted, their streams are discovered. Takes time in proportion to the route's streams. */
void ready_route_wanted(struct ready_cache *cache, int route, bool wanted);

/* Call when matching begins: stream_holds_from counts on it. */
void ready_match(struct ready_cache *cache);

/* Iterate over the streams of wanted routes that have or may have candidates, from the highest priority down. Only
 * functions of the ready cache change the list. */
struct stream *ready_first(struct ready_cache *cache);
struct stream *ready_next(struct stream *stream);

/* Lets the iteration over the streams of its priority begin with this one from now on. */
void ready_begin_at(struct stream *stream);

int stream_route(const struct stream *stream);
int32_t stream_priority(const struct stream *stream);
int stream_count(const struct stream *stream);

/* Returns when the last read began that found all its tasks, also those of other shards; 0: none has. */
int64_t stream_all_read_ms(const struct stream *stream);

/* Notes that no Fetch takes any of the stream's candidates; `waits`: a number above 0. Later, stream_stuck returns that
 * number, or 0 if candidates were added since or if there are none. */
void stream_set_stuck(struct stream *stream, int64_t waits);
int64_t stream_stuck(const struct stream *stream);

/* Returns whether due rows may be unread. */
bool stream_unread(const struct stream *stream);

/* Returns from which time on the stream is an ordering barrier now: no other stream's task may overtake it from that
 * time on, and no task of a lower priority at all. INT64_MAX: no task has to wait. A stream is a barrier when it has no
 * candidates and its rows are being read. With a backlog it is one from its first unread task on, until the backlog is
 * read. After a notification or a change it is one until those rows have been read once, from 100 ms after the first of
 * them is due: tasks that are due so close to each other start in any order, or several managers would wait for each
 * other's tasks all the time. Further notifications in that time do not make a stream hold back others again before
 * a matching has let them pass. What could not be read in that time, because no Fetch had room for it, still holds back
 * others when one has. */
int64_t stream_holds_from(struct stream *stream);

/* Returns whether the last read of its rows failed: then it must not hold back others. */
bool stream_failing(const struct stream *stream);

/* Starts to read ahead if the stream has fewer than `wanted` candidates and may have more. */
void ready_read_ahead(struct ready_cache *cache, struct stream *stream, int wanted);

/* Returns whether the highest priorities of the routes that were wanted first have been found. If not, starts
 * discovery, and runs the dispatcher when it has results. Drops streams over the limit. */
bool ready_discovered(struct ready_cache *cache);

/* Returns whether discovery still searches, or may search, for streams of a route for which `accepts` returns true.
 * Then the dispatcher runs when discovery has an answer. */
bool ready_searches(const struct ready_cache *cache, bool (*accepts)(const void *arg, int route), const void *arg);

/* Return the stream's candidates in order: the first, and the one after another. NULL: none. */
const struct candidate *stream_peek(const struct stream *stream);
const struct candidate *stream_peek_next(const struct candidate *candidate);

/* Starts to read the tasks that were left to other managers and are not in memory. Calls `accept` for each such stream,
 * and reads those for which it returns true: a Fetch wants their tasks. */
void ready_read_passed(struct ready_cache *cache, bool (*accept)(void *arg, const struct stream *stream), void *arg);

/* Takes out a candidate. It stays known, so that it is not read again, until ready_forget or ready_release. */
struct candidate ready_take(struct ready_cache *cache, const struct candidate *candidate);

/* Ends the claim of a taken candidate: won, or lost to another manager. */
void ready_claimed(struct ready_cache *cache, int64_t id, bool won);

/* The same if the outcome does not matter. */
void ready_forget(struct ready_cache *cache, int64_t id);

/* Suspends a taken candidate that is locked by a transaction which may leave it unchanged. A little later it is a
 * candidate again, after the others of its stream. A stream in which nothing could be claimed for that reason is
 * suspended, too, each time for longer, so that it does not hold back others. */
void ready_suspend(struct ready_cache *cache, int64_t id);

/* Drops a task that no longer waits. If a claim of it is in flight, the claim finds that out. */
void ready_drop(struct ready_cache *cache, int64_t id);

/* Puts back a taken candidate that no claim has changed: it waits in its place of the stream's order. */
void ready_untake(struct ready_cache *cache, int64_t id);

/* Puts back a taken candidate whose claim failed: it may still wait, and is read again. */
void ready_release(struct ready_cache *cache, const struct candidate *candidate);

/* Returns whether a task is longer than this manager sends, and logs that once. It was submitted under a higher limit,
 * and waits until the limit is raised, or for a manager with a higher one. */
bool ready_too_long(const struct ready_cache *cache, const struct store_candidate *candidate);

/* What is known of the tasks of a stream that are due by a time. */
enum ready_has {
	READY_NOTHING,  /* none waits: all have been claimed, by this manager or another */
	READY_CLAIMING, /* all that wait are in the claim in flight */
	READY_WAITING,  /* some wait, or may */
	READY_OTHERS,   /* some wait, and are left to other managers */
};
enum ready_has ready_has(struct ready_cache *cache, int route, int32_t priority, int64_t run_at_us);

/* Returns the number of waiting candidates. */
int ready_size(const struct ready_cache *cache);

/* Returns whether a page is being read of a stream of a route for which `accepts` returns true, except for a rescan.
 * Its time grows with the streams. */
bool ready_reads(const struct ready_cache *cache, bool (*accepts)(const void *arg, int route), const void *arg);

/* The same for streams above this priority of which the tasks of all managers are being read. */
bool ready_reads_passed(
    const struct ready_cache *cache, bool (*accepts)(const void *arg, int route), const void *arg, int32_t above);

/* Returns how many statements have read pages. */
int64_t ready_rounds(const struct ready_cache *cache);

/* Returns the number of streams, for statistics. */
int ready_streams(const struct ready_cache *cache);

#endif
