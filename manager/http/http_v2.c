#include "manager/http/http_v2.h"

#include "common/clock.h"
#include "common/mem.h"

#include <http_parser.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

enum {
	STREAMS_MAX = 256, /* open calls of a connection */
	STREAM_WINDOW = 256 << 10,
	CONNECTION_WINDOW = 1 << 20,
	FIELD_BYTES = 32,      /* of a header, besides name and value, as the protocol counts */
	NAME_MAX_BYTES = 32,   /* longer names of headers matter as little as unknown ones */
	PREFIX_BYTES = 5,      /* before a message of gRPC */
	RESETS_AT_ONCE = 1000, /* streams that a caller may reset, or calls that it may withdraw, at once */
	RESETS_A_SECOND = 100, /* … and also each second */
	COPIED_MAX = 1 << 20,  /* bytes of heads that are copied for the messages of one read */
	UNWRITTEN_MAX = 2000,  /* frames that wait because the caller does not read; a few for each stream */
};

static struct http2_stream *stream_of(struct http2 *http2, int32_t id)
{
	return nghttp2_session_get_stream_user_data(http2->session, id);
}

/* Makes room in a stream's message. Returns false if the budget does not have it. */
static bool make_room(struct http2_stream *stream, size_t length)
{
	size_t before = stream->draft.room;
	bool made = http_draft_room(&stream->draft, length);

	stream->http2->held += stream->draft.room - before;
	return made;
}

/* No more messages will come. */
static void complete(struct http2_stream *stream)
{
	stream->http2->held -= stream->draft.room;
	if (!stream->complete && !stream->many)
		stream->http2->arriving--;
	stream->complete = true;
}

static void reset(struct http2_stream *stream, uint32_t code)
{
	complete(stream);
	http_draft_drop(&stream->draft);
	nghttp2_submit_rst_stream(stream->http2->session, NGHTTP2_FLAG_NONE, stream->id, code);
}

/* Refuses a stream for lack of memory. Always returns the value that makes nghttp2 drop what it has of it. */
static int refuse(struct http2_stream *stream)
{
	reset(stream, NGHTTP2_REFUSED_STREAM);
	return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
}

/* Hands over a complete message. */
static void hand_over(struct http2_stream *stream)
{
	struct rpc_intake *intake = stream->http2->intake;
	struct http_message *message = http_draft_message(&stream->draft);

	complete(stream);
	if (!message->content_at)
		message->content_at = (uint32_t)stream->draft.filled;
	message->content_length = (uint32_t)stream->draft.filled - message->content_at;
	*intake->last = http_draft_take(&stream->draft);
	intake->last = &(*intake->last)->next;
}

/* Hands over a message that only says what is wrong. */
static void spoil(struct http2_stream *stream, int status)
{
	http_draft_message(&stream->draft)->problem = (uint32_t)status;
	hand_over(stream);
}

static int on_begin(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
	struct http2 *http2 = arg;
	struct http2_stream *stream;

	if (frame->hd.type != NGHTTP2_HEADERS || frame->headers.cat != NGHTTP2_HCAT_REQUEST)
		return 0;
	stream = mem_calloc(1, sizeof *stream);
	stream->http2 = http2;
	stream->id = frame->hd.stream_id;
	stream->begun_ms = clock_monotonic_ms();
	stream->draft.conn = http2->conn;
	stream->answers_end = &stream->answers;
	DL_APPEND(http2->streams, stream);
	http2->arriving++;
	nghttp2_session_set_stream_user_data(session, stream->id, stream);
	if (!make_room(stream, 0))
		return refuse(stream);
	http_draft_message(&stream->draft)->stream = (uint32_t)stream->id;
	http_draft_message(&stream->draft)->method = HTTP_TRACE; /* none that a page or a call has */
	return 0;
}

static uint32_t method_named(const char *name)
{
	static const struct {
		const char *name;
		uint32_t number;
	} methods[] = {{"GET", HTTP_GET}, {"HEAD", HTTP_HEAD}, {"POST", HTTP_POST}, {"OPTIONS", HTTP_OPTIONS}};

	for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
		if (!strcmp(methods[i].name, name))
			return methods[i].number;
	return HTTP_TRACE;
}

/* Returns the field of a header. */
static enum http_field field_of(const char *name)
{
	if (!strcmp(name, ":path"))
		return HTTP_TARGET;
	return strcmp(name, ":authority") != 0 ? http_field_named(name) : HTTP_HOST;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_length,
    const uint8_t *value, size_t length, uint8_t flags, void *arg)
{
	struct http2_stream *stream = stream_of(arg, frame->hd.stream_id);
	enum http_field field;

	(void)session, (void)flags;
	if (!stream || stream->complete || frame->headers.cat != NGHTTP2_HCAT_REQUEST) /* or a trailer */
		return 0;
	stream->head += name_length + length + FIELD_BYTES;
	if (stream->head > HEAD_MAX_BYTES || name_length > NAME_MAX_BYTES)
		return 0;
	if (!strcmp((const char *)name, ":method")) {
		http_draft_message(&stream->draft)->method = method_named((const char *)value);
		return 0;
	}
	field = field_of((const char *)name);
	if (field == HTTP_FIELDS || field == HTTP_EXPECT)
		return 0;
	if (http_draft_message(&stream->draft)->field_at[field]) { /* the authority is the host, too */
		if (!http_field_repeats(field) && field != HTTP_HOST)
			http_draft_message(&stream->draft)->problem = HTTP_STATUS_BAD_REQUEST;
		return 0;
	}
	if (!make_room(stream, length + 1))
		return refuse(stream);
	http_draft_field(&stream->draft, field, (const char *)value, length);
	http_draft_append(&stream->draft, "", 1);
	return 0;
}

/* Ends the headers of a message. */
static void end_head(struct http2_stream *stream)
{
	struct http_message *message = http_draft_message(&stream->draft);

	message->content_at = (uint32_t)stream->draft.filled;
	if (stream->head > HEAD_MAX_BYTES) {
		spoil(stream, HTTP_STATUS_REQUEST_HEADER_FIELDS_TOO_LARGE);
	} else if (message->problem || !http_field(message, HTTP_TARGET)) {
		spoil(stream, HTTP_STATUS_BAD_REQUEST);
	} else if (http_grpc_is_stream(message)) {
		stream->many = true;
		stream->http2->arriving--;
	}
}

/* Hands over the first `length` bytes of the content as one of many messages. Returns false if the budget has no memory
 * for it. */
static bool hand_over_part(struct http2_stream *stream, size_t length)
{
	struct http_message *message = http_draft_message(&stream->draft);
	size_t head = message->content_at, rest = stream->draft.filled - head - length;
	struct rpc_intake *intake = stream->http2->intake;
	struct frame *frame;

	if (!rpc_conn_reserve(stream->draft.conn, FRAME_HEAD_BYTES + head + length, head + length))
		return false;
	frame = frame_create(head + length);
	memcpy(frame_body(frame), message, head + length);
	((struct http_message *)frame_body(frame))->content_length = (uint32_t)length;
	*intake->last = frame;
	intake->last = &frame->next;
	stream->http2->copied += head;
	memmove((uint8_t *)message + head, (uint8_t *)message + head + length, rest);
	stream->draft.filled = head + rest;
	return true;
}

/* Hands over the complete ones of many messages. Resets the stream if there are too many, or the budget has no memory
 * for one. */
static void take_parts(struct http2_stream *stream)
{
	size_t length;

	while ((length = http_grpc_complete(http_draft_message(&stream->draft), stream->draft.filled)) > 0) {
		bool calm = stream->http2->copied < COPIED_MAX;

		if (calm && hand_over_part(stream, length))
			continue;
		reset(stream, calm ? NGHTTP2_REFUSED_STREAM : NGHTTP2_ENHANCE_YOUR_CALM);
		return;
	}
}

static int on_content(
    nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *bytes, size_t length, void *arg)
{
	struct http2_stream *stream = stream_of(arg, id);

	(void)flags;
	if (!stream)
		return 0;
	if (stream->complete) { /* a caller may get the answer only if it can send the rest */
		stream->unread += length;
		if (stream->unread > stream->http2->max)
			nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, id, NGHTTP2_NO_ERROR);
		return 0;
	}
	if (stream->draft.filled - http_draft_message(&stream->draft)->content_at + length >
	    stream->http2->max + PREFIX_BYTES) {
		spoil(stream, HTTP_STATUS_PAYLOAD_TOO_LARGE);
		return 0;
	}
	if (!make_room(stream, length)) {
		refuse(stream);
		return 0;
	}
	http_draft_append(&stream->draft, bytes, length);
	if (stream->many)
		take_parts(stream);
	return 0;
}

/* The caller has ended its direction of a stream. */
static void end_content(struct http2_stream *stream)
{
	struct http_message *message = http_draft_message(&stream->draft);

	if (stream->many && stream->draft.filled > message->content_at)
		message->problem = HTTP_STATUS_BAD_REQUEST;
	message->ended = stream->many;
	hand_over(stream);
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
	struct http2_stream *stream;

	(void)session;
	if (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA)
		return 0;
	stream = stream_of(arg, frame->hd.stream_id);
	if (stream && !stream->complete && frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_REQUEST)
		end_head(stream);
	if (stream && !stream->complete && frame->hd.flags & NGHTTP2_FLAG_END_STREAM)
		end_content(stream);
	return 0;
}

static void free_stream(struct http2_stream *stream)
{
	DL_DELETE(stream->http2->streams, stream);
	complete(stream);
	http_draft_drop(&stream->draft);
	http2_drop_answers(stream);
	free(stream);
}

/* Notes a withdrawn call, and ends a connection that has too many. nghttp2 counts only the streams that the caller
 * itself resets, not those that it makes us reset by frames that break the rules. */
static void count_withdrawn(struct http2 *http2)
{
	const int64_t each_ms = 1000 / RESETS_A_SECOND;
	int64_t now_ms = clock_monotonic_ms();

	http2->withdrawn_ms = (http2->withdrawn_ms > now_ms ? http2->withdrawn_ms : now_ms) + each_ms;
	if (http2->withdrawn_ms - now_ms > each_ms * RESETS_AT_ONCE)
		nghttp2_session_terminate_session(http2->session, NGHTTP2_ENHANCE_YOUR_CALM);
}

static int on_closed(nghttp2_session *session, int32_t id, uint32_t code, void *arg)
{
	struct http2 *http2 = arg;
	struct http2_stream *stream = stream_of(http2, id);
	bool withdrawn;

	if (!stream)
		return 0;
	withdrawn = stream->complete && !stream->answered;
	nghttp2_session_set_stream_user_data(session, id, NULL);
	free_stream(stream);
	if (!withdrawn)
		return 0;
	rpc_conn_withdraw(http2->conn, (uint32_t)id);
	if (code != NGHTTP2_REFUSED_STREAM) /* for lack of memory: that is not the caller's fault */
		count_withdrawn(http2);
	return 0;
}

bool http2_wants_answer(struct http2 *http2, uint32_t stream)
{
	return stream_of(http2, (int32_t)stream) != NULL;
}

/* Returns when the oldest stream with an incomplete message began, or 0 if there is none. */
static int64_t oldest_ms(const struct http2 *http2)
{
	const struct http2_stream *stream;

	DL_FOREACH (http2->streams, stream)
		if (!stream->complete)
			return stream->begun_ms;
	return 0;
}

bool http2_take(struct http2 *http2, struct rpc_intake *intake)
{
	ssize_t taken = 0;

	intake->used = intake->length;
	if (http2->ended)
		return true;
	http2->intake = intake;
	http2->copied = 0;
	if (intake->length)
		taken = nghttp2_session_mem_recv(http2->session, intake->bytes, intake->length);
	http2->intake = NULL;
	if (taken < 0)
		return false;
	intake->begun = http2->arriving > 0;
	intake->held = intake->expected = http2->held;
	intake->since_ms = http2->held ? oldest_ms(http2) : 0;
	http2_write(http2);
	rpc_conn_flush(http2->conn);
	/* nghttp2 answers each stream beyond the limit, also while the caller does not read. */
	return nghttp2_session_get_outbound_queue_size(http2->session) <= UNWRITTEN_MAX;
}

static nghttp2_session *make_session(struct http2 *http2)
{
	const nghttp2_settings_entry settings[] = {
	    {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, STREAMS_MAX},
	    {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, STREAM_WINDOW},
	    {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, HEAD_MAX_BYTES},
	    {NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1},
	};
	nghttp2_session_callbacks *callbacks;
	nghttp2_session *session;
	nghttp2_option *option;

	mem_check(nghttp2_session_callbacks_new(&callbacks) == 0);
	mem_check(nghttp2_option_new(&option) == 0);
	nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin);
	nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_content);
	nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
	nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_closed);
	nghttp2_option_set_stream_reset_rate_limit(option, RESETS_AT_ONCE, RESETS_A_SECOND);
	mem_check(nghttp2_session_server_new2(&session, callbacks, http2, option) == 0);
	nghttp2_session_callbacks_del(callbacks);
	nghttp2_option_del(option);
	mem_check(nghttp2_submit_settings(session, NGHTTP2_FLAG_NONE, settings, sizeof settings / sizeof *settings) == 0);
	mem_check(nghttp2_session_set_local_window_size(session, NGHTTP2_FLAG_NONE, 0, CONNECTION_WINDOW) == 0);
	return session;
}

struct http2 *http2_open(struct rpc_conn *conn, size_t max)
{
	struct http2 *http2 = mem_calloc(1, sizeof *http2);

	http2->conn = conn;
	http2->max = max;
	http2->session = make_session(http2);
	return http2;
}

void http2_close(struct http2 *http2)
{
	struct http2_stream *stream, *next;

	DL_FOREACH_SAFE (http2->streams, stream, next)
		free_stream(stream);
	nghttp2_session_del(http2->session);
	free(http2);
}
