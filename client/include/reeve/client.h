/*
 * libreeve: submits tasks to Reeve and reads and changes them.
 *
 *     struct reeve_failure failure;
 *     struct reeve_client *client = reeve_client_create(NULL, &failure);
 *     Reeve__V1__TaskSpec spec = {.type = "mail", .details = "{\"to\":\"ann\"}", .key = "order-17"};
 *     Reeve__V1__SubmittedTask task;
 *
 *     if (!client || !reeve_submit(client, &spec, 1, NULL, &task, &failure))
 *             fprintf(stderr, "%s\n", failure.message);
 *     reeve_client_destroy(client);
 *
 * Units: points in time are int64 microseconds since 1970 UTC on the managers' clock, 0 for "never"; durations are
 * int64 milliseconds. All strings are UTF-8, end with NUL and contain no other NUL.
 *
 * Errors: functions return false or NULL on an error, and set the code and message of the failure that the caller
 * passed (NULL: not wanted). The client stays usable after an error.
 *
 * Managers: a client knows one or several equivalent managers. If a manager dies or stops answering during a call, the
 * call moves to another one automatically, or waits until its timeout for one to return. Calls that create or change
 * something carry a request id, so that a call that is sent twice takes effect once.
 *
 * Threads: any number of threads may use a client at once; reeve_client_destroy must be the last call. Functions block
 * until they are answered. They start threads of the library's own; callbacks run on the caller's thread, inside the
 * function that they were passed to, and may call the library.
 */
#ifndef REEVE_CLIENT_H
#define REEVE_CLIENT_H

#include <reeve/v1/task.pb-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifdef __GNUC__ /* the library exports only what is declared here */
#pragma GCC visibility push(default)
#endif

/* The kind of a failure: gRPC's codes, with their numbers. */
enum reeve_code {
	REEVE_OK = 0,
	REEVE_CANCELLED = 1,           /* reeve_client_interrupt was called */
	REEVE_INVALID_ARGUMENT = 3,    /* a field is invalid; the message names it */
	REEVE_DEADLINE_EXCEEDED = 4,   /* sent, but not answered in time: it may have taken effect */
	REEVE_NOT_FOUND = 5,           /* no such task */
	REEVE_ALREADY_EXISTS = 6,      /* it exists, and differs */
	REEVE_PERMISSION_DENIED = 7,   /* reserved: managers do not check tokens yet */
	REEVE_RESOURCE_EXHAUSTED = 8,  /* a limit of the manager was reached; try again later */
	REEVE_FAILED_PRECONDITION = 9, /* the task's state does not allow it */
	REEVE_ABORTED = 10,            /* a conflict with another caller; try again */
	REEVE_UNIMPLEMENTED = 12,      /* the manager is older than this library */
	REEVE_INTERNAL = 13,           /* an error in the manager; its log has details */
	REEVE_UNAVAILABLE = 14,        /* no manager could be reached: nothing has happened */
	REEVE_UNAUTHENTICATED = 16,    /* reserved: managers do not check tokens yet */
};

struct reeve_failure {
	enum reeve_code code;
	char message[512]; /* for people: the error, with the field or object; without final full stop or newline */
};

/* Returns the name of a code: "NOT_FOUND" for REEVE_NOT_FOUND; "UNKNOWN" for an invalid number. A constant string. */
const char *reeve_code_name(enum reeve_code code);

/*
 * Client.
 */

struct reeve_client;

struct reeve_client_options {
	const char *managers;       /* "tcp://a:7171,tcp://b:7171"; NULL: $REEVE_MANAGER, or tcp://127.0.0.1:7171 */
	const char *token;          /* authenticates the caller; managers do not check it yet; NULL: none */
	const char *actor;          /* the caller's name in the audit; NULL: user@host, in a handler's program "task ID" */
	int64_t connect_timeout_ms; /* how long the first call waits for a manager to be reachable; 0: 5 s */
	int64_t call_timeout_ms;    /* the maximum duration of a call, including resends; 0: 30 s */
	/* Called when a function has found no manager for two seconds and keeps trying; called again, with `back` true,
	 * when a manager has returned. May be NULL. */
	void (*absent)(void *arg, bool back);
	void *absent_arg; /* the `arg` of all three callbacks */
	/* Called when managers have refused calls for two seconds (REEVE_RESOURCE_EXHAUSTED, REEVE_ABORTED) and a function
	 * keeps trying; once, until a call gets another answer. `message` has the reason. May be NULL. */
	void (*refused)(void *arg, const char *message);
	/* Called when a function has waited for one second for a manager that is reachable but cannot answer, for example
	 * because it cannot reach its database; once, until a call is answered. `message` has the reason. May be NULL. */
	void (*waiting)(void *arg, const char *message);
};

/* Creates a client and starts to connect. Copies the options (NULL: the defaults). An unreachable manager is not an
 * error here but of the first call. Returns NULL if the options are invalid. Free with reeve_client_destroy(). */
struct reeve_client *reeve_client_create(const struct reeve_client_options *options, struct reeve_failure *failure);

/* Frees the client; NULL is allowed. */
void reeve_client_destroy(struct reeve_client *client);

/* Makes all calls that block now, and all later ones, fail with REEVE_CANCELLED. May be called from any thread, but not
 * from a signal handler. */
void reeve_client_interrupt(struct reeve_client *client);

/* Waits until a manager is reachable, as the first call would. */
bool reeve_client_ready(struct reeve_client *client, struct reeve_failure *failure);

/* Returns the managers' time; before the first contact, this machine's time. */
int64_t reeve_client_now_us(struct reeve_client *client);

/* Returns the maximum length of details that the managers accept, in bytes; 0 before the first contact. */
size_t reeve_client_max_details(struct reeve_client *client);

/*
 * Calls. Each call of the contract has a function, reeve_NOUN_VERB, in <reeve/v1/NOUN_calls.h>; it takes and returns
 * messages of the contract, which <reeve/v1/NOUN.pb-c.h> declares:
 *
 *     Reeve__V1__QueueStatusRequest request = {.queue = "mail"};
 *     Reeve__V1__QueueStatusResponse *status = reeve_queue_status(client, &request, NULL, &failure);
 *
 *     if (status)
 *             printf("%lld tasks wait\n", (long long)status->waiting);
 *     reeve_free(status);
 */

/* How to make a call. NULL stands for all defaults. */
struct reeve_call_options {
	const uint8_t *request_id; /* REEVE_REQUEST_ID bytes: see reeve_submit; NULL: each call creates an id */
	int64_t timeout_ms;        /* of the call with its resends; 0: the client's */
};

/* Calls a method of a service, and calls again where that helps. `request` is a message that the caller fills in, with
 * the messages that it points to. None of them needs to be initialized beyond zeros: the call sets the `base` of each
 * and changes nothing else, so only one thread at a time may use a request. Returns the answer, to be freed with
 * reeve_free(), or NULL with *failure set. */
ProtobufCMessage *reeve_call(struct reeve_client *client, const ProtobufCServiceDescriptor *service, const char *method,
    void *request, const struct reeve_call_options *options, struct reeve_failure *failure);

/* Frees an answer with all that it points to; NULL is allowed. */
void reeve_free(void *answer);

/* Returns a message as a JSON object on one line, with the names of docs/cli.md. The caller must free() the string. */
char *reeve_json(const void *message);

/*
 * Submission.
 */

/* A task to submit is a Reeve__V1__TaskSpec. Only `type` (or `pipeline`) is required: members that are 0 have their
 * defaults. proto/reeve/v1/task.proto describes them, and the retry policy. */

enum {
	REEVE_MAX_BATCH = 10000, /* tasks or ids in one call */
	REEVE_REQUEST_ID = 16,   /* bytes of a request id */
};

/* Creates a request id for reeve_submit: a time-ordered UUID. It is valid for a day. */
bool reeve_request_id(struct reeve_client *client, uint8_t request_id[REEVE_REQUEST_ID], struct reeve_failure *failure);

/* Submits `count` tasks, 1 to REEVE_MAX_BATCH, all or none. Returns true after they are stored durably; submitted[i] is
 * the result for tasks[i]. After REEVE_DEADLINE_EXCEEDED they may or may not exist: to be sure, pass a request id that
 * was created (and kept) before, and repeat the call with the same tasks and id. NULL: each call creates an id. */
bool reeve_submit(struct reeve_client *client, const Reeve__V1__TaskSpec *tasks, size_t count,
    const uint8_t *request_id, Reeve__V1__SubmittedTask *submitted, struct reeve_failure *failure);

/* Checks a task as reeve_submit does before it sends anything; returns true if the task is valid. The limit of details
 * is known only after the first contact. */
bool reeve_check(struct reeve_client *client, const Reeve__V1__TaskSpec *task, struct reeve_failure *failure);

/* How reeve_submit_stream submits a long sequence of tasks: in chunks, each one call, several in flight at once. */
struct reeve_stream {
	/* Fills in the next task (zeroed); its strings must live until the next call. Returns false if there is none. */
	bool (*next)(void *arg, Reeve__V1__TaskSpec *task);
	/* Called for each chunk that is stored durably, in the tasks' order; `first` counts tasks from 0. May be NULL. */
	void (*stored)(void *arg, size_t first, const Reeve__V1__SubmittedTask *submitted, size_t count);
	/* Called for each chunk that was not stored, or may not have been (see the code), in order. May be NULL. */
	void (*missed)(void *arg, size_t first, size_t count, const struct reeve_failure *failure);
	void *arg;
	size_t chunk_tasks; /* maximum tasks per chunk; 0, or more than REEVE_MAX_BATCH: 1,000 */
	size_t chunk_bytes; /* approximate maximum bytes per chunk, up to half of the managers' maximum message (a single
	                     * task may be longer); 0: 1 MiB */
	int in_flight;      /* chunks in flight at once; 0: 4 */
};

/* Submits the tasks that `next` returns until there are no more. Memory use is limited by the chunks in flight. An
 * invalid task or a failed chunk ends the stream: nothing more is sent, and the function waits for the chunks in flight
 * and reports them. *failure is set to the first failure. */
bool reeve_submit_stream(struct reeve_client *client, const struct reeve_stream *stream, struct reeve_failure *failure);

/*
 * Reading tasks. The caller owns the results of these functions, must not modify them, and frees each with its own
 * function, including all that it points to.
 *
 * `wire` of every result is for reeve_json().
 */

enum reeve_task_status {
	REEVE_TASK_ANY = 0,       /* in filters */
	REEVE_TASK_QUEUED = 1,    /* waits for a worker, or until it is due */
	REEVE_TASK_EXECUTING = 2, /* a worker holds it */
	REEVE_TASK_FAILED = 3,    /* the last attempt failed; it is retried at run_at_us */
	REEVE_TASK_COMPLETED = 4, /* succeeded */
	REEVE_TASK_DEAD = 5,      /* failed fatally or for the last time, or was discarded */
	REEVE_TASK_CANCELLED = 6, /* ended by a cancel */
};

/* Returns a status' name: "queued", "executing", …; "" for REEVE_TASK_ANY and invalid numbers. A constant string. */
const char *reeve_task_status_name(enum reeve_task_status status);

/* Returns the status of that name; REEVE_TASK_ANY if there is none. */
enum reeve_task_status reeve_task_status_by_name(const char *name);

/* Returns true for completed, dead and cancelled. */
bool reeve_task_status_ended(enum reeve_task_status status);

enum reeve_recoverable {
	REEVE_RECOVERABLE_UNKNOWN = 0, /* there is no error, or the kind is unknown: the task was ended dead manually */
	REEVE_RECOVERABLE = 1,
	REEVE_UNRECOVERABLE = 2,
};

/* Why a task waits: the first of these reasons that applies when the task is read. */
enum reeve_wait_reason {
	REEVE_WAITS_NOT = 0,            /* it does not wait; or the reason is unknown (older managers, batch reports) */
	REEVE_WAITS_QUEUE_STOPPED = 1,  /* its queue is stopped, or being stopped */
	REEVE_WAITS_QUEUE_PAUSED = 2,
	REEVE_WAITS_QUEUE_NOT_STARTED = 3,     /* its queue has not been started */
	REEVE_WAITS_INBOX = 4,      /* it was submitted by SQL, and no manager has ingested it yet */
	REEVE_WAITS_BATCH_ENTRY = 5,    /* the entry task of its batch has not ended */
	REEVE_WAITS_RETRY_DELAY = 6,    /* its last attempt failed, and it is retried at run_at_us */
	REEVE_WAITS_NOT_DUE = 7,        /* it is not due until run_at_us */
	REEVE_WAITS_NO_WORKER = 8,      /* no live worker takes its type in its queue; pull clients do not count */
	REEVE_WAITS_WORKERS_PAUSED = 9, /* every worker that takes it is paused or draining */
	REEVE_WAITS_WORKERS_BUSY = 10,  /* all slots of the workers that take it are busy */
	REEVE_WAITS_TURN = 11,          /* it waits its turn: a worker will take it */
};

struct reeve_waiting {
	enum reeve_wait_reason reason;
	int64_t task_id;  /* BATCH_ENTRY: the entry task */
	uint32_t workers; /* WORKERS_PAUSED: how many take it; WORKERS_BUSY, TURN: how many that do not pause or drain, */
	uint32_t slots;   /* how many slots those have, */
	uint32_t busy;    /* and how many of the slots are busy */
};

struct reeve_task {
	int64_t id;
	const char *queue;
	const char *type;
	enum reeve_task_status status;
	int32_t priority;
	int64_t run_at_us;        /* when it is due, or was */
	uint32_t attempt;         /* attempts begun so far */
	uint32_t max_attempts;
	int64_t timeout_ms;
	const char *key;          /* or "" */
	const char *source;
	const char *details;      /* "" in lists */
	const char *result;       /* of a completed task; "" in lists */
	const char *last_error;   /* the error of the last failed attempt, or "" */
	const char *error_code;   /* a short code for it: "exit:3", "timeout" */
	const char *worker;       /* the one that holds it or held it last */
	int64_t token;            /* of the running attempt; also the time of the task's last change, in µs since 1970 */
	int64_t created_us;
	int64_t first_started_us; /* when its first attempt began */
	int64_t started_us;       /* when its latest attempt began */
	int64_t finished_us;      /* when it ended */
	int64_t expiry_us;        /* the latest time at which a manager reclaims the running attempt */
	bool cancel_requested;
	int64_t batch_id;         /* 0: none */
	const char *remark;       /* from the handler of the last attempt, or "" */
	const char *stack_trace;        /* a stack trace, or the end of stderr, of the last failed attempt; "" in lists */
	int64_t version;          /* as submitted with its key; 0: none */
	const char *pipeline;     /* the pipeline that it runs through, or "" */
	const char *stage;        /* the stage of the pipeline that it is in, or ended in */
	uint32_t step;            /* how many stages it has entered */
	uint32_t error_count;     /* failed attempts so far */
	enum reeve_recoverable recoverable; /* whether the last error can be retried */
	int64_t processing_ms;    /* duration of the latest ended attempt, from claim to end */
	struct reeve_waiting waiting;
	const void *wire;
};

/* Reads one task, live or finished; REEVE_NOT_FOUND if it does not exist. Free with reeve_task_free(). */
struct reeve_task *reeve_get(struct reeve_client *client, int64_t id, struct reeve_failure *failure);
void reeve_task_free(struct reeve_task *task);

/* Conditions on tasks; all must hold. Strings that are NULL or "", and numbers that are 0, are no condition. */
struct reeve_where {
	unsigned statuses;           /* any of them: 1U << REEVE_TASK_DEAD | …; 0: see the function */
	const char *queue;
	const char *type;
	const char *error;           /* the full text of its last error */
	const char *error_contains;  /* a part of it */
	const char *error_code;
	const char *key;
	const char *source;
	int64_t older_ms;            /* submitted at least this long ago */
	int64_t newer_ms;            /* submitted at most this long ago */
	int64_t running_longer_ms;   /* executing, and its attempt began at least this long ago */
	int64_t batch_id;
	int64_t after_id;            /* only ids above this one, to continue */
};

/* Which tasks to list: those that meet all conditions. */
struct reeve_filter {
	enum reeve_task_status status;
	const char *queue;  /* NULL or "": any */
	const char *type;   /* NULL or "": any */
	uint32_t limit;     /* maximum number, up to REEVE_MAX_BATCH; 0: 100 */
	int64_t before_id;  /* only ids below this one, for paging; 0: from the newest */
	const struct reeve_where *where; /* further conditions, or NULL; its statuses 0: all */
};

struct reeve_tasks {
	size_t count;
	struct reeve_task *tasks;
	int64_t next_before_id; /* of reeve_list: there may be more below this id, even if none were found; 0: no more */
};

/* Reads tasks, newest first, without details and results. A manager reads a bounded number of tasks for an answer: to
 * continue, set before_id = next_before_id until that is 0. Free with reeve_tasks_free(). */
struct reeve_tasks *reeve_list(struct reeve_client *client, const struct reeve_filter *filter,
    struct reeve_failure *failure);
void reeve_tasks_free(struct reeve_tasks *tasks);

struct reeve_wait {
	int64_t timeout_ms; /* in total; 0: check once; negative: until all have ended */
	int64_t poll_ms;    /* maximum duration of one poll, after which `polled` is called; 0 or more than 20 s: 20 s */
	/* Called once for each task that has ended; the task has its result, no details, and is valid during the call. */
	void (*ended)(void *arg, const struct reeve_task *task);
	/* Called after each poll with the number of tasks that have not ended; returns false to stop waiting. */
	bool (*polled)(void *arg, size_t pending);
	void *arg;
};

/* Waits for tasks to end, any number of them; repeated ids count once. On success *pending (NULL: not wanted) is the
 * number of tasks that had not ended when the wait was over. Callbacks that are NULL are not called. */
bool reeve_wait(struct reeve_client *client, const int64_t *ids, size_t count, const struct reeve_wait *wait,
    size_t *pending, struct reeve_failure *failure);

/*
 * Changing tasks, 1 to REEVE_MAX_BATCH in one call. If none of the tasks exists, the call fails with REEVE_NOT_FOUND.
 */

struct reeve_change {
	int64_t id;
	enum reeve_task_status status; /* after the call */
	bool changed;                  /* whether this call changed anything */
	const char *note;              /* the reason if not, or "" */
	const void *wire;
};

struct reeve_changes {
	size_t count;
	struct reeve_change *changes;  /* of the tasks that exist, in the order of the ids */
	size_t n_not_found;
	const int64_t *not_found;      /* ids of no task */
	int64_t next_after_id;         /* of reeve_…_where: there may be more tasks above this id; 0: there are none */
};

/* Cancels tasks: waiting ones end at once, running ones get a command to stop. `reason` is for the audit; NULL: none.
 * Free the result with reeve_changes_free(). */
struct reeve_changes *reeve_cancel(struct reeve_client *client, const int64_t *ids, size_t count, const char *reason,
    struct reeve_failure *failure);

/* Discards tasks: they end dead, with the error code "discarded" and the reason as their error (NULL: "discarded by
 * request"). Waiting ones end at once, running ones when their workers have stopped them. */
struct reeve_changes *reeve_discard(struct reeve_client *client, const int64_t *ids, size_t count, const char *reason,
    struct reeve_failure *failure);

/* Runs tasks again now: waiting ones become due, ended ones start over under the same id. */
struct reeve_changes *reeve_retry(struct reeve_client *client, const int64_t *ids, size_t count,
    struct reeve_failure *failure);

/* As reeve_retry, and also restarts executing tasks: their workers stop them, and they are queued again. The stopped
 * attempt does not count. A task whose attempt succeeds before it is stopped does not run again. */
struct reeve_changes *reeve_restart(struct reeve_client *client, const int64_t *ids, size_t count,
    struct reeve_failure *failure);

/* What to change; members that are 0 leave the task as it is. */
struct reeve_update {
	bool set_priority;
	int32_t priority;      /* −1,000,000 to 1,000,000; also of executing tasks */
	int64_t run_at_us;     /* of queued and failed tasks */
	uint32_t max_attempts; /* 1 to 10,000; also of executing tasks */
};

struct reeve_changes *reeve_update(struct reeve_client *client, const int64_t *ids, size_t count,
    const struct reeve_update *update, struct reeve_failure *failure);

void reeve_changes_free(struct reeve_changes *changes);

/*
 * Changing all tasks that match. Each call chooses and changes up to 1,000 tasks, by id, in one transaction. To
 * continue, set where.after_id = next_after_id until that is 0 (an answer before that may be empty). At least one
 * condition is required. Without statuses, all tasks that have not ended match (for an update of run_at_us: all that
 * wait); for a retry failed, dead and cancelled ones, and with running_longer_ms executing ones, which are stopped and
 * started again. With `dry_run` nothing changes, and the answer only lists the tasks.
 */

struct reeve_changes *reeve_cancel_where(struct reeve_client *client, const struct reeve_where *where, bool dry_run,
    const char *reason, struct reeve_failure *failure);
struct reeve_changes *reeve_discard_where(struct reeve_client *client, const struct reeve_where *where, bool dry_run,
    const char *reason, struct reeve_failure *failure);
struct reeve_changes *reeve_retry_where(struct reeve_client *client, const struct reeve_where *where, bool dry_run,
    struct reeve_failure *failure);
struct reeve_changes *reeve_update_where(struct reeve_client *client, const struct reeve_where *where, bool dry_run,
    const struct reeve_update *update, struct reeve_failure *failure);

/*
 * Audit.
 */

struct reeve_event {
	int64_t at_us;
	int64_t task_id;    /* 0: an event of a worker only */
	int64_t token;      /* the task's `last_updated` that the event set or found */
	const char *event;  /* "submitted", "claimed", "completed", … */
	const char *worker; /* its name, or "" */
	int64_t worker_id;  /* its incarnation, or 0 */
	uint32_t attempt;   /* or 0 */
	const char *actor;  /* the caller who requested it, or "" */
	const char *note;   /* the error, the reason, or what changed */
	const void *wire;
};

struct reeve_events {
	size_t count;
	struct reeve_event *events; /* oldest first */
	bool more;                  /* there are older events, beyond the limit; of a page: there is a next page */
	const char *next_page;      /* of a page: where the next one begins; "": there is none */
};

/* Reads the newest `limit` events, up to 100,000 (0: 1,000), of one task, or of all (task_id 0); from a time on, or all
 * that are kept (since_us 0). Free with reeve_events_free(). */
struct reeve_events *reeve_audit(struct reeve_client *client, int64_t task_id, int64_t since_us, uint32_t limit,
    struct reeve_failure *failure);

/* Reads a page of the events, oldest first: the first page (`page` NULL), or the next one after a page that was read
 * (`page` is its next_page). A page may be empty and still have a next one. Without a task, events of a later page may
 * belong between those of an earlier one: the claim of an attempt comes with its end. Events after the request for the
 * first page may be missing from all pages. Free with reeve_events_free(), after reading the next page. */
struct reeve_events *reeve_audit_page(struct reeve_client *client, int64_t task_id, int64_t since_us, const char *page,
    struct reeve_failure *failure);
void reeve_events_free(struct reeve_events *events);

/*
 * Queues, workers and totals.
 */

struct reeve_queue {
	const char *queue;
	const char *type;
	int64_t queued;        /* due, waiting for a worker */
	int64_t delayed;       /* not yet due */
	int64_t executing;
	int64_t failed;        /* waiting for their retry */
	int64_t oldest_due_us; /* when the task that has been due for longest became due */
	const void *wire;
};

struct reeve_queues {
	size_t count;
	struct reeve_queue *queues; /* one for each queue and type */
};

/* Reads the counts of queues; `queue` NULL or "": all queues. Free with reeve_queues_free(). */
struct reeve_queues *reeve_queues(struct reeve_client *client, const char *queue, struct reeve_failure *failure);
void reeve_queues_free(struct reeve_queues *queues);

struct reeve_worker_info {
	int64_t incarnation;
	const char *name;
	const char *host;
	int32_t pid;
	const char *state;         /* "alive", "late" (no heartbeat for a lease), "gone" */
	uint32_t concurrency;      /* the number of its slots */
	int64_t holding;           /* attempts assigned to it that have not ended */
	size_t n_queues;
	const char *const *queues; /* none: all */
	size_t n_types;
	const char *const *types;  /* none: all */
	int64_t registered_us;
	int64_t heartbeat_us;      /* the last one */
	const char *version;
	const char *mode;         /* "running", "paused", "draining", as it reports itself; if gone, "left" or "lost" */
	int64_t mode_since_us;
	int64_t succeeded, failed; /* completed attempts, and failed ones */
	int64_t uptime_ms;         /* since it registered; if it is gone, until its last contact */
	bool manual;              /* a pull client: it sends no heartbeats */
	const void *wire;
};

struct reeve_workers {
	size_t count;
	struct reeve_worker_info *workers;
};

/* Which workers to list. */
struct reeve_workers_query {
	bool all;          /* also those that are gone, and pull clients without tasks */
	const char *queue; /* only those that serve this queue; NULL or "": any */
};

/* Reads all matching workers, by incarnation. Free with reeve_workers_free(). */
struct reeve_workers *reeve_workers(
    struct reeve_client *client, const struct reeve_workers_query *query, struct reeve_failure *failure);
void reeve_workers_free(struct reeve_workers *workers);

/*
 * Control of workers. A worker command stays in effect as long as the worker's registration: every answer to a
 * heartbeat, from any manager, repeats it until it is revoked. A worker that registers again (because it was restarted,
 * or counted as lost) has no commands.
 */

enum reeve_worker_action {
	REEVE_WORKER_DRAIN = 1,  /* take no more tasks, finish the running ones, exit */
	REEVE_WORKER_PAUSE = 2,  /* take no more tasks for now; running ones finish */
	REEVE_WORKER_RESUME = 3, /* take tasks again */
	REEVE_WORKER_STOP = 4,   /* take no more tasks, return the running ones, exit */
	REEVE_WORKER_SCALE = 5,  /* run this many handlers at once from now on */
};

struct reeve_names {
	size_t count;
	const char *const *names; /* the first 1,000 */
	size_t notified;              /* the total number of workers that got the command */
	const void *wire;
};

/* Sends a command to the live worker of this name, or to all (NULL). `concurrency`: for REEVE_WORKER_SCALE, 1 to
 * 10,000; otherwise 0. Returns the names of the workers that got the command; free with reeve_names_free().
 * REEVE_NOT_FOUND: no such worker is alive. */
struct reeve_names *reeve_control_workers(struct reeve_client *client, const char *name,
    enum reeve_worker_action action, uint32_t concurrency, struct reeve_failure *failure);
void reeve_names_free(struct reeve_names *names);

/*
 * Manual pull: taking tasks without being a worker. A fetched task is reserved for its caller until it is reported or
 * expires. It expires after its timeout plus a few seconds, or as reeve_extend has set it; no heartbeats are needed.
 */

struct reeve_fetch {
	const char *name;           /* the caller's name in the audit; NULL: user@host */
	size_t n_queues;
	const char *const *queues;  /* none: all */
	size_t n_types;
	const char *const *types;   /* none: all */
	size_t n_exclude;
	const int64_t *exclude;     /* tasks to leave out, up to 1,000 */
	uint32_t most;              /* maximum number of tasks, up to 10,000; 0: 1 */
	int64_t wait_ms;            /* how long to wait for the first task; 0: check once */
};

struct reeve_taken {
	int64_t id;
	int64_t token;              /* together with the id, identifies this attempt; enough to report or extend it */
	const char *queue;
	const char *type;
	const char *details;
	const char *key;            /* or "" */
	const char *stage;          /* the stage of its pipeline, or "" */
	uint32_t attempt;           /* from 1 */
	uint32_t max_attempts;
	int64_t timeout_ms;
	int64_t expires_in_ms;      /* the time from the return of the call until the attempt expires */
	const void *wire;
};

struct reeve_taken_list {
	int64_t incarnation;        /* the one under which the tasks were taken */
	size_t count;               /* 0: no task came in time */
	struct reeve_taken *tasks;
};

/* Takes tasks, by priority, as a worker would. No two callers get the same attempt. Returns NULL on an error. If the
 * answer of a call was lost, its tasks go to other workers or callers, at the latest when they expire. Free with
 * reeve_taken_free(). */
struct reeve_taken_list *reeve_fetch(
    struct reeve_client *client, const struct reeve_fetch *fetch, struct reeve_failure *failure);
void reeve_taken_free(struct reeve_taken_list *list);

enum reeve_outcome_kind {
	REEVE_OUTCOME_COMPLETED = 1, /* succeeded, with a result */
	REEVE_OUTCOME_FAILED = 2,    /* failed; retry later */
	REEVE_OUTCOME_FATAL = 3,     /* failed; do not retry */
	REEVE_OUTCOME_RETURNED = 4,  /* given back: does not count as an attempt, due at once */
};

struct reeve_report {
	int64_t id, token;          /* the attempt */
	enum reeve_outcome_kind outcome;
	const char *result;         /* completed; NULL: "" */
	const char *error;          /* other outcomes: what went wrong; NULL: "" */
	const char *error_code;     /* a short code for it, up to 255 bytes; NULL: none */
	const char *remark;         /* kept with the task; NULL: none */
	const char *stack_trace;          /* a stack trace; NULL: none */
	int64_t retry_in_ms;        /* failed: the retry delay; 0: by the task's policy */
	const char *stage;          /* completed: the next stage of its pipeline, "end": none; NULL: by its definition */
};

/* Reports the result of an attempt. Returns true if it is committed, by this call or an earlier send of it.
 * REEVE_FAILED_PRECONDITION: the token does not hold the task (any more); nothing was changed, and the audit records
 * it. REEVE_INVALID_ARGUMENT: the result is invalid; if it was too long, the attempt was ended as fatal, and the
 * message says so. REEVE_UNAVAILABLE, after some seconds: another transaction has locked the task or its batch. */
bool reeve_report(struct reeve_client *client, const struct reeve_report *report, struct reeve_failure *failure);

/* Extends an attempt to run for `by_ms` from now. *run_ms (NULL: not wanted) is set to the time that it may run from
 * now on, which is less if the manager's limit comes first; *expires_in_ms (NULL: not wanted) to the time until it
 * expires. REEVE_FAILED_PRECONDITION: the token does not hold the task. */
bool reeve_extend(struct reeve_client *client, int64_t id, int64_t token, int64_t by_ms, int64_t *run_ms,
    int64_t *expires_in_ms, struct reeve_failure *failure);

struct reeve_callback {
	int64_t id;             /* sent to receivers in the header webhook-id, as "cb_" and this number */
	int64_t batch_id;
	int64_t task_id;        /* 0: the callback is about the batch */
	const char *event;      /* "batch_begin", "batch_end", "task_end" */
	const char *url;
	const char *state;      /* "waiting", "delivered", "given_up" */
	uint32_t attempts;      /* begun so far */
	int32_t last_status;    /* of HTTP; 0: there was no response */
	const char *last_error; /* the last error, or "" */
	int64_t created_us;
	int64_t next_us;        /* the time of the next attempt, or until when the current one waits; 0: never */
	int64_t ended_us;       /* when it was delivered or given up */
	const void *wire;
};

/* Which callbacks to list. */
struct reeve_callback_filter {
	int64_t batch_id;   /* 0: any */
	const char *state;  /* NULL or "": any */
	uint32_t limit;     /* maximum number, up to 1,000; 0: 100 */
	int64_t before_id;  /* only ids below this one, for paging; 0: from the newest */
};

struct reeve_callbacks {
	size_t count;
	struct reeve_callback *callbacks; /* newest first */
	int64_t next_before_id;           /* there may be more below this id, even if there are none here; 0: no more */
};

/* Reads callbacks. Free with reeve_callbacks_free(). */
struct reeve_callbacks *reeve_callbacks(
    struct reeve_client *client, const struct reeve_callback_filter *filter, struct reeve_failure *failure);
void reeve_callbacks_free(struct reeve_callbacks *callbacks);

struct reeve_counter {
	const char *name;
	int64_t value;
};

struct reeve_stats {
	int64_t queued, delayed, executing, failed; /* live tasks */
	int64_t completed, dead, cancelled;         /* in history */
	int64_t workers_alive;
	size_t n_counters;
	struct reeve_counter *counters;             /* of the manager that answered */
	const void *wire;
};

/* Reads totals. Free with reeve_stats_free(). */
struct reeve_stats *reeve_stats(struct reeve_client *client, struct reeve_failure *failure);
void reeve_stats_free(struct reeve_stats *stats);

/* What to measure, for alerts. A queue is active unless it is paused, not started, stopping or stopped. */
enum reeve_check_kind {
	REEVE_CHECK_DEAD = 1,          /* tasks that ended dead within the last hour */
	REEVE_CHECK_FAILED = 2,        /* failed tasks that wait for their retry */
	REEVE_CHECK_OLDEST_QUEUED = 3, /* for how long the oldest due task in an active queue has been due */
	REEVE_CHECK_RUNNING = 4,       /* attempts that have been executing for longer than `longer_ms` */
	REEVE_CHECK_SCHEDULES = 5,     /* schedules that are not paused and overdue by more than `longer_ms` */
	REEVE_CHECK_CALLBACKS = 6,     /* callbacks given up within the last hour */
	REEVE_CHECK_UNSERVED = 7,      /* waiting tasks in active queues that no worker takes */
	REEVE_CHECK_HALTED = 8,          /* waiting tasks in queues that are not active */
};

struct reeve_check_question {
	enum reeve_check_kind kind; /* each kind only once */
	int64_t longer_ms;          /* for RUNNING and SCHEDULES; otherwise 0 */
};

struct reeve_check_query {
	const char *queue;  /* NULL or "": all; REEVE_NOT_FOUND if the queue is unknown */
	const char *type;   /* NULL or "": all; REEVE_NOT_FOUND if the type is unknown */
	size_t count;       /* 0: only check that the manager and its database answer */
	const struct reeve_check_question *questions;
	int64_t timeout_ms; /* how long to try, not counting the time to reach a manager; 0: the client's call_timeout_ms */
};

/* One item that was found: a task, a schedule, or a group of tasks or callbacks. */
struct reeve_check_example {
	int64_t count;      /* the size of the group, or 1 */
	int64_t ms;         /* for how long it has waited, run, or been overdue */
	int64_t task_id;    /* the task, or the latest one that was read of the group; 0: none */
	const char *queue;
	const char *type;
	const char *name;   /* RUNNING: the worker; SCHEDULES: the schedule; DEAD and FAILED: the error code; CALLBACKS: the
	                     * host; HELD: the queue's state */
	int64_t waits_for;  /* SCHEDULES: the task of the previous run, for which it waits; 0: none */
	const void *wire;
};

struct reeve_check_measure {
	enum reeve_check_kind kind;
	int64_t count;      /* how many there are */
	int64_t longest_ms; /* the longest time, whether over longer_ms or not */
	size_t n_examples;  /* up to ten: the largest, or the longest, first */
	struct reeve_check_example *examples;
	int64_t examined;   /* the number that the examples were taken from: all, or of FAILED about 1,000 */
};

struct reeve_measures {
	const char *manager; /* the one that answered */
	size_t count;        /* one measure for each question, in the same order */
	struct reeve_check_measure *measures;
};

/* Measures numbers and times that should stay small. The cost is low regardless of the number of waiting and ended
 * tasks. A manager that cannot reach its database is skipped; if none is left, the call fails at its timeout. Free with
 * reeve_measures_free(). */
struct reeve_measures *reeve_measure(
    struct reeve_client *client, const struct reeve_check_query *query, struct reeve_failure *failure);
void reeve_measures_free(struct reeve_measures *measures);

/* Errors of one text, or of one code. */
struct reeve_error_group {
	const char *error;      /* the text; for a group by code, the latest one's */
	const char *error_code; /* the code; for a group by text, the latest one's */
	int64_t attempts;       /* how many ended with it */
	int64_t waiting;        /* tasks that wait for a retry after it */
	int64_t dead;           /* tasks that ended dead with it */
	int64_t first_us, last_us;
	int64_t example_id;     /* the task that had it last */
	const void *wire;
};

struct reeve_error_groups {
	size_t count;
	struct reeve_error_group *groups; /* by number of attempts, most first */
	bool more;                        /* there are more than the limit */
};

struct reeve_errors_query {
	bool by_code;      /* otherwise by text */
	const char *queue; /* NULL or "": any */
	const char *type;  /* NULL or "": any */
	int64_t since_us;  /* 0: the last day */
	uint32_t limit;    /* maximum number of groups; 0: 100. All pages are read in any case */
};

/* Reads groups of errors. Free with reeve_error_groups_free(). */
struct reeve_error_groups *reeve_errors(struct reeve_client *client, const struct reeve_errors_query *query,
    struct reeve_failure *failure);
void reeve_error_groups_free(struct reeve_error_groups *groups);

/* A count of ended attempts. */
struct reeve_execution_count {
	int64_t hour_us;   /* by hour: the start of the hour */
	const char *queue; /* by type */
	const char *type;  /* by type */
	int64_t count;
	int64_t succeeded; /* attempts */
	int64_t total_ms, average_ms, fastest_ms, slowest_ms; /* from claim to end */
	int64_t last_us;   /* when the last one ended */
	const void *wire;
};

struct reeve_executions {
	size_t count;
	struct reeve_execution_count *counts;
};

struct reeve_executions_query {
	bool by_type;      /* otherwise by the hour (UTC) in which they ended */
	const char *queue; /* NULL or "": any */
	const char *type;  /* NULL or "": any */
	int64_t since_us;  /* 0: the last day */
};

/* Reads counts of ended attempts. Free with reeve_executions_free(). */
struct reeve_executions *reeve_executions(struct reeve_client *client, const struct reeve_executions_query *query,
    struct reeve_failure *failure);
void reeve_executions_free(struct reeve_executions *executions);

/*
 * Batches: tasks that are counted together.
 */

/* A batch to open. Only `name` is required; for members that are NULL the queue's settings apply. */
struct reeve_batch_spec {
	const char *name;            /* for people; up to 255 bytes without control characters */
	const char *queue;           /* of its tasks; NULL or "": "default" */
	const char *callback_url;    /* http:// or https://, called at its begin and end */
	const char *callback_secret; /* the key that signs those calls */
	bool callback_tasks;         /* the URL is also called at each task's end */
	const char *callback_type;   /* a task of this type is submitted for begin, end, and each task's end */
	const char *entry_type;      /* a task of this type runs before the first */
	const char *exit_type;       /* a task of this type runs after the last */
};

struct reeve_batch {
	int64_t id;
	const char *name;
	const char *queue;
	bool implicit;                        /* opened by the queue itself */
	const char *state;                    /* "open", "closed", "ended" */
	const char *phase;                    /* "new", "entry", "releasing", "running", "exit", "ended" */
	int64_t submitted, pending;           /* tasks without entry and exit task; those of them that have not ended */
	int64_t succeeded, failed;            /* completed; dead or cancelled */
	int64_t created_us, started_us, closed_us, ended_us;
	int64_t duration_ms;                  /* from its start to its end, or to now */
	int64_t remaining_ms;                 /* an estimate; −1: not known yet */
	int64_t entry_id, exit_id;            /* tasks, or 0 */
	const char *entry_status, *exit_status; /* their final status, or "" */
	const char *source;                   /* who opened it */
	int64_t callbacks_waiting, callbacks_given_up;
	/* In lists and reports: its entry or exit task if that waits, otherwise the first waiting task by id, searched
	 * among the first tasks that have not ended. */
	struct reeve_waiting_task {
		int64_t id; /* 0: none was found */
		int64_t run_at_us; /* when it is due, or was */
		uint32_t attempt;  /* attempts begun so far */
		struct reeve_waiting waiting;
	} first_waiting;
	const void *wire;
};

/* Opens a batch and sets *id. `request_id` as for reeve_submit. */
bool reeve_batch_open(struct reeve_client *client, const struct reeve_batch_spec *spec, const uint8_t *request_id,
    int64_t *id, struct reeve_failure *failure);

/* Closes a batch: it takes no more tasks, and ends when all its tasks have ended. Returns NULL on an error:
 * REEVE_FAILED_PRECONDITION if it was closed before. Free with reeve_batch_free(). */
struct reeve_batch *reeve_batch_close(struct reeve_client *client, int64_t id, struct reeve_failure *failure);
void reeve_batch_free(struct reeve_batch *batch);

/* Which batches to list. */
struct reeve_batch_filter {
	const char *queue;  /* NULL or "": any */
	bool open_only;     /* only those that have not ended */
	uint32_t limit;     /* maximum number, up to 1,000; 0: 100 */
	int64_t before_id;  /* only ids below this one, for paging; 0: from the newest */
};

struct reeve_batches {
	size_t count;
	struct reeve_batch *batches; /* newest first */
	int64_t next_before_id;      /* there may be more below this id, even if there are none here; 0: no more */
};

/* Reads batches. Free with reeve_batches_free(). */
struct reeve_batches *reeve_batch_list(
    struct reeve_client *client, const struct reeve_batch_filter *filter, struct reeve_failure *failure);
void reeve_batches_free(struct reeve_batches *batches);

struct reeve_batch_report {
	struct reeve_batch batch;
	size_t count;
	struct reeve_task *tasks; /* by id; without details and results */
	bool more;                /* there are more: continue after the last one's id */
};

/* Reads a batch and its tasks with ids above `after_id`. `limit` is their maximum number, up to 10,000 (0: 10,000).
 * Free with reeve_batch_report_free(). */
struct reeve_batch_report *reeve_batch_report(struct reeve_client *client, int64_t id, int64_t after_id, uint32_t limit,
    struct reeve_failure *failure);
void reeve_batch_report_free(struct reeve_batch_report *report);

/*
 * Queues. A queue need not be created; one without settings has the defaults.
 */

/* Which settings a call changes; they can be combined. */
enum reeve_queue_field {
	REEVE_QUEUE_RETRY_LIMIT = 1 << 0,
	REEVE_QUEUE_RETRY = 1 << 1,
	REEVE_QUEUE_RESTING = 1 << 2,
	REEVE_QUEUE_WAITING = 1 << 3,
	REEVE_QUEUE_AUTOSTART = 1 << 4,
	REEVE_QUEUE_VERBOSE = 1 << 5,
	REEVE_QUEUE_BATCHES = 1 << 6,
	REEVE_QUEUE_CALLBACK_URL = 1 << 7,
	REEVE_QUEUE_CALLBACK_SECRET = 1 << 8,
	REEVE_QUEUE_CALLBACK_TASKS = 1 << 9,
	REEVE_QUEUE_CALLBACK_TYPE = 1 << 10,
	REEVE_QUEUE_ENTRY_TYPE = 1 << 11,
	REEVE_QUEUE_EXIT_TYPE = 1 << 12,
	REEVE_QUEUE_KEEP_COMPLETED = 1 << 13,
	REEVE_QUEUE_KEEP_DEAD = 1 << 14,
	REEVE_QUEUE_KEEP_CANCELLED = 1 << 15,
};

struct reeve_queue_settings {
	int32_t retry_limit;            /* retries of tasks that set no maximum of attempts; −1: the default, 4 */
	Reeve__V1__RetryPolicy retry; /* of tasks that set none; all 0: the default */
	int64_t resting_ms;             /* how long a worker's slot takes no task after one of this queue */
	int64_t waiting_ms;             /* the time from a worker's start until its first task, if that is of this queue */
	bool autostart;                 /* false: a new batch waits until the queue is started */
	bool verbose;                   /* the manager logs each step of its tasks */
	bool batches;                   /* the queue opens batches for its tasks */
	const char *callback_url;       /* called at begin and end of each batch; NULL or "": none */
	const char *callback_secret;    /* the key that signs those calls; never returned */
	bool callback_tasks;            /* the URL is also called at each task's end */
	const char *callback_type;      /* a task of this type is submitted at each of these events; NULL or "": none */
	const char *entry_type;         /* a task of this type runs before the first of a batch; NULL or "": none */
	const char *exit_type;          /* a task of this type runs after the last of a batch; NULL or "": none */
	int64_t keep_completed_ms;      /* how long the history keeps completed tasks: whole days; 0: the default */
	int64_t keep_dead_ms, keep_cancelled_ms; /* the same for dead and cancelled tasks */
};

/* Changes the settings in `fields` (or-ed from enum reeve_queue_field), for tasks submitted from then on. Settings that
 * need batches (autostart off, callbacks, entry and exit tasks) turn them on. */
bool reeve_queue_set(struct reeve_client *client, const char *queue, const struct reeve_queue_settings *settings,
    unsigned fields, struct reeve_failure *failure);

struct reeve_queue_description {
	const char *queue;
	struct reeve_queue_settings settings; /* without the secret */
	bool is_set;                          /* false: all settings are defaults */
	bool has_secret;
	const char *state;                    /* as in struct reeve_queue_status */
	int64_t created_us, updated_us;       /* when its settings or state were first and last changed, or 0 */
	const void *wire;
};

/* Reads a queue's settings. REEVE_NOT_FOUND: it has no settings and never had a task. Free with
 * reeve_queue_description_free(). */
struct reeve_queue_description *reeve_queue_describe(struct reeve_client *client, const char *queue,
    struct reeve_failure *failure);
void reeve_queue_description_free(struct reeve_queue_description *description);

struct reeve_queue_status {
	const char *queue;
	const char *state;                 /* "created", "not_started", "pending", "running", "paused", "stopping", "stopped", "finished" */
	int64_t since_us;                  /* since when it has this state; 0: unknown */
	const struct reeve_batch *batch;   /* the open batch, or the last one; NULL: there has never been one */
	int64_t open_batches;              /* batches that have not ended */
	int64_t waiting, running;          /* tasks */
	int64_t finished;                  /* ended tasks in the history */
	size_t n_workers;
	struct reeve_worker_info *workers; /* live workers that serve the queue: the first 100 */
	bool more_workers;                 /* there may be more; reeve_workers() reads all */
	const void *wire;
};

/* Reads a queue's status. Free with reeve_queue_status_free(). */
struct reeve_queue_status *reeve_queue_status(struct reeve_client *client, const char *queue, struct reeve_failure *failure);
void reeve_queue_status_free(struct reeve_queue_status *status);

enum reeve_queue_action {
	REEVE_QUEUE_START = 1,  /* its tasks can be claimed */
	REEVE_QUEUE_STOP = 2,   /* running tasks are cancelled, waiting ones end dead, open batches end */
	REEVE_QUEUE_PAUSE = 3,  /* no more tasks are claimed; running ones finish */
	REEVE_QUEUE_RESUME = 4, /* tasks are claimed again */
	REEVE_QUEUE_PURGE = 5,  /* waiting tasks are cancelled */
	REEVE_QUEUE_DELETE = 6, /* its settings are removed; refused while it has live tasks */
};

struct reeve_queue_controlled {
	char state[16]; /* "running", "not_started", "paused", "stopping", "stopped" */
	int64_t tasks;  /* the number that the call ended */
};

/* Executes an action on a queue. A stop continues after the call: reeve_queue_status shows when it is complete. */
bool reeve_queue_control(struct reeve_client *client, const char *queue, enum reeve_queue_action action,
    struct reeve_queue_controlled *controlled, struct reeve_failure *failure);

/*
 * Schedules: repeated tasks and actions.
 */

/* What happens to runs whose time passed while no manager could serve it. */
enum reeve_catch_up_policy {
	REEVE_CATCH_UP_SKIP = 1, /* they are skipped */
	REEVE_CATCH_UP_ONE = 2,  /* the latest one is caught up */
	REEVE_CATCH_UP_ALL = 3,  /* the latest `max_catch_up` are caught up */
};

/* What happens when a run is due and the previous run's task has not ended. */
enum reeve_concurrency_policy {
	REEVE_CONCURRENCY_ALLOW = 1,  /* they run concurrently */
	REEVE_CONCURRENCY_FORBID = 2, /* the run is skipped */
	REEVE_CONCURRENCY_QUEUE = 3,  /* the run waits until the previous one has ended */
};

/* The definition of a schedule. Exactly one of cron, every_ms and manual sets its times. It submits a task, or executes
 * an action on a queue. */
struct reeve_schedule_spec {
	const char *name;                       /* 1 to 255 bytes without control characters, unique */
	const char *cron;                       /* minute, hour, day of month, month, day of week; NULL: none */
	const char *zone;                       /* the time zone of `cron` and of dates in the key; NULL: UTC */
	int64_t every_ms;                       /* 100 ms to 3650 days; 0: no interval */
	int64_t start_us;                       /* every_ms counts from this time; 0: from now */
	bool manual;                            /* runs only by reeve_schedule_run */
	const Reeve__V1__TaskSpec *task;     /* without run_at_us and version; its key can have {name}, {date}, {time} */
	enum reeve_queue_action queue_action;   /* instead of a task: START, STOP, PAUSE or RESUME */
	const char *action_queue;               /* the queue of that action */
	enum reeve_catch_up_policy catch_up;          /* 0: ONE */
	uint32_t max_catch_up;                   /* for ALL: 1 to 1,000 */
	enum reeve_concurrency_policy concurrency_policy;         /* 0: QUEUE */
};

/* Which members an edit changes; they can be combined. A cron expression, an interval and `manual` are exclusive: each
 * replaces the others. */
enum reeve_schedule_field {
	REEVE_SCHEDULE_CRON = 1 << 0,
	REEVE_SCHEDULE_EVERY = 1 << 1,
	REEVE_SCHEDULE_MANUAL = 1 << 2,
	REEVE_SCHEDULE_ZONE = 1 << 3,
	REEVE_SCHEDULE_START = 1 << 4,
	REEVE_SCHEDULE_QUEUE_ACTION = 1 << 5,
	REEVE_SCHEDULE_ACTION_QUEUE = 1 << 6,
	REEVE_SCHEDULE_MISSED = 1 << 7,
	REEVE_SCHEDULE_OVERLAP = 1 << 8,
	REEVE_SCHEDULE_TASK_QUEUE = 1 << 9,
	REEVE_SCHEDULE_TASK_TYPE = 1 << 10,
	REEVE_SCHEDULE_TASK_DETAILS = 1 << 11,
	REEVE_SCHEDULE_TASK_PRIORITY = 1 << 12,
	REEVE_SCHEDULE_TASK_DELAY = 1 << 13,
	REEVE_SCHEDULE_TASK_KEY = 1 << 14,
	REEVE_SCHEDULE_TASK_KEY_TTL = 1 << 15,
	REEVE_SCHEDULE_TASK_MAX_ATTEMPTS = 1 << 16,
	REEVE_SCHEDULE_TASK_TIMEOUT = 1 << 17,
	REEVE_SCHEDULE_TASK_RETRY = 1 << 18,
	REEVE_SCHEDULE_TASK_SOURCE = 1 << 19,
	REEVE_SCHEDULE_TASK_BATCH = 1 << 20,
	REEVE_SCHEDULE_TASK_PIPELINE = 1 << 21, /* replaces the type, and what the stages define */
};

struct reeve_schedule {
	struct reeve_schedule_spec spec; /* missing strings are "", an action 0; task is NULL if it acts on a queue */
	bool paused;
	int64_t next_us;                 /* the next scheduled time, also while paused; in the past: it is due */
	int64_t last_scheduled_us;         /* the scheduled time of the last run; 0: it was manual */
	int64_t last_us;                 /* when the last run was handled; 0: there was none */
	const char *last_outcome;        /* as in struct reeve_schedule_run, or "" */
	int64_t last_task_id;            /* or 0 */
	int64_t waits_for;               /* it is due, and waits for the end of this task; 0: it does not */
	const char *source;              /* who added it */
	int64_t created_us, updated_us;
	size_t n_scheduled;
	const int64_t *scheduled_us;       /* from reeve_schedule_show: its next scheduled times */
	const void *wire;
};

/* Adds a schedule; REEVE_ALREADY_EXISTS if the name is taken. `request_id` as for reeve_submit. Returns NULL on an
 * error. Free with reeve_schedule_free(). */
struct reeve_schedule *reeve_schedule_add(struct reeve_client *client, const struct reeve_schedule_spec *spec,
    const uint8_t *request_id, struct reeve_failure *failure);

/* Changes the members in `fields` (or-ed from enum reeve_schedule_field) of the schedule spec->name; those that are
 * NULL or 0 in `spec` get their defaults. If its times change, it is scheduled again from now on. Returns NULL on an
 * error. Free with reeve_schedule_free(). */
struct reeve_schedule *reeve_schedule_edit(struct reeve_client *client, const struct reeve_schedule_spec *spec,
    unsigned fields, struct reeve_failure *failure);

/* Reads a schedule with its task's details (other functions leave them out) and its next `preview` times, up to 1,000.
 * Free with reeve_schedule_free(). */
struct reeve_schedule *reeve_schedule_show(
    struct reeve_client *client, const char *name, uint32_t preview, struct reeve_failure *failure);
void reeve_schedule_free(struct reeve_schedule *schedule);

struct reeve_schedules {
	size_t count;
	struct reeve_schedule *schedules;
	bool more; /* there are more: continue after the last one's name */
};

/* Reads schedules by name, those after `after_name` (NULL: from the first). `limit` is their maximum number, up to
 * 1,000 (0: 100). Free with reeve_schedules_free(). */
struct reeve_schedules *reeve_schedule_list(
    struct reeve_client *client, const char *after_name, uint32_t limit, struct reeve_failure *failure);
void reeve_schedules_free(struct reeve_schedules *schedules);

enum reeve_schedule_action {
	REEVE_SCHEDULE_PAUSE = 1,  /* it does not fire until it is resumed */
	REEVE_SCHEDULE_RESUME = 2, /* scheduled again from now on; times within the pause are skipped */
	REEVE_SCHEDULE_REMOVE = 3, /* its runs can still be listed, its tasks continue */
};

/* Executes an action on a schedule. */
bool reeve_schedule_control(struct reeve_client *client, const char *name, enum reeve_schedule_action action,
    struct reeve_failure *failure);

struct reeve_schedule_run {
	int64_t id;
	int64_t scheduled_us;                 /* its scheduled time; 0: a manual run */
	int64_t at_us;                      /* when it was handled */
	const char *outcome;                /* "submitted", "existing", "acted", "missed", "overlapped", "refused" */
	int64_t task_id;                    /* or 0 */
	enum reeve_task_status task_status; /* now; REEVE_TASK_ANY: there is no task (any more) */
	const char *actor;                  /* who started it manually, or "" */
	const char *note;
	const void *wire;
};

struct reeve_schedule_runs {
	size_t count;
	struct reeve_schedule_run *runs; /* newest first */
	int64_t next_before_id;          /* there may be more below this id; 0: there are none */
};

/* Runs a schedule now, even if it is paused; returns that run. `request_id` as for reeve_submit. Free with
 * reeve_schedule_runs_free(). */
struct reeve_schedule_runs *reeve_schedule_run(
    struct reeve_client *client, const char *name, const uint8_t *request_id, struct reeve_failure *failure);

/* Reads a page of the runs of a schedule, which may have been removed: those with ids below `before_id` (0: from the
 * newest). `limit` is their maximum number, up to 1,000 (0: 100). Free with reeve_schedule_runs_free(). */
struct reeve_schedule_runs *reeve_schedule_runs(struct reeve_client *client, const char *name, uint32_t limit,
    int64_t before_id, struct reeve_failure *failure);
void reeve_schedule_runs_free(struct reeve_schedule_runs *runs);

/*
 * Pipelines: tasks that run through stages, each with the previous one's result as its input. A task's pipeline is set
 * when the task is submitted.
 */

struct reeve_stage {
	const char *name;        /* 1 to 255 bytes without control characters; not "end" */
	const char *type;        /* chooses the handler */
	const char *next;        /* the next stage, "end": none; NULL or "": the following one in the list */
	uint32_t max_attempts;   /* 1 to 10,000; 0: 5 */
	int64_t timeout_ms;      /* of one attempt, up to 30 days; 0: 1 minute */
	const Reeve__V1__RetryPolicy *retry; /* NULL: exponential, from 1 second to 1 hour */
	const int32_t *priority; /* the task's priority from this stage on; NULL: unchanged */
};

struct reeve_pipeline {
	const char *name;        /* 1 to 255 bytes without control characters */
	size_t n_stages;         /* 1 to 100 */
	const struct reeve_stage *stages; /* the first is where tasks begin */
	uint32_t max_steps;      /* maximum number of stages that a task enters, 1 to 10,000; 0: 100 */
	int64_t id;              /* of this definition; id, created_us and source are ignored by reeve_pipeline_define */
	int64_t created_us;
	const char *source;
	const void *wire;
};

/* Defines a pipeline, or replaces its definition; tasks that have begun keep the one with which they began. Returns the
 * definition with all defaults; *changed (unless NULL) is set to false if it was the same before. Returns NULL on an
 * error; the failure names what is invalid. `request_id` as for reeve_submit. Free with reeve_pipeline_free(). */
struct reeve_pipeline *reeve_pipeline_define(struct reeve_client *client, const struct reeve_pipeline *pipeline,
    const uint8_t *request_id, bool *changed, struct reeve_failure *failure);

/* Reads a pipeline; REEVE_NOT_FOUND if it does not exist. Free with reeve_pipeline_free(). */
struct reeve_pipeline *reeve_pipeline_show(struct reeve_client *client, const char *name, struct reeve_failure *failure);
void reeve_pipeline_free(struct reeve_pipeline *pipeline);

struct reeve_pipelines {
	size_t count;
	struct reeve_pipeline *pipelines; /* by name */
};

/* Reads the current definitions of all pipelines. Free with reeve_pipelines_free(). */
struct reeve_pipelines *reeve_pipeline_list(struct reeve_client *client, struct reeve_failure *failure);
void reeve_pipelines_free(struct reeve_pipelines *pipelines);

/*
 * Metrics: numbers from applications, by category and name.
 */

enum { REEVE_METRICS_AT_ONCE = 1000 };

struct reeve_metric_value {
	const char *category; /* 1 to 255 bytes without control characters; not "manager" */
	const char *name;     /* 1 to 255 bytes without control characters */
	double value;         /* finite */
};

/* Sets metrics, up to REEVE_METRICS_AT_ONCE, all or none; *at_us (unless NULL) is set to the time. For concurrent calls
 * the database decides which is last. REEVE_FAILED_PRECONDITION if there are 10,000 names already and one is new. */
bool reeve_metrics_put(struct reeve_client *client, const struct reeve_metric_value *values, size_t count, int64_t *at_us,
    struct reeve_failure *failure);

/* Which metrics to list. Members that are NULL or 0 are no condition. */
struct reeve_metrics_query {
	const char *category;       /* only this one; "manager": the managers' own counters, as MANAGER/COUNTER */
	const char *after_category; /* only those after this category and name, for paging */
	const char *after_name;
	uint32_t limit;             /* maximum number, up to 10,000; 0: 1,000 */
};

struct reeve_metric {
	const char *category;
	const char *name;
	double value;
	int64_t changed_us; /* since when it has this value */
	int64_t updated_us; /* when it was last set */
	const char *source; /* who set it */
	const void *wire;
};

struct reeve_metrics {
	size_t count;
	struct reeve_metric *metrics;
	bool more; /* there are more */
};

/* Reads metrics, by category and name. Free with reeve_metrics_free(). */
struct reeve_metrics *reeve_metrics(
    struct reeve_client *client, const struct reeve_metrics_query *query, struct reeve_failure *failure);
void reeve_metrics_free(struct reeve_metrics *metrics);

#ifdef __GNUC__
#pragma GCC visibility pop
#endif

#ifdef __cplusplus
}
#endif

#endif
