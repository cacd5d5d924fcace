/*
 * A manager for tests of the worker: the real WorkerService over a real socket, with a list of tasks instead of a
 * database. It runs on its own thread and loop. Tests configure it, and read what it has received, under its lock.
 *
 * It remembers which tasks it assigned to each Fetch and assigns them again when the Fetch has `again` set, as a
 * manager must.
 */
#ifndef REEVE_TESTS_SCRIPTED_MANAGER_H
#define REEVE_TESTS_SCRIPTED_MANAGER_H

#include "common/clock.h"
#include "common/rpc/server.h"

#include <assert.h>
#include <event2/thread.h>
#include <pthread.h>
#include <reeve/v1/admin.pb-c.h>
#include <reeve/v1/worker.pb-c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	SCRIPT_TASKS_MAX = 20000,
	SCRIPT_CALLS_MAX = 64,
	SCRIPT_COMMANDS_MAX = 16,
	SCRIPT_TOKEN = 1000000, /* a task's token is its id plus this */
	SCRIPT_PATIENCE_MS = 20 * 1000,
};

enum script_state { SCRIPT_QUEUED, SCRIPT_GIVEN, SCRIPT_DONE };

/* A task and its result. */
struct script_task {
	char type[64], key[64], queue[64];
	char *details;
	int64_t timeout_ms, expires_in_ms, resting_ms;
	enum script_state state;
	int64_t incarnation, fetch_id; /* the Fetch to which it was assigned */
	int64_t given_ms;
	int deliveries;             /* how often it was in an answer */
	int reports;                /* how often a report had its result */
	Reeve__V1__Outcome outcome; /* of the last report */
	char *result, *error, *remark, *stack, code[64];
	char *seen;     /* the last remark from a heartbeat, … */
	int times_seen; /* … and how many remarks heartbeats have had */
	int64_t run_ms, retry_in_ms;
	int64_t reported_ms;
	Reeve__V1__ResultStatus status; /* the result's ack; UNSPECIFIED: ACCEPTED */
	int acks_missing;       /* this many reports of it get no ack first, … */
	int acks_later;         /* … and this many get LATER */
};

struct script_parked {
	struct rpc_call *call; /* NULL: free */
	int64_t incarnation, fetch_id, until_ms;
	uint32_t slots;
};

struct script_beat {
	int64_t incarnation, seq, highest_fetch_id, at_ms;
	size_t held, waiting;
	int64_t first_held, succeeded, failed;
	uint32_t running, concurrency;
	Reeve__V1__WorkerState state;
};

struct script {
	char directory[64], url[128];
	struct event_base *base;
	struct rpc_server *server;
	pthread_t thread;
	bool running, end;
	pthread_mutex_t lock;
	pthread_cond_t changed;

	/* Configuration. */
	uint32_t lease_ms, heartbeat_ms, max_result_bytes;
	reeve_status register_code, fetch_code, report_code;    /* not OK: calls fail with it … */
	int register_failures, fetch_failures, report_failures; /* … this many times */
	const char *fetch_problem;                              /* … with this message, if it is set */
	int64_t invalid_task;   /* a report with its result is INVALID_ARGUMENT; 0: none */
	bool invalid_for_ever;  /* … even if its outcome is FATAL */
	bool hold_reports;      /* reports are not answered */
	bool delay_reports;     /* the next report is answered once this is false again */
	bool hold_fetches;      /* Fetches are not answered, but get tasks */
	bool hold_heartbeats;   /* heartbeats are not answered */
	bool paused;            /* no tasks are assigned */
	int wrong_fetches;      /* this many answers name another Fetch */
	int wrong_incarnations; /* … or another incarnation */
	bool lost;              /* the next heartbeat is answered lost, once */
	Reeve__V1__WorkerCommand commands[SCRIPT_COMMANDS_MAX];
	size_t n_commands; /* sent with every answer, … */
	bool commands_in_heartbeats_only; /* … or only to heartbeats */

	/* State, for tests to read. */
	/* By id, from 1. The array is valid until the next script_init, its strings until script_free. Not part of the
	 * struct, because the end of each test searches all static memory for leaks. */
	struct script_task *tasks;
	int n_tasks, n_done;
	int64_t extend_max_ms; /* maximum time granted by an Extend; 0: none */
	int extend_delay_ms;    /* … and how long its answer takes */
	int registers, leaves, extends, fetches, fetches_again, reports, heartbeats, parked_now, parked_max;
	int64_t idle_first_ms, idle_last_ms; /* idle_since_start_ms of the first Fetch, and of the last */
	int open, open_max; /* assigned and without a result yet; parked and carried slots are not counted */
	int64_t incarnation, first_fetch_of_incarnation, highest_fetch;
	size_t report_max; /* maximum number of results in one report */
	uint32_t registered_concurrency;
	char registered_types[256], registered_queues[256], registered_name[256];
	struct script_beat beat; /* the last heartbeat */
	int64_t renewed_ms; /* when the last answered Heartbeat or Register arrived: the lease began earlier */
	int64_t previous;   /* from the last Register */
	struct script_parked parked[SCRIPT_CALLS_MAX];
	struct rpc_call *delayed_call; /* a delayed report … */
	Reeve__V1__ReportRequest *delayed;
	struct rpc_call *held_calls[SCRIPT_CALLS_MAX];
	int n_held_calls;
};

static inline void script_lock(struct script *script)
{
	pthread_mutex_lock(&script->lock);
}

static inline void script_unlock(struct script *script)
{
	pthread_mutex_unlock(&script->lock);
}

static inline void script_ping(void *arg, struct rpc_call *call, const ProtobufCMessage *request)
{
	Reeve__V1__PingResponse response = REEVE__V1__PING_RESPONSE__INIT;

	(void)arg;
	(void)request;
	response.now_us = clock_wall_us();
	response.max_message_bytes = 8 << 20;
	response.max_details_bytes = 1 << 20;
	response.database_up = true;
	rpc_call_reply(call, &response.base);
}

static inline void script_admin(void *arg, struct rpc_call *call, const ProtobufCMessage *request)
{
	(void)arg;
	(void)request;
	rpc_call_fail(call, STATUS(UNIMPLEMENTED), "not here");
}

static inline void script_join(char *out, size_t size, const char *const *list, size_t count)
{
	size_t used = 0;

	out[0] = '\0';
	for (size_t i = 0; i < count && used < size; i++)
		used += (size_t)snprintf(out + used, size - used, "%s%s", i ? "," : "", list[i]);
}

/* Keeps a call open until the server ends. */
static inline void script_hold(struct script *script, struct rpc_call *call)
{
	assert(script->n_held_calls < SCRIPT_CALLS_MAX);
	script->held_calls[script->n_held_calls++] = call;
}

static inline void script_register(void *arg, struct rpc_call *call, const ProtobufCMessage *message)
{
	struct script *script = arg;
	const Reeve__V1__RegisterRequest *request = (const void *)message;
	Reeve__V1__RegisterResponse response = REEVE__V1__REGISTER_RESPONSE__INIT;
	bool fail;

	script_lock(script);
	script->registers++;
	fail = script->register_failures > 0;
	script->register_failures -= fail;
	if (!fail) {
		script->incarnation++;
		script->first_fetch_of_incarnation = script->highest_fetch = 0;
		script->previous = request->previous;
		for (int i = 0; i < SCRIPT_CALLS_MAX; i++) /* the last incarnation's parked calls are void */
			if (script->parked[i].call) {
				script_hold(script, script->parked[i].call);
				script->parked[i].call = NULL;
				script->parked_now--;
			}
		script->renewed_ms = clock_monotonic_ms();
		script->registered_concurrency = request->concurrency;
		script_join(
		    script->registered_types, sizeof script->registered_types, request->types, request->n_types);
		script_join(
		    script->registered_queues, sizeof script->registered_queues, request->queues, request->n_queues);
		snprintf(script->registered_name, sizeof script->registered_name, "%s", request->name);
	}
	response.incarnation = script->incarnation;
	response.lease_ms = script->lease_ms;
	response.heartbeat_ms = script->heartbeat_ms;
	response.max_result_bytes = script->max_result_bytes;
	pthread_cond_broadcast(&script->changed);
	script_unlock(script);
	if (fail)
		rpc_call_fail(call, script->register_code, "as the script says");
	else
		rpc_call_reply(call, &response.base);
}

/* An answer to a Fetch, and its memory. */
struct script_answer {
	Reeve__V1__FetchResponse response;
	Reeve__V1__Assignment *assignments;
	Reeve__V1__Assignment **pointers;
	Reeve__V1__WorkerCommand commands[SCRIPT_COMMANDS_MAX], *command_pointers[SCRIPT_COMMANDS_MAX];
};

static inline void script_answer_free(struct script_answer *answer)
{
	free(answer->assignments);
	free(answer->pointers);
}

/* Composes the answer to a Fetch: for a repeated Fetch the tasks that it got before, if any; otherwise tasks that are
 * queued. Needs the lock. */
static inline void script_answer_fetch(struct script *script, int64_t incarnation, int64_t fetch_id, uint32_t slots,
    bool again, struct script_answer *answer)
{
	size_t count = 0;

	memset(answer, 0, sizeof *answer);
	reeve__v1__fetch_response__init(&answer->response);
	answer->assignments = calloc(slots + 1, sizeof *answer->assignments);
	answer->pointers = calloc(slots + 1, sizeof *answer->pointers);
	for (int pass = again ? 0 : 1; pass < 2 && !count; pass++) {
		for (int id = 1; id <= script->n_tasks && count < slots; id++) {
			struct script_task *task = &script->tasks[id];
			Reeve__V1__Assignment *assignment = &answer->assignments[count];

			if (pass == 0 && (task->state != SCRIPT_GIVEN || task->incarnation != incarnation ||
			                     task->fetch_id != fetch_id))
				continue;
			if (pass == 1 && (task->state != SCRIPT_QUEUED || script->paused))
				continue;
			if (pass == 1) {
				task->state = SCRIPT_GIVEN;
				task->incarnation = incarnation;
				task->fetch_id = fetch_id;
				task->given_ms = clock_monotonic_ms();
				if (++script->open > script->open_max)
					script->open_max = script->open;
			}
			task->deliveries++;
			reeve__v1__assignment__init(assignment);
			assignment->task_id = id;
			assignment->token = id + SCRIPT_TOKEN;
			assignment->type = task->type;
			assignment->queue = task->queue;
			assignment->key = task->key;
			assignment->details = task->details;
			assignment->attempt = 1;
			assignment->max_attempts = 5;
			assignment->timeout_ms = task->timeout_ms;
			assignment->expires_in_ms = task->expires_in_ms;
			assignment->resting_ms = task->resting_ms;
			answer->pointers[count++] = assignment;
		}
	}
	for (size_t i = 0; i < script->n_commands && !script->commands_in_heartbeats_only; i++) {
		answer->commands[i] = script->commands[i];
		answer->command_pointers[i] = &answer->commands[i];
		answer->response.n_commands++;
	}
	answer->response.n_assignments = count;
	answer->response.assignments = answer->pointers;
	answer->response.commands = answer->command_pointers;
	answer->response.incarnation = incarnation;
	answer->response.fetch_id = fetch_id;
	if (count && script->wrong_fetches > 0) {
		script->wrong_fetches--;
		answer->response.fetch_id = fetch_id + 1000;
	} else if (count && script->wrong_incarnations > 0) {
		script->wrong_incarnations--;
		answer->response.incarnation = incarnation + 1000;
	}
}

static inline void script_note_fetch(struct script *script, const Reeve__V1__FetchRequest *request)
{
	script->idle_first_ms = script->fetches ? script->idle_first_ms : request->idle_since_start_ms;
	script->idle_last_ms = request->idle_since_start_ms;
	script->fetches++;
	script->fetches_again += request->again;
	if (!script->first_fetch_of_incarnation)
		script->first_fetch_of_incarnation = request->fetch_id;
	if (request->fetch_id > script->highest_fetch)
		script->highest_fetch = request->fetch_id;
}

static inline void script_fetch(void *arg, struct rpc_call *call, const ProtobufCMessage *message)
{
	struct script *script = arg;
	const Reeve__V1__FetchRequest *request = (const void *)message;
	struct script_answer answer;
	struct script_parked *place = NULL;
	bool held;

	script_lock(script);
	script_note_fetch(script, request);
	pthread_cond_broadcast(&script->changed);
	if (script->fetch_failures > 0) {
		script->fetch_failures--;
		script_unlock(script);
		rpc_call_fail(call, script->fetch_code, script->fetch_problem ? script->fetch_problem : "as the script says");
		return;
	}
	for (int i = 0; i < SCRIPT_CALLS_MAX; i++) {
		struct script_parked *parked = &script->parked[i];

		if (parked->call && parked->incarnation == request->incarnation &&
		    parked->fetch_id == request->fetch_id) {
			/* A repeated Fetch: the worker no longer waits for the old call. */
			script_hold(script, parked->call);
			parked->call = NULL;
			script->parked_now--;
		}
		if (!parked->call && !place)
			place = parked;
	}
	script_answer_fetch(script, request->incarnation, request->fetch_id, request->slots, request->again, &answer);
	held = script->hold_fetches;
	if (held) {
		script_hold(script, call);
	} else if (!answer.response.n_assignments && request->wait_ms && !answer.response.n_commands) {
		assert(place);
		*place = (struct script_parked){.call = call,
		    .incarnation = request->incarnation,
		    .fetch_id = request->fetch_id,
		    .slots = request->slots,
		    .until_ms = clock_monotonic_ms() + request->wait_ms};
		if (++script->parked_now > script->parked_max)
			script->parked_max = script->parked_now;
		held = true;
	}
	script_unlock(script);
	if (!held)
		rpc_call_reply(call, &answer.response.base);
	script_answer_free(&answer);
}

/* Records one result. Needs the lock. */
static inline void script_note_result(struct script *script, const Reeve__V1__Result *result, Reeve__V1__ResultAck *ack)
{
	struct script_task *task;

	reeve__v1__result_ack__init(ack);
	ack->task_id = result->task_id;
	ack->token = result->token;
	ack->status = REEVE__V1__RESULT_STATUS__RESULT_LOST;
	if (result->task_id < 1 || result->task_id > script->n_tasks || result->token != result->task_id + SCRIPT_TOKEN)
		return;
	task = &script->tasks[result->task_id];
	task->reports++;
	if (task->acks_missing > 0) {
		task->acks_missing--;
		ack->status = REEVE__V1__RESULT_STATUS__RESULT_UNSPECIFIED;
		return;
	}
	if (task->acks_later > 0) {
		task->acks_later--;
		ack->status = REEVE__V1__RESULT_STATUS__RESULT_LATER;
		return;
	}
	ack->status = task->status ? task->status : REEVE__V1__RESULT_STATUS__RESULT_ACCEPTED;
	if (task->state == SCRIPT_DONE)
		return;
	script->open--;
	script->n_done++;
	task->state = SCRIPT_DONE;
	task->reported_ms = clock_monotonic_ms();
	task->outcome = result->outcome;
	task->result = strdup(result->result);
	task->error = strdup(result->error);
	task->remark = strdup(result->remark);
	task->stack = strdup(result->stack);
	task->retry_in_ms = result->retry_in_ms;
	task->run_ms = result->run_ms;
	snprintf(task->code, sizeof task->code, "%s", result->error_code);
}

/* Returns true if the report must fail as invalid. Needs the lock. */
static inline bool script_is_invalid(const struct script *script, const Reeve__V1__ReportRequest *request)
{
	for (size_t i = 0; i < request->n_results; i++)
		if (script->invalid_task && request->results[i]->task_id == script->invalid_task &&
		    (script->invalid_for_ever || request->results[i]->outcome != REEVE__V1__OUTCOME__OUTCOME_FATAL))
			return true;
	return false;
}

/* Keeps a report, to answer it later. Needs the lock. */
static inline void script_delay(struct script *script, struct rpc_call *call, const ProtobufCMessage *message)
{
	size_t length = protobuf_c_message_get_packed_size(message);
	uint8_t *bytes = malloc(length + 1);

	assert(!script->delayed_call);
	protobuf_c_message_pack(message, bytes);
	script->delayed = reeve__v1__report_request__unpack(NULL, length, bytes);
	script->delayed_call = call;
	free(bytes);
}

static inline void script_report(void *arg, struct rpc_call *call, const ProtobufCMessage *message)
{
	struct script *script = arg;
	const Reeve__V1__ReportRequest *request = (const void *)message;
	Reeve__V1__ReportResponse response = REEVE__V1__REPORT_RESPONSE__INIT;
	Reeve__V1__ResultAck *acks, **pointers;
	struct script_answer answer = {0};

	script_lock(script);
	script->reports++;
	if (request->n_results > script->report_max)
		script->report_max = request->n_results;
	pthread_cond_broadcast(&script->changed);
	if (script->delay_reports && !script->delayed_call) {
		script_delay(script, call, message);
		script_unlock(script);
		return;
	}
	if (script->hold_reports) {
		script_hold(script, call);
		script_unlock(script);
		return;
	}
	if (script->report_failures > 0 || script_is_invalid(script, request)) {
		reeve_status code = script->report_failures > 0 ? script->report_code : STATUS(INVALID_ARGUMENT);

		script->report_failures -= script->report_failures > 0;
		script_unlock(script);
		rpc_call_fail(call, code, "as the script says");
		return;
	}
	acks = calloc(request->n_results + 1, sizeof *acks);
	pointers = calloc(request->n_results + 1, sizeof *pointers);
	for (size_t i = 0; i < request->n_results; i++) {
		script_note_result(script, request->results[i], &acks[i]);
		pointers[i] = &acks[i];
	}
	response.acks = pointers;
	response.n_acks = request->n_results;
	if (request->fetch) {
		script_note_fetch(script, request->fetch);
		script_answer_fetch(script, request->fetch->incarnation, request->fetch->fetch_id,
		    request->fetch->slots, request->fetch->again, &answer);
		response.fetch = &answer.response;
	}
	script_unlock(script);
	rpc_call_reply(call, &response.base);
	script_answer_free(&answer);
	free(acks);
	free(pointers);
}

static inline void script_heartbeat(void *arg, struct rpc_call *call, const ProtobufCMessage *message)
{
	struct script *script = arg;
	const Reeve__V1__HeartbeatRequest *request = (const void *)message;
	Reeve__V1__HeartbeatResponse response = REEVE__V1__HEARTBEAT_RESPONSE__INIT;
	Reeve__V1__WorkerCommand commands[SCRIPT_COMMANDS_MAX], *pointers[SCRIPT_COMMANDS_MAX];

	script_lock(script);
	script->heartbeats++;
	script->beat = (struct script_beat){
	    .incarnation = request->incarnation,
	    .seq = request->seq,
	    .highest_fetch_id = request->highest_fetch_id,
	    .at_ms = clock_monotonic_ms(),
	    .held = request->n_held,
	    .waiting = request->n_waiting_fetch_ids,
	    .first_held = request->n_held ? request->held[0]->task_id : 0,
	    .running = request->running,
	    .concurrency = request->concurrency,
	    .state = request->state,
	    .succeeded = request->succeeded,
	    .failed = request->failed_attempts,
	};
	for (size_t i = 0; i < request->n_remarks; i++) {
		struct script_task *task = &script->tasks[request->remarks[i]->task_id];

		free(task->seen);
		task->seen = strdup(request->remarks[i]->text);
		task->times_seen++;
	}
	if (script->hold_heartbeats) {
		script_hold(script, call);
		script_unlock(script);
		return;
	}
	response.lost = script->lost;
	script->lost = false;
	script->renewed_ms = clock_monotonic_ms();
	for (size_t i = 0; i < script->n_commands; i++) {
		commands[i] = script->commands[i];
		pointers[i] = &commands[i];
	}
	response.commands = pointers;
	response.n_commands = script->n_commands;
	pthread_cond_broadcast(&script->changed);
	script_unlock(script);
	rpc_call_reply(call, &response.base);
}

static inline void script_leave(void *arg, struct rpc_call *call, const ProtobufCMessage *request)
{
	struct script *script = arg;
	Reeve__V1__LeaveResponse response = REEVE__V1__LEAVE_RESPONSE__INIT;

	(void)request;
	script_lock(script);
	script->leaves++;
	pthread_cond_broadcast(&script->changed);
	script_unlock(script);
	rpc_call_reply(call, &response.base);
}

static inline void script_extend(void *arg, struct rpc_call *call, const ProtobufCMessage *message)
{
	struct script *script = arg;
	const Reeve__V1__ExtendRequest *request = (const void *)message;
	Reeve__V1__ExtendResponse response = REEVE__V1__EXTEND_RESPONSE__INIT;

	usleep((useconds_t)script->extend_delay_ms * 1000);
	script_lock(script);
	script->extends++;
	response.run_ms = request->run_ms < script->extend_max_ms ? request->run_ms : script->extend_max_ms;
	response.expires_in_ms = response.run_ms + 30000;
	pthread_cond_broadcast(&script->changed);
	script_unlock(script);
	if (response.run_ms)
		rpc_call_reply(call, &response.base);
	else
		rpc_call_fail(call, STATUS(FAILED_PRECONDITION), "it may run no longer");
}

/* Answers the delayed report once delay_reports is false. */
static inline void script_answer_delayed(struct script *script)
{
	struct rpc_call *call;
	Reeve__V1__ReportRequest *request;

	script_lock(script);
	call = script->delay_reports ? NULL : script->delayed_call;
	request = script->delayed;
	if (call)
		script->delayed_call = NULL;
	script_unlock(script);
	if (!call)
		return;
	script_report(script, call, &request->base);
	reeve__v1__report_request__free_unpacked(request, NULL);
}

/* Every 2 ms: answers parked Fetches for which there are tasks or worker commands, or whose wait is over. */
static inline void script_tick(evutil_socket_t fd, short what, void *arg)
{
	struct script *script = arg;
	int64_t now_ms = clock_monotonic_ms();
	bool end;

	(void)fd;
	(void)what;
	for (int i = 0; i < SCRIPT_CALLS_MAX; i++) {
		struct script_parked *parked = &script->parked[i];
		struct rpc_call *call = NULL;
		struct script_answer answer = {0};

		script_lock(script);
		if (parked->call && !script->hold_fetches) {
			script_answer_fetch(
			    script, parked->incarnation, parked->fetch_id, parked->slots, false, &answer);
			if (answer.response.n_assignments || answer.response.n_commands || now_ms >= parked->until_ms) {
				call = parked->call;
				parked->call = NULL;
				script->parked_now--;
			}
		}
		script_unlock(script);
		if (call)
			rpc_call_reply(call, &answer.response.base);
		script_answer_free(&answer);
	}
	script_answer_delayed(script);
	script_lock(script);
	end = script->end;
	script_unlock(script);
	if (end)
		event_base_loopbreak(script->base);
}

static inline void *script_serve(void *arg)
{
	struct script *script = arg;
	struct timeval every = {.tv_usec = 2000};
	struct event *tick = event_new(script->base, -1, EV_PERSIST, script_tick, script);

	event_add(tick, &every);
	event_base_dispatch(script->base);
	event_free(tick);
	return NULL;
}

/* Initializes the script, which is static, but does not start it. */
static inline void script_init(struct script *script)
{
	pthread_condattr_t attributes;

	free(script->tasks);
	memset(script, 0, sizeof *script);
	script->tasks = calloc(SCRIPT_TASKS_MAX + 1, sizeof *script->tasks);
	pthread_mutex_init(&script->lock, NULL);
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&script->changed, &attributes);
	pthread_condattr_destroy(&attributes);
	snprintf(script->directory, sizeof script->directory, "/tmp/reeve-script-XXXXXX");
	if (!mkdtemp(script->directory))
		abort();
	snprintf(script->url, sizeof script->url, "ipc://%s/manager", script->directory);
	script->lease_ms = 15000;
	script->heartbeat_ms = 4000;
	script->max_result_bytes = 1 << 20;
}

/* Starts serving; may be called again after script_stop. */
static inline void script_start(struct script *script)
{
	static const struct rpc_entry worker_methods[] = {
	    {"Register", script_register, RPC_ORDINARY, NULL},
	    {"Fetch", script_fetch, RPC_ORDINARY, NULL},
	    {"Report", script_report, RPC_ORDINARY, NULL},
	    {"Heartbeat", script_heartbeat, RPC_ORDINARY, NULL},
	    {"Leave", script_leave, RPC_ORDINARY, NULL},
	    {"Extend", script_extend, RPC_ORDINARY, NULL},
	    {0},
	};
	static const struct rpc_entry admin_methods[] = {
	    {"Ping", script_ping, RPC_ORDINARY, NULL},
	    {"ListQueues", script_admin, RPC_ORDINARY, NULL},
	    {"ListWorkers", script_admin, RPC_ORDINARY, NULL},
	    {"Stats", script_admin, RPC_ORDINARY, NULL},
	    {"ControlWorkers", script_admin, RPC_ORDINARY, NULL},
	    {"Check", script_admin, RPC_ORDINARY, NULL},
	    {0},
	};
	struct rpc_server_options options = {.max_message_bytes = 8 << 20, .max_open_calls = 10000, .max_connections = 100};
	struct reeve_error error;

	evthread_use_pthreads();
	script->base = event_base_new();
	script->server = rpc_server_create(script->base, &options, &error);
	if (!script->server)
		abort();
	rpc_server_add(script->server, &reeve__v1__worker_service__descriptor, worker_methods, script);
	rpc_server_add(script->server, &reeve__v1__admin_service__descriptor, admin_methods, script);
	if (!rpc_server_listen(script->server, script->url, &error)) {
		fprintf(stderr, "scripted manager: %s\n", error.message);
		abort();
	}
	script->end = false;
	script->running = true;
	if (pthread_create(&script->thread, NULL, script_serve, script))
		abort();
}

/* Ends the server: open calls get no answer. Tasks keep their state. */
static inline void script_stop(struct script *script)
{
	if (!script->running)
		return;
	script_lock(script);
	script->end = true;
	script_unlock(script);
	pthread_join(script->thread, NULL);
	rpc_server_destroy(script->server);
	event_base_free(script->base);
	memset(script->parked, 0, sizeof script->parked);
	script->parked_now = 0;
	script->n_held_calls = 0;
	script->running = false;
}

static inline void script_free(struct script *script)
{
	char path[160];

	script_stop(script);
	for (int id = 1; id <= script->n_tasks; id++) {
		free(script->tasks[id].details);
		free(script->tasks[id].result);
		free(script->tasks[id].error);
		free(script->tasks[id].remark);
		free(script->tasks[id].stack);
		free(script->tasks[id].seen);
	}
	snprintf(path, sizeof path, "%s/manager", script->directory);
	unlink(path);
	rmdir(script->directory);
	pthread_cond_destroy(&script->changed);
	pthread_mutex_destroy(&script->lock);
}

/* Queues a task and returns its id. Other fields may be set before it is assigned, under the lock. */
static inline int64_t script_add(struct script *script, const char *type, const char *details)
{
	struct script_task *task;
	int64_t id;

	script_lock(script);
	assert(script->n_tasks < SCRIPT_TASKS_MAX);
	id = ++script->n_tasks;
	task = &script->tasks[id];
	snprintf(task->type, sizeof task->type, "%s", type);
	snprintf(task->queue, sizeof task->queue, "default");
	task->details = strdup(details);
	task->timeout_ms = 60 * 1000;
	task->expires_in_ms = 90 * 1000;
	script_unlock(script);
	return id;
}

/* Sends a worker command with every answer from now on. */
static inline void script_command(struct script *script, Reeve__V1__WorkerCommandKind kind, int64_t task_id, uint32_t value)
{
	Reeve__V1__WorkerCommand order = REEVE__V1__WORKER_COMMAND__INIT;

	order.kind = kind;
	order.task_id = task_id;
	order.token = task_id ? task_id + SCRIPT_TOKEN : 0;
	order.value = value;
	script_lock(script);
	assert(script->n_commands < SCRIPT_COMMANDS_MAX);
	script->commands[script->n_commands++] = order;
	script_unlock(script);
}

/* Waits until a condition on the script is true; checks it under the lock. Returns false if it did not become true
 * within SCRIPT_PATIENCE_MS. */
#define script_wait(script, condition)                                                                                 \
	({                                                                                                             \
		int64_t script_until_ms = clock_monotonic_ms() + SCRIPT_PATIENCE_MS;                                   \
		bool script_holds;                                                                                     \
		while (script_lock(script), script_holds = (condition), script_unlock(script),                         \
		    !script_holds && clock_monotonic_ms() < script_until_ms)                                           \
			usleep(1000);                                                                                  \
		script_holds;                                                                                          \
	})

#endif
