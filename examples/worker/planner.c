/*
 * A worker whose function submits tasks. The details of a `plan` task are a number; its function submits that many
 * tasks of the type `echo`. If it runs again, because its worker was cut off or it failed half-way, it creates no task
 * twice: each task has a key that contains the id of the `plan` task.
 *
 *     example-planner tcp://127.0.0.1:7171
 *     reeve submit plan 3 --wait
 */
#include <inttypes.h>
#include <reeve/client.h>
#include <reeve/worker.h>
#include <stdio.h>
#include <stdlib.h>

static int plan(const struct reeve_attempt *attempt, struct reeve_outcome *outcome)
{
	struct reeve_client *client = attempt->user_data; /* one for all threads */
	int count = atoi(attempt->details), created = 0;
	char source[40], result[40];

	snprintf(source, sizeof source, "task %" PRId64, attempt->task_id);
	for (int i = 0; i < count && !reeve_attempt_cancelled(attempt); i++) {
		char key[60], details[20];
		Reeve__V1__TaskSpec task = {.type = "echo", .details = details, .key = key, .source = source};
		Reeve__V1__SubmittedTask submitted;
		struct reeve_failure failure;

		snprintf(key, sizeof key, "%" PRId64 ":%d", attempt->task_id, i);
		snprintf(details, sizeof details, "%d", i);
		if (!reeve_submit(client, &task, 1, NULL, &submitted, &failure))
			return reeve_outcome_fail(outcome, "submit", failure.message); /* will be retried */
		created += !submitted.existing;
	}
	snprintf(result, sizeof result, "%d created", created);
	return reeve_outcome_complete(outcome, result);
}

int main(int argc, char **argv)
{
	const char *managers = argc > 1 ? argv[1] : NULL;
	struct reeve_worker_options options = {.managers = managers, .concurrency = 4};
	struct reeve_client_options client_options = {.managers = managers};
	/* Create the worker first: it forks, which must happen before there are threads, and the client starts some. */
	struct reeve_worker *worker = reeve_worker_create(&options);
	struct reeve_client *client = worker ? reeve_client_create(&client_options, NULL) : NULL;
	int code = 1;

	if (client) {
		reeve_worker_handle(worker, "plan", plan, client);
		reeve_worker_stop_on_signals(worker);
		code = reeve_worker_run(worker);
	}
	reeve_client_destroy(client);
	reeve_worker_destroy(worker);
	return code;
}
