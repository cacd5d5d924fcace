/*
 * A worker for long tasks. While it works, it checks whether it should stop, and asks for more time. Start it, then run
 * `reeve submit countdown 300 --timeout 30s --wait`.
 */
#include <reeve/worker.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { STEP_MS = 100, ASK_EVERY_S = 10, ASK_FOR_MS = 30 * 1000 };

static time_t seconds(void) /* of a clock that nobody sets */
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec;
}

static int countdown(const struct reeve_attempt *attempt, struct reeve_outcome *outcome)
{
	long rest_ms = atol(attempt->details) * 1000;
	time_t asked = seconds();

	while (rest_ms > 0) {
		usleep(STEP_MS * 1000); /* a small piece of work: at the end of the worker's lease there is little time */
		rest_ms -= STEP_MS;
		if (reeve_attempt_cancelled(attempt))
			return reeve_outcome_fail(outcome, "stopped", "asked to stop");
		if (seconds() - asked >= ASK_EVERY_S) {
			asked = seconds();
			reeve_attempt_extend(attempt, ASK_FOR_MS); /* after a failure the old time limit holds */
		}
	}
	return reeve_outcome_complete(outcome, "zero");
}

int main(int argc, char **argv)
{
	struct reeve_worker_options options = {.managers = argc > 1 ? argv[1] : NULL, .concurrency = 4};
	struct reeve_worker *worker = reeve_worker_create(&options);

	reeve_worker_handle(worker, "countdown", countdown, NULL);
	reeve_worker_stop_on_signals(worker);
	int code = reeve_worker_run(worker);
	reeve_worker_destroy(worker);
	return code;
}
