/* Declarations shared by the files of the dispatcher. */
#ifndef REEVE_MANAGER_CORE_DISPATCH_INTERNAL_H
#define REEVE_MANAGER_CORE_DISPATCH_INTERNAL_H

#include "common/deadlines.h"
#include "common/hash.h"
#include "common/limits.h"
#include "manager/core/demand.h"
#include "manager/core/dispatch.h"
#include "manager/core/ready.h"

struct route;

struct session;
struct matching;
struct pick;

enum {
	UNPARKED_LIMIT_MS = 500, /* how long a Fetch that does not park waits for a claim or page in flight */
	COLLECT_MS = 2000,       /* how long a Fetch waits for tasks that are being read, although it could have others */
	COLLECT_ROUNDS = 5,      /* … and the maximum of statements that read pages and bring none, in that time */
	ANSWERS_MAX = 4,         /* maximum bytes of a claim or a redelivery, in full answers: all its rows are in memory */
	CLAIM_LIMIT_MS = 1000,   /* how much longer a Fetch waits for a claim in flight */
	ASSIGNMENT_BYTES = 200 + 2 * LIMIT_NAME_BYTES, /* size of an assignment in an answer, without its queue, type and
	                                                  details: numbers, trace context, the longest key and stage */
};

enum fetch_state {
	WAITING,
	CLAIMING,
	ASKING,   /* queries what it was assigned before, and whether its incarnation is alive */
	CHECKING, /* its claim won nothing: checks whether its incarnation is still alive */
	HELD,     /* goes on when its caller has read enough answers (fetch_hold.c) */
};

struct fetch;
typedef void fetch_start(struct fetch *fetch);

struct fetch {
	struct dispatch *dispatch;
	struct session *session;
	struct profile *profile;
	struct fetch_request request; /* without the names of queues and types, which its profile has */
	enum fetch_state state;
	bool parks;     /* may wait for new tasks */
	int64_t number; /* in order of arrival */
	int64_t wait;   /* the value of dispatch->waits when it began to wait */
	int64_t arrived_ms;
	int64_t claimed_ms; /* when its claim, or the query of the journal, was sent */
	int64_t until_ms;   /* is answered by then, even if nothing was found */
	fetch_done *done;
	void *arg;
	int64_t waiting_until_ms; /* when a queue's waiting period ends that keeps tasks from it; 0: none does */
	bool collects;            /* its grants are undone: see match_candidates */
	int64_t collected;        /* … until so many statements have read pages; 0: never so far */
	int64_t worth, max_worth; /* the sum of task_worth of its candidates; its maximum so far */
	int32_t lowest;           /* the lowest priority of its candidates */
	int granted;              /* candidates for it in the claim that is prepared or in flight */
	int64_t granted_bytes;
	struct fetch_limit *limits; /* request.limits, owned */
	struct pick *pick;          /* it has a filter; or NULL */
	int slot;                   /* its index in the claim; −1: none yet */
	bool passed;                /* during a run: it got no candidates because its caller is backlogged */
	int work;                   /* what it counts among its caller's that read tasks: see fetch_begin */
	int held_work;              /* while it is held: what it will count */
	fetch_start *start;         /* … and how it goes on */
	bool resumed;               /* it is resumed: it does not wait for held Fetches of its caller */
	bool ask_again; /* the query may have missed a claim for an earlier copy, which ended during the query */
	struct store_redeliver ask;
	struct deadline deadline;
	struct deadline idle; /* in its profile's heap: when its worker started, in ms of the monotonic clock */
	struct store_fetch id;
	UT_hash_handle hh;         /* by id, until it is answered: while `done` is set */
	struct fetch *prev, *next; /* in the list of all */
	struct fetch *session_prev, *session_next;
	struct fetch *waiting_prev, *waiting_next;   /* in its profile, while it waits */
	struct fetch *latest_prev, *latest_next;     /* while it waits */
	struct fetch *unparked_prev, *unparked_next; /* while it waits, if it does not park */
	struct fetch *held_prev, *held_next;         /* while it is held, or passed */
};

struct grant {
	struct candidate candidate;
	struct fetch *fetch;
	int64_t bytes; /* of its assignment */
	bool limited;  /* its queue has a limit */
	int order;     /* its place among the candidates of the claim, in the order in which they are assigned */
	int slot;
};

struct dispatch {
	struct base *base;
	const struct db_clock *clock;
	struct ready_cache *cache;
	struct routes *routes;
	struct queues *queues;
	struct sessions *sessions;
	const struct verbose *verbose;
	struct spans *spans;
	struct demand *demand;
	struct matching *matching;
	struct fetch *fetches;  /* list: all */
	struct fetch *by_id;    /* hash: those without an answer, by incarnation and Fetch id */
	int64_t searched;       /* for tests: Fetches looked at by fetch_find */
	struct fetch *unparked; /* list */
	struct fetch *passed;   /* list, during a run */
	struct reader *readers; /* hash: see fetch_hold.c */
	struct reader *holding; /* list: those with Fetches in state HELD */
	bool eased;             /* some of these may go on */
	struct fetch *latest;   /* list: those that wait, the one that began to wait last first */
	int64_t waits;          /* how often a Fetch began to wait */
	struct deadlines deadlines;
	int64_t last_number;
	int waiting;      /* Fetches in state WAITING */
	int64_t capacity; /* candidates that they can still take */
	int64_t coming;   /* slots that Fetches of the claim in flight will request again */
	bool claiming;
	int64_t queue_changes; /* queues_changes when the claim was sent */
	struct store_claim claim;
	struct store_try *tries;
	struct grant *grants; /* the candidates of the claim, and their Fetches */
	struct store_fetch *slots;
	struct fetch **by_slot;
};

/* Returns what a task adds to a Fetch: more for a higher priority, and always something. */
static inline int64_t task_worth(const struct stream *stream)
{
	return (int64_t)stream_priority(stream) - INT32_MIN + 1;
}

/* --- a Fetch (fetch.c) --- */

/* Adds a Fetch to those that fetch_find finds. None of its id may be there. */
void fetch_found_by_id(struct fetch *fetch);

/* Returns the Fetch of this id that has no answer yet, or NULL. There is at most one: another copy ends it. */
struct fetch *fetch_find(struct dispatch *dispatch, int64_t incarnation, int64_t fetch_id);

/* Lets the Fetch wait for candidates. */
void fetch_wait(struct fetch *fetch);

/* fetch_takes returns whether the Fetch's limits allow one more task of the route. fetch_count counts `by` more. */
bool fetch_takes(const struct fetch *fetch, const struct route *route);
void fetch_count(struct fetch *fetch, const struct route *route, int by);

/* Takes the Fetch out of the waiting ones, if it is there, and sets its state. */
void fetch_move(struct fetch *fetch, enum fetch_state state);

void fetch_timer(struct fetch *fetch, int64_t at_ms);

/* Checks whether the Fetch's incarnation is alive; if not, its Fetches end. Until the answer this Fetch takes part in
 * no claim. */
void fetch_check(struct fetch *fetch);

/* Queries the journal for what this Fetch was assigned before, and whether its incarnation is alive. */
void fetch_redeliver(struct fetch *fetch);

/* Frees a Fetch that has its answer already. */
void fetch_drop(struct fetch *fetch);

/* Answers and frees the Fetch. */
void fetch_end(struct fetch *fetch, const struct fetch_answer *answer, const struct reeve_error *error);

/* Ends the Fetch with those of the claimed tasks that have its slot. */
void fetch_end_won(struct fetch *fetch, const struct store_claimed *won, int won_count, int slot);

/* Ends the Fetch with the error that its incarnation has ended. */
void fetch_end_lost(struct fetch *fetch);

/* Ends a Fetch in any state, because its caller does not wait for it any more. What its claim wins stays with its id,
 * and is delivered if the Fetch comes again. */
void fetch_abort(struct fetch *fetch);

/* Returns an empty answer. It says when a Fetch that does not park should come again. `sure`: no due task
 * is known to wait for the Fetch. */
struct fetch_answer fetch_nothing(const struct fetch *fetch, bool sure);

/* Call it when a claim has ended and its Fetch had been sent again before: the newer copy may have queried the journal
 * too early. */
void fetch_ask_newer_copy(struct dispatch *dispatch, const struct store_fetch *fetch);

/* --- Fetches of callers that do not read their answers (fetch_hold.c) --- */

/* How much of its caller's part a Fetch takes while tasks are read for it: one of many that may share a statement, or
 * one that has a claim of its own. */
enum { REDELIVER_WORK = 1, PICK_WORK = 25 };

/* Returns true, and notes it, if the Fetch has a backlogged caller: in this run it gets no candidates. */
bool fetch_pass(struct fetch *fetch);

/* Holds the Fetches that were passed. */
void fetches_hold(struct dispatch *dispatch);

/* Lets those go on that may. */
void fetches_resume(struct dispatch *dispatch);

/* Notes that tasks are read for the Fetch. Returns false if its caller is backlogged, or has many such Fetches, or held
 * ones: then it is held, and `start` called later. */
bool fetch_begin(struct fetch *fetch, int work, fetch_start *start);

/* Notes that no tasks are read for the Fetch any more. */
void fetch_idle(struct fetch *fetch);

/* The Fetch is no longer held. */
void fetch_unhold(struct fetch *fetch);

/* Ends a Fetch that is held, and may have been assigned tasks before: it is to be sent again. */
void fetch_end_held(struct fetch *fetch);

/* Returns true if the Fetch is held and only waits for new tasks. */
bool fetch_held_waiting(const struct fetch *fetch);

/* --- a Fetch with a filter (fetch_pick.c) --- */

struct pick *pick_create(struct fetch *fetch, const ProtobufCMessage *request);
void pick_free(struct pick *pick);

/* Reads the tasks that match, claims them, and ends the Fetch. */
void pick_start(struct fetch *fetch);

/* --- the claim (dispatch_claim.c) --- */

/* Sends the claim for the first `tried` grants, sorted by id. Its slots are the Fetches that have grants. */
void dispatch_claim(struct dispatch *dispatch, int tried);

/* --- the choice of candidates (match.c) --- */

struct matching *match_create(struct dispatch *dispatch);
void match_destroy(struct matching *matching);

/* Moves candidates for the waiting Fetches to dispatch->grants, and returns how many. Sets *unsure if due rows that a
 * Fetch might get are still being read, or if the claim is full. Its time grows with the number of streams and of the
 * profiles that accept them. If Fetches exclude all candidates of a stream, it waits for a new candidate or a new Fetch
 * that accepts it.
 *
 * A pull client's Fetch that does not park gets all its tasks in one answer: while it has room and rows for it are
 * being read, or those of higher priorities that were left to other managers, it gets none, for up to COLLECT_MS, and
 * up to COLLECT_ROUNDS statements that bring neither more tasks nor ones of higher priorities. */
int match_candidates(struct matching *matching, bool *unsure);

/* Undoes the grants of the Fetches that collect tasks, and sets *unsure if there are any. Returns how many of the first
 * `tried` grants are left. */
int grants_collect(struct dispatch *dispatch, int tried, bool *unsure);

/* For tests: returns how many comparisons of Fetches with each other and with candidates there were. */
int64_t match_steps(const struct matching *matching);

/* Returns true if a waiting Fetch can get tasks of this route now. */
bool match_wants(struct matching *matching, int route);

/* Returns true if its Fetches have room for so many candidates of this route, and all Fetches for `all` candidates. The
 * Fetches are those that wait, and those that follow the claim in flight or the answer of the last one. Checks at most
 * 100 of the profiles that accept the route. */
bool match_fits(struct matching *matching, int route, int candidates, int all);

#endif
