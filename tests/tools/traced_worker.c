/*
 * A worker whose function, of type `traced`, completes with the trace context of its task, and submits a task of the
 *same type, with the key "child of ID", in that context.
 *
 *	traced-worker MANAGERS
 */
#include <inttypes.h>
#include <reeve/client.h>
#include <reeve/worker.h>
#include <stdio.h>
#include <string.h>

static struct reeve_client *client;

static int traced(const struct reeve_attempt *attempt, struct reeve_outcome *outcome)
{
	char key[40];
	Reeve__V1__TaskSpec child = {.type = "traced", .key = key, .traceparent = (char *)attempt->traceparent};
	Reeve__V1__SubmittedTask submitted;
	struct reeve_failure failure;

	snprintf(key, sizeof key, "child of %" PRId64, attempt->task_id);
	if (strncmp(attempt->key, "child", 5) != 0 && !reeve_submit(client, &child, 1, NULL, &submitted, &failure))
		return reeve_outcome_fail(outcome, "submit", failure.message);
	return reeve_outcome_complete(outcome, attempt->traceparent);
}

int main(int argc, char **argv)
{
	struct reeve_worker_options options = {.managers = argv[argc - 1], .concurrency = 2};
	struct reeve_worker *worker = reeve_worker_create(&options); /* first: it forks, and the client starts threads */
	int code;

	client = reeve_client_create(&(struct reeve_client_options){.managers = argv[argc - 1]}, NULL);
	reeve_worker_handle(worker, "traced", traced, NULL);
	reeve_worker_stop_on_signals(worker);
	code = reeve_worker_run(worker);
	reeve_worker_destroy(worker);
	reeve_client_destroy(client);
	return code;
}
