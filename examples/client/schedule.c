/*
 * Adds a schedule, runs it manually, lists its runs, edits it, and removes it. With the worker of
 * examples/worker/remarks.c running: `example-schedule tcp://127.0.0.1:7171 book '{"room": 7}'`.
 */
#include <inttypes.h>
#include <reeve/v1/schedule_calls.h>
#include <stdio.h>

/* Prints the outcomes of the latest runs and the status of their tasks. */
static bool print_runs(struct reeve_client *client, const char *name, struct reeve_failure *failure)
{
	Reeve__V1__ScheduleRunsRequest request = {.name = name, .limit = 10};
	Reeve__V1__ScheduleRunsResponse *runs = reeve_schedule_runs(client, &request, NULL, failure);

	if (!runs)
		return false;
	for (size_t i = 0; i < runs->n_runs; i++)
		printf("run: %s, task %s\n",
		    runs->runs[i]->outcome == REEVE__V1__RUN_OUTCOME__RUN_OUTCOME_SUBMITTED ? "submitted" : runs->runs[i]->note,
		    reeve_task_status_name(runs->runs[i]->task_status));
	reeve_free(runs);
	return true;
}

/* Runs the schedule now, and waits until the task has ended. */
static bool run_now(struct reeve_client *client, const char *name, struct reeve_failure *failure)
{
	Reeve__V1__RunScheduleRequest request = {.name = name};
	Reeve__V1__RunScheduleResponse *answer = reeve_schedule_run(client, &request, NULL, failure);
	const struct reeve_wait wait = {.timeout_ms = -1};
	bool ended;

	if (!answer)
		return false;
	ended = reeve_wait(client, &answer->run->task_id, 1, &wait, NULL, failure);
	reeve_free(answer);
	return ended;
}

static bool add(struct reeve_client *client, const char *type, const char *details, struct reeve_failure *failure)
{
	Reeve__V1__TaskSpec task = {.type = type, .details = details, .max_attempts = 3};
	Reeve__V1__Schedule schedule = {.name = "example",
	    .cron = "1 0 * * *",
	    .zone = "Europe/Berlin",
	    .task = &task,
	    .catch_up = REEVE__V1__CATCH_UP_POLICY__CATCH_UP_POLICY_ALL,
	    .max_catch_up = 7};
	Reeve__V1__AddScheduleRequest request = {.schedule = &schedule};
	Reeve__V1__AddScheduleResponse *added = reeve_schedule_add(client, &request, NULL, failure);

	if (!added)
		return false;
	printf("added %s: %s in %s\n", added->schedule->name, added->schedule->cron, added->schedule->zone);
	reeve_free(added);
	return true;
}

/* Changes two settings of the schedule, and no others. */
static bool edit(struct reeve_client *client, struct reeve_failure *failure)
{
	Reeve__V1__TaskSpec task = {.priority = 5};
	Reeve__V1__Schedule schedule = {.name = "example", .every_ms = 3600 * 1000, .task = &task};
	const char *fields[] = {"every_ms", "task.priority"};
	Reeve__V1__EditScheduleRequest request = {.schedule = &schedule, .n_fields = 2, .fields = fields};
	Reeve__V1__EditScheduleResponse *edited = reeve_schedule_edit(client, &request, NULL, failure);

	if (!edited)
		return false;
	printf("edited: every %" PRId64 " ms, priority %" PRId32 ", type %s\n", edited->schedule->every_ms,
	    edited->schedule->task->priority, edited->schedule->task->type);
	reeve_free(edited);
	return true;
}

static bool remove_it(struct reeve_client *client, struct reeve_failure *failure)
{
	Reeve__V1__ControlScheduleRequest request = {
	    .name = "example", .action = REEVE__V1__SCHEDULE_ACTION__SCHEDULE_ACTION_REMOVE};
	Reeve__V1__ControlScheduleResponse *answer = reeve_schedule_control(client, &request, NULL, failure);

	reeve_free(answer);
	return answer;
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
	    print_runs(client, "example", &failure) && edit(client, &failure) && remove_it(client, &failure);
	if (good)
		printf("removed\n");
	else
		fprintf(stderr, "%s: %s\n", reeve_code_name(failure.code), failure.message);
	reeve_client_destroy(client);
	return good ? 0 : 1;
}
