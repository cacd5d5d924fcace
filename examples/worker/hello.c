/* A worker in one file: start it, and `reeve submit measure "some text" --wait`. */
#include <reeve/worker.h>
#include <stdio.h>
#include <string.h>

static int measure(const struct reeve_attempt *attempt, struct reeve_outcome *outcome)
{
	char text[80];

	snprintf(text, sizeof text, "%zu bytes", strlen(attempt->details));
	return reeve_outcome_complete(outcome, text);
}

int main(int argc, char **argv)
{
	struct reeve_worker_options options = {.managers = argc > 1 ? argv[1] : NULL, .concurrency = 4};
	struct reeve_worker *worker = reeve_worker_create(&options);

	reeve_worker_handle(worker, "measure", measure, NULL);
	reeve_worker_stop_on_signals(worker);
	int code = reeve_worker_run(worker);
	reeve_worker_destroy(worker);
	return code;
}
