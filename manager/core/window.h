/*
 * The window: candidates in memory, read ahead in pages with a keyset cursor for each stream (a route and a priority),
 * so that a claim locks rows by their ids and never walks the index's dead entries at its head.
 *
 * What can appear behind a cursor is brought in otherwise: this manager's own submits, failures and edits are told
 * (window_note); other managers' come by wakes (window_rewind); a trailing look re-reads the last seconds, and now and
 * then everything is read from the top again, never spending more than a hundredth of the time on it.
 *
 * With other managers about, pages are read of this manager's slice of the ids alone. What is passed over is remembered by
 * its first task, which is tried after a while: if it is still there to be had, the others do not see to this stream, and
 * it is read whole for some time.
 *
 * Bounded: over its limit nothing is read ahead and notes only move a cursor back.
 */
#ifndef REEVE_MANAGER_CORE_WINDOW_H
#define REEVE_MANAGER_CORE_WINDOW_H

#include "manager/core/base.h"

struct db_clock;
struct routes;
struct stream;

struct candidate {
	int64_t id, version, run_at_us;
	int32_t bytes; /* of its details */
	bool rested;   /* somebody had it locked when it was last tried */
	struct stream *stream;
};

/* What the window asks of whoever gives its candidates to Fetches. */
struct window_fetches {
	bool (*waiting)(void *arg);         /* whether a Fetch waits for work */
	bool (*want)(void *arg, int route); /* whether one waits that may be given tasks of this route now */
	void *arg;
};

struct window *window_create(struct base *base, const struct db_clock *clock, struct routes *routes,
    const struct window_fetches *fetches);
void window_destroy(struct window *window);

/* A task of this stream waits, from this version on. `bytes`: of its details, −1 if not known. */
void window_note(struct window *window, int route, int32_t priority, int64_t id, int64_t version, int64_t run_at_us,
    int32_t bytes);

/* The stream may have tasks from run_at on that this manager has not seen. */
void window_rewind(struct window *window, int route, int32_t priority, int64_t run_at_us);

/* Whether the stream's cursor is long past what was due at this time. */
bool window_passed_by(struct window *window, int route, int32_t priority, int64_t run_at_us);

/* Tasks of a stream that were read apart from its cursor (see late.h). False: they would be too many. */
bool window_late(struct window *window, int route, int32_t priority, const struct store_candidate *candidates, int count);

/* Anything may have changed: read all from the top. */
void window_rewind_all(struct window *window);

/* Something may have changed in streams that nobody names, from `run_at_us` on: look at the last seconds of all, or from there,
 * and for new streams, but once a second at most. */
void window_look_again(struct window *window, int64_t run_at_us);

/* The database's clock has been read anew, and runs differently. */
void window_clock_changed(struct window *window);

/* So many managers share the tasks, and this is the one with that place among them, from 0. It takes tasks of its own slice
 * first, of others when it has none left, and those that nobody has taken for a while: there may be nobody else to. */
void window_slice(struct window *window, int slices, int slice);

/* New routes are known. */
void window_routes_changed(struct window *window);

/* A route is not known any more: what it has is looked for anew if it comes back. */
void window_forget_route(struct window *window, int route);

/* Whether a Fetch that is here, or was lately, accepts the route. Every route is wanted until this says otherwise. Streams of
 * one that is not are neither listed nor read, and keep no candidates: they cost nothing. Takes time by the route's streams. */
void window_route_wanted(struct window *window, int route, bool wanted);

/* Streams of wanted routes that have candidates, or may have them, from the highest priority down. The list changes only in
 * functions of the window. */
struct stream *window_first(struct window *window);
struct stream *window_next(struct stream *stream);
int stream_route(const struct stream *stream);
int32_t stream_priority(const struct stream *stream);
int stream_count(const struct stream *stream);

/* True if rows that are due may still be unread. */
bool stream_unread(const struct stream *stream);

/* The time from which on no other stream's task may overtake the stream now, and no task of a lower priority at all: it has no
 * candidates, and its rows are being read. INT64_MAX: none has to wait. That is as long as it has a backlog, from where its cursor
 * stands. After a notification or a change it is until those rows are read once, from 100 ms after the first of them is due: tasks
 * that are due so close to each other start in any order, or several managers would wait for each other's all the time. Streams for which more of them come meanwhile do not hold
 * others up again before something has been claimed. */
int64_t stream_holds_from(const struct stream *stream);

/* True if its rows could not be read just now: it must not keep others waiting. */
bool stream_failing(const struct stream *stream);

/* Starts reading ahead if the stream has fewer than `wanted` candidates and more may be there. */
void window_read_ahead(struct window *window, struct stream *stream, int wanted);

/* Whether the streams have been found once since this manager began; if not, looks for them, and runs the dispatcher when it
 * has found them. */
bool window_ready(struct window *window);

/* Whether all streams are known that there were a moment ago. If not, the dispatcher is run when they are. */
bool window_complete(const struct window *window);

/* The stream's candidates in order: the first, and the one after another. NULL: none. */
const struct candidate *stream_peek(const struct stream *stream);
const struct candidate *stream_peek_next(const struct candidate *candidate);

/* True if the route has tasks that were left to other managers and are not at hand: they are being read now. */
bool window_read_passed(struct window *window, int route);

/* Takes one of them out; it stays known (it is not read again) until window_forget or window_release. */
struct candidate window_take(struct window *window, const struct candidate *candidate);

/* A taken candidate has been claimed (won), or is somebody else's. */
void window_claimed(struct window *window, int64_t id, bool won);

/* The same where it does not matter who has it. */
void window_forget(struct window *window, int64_t id);

/* A taken candidate is locked by a transaction that may leave it as it is: it is a candidate again a little later, behind the
 * others of its stream. A stream of which nothing could be claimed for that reason rests as a whole, each time for longer, so that
 * it does not hold up others. */
void window_rest(struct window *window, int64_t id);

/* A task does not wait any more; if it is being claimed, that will find out. */
void window_drop(struct window *window, int64_t id);

/* A taken candidate's claim failed: it may still be there, to be read again. */
void window_release(struct window *window, const struct candidate *candidate);

/* True, and told, if it is longer than this manager sends: it was submitted when the limit was higher, and waits until it is again,
 * or for a manager with a higher one. */
bool window_too_long(const struct window *window, const struct store_candidate *candidate);

/* What is known of a stream's tasks that were to run by a time. */
enum window_has {
	WINDOW_NOTHING,  /* none waits: what did has been claimed, by this manager or another */
	WINDOW_CLAIMING, /* all that wait are in the claim under way */
	WINDOW_WAITING,  /* some wait, or may */
	WINDOW_OTHERS,   /* some wait that are left to other managers */
};
enum window_has window_has(struct window *window, int route, int32_t priority, int64_t run_at_us);

/* How many candidates wait. */
int window_size(const struct window *window);

/* For statistics. */
int window_streams(const struct window *window);

#endif
