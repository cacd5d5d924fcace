/*
 * Makes messages of a connection's bytes, one at a time: while a call is open its connection is read, so that its end
 * is noticed, but further bytes wait. A message grows in one frame, whose memory counts in the server's budget before
 * bytes are parsed: parsing never needs more than the bytes it gets.
 *
 * After an answer that ends the connection all bytes are dropped until the caller closes it: a socket that is closed
 * with unread bytes would make TCP drop the answer, too.
 */
#include "manager/http/http_internal.h"

#include "common/mem.h"
#include "manager/http/http_v2.h"

#include <http_parser.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum {
	NAME_MAX_BYTES = 32, /* longer names of headers matter as little as unknown ones */
};

/* The HTTP side of a connection. */
struct parse {
	struct rpc_conn *conn;
	size_t max; /* bytes of a content */
	http_parser parser;
	struct http2 *http2; /* if not NULL, the connection speaks HTTP/2, and the other members are unused */
	bool chosen;         /* the first bytes have shown which */
	struct http_draft draft;
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
	http_draft_field(&p->draft, HTTP_TARGET, bytes, length);
	return 0;
}

/* Ends the value of the current header, or the request line. */
static void end_field(struct parse *p)
{
	if (p->field != HTTP_FIELDS)
		http_draft_field_end(&p->draft, p->field);
	p->field = HTTP_FIELDS;
	p->in_value = false;
	p->name_length = 0;
}

static int on_name(http_parser *parser, const char *bytes, size_t length)
{
	struct parse *p = parser->data;
	size_t room;

	/* The parser takes "Name : value", which others may read as another header. */
	if (memchr(bytes, ' ', length) || memchr(bytes, '\t', length))
		return stop(p, HTTP_STATUS_BAD_REQUEST);
	if (p->in_value || p->field != HTTP_FIELDS)
		end_field(p);
	room = NAME_MAX_BYTES - p->name_length;
	memcpy(p->name + p->name_length, bytes, length < room ? length : room);
	p->name_length += length < room ? length : room;
	return 0;
}

/* Finds the header whose name has been read. Returns false if it is one that was there before and may only come once.
 */
static bool begin_value(struct parse *p)
{
	struct http_message *message = http_draft_message(&p->draft);

	p->in_value = true;
	p->name[p->name_length] = '\0';
	p->field = http_field_named(p->name);
	if (p->field == HTTP_FIELDS || !message->field_at[p->field])
		return true;
	if (!http_field_repeats(p->field))
		return false;
	p->field = HTTP_FIELDS; /* the first one counts: gzip or not is no matter of right and wrong */
	return true;
}

static int on_value(http_parser *parser, const char *bytes, size_t length)
{
	struct parse *p = parser->data;

	if (http_draft_message(&p->draft)->content_at) /* a trailer */
		return 0;
	if (!p->in_value && !begin_value(p))
		return stop(p, HTTP_STATUS_BAD_REQUEST);
	if (p->field != HTTP_FIELDS)
		http_draft_field(&p->draft, p->field, bytes, length);
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
	struct http_message *message = http_draft_message(&p->draft);
	int problem;

	end_field(p);
	parser->upgrade = 0; /* no other protocol is spoken here */
	message->content_at = (uint32_t)p->draft.filled;
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

	if (p->draft.filled - http_draft_message(&p->draft)->content_at + length > p->max)
		return stop(p, HTTP_STATUS_PAYLOAD_TOO_LARGE);
	http_draft_append(&p->draft, bytes, length);
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

	http_draft_message(&p->draft)->content_length =
	    (uint32_t)p->draft.filled - http_draft_message(&p->draft)->content_at;
	http_draft_message(&p->draft)->close = !http_should_keep_alive(parser);
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

/* Makes the message one that only says what is wrong. */
static void spoil(struct parse *p, int status)
{
	struct http_message *message = http_draft_message(&p->draft);

	*message = (struct http_message){.problem = (uint32_t)status, .close = 1};
	p->draft.filled = sizeof *message;
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
	struct http_message *message = http_draft_message(&p->draft);

	message->method = p->parser.method;
	p->close = message->close;
	p->ended = p->close;
	*intake->last = http_draft_take(&p->draft);
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
		http_draft_drop(&p->draft);
}

/* Finds out from the first bytes which version of HTTP the caller speaks. Returns false if there are too few. */
static bool choose(struct parse *p, struct rpc_intake *intake)
{
	static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
	size_t length = intake->length < sizeof preface - 1 ? intake->length : sizeof preface - 1;

	if (memcmp(intake->bytes, preface, length) != 0) {
		p->chosen = true;
		return true;
	}
	intake->begun = length > 0;
	if (length < sizeof preface - 1)
		return false;
	p->chosen = true;
	p->http2 = http2_open(p->conn, p->max);
	return true;
}

static bool http_take(void *state, struct rpc_intake *intake)
{
	struct parse *p = state;

	if (!p->chosen && !choose(p, intake))
		return true;
	if (p->http2)
		return http2_take(p->http2, intake);
	if (p->ended)
		intake->used = intake->length;
	if (p->ended || p->open)
		return true;
	if (intake->length && http_draft_room(&p->draft, intake->length))
		parse_bytes(p, intake);
	else
		intake->starved = intake->length > 0;
	intake->begun = p->begun;
	intake->held = p->draft.room;
	intake->expected = p->draft.filled;
	if (p->begun && p->parser.content_length != ULLONG_MAX && http_draft_message(&p->draft)->content_at)
		intake->expected += (size_t)p->parser.content_length;
	return true;
}

static void http_sent(void *state)
{
	struct parse *p = state;

	if (p->http2)
		http2_sent(p->http2);
}

void http_send(struct rpc_conn *conn, struct frame *answer)
{
	struct parse *p = rpc_conn_protocol_state(conn);

	if (p->http2) {
		http2_send(p->http2, answer);
		return;
	}
	rpc_conn_queue(conn, answer);
	if (!p->open)
		return;
	p->open = false;
	if (p->close)
		rpc_conn_finish(conn);
	else
		rpc_conn_resume(conn);
}

bool http_wants_answer(struct rpc_conn *conn, struct frame *frame)
{
	const struct parse *p = rpc_conn_protocol_state(conn);

	return !p->http2 || http2_wants_answer(p->http2, http_message_of(frame)->stream);
}

void http_maintain(void *arg, struct rpc_conn *conn, bool stopping)
{
	const struct parse *p = rpc_conn_protocol_state(conn);

	if (p->http2)
		http2_maintain(p->http2, http_health_of(arg), stopping);
}

static void *http_open(void *arg, struct rpc_conn *conn)
{
	const struct http_api *api = arg;
	struct parse *p = mem_calloc(1, sizeof *p);

	p->conn = p->draft.conn = conn;
	p->max = api->options.max_message_bytes;
	http_parser_set_max_header_size(HEAD_MAX_BYTES);
	http_parser_init(&p->parser, HTTP_REQUEST);
	p->parser.data = p;
	return p;
}

static void http_free(void *state)
{
	struct parse *p = state;

	if (p->http2)
		http2_close(p->http2);
	http_draft_drop(&p->draft);
	free(p);
}

const struct rpc_protocol http_protocol = {http_open, http_take, http_sent, http_free};
