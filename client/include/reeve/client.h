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

#include <reeve/v1/admin.pb-c.h>
#include <reeve/v1/task.pb-c.h>
#include <reeve/v1/worker.pb-c.h>
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
	REEVE_PERMISSION_DENIED = 7,   /* the caller lacks a role, or a right to the object */
	REEVE_RESOURCE_EXHAUSTED = 8,  /* a limit of the manager was reached; try again later */
	REEVE_FAILED_PRECONDITION = 9, /* the task's state does not allow it */
	REEVE_ABORTED = 10,            /* a conflict with another caller; try again */
	REEVE_UNIMPLEMENTED = 12,      /* no manager has this library's version of the contract */
	REEVE_INTERNAL = 13,           /* an error in the manager; its log has details */
	REEVE_UNAVAILABLE = 14,        /* no manager could be reached: nothing has happened */
	REEVE_UNAUTHENTICATED = 16,    /* the access token is missing or not valid */
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
	const char *managers; /* "tcp://a:7171,tcp://b:7171"; NULL: $REEVE_MANAGER, or tcp://127.0.0.1:7171 */
	/* PEM files for managers at tls+tcp://…: the caller's certificate and its key, the CA of the managers and its
	 * revocation lists; NULL: $REEVE_TLS_CERT, $REEVE_TLS_KEY, $REEVE_TLS_CA, $REEVE_TLS_CRL. docs/security.md */
	const char *tls_cert, *tls_key, *tls_ca, *tls_crl;
	const char *token;          /* the access token; NULL: that of token_file */
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
	/* The file with the access token, which is read again when it changes. NULL: the token $REEVE_ACCESS_TOKEN, or the
	 * file $REEVE_ACCESS_TOKEN_FILE, or $REEVE_ATTEMPT_ACCESS_TOKEN, or the file of `reeve dev`, if there is one. */
	const char *token_file;
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

/* Sets a request's position to the page that follows an answer; returns false if there is none. Strings of the request
 * then point into the answer, which must be freed only after the next call. An answer may be empty and yet be followed
 * by another page. */
bool reeve_next_page(void *request, const void *answer);

/*
 * Submission.
 */

/* A task to submit is a Reeve__V1__TaskSpec. Only `type` (or `pipeline`) is required: members that are 0 have their
 * defaults. proto/reeve/v1/task.proto describes them, and the retry policy. */

enum {
	REEVE_MAX_BATCH = 10000,   /* tasks or ids in one call */
	REEVE_REQUEST_ID = 16,     /* bytes of a request id */
	REEVE_MAX_WAIT_MS = 60000, /* the longest wait in one call */
};

/* Creates a request id for reeve_submit: a time-ordered UUID. It is valid for a day. */
bool reeve_request_id(struct reeve_client *client, uint8_t request_id[REEVE_REQUEST_ID], struct reeve_failure *failure);

/* Submits `count` tasks, 1 to REEVE_MAX_BATCH, all or none. Returns true after they are stored durably; submitted[i] is
 * the result for tasks[i]. After REEVE_DEADLINE_EXCEEDED they may or may not exist: to be sure, pass a request id that
 * was created (and kept) before, and repeat the call with the same tasks and id. NULL: each call creates an id. */
bool reeve_submit(struct reeve_client *client, const Reeve__V1__TaskSpec *tasks, size_t count,
    const uint8_t *request_id, Reeve__V1__SubmittedTask *submitted, struct reeve_failure *failure);

/* Submits like reeve_submit and waits, in the same call, until all the tasks have ended: up to wait_ms, at most
 * REEVE_MAX_WAIT_MS. The answer has what became of each of tasks[], and in `ended` those that have ended, with their
 * results as in reeve_wait, which waits for the others. Repeated with the same request id, it waits for the same tasks.
 * Free it with reeve_free(); NULL: see reeve_submit. */
Reeve__V1__SubmitAndWaitResponse *reeve_submit_and_wait(struct reeve_client *client, const Reeve__V1__TaskSpec *tasks,
    size_t count, int64_t wait_ms, const uint8_t *request_id, struct reeve_failure *failure);

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

/* Returns the length of a task within a call, in bytes. Neither it nor its retry policy need be initialized beyond
 * zeros. */
size_t reeve_task_size(const Reeve__V1__TaskSpec *task);

/* Returns whether a stream would submit so many tasks, with so many bytes together, as one chunk. The managers' limit
 * is known only after the first contact. */
bool reeve_one_chunk(struct reeve_client *client, size_t tasks, size_t bytes);

/*
 * Tasks. More about them is in <reeve/v1/task_calls.h>: lists, and changes of all tasks that match a filter.
 */

/* Returns a status' name: "queued", "executing", …; "" for 0 and invalid numbers. A constant string. */
const char *reeve_task_status_name(Reeve__V1__TaskStatus status);

/* Returns true for completed, dead and cancelled. */
bool reeve_task_status_ended(Reeve__V1__TaskStatus status);

/* Reads one task, live or ended; REEVE_NOT_FOUND if it does not exist. Free with reeve_free(). */
Reeve__V1__Task *reeve_get(struct reeve_client *client, int64_t id, struct reeve_failure *failure);

/* Cancels tasks, 1 to REEVE_MAX_BATCH: waiting ones end at once, running ones get a command to stop. `reason` is for
 * the audit; NULL: none. REEVE_NOT_FOUND if none of them exists. Free the answer with reeve_free(). */
Reeve__V1__CancelResponse *reeve_cancel(
    struct reeve_client *client, const int64_t *ids, size_t count, const char *reason, struct reeve_failure *failure);

/* A result is text. The text of a binary one is a data URL (docs/handlers.md#results). These convert any result, and
 * return a string, or bytes with a NUL behind them; free() it. */
char *reeve_result_encode(const void *result, size_t length);
char *reeve_result_decode(const char *text, size_t *length);

struct reeve_wait {
	int64_t timeout_ms; /* in total; 0: check once; negative: until all have ended */
	int64_t poll_ms;    /* maximum duration of one poll, after which `polled` is called; 0 or more than 20 s: 20 s */
	/* Called once for each task that has ended. It has its result, unless that is too long for the manager's messages
	 * (`omitted`), and no details. It is valid during the call. */
	void (*ended)(void *arg, const Reeve__V1__Task *task);
	/* Called after each poll with the number of tasks that have not ended; returns false to stop waiting. */
	bool (*polled)(void *arg, size_t pending);
	void *arg;
};

/* Waits for tasks to end, any number of them; repeated ids count once. On success *pending (NULL: not wanted) is the
 * number of tasks that had not ended when the wait was over. Callbacks that are NULL are not called. */
bool reeve_wait(struct reeve_client *client, const int64_t *ids, size_t count, const struct reeve_wait *wait,
    size_t *pending, struct reeve_failure *failure);

/*
 * Reading all pages of an answer whose pages must be added up. Each function returns one answer that has everything, to
 * be freed with reeve_free(), or NULL with *failure set. The request is left as it was.
 */

/* Reads the newest events before request->until_us (0: now), request->limit of them (0: 1,000), of one task or of all;
 * `more` is set if there are older ones, or if there may be older ones that the request selects: these are searched
 * among the newest 100,000 of all. With since_us 0: of all that are kept. Oldest first. */
Reeve__V1__AuditResponse *reeve_audit(
    struct reeve_client *client, Reeve__V1__AuditRequest *request, struct reeve_failure *failure);

/* Counts the tasks of queues: one row for each queue and type, by name. */
Reeve__V1__ListQueuesResponse *reeve_queues(
    struct reeve_client *client, Reeve__V1__ListQueuesRequest *request, struct reeve_failure *failure);

/* Groups errors: by number of attempts, most first. */
Reeve__V1__ErrorsResponse *reeve_errors(
    struct reeve_client *client, Reeve__V1__ErrorsRequest *request, struct reeve_failure *failure);

/* Counts ended attempts: by hour, or by queue and type. */
Reeve__V1__ExecutionsResponse *reeve_executions(
    struct reeve_client *client, Reeve__V1__ExecutionsRequest *request, struct reeve_failure *failure);

/*
 * Manual pull: taking tasks without being a worker. A fetched task is reserved for its caller until it is reported or
 * expires. It expires after its timeout plus a few seconds, or as reeve_worker_extend (<reeve/v1/worker_calls.h>) has
 * set it; no heartbeats are needed.
 */

/* Takes tasks, by priority, as a worker would: up to request->slots (0: 1) of its `queues` and `types` (none: all), but
 * none of `exclude_ids`; the function sets the other fields. It waits for the first task for up to wait_ms (0: it
 * checks once); an answer without assignments means that no task came. `name` is the caller's in the audit; NULL:
 * user@host. No two callers get the same attempt. If the answer of a call was lost, its tasks go to other workers or
 * callers, at the latest when they expire. Each expires_in_ms counts from the return of the function. Free with
 * reeve_free(). */
Reeve__V1__FetchResponse *reeve_fetch(struct reeve_client *client, const char *name, Reeve__V1__FetchRequest *request,
    int64_t wait_ms, struct reeve_failure *failure);

/* Reports the result of an attempt, which its task_id and token identify. Returns true if it is committed, by this call
 * or an earlier send of it. REEVE_FAILED_PRECONDITION: the token does not hold the task (any more); nothing was
 * changed, and the audit records it. REEVE_INVALID_ARGUMENT: the result is invalid; if it was too long, the attempt was
 * ended as fatal, and the message says so. REEVE_UNAVAILABLE, after some seconds: another transaction has locked the
 * task or its batch. */
bool reeve_report(struct reeve_client *client, Reeve__V1__Result *result, struct reeve_failure *failure);

/* Stores what an attempt has reported while it runs: its progress, its remark and log lines. Returns true if it is
 * stored, which may take a second after the last one. Errors as for reeve_report. */
bool reeve_report_progress(
    struct reeve_client *client, Reeve__V1__AttemptProgress *progress, struct reeve_failure *failure);

#ifdef __GNUC__
#pragma GCC visibility pop
#endif

#ifdef __cplusplus
}
#endif

#endif
