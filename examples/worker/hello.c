/* A worker in one file. Start it, then run `reeve submit greet Ann --wait`. */
#include <reeve/worker.h>
#include <stdio.h>
#include <stdlib.h>

static int greet(const struct reeve_attempt *attempt, struct reeve_outcome *outcome)
{
	char *text = NULL;
	int code = asprintf(&text, "Hello, %s!", attempt->details) < 0
	    ? reeve_outcome_fail(outcome, "memory", "there is none left")
	    : reeve_outcome_complete(outcome, text);
	free(text);
	return code;
}

int main(int argc, char **argv)
{
	struct reeve_worker_options options = {.managers = argc > 1 ? argv[1] : NULL, .concurrency = 4};
	struct reeve_worker *worker = reeve_worker_create(&options);

	reeve_worker_handle(worker, "greet", greet, NULL);
	reeve_worker_stop_on_signals(worker);
	int code = reeve_worker_run(worker);
	reeve_worker_destroy(worker);
	return code;
}
