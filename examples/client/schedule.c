/*
 * Adds a schedule, runs it manually, lists its runs, edits it, and removes it. With the worker of
 * examples/worker/remarks.c running: `example-schedule tcp://127.0.0.1:7171 book '{"room": 7}'`.
 */
#include <inttypes.h>
#include <reeve/client.h>
#include <stdio.h>
#include <string.h>

/* Prints the outcomes of the latest runs and the status of their tasks. */
static bool print_runs(struct reeve_client *client, const char *name, struct reeve_failure *failure)
{
	struct reeve_schedule_runs *runs = reeve_schedule_runs(client, name, 10, 0, failure);

	if (!runs)
		return false;
	for (size_t i = 0; i < runs->count; i++)
		printf("run: %s, task %s\n", runs->runs[i].outcome, reeve_task_status_name(runs->runs[i].task_status));
	reeve_schedule_runs_free(runs);
	return true;
}

/* Runs the schedule now, and waits until the task has ended. */
static bool run_now(struct reeve_client *client, const char *name, struct reeve_failure *failure)
{
	struct reeve_schedule_runs *run = reeve_schedule_run(client, name, NULL, failure);
	const struct reeve_wait wait = {.timeout_ms = -1};
	bool ended;

	if (!run)
		return false;
	ended = reeve_wait(client, &run->runs[0].task_id, 1, &wait, NULL, failure);
	reeve_schedule_runs_free(run);
	return ended;
}

static bool add(struct reeve_client *client, const char *type, const char *details, struct reeve_failure *failure)
{
	Reeve__V1__TaskSpec task = {.type = type, .details = details, .max_attempts = 3};
	const struct reeve_schedule_spec spec = {.name = "example",
	    .cron = "1 0 * * *",
	    .zone = "Europe/Berlin",
	    .task = &task,
	    .catch_up = REEVE_CATCH_UP_ALL,
	    .max_catch_up = 7};
	struct reeve_schedule *schedule = reeve_schedule_add(client, &spec, NULL, failure);

	if (!schedule)
		return false;
	printf("added %s: %s in %s\n", schedule->spec.name, schedule->spec.cron, schedule->spec.zone);
	reeve_schedule_free(schedule);
	return true;
}

/* Changes two settings of the schedule, and no others. */
static bool edit(struct reeve_client *client, struct reeve_failure *failure)
{
	Reeve__V1__TaskSpec task = {.priority = 5};
	const struct reeve_schedule_spec spec = {.name = "example", .every_ms = 3600 * 1000, .task = &task};
	struct reeve_schedule *schedule =
	    reeve_schedule_edit(client, &spec, REEVE_SCHEDULE_EVERY | REEVE_SCHEDULE_TASK_PRIORITY, failure);

	if (!schedule)
		return false;
	printf("edited: every %" PRId64 " ms, priority %" PRId32 ", type %s\n", schedule->spec.every_ms,
	    schedule->spec.task->priority, schedule->spec.task->type);
	reeve_schedule_free(schedule);
	return true;
}

int main(int argc, char **argv)
{
	struct reeve_client_options options = {.managers = argc > 1 ? argv[1] : NULL};
	struct reeve_failure failure;
	struct reeve_client *client;
	bool good;

	if (argc != 4) {
		fprintf(stderr, "Usage: example-schedule MANAGER TYPE DETAILS\n");
		return 2;
	}
	client = reeve_client_create(&options, &failure);
	good = client && add(client, argv[2], argv[3], &failure) && run_now(client, "example", &failure) &&
	       print_runs(client, "example", &failure) && edit(client, &failure) &&
	       reeve_schedule_control(client, "example", REEVE_SCHEDULE_REMOVE, &failure);
	if (good)
		printf("removed\n");
	else
		fprintf(stderr, "%s: %s\n", reeve_code_name(failure.code), failure.message);
	reeve_client_destroy(client);
	return good ? 0 : 1;
}
