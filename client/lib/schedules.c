/* Schedules: definitions and their runs. */
#include "client/lib/internal.h"

#include <stdlib.h>
#include <string.h>

static ProtobufCMessage *ask(struct reeve_client *client, const char *method, ProtobufCMessage *request,
    const uint8_t *request_id, struct reeve_failure *failure)
{
	return client_call(client, &reeve__v1__schedule_service__descriptor, method, request, request_id, 0, failure);
}

static void set(const char **field, const char *text)
{
	if (text)
		*field = text;
}

/*
 * Definitions to messages.
 */

/* The fields' names, in the order of their bits. */
static const char *const field_names[] = {"cron", "every_ms", "manual", "zone", "start_us", "queue_action",
    "action_queue", "catch_up", "concurrency_policy", "task.queue", "task.type", "task.details", "task.priority", "task.delay_ms",
    "task.key", "task.key_ttl_ms", "task.max_attempts", "task.timeout_ms", "task.retry", "task.source",
    "task.batch_id", "task.pipeline"};

enum { FIELDS = sizeof field_names / sizeof *field_names };

/* Fills in a message. It points to the spec's strings and task. */
static void schedule_to_message(Reeve__V1__Schedule *message, const struct reeve_schedule_spec *spec)
{
	reeve__v1__schedule__init(message);
	set(&message->name, spec->name);
	set(&message->cron, spec->cron);
	set(&message->zone, spec->zone);
	message->every_ms = spec->every_ms;
	message->start_us = spec->start_us;
	message->manual = spec->manual;
	message->queue_action = (Reeve__V1__QueueAction)spec->queue_action;
	set(&message->action_queue, spec->action_queue);
	message->catch_up = (Reeve__V1__CatchUpPolicy)spec->catch_up;
	message->max_catch_up = spec->max_catch_up;
	message->concurrency_policy = (Reeve__V1__ConcurrencyPolicy)spec->concurrency_policy;
	message->task = (Reeve__V1__TaskSpec *)spec->task;
}

/* Checks a task before it is sent. An edit sends only a part of one: the check adds required members that it lacks. */
static bool task_fits(
    struct reeve_client *client, const Reeve__V1__TaskSpec *task, bool is_part, struct reeve_failure *failure)
{
	Reeve__V1__TaskSpec whole;
	char problem[256];

	if (!task)
		return true;
	/* The limit of details is known after the first contact. */
	if (!reeve_client_ready(client, failure))
		return false;
	whole = *task;
	if (is_part && !whole.type && !whole.pipeline)
		whole.type = "x";
	if (is_part && !whole.key)
		whole.key = "x";
	return !spec_problem(&whole, reeve_client_max_details(client), problem, sizeof problem) ||
	       fail(failure, STATUS(INVALID_ARGUMENT), "task.%s", problem);
}

/*
 * Messages to definitions.
 */

/* Fills in a schedule, which points into the message. */
static void schedule_from_message(struct reeve_schedule *schedule, const Reeve__V1__Schedule *message)
{
	*schedule = (struct reeve_schedule){
	    .spec =
	        {
	            .name = message->name,
	            .cron = message->cron,
	            .zone = message->zone,
	            .every_ms = message->every_ms,
	            .start_us = message->start_us,
	            .manual = message->manual,
	            .queue_action = (enum reeve_queue_action)message->queue_action,
	            .action_queue = message->action_queue,
	            .catch_up = (enum reeve_catch_up_policy)message->catch_up,
	            .max_catch_up = message->max_catch_up,
	            .concurrency_policy = (enum reeve_concurrency_policy)message->concurrency_policy,
	            .task = message->task,
	        },
	    .paused = message->paused,
	    .next_us = message->next_us,
	    .last_scheduled_us = message->last_scheduled_us,
	    .last_us = message->last_us,
	    .last_outcome = enum_word(&reeve__v1__run_outcome__descriptor, message->last_outcome),
	    .last_task_id = message->last_task_id,
	    .waits_for = message->waits_for,
	    .source = message->source,
	    .created_us = message->created_us,
	    .updated_us = message->updated_us,
	    .n_scheduled = message->n_scheduled_us,
	    .scheduled_us = message->scheduled_us,
	    .wire = message,
	};
}

struct schedule_result {
	struct reeve_schedule schedule; /* must be the first member */
	ProtobufCMessage *response;
};

/* Creates the result of a call that returns one schedule, `message`. Takes over the response. */
static struct reeve_schedule *take_schedule(
    ProtobufCMessage *response, const Reeve__V1__Schedule *message, struct reeve_failure *failure)
{
	struct schedule_result *result;

	if (!message) {
		fail(failure, STATUS(INTERNAL), "the manager answered without the schedule");
		protobuf_c_message_free_unpacked(response, NULL);
		return NULL;
	}
	result = allocate(1, sizeof *result);
	result->response = response;
	schedule_from_message(&result->schedule, message);
	return &result->schedule;
}

void reeve_schedule_free(struct reeve_schedule *schedule)
{
	struct schedule_result *result = (struct schedule_result *)schedule;

	if (!schedule)
		return;
	protobuf_c_message_free_unpacked(result->response, NULL);
	free(result);
}

/*
 * Calls.
 */

struct reeve_schedule *reeve_schedule_add(struct reeve_client *client, const struct reeve_schedule_spec *spec,
    const uint8_t *request_id, struct reeve_failure *failure)
{
	Reeve__V1__AddScheduleRequest request = REEVE__V1__ADD_SCHEDULE_REQUEST__INIT;
	Reeve__V1__AddScheduleResponse *response;
	Reeve__V1__Schedule message;

	if (!task_fits(client, spec->task, false, failure))
		return NULL;
	schedule_to_message(&message, spec);
	request.schedule = &message;
	response = (Reeve__V1__AddScheduleResponse *)ask(client, "Add", &request.base, request_id, failure);
	return response ? take_schedule(&response->base, response->schedule, failure) : NULL;
}

struct reeve_schedule *reeve_schedule_edit(
    struct reeve_client *client, const struct reeve_schedule_spec *spec, unsigned fields, struct reeve_failure *failure)
{
	Reeve__V1__EditScheduleRequest request = REEVE__V1__EDIT_SCHEDULE_REQUEST__INIT;
	Reeve__V1__EditScheduleResponse *response;
	Reeve__V1__Schedule message;
	const char *names[FIELDS];

	if (!task_fits(client, spec->task, true, failure))
		return NULL;
	schedule_to_message(&message, spec);
	request.schedule = &message;
	request.fields = names;
	for (int i = 0; i < FIELDS; i++)
		if (fields & 1U << i)
			names[request.n_fields++] = field_names[i];
	response = (Reeve__V1__EditScheduleResponse *)ask(client, "Edit", &request.base, NULL, failure);
	return response ? take_schedule(&response->base, response->schedule, failure) : NULL;
}

struct reeve_schedule *reeve_schedule_show(
    struct reeve_client *client, const char *name, uint32_t preview, struct reeve_failure *failure)
{
	Reeve__V1__ShowScheduleRequest request = REEVE__V1__SHOW_SCHEDULE_REQUEST__INIT;
	Reeve__V1__ShowScheduleResponse *response;

	set(&request.name, name);
	request.preview = preview;
	response = (Reeve__V1__ShowScheduleResponse *)ask(client, "Show", &request.base, NULL, failure);
	return response ? take_schedule(&response->base, response->schedule, failure) : NULL;
}

struct schedules_result {
	struct reeve_schedules schedules;
	Reeve__V1__ListSchedulesResponse *response;
};

struct reeve_schedules *reeve_schedule_list(
    struct reeve_client *client, const char *after_name, uint32_t limit, struct reeve_failure *failure)
{
	Reeve__V1__ListSchedulesRequest request = REEVE__V1__LIST_SCHEDULES_REQUEST__INIT;
	Reeve__V1__ListSchedulesResponse *response;
	struct schedules_result *result;

	set(&request.after_name, after_name);
	request.limit = limit;
	response = (Reeve__V1__ListSchedulesResponse *)ask(client, "List", &request.base, NULL, failure);
	if (!response)
		return NULL;
	result = allocate(1, sizeof *result);
	result->response = response;
	result->schedules.count = response->n_schedules;
	result->schedules.more = response->more;
	result->schedules.schedules = allocate(response->n_schedules, sizeof *result->schedules.schedules);
	for (size_t i = 0; i < response->n_schedules; i++) {
		schedule_from_message(&result->schedules.schedules[i], response->schedules[i]);
		if (response->schedules[i]->task)
			leave_out(&response->schedules[i]->task->details);
	}
	return &result->schedules;
}

void reeve_schedules_free(struct reeve_schedules *schedules)
{
	struct schedules_result *result = (struct schedules_result *)schedules;

	if (!schedules)
		return;
	reeve__v1__list_schedules_response__free_unpacked(result->response, NULL);
	free(schedules->schedules);
	free(result);
}

bool reeve_schedule_control(
    struct reeve_client *client, const char *name, enum reeve_schedule_action action, struct reeve_failure *failure)
{
	Reeve__V1__ControlScheduleRequest request = REEVE__V1__CONTROL_SCHEDULE_REQUEST__INIT;
	ProtobufCMessage *response;

	set(&request.name, name);
	request.action = (Reeve__V1__ScheduleAction)action;
	response = ask(client, "Control", &request.base, NULL, failure);
	if (!response)
		return false;
	protobuf_c_message_free_unpacked(response, NULL);
	return true;
}

struct runs_result {
	struct reeve_schedule_runs runs;
	ProtobufCMessage *response;
};

static struct reeve_schedule_runs *take_runs(
    ProtobufCMessage *response, Reeve__V1__ScheduleRun *const *messages, size_t count)
{
	struct runs_result *result = allocate(1, sizeof *result);

	result->response = response;
	result->runs.count = count;
	result->runs.runs = allocate(count, sizeof *result->runs.runs);
	for (size_t i = 0; i < count; i++) {
		const Reeve__V1__ScheduleRun *message = messages[i];

		result->runs.runs[i] = (struct reeve_schedule_run){
		    .id = message->id,
		    .scheduled_us = message->scheduled_us,
		    .at_us = message->at_us,
		    .outcome = enum_word(&reeve__v1__run_outcome__descriptor, message->outcome),
		    .task_id = message->task_id,
		    .task_status = (enum reeve_task_status)message->task_status,
		    .actor = message->actor,
		    .note = message->note,
		    .wire = message,
		};
	}
	return &result->runs;
}

void reeve_schedule_runs_free(struct reeve_schedule_runs *runs)
{
	struct runs_result *result = (struct runs_result *)runs;

	if (!runs)
		return;
	protobuf_c_message_free_unpacked(result->response, NULL);
	free(runs->runs);
	free(result);
}

struct reeve_schedule_runs *reeve_schedule_run(
    struct reeve_client *client, const char *name, const uint8_t *request_id, struct reeve_failure *failure)
{
	Reeve__V1__RunScheduleRequest request = REEVE__V1__RUN_SCHEDULE_REQUEST__INIT;
	Reeve__V1__RunScheduleResponse *response;

	set(&request.name, name);
	response = (Reeve__V1__RunScheduleResponse *)ask(client, "Run", &request.base, request_id, failure);
	if (response && !response->run) {
		fail(failure, STATUS(INTERNAL), "the manager answered without the run");
		reeve__v1__run_schedule_response__free_unpacked(response, NULL);
		return NULL;
	}
	return response ? take_runs(&response->base, &response->run, 1) : NULL;
}

struct reeve_schedule_runs *reeve_schedule_runs(
    struct reeve_client *client, const char *name, uint32_t limit, int64_t before_id, struct reeve_failure *failure)
{
	Reeve__V1__ScheduleRunsRequest request = REEVE__V1__SCHEDULE_RUNS_REQUEST__INIT;
	Reeve__V1__ScheduleRunsResponse *response;
	struct reeve_schedule_runs *runs;

	set(&request.name, name);
	request.limit = limit;
	request.before_id = before_id;
	response = (Reeve__V1__ScheduleRunsResponse *)ask(client, "Runs", &request.base, NULL, failure);
	if (!response)
		return NULL;
	runs = take_runs(&response->base, response->runs, response->n_runs);
	runs->next_before_id = response->next_before_id;
	return runs;
}
