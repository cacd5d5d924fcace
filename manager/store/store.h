/*
 * The store: all durable actions of the manager, as asynchronous operations. The core uses only this header. The roles
 * behind it have the connections to PostgreSQL.
 *
 * The caller owns an operation's struct and everything its pointers refer to, sets the first part, and passes it to its
 * function. The store calls `op.done` exactly once, on the loop's thread. It calls it from within that function only to
 * refuse the operation at once: UNAVAILABLE while the store closes, RESOURCE_EXHAUSTED if too much waits
 * (store_options.waiting_bytes). The results (second part) are valid during `done`; the store frees them when it
 * returns. An error with code UNKNOWN means that the operation may or may not have taken effect; only operations whose
 * comment says "Reports UNKNOWN" have it.
 *
 * Times are microseconds since 1970 of the database's clock, durations milliseconds.
 */
#ifndef REEVE_MANAGER_STORE_STORE_H
#define REEVE_MANAGER_STORE_STORE_H

#include "common/error.h"
#include "common/mem.h"

#include <event2/event.h>
#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Points in time before and after all others. */
#define STORE_TIME_BEGIN INT64_MIN
#define STORE_TIME_NEVER INT64_MAX

enum { STORE_BATCH_BYTES = 16 << 20 };

struct store;
struct role;
struct op_kind;

struct store_op {
	void (*done)(struct store_op *op, const struct reeve_error *error); /* error NULL: committed */
	int64_t deadline_ms; /* monotonic: if not started by then, or within 2 s while the database is down, it fails with
	                      * UNAVAILABLE; with DEADLINE_EXCEEDED if an earlier try's outcome is unknown; 0: none */
	uint64_t origin;     /* the beneficiary: different origins take turns; 0: the manager itself */
	bool can_wait;       /* its sender has other work: it may wait a few ms until more operations join its batch */
	int weight;          /* its number of tasks; set by the store */
	size_t bytes;        /* its memory; set by the store */

	bool again;          /* in `done`: the connection broke during an earlier try, whose outcome is unknown */

	/* for the role only */
	struct store_op *prev, *next;
	const struct op_kind *kind;
	struct role *role; /* the role that lists it */
	int64_t start; /* see fair.h */
	int batch_limit, tries;
	bool blocked;     /* it could not get a lock in time */
	int64_t given_ms; /* when it was passed to the store; monotonic */
};

/* --- submitting ------------------------------------------------------------------------------------------------ */

struct store_task {
	int route;
	const char *queue, *type, *details;
	int32_t priority;
	int64_t run_at_us;      /* STORE_TIME_BEGIN: now */
	int64_t delay_ms;
	const char *key;        /* NULL: none */
	int64_t key_ttl_ms;     /* 0: until a day after the task ended */
	int32_t max_attempts;     /* core/submit replaces 0 by the queue's value */
	int64_t timeout_ms;
	bool retry_given;         /* else core/submit sets the next three to the queue's values */
	int64_t retry_base_ms, retry_max_ms;
	const char *retry_policy; /* JSON as in the column of that name; NULL: exponential */
	int64_t task_version;     /* with a key: if newer than the stored one, the task runs again; 0: none */
	int64_t batch;            /* an open one; 0: none, or the queue's implicit one */
	bool batched;             /* its queue creates batches, or must be checked before it accepts tasks */
	const char *pipeline;     /* its name; NULL: none. core/submit sets the rest and everything that stages define */
	int64_t pipeline_id;
	const char *stage;        /* the first stage's name */
	const char *source;
	/* for the store only: its call's place in the batch from 1; its batch, 0: none; whether it is blocked until that
	 * begins, and whether that begins with it */
	int32_t call;
	int64_t batch_id;
	bool blocked, begins;
};

struct store_made {
	int64_t id;
	bool existing;          /* an older task has the key; nothing was created */
	bool made;              /* created by this operation: version and run_at_us are set */
	bool restarted;         /* existing, and runs again because its version is newer */
	bool waits;             /* restarted, and not executing now: all fields below are set */
	bool recalled;          /* the answer of an earlier copy of the call: nothing else is known */
	int64_t version, run_at_us;
	int route;
	int32_t priority;
};

/* Creates tasks. */
struct store_submit {
	struct store_op op;
	uint8_t request_id[16];
	int count;
	struct store_task *tasks;
	/* results */
	struct store_made *made; /* one per task, in order */
	int made_count;          /* differs from count only if the request id was used for another call */
	bool keyed, batched, plain; /* for the store only; plain: submit_plain.sql has all columns that the tasks need */
};
void store_submit(struct store *store, struct store_submit *op);

/* --- queues ---------------------------------------------------------------------------------------------------- */

/* The settings of tasks for which neither the submit nor the queue sets them. */
#define DEFAULT_ATTEMPTS 5
#define DEFAULT_RETRY_BASE_MS 1000
#define DEFAULT_RETRY_MAX_MS (3600 * 1000)

enum store_queue_state {
	STORE_QUEUE_RUNNING,
	STORE_QUEUE_NOT_STARTED,     /* not started */
	STORE_QUEUE_PAUSED,
	STORE_QUEUE_STOPPING, /* its tasks are being ended */
	STORE_QUEUE_STOPPED,
};

/* The settings of a queue that the manager uses. */
struct store_queue {
	const char *name;
	enum store_queue_state state;
	bool batches;                /* implicit ones */
	bool autostart, verbose;
	int32_t max_attempts;
	int64_t retry_base_ms, retry_max_ms;
	const char *retry_policy;    /* or NULL */
	int64_t resting_ms, waiting_ms;
};

enum { STORE_FINGERPRINT = 64 };

/* Reads the settings of all queues. */
struct store_queues {
	struct store_op op;
	/* results */
	struct store_queue *queues;
	int count;
	char fingerprint[STORE_FINGERPRINT]; /* of all settings: changes with them */
};
void store_queues(struct store *store, struct store_queues *op);

struct store_stop_work {
	const char *queue, *actor;
	int64_t up_to;               /* all tasks up to this id */
};

/* Continues the stops of queues, and returns the queues whose tasks must be ended. */
struct store_queue_stops {
	struct store_op op;
	/* results */
	struct store_stop_work *work;
	int count;
};
void store_queue_stops(struct store *store, struct store_queue_stops *op);

/* Ends some of a queue's tasks. A purge cancels waiting ones. A stop ends waiting ones dead and cancels running
 * ones. */
struct store_queue_end {
	struct store_op op;
	const char *queue, *actor, *reason;
	int64_t up_to;               /* tasks up to this id */
	bool stopping;
	int limit;
	/* results */
	struct store_edited *tasks;
	int found;
	bool more;                   /* there may be more: call again */
};
void store_queue_end(struct store *store, struct store_queue_end *op);

/* --- batches --------------------------------------------------------------------------------------------------- */

/* The work that a live batch needs. */
enum store_batch_work {
	STORE_BATCH_STEP,    /* advance it as far as possible: it begins, closes, runs its exit task, ends */
	STORE_BATCH_RELEASE, /* unblock tasks that waited until it began */
	STORE_BATCH_FAIL,    /* end these tasks, because its entry task has not completed */
};

struct store_batch_due {
	int64_t id;
	enum store_batch_work work;
};

/* Finds batches that need work. */
struct store_batches_due {
	struct store_op op;
	int limit;
	int64_t after;                   /* only ids above this one */
	bool free_only;                  /* without batches whose rows are locked */
	/* results */
	struct store_batch_due *due;
	int count;
};
void store_batches_due(struct store *store, struct store_batches_due *op);

/* Does a batch's work. Each step is made once, even if other managers try it at the same time; a batch that no
 * longer needs the work stays as it is. UNAVAILABLE if another transaction kept its row locked. */
struct store_batch_move {
	struct store_op op;
	struct store_batch_due due;
	int limit;                       /* tasks to unblock or end */
	/* results */
	const char *steps;               /* the steps made, "closed ended"; STORE_BATCH_STEP sets this and the next five */
	const char *name, *queue;
	int64_t submitted, succeeded, failed;
	int tasks;                       /* unblocked or ended */
	int64_t *ended;                  /* the ended ones, or NULL */
};
void store_batch_move(struct store *store, struct store_batch_move *op);

/* Ingests tasks that were submitted by SQL: the first one above an id, and those of the same queue, type and batch.
 * They get a route and a batch, or end dead if the batch does not accept them. Each is ingested once, even if other
 * managers try it at the same time. */
struct store_ingest {
	struct store_op op;
	int64_t beyond;
	int limit;
	/* results */
	int64_t walked;                  /* all up to this id were processed or passed over; 0: there are no more */
	int admitted, ended;
	int64_t *ended_ids;
	const char *reason;              /* why those ended */
};
void store_ingest(struct store *store, struct store_ingest *op);

/* --- schedules ------------------------------------------------------------------------------------------------- */

/* The outcome of a firing. */
struct store_fired_task {
	int64_t schedule;
	const char *name;
	int64_t scheduled_us;
	const char *scheduled;       /* the same as a string */
	const char *outcome;         /* as in schedule_runs, or "later": it was prevented, and will be tried again */
	int64_t task;                /* or 0 */
	const char *note;
	int64_t late_us;             /* after its scheduled time */
};

/* Fires schedules that are due. Each firing happens once, even if other managers try it at the same time. Repeated
 * after an unknown outcome, the operation fires and returns what is left. */
struct store_schedules_fire {
	struct store_op op;
	int limit;                   /* the maximum of schedules */
	/* results */
	struct store_fired_task *firings;
	int count;
	int64_t next_us;             /* the time until there is more to do; STORE_TIME_NEVER: nothing is known */
};
void store_schedules_fire(struct store *store, struct store_schedules_fire *op);

/* --- pipelines ------------------------------------------------------------------------------------------------- */

/* What a pipeline's first stage sets for a task. */
struct store_pipeline_start {
	int64_t pipeline_id;
	const char *stage, *type;
	bool has_priority;               /* else the task keeps its own */
	int32_t priority, max_attempts;
	int64_t timeout_ms, retry_base_ms, retry_max_ms;
	const char *retry_policy;        /* or NULL */
};

/* Looks up pipelines for tasks, and creates the routes of all their stages. NOT_FOUND names a pipeline that does not
 * exist. */
struct store_pipelines_start {
	struct store_op op;
	int count;
	const char **names, **queues;
	/* result */
	struct store_pipeline_start *starts; /* one per name, in order */
};
void store_pipelines_start(struct store *store, struct store_pipelines_start *op);

/* --- routes ---------------------------------------------------------------------------------------------------- */

struct store_route {
	int id;
	const char *queue, *type;
};

/* Creates or reads routes. Operations that arrive while a statement is in flight share the next one. */
struct store_routes {
	struct store_op op;
	int count;                       /* create these if needed, and return them, perhaps with others; 0: return all */
	const char **queues, **types;
	/* results */
	struct store_route *routes;
	int found;
};
void store_routes(struct store *store, struct store_routes *op);

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
	int64_t due_us;                  /* the manager's estimate of now */
	int limit;
	int slices, shard;               /* the number of shards; which one: the remainder of the id; slices 1: all */
	int64_t other_bytes;             /* the maximum length of the details of `other` */
	/* results */
	struct store_candidate *candidates;
	int count;
	struct store_candidate other;    /* the first due task of another shard; id 0: there is none */
	int64_t next_due_us;             /* when the first task that is not due yet will be; STORE_TIME_NEVER: none */
	bool more_follow;                /* another page of the same statement, or its error, follows at once */
};
void store_page(struct store *store, struct store_page *op);

struct store_stream {
	int route;
	int32_t priority;
	int64_t first_us;                /* when the first of its tasks is due */
};

/* Finds the streams of routes, from the highest priority down. */
struct store_streams {
	struct store_op op;
	int count;
	const int *routes;
	int32_t below;                   /* only lower priorities; INT32_MAX: all */
	int most;                        /* the maximum for each route */
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
	int64_t until_us;                /* due before this time */
	int limit;
	/* results */
	struct store_candidate *candidates;
	int count;
};
void store_rescan(struct store *store, struct store_rescan *op);

/* --- claiming -------------------------------------------------------------------------------------------------- */

struct store_try {
	int64_t id, version;
	int slot;                        /* index of its Fetch in `fetches` */
	bool locked;                     /* result: left out: locked by another transaction, which may not change it */
};

struct store_fetch {
	int64_t incarnation, fetch_id;
};

struct store_claimed {
	int64_t id, token, assignment_id, timeout_ms;
	int64_t expires_in_ms;
	const char *details, *key;
	const char *stage;               /* of its pipeline; "": none */
	const char *queue, *type;        /* of a redelivery; NULL from a claim, whose routes are known */
	int attempt, max_attempts, route, slot;
};

/* Claims candidates for Fetches. Reports UNKNOWN. */
struct store_claim {
	struct store_op op;
	int count;
	struct store_try *tries;         /* the store sorts them by id */
	int fetch_count;
	const struct store_fetch *fetches;
	int64_t expiry_grace_ms;               /* from an attempt's timeout to its expiry */
	bool careful;                    /* some were locked the last time: wait for no lock. So does any claim just after
	                                  * one that met a lock. */
	/* results */
	struct store_claimed *won;
	int won_count;
};
void store_claim(struct store *store, struct store_claim *op);

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
	/* The maximum bytes of one task's details, and of an answer with several tasks; and what each task costs in it in
	 * addition to its strings. The same for every Fetch. */
	int64_t max_details_bytes, max_answer_bytes, assignment_bytes;
	/* results */
	enum store_life life;
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
	STORE_LOST,                      /* its worker was lost */
	STORE_REQUEUED,                /* requeued: it never arrived at its worker */
	STORE_OUTCOMES
};

/* Returns the outcome's name in the tables: "completed", "failed", … */
const char *store_outcome_name(enum store_outcome outcome);

enum store_ack {
	STORE_ACCEPTED,  /* this call ended the attempt */
	STORE_REPEATED,  /* an earlier copy of the report ended it */
	STORE_LATE,      /* the lock had been lost; nothing changed, and the audit has an entry */
	STORE_LATER,     /* not processed: another transaction has locked a row that would change; report it again */
};

struct store_result {
	int64_t id, token;
	enum store_outcome outcome;
	const char *result;              /* completed; NULL otherwise */
	const char *error, *error_code;  /* NULL when completed */
	const char *remark, *stack;      /* or NULL */
	int64_t retry_in_ms;             /* failed: the handler's choice; 0: by the policy */
	const char *stage;               /* completed: the next stage, if the handler chooses it; NULL: it does not */
	/* results */
	enum store_ack ack;
	bool batched;                    /* and the task belonged to a batch */
	const char *becomes;             /* "completed", "dead", "cancelled"; "failed", "queued": it waits (again) */
	bool ended;                      /* the task has ended; else it waits again: */
	int attempt, route;              /* set for all accepted results */
	int32_t priority;
	int64_t version, due_us;
	bool committed;                  /* for the store only: accepted, even if other results of the batch fail */
};

/* Ends attempts as reported by their worker. */
struct store_report {
	struct store_op op;
	int64_t incarnation;
	int count;
	struct store_result *results;
};
void store_report(struct store *store, struct store_report *op);

/* A position among journal rows that are read in pages, so that the scan reaches all rows even if some are locked
 * for long. */
struct store_place {
	int64_t key, id;                 /* what the rows are ordered by, and the row's id */
};

/* Ends attempts whose expiry has passed, a bounded number at a time. */
struct store_expire {
	struct store_op op;
	int limit;                       /* journal rows to read, */
	struct store_place after;        /* … by next_expiry (µs), starting at {STORE_TIME_BEGIN, 0} */
	int64_t now_us;                  /* the manager's estimate: later expiries have not passed */
	int64_t before_assignment;       /* attempts up to this journal row end only if … */
	int64_t watched_ms;              /* … this, the time that the manager has watched them, covers their full time */
	/* results */
	struct store_result *results;    /* the attempts ended here */
	int count;
	bool more;                       /* there may be more after `last`; both are set even if ending them failed */
	struct store_place last;
};
void store_expire(struct store *store, struct store_expire *op);

/* Ends attempts whose worker is lost, a bounded number at a time. */
struct store_sweep {
	struct store_op op;
	int limit;                       /* journal rows to read, */
	struct store_place after;        /* … by worker, starting at {0, 0} */
	bool all;                        /* of all lost workers; else only of these: */
	int count_of;
	const int64_t *of;
	/* results */
	struct store_result *results;    /* the attempts ended here; `error` has the details */
	int count;
	bool more;                       /* there may be more after `last`; both are set even if ending them failed */
	struct store_place last;
};
void store_sweep(struct store *store, struct store_sweep *op);

/* A worker's view of its attempts and Fetches, as one snapshot. */
struct store_holding {
	int64_t incarnation;
	int64_t highest_fetch;           /* ever sent */
	int waiting_count, held_count;
	const int64_t *waiting;          /* Fetches that it still waits for */
	const int64_t *held_ids, *held_tokens;
};

/* Requeues tasks that were assigned to a worker and never arrived there. */
struct store_requeue {
	struct store_op op;
	struct store_holding holding;
	int64_t lowest_fetch;            /* older ones are not checked */
	/* results */
	struct store_result *results;    /* the attempts ended here */
	int count;
	int64_t lowest_open;             /* the lowest checked Fetch with an open assignment */
	bool found;                      /* for the store only: there is something to requeue */
};
void store_requeue(struct store *store, struct store_requeue *op);

/* Extends an attempt. */
struct store_extend {
	struct store_op op;
	int64_t id, token;
	int64_t run_ms;                  /* in: from now; out: granted */
	int64_t max_runtime_ms;              /* from its claim */
	/* results */
	bool held;                       /* false: the attempt has ended, or never existed */
	bool locked;                     /* by another transaction: the attempt holds the task, and nothing changed */
	int64_t expires_in_ms;
};
void store_extend(struct store *store, struct store_extend *op);

/* Stores the remarks of running handlers, except for tasks that another transaction has locked. */
struct store_remarks {
	struct store_op op;
	int count;
	const int64_t *ids, *tokens;
	const char *const *texts;
	size_t bytes;                    /* of everything */
};
void store_remarks(struct store *store, struct store_remarks *op);

/* --- manual changes -------------------------------------------------------------------------------------------- */

enum store_edit_kind { STORE_CANCEL, STORE_DISCARD, STORE_RETRY, STORE_UPDATE };

/* Selects the tasks that match all fields that are set. */
struct store_filter {
	unsigned statuses;               /* bit n: those of Reeve__V1__TaskStatus n; 0: all */
	const char *queue, *type, *error, *error_contains, *error_code, *key, *source; /* NULL: any */
	int64_t older_ms, newer_ms, running_longer_ms; /* 0: any */
	int64_t batch;                   /* 0: any */
	int64_t after_id;                /* only ids above this one */
};

/* The maximum of tasks that a change by a filter processes at a time, and of ids that it scans for them. */
enum { STORE_FILTER_MAX = 1000, STORE_FILTER_STRETCH = 200000 };

struct store_edited {
	int64_t id;
	char status[12];                 /* afterwards */
	bool changed;
	bool refused;                    /* a running task does not allow this change */
	bool ended;                      /* by this call; its route is set */
	bool waits;                      /* waits because of this call; the next four fields are set: */
	int route;
	int32_t priority;
	int64_t version, due_us;
	bool stopping;                   /* it executes, and starts again after its stop */
	int64_t commanded_worker, token;   /* this worker must get a command to stop this attempt; 0: none */
};

/* Cancels, discards, retries or updates tasks. */
struct store_edit {
	struct store_op op;
	enum store_edit_kind kind;
	uint8_t request_id[16];
	int count;
	const int64_t *ids;
	const struct store_filter *filter; /* instead of ids; its statuses are those that the change may touch */
	bool executing;                  /* a retry: start executing ones again, too */
	const char *actor, *reason;
	bool set_priority;
	int32_t priority;
	int64_t run_at_us;               /* STORE_TIME_BEGIN: no change */
	int32_t max_attempts;            /* 0: no change */
	/* results */
	struct store_edited *tasks;      /* those that exist, in the order of the ids */
	int found;
	int64_t *missing;
	int missing_count;
	int64_t next_after_id;           /* with a filter: there may be more above this id; 0: there are none */
	bool mismatch;                   /* the request id was used for another call; nothing changed */
};
void store_edit(struct store *store, struct store_edit *op);

/* --- workers --------------------------------------------------------------------------------------------------- */

/* Registers a worker. */
struct store_register {
	struct store_op op;
	const char *name, *host, *version;
	int32_t pid, concurrency;
	int queue_count, type_count;
	const char *const *queues, *const *types;
	int64_t lease_ms;                /* the lease it gets */
	int64_t previous;                /* the incarnation that has ended, according to the worker; 0: none */
	bool manual;                    /* a pull client: it sends no heartbeats */
	/* results */
	int64_t incarnation;             /* 0: another process has a living worker of this name: */
	char other_host[256];
	int32_t other_pid;
};
void store_register(struct store *store, struct store_register *op);

/* Ends an incarnation that leaves. */
struct store_leave {
	struct store_op op;
	int64_t incarnation;
	const char *reason;
};
void store_leave(struct store *store, struct store_leave *op);

/* A worker command. */
struct store_worker_command {
	char kind[12];                   /* cancel, drain, pause, resume, stop, concurrency */
	int64_t task_id, token;          /* of a cancel's attempt; 0: the command is for the worker itself */
	int32_t value;                   /* concurrency: the number of slots */
};

/* Checks whether an incarnation lives. */
struct store_poll {
	struct store_op op;
	int64_t incarnation;
	/* results */
	bool lost;                       /* or unknown */
};
void store_poll(struct store *store, struct store_poll *op);

/* Reads the current commands for an incarnation. */
struct store_worker_commands {
	struct store_op op;
	int64_t incarnation;
	/* results */
	struct store_worker_command *commands;
	int command_count;
};
void store_worker_commands(struct store *store, struct store_worker_commands *op);

struct store_beat {
	int64_t incarnation, seq;
	int64_t lease_ms;                /* the lease it got at its registration */
};

/* Reads the living incarnations and the sequence numbers of their heartbeats. */
struct store_watch {
	struct store_op op;
	/* results */
	struct store_beat *beats;
	int count;
};
void store_watch(struct store *store, struct store_watch *op);

/* Marks incarnations lost unless they have sent heartbeats since. */
struct store_lose {
	struct store_op op;
	int count;
	const struct store_beat *beats;  /* as last read */
	/* results */
	int64_t *lost;
	int lost_count;
};
void store_lose(struct store *store, struct store_lose *op);

/* Renews a worker's lease, and returns the commands for it. */
struct store_heartbeat {
	struct store_op op;
	int64_t incarnation, seq;
	size_t carries;                  /* bytes that stay in memory until it is done */
	const char *mode;                /* running, paused, draining: a constant string */
	int32_t concurrency;             /* 0: unchanged */
	int64_t succeeded, failed;       /* attempts */
	int type_count;                  /* the types it runs now; 0: unchanged */
	const char *const *types;
	/* results */
	bool renewed;                    /* it raised the sequence number */
	bool overtaken;                  /* a later one has arrived: this one has no effect */
	bool locked;                     /* another transaction has locked the worker's row: nothing was renewed */
	bool lost;                       /* the incarnation has ended, or never existed */
	struct store_worker_command *commands;
	int command_count;
};
void store_heartbeat(struct store *store, struct store_heartbeat *op);

struct store_controlled {
	int64_t incarnation;
	char name[256];
};

/* Sets a command for living workers, or resumes paused ones. */
struct store_control {
	struct store_op op;
	const char *name;                /* NULL: all */
	const char *kind;                /* drain, pause, resume, stop, concurrency */
	int32_t value;                   /* concurrency: the number of slots; else 0 */
	const char *actor;
	/* results */
	struct store_controlled *workers; /* those that it concerns */
	int count;
};
void store_control(struct store *store, struct store_control *op);

/* --- reading --------------------------------------------------------------------------------------------------- */

/* Finds out which of some tasks have ended. */
struct store_ended {
	struct store_op op;
	int count;
	const int64_t *ids;
	/* results */
	int64_t *ended;
	int ended_count;
	int64_t *live;                   /* those that have not */
	int live_count;
};
void store_ended(struct store *store, struct store_ended *op);

enum store_read_kind {
	STORE_BOUND,    /* the response of a statement from its request, by its head (bind.h) */
	STORE_CHANGE,   /* the same, of a statement that changes something; repeated after an unknown outcome */
	STORE_GET,      /* ListResponse: the task `id`, if it exists, with details and result */
	STORE_LIST,     /* ListResponse from a ListRequest */
	STORE_MATCHING, /* the response of a change: a page of tasks that match a filter and can be changed */
	STORE_CHECK,    /* sets the numbers in a CheckResponse that has a measure for each question of the CheckRequest, and
	                 * clears its manager if the queue or the type is unknown */
};

struct sql_text;

/* Reads straight into a response message, or changes something and reads that. The caller owns and has initialized it;
 * protobuf_c_message_free_unpacked frees everything it refers to. */
struct store_read {
	struct store_op op;
	enum store_read_kind kind;
	const struct sql_text *statement; /* for STORE_BOUND and STORE_CHANGE: one of sql_statements */
	const struct sql_text *then;     /* for STORE_CHANGE: reads the response after it; or NULL */
	bool quick;                      /* it reads few rows, however many there are */
	const ProtobufCMessage *request;
	const uint8_t *request_id;       /* for STORE_CHANGE: this and the next two are @request_id, @actor and @change */
	const char *actor, *change;
	int64_t id;                      /* for STORE_GET */
	const struct store_filter *filter; /* for STORE_LIST: further conditions, or NULL; for STORE_MATCHING */
	enum store_edit_kind edit;       /* for STORE_MATCHING */
	int64_t max_bytes;              /* the maximum of an answer, for kinds that can be long */
	int64_t lease_ms;
	/* result */
	ProtobufCMessage *response;
};
void store_read(struct store *store, struct store_read *op);

/* Ends a read, not yet done, whose answer is not needed any more. Its `done` is called at once, or when PostgreSQL
 * has stopped executing it. */
void store_read_drop(struct store_read *op);

/* --- statistics and metrics ------------------------------------------------------------------------------------ */

/* Counts more ended attempts for the hourly statistics, each once, even if other managers try it at the same time. */
struct store_roll {
	struct store_op op;
	/* result */
	bool more;                       /* there is more to do now */
};
void store_roll(struct store *store, struct store_roll *op);

/* Adds a page of changes to the counts of live and ended tasks; does nothing while another manager does. Also checks
 * for work whose notification was lost. */
struct store_fold {
	struct store_op op;
	/* results */
	bool more;                       /* there is more to do now */
	bool callbacks;                  /* some wait */
	bool inbox;                   /* there are tasks to ingest */
};
void store_fold(struct store *store, struct store_fold *op);

struct store_own_counter {
	const char *name;
	int64_t value;
};

/* Writes those of this manager's counters that have changed to the metrics. */
struct store_metrics_own {
	struct store_op op;
	int count;
	const struct store_own_counter *counters;
};
void store_metrics_own(struct store *store, struct store_metrics_own *op);

/* --- callbacks ------------------------------------------------------------------------------------------------- */

struct store_callback {
	int64_t id, batch_id, task_id;   /* task_id 0: of the batch */
	const char *event, *url, *site;  /* site: the URL's host and port */
	const char *secret, *payload;    /* or NULL */
	int32_t attempt;                 /* the number of this try, from 1 */
	int32_t take;                    /* the number of this take; earlier ones may have no outcome */
};

/* The number of tries of a site that are in flight. */
struct store_site {
	const char *site;
	int32_t count;
};

/* Takes callbacks that are due: no other take gets them within lease_ms. Reports UNKNOWN. */
struct store_callbacks_take {
	struct store_op op;
	int limit, site_limit;           /* the maximum in total, and of one site, including those in flight: */
	int64_t lease_ms;
	int64_t now_us;                  /* the manager's estimate of the database's time (core_database_us); 0: none */
	int site_count;
	const struct store_site *sites;
	/* results */
	struct store_callback *callbacks;
	int count;
};
void store_callbacks_take(struct store *store, struct store_callbacks_take *op);

/* Reads the body of a callback for a batch's begin or end. */
struct store_callback_report {
	struct store_op op;
	int64_t batch_id;
	const char *event;
	/* result */
	const char *body;                /* NULL: the batch does not exist any more */
};
void store_callback_report(struct store *store, struct store_callback_report *op);

/* Records the outcome of a try. */
struct store_callback_settle {
	struct store_op op;
	int64_t id;
	int32_t take;
	int32_t attempts;                /* the number of tries so far */
	bool delivered, over;            /* over: given up; neither: it is tried again after rest_ms */
	int64_t rest_ms;
	int32_t status;                  /* of HTTP; 0: there was none */
	const char *error;               /* or NULL */
	/* result */
	bool settled;                    /* this changed it; else another manager had, or tries it again */
};
void store_callback_settle(struct store *store, struct store_callback_settle *op);

/* --- maintenance ----------------------------------------------------------------------------------------------- */

struct store_peer {
	int64_t manager, seq;            /* the number of its last heartbeat */
};

/* Records a heartbeat of the manager, and reads the clock. */
struct store_manager_heartbeat {
	struct store_op op;
	int64_t estimate_us;             /* the manager's estimate of the database's time; 0: none yet */
	/* results */
	int64_t now_us;
	int64_t ahead_us;                /* while the clock shows less than a manager has seen: furthest estimate; or 0 */
	int64_t set_back_us;             /* what the clock showed when it was set back; if unknown, the current time */
	int64_t routes;                  /* a fingerprint of those in use */
	const char *queues;              /* the fingerprint of the queues' settings */
	int64_t newest_assignment;
	int schema;                      /* the database's version, if it is newer than this program's; else 0 */
	struct store_peer *peers;        /* the managers that have not stopped, with this one, in order */
	int peer_count;
};
void store_manager_heartbeat(struct store *store, struct store_manager_heartbeat *op);

/* Records that the manager stops. No store_manager_heartbeat may follow. */
struct store_stop {
	struct store_op op;
};
void store_stop(struct store *store, struct store_stop *op);

/* Notifies the other managers of work. */
struct store_notify {
	struct store_op op;
	char payload[7900]; /* NOTIFY takes less than 8000 bytes */
};
void store_notify(struct store *store, struct store_notify *op);

/* Runs one round of maintenance: creates partitions in advance, drops old ones, deletes old rows. */
struct store_maintenance {
	struct store_op op;
	/* result */
	bool more;                       /* some step had a full page: run again soon */
	int step;                        /* this and the next two are for the store only */
	char partition[64];              /* the partition of the history that is being dropped */
	int64_t after;
};
void store_maintenance(struct store *store, struct store_maintenance *op);

/* Steps of writing the history's partitions to files before they are dropped. One manager at a time does it: it holds a
 * lock from NEXT to RELEASE, unless its connection breaks. */
enum store_archive_kind {
	STORE_ARCHIVE_NEXT,    /* find the next partition; none: `partition` is empty; this manager may lack the lock */
	STORE_ARCHIVE_PAGE,    /* read its next tasks */
	STORE_ARCHIVE_NOTE,    /* record that its file is durable: it may be dropped */
	STORE_ARCHIVE_RELEASE, /* let another manager archive */
};

struct store_archive {
	struct store_op op;
	enum store_archive_kind kind;
	char partition[64];
	int64_t after;         /* PAGE: only tasks after this id; set to the last one's */
	const char *file;      /* NOTE */
	int64_t tasks;
	/* results of PAGE: lines without line ends, valid until `done` returns; of all but RELEASE: lost */
	int count;
	const char **lines;
	bool lost;             /* another manager archives */
};
void store_archive(struct store *store, struct store_archive *op);

/* --- the store itself ------------------------------------------------------------------------------------------ */

struct store_options {
	const char *conninfo;
	const char *manager_name;
	int history_days;
	bool archives;        /* the history is written to files before it is dropped */
	int64_t lease_ms;
	int64_t expiry_grace_ms;
	int64_t max_details;  /* bytes; for submits by SQL */
	size_t waiting_bytes; /* maximum waiting for a role: beyond it, operations with a deadline are refused with
	                       * RESOURCE_EXHAUSTED */
	int origin_percent;   /* the maximum share of it for one origin; 0: all */
};

struct store_listener {
	void (*notified)(void *arg, const char *payload); /* a notification from another manager */
	void (*listening)(void *arg);                      /* the listen connection is up (again): notifications may have
	                                                    * been missed */
	void *arg;
};

/* Returns whether libpq can parse the connection string; if not, the error is INVALID_ARGUMENT and has the reason. */
bool store_check_conninfo(const char *conninfo, struct reeve_error *error);

/* Returns whether a valid connection string contains a password. */
bool store_has_password(const char *conninfo);

/* Opens the roles' connections; the database need not be up. */
struct store *store_open(
    struct event_base *base, const struct store_options *options, const struct store_listener *listener);

/* Closes the connections; waiting operations end with UNAVAILABLE. */
void store_close(struct store *store);

/* Ends operations that waited too long. Call it a few times a second. */
void store_expire_waiting(struct store *store);

/* True if all roles are connected. */
bool store_up(const struct store *store);

/* Returns the manager's number in the database; 0 before it is known. */
int64_t store_manager_id(const struct store *store);

/* Returns the batches and operations of a role since the start; false if `role` is beyond the last. */
bool store_counters(const struct store *store, int role, const char **name, int64_t *batches, int64_t *operations);

#endif
