/* A thread runs the fake's loop; one lock guards all tasks and the tests' settings. */
#include "tests/unit/client/standin.h"

#include "common/clock.h"
#include "common/rpc/server.h"

#include <criterion/criterion.h>
#include <event2/thread.h>
#include <pthread.h>
#include <reeve/v1/admin.pb-c.h>
#include <reeve/v1/task.pb-c.h>
#include <reeve/v1/worker.pb-c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

enum { POLL_MS = 5, MAX_HELD = 16 };

#define ENDED_FIRST REEVE__V1__TASK_STATUS__TASK_STATUS_COMPLETED

/* A Wait without an answer yet. */
struct waiting {
	struct rpc_call *call;
	const Reeve__V1__WaitRequest *request;
	int64_t end_ms;
	struct waiting *prev, *next;
};

struct held {
	struct rpc_call *call;
	const Reeve__V1__SubmitRequest *request;
};

struct standin {
	struct event_base *base;
	struct rpc_server *server;
	struct event *look, *stop;
	pthread_t thread;
	char url[64];
	pthread_mutex_t lock;
	/* Guarded by the lock. */
	Reeve__V1__Task **tasks; /* by id − 1 */
	size_t n_tasks, capacity;
	struct waiting *waits;
	size_t n_waits, max_ids, cut;
	struct standin_submit submits[STANDIN_SUBMITS];
	size_t n_submits;
	struct held held[MAX_HELD];
	int n_held, hold;
	int fail_after, fail_count;
	reeve_status fail_code;
	int end_as;
	int unsure;
	char poison[32];
	char reason[256];
};

static char *copy(const char *text)
{
	return *text ? strdup(text) : (char *)protobuf_c_empty_string;
}

static Reeve__V1__Task *find_task(struct standin *standin, int64_t id)
{
	return id >= 1 && (size_t)id <= standin->n_tasks ? standin->tasks[id - 1] : NULL;
}

static void end_task(Reeve__V1__Task *task, int status, const char *text)
{
	int64_t now = clock_wall_us();

	task->status = (Reeve__V1__TaskStatus)status;
	task->attempt = 1;
	task->first_started_us = task->started_us = now - 1000;
	task->finished_us = now;
	if (task->worker != protobuf_c_empty_string) /* it has ended before */
		free((char *)task->worker);
	task->worker = strdup("standin/1");
	if (status == (int)REEVE__V1__TASK_STATUS__TASK_STATUS_COMPLETED) {
		task->result = copy(text);
	} else {
		task->last_error = copy(text);
		task->error_code = strdup("exit:65");
	}
}

static Reeve__V1__Task *find_key(struct standin *standin, const Reeve__V1__TaskSpec *spec)
{
	for (size_t i = 0; i < standin->n_tasks && *spec->key; i++) {
		if (strcmp(standin->tasks[i]->key, spec->key) == 0)
			return standin->tasks[i];
	}
	return NULL;
}

static Reeve__V1__Task *make_task(struct standin *standin, const Reeve__V1__TaskSpec *spec)
{
	Reeve__V1__Task *task = malloc(sizeof *task);

	if (standin->n_tasks == standin->capacity) {
		standin->capacity = standin->capacity ? 2 * standin->capacity : 64;
		standin->tasks = realloc(standin->tasks, standin->capacity * sizeof(Reeve__V1__Task *));
	}
	reeve__v1__task__init(task);
	standin->tasks[standin->n_tasks++] = task;
	task->id = (int64_t)standin->n_tasks;
	task->queue = strdup(*spec->queue ? spec->queue : "default");
	task->type = strdup(spec->type);
	task->key = copy(spec->key);
	task->source = copy(spec->source);
	task->details = copy(spec->details);
	task->priority = spec->priority;
	task->max_attempts = spec->max_attempts ? spec->max_attempts : 5;
	task->timeout_ms = spec->timeout_ms ? spec->timeout_ms : 60000;
	task->created_us = clock_wall_us();
	task->run_at_us = spec->run_at_us ? spec->run_at_us : task->created_us + spec->delay_ms * 1000;
	task->status = REEVE__V1__TASK_STATUS__TASK_STATUS_QUEUED;
	if (standin->end_as)
		end_task(task, standin->end_as, spec->details);
	return task;
}

static void answer_submit(struct standin *standin, struct rpc_call *call, const Reeve__V1__SubmitRequest *request)
{
	Reeve__V1__SubmitResponse response = REEVE__V1__SUBMIT_RESPONSE__INIT;
	Reeve__V1__SubmittedTask *answers = calloc(request->n_tasks, sizeof *answers);

	response.tasks = calloc(request->n_tasks, sizeof *response.tasks);
	for (size_t i = 0; i < request->n_tasks; i++) {
		Reeve__V1__Task *known = find_key(standin, request->tasks[i]);

		reeve__v1__submitted_task__init(&answers[i]);
		answers[i].existing = known != NULL;
		answers[i].id = known ? known->id : make_task(standin, request->tasks[i])->id;
		response.tasks[response.n_tasks++] = &answers[i];
	}
	rpc_call_reply(call, &response.base);
	free(response.tasks);
	free(answers);
}

static void serve_submit(void *service, struct rpc_call *call, const ProtobufCMessage *message)
{
	struct standin *standin = service;
	const Reeve__V1__SubmitRequest *request = (const void *)message;

	pthread_mutex_lock(&standin->lock);
	if (standin->n_submits < STANDIN_SUBMITS) {
		struct standin_submit *submit = &standin->submits[standin->n_submits++];

		if (rpc_call_request_id(call))
			memcpy(submit->request_id, rpc_call_request_id(call), UUID_BYTES);
		submit->count = request->n_tasks;
	}
	for (size_t i = 0; i < request->n_tasks && *standin->poison; i++) {
		if (strcmp(request->tasks[i]->type, standin->poison) != 0)
			continue;
		rpc_call_fail(call, STATUS(PERMISSION_DENIED), "as the test wants it");
		pthread_mutex_unlock(&standin->lock);
		return;
	}
	if (standin->fail_after > 0) {
		standin->fail_after--;
	} else if (standin->fail_count > 0) {
		standin->fail_count--;
		rpc_call_fail(call, standin->fail_code, "as the test wants it");
		pthread_mutex_unlock(&standin->lock);
		return;
	}
	if (standin->hold == 0) {
		answer_submit(standin, call, request);
	} else {
		standin->held[standin->n_held++] = (struct held){call, request};
		for (int i = standin->n_held; standin->n_held == standin->hold && i-- > 0;) {
			answer_submit(standin, standin->held[i].call, standin->held[i].request);
			if (i == 0)
				standin->n_held = 0;
		}
	}
	pthread_mutex_unlock(&standin->lock);
}

static void serve_get(void *service, struct rpc_call *call, const ProtobufCMessage *message)
{
	struct standin *standin = service;
	Reeve__V1__GetResponse response = REEVE__V1__GET_RESPONSE__INIT;
	int64_t id = ((const Reeve__V1__GetRequest *)message)->id;

	pthread_mutex_lock(&standin->lock);
	response.task = find_task(standin, id);
	if (response.task)
		rpc_call_reply(call, &response.base);
	else
		rpc_call_fail(call, STATUS(NOT_FOUND), "there is no task %lld", (long long)id);
	pthread_mutex_unlock(&standin->lock);
}

static bool matches(const Reeve__V1__Task *task, const Reeve__V1__ListRequest *request)
{
	return (!request->status || task->status == request->status) &&
	       (!*request->queue || strcmp(task->queue, request->queue) == 0) &&
	       (!*request->type || strcmp(task->type, request->type) == 0) &&
	       (!request->before_id || task->id < request->before_id);
}

static void serve_list(void *service, struct rpc_call *call, const ProtobufCMessage *message)
{
	struct standin *standin = service;
	const Reeve__V1__ListRequest *request = (const void *)message;
	Reeve__V1__ListResponse response = REEVE__V1__LIST_RESPONSE__INIT;
	uint32_t limit = request->limit ? request->limit : 100;

	pthread_mutex_lock(&standin->lock);
	response.tasks = calloc(standin->n_tasks + 1, sizeof *response.tasks);
	for (size_t i = standin->n_tasks; i-- > 0 && !response.next_before_id;) {
		if (!matches(standin->tasks[i], request))
			continue;
		if (response.n_tasks == limit)
			response.next_before_id = response.tasks[limit - 1]->id;
		else
			response.tasks[response.n_tasks++] = standin->tasks[i];
	}
	rpc_call_reply(call, &response.base);
	free(response.tasks);
	pthread_mutex_unlock(&standin->lock);
}

/* Answers a Wait if all its tasks have ended, or if `anyway`. */
static bool answer_wait(
    struct standin *standin, struct rpc_call *call, const Reeve__V1__WaitRequest *request, bool anyway)
{
	Reeve__V1__WaitResponse response = REEVE__V1__WAIT_RESPONSE__INIT;
	size_t n_ended = 0;

	response.ended = calloc(request->n_ids + 1, sizeof *response.ended);
	for (size_t i = 0; i < request->n_ids; i++) {
		Reeve__V1__Task *task = find_task(standin, request->ids[i]);

		if (task->status < ENDED_FIRST)
			continue;
		n_ended++;
		if (standin->cut == 0 || response.n_ended < standin->cut)
			response.ended[response.n_ended++] = task;
	}
	response.pending = (uint32_t)(request->n_ids - response.n_ended);
	bool answers = anyway || n_ended == request->n_ids;
	if (answers)
		rpc_call_reply(call, &response.base);
	free(response.ended);
	return answers;
}

static void serve_wait(void *service, struct rpc_call *call, const ProtobufCMessage *message)
{
	struct standin *standin = service;
	const Reeve__V1__WaitRequest *request = (const void *)message;

	pthread_mutex_lock(&standin->lock);
	standin->n_waits++;
	if (request->n_ids > standin->max_ids)
		standin->max_ids = request->n_ids;
	for (size_t i = 0; i < request->n_ids; i++) {
		if (find_task(standin, request->ids[i]))
			continue;
		rpc_call_fail(call, STATUS(NOT_FOUND), "there is no task %lld", (long long)request->ids[i]);
		pthread_mutex_unlock(&standin->lock);
		return;
	}
	if (!answer_wait(standin, call, request, request->wait_ms == 0)) {
		struct waiting *waiting = calloc(1, sizeof *waiting);

		waiting->call = call;
		waiting->request = request;
		waiting->end_ms = clock_monotonic_ms() + request->wait_ms;
		DL_APPEND(standin->waits, waiting);
	}
	pthread_mutex_unlock(&standin->lock);
}

static void look(evutil_socket_t fd, short events, void *arg)
{
	struct standin *standin = arg;
	struct waiting *waiting, *next;

	(void)fd;
	(void)events;
	pthread_mutex_lock(&standin->lock);
	DL_FOREACH_SAFE(standin->waits, waiting, next)
	{
		bool over = clock_monotonic_ms() >= waiting->end_ms;

		if (answer_wait(standin, waiting->call, waiting->request, over)) {
			DL_DELETE(standin->waits, waiting);
			free(waiting);
		}
	}
	pthread_mutex_unlock(&standin->lock);
}

/* Applies Cancel, Retry or Update to a task. Returns NULL if that changed it, otherwise the reason why not. */
static const char *change_task(Reeve__V1__Task *task, const char *method, const ProtobufCMessage *message)
{
	bool ended = task->status >= ENDED_FIRST;

	if (strcmp(method, "Cancel") == 0) {
		if (ended)
			return "it has ended";
		task->status = REEVE__V1__TASK_STATUS__TASK_STATUS_CANCELLED;
		return NULL;
	}
	if (strcmp(method, "Retry") == 0) {
		task->status = REEVE__V1__TASK_STATUS__TASK_STATUS_QUEUED;
		return NULL;
	}
	const Reeve__V1__UpdateRequest *update = (const void *)message;
	if (ended)
		return "it has ended";
	if (update->priority)
		task->priority = update->priority->value;
	if (update->run_at_us)
		task->run_at_us = update->run_at_us;
	if (update->max_attempts)
		task->max_attempts = update->max_attempts;
	return NULL;
}

/* The three responses have the same fields with the same numbers, so that one of them serves for all on the wire. */
static void serve_change(struct standin *standin, struct rpc_call *call, const char *method, const int64_t *ids,
    size_t n_ids, const ProtobufCMessage *message)
{
	Reeve__V1__CancelResponse cancel = REEVE__V1__CANCEL_RESPONSE__INIT;
	Reeve__V1__RetryResponse retry = REEVE__V1__RETRY_RESPONSE__INIT;
	Reeve__V1__UpdateResponse update = REEVE__V1__UPDATE_RESPONSE__INIT;
	Reeve__V1__ChangedTask *changes = calloc(n_ids, sizeof *changes), **list = calloc(n_ids, sizeof(void *));
	int64_t *missing = calloc(n_ids, sizeof *missing);
	size_t n_list = 0, n_missing = 0;

	pthread_mutex_lock(&standin->lock);
	for (size_t i = 0; i < n_ids; i++) {
		Reeve__V1__Task *task = find_task(standin, ids[i]);
		const char *note;

		if (!task) {
			missing[n_missing++] = ids[i];
			continue;
		}
		note = change_task(task, method, message);
		reeve__v1__changed_task__init(&changes[n_list]);
		changes[n_list].id = ids[i];
		changes[n_list].status = task->status;
		changes[n_list].changed = !note;
		if (note)
			changes[n_list].note = (char *)note;
		list[n_list] = &changes[n_list];
		n_list++;
	}
	cancel.n_tasks = retry.n_tasks = update.n_tasks = n_list;
	cancel.tasks = retry.tasks = update.tasks = list;
	cancel.n_not_found = retry.n_not_found = update.n_not_found = n_missing;
	cancel.not_found = retry.not_found = update.not_found = missing;
	if (n_list == 0)
		rpc_call_fail(call, STATUS(NOT_FOUND), "there is no task %lld", (long long)ids[0]);
	else
		rpc_call_reply(call, *method == 'C' ? &cancel.base : *method == 'R' ? &retry.base : &update.base);
	pthread_mutex_unlock(&standin->lock);
	free(changes);
	free(list);
	free(missing);
}

static void serve_cancel(void *service, struct rpc_call *call, const ProtobufCMessage *message)
{
	struct standin *standin = service;
	const Reeve__V1__CancelRequest *request = (const void *)message;

	pthread_mutex_lock(&standin->lock);
	snprintf(standin->reason, sizeof standin->reason, "%s", request->reason);
	pthread_mutex_unlock(&standin->lock);
	serve_change(standin, call, "Cancel", request->ids, request->n_ids, message);
}

static void serve_retry(void *service, struct rpc_call *call, const ProtobufCMessage *message)
{
	const Reeve__V1__RetryRequest *request = (const void *)message;

	serve_change(service, call, "Retry", request->ids, request->n_ids, message);
}

static void serve_update(void *service, struct rpc_call *call, const ProtobufCMessage *message)
{
	const Reeve__V1__UpdateRequest *request = (const void *)message;

	serve_change(service, call, "Update", request->ids, request->n_ids, message);
}

enum { EVENTS_A_PAGE = 3 };

/* Serves one event for each submitted task. */
static void serve_audit(void *service, struct rpc_call *call, const ProtobufCMessage *message)
{
	struct standin *standin = service;
	const Reeve__V1__AuditRequest *request = (const void *)message;
	Reeve__V1__AuditResponse response = REEVE__V1__AUDIT_RESPONSE__INIT;
	uint32_t limit = request->limit ? request->limit : 1000;
	size_t begin = strtoul(request->page, NULL, 10);
	Reeve__V1__AuditEvent *events;
	char page[24];

	pthread_mutex_lock(&standin->lock);
	events = calloc(standin->n_tasks + 1, sizeof *events);
	response.events = calloc(standin->n_tasks + 1, sizeof *response.events);
	if (request->newest) { /* the position of the newest, and one more */
		begin = standin->n_tasks > limit && !request->task_id ? standin->n_tasks - limit - 1 : 0;
		limit = 0;
	}
	for (size_t i = begin; i < standin->n_tasks; i++) {
		const Reeve__V1__Task *task = standin->tasks[i];
		Reeve__V1__AuditEvent *event = &events[response.n_events];

		if ((request->task_id && task->id != request->task_id) || task->created_us < request->since_us ||
		    (request->until_us && task->created_us >= request->until_us))
			continue;
		if (response.n_events == limit || response.n_events == EVENTS_A_PAGE) {
			snprintf(page, sizeof page, "%zu", i);
			response.next_page = page;
			response.more = true;
			break;
		}
		reeve__v1__audit_event__init(event);
		event->at_us = task->created_us;
		event->task_id = task->id;
		event->token = task->created_us;
		event->event = (char *)"submitted";
		event->actor = (char *)rpc_call_actor(call);
		event->note = (char *)"by the test";
		response.events[response.n_events++] = event;
	}
	rpc_call_reply(call, &response.base);
	free(response.events);
	free(events);
	pthread_mutex_unlock(&standin->lock);
}

static void serve_ping(void *service, struct rpc_call *call, const ProtobufCMessage *message)
{
	Reeve__V1__PingResponse response = REEVE__V1__PING_RESPONSE__INIT;

	(void)service;
	(void)message;
	response.now_us = clock_wall_us();
	response.contract = REEVE__V1__CONTRACT__CONTRACT_CURRENT;
	response.manager = (char *)"standin";
	response.database_up = true;
	response.max_details_bytes = STANDIN_MAX_DETAILS;
	response.max_message_bytes = 8 * 1024 * 1024;
	rpc_call_reply(call, &response.base);
}

static void serve_queues(void *service, struct rpc_call *call, const ProtobufCMessage *message)
{
	const Reeve__V1__ListQueuesRequest *request = (const void *)message;
	Reeve__V1__ListQueuesResponse response = REEVE__V1__LIST_QUEUES_RESPONSE__INIT;
	Reeve__V1__QueueCounts counts = REEVE__V1__QUEUE_COUNTS__INIT, *list[] = {&counts};

	(void)service;
	counts.queue = (char *)(*request->queue ? request->queue : "default");
	counts.type = (char *)"mail";
	counts.queued = 3;
	counts.delayed = 2;
	counts.executing = 1;
	counts.oldest_due_us = clock_wall_us() - INT64_C(7230) * 1000000;
	response.n_queues = 1;
	response.queues = list;
	rpc_call_reply(call, &response.base);
}

static void serve_workers(void *service, struct rpc_call *call, const ProtobufCMessage *message)
{
	const Reeve__V1__ListWorkersRequest *request = (const void *)message;
	Reeve__V1__ListWorkersResponse response = REEVE__V1__LIST_WORKERS_RESPONSE__INIT;
	Reeve__V1__Worker alive = REEVE__V1__WORKER__INIT, gone = REEVE__V1__WORKER__INIT, *list[] = {&alive, &gone};
	const char *queues[] = {"mail", "night"};

	(void)service;
	alive.incarnation = 7;
	alive.name = (char *)"host/1";
	alive.state = REEVE__V1__WORKER_STATE__WORKER_STATE_ALIVE;
	alive.concurrency = 4;
	alive.holding = 2;
	alive.n_queues = 2;
	alive.queues = queues;
	alive.heartbeat_us = alive.registered_us = alive.mode_since_us = clock_wall_us();
	alive.mode = REEVE__V1__WORKER_MODE__WORKER_MODE_DRAINING;
	alive.succeeded = 12;
	alive.failed = 3;
	gone.incarnation = 6;
	gone.name = (char *)"host/0";
	gone.state = REEVE__V1__WORKER_STATE__WORKER_STATE_GONE;
	response.n_workers = request->all ? 2 : 1;
	response.workers = list;
	rpc_call_reply(call, &response.base);
}

static void serve_stats(void *service, struct rpc_call *call, const ProtobufCMessage *message)
{
	struct standin *standin = service;
	Reeve__V1__StatsResponse response = REEVE__V1__STATS_RESPONSE__INIT;
	Reeve__V1__Counter counter = REEVE__V1__COUNTER__INIT, *list[] = {&counter};

	(void)message;
	pthread_mutex_lock(&standin->lock);
	response.queued = (int64_t)standin->n_tasks;
	pthread_mutex_unlock(&standin->lock);
	response.workers_alive = 1;
	counter.name = (char *)"claims_won";
	counter.value = 42;
	response.n_counters = 1;
	response.counters = list;
	rpc_call_reply(call, &response.base);
}

/* For pull clients. */
static void serve_register(void *service, struct rpc_call *call, const ProtobufCMessage *message)
{
	Reeve__V1__RegisterResponse response = REEVE__V1__REGISTER_RESPONSE__INIT;

	(void)service;
	(void)message;
	response.incarnation = 1;
	rpc_call_reply(call, &response.base);
}

static void serve_leave(void *service, struct rpc_call *call, const ProtobufCMessage *message)
{
	Reeve__V1__LeaveResponse response = REEVE__V1__LEAVE_RESPONSE__INIT;

	(void)service;
	(void)message;
	rpc_call_reply(call, &response.base);
}

/* Assigns the first task that waits. */
static void serve_fetch(void *service, struct rpc_call *call, const ProtobufCMessage *message)
{
	const Reeve__V1__FetchRequest *request = (const void *)message;
	struct standin *standin = service;
	Reeve__V1__FetchResponse response = REEVE__V1__FETCH_RESPONSE__INIT;
	Reeve__V1__Assignment given = REEVE__V1__ASSIGNMENT__INIT, *list[] = {&given};
	size_t first = 0;

	pthread_mutex_lock(&standin->lock);
	response.incarnation = request->incarnation;
	response.fetch_id = request->fetch_id;
	while (first < standin->n_tasks && standin->tasks[first]->status != REEVE__V1__TASK_STATUS__TASK_STATUS_QUEUED)
		first++;
	if (standin->unsure > 0) {
		standin->unsure--;
		response.retry_after_ms = 50;
	} else if (first < standin->n_tasks) {
		Reeve__V1__Task *task = standin->tasks[first];

		task->status = REEVE__V1__TASK_STATUS__TASK_STATUS_EXECUTING;
		given.task_id = task->id;
		given.token = clock_wall_us();
		given.queue = task->queue;
		given.type = task->type;
		given.details = task->details;
		given.attempt = 1;
		given.max_attempts = task->max_attempts;
		given.timeout_ms = task->timeout_ms;
		given.expires_in_ms = task->timeout_ms + 30000;
		response.assignments = list;
		response.n_assignments = 1;
	}
	rpc_call_reply(call, &response.base);
	pthread_mutex_unlock(&standin->lock);
}

/* Runs on the loop's own thread: a loop that has not begun forgets a break. */
static void stop(evutil_socket_t fd, short events, void *arg)
{
	(void)fd;
	(void)events;
	event_base_loopbreak(((struct standin *)arg)->base);
}

static void *run(void *arg)
{
	struct standin *standin = arg;

	event_base_loop(standin->base, EVLOOP_NO_EXIT_ON_EMPTY);
	return NULL;
}

struct standin *standin_start(void)
{
	static const struct rpc_entry tasks[] = {
	    {"Submit", serve_submit, RPC_ORDINARY, NULL},
	    {"Get", serve_get, RPC_ORDINARY, NULL},
	    {"List", serve_list, RPC_ORDINARY, NULL},
	    {"Wait", serve_wait, RPC_ORDINARY, NULL},
	    {"Cancel", serve_cancel, RPC_ORDINARY, NULL},
	    {"Retry", serve_retry, RPC_ORDINARY, NULL},
	    {"Update", serve_update, RPC_ORDINARY, NULL},
	    {"Audit", serve_audit, RPC_ORDINARY, NULL},
	    {0},
	};
	static const struct rpc_entry admin[] = {
	    {"Ping", serve_ping, RPC_ORDINARY, NULL},
	    {"ListQueues", serve_queues, RPC_ORDINARY, NULL},
	    {"ListWorkers", serve_workers, RPC_ORDINARY, NULL},
	    {"Stats", serve_stats, RPC_ORDINARY, NULL},
	    {0},
	};
	static const struct rpc_entry worker[] = {
	    {"Register", serve_register, RPC_ORDINARY, NULL},
	    {"Fetch", serve_fetch, RPC_ORDINARY, NULL},
	    {"Leave", serve_leave, RPC_ORDINARY, NULL},
	    {0},
	};
	struct rpc_server_options options = {
	    .max_message_bytes = 8 * 1024 * 1024, .max_open_calls = 1000, .max_connections = 100};
	struct timeval often = {.tv_usec = POLL_MS * 1000};
	struct reeve_error error = {0};
	struct standin *standin = calloc(1, sizeof *standin);

	evthread_use_pthreads();
	pthread_mutex_init(&standin->lock, NULL);
	standin->base = event_base_new();
	standin->server = rpc_server_create(standin->base, &options);
	rpc_server_add(standin->server, &reeve__v1__task_service__descriptor, tasks, standin);
	rpc_server_add(standin->server, &reeve__v1__admin_service__descriptor, admin, standin);
	rpc_server_add(standin->server, &reeve__v1__worker_service__descriptor, worker, standin);
	cr_assert(rpc_server_listen(standin->server, "tcp://127.0.0.1:0", &error), "%s", error.message);
	snprintf(standin->url, sizeof standin->url, "%s", rpc_server_url(standin->server));
	standin->look = event_new(standin->base, -1, EV_PERSIST, look, standin);
	event_add(standin->look, &often);
	standin->stop = event_new(standin->base, -1, 0, stop, standin);
	pthread_create(&standin->thread, NULL, run, standin);
	return standin;
}

void standin_stop(struct standin *standin)
{
	struct waiting *waiting, *next;

	event_active(standin->stop, EV_TIMEOUT, 0);
	pthread_join(standin->thread, NULL);
	rpc_server_destroy(standin->server);
	event_free(standin->look);
	event_free(standin->stop);
	event_base_free(standin->base);
	DL_FOREACH_SAFE(standin->waits, waiting, next)
	free(waiting);
	for (size_t i = 0; i < standin->n_tasks; i++)
		reeve__v1__task__free_unpacked(standin->tasks[i], NULL);
	free(standin->tasks);
	pthread_mutex_destroy(&standin->lock);
	free(standin);
}

const char *standin_url(const struct standin *standin)
{
	return standin->url;
}

void standin_fail_submits(struct standin *standin, int after, int count, reeve_status code)
{
	pthread_mutex_lock(&standin->lock);
	standin->fail_after = after;
	standin->fail_count = count;
	standin->fail_code = code;
	pthread_mutex_unlock(&standin->lock);
}

void standin_refuse_type(struct standin *standin, const char *type)
{
	pthread_mutex_lock(&standin->lock);
	snprintf(standin->poison, sizeof standin->poison, "%s", type);
	pthread_mutex_unlock(&standin->lock);
}

void standin_hold_submits(struct standin *standin, int count)
{
	pthread_mutex_lock(&standin->lock);
	standin->hold = count;
	pthread_mutex_unlock(&standin->lock);
}

void standin_end_tasks_as(struct standin *standin, int task_status)
{
	pthread_mutex_lock(&standin->lock);
	standin->end_as = task_status;
	pthread_mutex_unlock(&standin->lock);
}

void standin_know_later(struct standin *standin, int count)
{
	pthread_mutex_lock(&standin->lock);
	standin->unsure = count;
	pthread_mutex_unlock(&standin->lock);
}

void standin_end(struct standin *standin, int64_t id, int task_status, const char *text)
{
	pthread_mutex_lock(&standin->lock);
	end_task(find_task(standin, id), task_status, text);
	pthread_mutex_unlock(&standin->lock);
}

void standin_cut_waits(struct standin *standin, size_t most)
{
	pthread_mutex_lock(&standin->lock);
	standin->cut = most;
	pthread_mutex_unlock(&standin->lock);
}

size_t standin_submits(struct standin *standin, struct standin_submit submits[STANDIN_SUBMITS])
{
	pthread_mutex_lock(&standin->lock);
	size_t count = standin->n_submits;
	memcpy(submits, standin->submits, sizeof standin->submits);
	pthread_mutex_unlock(&standin->lock);
	return count;
}

size_t standin_tasks(struct standin *standin)
{
	pthread_mutex_lock(&standin->lock);
	size_t count = standin->n_tasks;
	pthread_mutex_unlock(&standin->lock);
	return count;
}

size_t standin_waits(struct standin *standin, size_t *max_ids)
{
	pthread_mutex_lock(&standin->lock);
	size_t count = standin->n_waits;
	*max_ids = standin->max_ids;
	pthread_mutex_unlock(&standin->lock);
	return count;
}

const char *standin_details(struct standin *standin, int64_t id)
{
	pthread_mutex_lock(&standin->lock);
	const Reeve__V1__Task *task = find_task(standin, id);
	pthread_mutex_unlock(&standin->lock);
	return task ? task->details : NULL;
}

const char *standin_reason(struct standin *standin)
{
	return standin->reason;
}
