/* Summaries of errors and of attempts: groups and counts, merged from all pages. */
#include "client/lib/internal.h"

#include <stdlib.h>
#include <string.h>

enum { GROUPS_DEFAULT = 100 };

static ProtobufCMessage *ask(
    struct reeve_client *client, const char *method, ProtobufCMessage *request, struct reeve_failure *failure)
{
	return client_call(client, &reeve__v1__task_service__descriptor, method, request, NULL, 0, failure);
}

/* --- errors ------------------------------------------------------------------------------------------------------ */

struct errors_result {
	struct reeve_error_groups groups;
	struct pages pages;
};

static int compare_texts(const void *a, const void *b)
{
	return strcmp((*(Reeve__V1__ErrorGroup *const *)a)->error, (*(Reeve__V1__ErrorGroup *const *)b)->error);
}

static int compare_codes(const void *a, const void *b)
{
	return strcmp((*(Reeve__V1__ErrorGroup *const *)a)->error_code, (*(Reeve__V1__ErrorGroup *const *)b)->error_code);
}

static void swap(const char **a, const char **b)
{
	const char *of_a = *a;

	*a = *b;
	*b = of_a;
}

static void add_group(void *group, void *more_group)
{
	Reeve__V1__ErrorGroup *to = group, *more = more_group;

	to->attempts += more->attempts;
	to->waiting += more->waiting;
	to->dead += more->dead;
	if (more->first_us < to->first_us)
		to->first_us = more->first_us;
	if (more->last_us < to->last_us || (more->last_us == to->last_us && more->example_id <= to->example_id))
		return;
	to->last_us = more->last_us;
	to->example_id = more->example_id;
	swap(&to->error, &more->error);
	swap(&to->error_code, &more->error_code);
}

/* By number of attempts, most first. */
static int compare_groups(const void *a, const void *b)
{
	const Reeve__V1__ErrorGroup *first = *(Reeve__V1__ErrorGroup *const *)a;
	const Reeve__V1__ErrorGroup *second = *(Reeve__V1__ErrorGroup *const *)b;

	if (first->attempts != second->attempts)
		return first->attempts > second->attempts ? -1 : 1;
	if (first->dead != second->dead)
		return first->dead > second->dead ? -1 : 1;
	if (first->last_us != second->last_us)
		return first->last_us > second->last_us ? -1 : 1;
	return strcmp(first->error, second->error);
}

static void join_groups(
    struct reeve_error_groups *groups, Reeve__V1__ErrorGroup **all, size_t count, bool by_code, size_t limit)
{
	count = add_up(all, count, by_code ? compare_codes : compare_texts, add_group);
	qsort(all, count, sizeof *all, compare_groups);
	groups->more = count > limit;
	groups->count = count < limit ? count : limit;
	groups->groups = allocate(groups->count, sizeof *groups->groups);
	for (size_t i = 0; i < groups->count; i++)
		groups->groups[i] = (struct reeve_error_group){
		    .error = all[i]->error,
		    .error_code = all[i]->error_code,
		    .attempts = all[i]->attempts,
		    .waiting = all[i]->waiting,
		    .dead = all[i]->dead,
		    .first_us = all[i]->first_us,
		    .last_us = all[i]->last_us,
		    .example_id = all[i]->example_id,
		    .wire = all[i],
		};
}

struct reeve_error_groups *reeve_errors(
    struct reeve_client *client, const struct reeve_errors_query *query, struct reeve_failure *failure)
{
	Reeve__V1__ErrorsRequest request = REEVE__V1__ERRORS_REQUEST__INIT;
	struct errors_result *result = allocate(1, sizeof *result);
	Reeve__V1__ErrorGroup **all = NULL;
	Reeve__V1__ErrorsResponse *page;
	size_t count = 0;

	request.by = query->by_code ? REEVE__V1__ERROR_GROUPING__ERROR_GROUPING_CODE
	                            : REEVE__V1__ERROR_GROUPING__ERROR_GROUPING_TEXT;
	if (query->queue)
		request.queue = query->queue;
	if (query->type)
		request.type = query->type;
	request.since_us = query->since_us;
	do {
		page = (Reeve__V1__ErrorsResponse *)ask(client, "Errors", &request.base, failure);
		if (!page) {
			free(all);
			reeve_error_groups_free(&result->groups);
			return NULL;
		}
		pages_add(&result->pages, page);
		all = gather(all, &count, page->groups, page->n_groups);
		request.page = page->next_page;
	} while (*page->next_page);
	join_groups(&result->groups, all, count, query->by_code, query->limit ? query->limit : GROUPS_DEFAULT);
	free(all);
	return &result->groups;
}

void reeve_error_groups_free(struct reeve_error_groups *groups)
{
	struct errors_result *result = (struct errors_result *)groups;

	if (!groups)
		return;
	pages_free(&result->pages);
	free(groups->groups);
	free(result);
}

/* --- executions -------------------------------------------------------------------------------------------------- */

struct executions_result {
	struct reeve_executions executions;
	struct pages pages;
};

/* Within one grouping only the hours, or only the names, differ. */
static int compare_executions(const void *a, const void *b)
{
	const Reeve__V1__ExecutionCount *first = *(Reeve__V1__ExecutionCount *const *)a;
	const Reeve__V1__ExecutionCount *second = *(Reeve__V1__ExecutionCount *const *)b;
	int order = strcmp(first->queue, second->queue);

	if (first->hour_us != second->hour_us)
		return first->hour_us < second->hour_us ? -1 : 1;
	return order ? order : strcmp(first->type, second->type);
}

static void add_execution_count(void *count, void *more_count)
{
	Reeve__V1__ExecutionCount *to = count, *more = more_count;

	to->count += more->count;
	to->succeeded += more->succeeded;
	to->total_us += more->total_us;
	to->total_ms = (to->total_us + 500) / 1000;
	to->average_ms = (to->total_us + 500 * to->count) / (1000 * to->count);
	if (more->fastest_ms < to->fastest_ms)
		to->fastest_ms = more->fastest_ms;
	if (more->slowest_ms > to->slowest_ms)
		to->slowest_ms = more->slowest_ms;
	if (more->last_us > to->last_us)
		to->last_us = more->last_us;
}

static void join_executions(struct reeve_executions *executions, Reeve__V1__ExecutionCount **all, size_t count)
{
	executions->count = add_up(all, count, compare_executions, add_execution_count);
	executions->counts = allocate(executions->count, sizeof *executions->counts);
	for (size_t i = 0; i < executions->count; i++) {
		all[i]->total_us = 0; /* only for adding up pages */
		executions->counts[i] = (struct reeve_execution_count){
		    .hour_us = all[i]->hour_us,
		    .queue = all[i]->queue,
		    .type = all[i]->type,
		    .count = all[i]->count,
		    .succeeded = all[i]->succeeded,
		    .total_ms = all[i]->total_ms,
		    .average_ms = all[i]->average_ms,
		    .fastest_ms = all[i]->fastest_ms,
		    .slowest_ms = all[i]->slowest_ms,
		    .last_us = all[i]->last_us,
		    .wire = all[i],
		};
	}
}

struct reeve_executions *reeve_executions(
    struct reeve_client *client, const struct reeve_executions_query *query, struct reeve_failure *failure)
{
	Reeve__V1__ExecutionsRequest request = REEVE__V1__EXECUTIONS_REQUEST__INIT;
	struct executions_result *result = allocate(1, sizeof *result);
	Reeve__V1__ExecutionCount **all = NULL;
	Reeve__V1__ExecutionsResponse *page;
	size_t count = 0;

	request.by = query->by_type ? REEVE__V1__EXECUTION_GROUPING__EXECUTION_GROUPING_TYPE
	                            : REEVE__V1__EXECUTION_GROUPING__EXECUTION_GROUPING_HOUR;
	if (query->queue)
		request.queue = query->queue;
	if (query->type)
		request.type = query->type;
	request.since_us = query->since_us;
	do {
		page = (Reeve__V1__ExecutionsResponse *)ask(client, "Executions", &request.base, failure);
		if (!page) {
			free(all);
			reeve_executions_free(&result->executions);
			return NULL;
		}
		pages_add(&result->pages, page);
		all = gather(all, &count, page->counts, page->n_counts);
		request.page = page->next_page;
	} while (*page->next_page);
	join_executions(&result->executions, all, count);
	free(all);
	return &result->executions;
}

void reeve_executions_free(struct reeve_executions *executions)
{
	struct executions_result *result = (struct executions_result *)executions;

	if (!executions)
		return;
	pages_free(&result->pages);
	free(executions->counts);
	free(result);
}
