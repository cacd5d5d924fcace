/*
 * libreeve: submits tasks to Reeve and follows them.
 *
 *     struct reeve_failure failure;
 *     struct reeve_client *client = reeve_client_create(NULL, &failure);
 *     struct reeve_task_spec spec = {.type = "mail", .details = "{\"to\":\"ann\"}", .key = "order-17"};
 *     struct reeve_submitted task;
 *
 *     if (!client || !reeve_submit(client, &spec, 1, NULL, &task, &failure))
 *             fprintf(stderr, "%s\n", failure.message);
 *     reeve_client_destroy(client);
 *
 * Points in time are int64 microseconds since 1970 UTC on the managers' clock, 0 for "never"; durations are int64
 * milliseconds. All text is UTF-8, ends with NUL and holds no other.
 *
 * Errors: functions return false or NULL, and fill the failure they were given (NULL: not wanted) with a code and a
 * sentence. A failure of theirs leaves the client as usable as before.
 *
 * Managers: a client knows one or several, equal to each other. A call whose manager dies or falls silent moves to
 * another by itself, or waits for one to return until its time is over. Calls that make or change something carry a
 * request id, so that being sent twice they do their work once.
 *
 * Threads: a client may be used from any number of threads at once; reeve_client_destroy is the last call. Functions
 * block until they are answered. They start threads of the library's own; callbacks run on the caller's thread, inside
 * the function that was given them, and may call the library.
 */
#ifndef REEVE_CLIENT_H
#define REEVE_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifdef __GNUC__ /* what stands here is all that the library shows */
#pragma GCC visibility push(default)
#endif

/* What kind of failure it was: gRPC's codes, with their numbers. */
enum reeve_code {
	REEVE_OK = 0,
	REEVE_CANCELLED = 1,           /* reeve_client_interrupt was called */
	REEVE_INVALID_ARGUMENT = 3,    /* a field is wrong; the message names it */
	REEVE_DEADLINE_EXCEEDED = 4,   /* sent, but not answered in time: it may have happened */
	REEVE_NOT_FOUND = 5,           /* no such task */
	REEVE_ALREADY_EXISTS = 6,      /* it exists, and differs */
	REEVE_PERMISSION_DENIED = 7,   /* not yet: no manager looks at tokens */
	REEVE_RESOURCE_EXHAUSTED = 8,  /* a bound of the manager was reached; come back later */
	REEVE_FAILED_PRECONDITION = 9, /* the task's state does not allow it */
	REEVE_ABORTED = 10,            /* somebody else was faster; ask again */
	REEVE_UNIMPLEMENTED = 12,      /* the manager is older than this library */
	REEVE_INTERNAL = 13,           /* a fault of the manager; its log says more */
	REEVE_UNAVAILABLE = 14,        /* no manager could be reached: nothing has happened */
	REEVE_UNAUTHENTICATED = 16,    /* not yet: no manager looks at tokens */
};

struct reeve_failure {
	enum reeve_code code;
	char message[512]; /* for people: what, with which field or object; no final full stop or newline */
};

/* "NOT_FOUND" for REEVE_NOT_FOUND; "UNKNOWN" for a number that means nothing. A constant string. */
const char *reeve_code_name(enum reeve_code code);

/*
 * The client.
 */

struct reeve_client;

struct reeve_client_options {
	const char *managers;       /* "tcp://a:7171,tcp://b:7171"; NULL: $REEVE_MANAGER, or tcp://127.0.0.1:7171 */
	const char *token;          /* to prove who calls; no manager looks at it yet; NULL: none */
	const char *actor;          /* how the audit is to name the caller; NULL: user@host; in a handler's program, task ID */
	int64_t connect_timeout_ms; /* how long the first call waits for some manager to be there; 0: 5 s */
	int64_t call_timeout_ms;    /* how long a call may take, over every resend; 0: 30 s */
	/* Called when a function has found no manager there for two seconds, and goes on looking; and, with `back`, when there
	 * is one again. May be NULL. */
	void (*absent)(void *arg, bool back);
	void *absent_arg; /* for all three of these */
	/* Called when managers have answered for two seconds that they refuse for now (REEVE_RESOURCE_EXHAUSTED, REEVE_ABORTED), and a
	 * function goes on trying; once until a call is answered otherwise. `message` says why. May be NULL. */
	void (*refused)(void *arg, const char *message);
	/* Called when a function has waited for a second for a manager that is there but cannot answer, as one that does not reach its
	 * database, and goes on waiting; once until a call is answered. `message` says why. May be NULL. */
	void (*waiting)(void *arg, const char *message);
};

/* Copies the options (NULL: the defaults) and begins to connect; that no manager is there is found out by the first
 * call. NULL if the options are wrong. reeve_client_destroy() it. */
struct reeve_client *reeve_client_create(const struct reeve_client_options *options, struct reeve_failure *failure);

/* Frees everything; NULL is allowed. */
void reeve_client_destroy(struct reeve_client *client);

/* Makes the calls that block now, and all further ones, fail with REEVE_CANCELLED. From any thread, though not from a
 * signal handler. */
void reeve_client_interrupt(struct reeve_client *client);

/* Waits until some manager is there, as the first call would. */
bool reeve_client_ready(struct reeve_client *client, struct reeve_failure *failure);

/* The managers' time; this machine's before the first contact. */
int64_t reeve_client_now_us(struct reeve_client *client);

/* The longest details that the managers take, in bytes; 0 before the first contact. */
size_t reeve_client_max_details(struct reeve_client *client);

/*
 * Retries.
 */

/* How the rest after the n-th failed attempt is reckoned. */
enum reeve_retry_kind {
	REEVE_RETRY_EXPONENTIAL = 1, /* base × 2^(n − 1) */
	REEVE_RETRY_FIXED = 2,       /* base */
	REEVE_RETRY_LINEAR = 3,      /* base + (n − 1) × step */
	REEVE_RETRY_POLYNOMIAL = 4,  /* base × n^exponent */
	REEVE_RETRY_LIST = 5,        /* the n-th of the delays, the last one for all that follow */
};

/* What is left 0 has its default. */
struct reeve_retry_policy {
	enum reeve_retry_kind kind; /* 0: exponential */
	int64_t base_ms;            /* 0: 1 second; for LINEAR the queue's resting period */
	int64_t max_ms;             /* the longest rest; 0: 1 hour, for FIXED and LIST 365 days */
	int64_t step_ms;            /* for LINEAR */
	double exponent;            /* for POLYNOMIAL, at most 10; 0: 2 */
	size_t n_delays;            /* for LIST, 1 to 100 */
	const int64_t *delays_ms;
	int32_t jitter_percent;     /* a random part of at most so much of the rest is taken off; 0: 25; −1: none */
};

/*
 * Submitting.
 */

/* A task to make. Only `type` (or `pipeline`) must be given: everything left 0 has its default. */
struct reeve_task_spec {
	const char *queue;      /* up to 255 bytes without control characters; NULL or "": "default" */
	const char *type;       /* chooses the handler; 1 to 255 bytes without control characters */
	const char *details;    /* the handler's input, JSON by convention; NULL: "" */
	size_t details_length;  /* its bytes; 0: up to the NUL */
	int32_t priority;       /* higher goes first; −1,000,000 to 1,000,000 */
	int64_t delay_ms;       /* due so long after the submit; not together with run_at_us */
	int64_t run_at_us;      /* due at this time; 0 or in the past: now */
	const char *key;        /* unique in the queue: a second submit with it answers the first's task; NULL: none */
	int64_t key_ttl_ms;     /* how long the key is kept; 0: until a day after the task ended */
	uint32_t max_attempts;  /* 1 to 10,000; 0: 5 */
	int64_t timeout_ms;     /* of one attempt, up to 30 days; 0: 1 minute */
	int64_t retry_base_ms;  /* the rest after the first failed attempt, doubled after each; 0: 1 second */
	int64_t retry_max_ms;   /* the longest rest; 0: 1 hour */
	const struct reeve_retry_policy *retry; /* instead of these two: how the rest grows; NULL: as they say, or the queue's */
	const char *source;     /* who posted it, for the record; NULL: the actor */
	/* With a key: if it is greater than the version that the key has, the key's task is run again as described here: at
	 * once if it waits or has ended, after its end if it is executing. If not, nothing changes. 0: none. */
	int64_t version;
	int64_t batch_id;       /* an open batch of its queue that it is to be in; 0: none, or the queue's implicit one */
	const char *pipeline;   /* instead of type, attempts, time-out and rests, which its stages say; NULL: none */
};

struct reeve_submitted {
	int64_t id;     /* the task's */
	bool existing;  /* its key was known: this is the earlier task, and nothing was made */
	bool restarted; /* besides, its version was newer: that task is run again as described now */
};

enum {
	REEVE_MAX_BATCH = 10000, /* tasks or ids in one call */
	REEVE_REQUEST_ID = 16,   /* bytes of a request id */
};

/* Makes a request id, a time-ordered UUID, for reeve_submit. It is good for a day. */
bool reeve_request_id(struct reeve_client *client, uint8_t request_id[REEVE_REQUEST_ID], struct reeve_failure *failure);

/* Makes `count` tasks, 1 to REEVE_MAX_BATCH, all or none; true after they are safely stored, with submitted[i] telling
 * of tasks[i]. After REEVE_DEADLINE_EXCEEDED they may or may not have been made; who must know gives a request id made
 * (and kept) beforehand and calls again with the same tasks and id. NULL: one is made for each call. */
bool reeve_submit(struct reeve_client *client, const struct reeve_task_spec *tasks, size_t count,
    const uint8_t *request_id, struct reeve_submitted *submitted, struct reeve_failure *failure);

/* Checks a task as reeve_submit does before it sends anything. True: nothing is wrong with it. The limit of details is
 * known after the first contact. */
bool reeve_check(struct reeve_client *client, const struct reeve_task_spec *task, struct reeve_failure *failure);

/* How a long row of tasks is submitted: in chunks, each a call of its own, several under way at once. */
struct reeve_stream {
	/* Fills in the next task (zeroed); its text must live until `next` is called again. False: there is none. */
	bool (*next)(void *arg, struct reeve_task_spec *task);
	/* Told of each chunk that is safely stored, in the tasks' order; `first` counts tasks from 0. May be NULL. */
	void (*stored)(void *arg, size_t first, const struct reeve_submitted *submitted, size_t count);
	/* Told of each chunk that was not stored (or is not known to be, by the code), likewise. May be NULL. */
	void (*missed)(void *arg, size_t first, size_t count, const struct reeve_failure *failure);
	void *arg;
	size_t chunk_tasks; /* at most so many tasks a chunk; 0: 1,000 */
	size_t chunk_bytes; /* and about so many bytes, at most half a message (a task alone may be longer); 0: 1 MiB */
	int in_flight;      /* chunks under way at once; 0: 4 */
};

/* Submits what `next` gives until it gives no more. Memory is bounded by the chunks in flight. A task that is wrong,
 * and a chunk that fails, end the stream: nothing further is sent, what is under way is waited for and told of. The
 * failure is the first one's. */
bool reeve_submit_stream(struct reeve_client *client, const struct reeve_stream *stream, struct reeve_failure *failure);

/*
 * Following tasks. What these functions return is the caller's, read-only, and freed as a whole.
 *
 * `wire` of every result is for reeve_json().
 */

enum reeve_task_status {
	REEVE_TASK_ANY = 0,       /* in filters */
	REEVE_TASK_QUEUED = 1,    /* waits for a worker, or for its time */
	REEVE_TASK_EXECUTING = 2, /* a worker holds it */
	REEVE_TASK_FAILED = 3,    /* the last attempt failed; it is tried again at run_at_us */
	REEVE_TASK_COMPLETED = 4, /* ended well */
	REEVE_TASK_DEAD = 5,      /* ended by a fatal error or with its attempts used up */
	REEVE_TASK_CANCELLED = 6, /* ended by a cancel */
};

/* "queued", "executing", …; "" for REEVE_TASK_ANY and numbers that mean nothing. A constant string. */
const char *reeve_task_status_name(enum reeve_task_status status);

/* The status of that name; REEVE_TASK_ANY if there is none. */
enum reeve_task_status reeve_task_status_by_name(const char *name);

/* True for completed, dead and cancelled. */
bool reeve_task_status_ended(enum reeve_task_status status);

enum reeve_recoverable {
	REEVE_RECOVERABLE_UNKNOWN = 0, /* there is no error, or nobody can tell: the task was ended dead by hand */
	REEVE_RECOVERABLE = 1,
	REEVE_UNRECOVERABLE = 2,
};

/* Why a task waits: the first of these that holds when the task is read. */
enum reeve_wait_reason {
	REEVE_WAITS_NOT = 0,            /* it does not wait; or an older manager, or a batch's report, does not say why */
	REEVE_WAITS_QUEUE_STOPPED = 1,  /* its queue is stopped, or being stopped */
	REEVE_WAITS_QUEUE_PAUSED = 2,
	REEVE_WAITS_QUEUE_HELD = 3,     /* its queue waits to be started */
	REEVE_WAITS_ADMISSION = 4,      /* it was submitted by SQL, and no manager has admitted it yet */
	REEVE_WAITS_BATCH_ENTRY = 5,    /* the entry task of its batch has not ended */
	REEVE_WAITS_RETRY_DELAY = 6,    /* its last attempt failed, and it is tried again at run_at_us */
	REEVE_WAITS_NOT_DUE = 7,        /* for its time, run_at_us */
	REEVE_WAITS_NO_WORKER = 8,      /* no worker that is alive takes its type in its queue; who pulls by hand is none */
	REEVE_WAITS_WORKERS_PAUSED = 9, /* every worker that takes it is paused or drains */
	REEVE_WAITS_WORKERS_BUSY = 10,  /* all slots of the workers that take it are busy */
	REEVE_WAITS_TURN = 11,          /* a worker will take it in its turn */
};

struct reeve_waiting {
	enum reeve_wait_reason reason;
	int64_t task_id;  /* BATCH_ENTRY: the entry task */
	uint32_t workers; /* WORKERS_PAUSED: how many take it; WORKERS_BUSY and TURN: how many, without those that pause or drain, */
	uint32_t slots;   /* how many tasks these run at once, */
	uint32_t busy;    /* and how many of those slots are busy */
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
	const char *last_error;   /* what the last failed attempt said, or "" */
	const char *error_code;   /* a short word for it: "exit:3", "timeout" */
	const char *worker;       /* which holds or last held it */
	int64_t token;            /* the running attempt's; also when the task last changed, in µs since 1970 */
	int64_t created_us;
	int64_t first_started_us; /* when its first attempt began */
	int64_t started_us;       /* when its latest attempt began */
	int64_t finished_us;      /* when it ended */
	int64_t expiry_us;        /* when a running attempt is taken back at the latest */
	bool cancel_requested;
	int64_t batch_id;         /* which batch it is in, 0: none */
	const char *remark;       /* what the last attempt's handler remarked, or "" */
	const char *stack;        /* a stack trace, or the end of stderr, of the last failed attempt; "" in lists */
	int64_t version;          /* as submitted with its key, 0: none */
	const char *pipeline;     /* which it passes through, or "" */
	const char *stage;        /* of it: the one it is in, or ended in */
	uint32_t step;            /* how many stages it has entered */
	uint32_t error_count;     /* attempts that ended badly so far */
	enum reeve_recoverable recoverable; /* whether the last error was one that is tried again */
	int64_t processing_ms;    /* how long the latest attempt that has ended took, from claim to end */
	struct reeve_waiting waiting;
	const void *wire;
};

/* Reads one task, live or finished; REEVE_NOT_FOUND if there is none. reeve_task_free() it. */
struct reeve_task *reeve_get(struct reeve_client *client, int64_t id, struct reeve_failure *failure);
void reeve_task_free(struct reeve_task *task);

/* Which tasks: those that match all that is given; of text NULL or "", of numbers 0 says nothing. */
struct reeve_where {
	unsigned statuses;           /* any of them: 1U << REEVE_TASK_DEAD | …; 0: see the function */
	const char *queue;
	const char *type;
	const char *error;           /* the whole text of its last error */
	const char *error_contains;  /* a part of it */
	const char *error_code;
	const char *key;
	const char *source;
	int64_t older_ms;            /* submitted at least so long ago */
	int64_t newer_ms;            /* submitted at most so long ago */
	int64_t running_longer_ms;   /* executing, its attempt begun at least so long ago */
	int64_t batch_id;
	int64_t after_id;            /* only ids above this one, to go on */
};

/* Which tasks a list is to hold: those that match all that is given. */
struct reeve_filter {
	enum reeve_task_status status;
	const char *queue;  /* NULL or "": any */
	const char *type;   /* NULL or "": any */
	uint32_t limit;     /* at most REEVE_MAX_BATCH; 0: 100 */
	int64_t before_id;  /* only ids below this one, to page on; 0: from the newest */
	const struct reeve_where *where; /* further conditions, or NULL; statuses 0: all */
};

struct reeve_tasks {
	size_t count;
	struct reeve_task *tasks;
	int64_t next_before_id; /* of reeve_list: there may be more below this id, also if none were found; 0: there are none */
};

/* Reads tasks, newest first, without details and results. A manager looks at a bounded number of tasks for an answer: to read
 * on, give before_id = next_before_id until that is 0. reeve_tasks_free() them. */
struct reeve_tasks *reeve_list(struct reeve_client *client, const struct reeve_filter *filter,
    struct reeve_failure *failure);
void reeve_tasks_free(struct reeve_tasks *tasks);

struct reeve_wait {
	int64_t timeout_ms; /* in all; 0: only look; negative: until all have ended */
	int64_t look_ms;    /* how long one look may take before `looked` is called; 0 or more than 20 s: 20 s */
	/* Called once for each task that has ended; it has its result, not its details, and lives until then. */
	void (*ended)(void *arg, const struct reeve_task *task);
	/* Called after each look with the number of tasks not ended; false: wait no longer. */
	bool (*looked)(void *arg, size_t pending);
	void *arg;
};

/* Waits for tasks to end, any number of them; repeated ids count once. True: *pending (NULL: not wanted) says how many
 * had not ended when the time was over. Functions left NULL are not called. */
bool reeve_wait(struct reeve_client *client, const int64_t *ids, size_t count, const struct reeve_wait *wait,
    size_t *pending, struct reeve_failure *failure);

/*
 * Changing tasks, 1 to REEVE_MAX_BATCH in one call. If none of them exists, the call fails with REEVE_NOT_FOUND.
 */

struct reeve_change {
	int64_t id;
	enum reeve_task_status status; /* after the call */
	bool changed;                  /* whether this call changed anything */
	const char *note;              /* why not, or "" */
	const void *wire;
};

struct reeve_changes {
	size_t count;
	struct reeve_change *changes;  /* of the tasks that exist, in the order asked */
	size_t n_not_found;
	const int64_t *not_found;      /* ids that name no task */
	int64_t next_after_id;         /* of reeve_…_where: there may be more tasks above this id; 0: there are none */
};

/* Cancels: tasks that wait end at once, running ones are told to stop. `reason` is for the audit, NULL: none.
 * reeve_changes_free() the answer. */
struct reeve_changes *reeve_cancel(struct reeve_client *client, const int64_t *ids, size_t count, const char *reason,
    struct reeve_failure *failure);

/* Ends tasks dead, with the error code "killed" and the reason as their error (NULL: "killed by request"): those that wait at
 * once, running ones when their workers have stopped them. */
struct reeve_changes *reeve_kill(struct reeve_client *client, const int64_t *ids, size_t count, const char *reason,
    struct reeve_failure *failure);

/* Runs tasks again now: those that wait become due, ended ones start afresh under the same id. */
struct reeve_changes *reeve_retry(struct reeve_client *client, const int64_t *ids, size_t count,
    struct reeve_failure *failure);

/* The same; and executing ones are stopped by their workers and queued again, without the attempt being counted, unless it
 * ends well before. */
struct reeve_changes *reeve_restart(struct reeve_client *client, const int64_t *ids, size_t count,
    struct reeve_failure *failure);

/* What is to change; what is left 0 stays. */
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
 * Changing all tasks that match. Each call takes up to 1,000 of them, by id, chosen and changed in one transaction; go on with
 * where.after_id = next_after_id until that is 0 (an answer on the way may be empty). There must be a condition. Without statuses all that have not ended are
 * meant (of an update of run_at_us: all that wait); of a retry failed, dead and cancelled ones, and with running_longer_ms
 * executing ones, which are stopped and started again. `dry_run` changes nothing and only tells which tasks those are.
 */

struct reeve_changes *reeve_cancel_where(struct reeve_client *client, const struct reeve_where *where, bool dry_run,
    const char *reason, struct reeve_failure *failure);
struct reeve_changes *reeve_kill_where(struct reeve_client *client, const struct reeve_where *where, bool dry_run,
    const char *reason, struct reeve_failure *failure);
struct reeve_changes *reeve_retry_where(struct reeve_client *client, const struct reeve_where *where, bool dry_run,
    struct reeve_failure *failure);
struct reeve_changes *reeve_update_where(struct reeve_client *client, const struct reeve_where *where, bool dry_run,
    const struct reeve_update *update, struct reeve_failure *failure);

/*
 * What happened.
 */

struct reeve_event {
	int64_t at_us;
	int64_t task_id;    /* 0: an event of a worker alone */
	int64_t token;      /* the version of the task that the event made or met */
	const char *event;  /* "submitted", "claimed", "completed", … */
	const char *worker; /* its name, or "" */
	int64_t worker_id;  /* its incarnation, or 0 */
	uint32_t attempt;   /* or 0 */
	const char *actor;  /* who asked for it, or "" */
	const char *note;   /* the error, the reason, what changed */
	const void *wire;
};

struct reeve_events {
	size_t count;
	struct reeve_event *events; /* oldest first */
	bool more;                  /* there are older ones than the limit allows; of a page: there is a next page */
	const char *next_page;      /* of a page: where the next one begins; "": there is none */
};

/* Reads the newest `limit` events, up to 100,000 (0: 1,000): of one task, or of all (task_id 0); from a time on, or all that are
 * kept (since_us 0). reeve_events_free() them. */
struct reeve_events *reeve_audit(struct reeve_client *client, int64_t task_id, int64_t since_us, uint32_t limit,
    struct reeve_failure *failure);

/* Reads a page of the events, from the oldest on: the first (page NULL), or the next after one that was read before (its next_page).
 * A page may be empty, and yet have a next one. Of all tasks, events of a later page may belong among those of an earlier one: the
 * claim of an attempt comes with its end. What happens after the first page was asked for need not be on any page.
 * reeve_events_free() it, after the next was read. */
struct reeve_events *reeve_audit_page(struct reeve_client *client, int64_t task_id, int64_t since_us, const char *page,
    struct reeve_failure *failure);
void reeve_events_free(struct reeve_events *events);

/*
 * The state of things.
 */

struct reeve_queue {
	const char *queue;
	const char *type;
	int64_t queued;        /* due, waiting for a worker */
	int64_t delayed;       /* waiting for their time */
	int64_t executing;
	int64_t failed;        /* waiting to be tried again */
	int64_t oldest_due_us; /* since when the longest waiting due task is due */
	const void *wire;
};

struct reeve_queues {
	size_t count;
	struct reeve_queue *queues; /* one for each queue and type */
};

/* Reads the queues; `queue` NULL or "": all. reeve_queues_free() them. */
struct reeve_queues *reeve_queues(struct reeve_client *client, const char *queue, struct reeve_failure *failure);
void reeve_queues_free(struct reeve_queues *queues);

struct reeve_worker_info {
	int64_t incarnation;
	const char *name;
	const char *host;
	int32_t pid;
	const char *state;         /* "alive", "late", "gone" */
	uint32_t concurrency;      /* handlers it runs at once */
	int64_t holding;           /* attempts assigned to it and open */
	size_t n_queues;
	const char *const *queues; /* none: all */
	size_t n_types;
	const char *const *types;  /* none: all */
	int64_t registered_us;
	int64_t heartbeat_us;      /* its last */
	const char *version;
	const char *doing;         /* "running", "paused", "draining": what it says of itself */
	int64_t doing_since_us;
	int64_t succeeded, failed; /* attempts that it completed, and those that failed with it */
	int64_t uptime_ms;         /* since it registered; of one that is gone, until it was last heard of */
	bool by_hand;              /* somebody who pulls tasks by hand: no heartbeats come */
	const void *wire;
};

struct reeve_workers {
	size_t count;
	struct reeve_worker_info *workers;
};

/* Which workers. */
struct reeve_workers_query {
	bool all;          /* also those that are gone, and those by hand that hold nothing */
	const char *queue; /* only those that serve it; NULL or "": any */
};

/* Reads the workers by incarnation, all pages of them. reeve_workers_free() them. */
struct reeve_workers *reeve_workers(
    struct reeve_client *client, const struct reeve_workers_query *query, struct reeve_failure *failure);
void reeve_workers_free(struct reeve_workers *workers);

/*
 * Control of workers. An order stands for as long as the worker's registration: it comes with every answer to a heartbeat,
 * whichever manager gives that, until it is taken back. A worker that registers anew (because it was started again, or
 * counted as lost) knows of none.
 */

enum reeve_worker_action {
	REEVE_WORKER_DRAIN = 1,  /* take no more tasks, finish those that run, end */
	REEVE_WORKER_PAUSE = 2,  /* take no more tasks for now; those that run finish */
	REEVE_WORKER_RESUME = 3, /* take tasks again */
	REEVE_WORKER_STOP = 4,   /* take no more tasks, give back those that run, end */
	REEVE_WORKER_SCALE = 5,  /* run so many handlers at once from now on */
};

struct reeve_names {
	size_t count;
	const char *const *names; /* the first 1,000 */
	size_t told;              /* how many they are in all */
	const void *wire;
};

/* Orders something of the living worker of this name, or of all (NULL). `concurrency`: for REEVE_WORKER_SCALE, 1 to 10,000;
 * else 0. Answers whom it was told; reeve_names_free() them. REEVE_NOT_FOUND: no such worker is alive. */
struct reeve_names *reeve_control_workers(struct reeve_client *client, const char *name,
    enum reeve_worker_action action, uint32_t concurrency, struct reeve_failure *failure);
void reeve_names_free(struct reeve_names *names);

/*
 * Pulling by hand: taking tasks without being a worker. What was taken is nobody else's until it is reported, or its time
 * (the task's time-out and a few seconds, or what reeve_extend has made of it) is over; no heartbeats are needed.
 */

struct reeve_fetch {
	const char *name;           /* who pulls, for the audit; NULL: user@host */
	size_t n_queues;
	const char *const *queues;  /* none: all */
	size_t n_types;
	const char *const *types;   /* none: all */
	size_t n_exclude;
	const int64_t *exclude;     /* tasks that are not wanted, up to 1,000 */
	uint32_t most;              /* so many at most, up to 10,000; 0: 1 */
	int64_t wait_ms;            /* how long to wait for the first; 0: only look */
};

struct reeve_taken {
	int64_t id;
	int64_t token;              /* names this attempt together with the id: whoever has it may report or extend */
	const char *queue;
	const char *type;
	const char *details;
	const char *key;            /* or "" */
	const char *stage;          /* of its pipeline, or "" */
	uint32_t attempt;           /* from 1 */
	uint32_t max_attempts;
	int64_t timeout_ms;
	int64_t expires_in_ms;      /* lost so long after the call returned */
	const void *wire;
};

struct reeve_taken_list {
	int64_t incarnation;        /* as what they were taken */
	size_t count;               /* 0: there was nothing in time */
	struct reeve_taken *tasks;
};

/* Takes tasks, by their priorities, as a worker would be given them. No two callers are given the same attempt. NULL: *failure
 * says why; what a call whose answer was lost was given goes to others, at the latest when its time is over.
 * reeve_taken_free() them. */
struct reeve_taken_list *reeve_fetch(
    struct reeve_client *client, const struct reeve_fetch *fetch, struct reeve_failure *failure);
void reeve_taken_free(struct reeve_taken_list *list);

enum reeve_outcome_kind {
	REEVE_OUTCOME_COMPLETED = 1, /* well, with a result */
	REEVE_OUTCOME_FAILED = 2,    /* badly; try again later */
	REEVE_OUTCOME_FATAL = 3,     /* badly; never try again */
	REEVE_OUTCOME_RETURNED = 4,  /* given back: costs no attempt, due at once */
};

struct reeve_report {
	int64_t id, token;          /* the attempt */
	enum reeve_outcome_kind outcome;
	const char *result;         /* completed; NULL: "" */
	const char *error;          /* else: what went wrong; NULL: "" */
	const char *error_code;     /* a short word for it, up to 255 bytes; NULL: none */
	const char *remark;         /* kept with the task; NULL: none */
	const char *stack;          /* a stack trace; NULL: none */
	int64_t retry_in_ms;        /* failed: try again after so long; 0: as the task's policy says */
	const char *stage;          /* completed: the stage of its pipeline that follows, "end": none; NULL: as that says */
};

/* Says how an attempt ended. True: that is committed, by this call or an earlier copy of it. REEVE_FAILED_PRECONDITION: the
 * token does not hold the task (any more); nothing was changed, and the audit says so. REEVE_INVALID_ARGUMENT: the result is
 * wrong; if it is too long the attempt was ended as fatal, and the message says so. REEVE_UNAVAILABLE, after some seconds: another
 * transaction has locked the task, or its batch. */
bool reeve_report(struct reeve_client *client, const struct reeve_report *report, struct reeve_failure *failure);

/* Lets an attempt take so much longer from now. *run_ms (NULL: not wanted): how long it may, less than asked where the manager's
 * bound comes first; *expires_in_ms (likewise): when it is lost. REEVE_FAILED_PRECONDITION: the token does not hold the task. */
bool reeve_extend(struct reeve_client *client, int64_t id, int64_t token, int64_t by_ms, int64_t *run_ms,
    int64_t *expires_in_ms, struct reeve_failure *failure);

struct reeve_callback {
	int64_t id;             /* a receiver finds it in the header webhook-id, behind "cb_" */
	int64_t batch_id;
	int64_t task_id;        /* 0: of the batch */
	const char *event;      /* "batch_begin", "batch_end", "task_end" */
	const char *url;
	const char *state;      /* "waiting", "delivered", "given_up" */
	uint32_t attempts;      /* tries begun */
	int32_t last_status;    /* of HTTP; 0: there was no answer */
	const char *last_error; /* what went wrong last, or "" */
	int64_t created_us;
	int64_t next_us;        /* when it is tried again, or how long a try is waited for; 0: never */
	int64_t ended_us;       /* when it was delivered or given up */
	const void *wire;
};

/* Which callbacks a list is to hold. */
struct reeve_callback_filter {
	int64_t batch_id;   /* 0: of any batch */
	const char *state;  /* NULL or "": any */
	uint32_t limit;     /* at most 1,000; 0: 100 */
	int64_t before_id;  /* only ids below this one, to page on; 0: from the newest */
};

struct reeve_callbacks {
	size_t count;
	struct reeve_callback *callbacks; /* newest first */
	int64_t next_before_id;           /* there may be more below this id, also if there are none here; 0: there are none */
};

/* Reads callbacks. reeve_callbacks_free() them. */
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
	struct reeve_counter *counters;             /* the manager's own */
	const void *wire;
};

/* Reads totals. reeve_stats_free() them. */
struct reeve_stats *reeve_stats(struct reeve_client *client, struct reeve_failure *failure);
void reeve_stats_free(struct reeve_stats *stats);

/* What may be measured, for whoever raises alarms. */
enum reeve_check_kind {
	REEVE_CHECK_DEAD = 1,          /* tasks that ended dead within the last hour */
	REEVE_CHECK_FAILED = 2,        /* tasks that have failed and wait to be tried again */
	REEVE_CHECK_OLDEST_QUEUED = 3, /* how long the longest waiting due task is due, in queues that give tasks */
	REEVE_CHECK_RUNNING = 4,       /* attempts that have been executing for longer than `longer_ms` */
	REEVE_CHECK_SCHEDULES = 5,     /* schedules that are not paused, and overdue by more than `longer_ms` */
	REEVE_CHECK_CALLBACKS = 6,     /* callbacks given up within the last hour */
	REEVE_CHECK_UNSERVED = 7,      /* tasks that wait, in queues that give tasks, and that no worker takes */
	REEVE_CHECK_HELD = 8,          /* tasks that wait in queues that give none: paused, held, being stopped, stopped */
};

struct reeve_check_question {
	enum reeve_check_kind kind; /* each at most once */
	int64_t longer_ms;          /* for RUNNING and SCHEDULES; else 0 */
};

struct reeve_check_query {
	const char *queue;  /* NULL or "": all; REEVE_NOT_FOUND if nobody knows it */
	const char *type;   /* NULL or "": all; likewise */
	size_t count;       /* 0: only whether the manager and its database answer */
	const struct reeve_check_question *questions;
	int64_t timeout_ms; /* how long to try, the way to a manager apart; 0: the client's call_timeout_ms */
};

/* One of what was found: a task, a schedule, or a group of tasks or callbacks. */
struct reeve_check_example {
	int64_t count;      /* how many it stands for */
	int64_t ms;         /* for how long it has waited, run, or been late */
	int64_t task_id;    /* the task, or the latest of those of the group that were looked at; 0: none */
	const char *queue;
	const char *type;
	const char *name;   /* RUNNING: the worker; SCHEDULES: the schedule; DEAD and FAILED: the error code; CALLBACKS: the host;
	                     * HELD: the queue's state */
	int64_t waits_for;  /* SCHEDULES: the task of its former run, which it waits for; 0: none */
	const void *wire;
};

struct reeve_check_measure {
	enum reeve_check_kind kind;
	int64_t count;      /* how many there are */
	int64_t longest_ms; /* the longest of all, beyond longer_ms or not */
	size_t n_examples;  /* ten at most: the most, or the longest, first */
	struct reeve_check_example *examples;
	int64_t looked_at;  /* so many the examples were taken from: all, or of FAILED about 1,000 */
};

struct reeve_measures {
	const char *manager; /* who answered */
	size_t count;        /* one measure for each question, in their order */
	struct reeve_check_measure *measures;
};

/* Measures what grows that should not; it is cheap, whatever waits and whatever has ended. A manager that does not reach its
 * database is passed over; with none left it fails when its time is over. reeve_measures_free() it. */
struct reeve_measures *reeve_measure(
    struct reeve_client *client, const struct reeve_check_query *query, struct reeve_failure *failure);
void reeve_measures_free(struct reeve_measures *measures);

/* What went wrong. */
struct reeve_error_group {
	const char *error;      /* the text; of a group by code, that of its latest */
	const char *error_code; /* the code; of a group by text, that of its latest */
	int64_t attempts;       /* how many ended so */
	int64_t waiting;        /* tasks that wait to be tried again after it */
	int64_t dead;           /* tasks that ended dead by it */
	int64_t first_us, last_us;
	int64_t example_id;     /* the task it was last seen at */
	const void *wire;
};

struct reeve_error_groups {
	size_t count;
	struct reeve_error_group *groups; /* those with most attempts first */
	bool more;                        /* the limit cut them off */
};

struct reeve_errors_query {
	bool by_code;      /* else by text */
	const char *queue; /* NULL or "": any */
	const char *type;  /* NULL or "": any */
	int64_t since_us;  /* 0: the last day */
	uint32_t limit;    /* so many groups; 0: 100. All pages are read in any case */
};

/* Reads them. reeve_error_groups_free() them. */
struct reeve_error_groups *reeve_errors(struct reeve_client *client, const struct reeve_errors_query *query,
    struct reeve_failure *failure);
void reeve_error_groups_free(struct reeve_error_groups *groups);

/* Attempts that ended. */
struct reeve_execution_count {
	int64_t hour_us;   /* by hour: when it began */
	const char *queue; /* by type */
	const char *type;  /* by type */
	int64_t count;
	int64_t completed; /* of them, those that ended well */
	int64_t total_ms, average_ms, fastest_ms, slowest_ms; /* from claim to end */
	int64_t last_us;   /* when the last one ended */
	const void *wire;
};

struct reeve_executions {
	size_t count;
	struct reeve_execution_count *counts;
};

struct reeve_executions_query {
	bool by_type;      /* else by the hour (UTC) in which they ended */
	const char *queue; /* NULL or "": any */
	const char *type;  /* NULL or "": any */
	int64_t since_us;  /* 0: the last day */
};

/* Reads them. reeve_executions_free() them. */
struct reeve_executions *reeve_executions(struct reeve_client *client, const struct reeve_executions_query *query,
    struct reeve_failure *failure);
void reeve_executions_free(struct reeve_executions *executions);

/*
 * Batches: tasks that are counted together.
 */

/* A batch to open. Only `name` must be given; what is left NULL is as the queue says. */
struct reeve_batch_spec {
	const char *name;            /* for people; up to 255 bytes without control characters */
	const char *queue;           /* where its tasks will be; NULL or "": "default" */
	const char *callback_url;    /* http:// or https://, told of its begin and end */
	const char *callback_secret; /* what those calls are signed with */
	bool callback_tasks;         /* the URL is told of each task's end, too */
	const char *callback_type;   /* a task of this type is submitted for begin, end, and each task's end */
	const char *entry_type;      /* a task of this type runs before the first */
	const char *exit_type;       /* a task of this type runs after the last */
};

struct reeve_batch {
	int64_t id;
	const char *name;
	const char *queue;
	bool implicit;                        /* made by the queue itself */
	const char *state;                    /* "open", "closed", "ended" */
	const char *phase;                    /* "new", "entry", "releasing", "running", "exit", "ended" */
	int64_t submitted, pending;           /* tasks, without entry and exit; those that have not ended */
	int64_t success, failed;              /* completed; dead or cancelled */
	int64_t created_us, started_us, closed_us, ended_us;
	int64_t duration_ms;                  /* from its start to its end, or to now */
	int64_t remaining_ms;                 /* an estimate; −1: nobody can tell yet */
	int64_t entry_id, exit_id;            /* tasks, or 0 */
	const char *entry_status, *exit_status; /* how they ended, or "" */
	const char *source;                   /* who opened it */
	int64_t callbacks_waiting, callbacks_given_up;
	/* In lists and reports: its entry or exit task if that waits, else the first by id that does, looked for among the first that
	 * have not ended. */
	struct reeve_waiting_task {
		int64_t id; /* 0: none was found */
		int64_t run_at_us; /* when it is due, or was */
		uint32_t attempt;  /* attempts begun so far */
		struct reeve_waiting waiting;
	} first_waiting;
	const void *wire;
};

/* Opens a batch; its number is *id. The request id as for reeve_submit: NULL: one is made. */
bool reeve_batch_open(struct reeve_client *client, const struct reeve_batch_spec *spec, const uint8_t *request_id,
    int64_t *id, struct reeve_failure *failure);

/* Closes one: it takes no more tasks, and ends when those that it has have ended. REEVE_FAILED_PRECONDITION if it was
 * closed before. NULL: it was not. reeve_batch_free() it. */
struct reeve_batch *reeve_batch_close(struct reeve_client *client, int64_t id, struct reeve_failure *failure);
void reeve_batch_free(struct reeve_batch *batch);

/* Which batches a list is to hold. */
struct reeve_batch_filter {
	const char *queue;  /* NULL or "": any */
	bool open_only;     /* only those that have not ended */
	uint32_t limit;     /* at most 1,000; 0: 100 */
	int64_t before_id;  /* only ids below this one, to page on; 0: from the newest */
};

struct reeve_batches {
	size_t count;
	struct reeve_batch *batches; /* newest first */
	int64_t next_before_id;      /* there may be more below this id, also if there are none here; 0: there are none */
};

/* Reads batches. reeve_batches_free() them. */
struct reeve_batches *reeve_batch_list(
    struct reeve_client *client, const struct reeve_batch_filter *filter, struct reeve_failure *failure);
void reeve_batches_free(struct reeve_batches *batches);

struct reeve_batch_report {
	struct reeve_batch batch;
	size_t count;
	struct reeve_task *tasks; /* by id; without details and results */
	bool more;                /* there are more: go on after the last one's id */
};

/* Reads a batch and its tasks with ids above `after_id`, at most `limit` of them, up to 10,000 (0: so many).
 * reeve_batch_report_free() it. */
struct reeve_batch_report *reeve_batch_report(struct reeve_client *client, int64_t id, int64_t after_id, uint32_t limit,
    struct reeve_failure *failure);
void reeve_batch_report_free(struct reeve_batch_report *report);

/*
 * Queues. A queue need not be made: one that nobody has set anything of has the defaults.
 */

/* Which settings a call changes; any of them together. */
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
	int32_t retry_limit;            /* attempts after the first, of tasks that don't say; −1: the default, 4 */
	struct reeve_retry_policy retry; /* of tasks that don't say; all 0: the default */
	int64_t resting_ms;             /* a worker's slot rests so long between two of its tasks */
	int64_t waiting_ms;             /* a worker waits so long, from its start on, before its first task */
	bool autostart;                 /* off: a new batch waits until the queue is started */
	bool verbose;                   /* the manager logs each step of its tasks */
	bool batches;                   /* its tasks make batches by themselves */
	const char *callback_url;       /* told of begin and end of each batch; NULL or "": nobody */
	const char *callback_secret;    /* what those calls are signed with; never told */
	bool callback_tasks;            /* the URL is told of each task's end, too */
	const char *callback_type;      /* a task of this type is submitted for each of them; NULL or "": none */
	const char *entry_type;         /* a task of this type runs before the first of a batch; NULL or "": none */
	const char *exit_type;          /* a task of this type runs after the last of a batch; NULL or "": none */
	int64_t keep_completed_ms;      /* how long the history keeps completed tasks, in whole days; 0: the default */
	int64_t keep_dead_ms, keep_cancelled_ms; /* likewise */
};

/* Changes the settings that `fields` names (ored from enum reeve_queue_field). They go for tasks submitted from then on. What
 * needs batches (autostart off, callbacks, entry and exit tasks) turns them on. */
bool reeve_queue_set(struct reeve_client *client, const char *queue, const struct reeve_queue_settings *settings,
    unsigned fields, struct reeve_failure *failure);

struct reeve_queue_description {
	const char *queue;
	struct reeve_queue_settings settings; /* without the secret */
	bool is_set;                          /* false: all of them are defaults */
	bool has_secret;
	const char *state;                    /* as in struct reeve_queue_status */
	int64_t created_us, updated_us;       /* when it was first and last set or controlled, or 0 */
	const void *wire;
};

/* Reads a queue's settings. REEVE_NOT_FOUND: nobody has set any, and no task was ever in it. reeve_queue_description_free()
 * it. */
struct reeve_queue_description *reeve_queue_describe(struct reeve_client *client, const char *queue,
    struct reeve_failure *failure);
void reeve_queue_description_free(struct reeve_queue_description *description);

struct reeve_queue_status {
	const char *queue;
	const char *state;                 /* "created", "pending", "running", "paused", "stopping", "stopped", "finished" */
	int64_t since_us;                  /* or 0: not known */
	const struct reeve_batch *batch;   /* the open one, or the last; NULL: there has never been one */
	int64_t open_batches;              /* how many have not ended */
	int64_t waiting, running;          /* tasks */
	int64_t finished;                  /* as far as the history goes */
	size_t n_workers;
	struct reeve_worker_info *workers; /* those that serve it and live: the first 100 */
	bool more_workers;                 /* there may be more; reeve_workers() reads them all */
	const void *wire;
};

/* Reads how a queue stands. reeve_queue_status_free() it. */
struct reeve_queue_status *reeve_queue_status(struct reeve_client *client, const char *queue, struct reeve_failure *failure);
void reeve_queue_status_free(struct reeve_queue_status *status);

enum reeve_queue_action {
	REEVE_QUEUE_START = 1,  /* tasks may be taken */
	REEVE_QUEUE_STOP = 2,   /* running tasks are cancelled, waiting ones end dead, open batches end */
	REEVE_QUEUE_PAUSE = 3,  /* no task is taken any more; running ones finish */
	REEVE_QUEUE_RESUME = 4, /* tasks are taken again */
	REEVE_QUEUE_PURGE = 5,  /* what waits is cancelled */
	REEVE_QUEUE_DELETE = 6, /* its settings go; refused while it has live tasks */
};

struct reeve_queue_controlled {
	char state[16]; /* "running", "pending" (it waits to be started), "paused", "stopping", "stopped" */
	int64_t tasks;  /* how many the call has ended */
};

/* Does something with a queue. A stop goes on when the call is over: reeve_queue_status tells when it is done. */
bool reeve_queue_control(struct reeve_client *client, const char *queue, enum reeve_queue_action action,
    struct reeve_queue_controlled *controlled, struct reeve_failure *failure);

/*
 * Schedules: what is to happen again and again.
 */

/* What is done about runs whose time passed while no manager was there. */
enum reeve_missed_runs {
	REEVE_MISSED_SKIP = 1, /* nothing */
	REEVE_MISSED_ONE = 2,  /* the latest is made up for */
	REEVE_MISSED_ALL = 3,  /* the latest `missed_most` are */
};

/* What is done when the time has come and the former run's task has not ended. */
enum reeve_run_overlap {
	REEVE_OVERLAP_SKIP = 1,  /* there is no run */
	REEVE_OVERLAP_QUEUE = 2, /* it waits until the former one has ended */
	REEVE_OVERLAP_ALLOW = 3, /* they run beside each other */
};

/* A definition. Exactly one of cron, every_ms and manual says when; a task or an action on a queue says what. */
struct reeve_schedule_spec {
	const char *name;                       /* 1 to 255 bytes without control characters, unique */
	const char *cron;                       /* minute, hour, day of month, month, day of week; NULL: none */
	const char *zone;                       /* by the clocks of this time zone; NULL: UTC */
	int64_t every_ms;                       /* from 100 ms to 3650 days; 0: not at an interval */
	int64_t start_us;                       /* every_ms is counted from here; 0: from now */
	bool manual;                            /* only by reeve_schedule_run */
	const struct reeve_task_spec *task;     /* without run_at_us and version; its key may have {name}, {date}, {time} in it */
	enum reeve_queue_action queue_action;   /* or START, STOP, PAUSE, RESUME */
	const char *action_queue;               /* of this queue */
	enum reeve_missed_runs missed;          /* 0: ONE */
	uint32_t missed_most;                   /* for ALL: 1 to 1,000 */
	enum reeve_run_overlap overlap;         /* 0: QUEUE */
};

/* Which parts of it an edit changes; any of them together. A cron expression, an interval and manual replace each other. */
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
	REEVE_SCHEDULE_TASK_PIPELINE = 1 << 21, /* replaces the type, and what its stages say */
};

struct reeve_schedule {
	struct reeve_schedule_spec spec; /* text that is not there is "", an action 0; task NULL if it acts on a queue */
	bool paused;
	int64_t next_us;                 /* when it comes next, paused or not; in the past: it is due */
	int64_t last_planned_us;         /* the last run: when it was planned, 0: by hand */
	int64_t last_us;                 /* when it was dealt with, 0: there was none */
	const char *last_outcome;        /* as in struct reeve_schedule_run, or "" */
	int64_t last_task_id;            /* or 0 */
	int64_t waits_for;               /* it is due, and waits for this task's end; 0: it does not */
	const char *source;              /* who added it */
	int64_t created_us, updated_us;
	size_t n_planned;
	const int64_t *planned_us;       /* from reeve_schedule_show: when it would come next */
	const void *wire;
};

/* Adds a definition; REEVE_ALREADY_EXISTS if the name is taken. The request id as for reeve_submit. NULL: it was not.
 * reeve_schedule_free() it. */
struct reeve_schedule *reeve_schedule_add(struct reeve_client *client, const struct reeve_schedule_spec *spec,
    const uint8_t *request_id, struct reeve_failure *failure);

/* Changes the parts of spec->name's definition that `fields` names (ored from enum reeve_schedule_field); what is left NULL or
 * 0 of those gets its default. If when it comes is changed, that is planned anew from now on. Likewise. */
struct reeve_schedule *reeve_schedule_edit(struct reeve_client *client, const struct reeve_schedule_spec *spec,
    unsigned fields, struct reeve_failure *failure);

/* Reads one with its task's details (elsewhere they are left out), and at most so many of its next planned times, up to 1,000. */
struct reeve_schedule *reeve_schedule_show(
    struct reeve_client *client, const char *name, uint32_t preview, struct reeve_failure *failure);
void reeve_schedule_free(struct reeve_schedule *schedule);

struct reeve_schedules {
	size_t count;
	struct reeve_schedule *schedules;
	bool more; /* there are more: go on after the last one's name */
};

/* Reads definitions by name, those behind `after_name` (NULL: all), at most `limit` of them, up to 1,000 (0: 100).
 * reeve_schedules_free() them. */
struct reeve_schedules *reeve_schedule_list(
    struct reeve_client *client, const char *after_name, uint32_t limit, struct reeve_failure *failure);
void reeve_schedules_free(struct reeve_schedules *schedules);

enum reeve_schedule_action {
	REEVE_SCHEDULE_PAUSE = 1,  /* it does not come until it is resumed */
	REEVE_SCHEDULE_RESUME = 2, /* planned anew from now on; what would have come meanwhile does not */
	REEVE_SCHEDULE_REMOVE = 3, /* its runs are still listed, its tasks go on */
};

/* Does it. */
bool reeve_schedule_control(struct reeve_client *client, const char *name, enum reeve_schedule_action action,
    struct reeve_failure *failure);

struct reeve_schedule_run {
	int64_t id;
	int64_t planned_us;                 /* 0: by hand */
	int64_t at_us;                      /* when it was dealt with */
	const char *outcome;                /* "submitted", "existing", "acted", "missed", "overlapped", "refused" */
	int64_t task_id;                    /* or 0 */
	enum reeve_task_status task_status; /* now; REEVE_TASK_ANY: there is none (any more) */
	const char *actor;                  /* who ran it by hand, or "" */
	const char *note;
	const void *wire;
};

struct reeve_schedule_runs {
	size_t count;
	struct reeve_schedule_run *runs; /* newest first */
	int64_t next_before_id;          /* there may be more below this id; 0: there are none */
};

/* Runs one now, also a paused one; the answer has that run. The request id as for reeve_submit. reeve_schedule_runs_free() it. */
struct reeve_schedule_runs *reeve_schedule_run(
    struct reeve_client *client, const char *name, const uint8_t *request_id, struct reeve_failure *failure);

/* Reads the runs of one, which may have been removed: those with ids below `before_id` (0: from the newest), at most `limit`,
 * up to 1,000 (0: 100). */
struct reeve_schedule_runs *reeve_schedule_runs(struct reeve_client *client, const char *name, uint32_t limit,
    int64_t before_id, struct reeve_failure *failure);
void reeve_schedule_runs_free(struct reeve_schedule_runs *runs);

/*
 * Pipelines: tasks that pass through stages, the result of one being the input of the next. Tasks name theirs when they are
 * submitted.
 */

struct reeve_stage {
	const char *name;        /* 1 to 255 bytes without control characters; not "end" */
	const char *type;        /* chooses the handler */
	const char *next;        /* the stage that follows, "end": none; NULL or "": the next one of the list */
	uint32_t max_attempts;   /* 1 to 10,000; 0: 5 */
	int64_t timeout_ms;      /* of one attempt, up to 30 days; 0: 1 minute */
	const struct reeve_retry_policy *retry; /* NULL: exponentially from 1 second to 1 hour */
	const int32_t *priority; /* the task has this one from here on; NULL: it stays as it is */
};

struct reeve_pipeline {
	const char *name;        /* 1 to 255 bytes without control characters */
	size_t n_stages;         /* 1 to 100 */
	const struct reeve_stage *stages; /* tasks begin with the first */
	uint32_t max_steps;      /* a task enters so many stages at most, 1 to 10,000; 0: 100 */
	int64_t id;              /* of this definition, and when and by whom it was made: not read by reeve_pipeline_define */
	int64_t created_us;
	const char *source;
	const void *wire;
};

/* Defines a pipeline, or replaces its definition: tasks under way go on as they began. Answers it as it stands, with all that
 * was not given; *changed (unless NULL) is false if it was just so before. NULL: the failure names what is wrong. The request
 * id as for reeve_submit. reeve_pipeline_free() it. */
struct reeve_pipeline *reeve_pipeline_define(struct reeve_client *client, const struct reeve_pipeline *pipeline,
    const uint8_t *request_id, bool *changed, struct reeve_failure *failure);

/* Reads one; REEVE_NOT_FOUND if there is none. reeve_pipeline_free() it. */
struct reeve_pipeline *reeve_pipeline_show(struct reeve_client *client, const char *name, struct reeve_failure *failure);
void reeve_pipeline_free(struct reeve_pipeline *pipeline);

struct reeve_pipelines {
	size_t count;
	struct reeve_pipeline *pipelines; /* by name */
};

/* Reads all as they are defined now, page by page. reeve_pipelines_free() them. */
struct reeve_pipelines *reeve_pipeline_list(struct reeve_client *client, struct reeve_failure *failure);
void reeve_pipelines_free(struct reeve_pipelines *pipelines);

/* A result as one JSON object on one line, with the names of docs/cli.md; its `wire` says which. free() it. */
char *reeve_json(const void *wire);

/*
 * Metrics: numbers of applications, by category and name.
 */

enum { REEVE_METRICS_AT_ONCE = 1000 };

struct reeve_metric_value {
	const char *category; /* 1 to 255 bytes without control characters; not "manager" */
	const char *name;     /* 1 to 255 bytes without control characters */
	double value;         /* finite */
};

/* Sets metrics, up to REEVE_METRICS_AT_ONCE, all or none; `at_us` (or NULL) is when. Which of two calls comes last is decided
 * by the database. REEVE_FAILED_PRECONDITION if there are 10,000 names already and one is new. */
bool reeve_metrics_put(struct reeve_client *client, const struct reeve_metric_value *values, size_t count, int64_t *at_us,
    struct reeve_failure *failure);

/* What is left NULL or 0 says nothing. */
struct reeve_metrics_query {
	const char *category;       /* only of this one; "manager": the managers' own counters, as MANAGER/COUNTER */
	const char *after_category; /* only those behind this category and name, to page on */
	const char *after_name;
	uint32_t limit;             /* at most 10,000; 0: 1,000 */
};

struct reeve_metric {
	const char *category;
	const char *name;
	double value;
	int64_t changed_us; /* since when it has this value */
	int64_t updated_us; /* when it was put last */
	const char *source; /* who put it */
	const void *wire;
};

struct reeve_metrics {
	size_t count;
	struct reeve_metric *metrics;
	bool more; /* there are further ones */
};

/* Reads metrics, by category and name. reeve_metrics_free() them. */
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
