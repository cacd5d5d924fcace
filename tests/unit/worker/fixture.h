/*
 * A fixture for tests: a worker and a scripted manager in one process. The worker is created first, because its
 * supervisor must be forked before there are threads.
 */
#ifndef REEVE_TESTS_FIXTURE_H
#define REEVE_TESTS_FIXTURE_H

#include "scripted_manager.h"

#include <criterion/criterion.h>
#include <reeve/worker.h>

struct fixture {
	struct script script;
	struct reeve_worker *worker;
	pthread_t thread;
	int code;
	bool running;
};

/* Creates the worker; `options` has no managers. */
static inline void fixture_open(struct fixture *fixture, struct reeve_worker_options options)
{
	fixture->running = false;
	script_init(&fixture->script);
	options.managers = fixture->script.url;
	if (!options.name)
		options.name = "test";
	if (!options.concurrency)
		options.concurrency = 2;
	fixture->worker = reeve_worker_create(&options);
	cr_assert_null(reeve_worker_error(fixture->worker), "%s", reeve_worker_error(fixture->worker));
}

static inline void *fixture_run(void *arg)
{
	struct fixture *fixture = arg;

	fixture->code = reeve_worker_run(fixture->worker);
	return NULL;
}

/* Starts only the worker. */
static inline void fixture_run_worker(struct fixture *fixture)
{
	fixture->running = true;
	cr_assert_eq(pthread_create(&fixture->thread, NULL, fixture_run, fixture), 0);
}

/* Starts the manager and the worker. */
static inline void fixture_go(struct fixture *fixture)
{
	script_start(&fixture->script);
	fixture_run_worker(fixture);
}

/* Waits until the worker exits without a stop, and returns its exit code. */
static inline int fixture_join(struct fixture *fixture)
{
	if (fixture->running)
		pthread_join(fixture->thread, NULL);
	fixture->running = false;
	return fixture->code;
}

/* Stops the worker, waits for it, and frees everything. Returns the worker's exit code. */
static inline int fixture_close(struct fixture *fixture)
{
	if (fixture->running)
		reeve_worker_stop(fixture->worker);
	fixture_join(fixture);
	reeve_worker_destroy(fixture->worker);
	script_free(&fixture->script);
	return fixture->code;
}

/* Waits until a result of the task is accepted. */
#define fixture_await(fixture, id)                                                                                     \
	cr_assert(script_wait(&(fixture)->script, (fixture)->script.tasks[id].state == SCRIPT_DONE),                       \
	    "no result of task %lld", (long long)(id))

/* Waits until so many results are accepted. Each may take as long as fixture_await allows. */
static inline void fixture_await_all(struct fixture *fixture, int count)
{
	for (int done = 0; done < count;) {
		cr_assert(script_wait(&fixture->script, fixture->script.n_done > done), "%d of %d tasks are done", done, count);
		script_lock(&fixture->script);
		done = fixture->script.n_done;
		script_unlock(&fixture->script);
	}
}

#define OUTCOME(name) REEVE__V1__OUTCOME__OUTCOME_##name
#define RESULT_STATUS(name) REEVE__V1__RESULT_STATUS__RESULT_STATUS_##name
#define COMMAND(name) REEVE__V1__WORKER_COMMAND_KIND__WORKER_COMMAND_KIND_##name

#endif
