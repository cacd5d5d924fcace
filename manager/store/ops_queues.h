/* Operations on queues and what is defined on them: batches, schedules, pipelines, routes. See op.h. */
#ifndef REEVE_MANAGER_STORE_OPS_QUEUES_H
#define REEVE_MANAGER_STORE_OPS_QUEUES_H

#include "manager/store/op.h"

/* --- queues ---------------------------------------------------------------------------------------------------- */

enum store_queue_state {
	STORE_QUEUE_RUNNING,
	STORE_QUEUE_NOT_STARTED, /* not started */
	STORE_QUEUE_PAUSED,
	STORE_QUEUE_STOPPING, /* its tasks are being ended */
	STORE_QUEUE_STOPPED,
};

/* The settings of a queue that the manager uses. */
struct store_queue {
	const char *name;
	enum store_queue_state state;
	bool batches; /* implicit ones */
	bool autostart, verbose;
	int32_t max_attempts;
	int64_t retry_base_ms, retry_max_ms;
	const char *retry_policy; /* or NULL */
	int64_t resting_ms, waiting_ms;
	int64_t waiting_left_ms; /* of the waiting period of its batch or start */
	bool limited;            /* only so many of its tasks may execute at once: */
	int64_t max_running;
	/* For the core. */
	int64_t from_ms; /* when that waiting period ends, on the monotonic clock */
	int64_t room;    /* if it is limited, how many more tasks may execute, as far as known */
	int32_t priority;
	int64_t timeout_ms;
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

/* How many more tasks of a queue may execute. */
struct store_queue_room {
	const char *queue;
	int64_t room;
};

/* Reads the room of all queues with a limit. */
struct store_rooms {
	struct store_op op;
	/* results */
	struct store_queue_room *rooms;
	int count;
};
void store_rooms(struct store *store, struct store_rooms *op);

struct store_stop_work {
	const char *queue, *actor;
	int64_t up_to; /* all tasks up to this id */
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
	int64_t up_to; /* tasks up to this id */
	bool stopping;
	int limit;
	/* results */
	struct store_edited *tasks;
	int found;
	bool more; /* there may be more: call again */
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
	int64_t after;  /* only ids above this one */
	bool free_only; /* without batches whose rows are locked */
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
	int limit; /* tasks to unblock or end */
	/* results */
	const char *steps; /* the steps made, "closed ended"; STORE_BATCH_STEP sets this and the next five */
	const char *name, *queue;
	int64_t submitted, completed, failed;
	int tasks;      /* unblocked or ended */
	int64_t *ended; /* the ended ones, or NULL */
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
	int64_t walked; /* all up to this id were processed or passed over; 0: there are no more */
	int ingested, ended;
	int64_t *ended_ids;
	const char *reason; /* why those ended */
};
void store_ingest(struct store *store, struct store_ingest *op);

/* --- schedules ------------------------------------------------------------------------------------------------- */

/* The outcome of a firing. */
struct store_fired_task {
	int64_t schedule;
	const char *name;
	int64_t scheduled_us;
	const char *scheduled; /* the same as a string */
	const char *outcome;   /* as in schedule_runs, or "later": it was prevented, and will be tried again */
	int64_t task;          /* or 0 */
	const char *note;
	int64_t late_us; /* after its scheduled time */
};

/* Fires schedules that are due. Each firing happens once, even if other managers try it at the same time. Repeated
 * after an unknown outcome, the operation fires and returns what is left. */
struct store_schedules_fire {
	struct store_op op;
	int limit; /* the maximum of schedules */
	/* results */
	struct store_fired_task *firings;
	int count;
	int64_t next_us; /* the time until there is more to do; STORE_TIME_NEVER: nothing is known */
};
void store_schedules_fire(struct store *store, struct store_schedules_fire *op);

/* --- pipelines ------------------------------------------------------------------------------------------------- */

/* What a pipeline's first stage sets for a task. */
struct store_pipeline_start {
	int64_t pipeline_id;
	const char *stage, *type;
	bool has_priority; /* else the task keeps its own */
	int32_t priority, max_attempts;
	int64_t timeout_ms, retry_base_ms, retry_max_ms;
	const char *retry_policy; /* or NULL */
	const char *queue;        /* NULL: the task's own */
};

/* Looks up pipelines for tasks, and creates the routes of all their stages. NOT_FOUND names a pipeline or a stage that
 * does not exist. */
struct store_pipelines_start {
	struct store_op op;
	int count;
	const char **names, **queues, **stages; /* stages: in which they begin; NULL: the first */
	const uint8_t *request_id;              /* of their submit */
	/* results */
	bool repeated;                       /* the submit was executed before; else: */
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
	int count; /* create these if needed, and return them, perhaps with others; 0: return all */
	const char **queues, **types;
	/* results */
	struct store_route *routes;
	int found;
};
void store_routes(struct store *store, struct store_routes *op);

#endif
