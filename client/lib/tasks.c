/* Reading tasks. A result's strings point into its message, which is kept until the result is freed. */
#include "client/lib/internal.h"

#include <stdlib.h>
#include <string.h>

static const char *const status_names[] = {
    [REEVE_TASK_ANY] = "",
    [REEVE_TASK_QUEUED] = "queued",
    [REEVE_TASK_EXECUTING] = "executing",
    [REEVE_TASK_FAILED] = "failed",
    [REEVE_TASK_COMPLETED] = "completed",
    [REEVE_TASK_DEAD] = "dead",
    [REEVE_TASK_CANCELLED] = "cancelled",
};

enum { N_STATUSES = sizeof status_names / sizeof *status_names };

const char *reeve_task_status_name(enum reeve_task_status status)
{
	return (unsigned)status < N_STATUSES ? status_names[status] : "";
}

enum reeve_task_status reeve_task_status_by_name(const char *name)
{
	for (int i = REEVE_TASK_ANY + 1; i < N_STATUSES; i++) {
		if (strcmp(name, status_names[i]) == 0)
			return (enum reeve_task_status)i;
	}
	return REEVE_TASK_ANY;
}

bool reeve_task_status_ended(enum reeve_task_status status)
{
	return status == REEVE_TASK_COMPLETED || status == REEVE_TASK_DEAD || status == REEVE_TASK_CANCELLED;
}

struct reeve_waiting waiting_from_message(const Reeve__V1__Waiting *message)
{
	if (!message)
		return (struct reeve_waiting){0};
	return (struct reeve_waiting){
	    .reason = (enum reeve_wait_reason)message->reason,
	    .task_id = message->task_id,
	    .workers = message->workers,
	    .slots = message->slots,
	    .busy = message->busy,
	};
}

void leave_out(const char **text)
{
	if (*text == protobuf_c_empty_string)
		*text = NULL;
}

void task_from_message(struct reeve_task *task, const Reeve__V1__Task *message)
{
	*task = (struct reeve_task){
	    .id = message->id,
	    .queue = message->queue,
	    .type = message->type,
	    .status = (enum reeve_task_status)message->status,
	    .priority = message->priority,
	    .run_at_us = message->run_at_us,
	    .attempt = message->attempt,
	    .max_attempts = message->max_attempts,
	    .timeout_ms = message->timeout_ms,
	    .key = message->key,
	    .source = message->source,
	    .details = message->details,
	    .result = message->result,
	    .last_error = message->last_error,
	    .error_code = message->error_code,
	    .worker = message->worker,
	    .token = message->token,
	    .created_us = message->created_us,
	    .first_started_us = message->first_started_us,
	    .started_us = message->started_us,
	    .finished_us = message->finished_us,
	    .expiry_us = message->expiry_us,
	    .cancel_requested = message->cancel_requested,
	    .batch_id = message->batch_id,
	    .remark = message->remark,
	    .stack_trace = message->stack_trace,
	    .version = message->version,
	    .pipeline = message->pipeline,
	    .stage = message->stage,
	    .step = message->step,
	    .error_count = message->error_count,
	    .recoverable = message->last_error_kind_case != REEVE__V1__TASK__LAST_ERROR_KIND_RECOVERABLE
	                       ? REEVE_RECOVERABLE_UNKNOWN
	                   : message->recoverable ? REEVE_RECOVERABLE
	                                          : REEVE_UNRECOVERABLE,
	    .processing_ms = message->processing_ms,
	    .waiting = waiting_from_message(message->waiting),
	    .wire = message,
	};
}

/* A task and the message that owns its strings. The public part is first: a pointer to it is one to this struct. */
struct task_result {
	struct reeve_task task;
	Reeve__V1__GetResponse *response;
};

struct reeve_task *reeve_get(struct reeve_client *client, int64_t id, struct reeve_failure *failure)
{
	Reeve__V1__GetRequest request = REEVE__V1__GET_REQUEST__INIT;
	Reeve__V1__GetResponse *response;
	struct task_result *result;

	request.id = id;
	response = (Reeve__V1__GetResponse *)client_call(
	    client, &reeve__v1__task_service__descriptor, "Get", &request.base, NULL, 0, failure);
	if (!response)
		return NULL;
	if (!response->task) {
		fail(failure, STATUS(INTERNAL), "the manager answered without the task");
		reeve__v1__get_response__free_unpacked(response, NULL);
		return NULL;
	}
	result = allocate(1, sizeof *result);
	result->response = response;
	task_from_message(&result->task, response->task);
	return &result->task;
}

void reeve_task_free(struct reeve_task *task)
{
	struct task_result *result = (struct task_result *)task;

	if (!task)
		return;
	reeve__v1__get_response__free_unpacked(result->response, NULL);
	free(result);
}

static void set_text(const char **field, const char *text)
{
	if (text)
		*field = text;
}

void where_to_message(struct where_message *message, const struct reeve_where *where)
{
	Reeve__V1__TaskFilter *filter = &message->filter;

	reeve__v1__task_filter__init(filter);
	for (int i = REEVE_TASK_ANY + 1; i < N_STATUSES; i++) {
		if (where->statuses & 1U << i)
			message->statuses[filter->n_statuses++] = (Reeve__V1__TaskStatus)i;
	}
	filter->statuses = message->statuses;
	set_text(&filter->queue, where->queue);
	set_text(&filter->type, where->type);
	set_text(&filter->error, where->error);
	set_text(&filter->error_contains, where->error_contains);
	set_text(&filter->error_code, where->error_code);
	set_text(&filter->key, where->key);
	set_text(&filter->source, where->source);
	filter->older_ms = where->older_ms;
	filter->newer_ms = where->newer_ms;
	filter->running_longer_ms = where->running_longer_ms;
	filter->batch_id = where->batch_id;
	filter->after_id = where->after_id;
}

struct tasks_result {
	struct reeve_tasks tasks;
	Reeve__V1__ListResponse *response;
};

struct reeve_tasks *reeve_list(
    struct reeve_client *client, const struct reeve_filter *filter, struct reeve_failure *failure)
{
	Reeve__V1__ListRequest request = REEVE__V1__LIST_REQUEST__INIT;
	Reeve__V1__ListResponse *response;
	struct where_message where;
	struct tasks_result *result;

	request.status = (Reeve__V1__TaskStatus)filter->status;
	if (filter->queue)
		request.queue = filter->queue;
	if (filter->type)
		request.type = filter->type;
	request.limit = filter->limit;
	request.before_id = filter->before_id;
	if (filter->where) {
		where_to_message(&where, filter->where);
		request.filter = &where.filter;
	}
	response = (Reeve__V1__ListResponse *)client_call(
	    client, &reeve__v1__task_service__descriptor, "List", &request.base, NULL, 0, failure);
	if (!response)
		return NULL;
	result = allocate(1, sizeof *result);
	result->response = response;
	result->tasks.count = response->n_tasks;
	result->tasks.next_before_id = response->next_before_id;
	result->tasks.tasks = allocate(response->n_tasks, sizeof *result->tasks.tasks);
	for (size_t i = 0; i < response->n_tasks; i++) {
		task_from_message(&result->tasks.tasks[i], response->tasks[i]);
		leave_out(&response->tasks[i]->details);
		leave_out(&response->tasks[i]->result);
		leave_out(&response->tasks[i]->stack_trace);
	}
	return &result->tasks;
}

void reeve_tasks_free(struct reeve_tasks *tasks)
{
	struct tasks_result *result = (struct tasks_result *)tasks;

	if (!tasks)
		return;
	reeve__v1__list_response__free_unpacked(result->response, NULL);
	free(tasks->tasks);
	free(result);
}
