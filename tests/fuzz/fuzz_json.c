/*
 * Fuzzes the reader of JSON: any text is a message or an error, and a message that was read is written and read again
 * as the same. Also fuzzes the reader of texts with a value that stays text. The first byte of an input chooses the
 * form and the message. The other bytes are the text.
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

/* Reads a text with a member that stays text: what a parser takes, and only that, has text that means the same. */
static void check_text(const char *text, size_t length, const char *name)
{
	const size_t flags = JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DECODE_ANY;
	json_error_t why, why_not;
	json_t *plain = json_loadb(text, length, flags, &why),
	       *read = json_load_as_text(text, length, flags, name, &why_not);
	json_t *value = name ? json_object_get(plain, name) : plain, *kept = name ? json_object_get(read, name) : read,
	       *again;

	FUZZ_CHECK(plain ? read != NULL : !read || json_error_code(&why) == json_error_numeric_overflow,
	    "only one of them takes it");
	if (value && !json_is_null(value) && !json_is_string(value)) {
		again = json_loadb(json_string_value(kept), json_string_length(kept), flags, &why);
		FUZZ_CHECK(json_equal(again, value), "another value");
		json_decref(again);
	}
	json_decref(plain);
	json_decref(read);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	enum json_form form = length && bytes[0] & 1 ? JSON_OWN : JSON_MAPPING;
	size_t number = length ? (bytes[0] >> 1) % (sizeof descriptors / sizeof *descriptors) : 0;
	struct reeve_error error = {0};
	json_t *object = length ? json_read_text((const char *)bytes + 1, length - 1, MEMORY_MAX, &error) : NULL;
	ProtobufCMessage *message = object ? json_to_message_in(form, object, descriptors[number], &error) : NULL;

	json_decref(object);
	if (length) {
		check_text((const char *)bytes + 1, length - 1, "d");
		check_text((const char *)bytes + 1, length - 1, NULL);
	}
	if (message)
		check(form, message);
	else
		FUZZ_CHECK(!length || (error.code && *error.message), "an error without a reason");
	if (message)
		protobuf_c_message_free_unpacked(message, NULL);
	return 0;
}
