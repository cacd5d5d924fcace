/* A fixture with a function that counts its runs. Each file that includes this has its own. */
#ifndef REEVE_TESTS_FUNCTIONS_H
#define REEVE_TESTS_FUNCTIONS_H

#include "fixture.h"

#include <stdatomic.h>

static struct fixture fixture;
static _Atomic int runs;
static _Atomic bool go_on;

static inline int count_runs(const struct reeve_attempt *attempt, struct reeve_outcome *outcome)
{
	atomic_fetch_add(&runs, 1);
	return reeve_outcome_complete(outcome, attempt->details);
}

/* Runs until the test sets go_on, or until it is asked to stop. */
static inline int until_go_on(const struct reeve_attempt *attempt, struct reeve_outcome *outcome)
{
	atomic_fetch_add(&runs, 1);
	while (!atomic_load(&go_on))
		if (reeve_attempt_cancelled(attempt))
			return 1;
		else
			usleep(1000);
	return reeve_outcome_complete(outcome, "went on");
}

/* Runs until the test sets go_on, even if it is asked to stop. */
static inline int stubborn(const struct reeve_attempt *attempt, struct reeve_outcome *outcome)
{
	(void)attempt;
	atomic_fetch_add(&runs, 1);
	while (!atomic_load(&go_on))
		usleep(1000);
	return reeve_outcome_complete(outcome, "went on");
}

static inline void open_fixture(reeve_handler *function, int concurrency)
{
	fixture_open(&fixture, (struct reeve_worker_options){.concurrency = concurrency, .drain_timeout_ms = 1});
	reeve_worker_handle(fixture.worker, "t", function, NULL);
	fixture.script.heartbeat_ms = 30;
}

#endif
