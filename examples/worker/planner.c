/*
 * A worker whose function submits tasks. The details of a `plan` task are a number; its function submits that many
 * tasks of the type `echo`. If it runs again, because its worker was cut off or it failed half-way, it creates no task
 * twice: each task has a key that contains the id of the `plan` task. If it is asked to stop half-way, it fails, since
 * a plan that completed would not run again. The function submits with the access token of its attempt, so that each
 * task has the `plan` task as its parent.
 *
 *     example-planner tcp://127.0.0.1:7171
 *     reeve submit plan 3 --wait
 */
#include <inttypes.h>
#include <reeve/client.h>
#include <reeve/worker.h>
#include <stdio.h>
#include <stdlib.h>

/* Submits the tasks, and returns how many of them are new; -1 with *failure set if it cannot. */
static int submit_all(const struct reeve_attempt *attempt, struct reeve_client *client, struct reeve_failure *failure)
{
	int count = atoi(attempt->details), created = 0;
	char source[40];

	snprintf(source, sizeof source, "task %" PRId64, attempt->task_id);
	for (int i = 0; i < count; i++) {
		char key[60], details[20];
		Reeve__V1__TaskSpec task = {.type = "echo", .details = details, .key = key, .source = source};
		Reeve__V1__SubmittedTask submitted;

		if (reeve_attempt_cancelled(attempt)) {
			snprintf(failure->message, sizeof failure->message, "asked to stop after %d of %d tasks", i, count);
			return -1;
		}
		snprintf(key, sizeof key, "%" PRId64 ":%d", attempt->task_id, i);
		snprintf(details, sizeof details, "%d", i);
		if (!reeve_submit(client, &task, 1, NULL, &submitted, failure))
			return -1;
		created += !submitted.existing;
	}
	return created;
}

static int plan(const struct reeve_attempt *attempt, struct reeve_outcome *outcome)
{
	char token[REEVE_ATTEMPT_TOKEN_BYTES], result[40];
	struct reeve_client_options options = {.managers = attempt->user_data};
	struct reeve_failure failure;
	struct reeve_client *client;
	int created = -1;

	if (reeve_attempt_access_token(attempt, token))
		options.token = token;
	client = reeve_client_create(&options, &failure);
	if (client)
		created = submit_all(attempt, client, &failure);
	reeve_client_destroy(client);
	if (created < 0)
		return reeve_outcome_fail(outcome, "submit", failure.message); /* will be retried */
	snprintf(result, sizeof result, "%d created", created);
	return reeve_outcome_complete(outcome, result);
}

int main(int argc, char **argv)
{
	char *managers = argc > 1 ? argv[1] : NULL;
	struct reeve_worker_options options = {.managers = managers, .concurrency = 4};
	struct reeve_worker *worker = reeve_worker_create(&options);
	int code;

	reeve_worker_handle(worker, "plan", plan, managers);
	reeve_worker_stop_on_signals(worker);
	code = reeve_worker_run(worker);
	reeve_worker_destroy(worker);
	return code;
}
