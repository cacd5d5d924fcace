/*
 * The public interface: options, handlers, run, stop. control.c has what happens while the worker runs.
 */
#include "worker/include/reeve/worker.h"

#include "common/clock.h"
#include "common/limits.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/text.h"
#include "worker/control.h"
#include "worker/names.h"
#include "worker/result_store.h"
#include "worker/state.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	DRAIN_TIMEOUT_MS = 30 * 1000,
	KILL_GRACE_MS = 5 * 1000,
};

/* Sets the worker's host, name and log object. */
static bool set_identity(struct reeve_worker *worker, const char *name, struct reeve_error *error)
{
	struct session *session = &worker->session;
	char default_name[300];
	const char *problem;

	if (gethostname(session->host, sizeof session->host - 1) < 0 || name_problem(session->host, false))
		snprintf(session->host, sizeof session->host, "localhost");
	snprintf(default_name, sizeof default_name, "%.240s/%d", session->host, (int)getpid());
	session->name = mem_strdup(name ? name : default_name);
	problem = name_problem(session->name, false);
	if (problem)
		return error_set(error, STATUS(INVALID_ARGUMENT), "the worker's name %s", problem);
	snprintf(worker->shared.object, sizeof worker->shared.object, "worker %s", session->name);
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

static int default_concurrency(void)
{
	long processors = sysconf(_SC_NPROCESSORS_ONLN);

	return processors > 0 ? (int)processors : 1;
}

static bool set_options(
    struct reeve_worker *worker, const struct reeve_worker_options *options, struct reeve_error *error)
{
	const struct tls_files tls = {options->tls_cert, options->tls_key, options->tls_ca, options->tls_crl};

	worker->session.managers = mem_strdup(rpc_client_managers(options->managers));
	worker->session.tls = tls_files_copy(&tls);
	worker->session.token = token_source_find(options->token, options->token_file, worker->session.managers);
	if (!set_identity(worker, options->name, error) ||
	    !in_range("concurrency", options->concurrency, LIMIT_CONCURRENCY, error) ||
	    !in_range("prefetch", options->prefetch, LIMIT_PREFETCH, error) ||
	    !in_range("drain_timeout_ms", options->drain_timeout_ms, INT_MAX, error) ||
	    !in_range("kill_grace_ms", options->kill_grace_ms, INT_MAX, error) ||
	    !in_range("manager_timeout_ms", options->manager_timeout_ms, INT_MAX, error) ||
	    !names_parse(options->queues, "queues", &worker->session.queues, error) ||
	    !names_parse(options->types, "types", &worker->handlers.requested, error))
		return false;
	if (options->once && options->until_empty)
		return error_set(error, STATUS(INVALID_ARGUMENT), "once and until_empty cannot be combined");
	if (options->wait_retries && !options->until_empty)
		return error_set(error, STATUS(INVALID_ARGUMENT), "wait_retries needs until_empty");
	worker->result_store = options->result_store ? result_store_open(options->result_store, error) : NULL;
	if (options->result_store && !worker->result_store)
		return false;
	worker->life.once = options->once;
	worker->fetcher.until_empty = options->until_empty;
	worker->fetcher.wait_retries = options->wait_retries;
	worker->session.manager_timeout_ms = options->manager_timeout_ms;
	worker->slots.concurrency = options->once ? 1 : options->concurrency ? options->concurrency : default_concurrency();
	worker->slots.prefetch = options->once ? 0 : options->prefetch;
	worker->drain.drain_timeout_ms = options->drain_timeout_ms ? options->drain_timeout_ms : DRAIN_TIMEOUT_MS;
	worker->drain.kill_grace_ms = options->kill_grace_ms ? options->kill_grace_ms : KILL_GRACE_MS;
	return true;
}

/* Forks the supervisor. False: *error has the reason. */
static bool start_supervisor(struct reeve_worker *worker, struct reeve_error *error)
{
	worker->supervisor = supervisor_client_create(error);
	if (!worker->supervisor)
		return false;
	worker->shared.lease = supervisor_client_lease(worker->supervisor);
	worker->handlers.supervisor = true;
	return true;
}

/* Gives each part the parts that it needs. Called once the options and the supervisor are set. */
static void connect_parts(struct reeve_worker *worker)
{
	struct handler_context context = {.supervisor = worker->supervisor,
	    .event_fd = -1,
	    .kill_grace_ms = worker->drain.kill_grace_ms,
	    .managers = worker->session.managers,
	    .result_store = worker->result_store,
	    .tls = &worker->session.tls};
	struct shared *shared = &worker->shared;
	struct life *life = &worker->life;
	struct in_flight *in_flight = &worker->in_flight;
	struct session *session = &worker->session;

	worker->handlers.shared = shared;
	worker->handlers.timer = &worker->timer;
	in_flight_init(in_flight, shared, life, &worker->timer, &worker->extensions, &worker->progress);
	slots_init(&worker->slots, shared, in_flight, &worker->handlers, &context);
	session->shared = shared;
	session->life = life;
	session->in_flight = in_flight;
	session->fetches = &worker->fetches;
	session->slots = &worker->slots;
	session->handlers = &worker->handlers;
	session->timer = &worker->timer;
	session->supervisor = worker->supervisor;
	session->answered_ms = clock_monotonic_ms();
	extensions_init(&worker->extensions, shared, session, in_flight);
	worker->progress = (struct progress){.shared = shared, .session = session, .in_flight = in_flight};
	worker->commands = (struct commands){
	    .shared = shared, .life = life, .in_flight = in_flight, .slots = &worker->slots, .timer = &worker->timer};
	worker->fetcher =
	    (struct fetcher){shared, life, session, &worker->fetches, in_flight, &worker->slots, &worker->handlers,
	        &worker->commands, worker->fetcher.until_empty, worker->fetcher.wait_retries, clock_monotonic_ms()};
	worker->reporter = (struct reporter){.shared = shared,
	    .session = session,
	    .in_flight = in_flight,
	    .slots = &worker->slots,
	    .fetcher = &worker->fetcher};
	worker->heartbeats = (struct heartbeats){.shared = shared,
	    .life = life,
	    .session = session,
	    .in_flight = in_flight,
	    .fetches = &worker->fetches,
	    .slots = &worker->slots,
	    .handlers = &worker->handlers,
	    .commands = &worker->commands,
	    .reporter = &worker->reporter,
	    .timer = &worker->timer};
	worker->watchdog_check =
	    (struct watchdog_check){.session = session, .in_flight = in_flight, .supervisor = worker->supervisor};
	worker->drain.shared = shared;
	worker->drain.life = life;
	worker->drain.session = session;
	worker->drain.in_flight = in_flight;
	worker->drain.fetches = &worker->fetches;
}

struct reeve_worker *reeve_worker_create(const struct reeve_worker_options *options)
{
	struct reeve_worker *worker = mem_calloc(1, sizeof *worker);
	struct reeve_error error;

	life_init(&worker->life);
	heartbeat_timer_init(&worker->timer);
	if (!shared_init(&worker->shared, &error))
		life_fail(&worker->life, &error, EXIT_TASK_FAILED);
	if (!set_options(worker, options, &error))
		life_fail(&worker->life, &error, EXIT_USAGE);
	if (!worker->life.error.code && !options->no_supervisor && !start_supervisor(worker, &error))
		life_fail(&worker->life, &error, EXIT_TASK_FAILED);
	connect_parts(worker);
	return worker;
}

const char *reeve_worker_error(const struct reeve_worker *worker)
{
	return worker->life.error.code ? worker->life.error.message : NULL;
}

bool reeve_worker_handle(struct reeve_worker *worker, const char *type, reeve_handler *function, void *user_data)
{
	struct handler *handler = function_handler_create(type, function, user_data);
	struct reeve_error error;

	if (handler_add(&worker->handlers.table, handler, &error))
		return true;
	handler_free(handler);
	return life_fail(&worker->life, &error, EXIT_USAGE);
}

bool reeve_worker_handle_file(struct reeve_worker *worker, const char *path)
{
	struct reeve_error error;

	names_add(&worker->handlers.files, path, strlen(path));
	return handlers_read_file(&worker->handlers.table, path, &error) || life_fail(&worker->life, &error, EXIT_USAGE);
}

void reeve_worker_reload(struct reeve_worker *worker)
{
	int saved = errno;

	atomic_fetch_add(&worker->handlers.reload_requests, 1);
	shared_wake(&worker->shared);
	errno = saved;
}

void reeve_worker_stop(struct reeve_worker *worker)
{
	int saved = errno;

	atomic_fetch_add(&worker->life.stop_requests, 1);
	shared_wake(&worker->shared);
	errno = saved;
}

static struct reeve_worker *_Atomic signalled;
static const int stop_signals[] = {SIGTERM, SIGINT};
static struct sigaction former[2]; /* the program's own actions */

static void stop_signalled(int signal_number)
{
	struct reeve_worker *worker = atomic_load(&signalled);

	(void)signal_number;
	if (worker)
		reeve_worker_stop(worker);
}

void reeve_worker_stop_on_signals(struct reeve_worker *worker)
{
	struct sigaction action = {.sa_handler = stop_signalled, .sa_flags = SA_RESTART}, was;

	atomic_store(&signalled, worker);
	sigemptyset(&action.sa_mask);
	for (int i = 0; i < 2; i++) {
		sigaction(stop_signals[i], &action, &was);
		if (was.sa_handler != stop_signalled)
			former[i] = was;
	}
}

/* Gives the program its actions back, except one that it has changed since then. */
static void end_signals(struct reeve_worker *worker)
{
	struct sigaction now;

	if (atomic_load(&signalled) != worker)
		return;
	for (int i = 0; i < 2; i++)
		if (sigaction(stop_signals[i], NULL, &now) == 0 && now.sa_handler == stop_signalled)
			sigaction(stop_signals[i], &former[i], NULL);
	atomic_store(&signalled, NULL);
}

/* Stops the worker, unless it has ended: then others read its error without the lock. Called by the thread of
 * supervisor_client.c, without the lock. */
static void supervisor_died(void *arg)
{
	struct reeve_worker *worker = arg;
	struct life *life = &worker->life;
	struct reeve_error error;

	error_set(&error, STATUS(INTERNAL), "the supervisor process has died, and every exec handler with it");
	shared_lock(&worker->shared);
	if (!life->error.code && life->phase < LIFE_ENDED) {
		log_error(worker->shared.object, "%s; stopping", error.message);
		life_fail(life, &error, EXIT_TASK_FAILED);
		life_drain(life, clock_monotonic_ms());
	}
	shared_unlock(&worker->shared);
	shared_wake(&worker->shared);
}

/* Starts the client and the threads; the heartbeat thread, which control_run ends, is the last. False: *error has the
 * reason. */
static bool start_threads(struct reeve_worker *worker, struct reeve_error *error)
{
	const struct rpc_client_options options = {.urls = worker->session.managers,
	    .token_source = &worker->session.token,
	    .actor = worker->session.name,
	    .tls = worker->session.tls};

	worker->shared.rpc = rpc_client_create(&options, error);
	if (!worker->shared.rpc)
		return life_fail(&worker->life, error, EXIT_USAGE);
	if (worker->supervisor && !supervisor_client_watch(worker->supervisor, supervisor_died, worker, error))
		return life_fail(&worker->life, error, EXIT_TASK_FAILED);
	if (!slots_start(&worker->slots, error) || !heartbeats_start(&worker->heartbeats, error))
		return life_fail(&worker->life, error, EXIT_TASK_FAILED);
	return true;
}

/* Sets the exit code of a worker with `once` or `until_empty` by the outcomes of its tasks. */
static void apply_outcomes(struct reeve_worker *worker)
{
	const struct in_flight *in_flight = &worker->in_flight;
	int64_t bad = in_flight->failed + in_flight->cancelled + in_flight->late;
	int64_t all = in_flight->completed + in_flight->failed + in_flight->cancelled;
	struct reeve_error error;

	if (worker->life.exit_code || !(worker->life.once || worker->fetcher.until_empty))
		return;
	if (bad) {
		error_set(&error, STATUS(INTERNAL), "%lld of %lld attempts did not complete", (long long)bad, (long long)all);
		life_fail(&worker->life, &error, EXIT_TASK_FAILED);
	} else if (worker->life.once && !all) {
		error_set(&error, STATUS(UNAVAILABLE), "stopped before there was a task");
		life_fail(&worker->life, &error, EXIT_NOTHING_DONE);
	} else {
		return;
	}
	log_info(worker->shared.object, "%s", error.message);
}

static void log_start(const struct reeve_worker *worker)
{
	size_t types = worker->handlers.accepts->types.count;
	int slots = worker->slots.concurrency;

	log_info(worker->shared.object, "starting: %d slot%s, %zu type%s, managers %s", slots, slots == 1 ? "" : "s", types,
	    types == 1 ? "" : "s", worker->session.managers);
}

int reeve_worker_run(struct reeve_worker *worker)
{
	const char *object = worker->shared.object;
	struct life *life = &worker->life;
	struct reeve_error error;

	if (!life->error.code && !handler_set_start(&worker->handlers, &error))
		life_fail(life, &error, EXIT_USAGE);
	if (life->error.code) {
		log_error(object, "%s", life->error.message);
		return life->exit_code;
	}
	if (worker->supervisor && getpid() == 1)
		log_warn(object,
		    "this is process 1 of its container, which no watchdog can kill: run it under an "
		    "init (docker run --init)");
	if (start_threads(worker, &error)) {
		log_start(worker);
		control_run(worker);
	} else {
		log_error(object, "%s", error.message);
	}
	if (life->phase != LIFE_STUCK)
		slots_end(&worker->slots);
	extensions_end(&worker->extensions);
	if (worker->shared.rpc)
		rpc_client_destroy(worker->shared.rpc);
	worker->shared.rpc = NULL;
	if (!life->exit_code)
		log_info(object, "stopped");
	apply_outcomes(worker);
	return life->exit_code;
}

void reeve_worker_destroy(struct reeve_worker *worker)
{
	if (!worker)
		return;
	end_signals(worker);
	if (worker->life.phase == LIFE_STUCK)
		return;
	in_flight_destroy(&worker->in_flight);
	fetches_reset(&worker->fetches);
	handler_set_clear(&worker->handlers);
	supervisor_client_destroy(worker->supervisor); /* after the handlers: their processes end first */
	session_clear(&worker->session);
	slots_destroy(&worker->slots);
	extensions_destroy(&worker->extensions);
	heartbeat_timer_destroy(&worker->timer);
	shared_destroy(&worker->shared);
	free(worker->result_store);
	free(worker);
}
