/* Compares the envelopes with protobuf-c's own packing and unpacking; also tests message memory. */
#include "common/rpc/arena.h"
#include "common/rpc/envelope.h"
#include "common/rpc/wire.h"

#include <criterion/criterion.h>
#include <reeve/v1/task.pb-c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct envelope_view view(const char *text)
{
	return (struct envelope_view){(const uint8_t *)text, strlen(text)};
}

static void is_view(struct envelope_view got, const char *text)
{
	cr_assert_eq(got.length, strlen(text));
	cr_assert_eq(memcmp(got.bytes, text, got.length), 0);
}

Test(envelope, protobuf_c_reads_our_request)
{
	static const uint8_t id[UUID_BYTES] = "0123456789abcde";
	struct envelope_request request = {
	    .method = view("/reeve.v1.TaskService/Submit"),
	    .token = view("t"),
	    .actor = view("ann@host"),
	    .body = view("body"),
	    .request_id = id,
	    .deadline_ms = 30000,
	};
	struct frame *frame = envelope_write_request(&request);
	Reeve__V1__Request *read = reeve__v1__request__unpack(NULL, frame->length, frame_body(frame));

	cr_assert(read);
	cr_assert_str_eq(read->method, "/reeve.v1.TaskService/Submit");
	cr_assert_eq(read->request_id.len, UUID_BYTES);
	cr_assert_eq(memcmp(read->request_id.data, id, UUID_BYTES), 0);
	cr_assert_eq(read->deadline_ms, 30000);
	cr_assert_eq(read->contract, REEVE__V1__CONTRACT__CONTRACT_CURRENT);
	cr_assert_str_eq(read->token, "t");
	cr_assert_str_eq(read->actor, "ann@host");
	cr_assert_eq(read->body.len, 4);
	cr_assert_leq(frame->length, envelope_request_size(&request));
	reeve__v1__request__free_unpacked(read, NULL);
	free(frame);
}

Test(envelope, we_read_protobuf_cs_request)
{
	Reeve__V1__Request request = REEVE__V1__REQUEST__INIT;
	struct envelope_request read;
	struct reeve_error error = {0};
	uint8_t bytes[256];
	size_t length;

	request.method = (char *)"/a/b";
	request.request_id = (ProtobufCBinaryData){16, (uint8_t *)"0123456789abcdef"};
	request.deadline_ms = UINT32_MAX;
	request.contract = 300;
	request.body = (ProtobufCBinaryData){3, (uint8_t *)"\0\xff\x80"};
	length = reeve__v1__request__pack(&request, bytes);
	cr_assert(envelope_read_request(bytes, length, &read, &error), "%s", error.message);
	is_view(read.method, "/a/b");
	cr_assert_eq(memcmp(read.request_id, "0123456789abcdef", 16), 0);
	cr_assert_eq(read.deadline_ms, UINT32_MAX);
	cr_assert_eq(read.contract, 300);
	cr_assert_eq(read.token.length, 0);
	cr_assert_eq(read.body.length, 3);
	cr_assert(envelope_read_request(NULL, 0, &read, &error));
	cr_assert_null(read.request_id);
	cr_assert_eq(read.contract, 0);
}

Test(envelope, a_request_id_has_16_bytes_or_none)
{
	struct envelope_request read;
	struct reeve_error error = {0};

	cr_assert_not(envelope_read_request((const uint8_t *)"\x12\x05"
	                                                     "abcde",
	    7, &read, &error));
	cr_assert_eq(error.code, STATUS(INVALID_ARGUMENT));
	cr_assert_str_eq(error.message, "request_id has 5 bytes, not 16 or none");
}

Test(envelope, what_is_left_out_is_empty_text)
{
	struct envelope_request request;
	struct envelope_reply reply;

	cr_assert(envelope_read_request((const uint8_t *)"", 0, &request, NULL));
	cr_assert(envelope_read_reply((const uint8_t *)"", 0, &reply, NULL));
	is_view(request.method, "");
	is_view(request.token, "");
	is_view(request.actor, "");
	is_view(request.body, "");
	is_view(reply.message, "");
	is_view(reply.body, "");
	cr_assert(request.method.bytes && request.token.bytes && request.actor.bytes && request.body.bytes);
	cr_assert(reply.message.bytes && reply.body.bytes);
}

Test(envelope, unknown_fields_of_an_envelope_are_passed_over)
{
	struct envelope_request read;
	struct envelope_reply reply;
	static const uint8_t bytes[] = "\x65"
	                               "abcd"
	                               "\x41"
	                               "12345678"
	                               "\x48\x05"
	                               "\x52\x01z"
	                               "\x0a\x01m";

	cr_assert(envelope_read_request(bytes, sizeof bytes - 1, &read, NULL));
	is_view(read.method, "m");
	cr_assert(envelope_read_reply((const uint8_t *)"\x65"
	                                               "abcd"
	                                               "\x08\x05",
	    7, &reply, NULL));
	cr_assert_eq(reply.code, STATUS(NOT_FOUND));
}

Test(envelope, protobuf_c_reads_our_replies)
{
	Reeve__V1__GetResponse response = REEVE__V1__GET_RESPONSE__INIT;
	Reeve__V1__Task task = REEVE__V1__TASK__INIT;
	Reeve__V1__GetResponse *body;
	Reeve__V1__Reply *read;
	struct frame *frame;

	task.id = 12;
	response.task = &task;
	frame = envelope_write_response(&response.base, 1000, NULL);
	read = reeve__v1__reply__unpack(NULL, frame->length, frame_body(frame));
	cr_assert(read);
	cr_assert_eq(read->code, STATUS(OK));
	body = reeve__v1__get_response__unpack(NULL, read->body.len, read->body.data);
	cr_assert_eq(body->task->id, 12);
	reeve__v1__get_response__free_unpacked(body, NULL);
	reeve__v1__reply__free_unpacked(read, NULL);
	free(frame);

	frame = envelope_write_error(STATUS(NOT_FOUND), "no task 12");
	read = reeve__v1__reply__unpack(NULL, frame->length, frame_body(frame));
	cr_assert_eq(read->code, STATUS(NOT_FOUND));
	cr_assert_str_eq(read->message, "no task 12");
	reeve__v1__reply__free_unpacked(read, NULL);
	free(frame);
}

Test(envelope, a_response_over_the_limit_is_not_created)
{
	Reeve__V1__GetResponse response = REEVE__V1__GET_RESPONSE__INIT;
	Reeve__V1__Task task = REEVE__V1__TASK__INIT;
	struct reeve_error error = {0};
	size_t exact;
	struct frame *frame;

	task.details = (char *)"some text that makes it longer";
	response.task = &task;
	frame = envelope_write_response(&response.base, 1000, NULL);
	exact = frame->length;
	free(frame);
	frame = envelope_write_response(&response.base, exact, &error);
	cr_assert(frame);
	free(frame);
	cr_assert_null(envelope_write_response(&response.base, exact - 1, &error));
	cr_assert_eq(error.code, STATUS(INTERNAL));
}

Test(arena, holds_a_message_of_many_parts)
{
	enum { TASKS = 5000 };
	Reeve__V1__SubmitRequest request = REEVE__V1__SUBMIT_REQUEST__INIT, *back;
	Reeve__V1__TaskSpec *specs = calloc(TASKS, sizeof *specs);
	Reeve__V1__TaskSpec **tasks = calloc(TASKS, sizeof *tasks);
	struct arena arena = {0};
	char keys[TASKS][16];
	uint8_t *bytes;
	size_t length, memory;

	for (int i = 0; i < TASKS; i++) {
		specs[i] = (Reeve__V1__TaskSpec)REEVE__V1__TASK_SPEC__INIT;
		snprintf(keys[i], sizeof keys[i], "key %d", i);
		specs[i].key = keys[i];
		tasks[i] = &specs[i];
	}
	request.n_tasks = TASKS;
	request.tasks = tasks;
	bytes = malloc(reeve__v1__submit_request__get_packed_size(&request));
	length = reeve__v1__submit_request__pack(&request, bytes);
	cr_assert(wire_measure(&reeve__v1__submit_request__descriptor, bytes, length, &memory, NULL));
	back = (void *)arena_unpack(&arena, &reeve__v1__submit_request__descriptor, bytes, length, memory);
	cr_assert(back);
	cr_assert_eq(back->n_tasks, TASKS);
	for (int i = 0; i < TASKS; i++)
		cr_assert_str_eq(back->tasks[i]->key, keys[i]);
	cr_assert_geq(arena.total, length);
	arena_clear(&arena);
	cr_assert_eq(arena.total, 0);
	free(bytes);
	free(specs);
	free(tasks);
}
