/*
 * Makes messages of a connection's bytes, one at a time: while a call is open its connection is read, so that its end is noticed,
 * but further bytes wait. A message grows in one frame, whose memory counts in the server's budget before bytes are parsed:
 * parsing never needs more than the bytes it gets.
 *
 * After an answer that ends the connection all bytes are dropped until the caller closes it: a socket that is closed with unread
 * bytes would make TCP drop the answer, too.
 */
#include "manager/http/http_internal.h"

#include "common/mem.h"

#include <http_parser.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum {
	HEAD_MAX_BYTES = 16 << 10, /* of request line and headers */
	NAME_MAX_BYTES = 32,       /* longer names of headers matter as little as unknown ones */
	ROOM_MIN = 1024,           /* of a new frame */
	ROOM_SLACK = 64,
};

static const char *const names[HTTP_FIELDS] = {
    [HTTP_HOST] = "host",
    [HTTP_CONTENT_TYPE] = "content-type",
    [HTTP_CONTENT_ENCODING] = "content-encoding",
    [HTTP_ACCEPT_ENCODING] = "accept-encoding",
    [HTTP_AUTHORIZATION] = "authorization",
    [HTTP_TIMEOUT] = "connect-timeout-ms",
    [HTTP_PROTOCOL] = "connect-protocol-version",
    [HTTP_IDEMPOTENCY_KEY] = "idempotency-key",
    [HTTP_ORIGIN] = "origin",
    [HTTP_ACTOR] = "reeve-actor",
    [HTTP_ASKED_METHOD] = "access-control-request-method",
    [HTTP_EXPECT] = "expect",
    [HTTP_TRACEPARENT] = "traceparent",
};

/* The HTTP side of a connection. */
struct parse {
	struct rpc_conn *conn;
	size_t max; /* bytes of a content */
	http_parser parser;
	struct frame *frame; /* of the message that has begun, or NULL */
	size_t room, filled; /* of its body; the room is counted in the budget */
	bool begun;
	bool open;  /* a message is complete and not answered */
	bool close; /* … and the connection ends with the answer */
	bool ended; /* no further message is taken */
	int problem;
	char name[NAME_MAX_BYTES + 1];
	size_t name_length;
	bool in_value;
	enum http_field field; /* of the current header; HTTP_FIELDS: another */
};

static struct http_message *message_of(struct parse *p)
{
	return (struct http_message *)frame_body(p->frame);
}

/* Adds bytes to the frame, which has room for them. */
static void append(struct parse *p, const char *bytes, size_t length)
{
	memcpy(frame_body(p->frame) + p->filled, bytes, length);
	p->filled += length;
}

/* Begins or continues a field's text. */
static void append_field(struct parse *p, enum http_field field, const char *bytes, size_t length)
{
	struct http_message *message = message_of(p);

	if (!message->field_at[field])
		message->field_at[field] = (uint32_t)p->filled;
	append(p, bytes, length);
	message->field_length[field] += (uint32_t)length;
}

static void end_text(struct parse *p)
{
	append(p, "", 1);
}

/* Ends the parsing with a status. Always returns a value that makes the parser stop. */
static int stop(struct parse *p, int status)
{
	p->problem = status;
	return -1;
}

static int on_begin(http_parser *parser)
{
	struct parse *p = parser->data;

	p->begun = true;
	p->field = HTTP_FIELDS;
	p->in_value = false;
	p->name_length = 0;
	return 0;
}

static int on_url(http_parser *parser, const char *bytes, size_t length)
{
	struct parse *p = parser->data;

	p->field = HTTP_TARGET;
	append_field(p, HTTP_TARGET, bytes, length);
	return 0;
}

/* Ends the value of the current header, or the request line. */
static void end_field(struct parse *p)
{
	if (p->field != HTTP_FIELDS)
		end_text(p);
	p->field = HTTP_FIELDS;
	p->in_value = false;
	p->name_length = 0;
}

static int on_name(http_parser *parser, const char *bytes, size_t length)
{
	struct parse *p = parser->data;
	size_t room;

	if (p->in_value || p->field != HTTP_FIELDS)
		end_field(p);
	room = NAME_MAX_BYTES - p->name_length;
	memcpy(p->name + p->name_length, bytes, length < room ? length : room);
	p->name_length += length < room ? length : room;
	return 0;
}

/* Finds the header whose name has been read. Returns false if it is one that was there before and may only come once. */
static bool begin_value(struct parse *p)
{
	struct http_message *message = message_of(p);

	p->in_value = true;
	p->name[p->name_length] = '\0';
	for (int field = 0; field < HTTP_FIELDS; field++)
		if (names[field] && !strcasecmp(p->name, names[field]))
			p->field = (enum http_field)field;
	if (p->field == HTTP_FIELDS || !message->field_at[p->field])
		return true;
	if (p->field != HTTP_ACCEPT_ENCODING)
		return false;
	p->field = HTTP_FIELDS; /* the first one counts: gzip or not is no matter of right and wrong */
	return true;
}

static int on_value(http_parser *parser, const char *bytes, size_t length)
{
	struct parse *p = parser->data;

	if (message_of(p)->content_at) /* a trailer */
		return 0;
	if (!p->in_value && !begin_value(p))
		return stop(p, HTTP_STATUS_BAD_REQUEST);
	if (p->field != HTTP_FIELDS)
		append_field(p, p->field, bytes, length);
	return 0;
}

/* Returns the status for a message whose headers are complete, or 0 if its content may come. */
static int check_head(const struct parse *p, const struct http_message *message)
{
	const char *expect = http_field(message, HTTP_EXPECT);
	bool announced = !(p->parser.flags & F_CHUNKED) && p->parser.content_length != ULLONG_MAX;

	if (p->parser.http_major != 1)
		return HTTP_STATUS_HTTP_VERSION_NOT_SUPPORTED;
	if (p->parser.http_minor > 0 && !http_field(message, HTTP_HOST))
		return HTTP_STATUS_BAD_REQUEST;
	if (expect && strcasecmp(expect, "100-continue") != 0)
		return HTTP_STATUS_EXPECTATION_FAILED;
	if (announced && p->parser.content_length > p->max)
		return HTTP_STATUS_PAYLOAD_TOO_LARGE;
	return 0;
}

/* Tells a caller that waits for that to send the content. */
static void go_on(struct parse *p)
{
	static const char text[] = "HTTP/1.1 100 Continue\r\n\r\n";
	struct frame *frame = frame_of_bytes(sizeof text - 1);

	memcpy(frame->wire, text, sizeof text - 1);
	rpc_conn_queue(p->conn, frame);
	rpc_conn_flush(p->conn);
}

static int on_headers(http_parser *parser)
{
	struct parse *p = parser->data;
	struct http_message *message = message_of(p);
	int problem;

	end_field(p);
	parser->upgrade = 0; /* no other protocol is spoken here */
	message->content_at = (uint32_t)p->filled;
	problem = check_head(p, message);
	if (problem)
		return stop(p, problem);
	if (http_field(message, HTTP_EXPECT))
		go_on(p);
	return 0;
}

static int on_content(http_parser *parser, const char *bytes, size_t length)
{
	struct parse *p = parser->data;

	if (p->filled - message_of(p)->content_at + length > p->max)
		return stop(p, HTTP_STATUS_PAYLOAD_TOO_LARGE);
	append(p, bytes, length);
	return 0;
}

/* A chunk has been announced. */
static int on_chunk(http_parser *parser)
{
	struct parse *p = parser->data;

	return parser->content_length > p->max ? stop(p, HTTP_STATUS_PAYLOAD_TOO_LARGE) : 0;
}

static int on_complete(http_parser *parser)
{
	struct parse *p = parser->data;

	message_of(p)->content_length = (uint32_t)p->filled - message_of(p)->content_at;
	message_of(p)->close = !http_should_keep_alive(parser);
	p->open = true;
	http_parser_pause(parser, 1);
	return 0;
}

static const http_parser_settings settings = {
    .on_message_begin = on_begin,
    .on_url = on_url,
    .on_header_field = on_name,
    .on_header_value = on_value,
    .on_headers_complete = on_headers,
    .on_body = on_content,
    .on_message_complete = on_complete,
    .on_chunk_header = on_chunk,
};

static void drop_frame(struct parse *p)
{
	if (p->frame)
		rpc_conn_return(p->conn, FRAME_HEAD_BYTES + p->room);
	free(p->frame);
	p->frame = NULL;
	p->room = p->filled = 0;
}

/* Makes room for what `length` further bytes can become. Returns false if the budget does not have it. */
static bool make_room(struct parse *p, size_t length)
{
	size_t needed = (p->frame ? p->filled : sizeof(struct http_message)) + length + ROOM_SLACK, room = p->room;
	struct frame *frame;

	if (p->frame && needed <= room)
		return true;
	room = needed < 2 * room ? 2 * room : needed;
	room = room < ROOM_MIN ? ROOM_MIN : room;
	if (!rpc_conn_afford(p->conn, p->frame ? room - p->room : FRAME_HEAD_BYTES + room))
		return false;
	frame = frame_create(room);
	if (p->frame) {
		memcpy(frame_body(frame), frame_body(p->frame), p->filled);
		free(p->frame);
	} else {
		p->filled = sizeof(struct http_message);
		memset(frame_body(frame), 0, p->filled);
	}
	p->frame = frame;
	p->room = room;
	return true;
}

/* Makes the message one that only says what is wrong. */
static void spoil(struct parse *p, int status)
{
	struct http_message *message = message_of(p);

	*message = (struct http_message){.problem = (uint32_t)status, .close = 1};
	p->filled = sizeof *message;
	p->open = true;
}

static int status_of(const struct parse *p)
{
	if (p->problem)
		return p->problem;
	switch (HTTP_PARSER_ERRNO(&p->parser)) {
	case HPE_HEADER_OVERFLOW: return HTTP_STATUS_REQUEST_HEADER_FIELDS_TOO_LARGE;
	case HPE_INVALID_VERSION: return HTTP_STATUS_HTTP_VERSION_NOT_SUPPORTED;
	default: return HTTP_STATUS_BAD_REQUEST;
	}
}

/* Hands the message over. */
static void hand_over(struct parse *p, struct rpc_intake *intake)
{
	struct http_message *message = message_of(p);

	message->method = p->parser.method;
	p->close = message->close;
	p->ended = p->close;
	p->frame->length = p->filled;
	rpc_conn_return(p->conn, p->room - p->filled);
	*intake->last = mem_realloc(p->frame, sizeof *p->frame + FRAME_HEAD_BYTES + p->filled);
	p->frame = NULL;
	p->room = p->filled = 0;
	p->begun = false;
}

/* Parses bytes that the frame has room for. */
static void parse_bytes(struct parse *p, struct rpc_intake *intake)
{
	intake->used = http_parser_execute(&p->parser, &settings, (const char *)intake->bytes, intake->length);
	if (HTTP_PARSER_ERRNO(&p->parser) == HPE_PAUSED)
		http_parser_pause(&p->parser, 0);
	else if (HTTP_PARSER_ERRNO(&p->parser) != HPE_OK)
		spoil(p, status_of(p));
	if (p->open)
		hand_over(p, intake);
	else if (!p->begun)
		drop_frame(p);
}

static bool http_take(void *state, struct rpc_intake *intake)
{
	struct parse *p = state;

	if (p->ended)
		intake->used = intake->length;
	if (p->ended || p->open)
		return true;
	if (intake->length && make_room(p, intake->length))
		parse_bytes(p, intake);
	else
		intake->starved = intake->length > 0;
	intake->begun = p->begun;
	intake->held = p->room;
	intake->expected = p->filled;
	if (p->begun && p->parser.content_length != ULLONG_MAX && message_of(p)->content_at)
		intake->expected += (size_t)p->parser.content_length;
	return true;
}

void http_answered(struct rpc_conn *conn)
{
	struct parse *p = rpc_conn_protocol_state(conn);

	if (!p->open)
		return;
	p->open = false;
	if (p->close)
		rpc_conn_finish(conn);
	else
		rpc_conn_resume(conn);
}

static void *http_open(void *arg, struct rpc_conn *conn)
{
	const struct http_door *door = arg;
	struct parse *p = mem_calloc(1, sizeof *p);

	p->conn = conn;
	p->max = door->options.max_message_bytes;
	http_parser_set_max_header_size(HEAD_MAX_BYTES);
	http_parser_init(&p->parser, HTTP_REQUEST);
	p->parser.data = p;
	return p;
}

static void http_free(void *state)
{
	drop_frame(state);
	free(state);
}

const struct rpc_protocol http_protocol = {http_open, http_take, http_free};
