/* Answers that come in pages. The names of fields connect them: reeve_next_page. */
#include "client/lib/internal.h"
#include "common/field.h"
#include "common/limits.h"
#include "common/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const ProtobufCFieldDescriptor *field_of(const ProtobufCMessage *message, const char *prefix, const char *name)
{
	char full[64];

	snprintf(full, sizeof full, "%s%s", prefix, name);
	return protobuf_c_message_descriptor_get_field_by_name(message->descriptor, full);
}

/* The items of an answer: its first list of messages. */
struct items {
	ProtobufCMessage ***items;
	size_t *count;
};

static struct items items_of(const ProtobufCMessage *answer)
{
	const ProtobufCFieldDescriptor *field = field_items(answer->descriptor);

	if (!field)
		abort(); /* such an answer has no pages */
	return (struct items){field_at(answer, field), field_count(answer, field)};
}

/* Copies a number or string to a field of the request. Returns true if it is neither 0 nor empty. */
static bool set_position(ProtobufCMessage *request, const ProtobufCFieldDescriptor *to, const ProtobufCMessage *message,
    const ProtobufCFieldDescriptor *from)
{
	if (from->type == PROTOBUF_C_TYPE_STRING) {
		const char *text = *(const char **)field_at(message, from);

		*(const char **)field_at(request, to) = text;
		return *text;
	}
	*(int64_t *)field_at(request, to) = *(int64_t *)field_at(message, from);
	return *(int64_t *)field_at(message, from) != 0;
}

bool reeve_next_page(void *request, const void *answer)
{
	const ProtobufCMessageDescriptor *descriptor = ((ProtobufCMessage *)request)->descriptor;
	const ProtobufCFieldDescriptor *more = field_of(answer, "", "more");
	struct items items = items_of(answer);
	bool found = more && *(protobuf_c_boolean *)field_at(answer, more) && *items.count > 0;

	for (unsigned i = 0; i < descriptor->n_fields; i++) {
		const ProtobufCFieldDescriptor *to = &descriptor->fields[i];
		const ProtobufCFieldDescriptor *from = field_of(answer, "next_", to->name);

		if (from)
			return set_position(request, to, answer, from);
		if (found && strncmp(to->name, "after_", 6) == 0) {
			const ProtobufCMessage *last = (*items.items)[*items.count - 1];

			set_position(request, to, last, field_of(last, "", to->name + 6));
		}
	}
	return found;
}

/* Moves the items of one answer to the end of another. */
static void move_items(ProtobufCMessage *to, ProtobufCMessage *from)
{
	struct items all = items_of(to), more = items_of(from);

	if (*more.count == 0)
		return;
	*all.items = mem_realloc(*all.items, (*all.count + *more.count) * sizeof **all.items);
	memcpy(*all.items + *all.count, *more.items, *more.count * sizeof **all.items);
	*all.count += *more.count;
	*more.count = 0;
}

/* Reads all pages; returns the first one with the items of all. */
static void *read_all(struct reeve_client *client, const ProtobufCServiceDescriptor *service, const char *method,
    void *request, struct reeve_failure *failure)
{
	ProtobufCMessage *all = reeve_call(client, service, method, request, NULL, failure), *page = all;
	size_t size = ((ProtobufCMessage *)request)->descriptor->sizeof_message;
	void *original = mem_calloc(1, size);

	memcpy(original, request, size);
	while (page) {
		bool more = reeve_next_page(request, page);
		ProtobufCMessage *next = NULL;

		if (page != all)
			move_items(all, page);
		if (more) {
			next = reeve_call(client, service, method, request, NULL, failure);
			if (!next) {
				reeve_free(all == page ? NULL : all);
				all = NULL;
			}
		}
		if (page != all)
			reeve_free(page);
		page = next;
	}
	memcpy(request, original, size);
	free(original);
	return all;
}

/* Sorts items (`compare` gets pointers to pointers to them) and merges equal ones: `add` adds a further item to the
 * first. */
static void add_up(
    const ProtobufCMessage *answer, int (*compare)(const void *a, const void *b), void (*add)(void *to, void *more))
{
	struct items items = items_of(answer);
	ProtobufCMessage **list = *items.items;
	size_t n = 0;

	if (*items.count == 0)
		return;
	qsort(list, *items.count, sizeof *list, compare);
	for (size_t i = 0; i < *items.count; i++) {
		if (n > 0 && compare(&list[n - 1], &list[i]) == 0) {
			add(list[n - 1], list[i]);
			reeve_free(list[i]);
		} else {
			list[n++] = list[i];
		}
	}
	*items.count = n;
}

/*
 * The audit.
 */

/* An event, its position in the answers, and its time for the order. */
struct placed_event {
	Reeve__V1__AuditEvent *event;
	size_t place;
	int64_t time_us;
};

/* Returns where an event belongs among the versions of its task: a late or refused result may have come after the event
 * that ended its attempt (audit_task.sql). */
static int64_t turn(const Reeve__V1__AuditEvent *event)
{
	bool of_result = event->event == REEVE__V1__AUDIT_EVENT_KIND__AUDIT_EVENT_KIND_LATE_RESULT ||
	    event->event == REEVE__V1__AUDIT_EVENT_KIND__AUDIT_EVENT_KIND_RESULT_REFUSED;

	return of_result && event->at_us > event->token ? event->at_us : event->token;
}

static int compare_numbers(int64_t a, int64_t b)
{
	return (a > b) - (a < b);
}

static int compare_in_task(const void *a, const void *b)
{
	const struct placed_event *first = a, *second = b;
	int order = compare_numbers(first->event->task_id, second->event->task_id);

	if (!order)
		order = compare_numbers(turn(first->event), turn(second->event));
	return order ? order : compare_numbers((int64_t)first->place, (int64_t)second->place);
}

static int compare_times(const void *a, const void *b)
{
	const struct placed_event *first = a, *second = b;
	int order = compare_numbers(first->time_us, second->time_us);

	return order ? order : compare_in_task(a, b);
}

/* Sorts events by time, but those of a task in the order of its versions, whatever clocks showed: a later page may have
 * events that belong between those of an earlier one. */
static void sort_events(Reeve__V1__AuditResponse *audit)
{
	struct placed_event *placed = mem_calloc(audit->n_events, sizeof *placed);

	for (size_t i = 0; i < audit->n_events; i++)
		placed[i] = (struct placed_event){audit->events[i], i, 0};
	qsort(placed, audit->n_events, sizeof *placed, compare_in_task);
	for (size_t i = 0; i < audit->n_events; i++) {
		const Reeve__V1__AuditEvent *event = placed[i].event;

		placed[i].time_us = event->at_us > event->token ? event->at_us : event->token;
		if (i > 0 && placed[i - 1].event->task_id == event->task_id && placed[i - 1].time_us > placed[i].time_us)
			placed[i].time_us = placed[i - 1].time_us;
	}
	qsort(placed, audit->n_events, sizeof *placed, compare_times);
	for (size_t i = 0; i < audit->n_events; i++)
		audit->events[i] = placed[i].event;
	free(placed);
}

/* Reads the newest events: those that the request selects among at least `scanned` of all. *begin is set to where the
 * first page begins, to be freed. */
static Reeve__V1__AuditResponse *newest_events(struct reeve_client *client, const Reeve__V1__AuditRequest *request,
    uint32_t scanned, char **begin, struct reeve_failure *failure)
{
	Reeve__V1__AuditRequest newest = *request;
	Reeve__V1__AuditResponse *start, *audit;

	newest.newest = true;
	newest.limit = scanned;
	newest.page = "";
	start = reeve_task_audit(client, &newest, NULL, failure);
	if (!start || !*start->next_page)
		return start;
	*begin = mem_asprintf("%.*s", (int)strcspn(start->next_page, ":"), start->next_page);
	newest.newest = false;
	newest.limit = 0;
	newest.page = start->next_page;
	audit = read_all(client, &reeve__v1__task_service__descriptor, "Audit", &newest, failure);
	reeve_free(start);
	return audit;
}

Reeve__V1__AuditResponse *reeve_audit(
    struct reeve_client *client, Reeve__V1__AuditRequest *request, struct reeve_failure *failure)
{
	size_t max = request->limit ? request->limit : DEFAULT_CALL_EVENTS;
	bool selects = (request->queue && *request->queue) || (request->type && *request->type) || request->n_events ||
	    (request->worker && *request->worker) || (request->actor && *request->actor);
	char *before = NULL, *begin = NULL;
	Reeve__V1__AuditResponse *audit = newest_events(client, request, (uint32_t)max, &begin, failure);

	/* If too few of the newest events are selected, ten times as many are read, until these are all there are. */
	for (size_t scanned = max; audit && selects && !request->task_id && audit->n_events <= max && begin &&
	     (!before || strcmp(before, begin) != 0) && scanned < LIMIT_CALL_EVENTS;) {
		scanned = scanned * 10 < LIMIT_CALL_EVENTS ? scanned * 10 : LIMIT_CALL_EVENTS;
		reeve_free(audit);
		free(before);
		before = begin;
		begin = NULL;
		audit = newest_events(client, request, (uint32_t)scanned, &begin, failure);
	}
	bool all = !begin || (before && strcmp(before, begin) == 0);
	free(before);
	free(begin);
	if (!audit)
		return NULL;
	sort_events(audit);
	audit->more = audit->n_events > max || (selects && !request->task_id && !all);
	if (audit->n_events > max) {
		size_t older = audit->n_events - max;

		for (size_t i = 0; i < older; i++)
			reeve_free(audit->events[i]);
		memmove(audit->events, audit->events + older, max * sizeof *audit->events);
		audit->n_events = max;
	}
	return audit;
}

/*
 * Queues.
 */

static int compare_counts(const void *a, const void *b)
{
	const Reeve__V1__QueueCounts *first = *(const Reeve__V1__QueueCounts *const *)a;
	const Reeve__V1__QueueCounts *second = *(const Reeve__V1__QueueCounts *const *)b;
	int order = strcmp(first->queue, second->queue);

	return order ? order : strcmp(first->type, second->type);
}

static void add_counts(void *counts, void *more_counts)
{
	Reeve__V1__QueueCounts *to = counts, *more = more_counts;

	to->queued += more->queued;
	to->delayed += more->delayed;
	to->executing += more->executing;
	to->failed += more->failed;
	if (more->oldest_due_us && (!to->oldest_due_us || more->oldest_due_us < to->oldest_due_us))
		to->oldest_due_us = more->oldest_due_us;
}

Reeve__V1__ListQueuesResponse *reeve_queues(
    struct reeve_client *client, Reeve__V1__ListQueuesRequest *request, struct reeve_failure *failure)
{
	Reeve__V1__ListQueuesResponse *queues =
	    read_all(client, &reeve__v1__admin_service__descriptor, "ListQueues", request, failure);

	if (queues)
		add_up(&queues->base, compare_counts, add_counts);
	return queues;
}

/*
 * Errors.
 */

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

Reeve__V1__ErrorsResponse *reeve_errors(
    struct reeve_client *client, Reeve__V1__ErrorsRequest *request, struct reeve_failure *failure)
{
	Reeve__V1__ErrorsResponse *errors =
	    read_all(client, &reeve__v1__task_service__descriptor, "Errors", request, failure);
	bool by_code = request->by == REEVE__V1__ERROR_GROUPING__ERROR_GROUPING_CODE;

	if (!errors || errors->n_groups == 0)
		return errors;
	add_up(&errors->base, by_code ? compare_codes : compare_texts, add_group);
	qsort(errors->groups, errors->n_groups, sizeof *errors->groups, compare_groups);
	return errors;
}

/*
 * Executions.
 */

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
	to->completed += more->completed;
	to->total_us += more->total_us;
	to->total_ms = (to->total_us + 500) / 1000;
	to->average_ms = (to->total_us + 500 * to->count) / (1000 * to->count);
	if (more->fastest_ms < to->fastest_ms)
		to->fastest_ms = more->fastest_ms;
	if (more->slowest_ms > to->slowest_ms)
		to->slowest_ms = more->slowest_ms;
	if (more->last_us > to->last_us) {
		to->last_us = more->last_us;
		to->last_ms = more->last_ms;
	}
}

Reeve__V1__ExecutionsResponse *reeve_executions(
    struct reeve_client *client, Reeve__V1__ExecutionsRequest *request, struct reeve_failure *failure)
{
	Reeve__V1__ExecutionsResponse *executions =
	    read_all(client, &reeve__v1__task_service__descriptor, "Executions", request, failure);

	if (!executions)
		return NULL;
	add_up(&executions->base, compare_executions, add_execution_count);
	for (size_t i = 0; i < executions->n_counts; i++)
		executions->counts[i]->total_us = 0; /* only for adding up pages */
	return executions;
}
