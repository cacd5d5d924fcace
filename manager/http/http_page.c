/*
 * Messages that are no calls: health checks, the contract's files, preflight requests of browsers, and invalid ones.
 *
 * Callers on this machine may need no token, and any page that a browser on this machine shows can send requests. So
 * the origin of a page must be the manager's own or a listed one. And the host of a request without a token must be an
 * address or localhost: a page whose host name resolves to this machine sends that name.
 */
#include "manager/http/http_internal.h"

#include "common/mem.h"
#include "manager/http/http_v2.h"

#include <http_parser.h>
#include <reeve/v1/files.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const char service_prefix[] = "/reeve.v1.";

/* What the answer of http_serve depends on. */
struct page {
	const struct http_api *api;
	const struct http_message *message;
	uint32_t form;
	const char *path; /* with the query */
	size_t length;    /* of the path, without it */
};

static struct frame *refuse(
    const struct page *page, int status, reeve_status code, const char *headers, const char *text)
{
	return http_problem(page->api, page->form, status, code, headers, text);
}

static struct frame *show(const struct page *page, const char *type, const char *text)
{
	const struct http_reply reply = {
	    .status = HTTP_STATUS_OK, .form = page->form, .type = type, .content = text, .length = strlen(text)};

	return http_reply(page->api, &reply);
}

static bool is_path(const struct page *page, const char *path)
{
	return strlen(path) == page->length && !strncmp(page->path, path, page->length);
}

static bool has_prefix(const struct page *page, const char *prefix)
{
	return !strncmp(page->path, prefix, strlen(prefix));
}

/* Answers a message that the parser has given up. */
static struct frame *answer_problem(const struct page *page)
{
	int status = (int)page->message->problem;

	switch (status) {
	case HTTP_STATUS_PAYLOAD_TOO_LARGE:
		return refuse(page, status, STATUS(RESOURCE_EXHAUSTED), NULL, "the content is longer than --max-message");
	case HTTP_STATUS_REQUEST_HEADER_FIELDS_TOO_LARGE:
		return refuse(page, status, STATUS(RESOURCE_EXHAUSTED), NULL, "the headers are longer than 16 KiB");
	case HTTP_STATUS_HTTP_VERSION_NOT_SUPPORTED:
		return refuse(page, status, STATUS(UNIMPLEMENTED), NULL, "only HTTP/1.0 and HTTP/1.1 are known");
	case HTTP_STATUS_EXPECTATION_FAILED:
		return refuse(page, status, STATUS(INVALID_ARGUMENT), NULL, "only \"Expect: 100-continue\" is known");
	default:
		return refuse(page, status, STATUS(INVALID_ARGUMENT), NULL,
		    "the request is not well-formed HTTP, has no Host, or has a header twice");
	}
}

/* Returns whether the host is an address or localhost. */
static bool is_own_host(const char *host)
{
	size_t length;

	if (!host || *host == '[')
		return true;
	length = strcspn(host, ":");
	return strspn(host, "0123456789.") == length || (length == 9 && !strncasecmp(host, "localhost", 9));
}

/* Answers a browser's question whether a page may call. */
static struct frame *answer_preflight(const struct page *page)
{
	static const char headers[] =
	    "access-control-allow-methods: GET, POST\r\n"
	    "access-control-allow-headers: authorization, cache-control, connect-protocol-version, connect-timeout-ms, "
	    "content-encoding, content-type, idempotency-key, reeve-actor, traceparent\r\n"
	    "access-control-max-age: 7200\r\n";
	const struct http_reply reply = {.status = HTTP_STATUS_NO_CONTENT, .form = page->form, .headers = headers};

	return http_reply(page->api, &reply);
}

static struct frame *answer_ready(const struct page *page)
{
	const char *problem = page->api->options.problem(page->api->options.arg);

	if (!problem)
		return show(page, "text/plain", "ready\n");
	return refuse(page, HTTP_STATUS_SERVICE_UNAVAILABLE, STATUS(UNAVAILABLE), NULL, problem);
}

/* Shows a file of the contract, or the list of them. */
static struct frame *answer_proto(const struct page *page)
{
	size_t count = sizeof proto_files / sizeof *proto_files;
	const char *name = page->path + strlen("/proto/");
	size_t length = page->length - strlen("/proto/");
	struct frame *frame;
	char *list = NULL;
	FILE *out;

	for (size_t i = 0; i < count; i++)
		if (strlen(proto_files[i].name) == length && !strncmp(proto_files[i].name, name, length))
			return show(page, "text/plain; charset=utf-8", proto_files[i].text);
	if (length > 0)
		return refuse(page, HTTP_STATUS_NOT_FOUND, STATUS(NOT_FOUND), NULL, "no such file; /proto/ lists all");
	out = mem_stream(&list, &length);
	for (size_t i = 0; i < count; i++)
		fprintf(out, "/proto/%s\n", proto_files[i].name);
	fclose(out);
	frame = show(page, "text/plain; charset=utf-8", list);
	free(list);
	return frame;
}

static bool is_listed(const char *const *list, size_t count, const char *path, size_t length)
{
	for (size_t i = 0; i < count; i++)
		if (strlen(list[i]) == length && !strncmp(path, list[i], length))
			return true;
	return false;
}

bool http_is_read(const char *path, size_t length)
{
	return is_listed(proto_reads, sizeof proto_reads / sizeof *proto_reads, path, length);
}

bool http_is_repeatable(const char *path, size_t length)
{
	return is_listed(proto_repeats, sizeof proto_repeats / sizeof *proto_repeats, path, length);
}

static bool is_read(const struct page *page)
{
	return http_is_read(page->path, page->length);
}

/* Returns whether a page of another site sends this without an Origin, as browsers do for images, links and scripts. */
static bool is_of_other_site(const struct http_message *message)
{
	const char *site = http_field(message, HTTP_FETCH_SITE);

	return site && !http_field(message, HTTP_ORIGIN) && strcmp(site, "same-origin") != 0 && strcmp(site, "none") != 0;
}

/* Returns NULL for a call, or why it is none. */
static struct frame *answer_no_call(const struct page *page)
{
	enum http_method method = (enum http_method)page->message->method;

	if (method == HTTP_GET && is_read(page))
		return NULL;
	if (method != HTTP_POST)
		return refuse(page, HTTP_STATUS_METHOD_NOT_ALLOWED, STATUS(UNIMPLEMENTED),
		    is_read(page) ? "allow: GET, POST\r\n" : "allow: POST\r\n",
		    "calls are made by POST; only methods that change nothing also by GET");
	if (!(page->form & FORM_GRPC) && !http_is_call_type(http_field(page->message, HTTP_CONTENT_TYPE)))
		return refuse(page, HTTP_STATUS_UNSUPPORTED_MEDIA_TYPE, STATUS(INVALID_ARGUMENT),
		    "accept-post: application/json, application/proto\r\n",
		    "Content-Type must be application/json or application/proto; with HTTP/2, application/grpc, too");
	return NULL;
}

static struct frame *answer_page(const struct page *page)
{
	struct frame *file;

	if (page->message->method != HTTP_GET && page->message->method != HTTP_HEAD)
		return refuse(page, HTTP_STATUS_METHOD_NOT_ALLOWED, STATUS(UNIMPLEMENTED), "allow: GET, HEAD\r\n",
		    "pages are read by GET");
	if (is_path(page, "/healthz"))
		return show(page, "text/plain", "alive\n");
	if (is_path(page, "/readyz"))
		return answer_ready(page);
	if (has_prefix(page, "/proto/"))
		return answer_proto(page);
	file = http_serve_web(page->api, page->form, page->path, page->length);
	if (file)
		return file;
	return refuse(page, HTTP_STATUS_NOT_FOUND, STATUS(NOT_FOUND), NULL,
	    "there are /, /healthz, /readyz, /metrics, /proto/ and calls: /reeve.v1.SERVICE/METHOD");
}

/* Answers a message that is no call of the contract. */
static struct frame *serve(struct page *page)
{
	const struct http_message *message = page->message;
	bool is_call;

	if (message->problem)
		return answer_problem(page);
	page->path = http_path(message);
	page->length = strcspn(page->path, "?#");
	is_call = has_prefix(page, service_prefix) || (http_is_metrics(message) && !page->api->options.metrics_open);
	if (!http_field(message, HTTP_AUTHORIZATION) && is_call && !is_own_host(http_field(message, HTTP_HOST)))
		return refuse(page, HTTP_STATUS_MISDIRECTED_REQUEST, STATUS(PERMISSION_DENIED), NULL,
		    "a call without an access token must be to an address or to localhost");
	if (!http_origin_allowed(page->api, message) || (is_call && is_of_other_site(message)))
		return refuse(page, HTTP_STATUS_FORBIDDEN, STATUS(PERMISSION_DENIED), NULL,
		    "the web page's origin is not listed (--http-origins)");
	if (message->method == HTTP_OPTIONS && http_field(message, HTTP_ASKED_METHOD))
		return answer_preflight(page);
	if (has_prefix(page, service_prefix))
		return answer_no_call(page);
	if (http_is_metrics(message) && (message->method == HTTP_GET || message->method == HTTP_HEAD))
		return NULL;
	return page->form & FORM_GRPC ? http_serve_standard(page->api, message, page->form) : answer_page(page);
}

struct frame *http_serve(void *arg, struct frame *frame)
{
	const struct http_message *message = http_message_of(frame);
	struct page page = {.api = arg, .message = message, .form = http_form_of(arg, message)};
	struct frame *answer = serve(&page);

	if (answer && message->stream)
		http2_answer_of(answer)->stream = message->stream;
	return answer;
}
