/*
 * A fixture for tests: a worker and a scripted manager in one process. The worker is created first, because its
 * supervisor must be forked before there are threads.
 */
#ifndef REEVE_TESTS_STAGE_H
#define REEVE_TESTS_STAGE_H

#include "scripted_manager.h"

#include <criterion/criterion.h>
#include <reeve/worker.h>

struct stage {
	struct script script;
	struct reeve_worker *worker;
	pthread_t thread;
	int code;
	bool running;
};

/* Creates the worker; `options` has no managers. */
static inline void stage_open(struct stage *stage, struct reeve_worker_options options)
{
	stage->running = false;
	script_init(&stage->script);
	options.managers = stage->script.url;
	if (!options.name)
		options.name = "test";
	if (!options.concurrency)
		options.concurrency = 2;
	stage->worker = reeve_worker_create(&options);
	cr_assert_null(reeve_worker_error(stage->worker), "%s", reeve_worker_error(stage->worker));
}

static inline void *stage_run(void *arg)
{
	struct stage *stage = arg;

	stage->code = reeve_worker_run(stage->worker);
	return NULL;
}

/* Starts only the worker. */
static inline void stage_run_worker(struct stage *stage)
{
	stage->running = true;
	cr_assert_eq(pthread_create(&stage->thread, NULL, stage_run, stage), 0);
}

/* Starts the manager and the worker. */
static inline void stage_go(struct stage *stage)
{
	script_start(&stage->script);
	stage_run_worker(stage);
}

/* Waits until the worker exits without a stop, and returns its exit code. */
static inline int stage_join(struct stage *stage)
{
	if (stage->running)
		pthread_join(stage->thread, NULL);
	stage->running = false;
	return stage->code;
}

/* Stops the worker, waits for it, and frees everything. Returns the worker's exit code. */
static inline int stage_close(struct stage *stage)
{
	if (stage->running)
		reeve_worker_stop(stage->worker);
	stage_join(stage);
	reeve_worker_destroy(stage->worker);
	script_free(&stage->script);
	return stage->code;
}

/* Waits until a result of the task is accepted. */
#define stage_await(stage, id)                                                                                         \
	cr_assert(script_wait(&(stage)->script, (stage)->script.tasks[id].state == SCRIPT_DONE),                       \
	    "no result of task %lld", (long long)(id))

#define OUTCOME(name) REEVE__V1__OUTCOME__OUTCOME_##name
#define RESULT_STATUS(name) REEVE__V1__RESULT_STATUS__RESULT_##name
#define COMMAND(name) REEVE__V1__WORKER_COMMAND_KIND__COMMAND_##name

#endif
