/*
 * The store: every durable thing the manager does, as asynchronous operations. The core knows only this header; behind
 * it are the roles' connections to PostgreSQL.
 *
 * The caller owns an operation's struct and what its pointers lead to, fills in the first part, and gives it to its
 * function; `op.done` is called exactly once, on the loop's thread, never from within the function that took it except
 * where it says so. The results (second part) are valid during `done`, and are freed by the store when it returns.
 * An error of code UNKNOWN means that it may or may not have happened (only where an operation says that it tells).
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
	void (*done)(struct store_op *op, const struct reeve_error *error); /* error NULL: it is committed */
	int64_t deadline_ms; /* monotonic: not begun by then, it ends with UNAVAILABLE; 0: waits for ever */
	uint64_t origin;     /* whom it is for: those of different origins have their turns; 0: the manager itself */
	int weight;          /* tasks in it; set by the store */
	size_t bytes;        /* what it holds in memory; set by the store */

	bool again;          /* in `done`: an earlier try of it ended unknown with a connection */

	/* the role's own */
	struct store_op *prev, *next;
	const struct op_kind *kind;
	struct role *role; /* that it was given to */
	int64_t start; /* see fair.h */
	int batch_limit, tries;
	bool blocked;     /* it could not have a lock in time */
	int64_t given_ms; /* monotonic */
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
	int32_t max_attempts;     /* 0, before core/submit has filled it in: the queue's */
	int64_t timeout_ms;
	bool retry_given;         /* else the next three are the queue's, likewise */
	int64_t retry_base_ms, retry_max_ms;
	const char *retry_policy; /* JSON as in the column of that name; NULL: exponential */
	int64_t task_version;     /* with a key: newer than the stored one, and the task is run again; 0: none */
	int64_t batch;            /* an open one; 0: none, or the queue's implicit one */
	bool batched;             /* its queue makes batches, or has to be looked at before it takes tasks */
	const char *pipeline;     /* its name, NULL: none; what follows, and all that stages say, core/submit fills in */
	int64_t pipeline_id;
	const char *stage;        /* the first one's name */
	const char *source;
};

struct store_made {
	int64_t id;
	bool existing;          /* a key's older task; nothing was made */
	bool made;              /* by this very operation: version and run_at_us are there */
	bool restarted;         /* existing, and run again, its version being newer */
	bool waits;             /* restarted, and not executing now: all that follows is there */
	bool recalled;          /* answered as an earlier copy of the call was: nothing else is known */
	int64_t version, run_at_us;
	int route;
	int32_t priority;
};

struct store_submit {
	struct store_op op;
	uint8_t request_id[16];
	int count;
	const struct store_task *tasks;
	/* results */
	struct store_made *made; /* one a task, in order */
	int made_count;          /* may differ from count only if the request id was used for another call */
	bool keyed, batched;     /* the store's own */
};
void store_submit(struct store *store, struct store_submit *op);

/* --- queues ---------------------------------------------------------------------------------------------------- */

/* What tasks have that neither say nor have it from their queue. */
#define DEFAULT_ATTEMPTS 5
#define DEFAULT_RETRY_BASE_MS 1000
#define DEFAULT_RETRY_MAX_MS (3600 * 1000)

enum store_queue_state {
	STORE_QUEUE_RUNNING,
	STORE_QUEUE_HELD,     /* waits to be started */
	STORE_QUEUE_PAUSED,
	STORE_QUEUE_STOPPING, /* what waits is being ended */
	STORE_QUEUE_STOPPED,
};

/* A queue's settings, as far as the manager goes by them. */
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

struct store_queues {
	struct store_op op;
	/* results */
	struct store_queue *queues;
	int count;
	char fingerprint[STORE_FINGERPRINT]; /* of all settings: changes with them */
};
void store_queues(struct store *store, struct store_queues *op);

/* All settings of a queue and how it stands, to be shown. Texts are NULL where there is none. */
struct store_queue_settings {
	bool is_set;                 /* else these are the defaults */
	const char *state;           /* as it is shown */
	bool batches, autostart, verbose;
	int32_t max_attempts;
	const char *retry_policy;
	int64_t retry_base_ms, retry_max_ms, resting_ms, waiting_ms;
	const char *callback_url;
	bool has_secret, callback_tasks;
	const char *callback_type, *entry_type, *exit_type;
	int32_t keep_completed_days, keep_dead_days, keep_cancelled_days; /* 0: as for all queues */
	int64_t created_us, updated_us;
};

/* Changes settings, or only reads them. */
struct store_queue_set {
	struct store_op op;
	const uint8_t *request_id;
	const char *queue, *actor;
	const char *change;          /* new values of columns, as JSON; NULL: only read */
	/* result */
	struct store_queue_settings settings;
};
void store_queue_set(struct store *store, struct store_queue_set *op);

/* Starts, stops, pauses, resumes, purges or deletes; what is to be ended is ended by others, see store_queue_end. */
struct store_queue_control {
	struct store_op op;
	const uint8_t *request_id;
	const char *queue, *action, *actor;
	/* results */
	char state[12];              /* "running", "held", "paused", "stopping", "stopped" */
	int64_t newest;              /* the newest task's id when the call first came */
};
void store_queue_control(struct store *store, struct store_queue_control *op);

/* Goes on with queues that are being stopped, and tells of which of them tasks are to be ended. */
struct store_stop_work {
	const char *queue, *actor;
	int64_t up_to;               /* all tasks up to this id */
};

struct store_queue_stops {
	struct store_op op;
	/* results */
	struct store_stop_work *work;
	int count;
};
void store_queue_stops(struct store *store, struct store_queue_stops *op);

/* Ends some of a queue's tasks. A purge cancels what waits; a stop ends that dead, and has running ones cancelled. */
struct store_queue_end {
	struct store_op op;
	const char *queue, *actor, *reason;
	int64_t up_to;               /* tasks up to this id */
	bool stopping;
	int limit;
	/* results */
	struct store_edited *tasks;
	int found;
	bool more;                   /* there may be: come again */
};
void store_queue_end(struct store *store, struct store_queue_end *op);

/* --- batches --------------------------------------------------------------------------------------------------- */

/* What is to be done to a batch that lives. */
enum store_batch_work {
	STORE_BATCH_STEP,    /* it goes as far as it can: begins, closes, runs its exit task, ends */
	STORE_BATCH_RELEASE, /* tasks that were held until it had begun are let go */
	STORE_BATCH_FAIL,    /* they end, its entry task not having completed */
};

struct store_batch_due {
	int64_t id;
	enum store_batch_work work;
};

/* Which batches there is something to do for. */
struct store_batches_due {
	struct store_op op;
	int limit;
	int64_t after;                   /* only ids above this one */
	bool free_only;                  /* without those whose rows somebody has locked */
	/* results */
	struct store_batch_due *due;
	int count;
};
void store_batches_due(struct store *store, struct store_batches_due *op);

/* Does it. Whatever other managers do at the same time, each step is made once; what there is nothing to do for any more
 * is left as it is. UNAVAILABLE if somebody has kept it locked. */
struct store_batch_move {
	struct store_op op;
	struct store_batch_due due;
	int limit;                       /* tasks that are let go or ended */
	/* results */
	const char *steps;               /* those made, "closed ended": of a step, as are */
	const char *name, *queue;
	int64_t submitted, success, failed;
	int tasks;                       /* let go or ended */
	int64_t *ended;                  /* those that ended, or NULL */
};
void store_batch_move(struct store *store, struct store_batch_move *op);

/* Admits tasks that were submitted by SQL and wait for it, the first beyond an id and those that go with it: they get a route and
 * a batch, or end dead if that takes none. Whatever other managers do at the same time, each is admitted once. */
struct store_admit {
	struct store_op op;
	int64_t beyond;
	int limit;
	/* results */
	int64_t walked;                  /* up to which id; 0: there are no more */
	int admitted, ended;
	int64_t *ended_ids;
	const char *reason;              /* why those ended */
};
void store_admit(struct store *store, struct store_admit *op);

/* --- schedules ------------------------------------------------------------------------------------------------- */

/* What came of a tick. */
struct store_tick_made {
	int64_t schedule;
	const char *name;
	int64_t planned_us;
	const char *planned;         /* the same as text */
	const char *outcome;         /* as in schedule_runs, or "later": something is in its way, and it will be tried again */
	int64_t task;                /* or 0 */
	const char *note;
	int64_t late_us;             /* after its planned time */
};

/* Makes ticks of schedules that are due. However many managers do it at the same time, each is made once; asked again after
 * an unknown outcome, it answers what is left. */
struct store_schedules_tick {
	struct store_op op;
	int limit;                   /* of so many schedules */
	/* results */
	struct store_tick_made *ticks;
	int count;
	int64_t next_us;             /* in so much time there is something to do; STORE_TIME_NEVER: not that anybody knows */
};
void store_schedules_tick(struct store *store, struct store_schedules_tick *op);

/* Opens one; what is NULL is as its queue says. */
struct store_batch_open {
	struct store_op op;
	uint8_t request_id[16];
	const char *name, *queue;
	const char *callback_url, *callback_secret, *callback_type, *entry_type, *exit_type;
	bool callback_tasks;
	const char *source;
	/* result */
	int64_t id;
};
void store_batch_open(struct store *store, struct store_batch_open *op);

/* Closes one. NOT_FOUND; FAILED_PRECONDITION if it was closed by another call. */
struct store_batch_close {
	struct store_op op;
	uint8_t request_id[16];
	int64_t id;
	/* result */
	void *batch;                     /* a message, NULL before the call; whoever gave the operation frees it */
};
void store_batch_close(struct store *store, struct store_batch_close *op);

/* --- schedules, by hand ------------------------------------------------------------------------------------------ */

/* A definition, to be shown. Texts are NULL where there is none. */
struct store_schedule {
	const char *name, *cron, *zone;
	int64_t every_ms, start_us;                  /* every_ms 0: none */
	const char *spec;                            /* the task, as JSON; see the function submit_task */
	const char *queue_action, *action_queue;
	const char *missed, *overlap;                /* as in the columns of these names */
	int32_t missed_most;
	bool paused;
	int64_t next_us, last_planned_us, last_us;   /* 0: never */
	const char *last_outcome;
	int64_t last_task_id, waits_for;             /* 0: none */
	const char *source;
	int64_t created_us, updated_us;
	const int64_t *planned_us;                   /* of a GET: when it comes next */
	int planned_count;
};

enum store_schedule_call {
	STORE_SCHEDULE_ADD,
	STORE_SCHEDULE_EDIT,
	STORE_SCHEDULE_CONTROL, /* ALREADY_EXISTS from ADD, NOT_FOUND from the others */
	STORE_SCHEDULE_GET,
	STORE_SCHEDULE_LIST,
};

/* Changes one or reads some. All but LIST answer one; none if it has gone (and a GET of a name that nobody has). */
struct store_schedules {
	struct store_op op;
	enum store_schedule_call call;
	const uint8_t *request_id;                   /* of those that change */
	const char *name;                            /* LIST: only those behind it */
	const char *change;                          /* ADD, EDIT: JSON, see the function schedule_changed; CONTROL: the action */
	const char *actor;
	int limit;                                   /* LIST: so many; GET: so many planned times */
	int64_t most_bytes;                          /* LIST: so much, but one at least */
	/* results */
	struct store_schedule *schedules;
	int count;
	bool more;                                   /* LIST */
};
void store_schedules(struct store *store, struct store_schedules *op);

struct store_schedule_run {
	int64_t id, planned_us, at_us;               /* planned_us 0: by hand */
	const char *outcome, *actor, *note;
	int64_t task_id;                             /* 0: none */
	const char *task_status;                     /* "" if there is none any more */
};

/* Runs one now (a request id is given), or lists its runs, newest first. NOT_FOUND. */
struct store_schedule_runs {
	struct store_op op;
	const uint8_t *request_id;
	const char *name, *actor;
	int64_t before;                              /* only ids below this */
	int limit;
	/* results */
	struct store_schedule_run *runs;
	int count;
	int64_t next_before;                         /* there may be more below this id; 0: there are none */
};
void store_schedule_runs(struct store *store, struct store_schedule_runs *op);

/* --- pipelines ------------------------------------------------------------------------------------------------- */

struct store_pipeline {
	int64_t id;
	const char *name;
	const char *stages;              /* JSON as in the column of that name */
	int32_t max_steps;
	const char *source;
	int64_t created_us;
};

/* Defines one, or replaces its definition. */
struct store_pipeline_define {
	struct store_op op;
	uint8_t request_id[16];
	const char *name, *stages, *actor;
	int32_t max_steps;
	/* results */
	struct store_pipeline pipeline;
	bool changed;                    /* else it was so before */
};
void store_pipeline_define(struct store *store, struct store_pipeline_define *op);

/* As they are defined now, by name. */
struct store_pipelines {
	struct store_op op;
	const char *name;                /* only this one; or NULL: */
	const char *after_name;          /* those behind this name, */
	int limit;                       /* so many, */
	int64_t most_bytes;              /* and so much, but one at least */
	/* results */
	struct store_pipeline *pipelines;
	int count;
	bool more;
};
void store_pipelines(struct store *store, struct store_pipelines *op);

/* How a task of a pipeline begins: what its first stage says. */
struct store_pipeline_start {
	int64_t pipeline_id;
	const char *stage, *type;
	bool has_priority;               /* else the task's own stays */
	int32_t priority, max_attempts;
	int64_t timeout_ms, retry_base_ms, retry_max_ms;
	const char *retry_policy;        /* or NULL */
};

/* Looks pipelines up for tasks, and makes the routes of all their stages. NOT_FOUND names one that is not there. */
struct store_pipelines_start {
	struct store_op op;
	int count;
	const char **names, **queues;
	/* result */
	struct store_pipeline_start *starts; /* one a name, in order */
};
void store_pipelines_start(struct store *store, struct store_pipelines_start *op);

/* --- routes ---------------------------------------------------------------------------------------------------- */

struct store_route {
	int id;
	const char *queue, *type;
};

/* What is asked for while a statement is under way is done together by the next. */
struct store_routes {
	struct store_op op;
	int count;                       /* make these, if need be, and answer them, perhaps with others; 0: answer all */
	const char **queues, **types;
	/* results */
	struct store_route *routes;
	int found;
};
void store_routes(struct store *store, struct store_routes *op);

/* --- the window ------------------------------------------------------------------------------------------------ */

struct store_candidate {
	int64_t id, version, run_at_us;
	int32_t bytes; /* of its details */
};

/* The next candidates of a stream. Those that are asked for while a statement is under way are read together by the next. */
struct store_page {
	struct store_op op;
	int route;
	int32_t priority;
	int64_t after_run_at_us, after_id;
	int64_t due_us;                  /* the manager's reckoning of now */
	int limit;
	int slices, slice;               /* only tasks whose id leaves this remainder; slices 1: all */
	int64_t other_bytes;             /* `other` has no longer details */
	/* results */
	struct store_candidate *candidates;
	int count;
	struct store_candidate other;    /* the first due task of another slice; id 0: there is none */
	int64_t next_due_us;             /* when the first task that is not due yet will be; STORE_TIME_NEVER: none */
	bool more_follow;                /* another page of the same statement, or its error, is handed over right after this one */
};
void store_page(struct store *store, struct store_page *op);

struct store_stream {
	int route;
	int32_t priority;
	int64_t first_us;                /* when the first of its tasks is due */
};

struct store_streams {
	struct store_op op;
	int count;
	const int *routes;
	int32_t below;                   /* INT32_MAX: from the highest */
	int most;                        /* for each route */
	/* results */
	struct store_stream *streams;
	int found;
};
void store_streams(struct store *store, struct store_streams *op);

/* A stretch of a stream that lies behind its cursor: tasks that were committed long after they were made. */
struct store_late {
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
void store_late(struct store *store, struct store_late *op);

/* --- claiming -------------------------------------------------------------------------------------------------- */

struct store_try {
	int64_t id, version;
	int slot;                        /* place of its Fetch in `fetches`, from 0 */
	bool locked;                     /* result: left out, since somebody had it locked, who may have left it as it was */
};

struct store_fetch {
	int64_t incarnation, fetch_id;
};

struct store_claimed {
	int64_t id, token, assignment_id, timeout_ms;
	int64_t expires_in_ms;
	const char *details, *key;
	const char *stage;               /* of its pipeline; "": none */
	const char *queue, *type;        /* of what is delivered again; NULL from a claim, whose routes are known */
	int attempt, max_attempts, route, slot;
};

/* Tells UNKNOWN. */
struct store_claim {
	struct store_op op;
	int count;
	struct store_try *tries;         /* sorted by id by the store */
	int fetch_count;
	const struct store_fetch *fetches;
	int64_t buffer_ms;               /* an attempt's expiry beyond its time-out */
	bool careful;                    /* some were locked the last time: waits for no lock. So does any claim just after one
	                                    that met a lock. */
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

/* What a Fetch was given and still holds, and whether its worker lives; one that does not holds nothing. */
struct store_redeliver {
	struct store_op op;
	struct store_fetch fetch;
	/* Of one task; of several, each of which costs so much beside its texts: the same for every Fetch. */
	int64_t max_details_bytes, max_answer_bytes, assignment_bytes;
	/* results */
	enum store_life life;
	struct store_claimed *won;
	int won_count;
	struct store_candidate *left_out; /* what does not fit, by their tokens; without the time they are due */
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
	STORE_LOST,                      /* the worker was */
	STORE_TAKEN_BACK,                /* it never arrived there */
	STORE_OUTCOMES
};

/* "completed", "failed", …: as the tables say it. */
const char *store_outcome_name(enum store_outcome outcome);

enum store_verdict {
	STORE_ACCEPTED,  /* this call ended the attempt */
	STORE_REPEATED,  /* an earlier copy of the report had */
	STORE_LATE,      /* the lock had been lost; nothing was changed, and the audit says so */
	STORE_LATER,     /* not judged: another transaction has locked what it would change; it is to be reported again */
};

struct store_result {
	int64_t id, token;
	enum store_outcome outcome;
	const char *result;              /* completed; NULL otherwise */
	const char *error, *error_code;  /* NULL when completed */
	const char *remark, *stack;      /* or NULL */
	int64_t retry_in_ms;             /* failed: the handler's own wish; 0: as the policy says */
	const char *stage;               /* completed: the one that follows, as the handler wishes; NULL: it does not say */
	/* results */
	enum store_verdict verdict;
	bool batched;                    /* and it was of a batch */
	const char *becomes;             /* "completed", "dead", "cancelled"; "failed", "queued": it waits (again) */
	bool ended;                      /* the task is over; else it waits again: */
	int attempt, route;              /* there for all that were accepted */
	int32_t priority;
	int64_t version, due_us;
	bool committed;                  /* the store's own: accepted, whatever becomes of the others */
};

struct store_report {
	struct store_op op;
	int64_t incarnation;
	int count;
	struct store_result *results;
};
void store_report(struct store *store, struct store_report *op);

/* A place among journal rows that are looked through a page at a time: page by page everything has its turn, though rows be
 * locked for long. */
struct store_place {
	int64_t key, id;                 /* what they are ordered by, and the row's id */
};

/* Ends attempts whose expiry has passed, a bounded number at a time. */
struct store_expire {
	struct store_op op;
	int limit;                       /* journal rows to look into, */
	struct store_place after;        /* … by next_expiry (µs), from {STORE_TIME_BEGIN, 0} on */
	int64_t now_us;                  /* the manager's reckoning: nothing is later than this */
	int64_t before_assignment;       /* attempts up to this journal row … */
	int64_t watched_ms;              /* … have been watched only for so long, and must have been for their whole time */
	/* results */
	struct store_result *results;    /* those ended here */
	int count;
	bool more;                       /* there may be more behind `last`; set, as that, even if ending them failed */
	struct store_place last;
};
void store_expire(struct store *store, struct store_expire *op);

/* Ends attempts whose worker is lost, a bounded number at a time. */
struct store_sweep {
	struct store_op op;
	int limit;                       /* journal rows to look into, */
	struct store_place after;        /* … by worker, from {0, 0} on */
	bool all;                        /* whoever is lost; else only of these: */
	int count_of;
	const int64_t *of;
	/* results */
	struct store_result *results;    /* those ended here; their `error` tells the story */
	int count;
	bool more;                       /* there may be more behind `last`; set, as that, even if ending them failed */
	struct store_place last;
};
void store_sweep(struct store *store, struct store_sweep *op);

/* What a worker says that it has, as one snapshot. */
struct store_holding {
	int64_t incarnation;
	int64_t highest_fetch;           /* ever sent */
	int waiting_count, held_count;
	const int64_t *waiting;          /* Fetches waited for */
	const int64_t *held_ids, *held_tokens;
};

/* Ends attempts that were given to a worker and never arrived there. */
struct store_take_back {
	struct store_op op;
	struct store_holding holding;
	int64_t lowest_fetch;            /* older ones are not looked at */
	/* results */
	struct store_result *results;    /* those ended here */
	int count;
	int64_t lowest_open;             /* the lowest Fetch of those that still has something open */
	bool found;                      /* the store's: something is to be taken back */
};
void store_take_back(struct store *store, struct store_take_back *op);

/* Lets an attempt run longer. */
struct store_extend {
	struct store_op op;
	int64_t id, token;
	int64_t run_ms;                  /* in: from now; out: granted */
	int64_t max_run_ms;              /* from its claim */
	/* results */
	bool held;                       /* false: the attempt is over, or never was */
	bool locked;                     /* by another transaction: it holds the task, and nothing was changed */
	int64_t expires_in_ms;
};
void store_extend(struct store *store, struct store_extend *op);

/* Keeps what handlers remark while they run, as far as nobody has locked their tasks. */
struct store_remarks {
	struct store_op op;
	int count;
	const int64_t *ids, *tokens;
	const char *const *texts;
	size_t bytes;                    /* of all of it */
};
void store_remarks(struct store *store, struct store_remarks *op);

/* --- changing by hand ------------------------------------------------------------------------------------------ */

enum store_edit_kind { STORE_CANCEL, STORE_KILL, STORE_RETRY, STORE_UPDATE };

/* Which tasks: those that match all that is given. */
struct store_filter {
	unsigned statuses;               /* bit n: those of Reeve__V1__TaskStatus n; 0: all */
	const char *queue, *type, *error, *error_contains, *error_code, *key, *source; /* NULL: any */
	int64_t older_ms, newer_ms, running_longer_ms; /* 0: any */
	int64_t batch;                   /* 0: any */
	int64_t after_id;                /* only ids above this one */
};

/* So many tasks a change by a filter takes at a time, from so long a stretch of ids. */
enum { STORE_FILTER_MOST = 1000, STORE_FILTER_STRETCH = 200000 };

struct store_edited {
	int64_t id;
	char status[12];                 /* afterwards */
	bool changed;
	bool refused;                    /* it runs, and that cannot be changed then */
	bool ended;                      /* by this call; its route is there */
	bool waits;                      /* waits again or anew, since this call: */
	int route;
	int32_t priority;
	int64_t version, due_us;
	bool stopping;                   /* it executes, and is to be started again when it has been stopped */
	int64_t ordered_worker, token;   /* a worker is to be told to stop this attempt; 0: none */
};

struct store_edit {
	struct store_op op;
	enum store_edit_kind kind;
	uint8_t request_id[16];
	int count;
	const int64_t *ids;
	const struct store_filter *filter; /* instead of ids; its statuses are those that the change may touch */
	bool executing;                  /* a retry: executing ones are started again, too */
	const char *actor, *reason;
	bool set_priority;
	int32_t priority;
	int64_t run_at_us;               /* STORE_TIME_BEGIN: leave */
	int32_t max_attempts;            /* 0: leave */
	/* results */
	struct store_edited *tasks;      /* those that exist, in the order asked */
	int found;
	int64_t *missing;
	int missing_count;
	int64_t next_after_id;           /* with a filter: there may be more above this id; 0: there are none */
	bool mismatch;                   /* the request id was used for another call; nothing was done */
};
void store_edit(struct store *store, struct store_edit *op);

/* --- workers --------------------------------------------------------------------------------------------------- */

struct store_register {
	struct store_op op;
	const char *name, *host, *version;
	int32_t pid, concurrency;
	int queue_count, type_count;
	char *const *queues, *const *types;
	int64_t lease_ms;                /* what it is told */
	int64_t previous;                /* the incarnation that is over, by its own word; 0: none */
	bool by_hand;                    /* nobody sends heartbeats for it */
	/* results */
	int64_t incarnation;             /* 0: a worker of this name lives elsewhere: */
	char other_host[256];
	int32_t other_pid;
};
void store_register(struct store *store, struct store_register *op);

struct store_leave {
	struct store_op op;
	int64_t incarnation;
	const char *reason;
};
void store_leave(struct store *store, struct store_leave *op);

struct store_order {
	char kind[12];                   /* cancel, drain, pause, resume, stop, concurrency */
	int64_t task_id, token;          /* of a cancel's attempt; 0: it is for the worker itself */
	int32_t value;                   /* concurrency: how many */
};

/* Whether an incarnation lives. */
struct store_look {
	struct store_op op;
	int64_t incarnation;
	/* results */
	bool lost;                       /* or unknown */
};
void store_look(struct store *store, struct store_look *op);

/* The orders that stand for an incarnation. */
struct store_orders {
	struct store_op op;
	int64_t incarnation;
	/* results */
	struct store_order *orders;
	int order_count;
};
void store_orders(struct store *store, struct store_orders *op);

/* Which incarnations live, and how far their heartbeats have come. */
struct store_beat {
	int64_t incarnation, seq;
	int64_t lease_ms;                /* as it was told when it registered */
};

struct store_watch {
	struct store_op op;
	/* results */
	struct store_beat *beats;
	int count;
};
void store_watch(struct store *store, struct store_watch *op);

/* Marks incarnations lost unless their heartbeats have gone on. */
struct store_lose {
	struct store_op op;
	int count;
	const struct store_beat *beats;  /* as they were seen */
	/* results */
	int64_t *lost;
	int lost_count;
};
void store_lose(struct store *store, struct store_lose *op);

struct store_heartbeat {
	struct store_op op;
	int64_t incarnation, seq;
	size_t carries;                  /* bytes that wait with it */
	const char *state;               /* running, paused, draining: a constant string */
	int32_t concurrency;             /* 0: it does not say */
	int64_t succeeded, failed;       /* attempts */
	int type_count;                  /* the types it runs by now; 0: as before */
	char *const *types;
	/* results */
	bool renewed;                    /* it raised the sequence number */
	bool overtaken;                  /* a later one has come: this one says nothing any more */
	bool locked;                     /* another transaction has locked the worker's row: nothing was renewed */
	bool lost;                       /* the incarnation has ended, or never was */
	struct store_order *orders;
	int order_count;
};
void store_heartbeat(struct store *store, struct store_heartbeat *op);

struct store_controlled {
	int64_t incarnation;
	char name[256];
};

/* Orders something of living workers, or takes a pause back. */
struct store_control {
	struct store_op op;
	const char *name;                /* NULL: all */
	const char *kind;                /* drain, pause, resume, stop, concurrency */
	int32_t value;                   /* concurrency: how many; else 0 */
	const char *actor;
	/* results */
	struct store_controlled *workers; /* those it was told */
	int count;
};
void store_control(struct store *store, struct store_control *op);

/* --- looking --------------------------------------------------------------------------------------------------- */

/* Which of some tasks have ended. */
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

/* Reads straight into a response message, which the caller owns and has initialized; what it leads to is freed by
 * protobuf_c_message_free_unpacked. */
enum store_read_kind {
	STORE_BOUND,    /* the response of a statement from its request, as its head says (bind.h) */
	STORE_GET,      /* ListResponse: the task `id`, if there is one, with details and result */
	STORE_LIST,     /* ListResponse from a ListRequest */
	STORE_MATCHING, /* the response of a change: which tasks match a filter and can be changed, as many as one call takes */
	STORE_CHECK,    /* adds the numbers to a CheckResponse that has a measure for each question of the CheckRequest, and
	                 * clears its manager if nobody knows the queue or the type */
};

struct sql_text;

struct store_read {
	struct store_op op;
	enum store_read_kind kind;
	const struct sql_text *statement; /* for STORE_BOUND: one of sql_statements */
	bool quick;                      /* it reads few rows, whatever there is */
	const ProtobufCMessage *request;
	int64_t id;                      /* for STORE_GET */
	const struct store_filter *filter; /* for STORE_LIST: further conditions, or NULL; for STORE_MATCHING */
	enum store_edit_kind change;     /* for STORE_MATCHING */
	int64_t most_bytes;              /* of an answer, for those that may be long */
	int64_t lease_ms;
	/* result */
	ProtobufCMessage *response;
};
void store_read(struct store *store, struct store_read *op);

/* Nobody wants its answer any more, and it is not done: it is, at once or as soon as PostgreSQL has stopped. */
void store_read_drop(struct store_read *op);

/* --- statistics and metrics ------------------------------------------------------------------------------------ */

/* Counts further attempts that have ended for the statistics by hour, once each, whatever other managers do. */
struct store_roll {
	struct store_op op;
	/* result */
	bool more;                       /* there is more to do now */
};
void store_roll(struct store *store, struct store_roll *op);

/* Adds up what has been counted of live and ended tasks, a page of it; nothing while another manager does it. Looks whether there is
 * something to do that comes unannounced, if a notification was lost. */
struct store_fold {
	struct store_op op;
	/* results */
	bool more;                       /* there is more to do now */
	bool callbacks;                  /* some wait */
	bool arrivals;                   /* tasks are to be admitted */
};
void store_fold(struct store *store, struct store_fold *op);

enum { STORE_METRICS_MOST = 10000 };   /* of applications there may be so many */

struct store_metric {
	const char *category, *name;
	double value;
};

/* Puts metrics: which of two calls comes last is decided by the database. FAILED_PRECONDITION if there are too many names. */
struct store_metrics_put {
	struct store_op op;
	int count;
	const struct store_metric *metrics;
	const char *source;
	/* result */
	int64_t at_us;                   /* when, by the database's clock */
};
void store_metrics_put(struct store *store, struct store_metrics_put *op);

struct store_own_counter {
	const char *name;
	int64_t value;
};

/* Writes this manager's own counters among the metrics, as far as they have changed. */
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
	int32_t attempt;                 /* which try this is, from 1 */
	int32_t take;                    /* which take; of some nothing may have come */
};

/* How many tries of a site are under way. */
struct store_site {
	const char *site;
	int32_t count;
};

/* Takes callbacks that are due: nobody else tries them for so long. */
struct store_callbacks_take {
	struct store_op op;
	int limit, site_limit;           /* how many in all; how many of one site, with those under way: */
	int64_t lease_ms;
	int64_t now_us;                  /* the manager's estimate of the database's time (core_database_us); 0: none */
	int site_count;
	const struct store_site *sites;
	/* results */
	struct store_callback *callbacks;
	int count;
};
void store_callbacks_take(struct store *store, struct store_callbacks_take *op);

/* What a batch's begin and end are told with. */
struct store_callback_report {
	struct store_op op;
	int64_t batch_id;
	const char *event;
	/* result */
	const char *body;                /* NULL: the batch is not there any more */
};
void store_callback_report(struct store *store, struct store_callback_report *op);

/* Notes what became of a try. */
struct store_callback_settle {
	struct store_op op;
	int64_t id;
	int32_t take;
	int32_t attempts;                /* how often it has been tried */
	bool delivered, over;            /* over: given up; neither: it is tried again after a rest */
	int64_t rest_ms;
	int32_t status;                  /* of HTTP; 0: there was none */
	const char *error;               /* or NULL */
	/* result */
	bool settled;                    /* this changed it; else somebody else had settled it, or tries again */
};
void store_callback_settle(struct store *store, struct store_callback_settle *op);

/* --- upkeep ---------------------------------------------------------------------------------------------------- */

/* Says that the manager lives, and reads the clock. */
struct store_peer {
	int64_t manager, seq;            /* how far its ticks have come */
};

struct store_tick {
	struct store_op op;
	int64_t estimate_us;             /* the manager's estimate of the database's time; 0: none yet */
	/* results */
	int64_t now_us;
	int64_t ahead_us;                /* the furthest estimate of any manager, while the clock shows less than one has seen; else 0 */
	int64_t set_back_us;             /* what the clock showed then, after it was set back; now, if that is not known */
	int64_t routes;                  /* a fingerprint of those in use */
	const char *queues;              /* the fingerprint of the queues' settings */
	int64_t newest_assignment;
	int schema;                      /* the database's version, if it is newer than this program's; else 0 */
	struct store_peer *peers;        /* the managers that have not stopped, this one too, in order */
	int peer_count;
};
void store_tick(struct store *store, struct store_tick *op);

/* Says that the manager stops. No tick must follow. */
struct store_stop {
	struct store_op op;
};
void store_stop(struct store *store, struct store_stop *op);

/* Tells the other managers of work. */
struct store_wake {
	struct store_op op;
	char payload[7900]; /* NOTIFY takes less than 8000 bytes */
};
void store_wake(struct store *store, struct store_wake *op);

/* One round of making partitions ahead, dropping old ones, forgetting what is too old. */
struct store_upkeep {
	struct store_op op;
	/* result */
	bool more;                       /* there was a full batch of something: come again soon */
	int step;                        /* these are the store's own */
	char partition[64];              /* the history's, that is being dropped */
	int64_t after;
};
void store_upkeep(struct store *store, struct store_upkeep *op);

/* Writing the history's partitions to files before they are dropped. One manager at a time does it: it holds a lock from
 * NEXT to RELEASE, unless its connection breaks. */
enum store_archive_kind {
	STORE_ARCHIVE_NEXT,    /* which partition is to be written; none: `partition` is empty, and the lock not ours, maybe */
	STORE_ARCHIVE_PAGE,    /* its next tasks */
	STORE_ARCHIVE_NOTE,    /* its file is there for good: it may go */
	STORE_ARCHIVE_RELEASE, /* somebody else may do it */
};

struct store_archive {
	struct store_op op;
	enum store_archive_kind kind;
	char partition[64];
	int64_t after;         /* PAGE: the tasks behind this id; then the last one's */
	const char *file;      /* NOTE */
	int64_t tasks;
	/* result of PAGE: lines without their ends, which live until `done` returns. lost: another manager archives */
	int count;
	const char **lines;
	bool lost;
};
void store_archive(struct store *store, struct store_archive *op);

/* --- the store itself ------------------------------------------------------------------------------------------ */

struct store_options {
	const char *conninfo;
	const char *manager_name;
	int history_days;
	bool archives;        /* the history is written to files before it goes */
	int64_t lease_ms;
	int64_t buffer_ms;
	int64_t max_details;  /* bytes; for those who submit by SQL */
	size_t waiting_bytes; /* operations over it are refused with RESOURCE_EXHAUSTED at once */
	int origin_percent;   /* what one origin may have of it; 0: all */
};

struct store_listener {
	void (*notified)(void *arg, const char *payload); /* another manager speaks */
	void (*listening)(void *arg);                      /* the listen connection is (back) up: what was said may be missed */
	void *arg;
};

/* Whether it is a connection string at all, as libpq reads it; INVALID_ARGUMENT tells what is wrong. */
bool store_check_conninfo(const char *conninfo, struct reeve_error *error);

/* Whether a connection string, which is one, has a password in it. */
bool store_has_password(const char *conninfo);

/* Opens the roles' connections; the database need not be up. */
struct store *store_open(
    struct event_base *base, const struct store_options *options, const struct store_listener *listener);

/* Closes the connections; waiting operations end with UNAVAILABLE. */
void store_close(struct store *store);

/* Ends operations that waited too long. Call it a few times a second. */
void store_expire_waiting(struct store *store);

/* True if the roles are connected. */
bool store_up(const struct store *store);

/* The manager's own number in the database; 0 before it is known. */
int64_t store_manager_id(const struct store *store);

/* Batches and operations of each role since the start; returns false when `role` is beyond the last. */
bool store_counters(const struct store *store, int role, const char **name, int64_t *batches, int64_t *operations);

#endif
