/* What went wrong, and how attempts went: groups and counts. */
#include "client/lib/internal.h"

#include <stdlib.h>

struct errors_result {
	struct reeve_error_groups groups;
	Reeve__V1__ErrorsResponse *response;
};

struct reeve_error_groups *reeve_errors(
    struct reeve_client *client, const struct reeve_errors_query *query, struct reeve_failure *failure)
{
	Reeve__V1__ErrorsRequest request = REEVE__V1__ERRORS_REQUEST__INIT;
	Reeve__V1__ErrorsResponse *response;
	struct errors_result *result;

	request.by = query->by_code ? REEVE__V1__ERROR_GROUPING__ERROR_GROUPING_CODE
	                            : REEVE__V1__ERROR_GROUPING__ERROR_GROUPING_TEXT;
	if (query->queue)
		request.queue = (char *)query->queue;
	if (query->type)
		request.type = (char *)query->type;
	request.since_us = query->since_us;
	request.limit = query->limit;
	response = (Reeve__V1__ErrorsResponse *)client_call(
	    client, &reeve__v1__task_service__descriptor, "Errors", &request.base, NULL, 0, failure);
	if (!response)
		return NULL;
	result = allocate(1, sizeof *result);
	result->response = response;
	result->groups.more = response->more;
	result->groups.count = response->n_groups;
	result->groups.groups = allocate(response->n_groups, sizeof *result->groups.groups);
	for (size_t i = 0; i < response->n_groups; i++) {
		const Reeve__V1__ErrorGroup *message = response->groups[i];

		result->groups.groups[i] = (struct reeve_error_group){
		    .error = message->error,
		    .error_code = message->error_code,
		    .attempts = message->attempts,
		    .waiting = message->waiting,
		    .dead = message->dead,
		    .first_us = message->first_us,
		    .last_us = message->last_us,
		    .example_id = message->example_id,
		    .wire = message,
		};
	}
	return &result->groups;
}

void reeve_error_groups_free(struct reeve_error_groups *groups)
{
	struct errors_result *result = (struct errors_result *)groups;

	if (!groups)
		return;
	reeve__v1__errors_response__free_unpacked(result->response, NULL);
	free(groups->groups);
	free(result);
}

struct executions_result {
	struct reeve_executions executions;
	Reeve__V1__ExecutionsResponse *response;
};

struct reeve_executions *reeve_executions(
    struct reeve_client *client, const struct reeve_executions_query *query, struct reeve_failure *failure)
{
	Reeve__V1__ExecutionsRequest request = REEVE__V1__EXECUTIONS_REQUEST__INIT;
	Reeve__V1__ExecutionsResponse *response;
	struct executions_result *result;

	request.by = query->by_type ? REEVE__V1__EXECUTION_GROUPING__EXECUTION_GROUPING_TYPE
	                            : REEVE__V1__EXECUTION_GROUPING__EXECUTION_GROUPING_HOUR;
	if (query->queue)
		request.queue = (char *)query->queue;
	if (query->type)
		request.type = (char *)query->type;
	request.since_us = query->since_us;
	response = (Reeve__V1__ExecutionsResponse *)client_call(
	    client, &reeve__v1__task_service__descriptor, "Executions", &request.base, NULL, 0, failure);
	if (!response)
		return NULL;
	result = allocate(1, sizeof *result);
	result->response = response;
	result->executions.count = response->n_counts;
	result->executions.counts = allocate(response->n_counts, sizeof *result->executions.counts);
	for (size_t i = 0; i < response->n_counts; i++) {
		const Reeve__V1__ExecutionCount *message = response->counts[i];

		result->executions.counts[i] = (struct reeve_execution_count){
		    .hour_us = message->hour_us,
		    .queue = message->queue,
		    .type = message->type,
		    .count = message->count,
		    .completed = message->completed,
		    .total_ms = message->total_ms,
		    .average_ms = message->average_ms,
		    .fastest_ms = message->fastest_ms,
		    .slowest_ms = message->slowest_ms,
		    .last_us = message->last_us,
		    .wire = message,
		};
	}
	return &result->executions;
}

void reeve_executions_free(struct reeve_executions *executions)
{
	struct executions_result *result = (struct executions_result *)executions;

	if (!executions)
		return;
	reeve__v1__executions_response__free_unpacked(result->response, NULL);
	free(executions->counts);
	free(result);
}
