/*
 * The public interface: options, handlers, run, stop. control.c has what happens while the worker runs.
 */
#include "worker/include/reeve/worker.h"

#include "common/clock.h"
#include "common/log.h"
#include "common/text.h"
#include "worker/control.h"
#include "worker/extend.h"
#include "worker/heartbeat.h"
#include "worker/held.h"
#include "worker/names.h"
#include "worker/session.h"
#include "worker/state.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum {
	DRAIN_TIMEOUT_MS = 30 * 1000,
	KILL_GRACE_MS = 5 * 1000,
};

/* Keeps the first error. Always returns false. */
static bool wrong(struct reeve_worker *worker, const struct reeve_error *error, int exit_code)
{
	if (!worker->error.code) {
		worker->error = *error;
		worker->exit_code = exit_code;
	}
	return false;
}

static char *copy(const char *text)
{
	char *copied = strdup(text);

	if (!copied)
		abort();
	return copied;
}

/* Sets the worker's host, name and log object. */
static bool set_identity(struct reeve_worker *worker, const char *name, struct reeve_error *error)
{
	char made[300];
	const char *problem;

	if (gethostname(worker->host, sizeof worker->host - 1) < 0 || name_problem(worker->host, false))
		snprintf(worker->host, sizeof worker->host, "localhost");
	snprintf(made, sizeof made, "%.240s/%d", worker->host, (int)getpid());
	worker->name = copy(name ? name : made);
	snprintf(worker->object, sizeof worker->object, "worker");
	problem = name_problem(worker->name, false);
	if (problem)
		return error_set(error, STATUS(INVALID_ARGUMENT), "the worker's name %s", problem);
	snprintf(worker->object, sizeof worker->object, "worker %s", worker->name);
	return true;
}

/* Checks a numeric option. 0 is the default. */
static bool in_range(const char *what, int64_t value, int64_t max, struct reeve_error *error)
{
	if (value >= 0 && value <= max)
		return true;
	return error_set(
	    error, STATUS(INVALID_ARGUMENT), "%s is %lld, must be 0 to %lld", what, (long long)value, (long long)max);
}

static bool set_options(
    struct reeve_worker *worker, const struct reeve_worker_options *options, struct reeve_error *error)
{
	long processors = sysconf(_SC_NPROCESSORS_ONLN);

	worker->managers = copy(rpc_client_managers(options->managers));
	if (!set_identity(worker, options->name, error) ||
	    !in_range("concurrency", options->concurrency, WORKER_CONCURRENCY_MAX, error) ||
	    !in_range("prefetch", options->prefetch, WORKER_PREFETCH_MAX, error) ||
	    !in_range("drain_timeout_ms", options->drain_timeout_ms, INT_MAX, error) ||
	    !in_range("kill_grace_ms", options->kill_grace_ms, INT_MAX, error) ||
	    !names_parse(options->queues, "queues", &worker->queues, error) ||
	    !names_parse(options->types, "types", &worker->asked, error))
		return false;
	if (options->once && options->until_empty)
		return error_set(error, STATUS(INVALID_ARGUMENT), "once and until_empty do not go together");
	worker->once = options->once;
	worker->until_empty = options->until_empty;
	worker->slots.wanted = options->once ? 1 : options->concurrency ? options->concurrency : (processors > 0 ? (int)processors : 1);
	worker->prefetch = options->once ? 0 : options->prefetch;
	worker->drain_timeout_ms = options->drain_timeout_ms ? options->drain_timeout_ms : DRAIN_TIMEOUT_MS;
	worker->kill_grace_ms = options->kill_grace_ms ? options->kill_grace_ms : KILL_GRACE_MS;
	return true;
}

struct reeve_worker *reeve_worker_create(const struct reeve_worker_options *options)
{
	struct reeve_worker *worker = calloc(1, sizeof *worker);
	pthread_condattr_t attributes;
	struct reeve_error error;

	if (!worker)
		abort();
	pthread_mutex_init(&worker->lock, NULL);
	pthread_mutex_init(&worker->extend_lock, NULL);
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&worker->heartbeat_cond, &attributes);
	pthread_condattr_destroy(&attributes);
	slots_init(&worker->slots);
	worker->drain_until_ms = INT64_MAX;
	worker->created_ms = clock_monotonic_ms();
	worker->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (worker->wake_fd < 0) {
		error_set(&error, STATUS(INTERNAL), "cannot open an eventfd: %s", strerror(errno));
		wrong(worker, &error, EXIT_TASK_FAILED);
	}
	if (!set_options(worker, options, &error))
		wrong(worker, &error, EXIT_USAGE);
	worker->lease = &worker->own_lease;
	if (!worker->error.code && !options->no_supervisor) {
		worker->supervisor = supervisor_client_create(&error);
		if (worker->supervisor)
			worker->lease = supervisor_client_lease(worker->supervisor);
		else
			wrong(worker, &error, EXIT_TASK_FAILED);
	}
	return worker;
}

const char *reeve_worker_error(const struct reeve_worker *worker)
{
	return worker->error.code ? worker->error.message : NULL;
}

bool reeve_worker_handle(struct reeve_worker *worker, const char *type, reeve_handler *function, void *user_data)
{
	struct handler *handler = function_handler_create(type, function, user_data);
	struct reeve_error error;

	if (handler_add(&worker->handlers, handler, &error))
		return true;
	handler_free(handler);
	return wrong(worker, &error, EXIT_USAGE);
}

bool reeve_worker_handle_file(struct reeve_worker *worker, const char *path)
{
	struct reeve_error error;

	names_add(&worker->files, path, strlen(path));
	return handlers_read_file(&worker->handlers, path, &error) || wrong(worker, &error, EXIT_USAGE);
}

void reeve_worker_reload(struct reeve_worker *worker)
{
	int saved = errno;

	atomic_fetch_add(&worker->reloads, 1);
	worker_wake(worker);
	errno = saved;
}

void reeve_worker_stop(struct reeve_worker *worker)
{
	int saved = errno;

	atomic_fetch_add(&worker->stops, 1);
	worker_wake(worker);
	errno = saved;
}

static struct reeve_worker *_Atomic signalled;

static void stop_signalled(int signal_number)
{
	struct reeve_worker *worker = atomic_load(&signalled);

	(void)signal_number;
	if (worker)
		reeve_worker_stop(worker);
}

void reeve_worker_stop_on_signals(struct reeve_worker *worker)
{
	struct sigaction action = {.sa_handler = stop_signalled, .sa_flags = SA_RESTART};

	atomic_store(&signalled, worker);
	sigemptyset(&action.sa_mask);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGINT, &action, NULL);
}

static void supervisor_died(void *arg)
{
	struct reeve_worker *worker = arg;

	pthread_mutex_lock(&worker->lock);
	worker->supervisor_died = true;
	pthread_mutex_unlock(&worker->lock);
	worker_wake(worker);
}

/* Starts the client and the threads; the heartbeat thread, which control_run ends, is the last. False: *error has the
 * reason. */
static bool start_threads(struct reeve_worker *worker, struct reeve_error *error)
{
	const struct rpc_client_options options = {.urls = worker->managers, .actor = worker->name};

	worker->rpc = rpc_client_create(&options, error);
	if (!worker->rpc)
		return wrong(worker, error, EXIT_USAGE);
	if (worker->supervisor && !supervisor_client_watch(worker->supervisor, supervisor_died, worker, error))
		return wrong(worker, error, EXIT_TASK_FAILED);
	pthread_sigmask(SIG_SETMASK, NULL, &worker->slots.signals);
	if (!slots_resize(worker, worker->slots.wanted, error) || !heartbeat_start(worker, error))
		return wrong(worker, error, EXIT_TASK_FAILED);
	return true;
}

/* Sets the exit code of a worker with `once` or `until_empty` by the outcomes of its tasks. */
static void judge_tasks(struct reeve_worker *worker)
{
	int64_t bad = worker->failed + worker->cancelled + worker->late;
	int64_t all = worker->succeeded + worker->failed + worker->cancelled;

	if (worker->exit_code || !(worker->once || worker->until_empty))
		return;
	if (bad) {
		worker->exit_code = EXIT_TASK_FAILED;
		error_set(&worker->error, STATUS(INTERNAL), "%lld of %lld attempts did not complete", (long long)bad,
		    (long long)all);
	} else if (worker->once && !all) {
		worker->exit_code = EXIT_NOTHING_DONE;
		error_set(&worker->error, STATUS(UNAVAILABLE), "stopped before there was a task");
	} else {
		return;
	}
	log_info(worker->object, "%s", worker->error.message);
}

int reeve_worker_run(struct reeve_worker *worker)
{
	struct reeve_error error;

	if (!worker->error.code) {
		worker->accepts = accepts_make(&worker->asked, worker->handlers, worker->supervisor != NULL, &error);
		if (!worker->accepts)
			wrong(worker, &error, EXIT_USAGE);
	}
	if (worker->error.code) {
		log_error(worker->object, "%s", worker->error.message);
		return worker->exit_code;
	}
	if (worker->supervisor && getpid() == 1)
		log_warn(worker->object, "this is process 1 of its container, which no watchdog can kill: run it under an "
		                         "init (docker run --init)");
	if (start_threads(worker, &error)) {
		log_info(worker->object, "starting: %d slot%s, %zu type%s, managers %s", worker->slots.wanted,
		    worker->slots.wanted == 1 ? "" : "s", worker->accepts->types.count, worker->accepts->types.count == 1 ? "" : "s",
		    worker->managers);
		control_run(worker);
	} else {
		log_error(worker->object, "%s", error.message);
	}
	if (!worker->stuck)
		slots_end(worker);
	extend_end(worker);
	if (worker->rpc)
		rpc_client_destroy(worker->rpc);
	worker->rpc = NULL;
	if (!worker->exit_code)
		log_info(worker->object, "stopped");
	judge_tasks(worker);
	return worker->exit_code;
}

void reeve_worker_destroy(struct reeve_worker *worker)
{
	struct reeve_worker *expected = worker;
	struct attempt *attempt, *next;

	if (!worker)
		return;
	atomic_compare_exchange_strong(&signalled, &expected, NULL);
	if (worker->stuck)
		return;
	supervisor_client_destroy(worker->supervisor);
	HASH_ITER(hh, worker->held, attempt, next)
	{
		held_forget(worker, attempt);
	}
	fetches_reset(&worker->fetches);
	handlers_free(&worker->handlers);
	names_free(&worker->queues);
	names_free(&worker->asked);
	names_free(&worker->files);
	accepts_drop(worker->accepts);
	slots_destroy(&worker->slots);
	pthread_cond_destroy(&worker->heartbeat_cond);
	pthread_mutex_destroy(&worker->extend_lock);
	pthread_mutex_destroy(&worker->lock);
	if (worker->wake_fd >= 0)
		close(worker->wake_fd);
	free(worker->managers);
	free(worker->name);
	free(worker);
}
