/* What gRPC writes in its own way: timeouts, messages and the status of a call. http_call.c does the rest. */
#include "manager/http/http_internal.h"

#include "common/mem.h"
#include "manager/http/http_v2.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum {
	PREFIX_BYTES = 5, /* before a message: whether it is compressed, and its length */
	TIMEOUT_DIGITS = 8,
	STATUS_BYTES_MAX = 3 << 10, /* of an encoded message; a caller may take no more than 8 KiB of headers */
};

static const char media_type[] = "application/grpc";

bool http_grpc_is(const struct http_message *message)
{
	const char *type = http_field(message, HTTP_CONTENT_TYPE);

	return message->stream && type && !strncasecmp(type, media_type, sizeof media_type - 1) &&
	    strchr("+; \t", type[sizeof media_type - 1]);
}

bool http_grpc_is_stream(const struct http_message *message)
{
	static const char *const paths[] = {HTTP_REFLECTION, HTTP_REFLECTION_ALPHA};

	for (size_t i = 0; http_grpc_is(message) && i < sizeof paths / sizeof *paths; i++)
		if (!strcmp(http_field(message, HTTP_TARGET), paths[i]))
			return true;
	return false;
}

static size_t length_of(const uint8_t *prefix)
{
	return (size_t)prefix[1] << 24 | (size_t)prefix[2] << 16 | (size_t)prefix[3] << 8 | prefix[4];
}

size_t http_grpc_complete(const struct http_message *message, size_t filled)
{
	const uint8_t *content = (const uint8_t *)message + message->content_at;
	size_t length = filled - message->content_at, whole = length < PREFIX_BYTES ? 0 : PREFIX_BYTES + length_of(content);

	return whole <= length ? whole : 0;
}

/* Reads "100m". */
static bool read_timeout(const char *text, uint32_t *ms, struct reeve_error *error)
{
	static const struct {
		char unit;
		double ms;
	} units[] = {{'H', 3600e3}, {'M', 60e3}, {'S', 1e3}, {'m', 1}, {'u', 1e-3}, {'n', 1e-6}};
	size_t digits = text ? strspn(text, "0123456789") : 0;

	if (!text)
		return true;
	for (size_t i = 0; digits && digits <= TIMEOUT_DIGITS && i < sizeof units / sizeof *units; i++) {
		double value = strtod(text, NULL) * units[i].ms;

		if (text[digits] != units[i].unit || text[digits + 1])
			continue;
		*ms = value < 1 ? 1 : value > UINT32_MAX ? UINT32_MAX : (uint32_t)value; /* 0 would be no limit */
		return true;
	}
	return error_set(error, STATUS(INVALID_ARGUMENT),
	    "grpc-timeout must be 1 to 8 digits and a unit, H M S m u n, not \"%.40s\"", text);
}

bool http_grpc_read(const struct http_message *message, uint32_t *form, uint32_t *ms, struct reeve_error *error)
{
	const char *suffix = http_field(message, HTTP_CONTENT_TYPE) + sizeof media_type - 1;
	const char *encoding = http_field(message, HTTP_GRPC_ENCODING);
	size_t length = strcspn(suffix, "; \t");

	if (length == strlen("+json") && !strncasecmp(suffix, "+json", length))
		*form |= FORM_JSON;
	else if (length && (length != strlen("+proto") || strncasecmp(suffix, "+proto", length) != 0))
		return error_set(error, STATUS(UNIMPLEMENTED), "Content-Type \"%.40s\" is not known; application/grpc is",
		    http_field(message, HTTP_CONTENT_TYPE));
	if (encoding && !strcasecmp(encoding, "gzip"))
		*form |= FORM_GZIPPED;
	else if (encoding && strcasecmp(encoding, "identity") != 0)
		return error_set(error, STATUS(UNIMPLEMENTED), "grpc-encoding \"%.40s\" is not known; gzip is", encoding);
	return read_timeout(http_field(message, HTTP_GRPC_TIMEOUT), ms, error);
}

bool http_grpc_unwrap(struct envelope_view *body, uint32_t *form, struct reeve_error *error)
{
	if (body->length < PREFIX_BYTES || body->length - PREFIX_BYTES != length_of(body->bytes) || body->bytes[0] > 1)
		return error_set(error, STATUS(INVALID_ARGUMENT), "the content is not one message of gRPC");
	if (body->bytes[0] && !(*form & FORM_GZIPPED))
		return error_set(error, STATUS(INTERNAL), "the message is compressed, and grpc-encoding does not say how");
	if (!body->bytes[0])
		*form &= ~(uint32_t)FORM_GZIPPED;
	body->bytes += PREFIX_BYTES;
	body->length -= PREFIX_BYTES;
	return true;
}

struct frame *http2_compose(
    const struct http2_answer *parts, const void *head, const void *content, const char *trailers)
{
	struct frame *frame = frame_of_bytes(sizeof *parts + parts->head + parts->content + parts->trailers);
	uint8_t *out = (uint8_t *)(http2_answer_of(frame) + 1);

	*http2_answer_of(frame) = *parts;
	memcpy(out, head, parts->head);
	if (parts->content)
		memcpy(out + parts->head, content, parts->content);
	if (parts->trailers)
		memcpy(out + parts->head + parts->content, trailers, parts->trailers);
	return frame;
}

/* Writes an answer. `content` has its prefix, or is NULL. */
static struct frame *compose(uint32_t form, bool gzipped, const uint8_t *content, size_t length, const char *trailers)
{
	char head[128];
	struct http2_answer parts = {.status = 200};

	parts.head = (uint32_t)snprintf(head, sizeof head, "content-type: application/grpc+%s\r\n%s",
	    form & FORM_JSON ? "json" : "proto", gzipped ? "grpc-encoding: gzip\r\n" : "");
	parts.content = (uint32_t)length;
	parts.trailers = (uint32_t)strlen(trailers);
	parts.more = !parts.trailers;
	return http2_compose(&parts, head, content, trailers);
}

struct frame *http_grpc_respond(uint32_t form, const void *bytes, size_t length, bool more)
{
	/* The encoding stands in the head, which the first of several messages has. */
	bool compress = form & FORM_GZIP && !more && length >= GZIP_MIN_BYTES && length <= GZIP_MAX_BYTES;
	size_t gzipped_length = 0;
	uint8_t *gzipped = compress ? http_gzip(bytes, length, &gzipped_length) : NULL;
	size_t used = gzipped ? gzipped_length : length;
	uint8_t *content = mem_malloc(PREFIX_BYTES + used);
	struct frame *frame;

	content[0] = gzipped != NULL;
	for (int i = 0; i < 4; i++)
		content[1 + i] = (uint8_t)(used >> (24 - 8 * i));
	if (used)
		memcpy(content + PREFIX_BYTES, gzipped ? gzipped : bytes, used);
	frame = compose(form, gzipped != NULL, content, PREFIX_BYTES + used, more ? "" : "grpc-status: 0\r\n");
	free(content);
	free(gzipped);
	return frame;
}

struct frame *http_grpc_end(uint32_t form)
{
	return compose(form, false, NULL, 0, "grpc-status: 0\r\n");
}

struct frame *http_grpc_refuse(uint32_t form, reeve_status code, const char *message)
{
	char trailers[STATUS_BYTES_MAX + 64];
	size_t used = (size_t)snprintf(trailers, sizeof trailers, "grpc-status: %d\r\ngrpc-message: ", (int)code);

	for (const char *c = message; *c && used < STATUS_BYTES_MAX; c++) {
		bool plain = *c >= ' ' && *c <= '~' && *c != '%';

		used += (size_t)snprintf(trailers + used, sizeof trailers - used, plain ? "%c" : "%%%02X", (unsigned char)*c);
	}
	snprintf(trailers + used, sizeof trailers - used, "\r\n");
	return compose(form, false, NULL, 0, trailers);
}
