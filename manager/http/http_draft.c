/* Messages that are arriving. */
#include "manager/http/http_internal.h"

#include "common/mem.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum {
	ROOM_MIN = 1024, /* of a new frame */
	ROOM_SLACK = 64,
};

static const char *const names[HTTP_FIELDS] = {
    [HTTP_HOST] = "host",
    [HTTP_CONTENT_TYPE] = "content-type",
    [HTTP_CONTENT_ENCODING] = "content-encoding",
    [HTTP_ACCEPT] = "accept",
    [HTTP_ACCEPT_ENCODING] = "accept-encoding",
    [HTTP_AUTHORIZATION] = "authorization",
    [HTTP_TIMEOUT] = "connect-timeout-ms",
    [HTTP_PROTOCOL] = "connect-protocol-version",
    [HTTP_CACHE_CONTROL] = "cache-control",
    [HTTP_IDEMPOTENCY_KEY] = "idempotency-key",
    [HTTP_ORIGIN] = "origin",
    [HTTP_ACTOR] = "reeve-actor",
    [HTTP_ASKED_METHOD] = "access-control-request-method",
    [HTTP_EXPECT] = "expect",
    [HTTP_TRACEPARENT] = "traceparent",
    [HTTP_GRPC_TIMEOUT] = "grpc-timeout",
    [HTTP_GRPC_ENCODING] = "grpc-encoding",
    [HTTP_GRPC_ACCEPT_ENCODING] = "grpc-accept-encoding",
    [HTTP_FETCH_SITE] = "sec-fetch-site",
};

enum http_field http_field_named(const char *name)
{
	for (int field = 0; field < HTTP_FIELDS; field++)
		if (names[field] && !strcasecmp(name, names[field]))
			return (enum http_field)field;
	return HTTP_FIELDS;
}

bool http_field_repeats(enum http_field field)
{
	return field == HTTP_CACHE_CONTROL || field == HTTP_ACCEPT || field == HTTP_ACCEPT_ENCODING ||
	    field == HTTP_GRPC_ACCEPT_ENCODING;
}

bool http_draft_room(struct http_draft *draft, size_t length)
{
	size_t needed = (draft->frame ? draft->filled : sizeof(struct http_message)) + length + ROOM_SLACK;
	size_t room = draft->room;
	struct frame *frame;

	if (draft->frame && needed <= room)
		return true;
	room = needed < 2 * room ? 2 * room : needed;
	room = room < ROOM_MIN ? ROOM_MIN : room;
	if (!rpc_conn_reserve(draft->conn, draft->frame ? room - draft->room : FRAME_HEAD_BYTES + room, needed))
		return false;
	frame = frame_create(room);
	if (draft->frame) {
		memcpy(frame_body(frame), frame_body(draft->frame), draft->filled);
		free(draft->frame);
	} else {
		draft->filled = sizeof(struct http_message);
		memset(frame_body(frame), 0, draft->filled);
	}
	draft->frame = frame;
	draft->room = room;
	return true;
}

void http_draft_append(struct http_draft *draft, const void *bytes, size_t length)
{
	if (length)
		memcpy(frame_body(draft->frame) + draft->filled, bytes, length);
	draft->filled += length;
}

void http_draft_field(struct http_draft *draft, enum http_field field, const char *bytes, size_t length)
{
	struct http_message *message = http_draft_message(draft);

	if (!message->field_at[field])
		message->field_at[field] = (uint32_t)draft->filled;
	http_draft_append(draft, bytes, length);
	message->field_length[field] += (uint32_t)length;
}

void http_draft_field_end(struct http_draft *draft, enum http_field field)
{
	uint32_t *length = &http_draft_message(draft)->field_length[field];
	const char *end = (const char *)frame_body(draft->frame) + draft->filled;

	for (; *length && (end[-1] == ' ' || end[-1] == '\t'); end--) {
		draft->filled--;
		--*length;
	}
	http_draft_append(draft, "", 1);
}

struct frame *http_draft_take(struct http_draft *draft)
{
	struct frame *frame = draft->frame;

	frame->length = draft->filled;
	rpc_conn_unreserve(draft->conn, draft->room - draft->filled);
	frame = mem_realloc(frame, sizeof *frame + FRAME_HEAD_BYTES + draft->filled);
	draft->frame = NULL;
	draft->room = draft->filled = 0;
	return frame;
}

void http_draft_drop(struct http_draft *draft)
{
	if (draft->frame)
		rpc_conn_unreserve(draft->conn, FRAME_HEAD_BYTES + draft->room);
	free(draft->frame);
	draft->frame = NULL;
	draft->room = draft->filled = 0;
}
