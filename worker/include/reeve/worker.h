/*
 * The worker library: a program registers functions (or programs) for task types, and calls run.
 *
 *     static int greet(const struct reeve_attempt *attempt, struct reeve_outcome *outcome)
 *     {
 *             return reeve_outcome_complete(outcome, attempt->details);
 *     }
 *
 *     struct reeve_worker *worker = reeve_worker_create(&(struct reeve_worker_options){.managers =
 * "tcp://127.0.0.1:7171"}); reeve_worker_handle(worker, "greet", greet, NULL); int code = reeve_worker_run(worker);
 *     reeve_worker_destroy(worker);
 *
 * Delivery is at least once: a task whose worker was cut off is run again elsewhere. attempt->token grows with each
 * attempt of a task; a handler that writes somewhere can hand it along, so that the writes of an older attempt are told
 * apart and refused.
 *
 * A worker has what it runs by a lease, which heartbeats renew. A function that takes longer than a moment polls
 * reeve_attempt_cancelled and returns when asked to: if one still runs when the lease ends, the guard, a process that
 * reeve_worker_create has forked, kills the whole program by SIGKILL, since another worker may be given the task.
 *
 * Threads: one thread calls create, the handle functions, run and destroy, in this order. reeve_worker_stop and
 * reeve_worker_reload may be called from any thread and from signal handlers. Handlers run on threads of the library, several at once.
 */
#ifndef REEVE_WORKER_H
#define REEVE_WORKER_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifdef __GNUC__ /* what stands here is all that the library shows */
#pragma GCC visibility push(default)
#endif

struct reeve_worker;
struct reeve_outcome;

struct reeve_worker_options {
	const char *managers;     /* "tcp://a:7171,tcp://b:7171"; NULL: $REEVE_MANAGER, or tcp://127.0.0.1:7171 */
	const char *name;         /* 1 to 255 bytes; NULL: host/pid */
	const char *queues;       /* "mail,reports": serve these alone; NULL: all */
	const char *types;        /* "a,b": run these alone, each with a handler; NULL: all that have one */
	int concurrency;          /* handlers that run at once, at most 10,000; 0: one for each processor */
	int prefetch;             /* tasks that may be held beyond the running ones, at most 20,000 */
	int64_t drain_timeout_ms; /* how long running handlers may take to finish at a stop; 0: 30 s */
	int64_t kill_grace_ms;    /* between SIGTERM and SIGKILL to an exec handler; 0: 5 s */
	/* End by itself after one task, waiting for it if need be (concurrency and prefetch don't count), or when no task
	 * that is due waits any more. At most one of them. What came of the tasks is in the exit code. */
	bool once;
	bool until_empty;
	/* Do not fork the process that starts exec handlers and guards the lease. Exec handlers are then refused, and
	 * nobody sees to it that functions do not outlive the worker's lease, when two may run the same task:
	 * docs/worker.md. */
	bool no_spawner;
};

/* Copies the options and forks the spawner process, so it must be called before the program has started threads
 * (and before it uses nng). Wrong options are told by reeve_worker_error() and by reeve_worker_run(). Never NULL. */
struct reeve_worker *reeve_worker_create(const struct reeve_worker_options *options);

/* Frees everything; ends the spawner. After a run that left a function running (see there) what that function may still
 * touch is kept. NULL is allowed. */
void reeve_worker_destroy(struct reeve_worker *worker);

/* What is wrong with the worker's options, handlers or run, for people; NULL if nothing is. Lives as long as it. */
const char *reeve_worker_error(const struct reeve_worker *worker);

/* One attempt at a task. The texts live until the handler returns. */
struct reeve_attempt {
	int64_t task_id;
	int64_t token; /* names the attempt together with the id */
	const char *queue;
	const char *type;
	const char *key;     /* the idempotency key, or "" */
	const char *stage;   /* of its pipeline, or "" */
	const char *details; /* the input, UTF-8, JSON by convention */
	uint32_t attempt;    /* from 1 */
	uint32_t max_attempts;
	int64_t timeout_ms; /* how long the handler may run */
	void *user_data;    /* what was registered with the handler */
};

/*
 * A handler sets the outcome by one of the functions below (the last call counts) and returns 0. One that returns 0
 * without having set it has completed with an empty result; one that returns anything else without having set it has
 * failed with the code "return:N".
 */
typedef int reeve_handler(const struct reeve_attempt *attempt, struct reeve_outcome *outcome);

/* Completed, with a result (copied): UTF-8, not longer than the manager takes (1 MiB unless set otherwise); a result
 * that is neither ends the task with a fatal error that says so. Always 0. */
int reeve_outcome_complete(struct reeve_outcome *outcome, const char *result);

/* Failed: the task is tried again later, while it has attempts. `code` is a short word for it (up to 255 bytes),
 * `error` a text for people; both copied, NULL allowed. Always 0. */
int reeve_outcome_fail(struct reeve_outcome *outcome, const char *code, const char *error);

/* Failed for good: never tried again. As reeve_outcome_fail. */
int reeve_outcome_fatal(struct reeve_outcome *outcome, const char *code, const char *error);

/* What may be said beside, before or after one of these; texts are copied, NULL takes them back. The last call of each
 * counts. Longer ones are cut: a remark to 4,096 bytes, a stack to 65,536.
 *
 * The remark, for people, is kept with the task whatever becomes of it. While the function runs its first 1,000 bytes go out with
 * the worker's heartbeats, so that `reeve show` has them; one that was taken back after that may stay with the task. */
void reeve_outcome_remark(struct reeve_outcome *outcome, const char *remark);

/* Where it went wrong, a stack trace: kept with the error if the attempt does not complete. */
void reeve_outcome_stack(struct reeve_outcome *outcome, const char *stack);

/* If the attempt completes, and its task is of a pipeline: the stage that follows, by name, or "end": none does. Without it
 * the one that the pipeline says. A stage that is not there ends the task dead. */
void reeve_outcome_stage(struct reeve_outcome *outcome, const char *stage);

/* If the attempt fails: try again after `ms`, whatever the task's retry policy says; 0 and below: at once; at most 365
 * days. */
void reeve_outcome_retry_in(struct reeve_outcome *outcome, int64_t ms);

/* True when the handler should stop soon: the task was cancelled, its time is over, the worker stops, or its lease is
 * about to end or was lost. At the lease's end it must have returned: a quarter of it before, this becomes true. What
 * the handler returns then does not matter, unless it completes: except when its time is over, a completion still
 * counts. Cheap. May be called from any thread until the handler returns. */
bool reeve_attempt_cancelled(const struct reeve_attempt *attempt);

/* Asks that the attempt may run `run_ms` longer, from now on, than its task's and its handler's time-out say: for work
 * of which nobody can say beforehand how long it takes, which can tell from time to time that it goes on. True: a
 * manager has agreed, and the attempt's time-out and expiry have moved (less far than asked where the manager's
 * --max-run comes first; never to an earlier time). False: it has refused, none answered within 5 s, or the handler
 * should stop already. Blocks for that long at most; the attempt's time runs on meanwhile. May be called from any
 * thread until the handler returns. */
bool reeve_attempt_extend(const struct reeve_attempt *attempt, int64_t run_ms);

/* Runs tasks of this type by a function. False if the type is no name or has a handler already (reeve_worker_error). */
bool reeve_worker_handle(struct reeve_worker *worker, const char *type, reeve_handler *function, void *user_data);

/* Runs tasks by programs, as an INI file says (docs/worker.md). False if it cannot be read or is wrong; the error names
 * the file and the line. */
bool reeve_worker_handle_file(struct reeve_worker *worker, const char *path);

/* Asks that all handlers files be read again, while the worker runs: it then takes tasks of the types that they have by now
 * (of those that the options name, if they name any), and what runs goes on with the handlers that it began with. If a file
 * cannot be read, or anything is wrong with it, the handlers stay as they were and the log says why. A worker without a
 * handlers file does nothing. Async-signal-safe. */
void reeve_worker_reload(struct reeve_worker *worker);

/* Lets SIGTERM and SIGINT stop this worker (reeve_worker_stop). One worker of a process may ask for it. */
void reeve_worker_stop_on_signals(struct reeve_worker *worker);

/* Registers at a manager, runs tasks and reports them, until the worker was stopped or drained. While no manager
 * answers it keeps trying. Returns the process's exit code:
 *   0  stopped; everything was reported
 *   1  a failure while running: the spawner died, or a function went on running long after it was asked to stop (it
 *      still does when this returns: end the process)
 *   2  wrong options or handlers
 *   3  stopped with results that no manager had taken
 *   4  the manager refused the worker
 *   5  with `once`: stopped before it had done a task
 * With `once` and `until_empty` it is 1, too, when an attempt failed, was cancelled, or came too late.
 * A code other than 0 is logged and explained by reeve_worker_error(). May be called once. */
int reeve_worker_run(struct reeve_worker *worker);

/* Asks to stop. First call: no more tasks are taken, those not yet started go back, running ones may finish until the
 * drain timeout, then they are stopped and go back too, which costs them no attempt. Second call: running ones are
 * stopped at once. Third call: run returns without waiting for managers. Async-signal-safe. */
void reeve_worker_stop(struct reeve_worker *worker);

#ifdef __GNUC__
#pragma GCC visibility pop
#endif

#ifdef __cplusplus
}
#endif

#endif
