/*
 * The worker library. A program registers a function (or a program) for each task type and calls reeve_worker_run.
 *
 *     static int greet(const struct reeve_attempt *attempt, struct reeve_outcome *outcome)
 *     {
 *             return reeve_outcome_complete(outcome, attempt->details);
 *     }
 *
 *     struct reeve_worker_options options = {.managers = "tcp://127.0.0.1:7171"};
 *     struct reeve_worker *worker = reeve_worker_create(&options);
 *     reeve_worker_handle(worker, "greet", greet, NULL);
 *     int code = reeve_worker_run(worker);
 *     reeve_worker_destroy(worker);
 *
 * Delivery is at least once: if a worker loses contact with the managers, its tasks run again on another worker.
 * attempt->token grows with each attempt of a task. A handler that writes to external storage can pass the token along,
 * so that the storage can refuse the writes of an older attempt.
 *
 * A worker holds its tasks under a lease, which heartbeats renew. A function that takes longer than a moment must poll
 * reeve_attempt_cancelled and return when it becomes true. If a function still runs when the lease ends, the watchdog
 * (a process forked by reeve_worker_create) kills the entire program with SIGKILL, because another worker may get the
 * task.
 *
 * Threads: one thread calls create, the handle functions, run and destroy, in this order. reeve_worker_stop and
 * reeve_worker_reload may be called from any thread and from signal handlers. Handlers run on threads of the library,
 * several at once.
 */
#ifndef REEVE_WORKER_H
#define REEVE_WORKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifdef __GNUC__ /* the library exports only these declarations */
#pragma GCC visibility push(default)
#endif

struct reeve_worker;
struct reeve_outcome;

struct reeve_worker_options {
	const char *managers; /* "tcp://a:7171,tcp://b:7171"; NULL: $REEVE_MANAGER, or tcp://127.0.0.1:7171 */
	/* PEM files for managers at tls+tcp://…: the worker's certificate and its key, the CA of the managers and its
	 * revocation lists; NULL: $REEVE_TLS_CERT, $REEVE_TLS_KEY, $REEVE_TLS_CA, $REEVE_TLS_CRL. docs/security.md */
	const char *tls_cert, *tls_key, *tls_ca, *tls_crl;
	const char *name;         /* 1 to 255 bytes; NULL: host/pid */
	const char *queues;       /* "mail,reports": serve only these queues; NULL: all */
	const char *types;        /* "a,b": run only these types, each needs a handler; NULL: all that have one */
	int concurrency;          /* maximum number of handlers that run at once, up to 10,000; 0: one per processor */
	int prefetch;             /* tasks held in addition to the running ones, up to 20,000 */
	int64_t drain_timeout_ms; /* how long running handlers may take to finish at a stop; 0: 30 s */
	int64_t kill_grace_ms;    /* between SIGTERM and SIGKILL to an exec handler; 0: 5 s */
	/* Stop after one task, waiting for it if necessary (`once`; ignores concurrency and prefetch), or when no due task
	 * is waiting any more (`until_empty`). Set at most one of them. The exit code shows whether the tasks completed. */
	bool once;
	bool until_empty;
	bool wait_retries;          /* with until_empty: also wait for the retries of failed tasks */
	int64_t manager_timeout_ms; /* stop if no manager has answered for so long; 0: never */
	/* Do not fork the supervisor, which starts exec handlers and enforces the lease. The worker then refuses exec
	 * handlers, and nothing ensures that a function ends before the worker's lease does; if it does not, two workers
	 * may run the same task: docs/worker.md. */
	bool no_supervisor;
	/* The access token, or the file with it, which is read again when it changes. Both NULL: the token
	 * $REEVE_ACCESS_TOKEN, or the file $REEVE_ACCESS_TOKEN_FILE, or the one of `reeve dev`, if there is one. Programs
	 * do not get these variables. */
	const char *token, *token_file;
	/* A directory for results that are longer than the manager accepts (docs/handlers.md#results); NULL: they are
	 * errors. */
	const char *result_store;
};

/* Creates a worker: copies the options and forks the supervisor. Call it before the program starts threads or uses nng.
 * If the options are invalid, reeve_worker_error() and reeve_worker_run() report it. Never returns NULL. */
struct reeve_worker *reeve_worker_create(const struct reeve_worker_options *options);

/* Frees the worker and ends the supervisor. If reeve_worker_run left a function running, the memory that this function
 * may still use is not freed. `worker` may be NULL. */
void reeve_worker_destroy(struct reeve_worker *worker);

/* Returns a human-readable description of what is wrong with the worker's options, handlers or run, or NULL if there is
 * no error. The string lives as long as the worker. */
const char *reeve_worker_error(const struct reeve_worker *worker);

/* One attempt of a task. The strings live until the handler returns. */
struct reeve_attempt {
	int64_t task_id;
	int64_t token; /* identifies the attempt, together with task_id */
	const char *queue;
	const char *type;
	const char *key;         /* the idempotency key, or "" */
	const char *stage;       /* the stage of its pipeline, or "" */
	const char *traceparent; /* the trace context of its submitter (W3C), or "" */
	const char *details;     /* the input: UTF-8, JSON by convention */
	uint32_t attempt;        /* starts at 1 */
	uint32_t max_attempts;
	int64_t timeout_ms; /* how long the handler may run; INT64_MAX: no limit */
	void *user_data;    /* from reeve_worker_handle */
};

enum { REEVE_ATTEMPT_TOKEN_BYTES = 160 };

/* Writes the access token of the attempt, for a client (reeve/client.h) that submits tasks for it: they then have the
 * attempt's task as their parent. It may do so as long as the attempt runs. Programs get it in
 * $REEVE_ATTEMPT_ACCESS_TOKEN, where clients find it. Returns false if the manager, of an older release, has given
 * none. */
bool reeve_attempt_access_token(const struct reeve_attempt *attempt, char token[REEVE_ATTEMPT_TOKEN_BYTES]);

/*
 * A handler sets the outcome with one of the functions below (the last call counts) and returns 0. If it returns 0
 * without setting the outcome, the attempt completes with an empty result. If it returns another value N without
 * setting the outcome, the attempt fails with the code "return:N".
 */
typedef int reeve_handler(const struct reeve_attempt *attempt, struct reeve_outcome *outcome);

/* Completes the attempt with a result (copied; NULL: empty). It must not be longer than the manager accepts (1 MiB by
 * default); otherwise the task ends with a fatal error that gives the reason. Always returns 0. */
int reeve_outcome_complete(struct reeve_outcome *outcome, const char *result);

/* The same with any bytes. What is not UTF-8 text without NUL bytes is reported in base64 (docs/handlers.md#results),
 * which takes a third more. */
int reeve_outcome_complete_bytes(struct reeve_outcome *outcome, const void *result, size_t length);

/* Fails the attempt: the task is retried later if it has attempts left. `code` is a short error code (up to 255 bytes),
 * `error` a message for people. Both are copied and may be NULL. Always returns 0. */
int reeve_outcome_fail(struct reeve_outcome *outcome, const char *code, const char *error);

/* Fails the attempt permanently: the task is not retried. Otherwise like reeve_outcome_fail. */
int reeve_outcome_fatal(struct reeve_outcome *outcome, const char *code, const char *error);

/* Declines the task: it costs no attempt and waits for another worker. This one is not given it again, as long as it
 * runs and has declined no more than 1,000 others since. `reason` is a message for people, for the audit; NULL: none.
 * Always returns 0. */
int reeve_outcome_skip(struct reeve_outcome *outcome, const char *reason);

/* The functions below add to the outcome. Call them before or after one of the functions above. Strings are copied;
 * NULL removes an earlier one. The last call of each counts. Longer strings are cut: a remark to 4,096 bytes, a stack
 * to 65,536 bytes.
 *
 * Sets the remark, a message for people. It is kept with the task whatever the outcome. While the function runs, the
 * worker sends the first 1,000 bytes within about a second, so that `reeve show` can display them; a remark that is
 * removed after that may stay with the task. */
void reeve_outcome_remark(struct reeve_outcome *outcome, const char *remark);

/* Sets the stack trace. It is kept with the error if the attempt does not complete. */
void reeve_outcome_stack_trace(struct reeve_outcome *outcome, const char *stack_trace);

/* Sets the stage that follows if the attempt completes and its task belongs to a pipeline: the name of a stage, or
 * "end" for none. Without this call, the pipeline decides. If the pipeline has no stage of this name, the task ends
 * dead. */
void reeve_outcome_stage(struct reeve_outcome *outcome, const char *stage);

/* Sets the retry delay used if the attempt fails, instead of the task's retry policy. `ms` is limited to 365 days; 0 or
 * less: retry at once. */
void reeve_outcome_retry_in(struct reeve_outcome *outcome, int64_t ms);

/* Returns true when the handler should stop soon: the task was cancelled, the attempt timed out, the worker is
 * stopping, or its lease is about to end or was lost. For the lease's end it becomes true a quarter of the lease early;
 * the handler must have returned when the lease ends. Once this function has returned true, an outcome counts only if
 * it is a completion, and after a timeout not at all. Cheap. May be called from any thread until the handler
 * returns. */
bool reeve_attempt_cancelled(const struct reeve_attempt *attempt);

/* Asks a manager to let the attempt run `run_ms` longer, counted from now, than the timeouts of its task and handler
 * allow. It is for work of unknown length that can confirm from time to time that it makes progress. True: the manager
 * has agreed, and the attempt's timeout and expiry have moved (less far than requested if the manager's --max-runtime
 * limits them; never to an earlier time). False: the manager has refused, no manager answered within 5 s, or the
 * handler should stop already. Blocks for up to 5 s, during which the attempt's time continues to run. May be called
 * from any thread until the handler returns. */
bool reeve_attempt_extend(const struct reeve_attempt *attempt, int64_t run_ms);

/* Reports how far the function is, in percent (0 to 100; less than 0: it stays), and what it does: the remark, as
 * reeve_outcome_remark sets it; NULL: it stays. reeve_attempt_log adds a line to the task's log, or several with
 * newlines between them; each is cut at 4,096 bytes. However often a function calls these, there is at most one write a
 * second for each task. Of a task, its last 1,000 lines or 64 KiB are kept, whichever is less. `reeve show` and `reeve
 * logs` display them. May be called from any thread until the handler returns. */
void reeve_attempt_progress(const struct reeve_attempt *attempt, double percent, const char *remark);
void reeve_attempt_log(const struct reeve_attempt *attempt, const char *text);

/* Registers a function as the handler of a type. Returns false if the type is not a valid name or already has a handler
 * (reeve_worker_error). */
bool reeve_worker_handle(struct reeve_worker *worker, const char *type, reeve_handler *function, void *user_data);

/* A plugin: a shared object that exports its handler as `reeve_plugin`, for a section `plugin = FILE` of a handlers
 * file. It is compiled with this header, and linked with no library of Reeve: the functions are those of the worker
 * that loads it.
 *
 *     static int greet(const struct reeve_attempt *attempt, struct reeve_outcome *outcome) { … }
 *     const struct reeve_plugin reeve_plugin = {REEVE_PLUGIN_ABI, greet};
 *
 * The worker refuses a plugin that was compiled for another REEVE_PLUGIN_ABI. */
enum { REEVE_PLUGIN_ABI = 1 };
struct reeve_plugin {
	int abi;
	reeve_handler *handler;
};
extern const struct reeve_plugin reeve_plugin;

/* Registers the handlers of a handlers file, an INI file (docs/worker.md). Sections with `http` need the program
 * reeve-worker; for those with `plugin` this program must export its functions (link it with -rdynamic). Returns false
 * if the file is unreadable or invalid; the error then names the file and the line. */
bool reeve_worker_handle_file(struct reeve_worker *worker, const char *path);

/* Requests that the running worker reads all handlers files again. The worker then takes tasks of the types that have
 * handlers now (only those named in the options, if any are); running tasks keep the handlers that they started with.
 * If a file is unreadable or invalid, the handlers do not change, and the log has the reason. Without a handlers file,
 * this does nothing. Async-signal-safe. */
void reeve_worker_reload(struct reeve_worker *worker);

/* Makes SIGTERM and SIGINT stop this worker (reeve_worker_stop), until reeve_worker_destroy restores the former
 * actions. Only one worker per process can have this. */
void reeve_worker_stop_on_signals(struct reeve_worker *worker);

/* Registers at a manager, then runs tasks and reports their results until the worker is stopped or drained. Keeps
 * retrying while no manager answers. Returns the exit code for the process:
 *   0  stopped; everything was reported
 *   1  a failure while running: the supervisor died, or a function ignored a request to stop for too long (it still
 *      runs when this returns: end the process)
 *   2  invalid options or handlers
 *   3  stopped with results that no manager had accepted
 *   4  the manager refused the worker
 *   5  with `once`: stopped before it had done a task
 *   6  stopped because no manager had answered for manager_timeout_ms
 * With `once` and `until_empty`, the code is also 1 if an attempt failed, was cancelled, or completed too late to
 * count. If the code is not 0, the reason is logged and returned by reeve_worker_error(). May be called once. */
int reeve_worker_run(struct reeve_worker *worker);

/* Asks the worker to stop. First call: the worker takes no more tasks, returns those not started, and lets running ones
 * continue until the drain timeout; then it stops and returns these too, which costs them no attempt. Second call: it
 * stops running tasks at once. Third call: reeve_worker_run returns without waiting for managers. Async-signal-safe. */
void reeve_worker_stop(struct reeve_worker *worker);

#ifdef __GNUC__
#pragma GCC visibility pop
#endif

#ifdef __cplusplus
}
#endif

#endif
