/* Operations on attempts: finding ready tasks, claiming them, ending their attempts. See op.h. */
#ifndef REEVE_MANAGER_STORE_OPS_ATTEMPTS_H
#define REEVE_MANAGER_STORE_OPS_ATTEMPTS_H

#include "manager/store/op.h"

#include <protobuf-c/protobuf-c.h>

#include <sql/sql.h>

/* --- the ready cache ------------------------------------------------------------------------------------------- */

struct store_candidate {
	int64_t id, version, run_at_us;
	int32_t bytes; /* of its details */
};

/* Reads the next candidates of a stream. Pages that are requested while a statement is in flight share the next one. */
struct store_page {
	struct store_op op;
	int route;
	int32_t priority;
	int64_t after_run_at_us, after_id;
	int64_t due_us; /* the manager's estimate of now */
	int limit;
	int shards, shard;   /* the number of shards; which one (shard_of.sql); shards 1: all */
	int64_t other_bytes; /* the maximum length of the details of `other` */
	bool alone;          /* it has failed before, and must not make others fail: no other page is in its statement */
	/* results */
	struct store_candidate *candidates;
	int count;
	struct store_candidate other; /* the first due task of another shard; id 0: there is none */
	int64_t next_due_us;          /* when the first task that is not due yet will be; STORE_TIME_NEVER: none */
	bool more_follow;             /* another page of the same statement, or its error, follows at once */
};
void store_page(struct store *store, struct store_page *op);

struct store_stream {
	int route;
	int32_t priority;
	int64_t first_us; /* when the first of its tasks is due */
};

/* Finds the streams of routes, from the highest priority down. */
struct store_streams {
	struct store_op op;
	int count;
	const int *routes;
	const int32_t *below; /* for each: only lower priorities; INT32_MAX: all */
	int max;              /* the maximum for each route */
	/* results */
	struct store_stream *streams;
	int found;
};
void store_streams(struct store *store, struct store_streams *op);

/* Reads a section of a stream before its cursor, for tasks that were committed long after their creation. */
struct store_rescan {
	struct store_op op;
	int route;
	int32_t priority;
	int64_t after_run_at_us, after_id;
	int64_t until_us; /* due before this time */
	int limit;
	/* results */
	struct store_candidate *candidates;
	int count;
};
void store_rescan(struct store *store, struct store_rescan *op);

/* --- claiming -------------------------------------------------------------------------------------------------- */

struct store_try {
	int64_t id, version;
	int slot;     /* index of its Fetch in `fetches` */
	bool locked;  /* result: left out: locked by another transaction, which may not change it */
	bool blocked; /* result: left out: the limit of its queue is reached */
};

struct store_fetch {
	int64_t incarnation, fetch_id;
};

struct store_claimed {
	int64_t id, token, assignment_id, batch_id, timeout_ms;
	int64_t expires_in_ms;
	const char *details;
	const char *texts[SQL_ASSIGNED]; /* of the columns sql_columns_assigned; "": null */
	const char *queue, *type;        /* of a redelivery; NULL from a claim, whose routes are known */
	int attempt, max_attempts, route, slot;
	int order; /* for the core: its place in the answer */
};

/* Claims candidates for Fetches. Reports UNKNOWN. */
struct store_claim {
	struct store_op op;
	int count;
	struct store_try *tries; /* the store sorts them by id */
	int fetch_count;
	const struct store_fetch *fetches;
	int64_t expiry_grace_ms; /* from an attempt's timeout to its expiry */
	bool limited;            /* some may be of queues with a limit; without this none of those is won */
	bool careful;            /* some were locked the last time: wait for no lock. So does any claim just after
	                          * one that met a lock. */
	/* results */
	struct store_claimed *won;
	int won_count;
};
void store_claim(struct store *store, struct store_claim *op);

struct store_picked {
	int64_t id, version;
	int32_t bytes; /* of its details */
	int route;
};

/* Finds due tasks that match the filter of a Fetch, in the order in which they are assigned. */
struct store_pick {
	struct store_op op;
	const ProtobufCMessage *request; /* FetchRequest */
	int64_t max_details;             /* the maximum length of details */
	int64_t estimate_us;             /* the manager's estimate of the time if the clock is behind it; else 0 */
	/* results */
	struct store_picked *picked;
	int count;
};
void store_pick(struct store *store, struct store_pick *op);

enum store_life {
	STORE_LIFE_NEVER, /* there is no such incarnation */
	STORE_LIFE_LIVES,
	STORE_LIFE_OVER,
};

/* Reads the assignments that a Fetch received and still has, and whether its worker lives. A worker that does not
 * has none. */
struct store_redeliver {
	struct store_op op;
	struct store_fetch fetch;
	/* The maximum bytes of one task's details, of an answer with several tasks, and of the details of all Fetches that
	 * are read together; and what each task costs in an answer in addition to its strings. The same for every Fetch. */
	int64_t max_details_bytes, max_answer_bytes, max_batch_bytes, assignment_bytes;
	/* results */
	enum store_life life;
	bool later; /* it has tasks, for which those of other Fetches left no room: ask again */
	struct store_claimed *won;
	int won_count;
	struct store_candidate *left_out; /* what does not fit; the version is the token; without run_at_us */
	int left_out_count;
};
void store_redeliver(struct store *store, struct store_redeliver *op);

/* --- ending attempts ------------------------------------------------------------------------------------------- */

enum store_outcome {
	STORE_COMPLETED,
	STORE_FAILED,
	STORE_FATAL,
	STORE_RETURNED,
	STORE_CANCELLED,
	STORE_LEASE_ENDED,
	STORE_EXPIRED,
	STORE_LOST,     /* its worker was lost */
	STORE_REQUEUED, /* requeued: it never arrived at its worker */
	STORE_OUTCOMES
};

/* Returns the outcome's name in the tables: "completed", "failed", … */
const char *store_outcome_name(enum store_outcome outcome);

enum store_ack {
	STORE_ACCEPTED, /* this call ended the attempt */
	STORE_REPEATED, /* an earlier copy of the report ended it */
	STORE_LATE,     /* the lock had been lost; nothing changed, and the audit has an entry */
	STORE_LATER,    /* not processed: another transaction has locked a row that would change; report it again */
};

struct store_line {
	const char *text;
	int64_t age_ms;
	int32_t bytes;
};

/* What the handler of a running attempt has reported: see AttemptProgress in the contract. */
struct store_attempt_progress {
	int64_t id, token;
	int64_t identity;   /* whose worker must have it; 0: any */
	int32_t hundredths; /* -1: unchanged */
	int32_t line_count;
	const char *remark; /* or "" */
	int64_t first_line; /* as its worker numbers them; 0: they have no numbers */
	struct store_line *lines;
	enum store_ack ack; /* result: ACCEPTED, LATER, or LATE: it does not hold the task */
};

/* Stores the progress of attempts. */
struct store_progress {
	struct store_op op;
	int count;
	struct store_attempt_progress *attempts;
};
void store_progress(struct store *store, struct store_progress *op);

struct store_result {
	int64_t id, token;
	enum store_outcome outcome;
	const char *result;               /* completed; NULL otherwise */
	const char *error, *error_code;   /* NULL when completed */
	const char *remark, *stack_trace; /* or NULL */
	int64_t retry_in_ms;              /* failed: the handler's choice; 0: by the policy */
	const char *stage;                /* completed: the next stage, if the handler chooses it; NULL: it does not */
	bool foreign;                     /* the caller does not hold the attempt: it is late */
	/* What is stored before the attempt ends, or NULL. */
	const struct store_attempt_progress *progress;
	/* results */
	enum store_ack ack;
	bool batched;        /* and the task belonged to a batch */
	const char *becomes; /* "completed", "dead", "cancelled"; "failed", "queued": it waits (again) */
	bool ended;          /* the task has ended; else it waits again: */
	int attempt, route;  /* set for all accepted results */
	int32_t priority;
	int64_t version, due_us;
	bool committed; /* for the store only: accepted, even if other results of the batch fail */
};

/* Ends attempts as reported by their worker. */
struct store_report {
	struct store_op op;
	int64_t incarnation; /* the worker; 0: a pull client */
	bool for_another;    /* the caller may report for another one's worker: the audit shows that */
	int64_t identity;    /* that reports; 0: an admin, who may report for all */
	const char *actor;   /* the caller */
	int count;
	struct store_result *results;
};
void store_report(struct store *store, struct store_report *op);

/* A position among journal rows that are read in pages, so that the scan reaches all rows even if some are locked
 * for long. */
struct store_place {
	int64_t key, id; /* what the rows are ordered by, and the row's id */
};

/* Ends attempts whose expiry has passed, a bounded number at a time. */
struct store_expire {
	struct store_op op;
	int limit;                 /* journal rows to read */
	struct store_place after;  /* where to begin, by next_expiry (µs); at first {STORE_TIME_BEGIN, 0} */
	int64_t now_us;            /* the manager's estimate: later expiries have not passed */
	int64_t before_assignment; /* attempts up to this journal row end only after a full watch */
	int64_t watched_ms;        /* how long the manager has watched them: a full watch covers their full time */
	/* results */
	struct store_result *results; /* the attempts ended here */
	int count;
	bool more; /* there may be more after `last`; both are set even if ending them failed */
	struct store_place last;
};
void store_expire(struct store *store, struct store_expire *op);

/* Ends attempts whose worker is lost, a bounded number at a time. */
struct store_sweep {
	struct store_op op;
	int limit;                /* journal rows to read */
	struct store_place after; /* where to begin, by worker; at first {0, 0} */
	bool all;                 /* of all lost workers; else only of these: */
	int count_of;
	const int64_t *of;
	/* results */
	struct store_result *results; /* the attempts ended here; `error` has the details */
	int count;
	bool more; /* there may be more after `last`; both are set even if ending them failed */
	struct store_place last;
};
void store_sweep(struct store *store, struct store_sweep *op);

/* A worker's view of its attempts and Fetches, as one snapshot. */
struct store_holding {
	int64_t incarnation;
	int64_t highest_fetch; /* ever sent */
	int waiting_count, held_count;
	const int64_t *waiting; /* Fetches that it still waits for */
	const int64_t *held_ids, *held_tokens;
};

/* Requeues tasks that were assigned to a worker and never arrived there. */
struct store_requeue {
	struct store_op op;
	struct store_holding holding;
	int64_t lowest_fetch; /* older ones are not checked */
	/* results */
	struct store_result *results; /* the attempts ended here */
	int count;
	int64_t lowest_open; /* the lowest checked Fetch with an open assignment */
	bool found;          /* for the store only: there is something to requeue */
};
void store_requeue(struct store *store, struct store_requeue *op);

/* Extends an attempt. */
struct store_extend {
	struct store_op op;
	int64_t id, token;
	int64_t run_ms;         /* in: from now; out: granted */
	int64_t max_runtime_ms; /* from its claim */
	/* results */
	bool held;   /* false: the attempt has ended, or never existed */
	bool locked; /* by another transaction: the attempt holds the task, and nothing changed */
	int64_t expires_in_ms;
};
void store_extend(struct store *store, struct store_extend *op);

/* Finds out which attempts run now at workers of an identity. */
struct store_own {
	struct store_op op;
	int64_t identity; /* 0: an admin's workers */
	int count;
	const int64_t *ids, *tokens;
	/* results */
	bool *own; /* the caller's, one for each */
};
void store_own(struct store *store, struct store_own *op);

/* Stores the remarks of running handlers, except for tasks that another transaction has locked. */
struct store_remarks {
	struct store_op op;
	int count;
	const int64_t *ids, *tokens;
	const char *const *texts;
	const int64_t *workers; /* that send them: others' attempts are left out */
	size_t bytes;           /* of everything */
};
void store_remarks(struct store *store, struct store_remarks *op);

#endif
