/* The audit, and how queues, workers and totals stand; and any result as JSON. */
#include "client/lib/internal.h"

#include "common/json.h"

#include <stdlib.h>

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
	Reeve__V1__AuditResponse *response;
};

struct reeve_events *reeve_audit(
    struct reeve_client *client, int64_t task_id, int64_t since_us, uint32_t limit, struct reeve_failure *failure)
{
	Reeve__V1__AuditRequest request = REEVE__V1__AUDIT_REQUEST__INIT;
	Reeve__V1__AuditResponse *response;
	struct events_result *result;

	request.task_id = task_id;
	request.since_us = since_us;
	request.limit = limit;
	response = (Reeve__V1__AuditResponse *)client_call(
	    client, &reeve__v1__task_service__descriptor, "Audit", &request.base, NULL, 0, failure);
	if (!response)
		return NULL;
	result = allocate(1, sizeof *result);
	result->response = response;
	result->events.more = response->more;
	result->events.count = response->n_events;
	result->events.events = allocate(response->n_events, sizeof *result->events.events);
	for (size_t i = 0; i < response->n_events; i++) {
		const Reeve__V1__AuditEvent *message = response->events[i];

		result->events.events[i] = (struct reeve_event){
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
	return &result->events;
}

void reeve_events_free(struct reeve_events *events)
{
	struct events_result *result = (struct events_result *)events;

	if (!events)
		return;
	reeve__v1__audit_response__free_unpacked(result->response, NULL);
	free(events->events);
	free(result);
}

struct queues_result {
	struct reeve_queues queues;
	Reeve__V1__ListQueuesResponse *response;
};

struct reeve_queues *reeve_queues(struct reeve_client *client, const char *queue, struct reeve_failure *failure)
{
	Reeve__V1__ListQueuesRequest request = REEVE__V1__LIST_QUEUES_REQUEST__INIT;
	Reeve__V1__ListQueuesResponse *response;
	struct queues_result *result;

	if (queue)
		request.queue = (char *)queue;
	response = (Reeve__V1__ListQueuesResponse *)ask(client, "ListQueues", &request.base, failure);
	if (!response)
		return NULL;
	result = allocate(1, sizeof *result);
	result->response = response;
	result->queues.count = response->n_queues;
	result->queues.queues = allocate(response->n_queues, sizeof *result->queues.queues);
	for (size_t i = 0; i < response->n_queues; i++) {
		const Reeve__V1__QueueCounts *message = response->queues[i];

		result->queues.queues[i] = (struct reeve_queue){
		    .queue = message->queue,
		    .type = message->type,
		    .queued = message->queued,
		    .delayed = message->delayed,
		    .executing = message->executing,
		    .failed = message->failed,
		    .oldest_due_us = message->oldest_due_us,
		    .wire = message,
		};
	}
	return &result->queues;
}

void reeve_queues_free(struct reeve_queues *queues)
{
	struct queues_result *result = (struct queues_result *)queues;

	if (!queues)
		return;
	reeve__v1__list_queues_response__free_unpacked(result->response, NULL);
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
	    .state = message->state,
	    .concurrency = message->concurrency,
	    .holding = message->holding,
	    .n_queues = message->n_queues,
	    .queues = (const char *const *)message->queues,
	    .n_types = message->n_types,
	    .types = (const char *const *)message->types,
	    .registered_us = message->registered_us,
	    .heartbeat_us = message->heartbeat_us,
	    .version = message->version,
	    .doing = message->doing,
	    .doing_since_us = message->doing_since_us,
	    .succeeded = message->succeeded,
	    .failed = message->failed,
	    .by_hand = message->by_hand,
	    .uptime_ms = message->uptime_ms,
	    .wire = message,
	};
}

struct workers_result {
	struct reeve_workers workers;
	Reeve__V1__ListWorkersResponse *response;
};

struct reeve_workers *reeve_workers(struct reeve_client *client, bool all, struct reeve_failure *failure)
{
	Reeve__V1__ListWorkersRequest request = REEVE__V1__LIST_WORKERS_REQUEST__INIT;
	Reeve__V1__ListWorkersResponse *response;
	struct workers_result *result;

	request.all = all;
	response = (Reeve__V1__ListWorkersResponse *)ask(client, "ListWorkers", &request.base, failure);
	if (!response)
		return NULL;
	result = allocate(1, sizeof *result);
	result->response = response;
	result->workers.count = response->n_workers;
	result->workers.workers = allocate(response->n_workers, sizeof *result->workers.workers);
	for (size_t i = 0; i < response->n_workers; i++)
		worker_from_message(&result->workers.workers[i], response->workers[i]);
	return &result->workers;
}

void reeve_workers_free(struct reeve_workers *workers)
{
	struct workers_result *result = (struct workers_result *)workers;

	if (!workers)
		return;
	reeve__v1__list_workers_response__free_unpacked(result->response, NULL);
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
