/* The numbers of the envelopes' fields are those in envelope.proto. */
#include "common/rpc/envelope.h"

#include "common/rpc/varint.h"
#include "common/rpc/wire.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

enum {
	REQUEST_METHOD = 1,
	REQUEST_ID = 2,
	REQUEST_DEADLINE = 3,
	REQUEST_TOKEN = 4,
	REQUEST_ACTOR = 5,
	REQUEST_BODY = 6,
	REQUEST_CONTRACT = 7,
};
enum { REPLY_CODE = 1, REPLY_MESSAGE = 2, REPLY_BODY = 3 };
enum { CONTRACT = REEVE__V1__CONTRACT__CONTRACT_CURRENT };

/* The value of a missing field. */
static const struct envelope_view nothing = {(const uint8_t *)"", 0};

/* One field of bytes that passed wire_check. */
struct field {
	uint32_t number;
	uint64_t value;            /* of numbers */
	struct envelope_view view; /* of strings and bytes */
};

/* Reads the field at *at, which has passed wire_check, and advances. */
static struct field next_field(const uint8_t **at, const uint8_t *end)
{
	struct field field = {0};
	uint64_t tag = 0;
	size_t used = varint_read(*at, end, VARINT_MAX_BYTES, &tag);

	assert(used);
	*at += used;
	field.number = (uint32_t)(tag >> 3);
	switch (tag & 7) {
	case WIRE_64: *at += 8; return field;
	case WIRE_32: *at += 4; return field;
	}
	used = varint_read(*at, end, VARINT_MAX_BYTES, &field.value);
	assert(used);
	*at += used;
	if ((tag & 7) == WIRE_LENGTH) {
		field.view = (struct envelope_view){*at, field.value};
		*at += field.value;
	}
	return field;
}

bool envelope_read_request(
    const uint8_t *bytes, size_t length, struct envelope_request *request, struct reeve_error *error)
{
	const uint8_t *at = bytes, *end = bytes + length;
	struct envelope_view id = {0};

	*request = (struct envelope_request){nothing, nothing, nothing, nothing, NULL, 0, 0};
	if (!wire_check(&reeve__v1__request__descriptor, bytes, length, error))
		return false;
	while (at < end) {
		struct field field = next_field(&at, end);

		switch (field.number) {
		case REQUEST_METHOD: request->method = field.view; break;
		case REQUEST_ID: id = field.view; break;
		case REQUEST_DEADLINE: request->deadline_ms = (uint32_t)field.value; break;
		case REQUEST_TOKEN: request->token = field.view; break;
		case REQUEST_ACTOR: request->actor = field.view; break;
		case REQUEST_BODY: request->body = field.view; break;
		case REQUEST_CONTRACT: request->contract = (uint32_t)field.value; break;
		}
	}
	if (id.length != 0 && id.length != UUID_BYTES)
		return error_set(
		    error, STATUS(INVALID_ARGUMENT), "request_id has %zu bytes, not %d or none", id.length, UUID_BYTES);
	request->request_id = id.length ? id.bytes : NULL;
	return true;
}

bool envelope_read_reply(const uint8_t *bytes, size_t length, struct envelope_reply *reply, struct reeve_error *error)
{
	const uint8_t *at = bytes, *end = bytes + length;

	*reply = (struct envelope_reply){0, nothing, nothing};
	if (!wire_check(&reeve__v1__reply__descriptor, bytes, length, error))
		return false;
	while (at < end) {
		struct field field = next_field(&at, end);

		switch (field.number) {
		case REPLY_CODE: reply->code = (uint32_t)field.value; break;
		case REPLY_MESSAGE: reply->message = field.view; break;
		case REPLY_BODY: reply->body = field.view; break;
		}
	}
	return true;
}

/* All field numbers here are below 16, so a tag is one byte. */
static size_t view_size(size_t length)
{
	return length ? 1 + varint_size(length) + length : 0;
}

static uint8_t *write_head(uint8_t *out, unsigned number, size_t length)
{
	*out++ = (uint8_t)(number << 3 | WIRE_LENGTH);
	return varint_write(out, length);
}

static uint8_t *write_view(uint8_t *out, unsigned number, const void *bytes, size_t length)
{
	if (!length)
		return out;
	out = write_head(out, number, length);
	memcpy(out, bytes, length);
	return out + length;
}

static size_t fixed_size(const struct envelope_request *request)
{
	return 1 + varint_size(CONTRACT) + view_size(request->method.length) +
	    view_size(request->request_id ? UUID_BYTES : 0) + view_size(request->token.length) +
	    view_size(request->actor.length) + view_size(request->body.length);
}

size_t envelope_request_size(const struct envelope_request *request)
{
	return fixed_size(request) + 1 + varint_size(UINT32_MAX);
}

struct frame *envelope_write_request(const struct envelope_request *request)
{
	size_t size = fixed_size(request) + (request->deadline_ms ? 1 + varint_size(request->deadline_ms) : 0);
	struct frame *frame = frame_create(size);
	uint8_t *out = frame_body(frame);

	out = write_view(out, REQUEST_METHOD, request->method.bytes, request->method.length);
	out = write_view(out, REQUEST_ID, request->request_id, request->request_id ? UUID_BYTES : 0);
	if (request->deadline_ms) {
		*out++ = REQUEST_DEADLINE << 3 | WIRE_VARINT;
		out = varint_write(out, request->deadline_ms);
	}
	out = write_view(out, REQUEST_TOKEN, request->token.bytes, request->token.length);
	out = write_view(out, REQUEST_ACTOR, request->actor.bytes, request->actor.length);
	out = write_view(out, REQUEST_BODY, request->body.bytes, request->body.length);
	*out++ = REQUEST_CONTRACT << 3 | WIRE_VARINT;
	out = varint_write(out, CONTRACT);
	assert(out == frame_body(frame) + size);
	return frame;
}

void envelope_contract_problem(uint32_t program, uint32_t manager, char *out, size_t size)
{
	char own[40] = "no version", other[40] = "no version";

	if (program != REEVE__V1__CONTRACT__CONTRACT_NONE)
		snprintf(own, sizeof own, "version %u", program);
	if (manager != REEVE__V1__CONTRACT__CONTRACT_NONE)
		snprintf(other, sizeof other, "version %u", manager);
	snprintf(out, size, "this program has %s of Reeve's contract, the manager has %s: upgrade %s", own, other,
	    program < manager ? "this program" : "the manager");
}

struct frame *envelope_write_response(const ProtobufCMessage *response, size_t max_bytes, struct reeve_error *error)
{
	struct frame *frame;
	size_t packed = protobuf_c_message_get_packed_size(response);
	size_t size = view_size(packed);
	uint8_t *out;

	if (size > max_bytes) {
		error_set(error, STATUS(INTERNAL), "the answer is %zu bytes long, the limit is %zu", size, max_bytes);
		return NULL;
	}
	frame = frame_create(size);
	if (packed) {
		out = write_head(frame_body(frame), REPLY_BODY, packed);
		protobuf_c_message_pack(response, out);
	}
	return frame;
}

struct frame *envelope_write_error(reeve_status code, const char *message)
{
	size_t length = strlen(message);
	struct frame *frame = frame_create(1 + varint_size((uint64_t)code) + view_size(length));
	uint8_t *out = frame_body(frame);

	*out++ = REPLY_CODE << 3 | WIRE_VARINT;
	out = varint_write(out, (uint64_t)code);
	write_view(out, REPLY_MESSAGE, message, length);
	return frame;
}
