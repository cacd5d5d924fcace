/* Writes answers. */
#include "manager/http/http_internal.h"

#include "common/json_names.h"
#include "manager/http/http_v2.h"

#include <http_parser.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
	HEAD_BYTES = 2048, /* an origin has up to ORIGIN_MAX_BYTES of them */
};

static const char *reason_of(int status)
{
	switch (status) {
#define XX(number, name, text)                                                                                         \
	case number: return #text;
		HTTP_STATUS_MAP(XX)
#undef XX
	default: return "Client Closed Request"; /* 499, of Connect */
	}
}

/* Writes the time. */
static const char *date(char text[40])
{
	time_t now = time(NULL);
	struct tm tm;

	gmtime_r(&now, &tm);
	strftime(text, 40, "%a, %d %b %Y %H:%M:%S GMT", &tm);
	return text;
}

/* Writes the headers that let a web page read the answer. */
static int write_origin(const struct http_api *api, uint32_t form, char *out, size_t size)
{
	unsigned number = form >> FORM_ORIGIN_BIT;

	if (!number)
		return snprintf(out, size, "%s", api->origin[0] || api->any_origin ? "vary: origin\r\n" : "");
	return snprintf(out, size, "access-control-allow-origin: %s\r\nvary: origin\r\n",
	    api->any_origin ? "*" : api->origin[number - 1]);
}

static struct frame *write_frame(const struct http_api *api, const struct http_reply *reply, const char *encoding)
{
	bool has_content = reply->status != HTTP_STATUS_NO_CONTENT, second = reply->form & FORM_HTTP2;
	char head[HEAD_BYTES], time_text[40];
	struct frame *frame;
	int used = 0;
	size_t content = reply->form & FORM_HEAD ? 0 : reply->length;

	if (!second)
		used = snprintf(head, sizeof head, "HTTP/1.1 %d %s\r\n", reply->status, reason_of(reply->status));
	used += snprintf(head + used, sizeof head - (size_t)used, "date: %s\r\n", date(time_text));
	if (reply->type)
		used += snprintf(head + used, sizeof head - (size_t)used,
		    "content-type: %s\r\nx-content-type-options: nosniff\r\ncache-control: %s\r\n", reply->type,
		    reply->cache ? reply->cache : "no-store");
	if (has_content)
		used += snprintf(head + used, sizeof head - (size_t)used, "content-length: %zu\r\n", reply->length);
	used += snprintf(head + used, sizeof head - (size_t)used, "%s%s%s", encoding,
	    reply->form & FORM_CLOSE && !second ? "connection: close\r\n" : "", reply->headers ? reply->headers : "");
	used += write_origin(api, reply->form, head + used, sizeof head - (size_t)used);
	if (second)
		return http2_compose(
		    &(struct http2_answer){
		        .status = (uint32_t)reply->status, .head = (uint32_t)used, .content = (uint32_t)content},
		    head, reply->content, NULL);
	used += snprintf(head + used, sizeof head - (size_t)used, "\r\n");
	frame = frame_of_bytes((size_t)used + content);
	memcpy(frame->wire, head, (size_t)used);
	if (content)
		memcpy(frame->wire + used, reply->content, content);
	return frame;
}

struct frame *http_reply(const struct http_api *api, const struct http_reply *reply)
{
	bool compress = !reply->gzipped && reply->form & FORM_GZIP && reply->length >= GZIP_MIN_BYTES &&
	    reply->length <= GZIP_MAX_BYTES;
	struct http_reply compressed = *reply;
	uint8_t *bytes = compress ? http_gzip(reply->content, reply->length, &compressed.length) : NULL;
	struct frame *frame;

	if (!bytes)
		return write_frame(api, reply, reply->gzipped ? "content-encoding: gzip\r\n" : "");
	compressed.content = bytes;
	frame = write_frame(api, &compressed, "content-encoding: gzip\r\n");
	free(bytes);
	return frame;
}

const char *http_code_name(reeve_status code, char name[JSON_NAME_BYTES])
{
	if (code == STATUS(CANCELLED) || !json_enum_word(&reeve__v1__status_code__descriptor, (int)code, name))
		return code == STATUS(CANCELLED) ? "canceled" : "unknown";
	return name;
}

struct frame *http_problem(
    const struct http_api *api, uint32_t form, int status, reeve_status code, const char *headers, const char *message)
{
	char name[JSON_NAME_BYTES], *text;
	struct frame *frame;
	json_t *object;

	if (form & FORM_GRPC)
		return http_grpc_refuse(form, code, message);
	object = json_pack("{ss ss}", "code", http_code_name(code, name), "message", message);
	text = json_dumps(object, JSON_COMPACT);
	frame = http_reply(api,
	    &(struct http_reply){
	        .status = status,
	        .form = form,
	        .type = "application/json",
	        .headers = headers,
	        .content = text,
	        .length = strlen(text),
	    });
	json_decref(object);
	free(text);
	return frame;
}
