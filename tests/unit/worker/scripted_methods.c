/* The methods of the scripted manager: they record what the worker sends, and answer as the script is configured. */
#include "scripted_internal.h"

#include <assert.h>
#include <reeve/v1/admin.pb-c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void script_ping(void *arg, struct rpc_call *call, const ProtobufCMessage *request)
{
	Reeve__V1__PingResponse response = REEVE__V1__PING_RESPONSE__INIT;

	(void)arg;
	(void)request;
	response.now_us = clock_wall_us();
	response.contract = REEVE__V1__CONTRACT__CONTRACT_CURRENT;
	response.max_message_bytes = 8 << 20;
	response.max_details_bytes = 1 << 20;
	response.database_up = true;
	rpc_call_reply(call, &response.base);
}

void script_admin(void *arg, struct rpc_call *call, const ProtobufCMessage *request)
{
	(void)arg;
	(void)request;
	rpc_call_fail(call, STATUS(UNIMPLEMENTED), "not here");
}

static void script_join(char *out, size_t size, const char *const *list, size_t count)
{
	size_t used = 0;

	out[0] = '\0';
	for (size_t i = 0; i < count && used < size; i++)
		used += (size_t)snprintf(out + used, size - used, "%s%s", i ? "," : "", list[i]);
}

/* Keeps a call open until the server ends. */
static void script_keep_open(struct script *script, struct rpc_call *call)
{
	assert(script->n_held_calls < SCRIPT_CALLS_MAX);
	script->held_calls[script->n_held_calls++] = call;
}

void script_register(void *arg, struct rpc_call *call, const ProtobufCMessage *message)
{
	struct script *script = arg;
	const Reeve__V1__RegisterRequest *request = (const void *)message;
	Reeve__V1__RegisterResponse response = REEVE__V1__REGISTER_RESPONSE__INIT;
	bool fail;

	script_lock(script);
	script->lost = false;
	script->registers++;
	fail = script->register_failures > 0;
	script->register_failures -= fail;
	if (!fail) {
		script->incarnation++;
		script->first_fetch_of_incarnation = script->highest_fetch = 0;
		script->previous = request->previous;
		for (int i = 0; i < SCRIPT_CALLS_MAX; i++) /* the last incarnation's parked calls are void */
			if (script->parked[i].call) {
				script_keep_open(script, script->parked[i].call);
				script->parked[i].call = NULL;
				script->parked_now--;
			}
		script->renewed_ms = clock_monotonic_ms();
		script->registered_concurrency = request->concurrency;
		script_join(script->registered_types, sizeof script->registered_types, request->types, request->n_types);
		script_join(script->registered_queues, sizeof script->registered_queues, request->queues, request->n_queues);
		snprintf(script->registered_name, sizeof script->registered_name, "%s", request->name);
	}
	response.incarnation = script->incarnation;
	response.lease_ms = script->lease_ms;
	response.heartbeat_ms = script->heartbeat_ms;
	response.max_result_bytes = script->max_result_bytes;
	pthread_cond_broadcast(&script->host.changed);
	script_unlock(script);
	if (fail)
		rpc_call_fail(call, script->register_code, "scripted");
	else
		rpc_call_reply(call, &response.base);
}

void script_answer_free(struct script_answer *answer)
{
	free(answer->assignments);
	free(answer->pointers);
}

void script_answer_fetch(struct script *script, int64_t incarnation, int64_t fetch_id, uint32_t slots, bool again,
    struct script_answer *answer)
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

			if (pass == 0 &&
			    (task->state != SCRIPT_ASSIGNED || task->incarnation != incarnation || task->fetch_id != fetch_id))
				continue;
			if (pass == 1 && (task->state != SCRIPT_QUEUED || script->paused))
				continue;
			if (pass == 1) {
				task->state = SCRIPT_ASSIGNED;
				task->incarnation = incarnation;
				task->fetch_id = fetch_id;
				task->assigned_ms = clock_monotonic_ms();
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

static void script_note_fetch(struct script *script, const Reeve__V1__FetchRequest *request)
{
	script->idle_first_ms = script->fetches ? script->idle_first_ms : request->idle_since_start_ms;
	script->idle_last_ms = request->idle_since_start_ms;
	script->fetches++;
	script->fetches_again += request->resend;
	if (!script->first_fetch_of_incarnation)
		script->first_fetch_of_incarnation = request->fetch_id;
	if (request->fetch_id > script->highest_fetch)
		script->highest_fetch = request->fetch_id;
}

void script_fetch(void *arg, struct rpc_call *call, const ProtobufCMessage *message)
{
	struct script *script = arg;
	const Reeve__V1__FetchRequest *request = (const void *)message;
	struct script_answer answer;
	struct script_parked *place = NULL;
	bool held;

	script_lock(script);
	script_note_fetch(script, request);
	pthread_cond_broadcast(&script->host.changed);
	if (script->fetch_failures > 0) {
		script->fetch_failures--;
		script_unlock(script);
		rpc_call_fail(call, script->fetch_code, "%s", script->fetch_problem ? script->fetch_problem : "scripted");
		return;
	}
	for (int i = 0; i < SCRIPT_CALLS_MAX; i++) {
		struct script_parked *parked = &script->parked[i];

		if (parked->call && parked->incarnation == request->incarnation && parked->fetch_id == request->fetch_id) {
			/* A repeated Fetch: the worker no longer waits for the old call. */
			script_keep_open(script, parked->call);
			parked->call = NULL;
			script->parked_now--;
		}
		if (!parked->call && !place)
			place = parked;
	}
	script_answer_fetch(script, request->incarnation, request->fetch_id, request->slots, request->resend, &answer);
	held = script->hold_fetches;
	if (held) {
		script_keep_open(script, call);
	} else if (!answer.response.n_assignments && request->wait_ms && !answer.response.n_commands) {
		assert(place);
		*place = (struct script_parked){.call = call,
		    .incarnation = request->incarnation,
		    .fetch_id = request->fetch_id,
		    .slots = request->slots,
		    .until_ms = clock_monotonic_ms() + request->wait_ms};
		if (request->n_queue_slots) {
			snprintf(place->limited, sizeof place->limited, "%s", request->queue_slots[0]->queue);
			place->limited_slots = request->queue_slots[0]->slots;
		}
		if (++script->parked_now > script->parked_max)
			script->parked_max = script->parked_now;
		held = true;
	}
	script_unlock(script);
	if (!held)
		rpc_call_reply(call, &answer.response.base);
	script_answer_free(&answer);
}

/* Takes the lines whose numbers it does not have. */
static void take_lines(struct script_task *task, int64_t first, Reeve__V1__LoggedLine *const *lines, size_t count)
{
	int64_t next = task->next_line ? task->next_line : 1;

	if (first > next)
		task->lines_missing += first - next;
	for (size_t i = 0; i < count; i++, first++) {
		size_t length = task->logged ? strlen(task->logged) : 0;

		if (first < next)
			continue;
		task->logged = realloc(task->logged, length + strlen(lines[i]->text) + 2);
		sprintf(task->logged + length, "%s\n", lines[i]->text);
		task->next_line = first + 1;
	}
}

/* Records one result. Needs the lock. */
static void script_note_result(struct script *script, const Reeve__V1__Result *result, Reeve__V1__ResultAck *ack)
{
	struct script_task *task;

	reeve__v1__result_ack__init(ack);
	ack->task_id = result->task_id;
	ack->token = result->token;
	ack->status = REEVE__V1__RESULT_STATUS__RESULT_STATUS_LOST;
	if (result->task_id < 1 || result->task_id > script->n_tasks || result->token != result->task_id + SCRIPT_TOKEN)
		return;
	task = &script->tasks[result->task_id];
	task->reports++;
	if (task->acks_missing > 0) {
		task->acks_missing--;
		ack->status = REEVE__V1__RESULT_STATUS__RESULT_STATUS_UNSPECIFIED;
		return;
	}
	if (task->acks_later > 0) {
		task->acks_later--;
		ack->status = REEVE__V1__RESULT_STATUS__RESULT_STATUS_LATER;
		return;
	}
	ack->status = task->status ? task->status : REEVE__V1__RESULT_STATUS__RESULT_STATUS_ACCEPTED;
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
	if (result->progress > 0)
		task->progress = result->progress;
	take_lines(task, result->first_line, result->lines, result->n_lines);
	task->stack = strdup(result->stack_trace);
	task->retry_in_ms = result->retry_in_ms;
	task->run_ms = result->run_ms;
	snprintf(task->code, sizeof task->code, "%s", result->error_code);
}

/* Returns true if the report must fail as invalid. Needs the lock. */
static bool script_is_invalid(const struct script *script, const Reeve__V1__ReportRequest *request)
{
	for (size_t i = 0; i < request->n_results; i++)
		if (script->invalid_task && request->results[i]->task_id == script->invalid_task &&
		    (script->always_invalid || request->results[i]->outcome != REEVE__V1__OUTCOME__OUTCOME_FATAL))
			return true;
	return false;
}

/* Keeps a report, to answer it later. Needs the lock. */
static void script_delay(struct script *script, struct rpc_call *call, const ProtobufCMessage *message)
{
	size_t length = protobuf_c_message_get_packed_size(message);
	uint8_t *bytes = malloc(length + 1);

	assert(!script->delayed_call);
	protobuf_c_message_pack(message, bytes);
	script->delayed = reeve__v1__report_request__unpack(NULL, length, bytes);
	script->delayed_call = call;
	free(bytes);
}

void script_report(void *arg, struct rpc_call *call, const ProtobufCMessage *message)
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
	pthread_cond_broadcast(&script->host.changed);
	if (script->delay_reports && !script->delayed_call) {
		script_delay(script, call, message);
		script_unlock(script);
		return;
	}
	if (script->hold_reports) {
		script_keep_open(script, call);
		script_unlock(script);
		return;
	}
	if (script->report_failures > 0 || script_is_invalid(script, request)) {
		reeve_status code = script->report_failures > 0 ? script->report_code : STATUS(INVALID_ARGUMENT);

		script->report_failures -= script->report_failures > 0;
		script_unlock(script);
		rpc_call_fail(call, code, "scripted");
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
		script_answer_fetch(script, request->fetch->incarnation, request->fetch->fetch_id, request->fetch->slots,
		    request->fetch->resend, &answer);
		response.fetch = &answer.response;
	}
	script_unlock(script);
	rpc_call_reply(call, &response.base);
	script_answer_free(&answer);
	free(acks);
	free(pointers);
}

void script_heartbeat(void *arg, struct rpc_call *call, const ProtobufCMessage *message)
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
	    .held = request->n_in_flight,
	    .waiting = request->n_waiting_fetch_ids,
	    .first_held = request->n_in_flight ? request->in_flight[0]->task_id : 0,
	    .running = request->running,
	    .concurrency = request->concurrency,
	    .state = request->mode,
	    .completed = request->completed,
	    .failed = request->failed,
	};
	if (script->hold_heartbeats || script->delay_heartbeats) {
		if (script->hold_heartbeats)
			script_keep_open(script, call);
		else
			script->delayed_heartbeat = call;
		script_unlock(script);
		return;
	}
	script->told_lost += script->lost;
	response.lost = script->lost; /* until it registers again, as a manager does: an answer may get lost */
	script->renewed_ms = clock_monotonic_ms();
	for (size_t i = 0; i < script->n_commands; i++) {
		commands[i] = script->commands[i];
		pointers[i] = &commands[i];
	}
	response.commands = pointers;
	response.n_commands = script->n_commands;
	pthread_cond_broadcast(&script->host.changed);
	script_unlock(script);
	rpc_call_reply(call, &response.base);
}

void script_leave(void *arg, struct rpc_call *call, const ProtobufCMessage *request)
{
	struct script *script = arg;
	Reeve__V1__LeaveResponse response = REEVE__V1__LEAVE_RESPONSE__INIT;

	(void)request;
	script_lock(script);
	script->leaves++;
	pthread_cond_broadcast(&script->host.changed);
	script_unlock(script);
	rpc_call_reply(call, &response.base);
}

void script_extend(void *arg, struct rpc_call *call, const ProtobufCMessage *message)
{
	struct script *script = arg;
	const Reeve__V1__ExtendRequest *request = (const void *)message;
	Reeve__V1__ExtendResponse response = REEVE__V1__EXTEND_RESPONSE__INIT;

	usleep((useconds_t)script->extend_delay_ms * 1000);
	script_lock(script);
	script->extends++;
	response.run_ms = request->run_ms < script->extend_max_ms ? request->run_ms : script->extend_max_ms;
	response.expires_in_ms = response.run_ms + 30000;
	pthread_cond_broadcast(&script->host.changed);
	script_unlock(script);
	if (response.run_ms)
		rpc_call_reply(call, &response.base);
	else
		rpc_call_fail(call, STATUS(FAILED_PRECONDITION), "it may run no longer");
}

void script_progress(void *arg, struct rpc_call *call, const ProtobufCMessage *message)
{
	struct script *script = arg;
	const Reeve__V1__ProgressRequest *request = (const void *)message;
	Reeve__V1__ProgressResponse response = REEVE__V1__PROGRESS_RESPONSE__INIT;
	Reeve__V1__ResultAck *acks = calloc(request->n_attempts, sizeof *acks);

	script_lock(script);
	script->progress_calls++;
	response.acks = calloc(request->n_attempts, sizeof *response.acks);
	response.n_acks = request->n_attempts;
	for (size_t i = 0; i < request->n_attempts; i++) {
		const Reeve__V1__AttemptProgress *given = request->attempts[i];
		struct script_task *task = &script->tasks[given->task_id];

		reeve__v1__result_ack__init(&acks[i]);
		response.acks[i] = &acks[i];
		acks[i].status = script->progress_status;
		if (acks[i].status == REEVE__V1__RESULT_STATUS__RESULT_STATUS_LATER)
			continue;
		if (*given->remark) {
			free(task->seen);
			task->seen = strdup(given->remark);
			task->times_seen++;
		}
		if (given->progress > 0)
			task->progress = given->progress;
		take_lines(task, given->first_line, given->lines, given->n_lines);
	}
	script_unlock(script);
	rpc_call_reply(call, &response.base);
	free(response.acks);
	free(acks);
}
