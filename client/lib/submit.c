/* Submission: one call for a fixed number of tasks, and a stream of calls for any number. */
#include "client/lib/internal.h"

#include "common/clock.h"
#include "common/mem.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

enum { CHUNK_TASKS = 1000, CHUNK_BYTES = 1024 * 1024, IN_FLIGHT = 4 };

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

bool reeve_submit(struct reeve_client *client, const Reeve__V1__TaskSpec *tasks, size_t count,
    const uint8_t *request_id, Reeve__V1__SubmittedTask *submitted, struct reeve_failure *failure)
{
	Reeve__V1__SubmitRequest request = {.n_tasks = count};
	Reeve__V1__SubmitResponse *response;
	struct spec_copy *copies;
	char problem[256];
	bool done;

	if (count < 1 || count > REEVE_MAX_BATCH)
		return fail(failure, STATUS(INVALID_ARGUMENT), "a submit takes 1 to %d tasks", REEVE_MAX_BATCH);
	/* The limit of details is known after the first contact. */
	if (!reeve_client_ready(client, failure))
		return false;
	for (size_t i = 0; i < count; i++) {
		if (!spec_problem(&tasks[i], reeve_client_max_details(client), problem, sizeof problem))
			continue;
		if (count == 1)
			return fail(failure, STATUS(INVALID_ARGUMENT), "%s", problem);
		return fail(failure, STATUS(INVALID_ARGUMENT), "tasks[%zu].%s", i, problem);
	}
	request.tasks = mem_calloc(count, sizeof *request.tasks);
	copies = mem_calloc(count, sizeof *copies);
	for (size_t i = 0; i < count; i++) {
		copy_spec(&copies[i], &tasks[i]);
		request.tasks[i] = &copies[i].spec;
	}
	response = reeve_task_submit(client, &request, &(struct reeve_call_options){.request_id = request_id}, failure);
	done = response && take_submitted(response, count, submitted, failure);
	reeve_free(response);
	free(request.tasks);
	free(copies);
	return done;
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
	struct reeve_failure failure;
	char problem[256];

	if (streaming->has_waiting)
		return true;
	if (streaming->ended)
		return false;
	if (!streaming->stream.next(streaming->stream.arg, &spec)) {
		streaming->ended = true;
		return false;
	}
	if (spec_problem(&spec, reeve_client_max_details(streaming->client), problem, sizeof problem)) {
		fail(&failure, STATUS(INVALID_ARGUMENT), "tasks[%zu].%s", streaming->n_given, problem);
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
static void tell(struct streaming *streaming, const struct chunk *chunk, const struct rpc_answer *answer)
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
	tell(streaming, chunk, &answer);
	if (answer.response)
		protobuf_c_message_free_unpacked(answer.response, NULL);
	DL_DELETE(streaming->chunks, chunk);
	streaming->n_chunks--;
	chunk_free(chunk);
}

bool reeve_submit_stream(struct reeve_client *client, const struct reeve_stream *stream, struct reeve_failure *failure)
{
	struct streaming streaming = {.client = client, .stream = *stream};
	size_t most;

	if (streaming.stream.chunk_tasks == 0 || streaming.stream.chunk_tasks > REEVE_MAX_BATCH)
		streaming.stream.chunk_tasks = CHUNK_TASKS;
	if (streaming.stream.chunk_bytes == 0)
		streaming.stream.chunk_bytes = CHUNK_BYTES;
	if (streaming.stream.in_flight <= 0)
		streaming.stream.in_flight = IN_FLIGHT;
	if (!reeve_client_ready(client, failure))
		return false;
	/* A single task always fits; a chunk of several is limited to half of the managers' maximum message. */
	most = rpc_client_max_message(client->rpc) / 2;
	if (most > 0 && streaming.stream.chunk_bytes > most)
		streaming.stream.chunk_bytes = most;
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
