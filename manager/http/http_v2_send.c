/* Sends answers on an HTTP/2 connection, a part at a time: what the caller does not take stays in its frame. */
#include "manager/http/http_v2.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

enum {
	QUEUED_MAX = 128 << 10, /* of a connection; more is written when these bytes are sent */
	LINES_MAX = 24,         /* headers of an answer */
};

static uint8_t *head_of(struct http2_answer *answer)
{
	return (uint8_t *)(answer + 1);
}

static uint8_t *content_of(struct http2_answer *answer)
{
	return head_of(answer) + answer->head;
}

static uint8_t *trailers_of(struct http2_answer *answer)
{
	return content_of(answer) + answer->content;
}

/* Reads lines "name: value\r\n". Returns their number. */
static size_t read_lines(uint8_t *text, size_t length, nghttp2_nv *lines)
{
	size_t count = 0;

	while (length > 0 && count < LINES_MAX - 1) {
		uint8_t *colon = memchr(text, ':', length), *end = memchr(text, '\r', length);

		lines[count++] =
		    (nghttp2_nv){text, colon + 2, (size_t)(colon - text), (size_t)(end - colon - 2), NGHTTP2_NV_FLAG_NONE};
		length -= (size_t)(end + 2 - text);
		text = end + 2;
	}
	return count;
}

/* Removes the first answer of a stream. */
static void drop_first(struct http2_stream *stream)
{
	struct frame *frame = stream->answers;

	rpc_conn_hold(stream->http2->conn, -(http2_answer_of(frame)->content - stream->offset));
	stream->answers = frame->next;
	if (!stream->answers)
		stream->answers_end = &stream->answers;
	stream->offset = 0;
	free(frame);
}

void http2_drop_answers(struct http2_stream *stream)
{
	while (stream->answers)
		drop_first(stream);
}

/* Ends a stream's content, or goes on to the next message. */
static void end_answer(struct http2_stream *stream, uint32_t *flags)
{
	struct http2_answer *answer = http2_answer_of(stream->answers);
	nghttp2_nv lines[LINES_MAX];

	if (!answer->more) {
		*flags |= NGHTTP2_DATA_FLAG_EOF;
		if (answer->trailers) {
			*flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
			nghttp2_submit_trailer(
			    stream->http2->session, stream->id, lines, read_lines(trailers_of(answer), answer->trailers, lines));
		}
	}
	drop_first(stream);
}

/* Gives nghttp2 the next bytes of a stream's content. */
static ssize_t read_content(nghttp2_session *session, int32_t id, uint8_t *out, size_t length, uint32_t *flags,
    nghttp2_data_source *source, void *arg)
{
	struct http2_stream *stream = source->ptr;
	struct http2_answer *answer;
	size_t rest;

	(void)session, (void)id, (void)arg;
	if (!stream->answers) {
		stream->waiting = true;
		return NGHTTP2_ERR_DEFERRED;
	}
	answer = http2_answer_of(stream->answers);
	rest = answer->content - stream->offset;
	length = length < rest ? length : rest;
	if (length)
		memcpy(out, content_of(answer) + stream->offset, length);
	stream->offset += length;
	rpc_conn_hold(stream->http2->conn, -length);
	if (length == rest)
		end_answer(stream, flags);
	return (ssize_t)length;
}

/* Begins to answer. */
static void start(struct http2_stream *stream, struct http2_answer *answer)
{
	nghttp2_data_provider content = {.source = {.ptr = stream}, .read_callback = read_content};
	bool has_content = answer->content || answer->trailers || answer->more;
	nghttp2_nv lines[LINES_MAX];
	char status[16];

	snprintf(status, sizeof status, "%u", answer->status);
	lines[0] = (nghttp2_nv){(uint8_t *)":status", (uint8_t *)status, 7, strlen(status), NGHTTP2_NV_FLAG_NONE};
	stream->started = true;
	nghttp2_submit_response(stream->http2->session, stream->id, lines,
	    1 + read_lines(head_of(answer), answer->head, lines + 1), has_content ? &content : NULL);
	if (!has_content)
		drop_first(stream);
}

void http2_send(struct http2 *http2, struct frame *frame)
{
	struct http2_answer *answer = http2_answer_of(frame);
	struct http2_stream *stream = nghttp2_session_get_stream_user_data(http2->session, (int32_t)answer->stream);

	if (!stream || stream->answered) {
		free(frame);
		return;
	}
	frame->next = NULL;
	*stream->answers_end = frame;
	stream->answers_end = &frame->next;
	stream->answered = !answer->more;
	stream->watched = answer->watched;
	rpc_conn_hold(http2->conn, answer->content);
	if (!stream->started)
		start(stream, answer);
	else if (stream->waiting)
		nghttp2_session_resume_data(http2->session, stream->id);
	stream->waiting = false;
	http2_write(http2);
}

/* Returns a stream to which the health or, if the server is stopping, the end must be sent. Sending can end any stream.
 */
static struct http2_stream *untended(const struct http2 *http2, enum http_health health, bool stopping)
{
	struct http2_stream *stream;

	DL_FOREACH (http2->streams, stream) {
		if (!stream->started || stream->answered)
			continue;
		if (stopping || (stream->watched && stream->watched != HTTP_SERVICE_UNKNOWN && stream->watched != health))
			return stream;
	}
	return NULL;
}

void http2_maintain(struct http2 *http2, enum http_health health, bool stopping)
{
	const uint32_t form = FORM_GRPC | FORM_HTTP2;
	struct http2_stream *stream;

	while ((stream = untended(http2, health, stopping))) {
		struct frame *answer = stopping ? http_grpc_refuse(form, STATUS(UNAVAILABLE), "the manager stops")
		                                : http_health_answer(form, health, true);

		http2_answer_of(answer)->stream = (uint32_t)stream->id;
		http2_send(http2, answer);
	}
	if (stopping) {
		nghttp2_submit_goaway(http2->session, NGHTTP2_FLAG_NONE,
		    nghttp2_session_get_last_proc_stream_id(http2->session), NGHTTP2_NO_ERROR, NULL, 0);
		http2_write(http2);
	}
	rpc_conn_flush(http2->conn);
}

void http2_write(struct http2 *http2)
{
	const uint8_t *bytes = NULL;
	ssize_t length = 0;

	if (http2->writing || http2->intake || http2->ended)
		return;
	http2->writing = true;
	while (rpc_conn_queue_bytes(http2->conn, bytes, (size_t)length) < QUEUED_MAX) {
		length = nghttp2_session_mem_send(http2->session, &bytes);
		if (length <= 0)
			break;
	}
	http2->writing = false;
	if (nghttp2_session_want_read(http2->session) || nghttp2_session_want_write(http2->session))
		return;
	http2->ended = true;
	rpc_conn_finish(http2->conn);
}

void http2_sent(struct http2 *http2)
{
	http2_write(http2);
	rpc_conn_flush(http2->conn);
}
