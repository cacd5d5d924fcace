/* The check of messages before protobuf-c unpacks them. */
#include "common/rpc/wire.h"

#include "common/rpc/arena.h"
#include "common/rpc/varint.h"

#include <criterion/criterion.h>
#include <reeve/v1/admin.pb-c.h>
#include <reeve/v1/task.pb-c.h>
#include <reeve/v1/worker.pb-c.h>
#include <stdlib.h>
#include <string.h>

#define SUBMIT &reeve__v1__submit_request__descriptor
#define SPEC &reeve__v1__task_spec__descriptor
#define WAIT &reeve__v1__wait_request__descriptor
#define GET &reeve__v1__get_request__descriptor

/* Checks a literal, including NUL bytes, in memory of exactly its size, so that a read beyond it is detected. */
#define CHECK(descriptor, literal, error) check_copy(descriptor, literal, sizeof literal - 1, error)

static bool check_copy(
    const ProtobufCMessageDescriptor *descriptor, const void *bytes, size_t length, struct reeve_error *error)
{
	uint8_t *copy = malloc(length ? length : 1);
	bool good;

	memcpy(copy, bytes, length);
	memset(error, 0, sizeof *error);
	good = wire_check(descriptor, copy, length, error);
	cr_assert_eq(good, error->code == STATUS(OK));
	cr_assert(good || error->code == STATUS(INVALID_ARGUMENT));
	free(copy);
	return good;
}

static uint8_t *pack(const ProtobufCMessage *message, size_t *length)
{
	uint8_t *bytes = malloc(protobuf_c_message_get_packed_size(message) + 1);

	*length = protobuf_c_message_pack(message, bytes);
	return bytes;
}

static void fails(const ProtobufCMessageDescriptor *descriptor, const void *bytes, size_t length, const char *message)
{
	struct reeve_error error;

	cr_assert_not(check_copy(descriptor, bytes, length, &error), "passed, though: %s", message);
	cr_assert_str_eq(error.message, message);
}

#define FAILS(descriptor, literal, message) fails(descriptor, literal, sizeof literal - 1, message)

Test(wire, passes_what_protobuf_c_packs)
{
	Reeve__V1__SubmitRequest request = REEVE__V1__SUBMIT_REQUEST__INIT;
	Reeve__V1__TaskSpec specs[3], *tasks[3];
	Reeve__V1__RetryPolicy retry = REEVE__V1__RETRY_POLICY__INIT;
	struct reeve_error error;
	ProtobufCMessage *back;
	uint8_t *bytes;
	size_t length;

	retry.base_ms = INT64_MIN;
	for (int i = 0; i < 3; i++) {
		specs[i] = (Reeve__V1__TaskSpec)REEVE__V1__TASK_SPEC__INIT;
		specs[i].type = (char *)"sha256";
		specs[i].details = (char *)"h\xc3\xa4user \xf0\x9f\x8f\xa0 \xed\x9f\xbf";
		specs[i].priority = -1000000;
		specs[i].run_at_us = -1;
		specs[i].retry = i ? &retry : NULL;
		tasks[i] = &specs[i];
	}
	request.n_tasks = 3;
	request.tasks = tasks;
	bytes = pack(&request.base, &length);
	cr_assert(check_copy(SUBMIT, bytes, length, &error), "%s", error.message);
	back = wire_unpack(SUBMIT, bytes, length, &error);
	cr_assert(back);
	cr_assert_eq(((Reeve__V1__SubmitRequest *)back)->n_tasks, 3);
	cr_assert_str_eq(((Reeve__V1__SubmitRequest *)back)->tasks[2]->details, specs[2].details);
	protobuf_c_message_free_unpacked(back, NULL);
	free(bytes);
}

Test(wire, passes_nothing_at_all)
{
	struct reeve_error error;

	cr_assert(CHECK(SUBMIT, "", &error));
	cr_assert(wire_check(SUBMIT, NULL, 0, &error));
}

Test(wire, names_the_field_by_its_path)
{
	FAILS(GET, "\x0a\x01x", "id has the wrong wire type");
	FAILS(SUBMIT, "\x0a\x03\x12\x01x\x0a\x00\x0a\x00\x0a\x05\x1a\x03z\0z", "tasks[3].details holds a NUL byte");
	FAILS(SUBMIT, "\x0a\x05\x5a\x03\x08\x80\x80", "tasks[0].retry.base_ms holds a number that is cut off or too long");
}

Test(wire, finds_nul_bytes_wherever_they_stand)
{
	char text[100] = "";

	text[0] = 0x12; /* type */
	for (int length = 1; length < 64; length++) {
		text[1] = (char)length;
		for (int at = 0; at < length; at++) {
			memset(text + 2, 'a', (size_t)length);
			text[2 + at] = 0;
			fails(SPEC, text, (size_t)length + 2, "type holds a NUL byte");
		}
	}
}

Test(wire, finds_invalid_utf8)
{
	FAILS(SPEC, "\x12\x01\x80", "type is not valid UTF-8");
	FAILS(SPEC, "\x12\x01\xc3", "type is not valid UTF-8");
	FAILS(SPEC, "\x12\x02\xc0\xaf", "type is not valid UTF-8");
	FAILS(SPEC, "\x12\x03\xed\xa0\x80", "type is not valid UTF-8");
	FAILS(SPEC, "\x12\x04\xf4\x90\x80\x80", "type is not valid UTF-8");
	FAILS(SPEC,
	    "\x12\x0b"
	    "12345678\xc3"
	    "90",
	    "type is not valid UTF-8");
}

Test(wire, bytes_fields_may_hold_anything)
{
	struct reeve_error error;

	cr_assert(CHECK(&reeve__v1__request__descriptor, "\x12\x04\x00\xff\x80\x00", &error));
}

Test(wire, finds_broken_numbers)
{
	struct reeve_error error;

	FAILS(GET, "\x08", "id holds a number that is cut off or too long");
	FAILS(GET, "\x08\x80", "id holds a number that is cut off or too long");
	/* Eleven bytes; and ten bytes with more than 64 bits. */
	FAILS(GET, "\x08\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00", "id holds a number that is cut off or too long");
	FAILS(GET, "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", "id holds a number that is cut off or too long");
	cr_assert(CHECK(GET, "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", &error));
}

Test(wire, finds_broken_lengths)
{
	FAILS(SPEC, "\x12", "type has a broken length");
	FAILS(SPEC, "\x12\x80", "type has a broken length");
	FAILS(SPEC,
	    "\x12\x05"
	    "1234",
	    "type is cut off");
	FAILS(SPEC, "\x12\xff\xff\xff\xff\x0f", "type has a broken length");
	FAILS(SPEC, "\x12\xff\xff\xff\xff\x07", "type is cut off");
	FAILS(SPEC, "\x12\x81\x80\x80\x80\x80\x00x", "type has a broken length");
	FAILS(SUBMIT,
	    "\x0a\x07\x12\x04"
	    "abcd",
	    "tasks[0] is cut off");
	FAILS(SUBMIT,
	    "\x0a\x05\x12\x04"
	    "abc",
	    "tasks[0].type is cut off");
}

Test(wire, finds_broken_tags)
{
	FAILS(GET, "\x80", "the message is not a well-formed GetRequest");
	FAILS(GET, "\x00\x01", "the message is not a well-formed GetRequest");
	FAILS(GET, "\x08\x01\x00", "id is followed by a field numbered 0");
	FAILS(GET, "\x08\x01\x80", "id is followed by a broken tag");
	FAILS(GET, "\x88\x80\x80\x80\x80\x00\x01", "the message is not a well-formed GetRequest");
	FAILS(SUBMIT, "\x0a\x01\x80", "tasks[0] begins with a broken field");
}

Test(wire, finds_wrong_wire_types)
{
	FAILS(GET, "\x0d\x01\x02\x03\x04", "id has the wrong wire type");
	FAILS(GET, "\x09\x01\x02\x03\x04\x05\x06\x07\x08", "id has the wrong wire type");
	FAILS(GET, "\x0b", "id has an unknown wire type");
	FAILS(GET, "\x0c", "id has an unknown wire type");
	FAILS(GET, "\x0e", "id has an unknown wire type");
	FAILS(GET, "\x0f", "id has an unknown wire type");
	FAILS(SPEC, "\x10\x01", "type has the wrong wire type");
	FAILS(SUBMIT, "\x08\x01", "tasks[0] has the wrong wire type");
	FAILS(WAIT, "\x09\x01\x02\x03\x04\x05\x06\x07\x08", "ids[0] has the wrong wire type");
}

Test(wire, unknown_fields_are_passed_over_if_they_are_whole)
{
	struct reeve_error error;

	cr_assert(CHECK(GET,
	    "\x08\x05\x9a\x06\x02\x80\x00\x98\x06\x01\x9d\x06"
	    "abcd\x99\x06"
	    "12345678",
	    &error));
	FAILS(GET, "\x9a\x06\x03\x80\x00", "field 99 is cut off");
	FAILS(GET,
	    "\x99\x06"
	    "1234567",
	    "field 99 is cut off");
	FAILS(GET, "\x9b\x06", "field 99 has an unknown wire type");
}

Test(wire, repeated_numbers_come_packed_or_not)
{
	struct reeve_error error;
	Reeve__V1__WaitRequest *wait;

	cr_assert(CHECK(WAIT, "\x0a\x03\x01\x80\x01", &error));
	cr_assert(CHECK(WAIT, "\x08\x01\x08\x80\x01\x0a\x01\x05\x0a\x00", &error));
	FAILS(WAIT, "\x0a\x02\x01\x80", "ids[0] holds a number that is cut off or too long");
	FAILS(WAIT, "\x08\x01\x0a\x02\x01\x80", "ids[1] holds a number that is cut off or too long");
	wait = (void *)wire_unpack(WAIT, (const uint8_t *)"\x08\x01\x08\x80\x01\x0a\x01\x05", 8, &error);
	cr_assert_eq(wait->n_ids, 3);
	cr_assert_eq(wait->ids[1], 128);
	protobuf_c_message_free_unpacked(&wait->base, NULL);
}

/* A message type that contains itself. Reeve has none, so its descriptor is defined here. */
static ProtobufCFieldDescriptor nest_field[1];
static const ProtobufCIntRange nest_ranges[] = {{1, 0}, {0, 1}};
static ProtobufCMessageDescriptor nest_message = {
    .magic = PROTOBUF_C__MESSAGE_DESCRIPTOR_MAGIC,
    .name = "Nest",
    .short_name = "Nest",
    .n_fields = 1,
    .fields = nest_field,
    .n_field_ranges = 1,
    .field_ranges = nest_ranges,
};

Test(wire, nesting_is_bounded)
{
	struct reeve_error error;
	uint8_t bytes[64];

	nest_field[0] = (ProtobufCFieldDescriptor){
	    .name = "in",
	    .id = 1,
	    .label = PROTOBUF_C_LABEL_NONE,
	    .type = PROTOBUF_C_TYPE_MESSAGE,
	    .descriptor = &nest_message,
	};
	for (unsigned depth = 1; depth < 24; depth++) {
		for (unsigned i = 0; i + 1 < depth; i++) {
			bytes[2 * i] = 0x0a;
			bytes[2 * i + 1] = (uint8_t)(2 * (depth - 2 - i));
		}
		cr_assert_eq(check_copy(&nest_message, bytes, 2 * (depth - 1), &error), depth <= WIRE_MAX_DEPTH, "%u", depth);
	}
	cr_assert_str_eq(error.message, "in.in.in.in.in.in.in.in.in.in.in.in.in.in.in.in is nested too deep");
}

/* Returns `count` copies of the bytes. */
static uint8_t *repeat(const char *bytes, size_t length, size_t count)
{
	uint8_t *all = malloc(length * count);

	for (size_t i = 0; i < count; i++)
		memcpy(all + i * length, bytes, length);
	return all;
}

Test(wire, small_bytes_cannot_grow_into_much_memory)
{
	struct reeve_error error;
	uint8_t *elements = repeat("\x0a\x00", 2, WIRE_MAX_ELEMENTS + 1);
	uint8_t *unknown = repeat("\x98\x06\x00", 3, WIRE_MAX_UNKNOWN + 1);

	cr_assert(wire_check(SUBMIT, elements, 2 * WIRE_MAX_ELEMENTS, &error));
	cr_assert_not(wire_check(SUBMIT, elements, 2 * (WIRE_MAX_ELEMENTS + 1), &error));
	cr_assert_str_eq(error.message, "tasks[250000] is one element too many for one message");
	cr_assert(wire_check(GET, unknown, 3 * WIRE_MAX_UNKNOWN, &error));
	cr_assert_not(wire_check(GET, unknown, 3 * (WIRE_MAX_UNKNOWN + 1), &error));
	cr_assert_str_eq(error.message, "field 99 is one unknown field too many");
	free(elements);
	free(unknown);
}

Test(wire, long_paths_are_cut_not_overrun)
{
	static char name[200];
	struct reeve_error error;
	uint8_t bytes[64];

	memset(name, 'n', sizeof name - 1);
	nest_field[0] = (ProtobufCFieldDescriptor){
	    .name = name,
	    .id = 1,
	    .label = PROTOBUF_C_LABEL_REPEATED,
	    .type = PROTOBUF_C_TYPE_MESSAGE,
	    .descriptor = &nest_message,
	};
	for (unsigned i = 0; i < 20; i++) {
		bytes[2 * i] = 0x0a;
		bytes[2 * i + 1] = (uint8_t)(2 * (19 - i));
	}
	cr_assert_not(check_copy(&nest_message, bytes, 40, &error));
	cr_assert_lt(strlen(error.message), 300);
	cr_assert(strstr(error.message, "is nested too deep"));
}

/* protobuf-c must be able to unpack every message that passes the check, both with malloc and into an arena, and
 * strings must keep their length. */
Test(wire, what_passes_can_be_unpacked)
{
	Reeve__V1__ReportRequest request = REEVE__V1__REPORT_REQUEST__INIT;
	Reeve__V1__Result results[2] = {REEVE__V1__RESULT__INIT, REEVE__V1__RESULT__INIT};
	Reeve__V1__Result *all[2] = {&results[0], &results[1]};
	Reeve__V1__FetchRequest fetch = REEVE__V1__FETCH_REQUEST__INIT;
	int64_t ids[] = {1, 300, -1};
	const char *queues[] = {"a", "\xc3\xa4"};
	const ProtobufCMessageDescriptor *descriptor = &reeve__v1__report_request__descriptor;
	uint8_t *bytes, *copy;
	size_t length;
	unsigned seed = 1, passed = 0;

	request.incarnation = 1;
	results[0].result = (char *)"fine";
	results[1].error = (char *)"not so fine";
	request.n_results = 2;
	request.results = all;
	fetch.n_queues = 2;
	fetch.queues = queues;
	fetch.n_exclude_ids = 3;
	fetch.exclude_ids = ids;
	request.fetch = &fetch;
	bytes = pack(&request.base, &length);
	copy = malloc(length);
	for (int round = 0; round < 200000; round++) {
		size_t cut = length - (size_t)rand_r(&seed) % 3;
		ProtobufCMessage *message;
		struct arena arena = {0};
		size_t memory;

		memcpy(copy, bytes, length);
		for (int change = rand_r(&seed) % 3; change >= 0; change--)
			copy[(size_t)rand_r(&seed) % length] = (uint8_t)rand_r(&seed);
		if (!wire_measure(descriptor, copy, cut, &memory, NULL))
			continue;
		passed++;
		message = protobuf_c_message_unpack(descriptor, NULL, cut, copy);
		cr_assert(message);
		protobuf_c_message_free_unpacked(message, NULL);
		message = arena_unpack(&arena, descriptor, copy, cut, memory);
		cr_assert(message);
		cr_assert(arena.total <= 256 || arena.total <= memory, "%zu bytes, not %zu", arena.total, memory);
		arena_clear(&arena);
	}
	cr_assert_gt(passed, 1000);
	free(copy);
	free(bytes);
}

/* The check computes the memory that many small fields, numbers in one field, and merged messages will take before it
 * is allocated. */
Test(wire, memory_is_measured_before_it_is_taken)
{
	static uint8_t bytes[400000];
	static const struct {
		const ProtobufCMessageDescriptor *descriptor;
		const char *unit; /* repeated */
		size_t length;
	} cases[] = {
	    {&reeve__v1__get_request__descriptor, "\x08\x01", 2},
	    {&reeve__v1__wait_request__descriptor, "\x08\x01", 2},
	    {&reeve__v1__wait_request__descriptor, "\x0a\x04\x01\x02\x03\x04", 6},
	    {&reeve__v1__submit_request__descriptor, "\x0a\x00", 2},
	    {&reeve__v1__submit_request__descriptor, "\x0a\x03\x0a\x01x", 5},
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		for (size_t count = 1; count < 60000; count = 3 * count + 1) {
			struct arena arena = {0};
			size_t memory = 0;
			struct reeve_error error;

			for (size_t j = 0; j < count; j++)
				memcpy(bytes + j * cases[i].length, cases[i].unit, cases[i].length);
			cr_assert(wire_measure(cases[i].descriptor, bytes, count * cases[i].length, &memory, &error), "%s",
			    error.message);
			cr_assert(arena_unpack(&arena, cases[i].descriptor, bytes, count * cases[i].length, memory));
			cr_assert(arena.total <= 256 || arena.total <= memory, "case %zu, %zu times: %zu bytes, not %zu", i, count,
			    arena.total, memory);
			arena_clear(&arena);
		}
	}
}

/* Each copy of a message field that should occur once is merged with the previous ones. */
Test(wire, merged_messages_are_measured_by_what_merging_takes)
{
	static uint8_t bytes[400000];
	size_t length = 0, memory;

	/* A Report's fetch, with ten excluded ids. */
	for (int i = 0; i < 1000; i++) {
		memcpy(bytes + length, "\x1a\x0c\x32\x0a\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a", 14);
		length += 14;
	}
	cr_assert(wire_measure(&reeve__v1__report_request__descriptor, bytes, length, &memory, NULL));
	cr_assert_gt(memory, (size_t)1 << 40);
}

Test(varint, sizes_and_bytes_agree)
{
	static const uint64_t values[] = {0, 1, 127, 128, 16383, 16384, UINT32_MAX, INT64_MAX, UINT64_MAX};

	for (unsigned i = 0; i < sizeof values / sizeof *values; i++) {
		uint8_t bytes[VARINT_MAX_BYTES];
		size_t size = (size_t)(varint_write(bytes, values[i]) - bytes);
		uint64_t back = 0;

		cr_assert_eq(size, varint_size(values[i]));
		cr_assert_eq(varint_read(bytes, bytes + size, VARINT_MAX_BYTES, &back), size);
		cr_assert_eq(back, values[i]);
		for (size_t cut = 0; cut < size; cut++)
			cr_assert_eq(varint_read(bytes, bytes + cut, VARINT_MAX_BYTES, &back), 0);
	}
}
