/* The audit; queues, workers and totals; any result as JSON. */
#include "client/lib/internal.h"

#include "common/json.h"

#include <stdlib.h>
#include <string.h>

enum { AUDIT_DEFAULT = 1000 }; /* events; the manager's default */

char *reeve_json(const void *wire)
{
	json_t *object = json_from_message(wire);
	char *text = json_dumps(object, JSON_COMPACT);

	json_decref(object);
	if (!text)
		abort();
	return text;
}

/* Calls a method of the admin service. */
static ProtobufCMessage *ask(
    struct reeve_client *client, const char *method, ProtobufCMessage *request, struct reeve_failure *failure)
{
	return client_call(client, &reeve__v1__admin_service__descriptor, method, request, NULL, 0, failure);
}

struct events_result {
	struct reeve_events events;
	struct pages pages;
};

static void add_events(struct reeve_events *events, const Reeve__V1__AuditResponse *page)
{
	events->events = reallocarray(events->events, events->count + page->n_events + 1, sizeof *events->events);
	if (!events->events)
		abort();
	for (size_t i = 0; i < page->n_events; i++) {
		const Reeve__V1__AuditEvent *message = page->events[i];

		events->events[events->count++] = (struct reeve_event){
		    .at_us = message->at_us,
		    .task_id = message->task_id,
		    .token = message->token,
		    .event = message->event,
		    .worker = message->worker,
		    .worker_id = message->worker_id,
		    .attempt = message->attempt,
		    .actor = message->actor,
		    .note = message->note,
		    .wire = message,
		};
	}
}

/* An event and its position in the answers. */
struct placed_event {
	struct reeve_event event;
	size_t place;
};

/* Returns where an event belongs among the versions of its task: a late result came after the event that ended its
 * attempt (audit_task.sql). */
static int64_t turn(const struct reeve_event *event)
{
	return strcmp(event->event, "late_result") == 0 && event->at_us > event->token ? event->at_us : event->token;
}

static int compare_events(const void *a, const void *b)
{
	const struct placed_event *first = a, *second = b;
	int64_t first_turn = turn(&first->event), second_turn = turn(&second->event);

	if (first_turn != second_turn)
		return first_turn < second_turn ? -1 : 1;
	if (first->event.task_id != second->event.task_id)
		return first->event.task_id < second->event.task_id ? -1 : 1;
	return first->place < second->place ? -1 : 1;
}

/* Sorts events by turn and task, with a stable order of equal ones. */
static void sort_events(struct reeve_events *events)
{
	struct placed_event *placed = allocate(events->count, sizeof *placed);

	for (size_t i = 0; i < events->count; i++)
		placed[i] = (struct placed_event){events->events[i], i};
	qsort(placed, events->count, sizeof *placed, compare_events);
	for (size_t i = 0; i < events->count; i++)
		events->events[i] = placed[i].event;
	free(placed);
}

/* Requests a page of events and adds it to the result. */
static bool add_page(struct reeve_client *client, Reeve__V1__AuditRequest *request, struct events_result *result,
    struct reeve_failure *failure)
{
	Reeve__V1__AuditResponse *page = (Reeve__V1__AuditResponse *)client_call(
	    client, &reeve__v1__task_service__descriptor, "Audit", &request->base, NULL, 0, failure);

	if (!page)
		return false;
	add_events(&result->events, pages_add(&result->pages, page));
	result->events.next_page = page->next_page;
	return true;
}

struct reeve_events *reeve_audit(
    struct reeve_client *client, int64_t task_id, int64_t since_us, uint32_t limit, struct reeve_failure *failure)
{
	Reeve__V1__AuditRequest request = REEVE__V1__AUDIT_REQUEST__INIT;
	struct events_result *result = allocate(1, sizeof *result);
	struct reeve_events *events = &result->events;
	size_t most = limit ? limit : AUDIT_DEFAULT;

	request.task_id = task_id;
	request.since_us = since_us;
	request.limit = limit;
	request.newest = true;
	do {
		if (!add_page(client, &request, result, failure)) {
			reeve_events_free(events);
			return NULL;
		}
		request.newest = false;
		request.limit = 0;
		request.page = events->next_page;
	} while (*events->next_page);
	if (result->pages.count > 1) /* a later page may have events that belong between those of an earlier one */
		sort_events(events);
	events->more = events->count > most;
	if (events->more) {
		memmove(events->events, events->events + events->count - most, most * sizeof *events->events);
		events->count = most;
	}
	return events;
}

struct reeve_events *reeve_audit_page(
    struct reeve_client *client, int64_t task_id, int64_t since_us, const char *page, struct reeve_failure *failure)
{
	Reeve__V1__AuditRequest request = REEVE__V1__AUDIT_REQUEST__INIT;
	struct events_result *result = allocate(1, sizeof *result);

	request.task_id = task_id;
	request.since_us = since_us || task_id ? since_us : 1; /* 0 would mean the last hour of all tasks */
	if (page)
		request.page = page;
	if (!add_page(client, &request, result, failure)) {
		reeve_events_free(&result->events);
		return NULL;
	}
	result->events.more = *result->events.next_page != '\0';
	return &result->events;
}

void reeve_events_free(struct reeve_events *events)
{
	struct events_result *result = (struct events_result *)events;

	if (!events)
		return;
	pages_free(&result->pages);
	free(events->events);
	free(result);
}

struct queues_result {
	struct reeve_queues queues;
	struct pages pages;
};

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

/* Merges all pages into one row for each queue and type. */
static void join_queues(struct reeve_queues *queues, Reeve__V1__QueueCounts **all, size_t count)
{
	queues->count = add_up(all, count, compare_counts, add_counts);
	queues->queues = allocate(queues->count, sizeof *queues->queues);
	for (size_t i = 0; i < queues->count; i++)
		queues->queues[i] = (struct reeve_queue){
		    .queue = all[i]->queue,
		    .type = all[i]->type,
		    .queued = all[i]->queued,
		    .delayed = all[i]->delayed,
		    .executing = all[i]->executing,
		    .failed = all[i]->failed,
		    .oldest_due_us = all[i]->oldest_due_us,
		    .wire = all[i],
		};
}

struct reeve_queues *reeve_queues(struct reeve_client *client, const char *queue, struct reeve_failure *failure)
{
	Reeve__V1__ListQueuesRequest request = REEVE__V1__LIST_QUEUES_REQUEST__INIT;
	struct queues_result *result = allocate(1, sizeof *result);
	Reeve__V1__ListQueuesResponse *page;
	Reeve__V1__QueueCounts **all = NULL;
	size_t count = 0;

	if (queue)
		request.queue = queue;
	do {
		page = (Reeve__V1__ListQueuesResponse *)ask(client, "ListQueues", &request.base, failure);
		if (!page) {
			free(all);
			reeve_queues_free(&result->queues);
			return NULL;
		}
		pages_add(&result->pages, page);
		all = gather(all, &count, page->queues, page->n_queues);
		request.page = page->next_page;
	} while (*page->next_page);
	join_queues(&result->queues, all, count);
	free(all);
	return &result->queues;
}

void reeve_queues_free(struct reeve_queues *queues)
{
	struct queues_result *result = (struct queues_result *)queues;

	if (!queues)
		return;
	pages_free(&result->pages);
	free(queues->queues);
	free(result);
}

void worker_from_message(struct reeve_worker_info *worker, const Reeve__V1__Worker *message)
{
	*worker = (struct reeve_worker_info){
	    .incarnation = message->incarnation,
	    .name = message->name,
	    .host = message->host,
	    .pid = message->pid,
	    .state = enum_word(&reeve__v1__worker_state__descriptor, message->state),
	    .concurrency = message->concurrency,
	    .holding = message->holding,
	    .n_queues = message->n_queues,
	    .queues = (const char *const *)message->queues,
	    .n_types = message->n_types,
	    .types = (const char *const *)message->types,
	    .registered_us = message->registered_us,
	    .heartbeat_us = message->heartbeat_us,
	    .version = message->version,
	    .mode = enum_word(&reeve__v1__worker_mode__descriptor, message->mode),
	    .mode_since_us = message->mode_since_us,
	    .succeeded = message->succeeded,
	    .failed = message->failed,
	    .manual = message->manual,
	    .uptime_ms = message->uptime_ms,
	    .wire = message,
	};
}

struct workers_result {
	struct reeve_workers workers;
	struct pages pages;
};

struct reeve_workers *reeve_workers(
    struct reeve_client *client, const struct reeve_workers_query *query, struct reeve_failure *failure)
{
	Reeve__V1__ListWorkersRequest request = REEVE__V1__LIST_WORKERS_REQUEST__INIT;
	struct workers_result *result = allocate(1, sizeof *result);
	struct reeve_workers *workers = &result->workers;
	Reeve__V1__ListWorkersResponse *page;

	request.all = query->all;
	if (query->queue)
		request.queue = query->queue;
	do {
		page = (Reeve__V1__ListWorkersResponse *)ask(client, "ListWorkers", &request.base, failure);
		if (!page) {
			reeve_workers_free(workers);
			return NULL;
		}
		pages_add(&result->pages, page);
		workers->workers =
		    reallocarray(workers->workers, workers->count + page->n_workers + 1, sizeof *workers->workers);
		if (!workers->workers)
			abort();
		for (size_t i = 0; i < page->n_workers; i++)
			worker_from_message(&workers->workers[workers->count++], page->workers[i]);
		request.after = page->next_after;
	} while (page->next_after);
	return workers;
}

void reeve_workers_free(struct reeve_workers *workers)
{
	struct workers_result *result = (struct workers_result *)workers;

	if (!workers)
		return;
	pages_free(&result->pages);
	free(workers->workers);
	free(result);
}

struct stats_result {
	struct reeve_stats stats;
	Reeve__V1__StatsResponse *response;
};

struct reeve_stats *reeve_stats(struct reeve_client *client, struct reeve_failure *failure)
{
	Reeve__V1__StatsRequest request = REEVE__V1__STATS_REQUEST__INIT;
	Reeve__V1__StatsResponse *response;
	struct stats_result *result;

	response = (Reeve__V1__StatsResponse *)ask(client, "Stats", &request.base, failure);
	if (!response)
		return NULL;
	result = allocate(1, sizeof *result);
	result->response = response;
	result->stats = (struct reeve_stats){
	    .queued = response->queued,
	    .delayed = response->delayed,
	    .executing = response->executing,
	    .failed = response->failed,
	    .completed = response->completed,
	    .dead = response->dead,
	    .cancelled = response->cancelled,
	    .workers_alive = response->workers_alive,
	    .n_counters = response->n_counters,
	    .counters = allocate(response->n_counters, sizeof *result->stats.counters),
	    .wire = response,
	};
	for (size_t i = 0; i < response->n_counters; i++)
		result->stats.counters[i] =
		    (struct reeve_counter){response->counters[i]->name, response->counters[i]->value};
	return &result->stats;
}

void reeve_stats_free(struct reeve_stats *stats)
{
	struct stats_result *result = (struct stats_result *)stats;

	if (!stats)
		return;
	reeve__v1__stats_response__free_unpacked(result->response, NULL);
	free(stats->counters);
	free(result);
}
