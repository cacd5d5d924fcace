/*
 * Fuzzes the reader of JSON: any text is a message or an error, and a message that was read is written and read again as the same.
 * The first byte of an input chooses the form and the message, and the rest is the text.
 */
#include "common/json.h"
#include "tests/fuzz/fuzz.h"

#include <reeve/v1/task.pb-c.h>
#include <reeve/v1/worker.pb-c.h>
#include <stdlib.h>
#include <string.h>

enum { MEMORY_MAX = 1 << 20 };

static const ProtobufCMessageDescriptor *const descriptors[] = {
    &reeve__v1__submit_request__descriptor,
    &reeve__v1__task__descriptor,
    &reeve__v1__heartbeat_request__descriptor,
    &reeve__v1__report_request__descriptor,
    &reeve__v1__list_request__descriptor,
    &reeve__v1__fetch_response__descriptor,
};

static uint8_t *pack(const ProtobufCMessage *message, size_t *length)
{
	uint8_t *bytes = malloc(protobuf_c_message_get_packed_size(message) + 1);

	*length = protobuf_c_message_pack(message, bytes);
	return bytes;
}

/* Writes a message and reads it again. */
static void check(enum json_form form, const ProtobufCMessage *message)
{
	json_t *object = json_from_message_in(form, message);
	struct reeve_error error = {0};
	ProtobufCMessage *read = json_to_message_in(form, object, message->descriptor, &error);
	uint8_t *first, *second;
	size_t first_length, second_length;

	FUZZ_CHECK(read, "what was written is not read: %s", error.message);
	first = pack(message, &first_length);
	second = pack(read, &second_length);
	FUZZ_CHECK(first_length == second_length && !memcmp(first, second, first_length), "another message is read");
	free(first);
	free(second);
	json_decref(object);
	protobuf_c_message_free_unpacked(read, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	enum json_form form = length && bytes[0] & 1 ? JSON_OWN : JSON_MAPPING;
	size_t number = length ? (bytes[0] >> 1) % (sizeof descriptors / sizeof *descriptors) : 0;
	struct reeve_error error = {0};
	json_t *object = length ? json_read_text((const char *)bytes + 1, length - 1, MEMORY_MAX, &error) : NULL;
	ProtobufCMessage *message = object ? json_to_message_in(form, object, descriptors[number], &error) : NULL;

	json_decref(object);
	if (message)
		check(form, message);
	else
		FUZZ_CHECK(!length || (error.code && *error.message), "an error without a reason");
	if (message)
		protobuf_c_message_free_unpacked(message, NULL);
	return 0;
}
