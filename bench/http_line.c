#include "bench/http_line.h"

#include "bench/report.h"
#include "bench/stream.h"

#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <nghttp2/nghttp2.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PREFIX_BYTES = 5, WINDOW = 1 << 20 };

struct http_line {
	struct bufferevent *stream;
	enum http_line_kind kind;
	http_line_done *done; /* of the open call; NULL: no call is open */
	void *arg;
	/* HTTP/2 */
	nghttp2_session *session;
	struct evbuffer *content; /* to be sent */
	struct evbuffer *answer;  /* received */
	bool good;                /* its status is 0 */
};

static void finish(struct http_line *line, const uint8_t *bytes, size_t length)
{
	http_line_done *done = line->done;

	line->done = NULL;
	done(line->arg, bytes, length);
}

/* Takes an answer by HTTP/1.1, if it is complete. */
static void read_first(struct http_line *line, struct evbuffer *in)
{
	static const char length_name[] = "\r\ncontent-length: ";
	struct evbuffer_ptr end = evbuffer_search(in, "\r\n\r\n", 4, NULL), at;
	char *head, *found;
	size_t length, head_length;

	if (end.pos < 0)
		return;
	at = evbuffer_search_range(in, length_name, strlen(length_name), NULL, &end);
	head_length = (size_t)end.pos + 4;
	head = (char *)evbuffer_pullup(in, (ssize_t)head_length);
	found = at.pos < 0 ? NULL : head + at.pos + strlen(length_name);
	if (!found || strncmp(head, "HTTP/1.1 200 ", 13) != 0)
		give_up("an answer: %.*s", (int)head_length, head);
	length = strtoul(found, NULL, 10);
	if (evbuffer_get_length(in) < head_length + length)
		return;
	head = (char *)evbuffer_pullup(in, (ssize_t)(head_length + length));
	finish(line, (const uint8_t *)head + head_length, length);
	evbuffer_drain(in, head_length + length);
}

static void send_second(struct http_line *line)
{
	const uint8_t *bytes;
	ssize_t length;

	while ((length = nghttp2_session_mem_send(line->session, &bytes)) > 0)
		bufferevent_write(line->stream, bytes, (size_t)length);
}

static void read_second(struct http_line *line, struct evbuffer *in)
{
	size_t length = evbuffer_get_length(in);

	if (nghttp2_session_mem_recv(line->session, evbuffer_pullup(in, -1), length) != (ssize_t)length)
		give_up("bytes that are no HTTP/2");
	evbuffer_drain(in, length);
	send_second(line);
}

static void on_read(struct bufferevent *stream, void *arg)
{
	struct http_line *line = arg;
	struct evbuffer *in = bufferevent_get_input(stream);

	if (line->kind == HTTP_LINE_GRPC)
		read_second(line, in);
	else
		read_first(line, in);
}

static void on_event(struct bufferevent *stream, short what, void *arg)
{
	(void)stream, (void)arg;
	if (what & (BEV_EVENT_EOF | BEV_EVENT_ERROR))
		give_up("a connection has ended: %s", what & BEV_EVENT_ERROR ? strerror(EVUTIL_SOCKET_ERROR()) : "closed");
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_length,
    const uint8_t *value, size_t length, uint8_t flags, void *arg)
{
	struct http_line *line = arg;

	(void)session, (void)frame, (void)name_length, (void)flags;
	if (!strcmp((const char *)name, "grpc-status"))
		line->good = length == 1 && *value == '0';
	if (!strcmp((const char *)name, "grpc-message"))
		fprintf(stderr, "bench: %s\n", (const char *)value);
	return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *bytes, size_t length, void *arg)
{
	struct http_line *line = arg;

	(void)session, (void)flags, (void)id;
	evbuffer_add(line->answer, bytes, length);
	return 0;
}

static int on_close(nghttp2_session *session, int32_t id, uint32_t code, void *arg)
{
	struct http_line *line = arg;
	size_t length = evbuffer_get_length(line->answer);

	(void)session, (void)id;
	if (code || !line->good || length < PREFIX_BYTES)
		give_up("a call by gRPC has failed: %u", code);
	finish(line, evbuffer_pullup(line->answer, -1) + PREFIX_BYTES, length - PREFIX_BYTES);
	evbuffer_drain(line->answer, length);
	return 0;
}

static void open_second(struct http_line *line)
{
	const nghttp2_settings_entry window = {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, WINDOW};
	nghttp2_session_callbacks *callbacks;

	nghttp2_session_callbacks_new(&callbacks);
	nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
	nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
	nghttp2_session_client_new(&line->session, callbacks, line);
	nghttp2_session_callbacks_del(callbacks);
	nghttp2_submit_settings(line->session, NGHTTP2_FLAG_NONE, &window, 1);
	nghttp2_session_set_local_window_size(line->session, NGHTTP2_FLAG_NONE, 0, WINDOW);
	line->content = evbuffer_new();
	line->answer = evbuffer_new();
	send_second(line);
}

struct http_line *http_line_connect(struct event_base *base, const char *url, enum http_line_kind kind)
{
	struct http_line *line = calloc(1, sizeof *line);

	line->kind = kind;
	line->stream = stream_connect(base, url, "http://", "tls+http://", kind == HTTP_LINE_GRPC ? "h2" : "http/1.1");
	bufferevent_setcb(line->stream, on_read, NULL, on_event, line);
	bufferevent_enable(line->stream, EV_READ | EV_WRITE);
	if (kind == HTTP_LINE_GRPC)
		open_second(line);
	return line;
}

static ssize_t read_content(nghttp2_session *session, int32_t id, uint8_t *out, size_t length, uint32_t *flags,
    nghttp2_data_source *source, void *arg)
{
	int taken = evbuffer_remove(source->ptr, out, length);

	(void)session, (void)id, (void)arg;
	if (!evbuffer_get_length(source->ptr))
		*flags |= NGHTTP2_DATA_FLAG_EOF;
	return taken;
}

static void call_second(struct http_line *line, const char *method, const void *bytes, size_t length)
{
	const char *lines[][2] = {{":method", "POST"}, {":scheme", "http"}, {":path", method}, {":authority", "localhost"},
	    {"content-type", "application/grpc"}, {"te", "trailers"}};
	enum { LINES = sizeof lines / sizeof *lines };
	const uint8_t prefix[PREFIX_BYTES] = {
	    0, (uint8_t)(length >> 24), (uint8_t)(length >> 16), (uint8_t)(length >> 8), (uint8_t)length};
	const nghttp2_data_provider content = {.source = {.ptr = line->content}, .read_callback = read_content};
	nghttp2_nv head[LINES];

	for (size_t i = 0; i < LINES; i++)
		head[i] = (nghttp2_nv){(uint8_t *)lines[i][0], (uint8_t *)lines[i][1], strlen(lines[i][0]), strlen(lines[i][1]),
		    NGHTTP2_NV_FLAG_NONE};
	evbuffer_add(line->content, prefix, sizeof prefix);
	evbuffer_add(line->content, bytes, length);
	line->good = false;
	if (nghttp2_submit_request(line->session, NULL, head, LINES, &content, NULL) < 0)
		give_up("no stream");
	send_second(line);
}

void http_line_call(
    struct http_line *line, const char *method, const void *bytes, size_t length, http_line_done *done, void *arg)
{
	line->done = done;
	line->arg = arg;
	if (line->kind == HTTP_LINE_GRPC) {
		call_second(line, method, bytes, length);
		return;
	}
	evbuffer_add_printf(bufferevent_get_output(line->stream),
	    "POST %s HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/%s\r\ncontent-length: %zu\r\n\r\n", method,
	    line->kind == HTTP_LINE_JSON ? "json" : "proto", length);
	bufferevent_write(line->stream, bytes, length);
}

void http_line_close(struct http_line *line)
{
	bufferevent_free(line->stream);
	if (line->session) {
		nghttp2_session_del(line->session);
		evbuffer_free(line->content);
		evbuffer_free(line->answer);
	}
	free(line);
}
