/* Submission: one call for a fixed number of tasks, and a stream of calls for any number. */
#include "client/lib/internal.h"

#include "common/check_task.h"
#include "common/clock.h"
#include "common/limits.h"
#include "common/mem.h"
#include "common/utf8.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

static_assert((int)REEVE_MAX_BATCH == (int)LIMIT_CALL_TASKS, "the public header includes no other");

enum { CHUNK_TASKS = 1000, CHUNK_BYTES = 1024 * 1024, IN_FLIGHT = 4 };

bool reeve_check(struct reeve_client *client, const Reeve__V1__TaskSpec *task, struct reeve_failure *failure)
{
	size_t max_details = reeve_client_max_details(client);
	struct reeve_error error;

	if (!check_task("", task, max_details ? (int64_t)max_details : INT64_MAX, &error))
		return fail(failure, error.code, "%s", error.message);
	if (task->details && !utf8_valid(task->details, strlen(task->details)))
		return fail(failure, STATUS(INVALID_ARGUMENT), "details is not UTF-8");
	return true;
}

/* Fills in the results; an answer with another number of tasks than the request is an error. */
static bool take_submitted(const Reeve__V1__SubmitResponse *response, size_t count, Reeve__V1__SubmittedTask *submitted,
    struct reeve_failure *failure)
{
	if (response->n_tasks != count)
		return fail(
		    failure, STATUS(INTERNAL), "the manager answered %zu tasks to a submit of %zu", response->n_tasks, count);
	for (size_t i = 0; i < count; i++)
		submitted[i] = *response->tasks[i];
	return true;
}

/* A copy of the caller's task, which may be constant or shared by threads. Its strings are the caller's. */
struct spec_copy {
	Reeve__V1__TaskSpec spec;
	Reeve__V1__RetryPolicy retry;
};

static void copy_spec(struct spec_copy *copy, const Reeve__V1__TaskSpec *spec)
{
	copy->spec = *spec;
	if (spec->retry) {
		copy->retry = *spec->retry;
		copy->spec.retry = &copy->retry;
	}
	message_complete(&copy->spec, &reeve__v1__task_spec__descriptor);
}

size_t reeve_task_size(const Reeve__V1__TaskSpec *task)
{
	struct spec_copy copy;

	copy_spec(&copy, task);
	return reeve__v1__task_spec__get_packed_size(&copy.spec);
}

/* The tasks of a request: checked copies. */
struct spec_list {
	Reeve__V1__TaskSpec **specs;
	struct spec_copy *copies;
};

static bool specs_take(struct spec_list *list, struct reeve_client *client, const Reeve__V1__TaskSpec *tasks,
    size_t count, struct reeve_failure *failure)
{
	struct reeve_failure problem;

	if (count < 1 || count > REEVE_MAX_BATCH)
		return fail(failure, STATUS(INVALID_ARGUMENT), "a submit takes 1 to %d tasks", REEVE_MAX_BATCH);
	/* The limit of details is known after the first contact. */
	if (!reeve_client_ready(client, failure))
		return false;
	for (size_t i = 0; i < count; i++) {
		if (reeve_check(client, &tasks[i], &problem))
			continue;
		if (count == 1)
			return fail(failure, STATUS(INVALID_ARGUMENT), "%s", problem.message);
		return fail(failure, STATUS(INVALID_ARGUMENT), "tasks[%zu].%s", i, problem.message);
	}
	list->specs = mem_calloc(count, sizeof *list->specs);
	list->copies = mem_calloc(count, sizeof *list->copies);
	for (size_t i = 0; i < count; i++) {
		copy_spec(&list->copies[i], &tasks[i]);
		list->specs[i] = &list->copies[i].spec;
	}
	return true;
}

static void specs_free(struct spec_list *list)
{
	free(list->specs);
	free(list->copies);
}

bool reeve_submit(struct reeve_client *client, const Reeve__V1__TaskSpec *tasks, size_t count,
    const uint8_t *request_id, Reeve__V1__SubmittedTask *submitted, struct reeve_failure *failure)
{
	struct spec_list list = {0};

	if (!specs_take(&list, client, tasks, count, failure))
		return false;
	Reeve__V1__SubmitRequest request = {.n_tasks = count, .tasks = list.specs};
	Reeve__V1__SubmitResponse *response =
	    reeve_task_submit(client, &request, &(struct reeve_call_options){.request_id = request_id}, failure);
	bool done = response && take_submitted(response, count, submitted, failure);
	reeve_free(response);
	specs_free(&list);
	return done;
}

Reeve__V1__SubmitAndWaitResponse *reeve_submit_and_wait(struct reeve_client *client, const Reeve__V1__TaskSpec *tasks,
    size_t count, int64_t wait_ms, const uint8_t *request_id, struct reeve_failure *failure)
{
	struct spec_list list = {0};

	if (!specs_take(&list, client, tasks, count, failure))
		return NULL;
	wait_ms = wait_ms < 0 ? 0 : wait_ms < REEVE_MAX_WAIT_MS ? wait_ms : REEVE_MAX_WAIT_MS;
	Reeve__V1__SubmitAndWaitRequest request = {.n_tasks = count, .tasks = list.specs, .wait_ms = wait_ms};
	const struct reeve_call_options options = {
	    .request_id = request_id, .timeout_ms = wait_ms + client->call_timeout_ms};
	Reeve__V1__SubmitAndWaitResponse *response = reeve_task_submit_and_wait(client, &request, &options, failure);
	if (response && response->n_tasks != count) {
		fail(failure, STATUS(INTERNAL), "the manager answered %zu tasks to a submit of %zu", response->n_tasks, count);
		reeve_free(response);
		response = NULL;
	}
	for (size_t i = 0; response && i < response->n_ended; i++)
		if (!*response->ended[i]->details)
			response->ended[i]->details = NULL; /* it was not sent: the JSON must not show it as empty */
	specs_free(&list);
	return response;
}

/* A chunk of a stream, from its first send until its result has been reported. */
struct chunk {
	struct pending_call call;
	Reeve__V1__SubmitRequest request; /* with copies of the tasks */
	size_t bytes;                     /* of the tasks */
	uint8_t request_id[UUID_BYTES];
	size_t first;
	int64_t deadline_ms;
	int tries;
	struct chunk *prev, *next;
};

struct streaming {
	struct reeve_client *client;
	struct reeve_stream stream; /* with defaults applied */
	struct spec_copy waiting;   /* from `next`, for the next chunk */
	size_t waiting_bytes;
	bool has_waiting;
	bool ended; /* `next` has no more, or nothing more is to be sent */
	size_t n_given;
	struct chunk *chunks; /* in flight, in order */
	int n_chunks;
	bool failed;
	struct reeve_failure failure; /* the first one */
};

static void note_failure(struct streaming *streaming, const struct reeve_failure *failure)
{
	if (!streaming->failed)
		streaming->failure = *failure;
	streaming->failed = true;
	streaming->ended = true;
}

/* Reads the next task into `waiting` and checks it. Returns false if there is none, or it is invalid. */
static bool draw(struct streaming *streaming)
{
	Reeve__V1__TaskSpec spec = {0};
	struct reeve_failure failure, problem;

	if (streaming->has_waiting)
		return true;
	if (streaming->ended)
		return false;
	if (!streaming->stream.next(streaming->stream.arg, &spec)) {
		streaming->ended = true;
		return false;
	}
	if (!reeve_check(streaming->client, &spec, &problem)) {
		fail(&failure, STATUS(INVALID_ARGUMENT), "tasks[%zu].%s", streaming->n_given, problem.message);
		note_failure(streaming, &failure);
		return false;
	}
	copy_spec(&streaming->waiting, &spec);
	streaming->waiting_bytes = reeve__v1__task_spec__get_packed_size(&streaming->waiting.spec);
	streaming->has_waiting = true;
	return true;
}

/* Adds a copy of the waiting task to a chunk. Its strings belong to the caller, who may free them before the send. */
static void take_waiting(struct streaming *streaming, struct chunk *chunk)
{
	uint8_t *bytes = mem_calloc(streaming->waiting_bytes, 1);

	reeve__v1__task_spec__pack(&streaming->waiting.spec, bytes);
	chunk->request.tasks[chunk->request.n_tasks] = reeve__v1__task_spec__unpack(NULL, streaming->waiting_bytes, bytes);
	free(bytes);
	mem_check(chunk->request.tasks[chunk->request.n_tasks] != NULL);
	chunk->request.n_tasks++;
	chunk->bytes += streaming->waiting_bytes;
	streaming->has_waiting = false;
	streaming->n_given++;
}

static void chunk_free(struct chunk *chunk)
{
	for (size_t i = 0; i < chunk->request.n_tasks; i++)
		reeve_free(chunk->request.tasks[i]);
	free(chunk->request.tasks);
	free(chunk);
}

/* Returns the next chunk, or NULL. */
static struct chunk *next_chunk(struct streaming *streaming)
{
	struct chunk *chunk = mem_calloc(1, sizeof *chunk);

	reeve__v1__submit_request__init(&chunk->request);
	chunk->first = streaming->n_given;
	chunk->request.tasks = mem_calloc(streaming->stream.chunk_tasks, sizeof *chunk->request.tasks);
	while (chunk->request.n_tasks < streaming->stream.chunk_tasks && draw(streaming)) {
		if (chunk->bytes > 0 && chunk->bytes + streaming->waiting_bytes > streaming->stream.chunk_bytes)
			break;
		take_waiting(streaming, chunk);
	}
	/* After a failure nothing more is sent, not even the tasks read before an invalid one. */
	if (chunk->request.n_tasks > 0 && !streaming->failed)
		return chunk;
	chunk_free(chunk);
	return NULL;
}

static void send_chunk(struct streaming *streaming, struct chunk *chunk)
{
	int64_t left = chunk->deadline_ms - clock_monotonic_ms();

	pending_start(&chunk->call, streaming->client, &reeve__v1__task_service__descriptor, "Submit", &chunk->request.base,
	    chunk->request_id, left > 1 ? left : 1);
}

static void fill_flight(struct streaming *streaming)
{
	while (streaming->n_chunks < streaming->stream.in_flight) {
		struct chunk *chunk = next_chunk(streaming);

		if (!chunk)
			return;
		chunk->deadline_ms = clock_monotonic_ms() + streaming->client->call_timeout_ms;
		uuid7_make(rpc_client_now_ms(streaming->client->rpc), chunk->request_id);
		send_chunk(streaming, chunk);
		DL_APPEND(streaming->chunks, chunk);
		streaming->n_chunks++;
	}
}

/* Reports a chunk that was answered to the program. */
static void report_chunk(struct streaming *streaming, const struct chunk *chunk, const struct rpc_answer *answer)
{
	const struct reeve_stream *stream = &streaming->stream;
	size_t count = chunk->request.n_tasks;
	Reeve__V1__SubmittedTask *submitted = mem_calloc(count, sizeof *submitted);
	struct reeve_failure failure;
	bool stored = false;

	if (answer->code == STATUS(OK))
		stored = take_submitted((Reeve__V1__SubmitResponse *)answer->response, count, submitted, &failure);
	else
		fail(&failure, answer->code, "%s", answer->message);
	if (stored && stream->stored)
		stream->stored(stream->arg, chunk->first, submitted, count);
	if (!stored) {
		note_failure(streaming, &failure);
		if (stream->missed)
			stream->missed(stream->arg, chunk->first, count, &failure);
	}
	free(submitted);
}

/* Waits for the oldest chunk and reports it, or sends it again after a delay if that may help. */
static void await_oldest(struct streaming *streaming)
{
	struct chunk *chunk = streaming->chunks;
	struct rpc_answer answer = pending_end(&chunk->call);
	int64_t pause = retry_pause_ms(chunk->tries);

	if (worth_another_try(streaming->client, &answer) && clock_monotonic_ms() + pause < chunk->deadline_ms &&
	    client_pause(streaming->client, pause)) {
		chunk->tries++;
		send_chunk(streaming, chunk);
		return;
	}
	report_chunk(streaming, chunk, &answer);
	if (answer.response)
		protobuf_c_message_free_unpacked(answer.response, NULL);
	DL_DELETE(streaming->chunks, chunk);
	streaming->n_chunks--;
	chunk_free(chunk);
}

/* A single task always fits; a chunk of several is limited to half of the managers' maximum message. */
static size_t limit_chunk(struct reeve_client *client, size_t bytes)
{
	size_t max = rpc_client_max_message(client->rpc) / 2;

	return max > 0 && bytes > max ? max : bytes;
}

bool reeve_one_chunk(struct reeve_client *client, size_t tasks, size_t bytes)
{
	return tasks <= 1 || (tasks <= CHUNK_TASKS && bytes <= limit_chunk(client, CHUNK_BYTES));
}

bool reeve_submit_stream(struct reeve_client *client, const struct reeve_stream *stream, struct reeve_failure *failure)
{
	struct streaming streaming = {.client = client, .stream = *stream};

	if (streaming.stream.chunk_tasks == 0 || streaming.stream.chunk_tasks > REEVE_MAX_BATCH)
		streaming.stream.chunk_tasks = CHUNK_TASKS;
	if (streaming.stream.chunk_bytes == 0)
		streaming.stream.chunk_bytes = CHUNK_BYTES;
	if (streaming.stream.in_flight <= 0)
		streaming.stream.in_flight = IN_FLIGHT;
	if (!reeve_client_ready(client, failure))
		return false;
	streaming.stream.chunk_bytes = limit_chunk(client, streaming.stream.chunk_bytes);
	for (;;) {
		fill_flight(&streaming);
		if (!streaming.chunks)
			break;
		await_oldest(&streaming);
	}
	if (streaming.failed && failure)
		*failure = streaming.failure;
	return !streaming.failed;
}
