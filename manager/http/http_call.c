/*
 * Calls by the Connect protocol: reads them out of messages and writes their answers. A JSON body is converted to
 * protobuf's bytes, so that the server checks and unpacks it as any other.
 */
#include "manager/http/http_internal.h"

#include "common/check_task.h"
#include "common/json.h"
#include "common/json_names.h"
#include "common/mem.h"
#include "manager/http/http_v2.h"

#include <http_parser.h>
#include <reeve/v1/admin.pb-c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum {
	KEY_MAX_BYTES = 255,
	AGE_MAX_MS = 1000000,
	JSON_MEMORY_MESSAGES = 4,   /* maximum memory of parsed JSON: this many longest messages */
	JSON_MEMORY_MIN = 16 << 20, /* plus this many bytes */
};

static struct envelope_view view_of(const char *text, size_t length)
{
	return (struct envelope_view){(const uint8_t *)text, length};
}

/* Returns whether a media type is `name`, whatever its parameters. */
static bool is_type(const char *type, const char *name)
{
	size_t length = strlen(name);

	return type && !strncasecmp(type, name, length) && strchr("; \t", type[length]);
}

/* Returns whether the caller takes gzip. */
static bool takes_gzip(const char *encodings)
{
	const char *found = encodings ? strcasestr(encodings, "gzip") : NULL;

	if (!found)
		return false;
	found += strlen("gzip");
	found += strspn(found, " \t");
	return *found != ';' || !strcasestr(found, "q=0") || strpbrk(strcasestr(found, "q=0") + 3, "123456789");
}

/* Returns whether an origin is the manager's own, of the dashboard. Which of http and https it has is not known here: a
 * proxy may have changed it. */
static bool is_own_origin(const char *origin, const char *host)
{
	const char *named = strstr(origin, "://");

	return named && host && !strcasecmp(named + 3, host);
}

bool http_origin_allowed(const struct http_api *api, const struct http_message *message)
{
	const char *origin = http_field(message, HTTP_ORIGIN);

	return !origin || is_own_origin(origin, http_field(message, HTTP_HOST)) ||
	    http_form_of(api, message) >> FORM_ORIGIN_BIT;
}

uint32_t http_form_of(const struct http_api *api, const struct http_message *message)
{
	const char *origin = http_field(message, HTTP_ORIGIN);
	uint32_t form = message->close ? FORM_CLOSE : 0;

	if (message->stream)
		form |= FORM_HTTP2;
	if (http_grpc_is(message))
		form |= FORM_GRPC;
	if (takes_gzip(http_field(message, form & FORM_GRPC ? HTTP_GRPC_ACCEPT_ENCODING : HTTP_ACCEPT_ENCODING)))
		form |= FORM_GZIP;
	if (message->method == HTTP_HEAD)
		form |= FORM_HEAD;
	if (origin && api->any_origin)
		form |= UINT32_C(1) << FORM_ORIGIN_BIT;
	for (uint32_t i = 0; origin && !api->any_origin && api->origin[i]; i++)
		if (!strcmp(api->origin[i], origin))
			form |= (i + 1) << FORM_ORIGIN_BIT;
	return form;
}

const char *http_path(const struct http_message *message)
{
	const char *target = http_field(message, HTTP_TARGET), *host = strstr(target, "://"), *path;

	if (*target == '/' || !host)
		return target;
	path = strchr(host + 3, '/');
	return path ? path : "/";
}

/* Reads Connect-Timeout-Ms. */
static bool read_timeout(const char *text, uint32_t *ms, struct reeve_error *error)
{
	unsigned long long value;

	if (!text)
		return true;
	if (strlen(text) > 10 || strspn(text, "0123456789") != strlen(text) || !*text)
		return error_set(
		    error, STATUS(INVALID_ARGUMENT), "Connect-Timeout-Ms must be 1 to 10 digits, not \"%.40s\"", text);
	value = strtoull(text, NULL, 10);
	*ms = value == 0 ? 1 : value > UINT32_MAX ? UINT32_MAX : (uint32_t)value; /* 0 would be no limit */
	return true;
}

/* Reads the bearer token. */
static bool read_token(const char *text, struct envelope_view *token, struct reeve_error *error)
{
	static const char scheme[] = "Bearer ";
	size_t length = sizeof scheme - 1;

	if (!text)
		return true;
	if (strncasecmp(text, scheme, length) != 0)
		return error_set(error, STATUS(UNAUTHENTICATED), "Authorization is not \"Bearer\" with an access token");
	text += length + strspn(text + length, " ");
	if (!*text) /* it would be a call without a token, whose host has not been checked */
		return error_set(error, STATUS(UNAUTHENTICATED), "Authorization has no access token");
	*token = view_of(text, strlen(text));
	return true;
}

/* Sets a new request id, and the key if the method takes one. The server copies the id before the next call is
 * read. */
static bool read_key(
    const struct http_api *api, const char *key, bool keyed, struct rpc_message *message, struct reeve_error *error)
{
	static uint8_t uuid[UUID_BYTES];

	if (key && strlen(key) > KEY_MAX_BYTES)
		return error_set(error, STATUS(INVALID_ARGUMENT), "Idempotency-Key is longer than %d bytes", KEY_MAX_BYTES);
	if (key && !*key)
		return error_set(error, STATUS(INVALID_ARGUMENT), "Idempotency-Key is empty");
	message->envelope.request_id = uuid;
	uuid7_make(api->options.now_us(api->options.arg) / 1000, uuid);
	if (key && keyed)
		message->key = view_of(key, strlen(key));
	return true;
}

/* Returns how old the answer to a read may be: `max-age` of Cache-Control, unless that also demands a new one. */
static uint32_t max_age_ms(const char *control)
{
	const char *age = control ? strcasestr(control, "max-age=") : NULL;

	if (!age || strcasestr(control, "no-cache") || strcasestr(control, "no-store"))
		return 0;
	age += strlen("max-age=");
	return strspn(age, "0123456789") > 5 ? AGE_MAX_MS : (uint32_t)strtoul(age, NULL, 10) * 1000;
}

/* Reads the parameters of a GET. */
static bool read_query(const char *query, uint32_t *form, struct reeve_error *error)
{
	static const struct {
		const char *name, *value;
		uint32_t form;
	} known[] = {
	    {"encoding", "json", FORM_JSON},
	    {"encoding", "proto", 0},
	    {"base64", "1", FORM_BASE64},
	    {"base64", "0", 0},
	    {"compression", "gzip", FORM_GZIPPED},
	    {"compression", "identity", 0},
	    {"connect", "v1", 0},
	};
	size_t count = sizeof known / sizeof *known, length;
	bool encoded = false;

	*form |= FORM_QUERY;
	for (size_t i = 0; i < count;) {
		const char *name = known[i].name;
		char *value = http_query_value(query, name, &length);
		bool good = !value;

		for (; i < count && !strcmp(known[i].name, name); i++) {
			if (!value || strcmp(value, known[i].value) != 0)
				continue;
			good = true;
			*form |= known[i].form;
		}
		encoded |= value && !strcmp(name, "encoding");
		free(value);
		if (!good)
			return error_set(error, STATUS(INVALID_ARGUMENT), "the query's \"%s\" has an unknown value", name);
	}
	return encoded || error_set(error, STATUS(INVALID_ARGUMENT), "the query needs \"encoding\": json or proto");
}

/* Reads the headers that describe the content of a POST. */
static bool read_content(const struct http_message *message, uint32_t *form, struct reeve_error *error)
{
	const char *encoding = http_field(message, HTTP_CONTENT_ENCODING);

	if (is_type(http_field(message, HTTP_CONTENT_TYPE), "application/json"))
		*form |= FORM_JSON;
	if (encoding && !strcasecmp(encoding, "gzip"))
		*form |= FORM_GZIPPED;
	else if (encoding && strcasecmp(encoding, "identity") != 0)
		return error_set(error, STATUS(UNIMPLEMENTED), "Content-Encoding \"%.40s\" is not known; gzip is", encoding);
	return true;
}

bool http_is_call_type(const char *type)
{
	return is_type(type, "application/json") || is_type(type, "application/proto");
}

bool http_is_metrics(const struct http_message *message)
{
	static const char path[] = "/metrics";
	const char *target = http_path(message);

	return !http_grpc_is(message) && strcspn(target, "?#") == sizeof path - 1 &&
	    !strncmp(target, path, sizeof path - 1);
}

/* Makes a request for the page /metrics a call. */
static void read_metrics(const struct http_message *message, struct rpc_message *out)
{
	static const char method[] = "/reeve.v1.AdminService/Scrape", open_metrics[] = "\x08\x01";
	const char *accept = http_field(message, HTTP_ACCEPT);
	bool open = accept && strcasestr(accept, "application/openmetrics-text");

	out->form |= FORM_METRICS;
	out->envelope.method = view_of(method, sizeof method - 1);
	out->envelope.body = view_of(open_metrics, open ? sizeof open_metrics - 1 : 0);
}

bool http_read(void *arg, struct frame *frame, struct rpc_message *out, struct reeve_error *error)
{
	const struct http_api *api = arg;
	const struct http_message *message = http_message_of(frame);
	struct envelope_request *envelope = &out->envelope;
	const char *target = http_path(message), *query = strchr(target, '?');
	const char *protocol = http_field(message, HTTP_PROTOCOL), *actor = http_field(message, HTTP_ACTOR);
	const char *traceparent = http_field(message, HTTP_TRACEPARENT);
	bool reads, keyed;
	size_t path = query ? (size_t)(query - target) : strcspn(target, "#");

	query = query ? query + 1 : "";
	if (traceparent && !task_traceparent_problem(traceparent)) /* an invalid one is ignored, as W3C demands */
		out->traceparent = traceparent;
	out->form = http_form_of(api, message);
	*envelope = (struct envelope_request){.contract = REEVE__V1__CONTRACT__CONTRACT_CURRENT};
	envelope->method = view_of(target, path);
	envelope->token = view_of("", 0);
	envelope->actor = view_of(actor ? actor : "", actor ? strlen(actor) : 0);
	if (message->method == HTTP_POST)
		envelope->body = view_of((const char *)message + message->content_at, message->content_length);
	else
		envelope->body = view_of(query, strlen(query));
	out->id = message->stream;
	/* First the form: also an error has it. */
	if (http_is_metrics(message))
		read_metrics(message, out);
	else if (!(out->form & FORM_GRPC                ? http_grpc_read(message, &out->form, &envelope->deadline_ms, error)
	                 : message->method == HTTP_POST ? read_content(message, &out->form, error)
	                                                : read_query(query, &out->form, error)))
		return false;
	reads = http_is_read((const char *)envelope->method.bytes, envelope->method.length);
	keyed = !reads && !http_is_poll((const char *)envelope->method.bytes, envelope->method.length) &&
	    !http_is_repeatable((const char *)envelope->method.bytes, envelope->method.length);
	if (reads)
		out->max_age_ms = max_age_ms(http_field(message, HTTP_CACHE_CONTROL));
	if (protocol && strcmp(protocol, "1") != 0)
		return error_set(
		    error, STATUS(INVALID_ARGUMENT), "Connect-Protocol-Version must be 1, not \"%.40s\"", protocol);
	return (out->form & FORM_GRPC || read_timeout(http_field(message, HTTP_TIMEOUT), &envelope->deadline_ms, error)) &&
	    read_token(http_field(message, HTTP_AUTHORIZATION), &envelope->token, error) &&
	    read_key(api, http_field(message, HTTP_IDEMPOTENCY_KEY), keyed, out, error);
}

/* Replaces the body by other memory. */
static void replace(struct envelope_view *body, uint8_t **made, uint8_t *bytes, size_t length)
{
	free(*made);
	*made = bytes;
	*body = (struct envelope_view){bytes, length};
}

/* Replaces a query by its message. */
static bool take_message(struct envelope_view *body, uint8_t **made, uint32_t form, struct reeve_error *error)
{
	ProtobufCBinaryData decoded = {0};
	size_t length;
	char *text = http_query_value((const char *)body->bytes, "message", &length);

	if (!text)
		return error_set(error, STATUS(INVALID_ARGUMENT), "the query has no valid \"message\"");
	replace(body, made, (uint8_t *)text, length);
	if (!(form & FORM_BASE64))
		return true;
	if (json_base64_read(text, length, &decoded)) {
		replace(body, made, decoded.data, decoded.len);
		return true;
	}
	free(decoded.data);
	return error_set(error, STATUS(INVALID_ARGUMENT), "the query's \"message\" must be base64 for URLs");
}

uint8_t *http_json_pack(const char *text, size_t length, const ProtobufCMessageDescriptor *input, size_t max,
    size_t *packed, struct reeve_error *error)
{
	json_t *object = json_read_text(text, length, JSON_MEMORY_MESSAGES * max + JSON_MEMORY_MIN, error);
	ProtobufCMessage *message = object ? json_to_message_in(JSON_MAPPING, object, input, error) : NULL;
	uint8_t *bytes;

	json_decref(object);
	if (!message)
		return NULL;
	*packed = protobuf_c_message_get_packed_size(message);
	bytes = mem_malloc(*packed + 1);
	protobuf_c_message_pack(message, bytes);
	protobuf_c_message_free_unpacked(message, NULL);
	return bytes;
}

/* Replaces JSON by protobuf's bytes. */
static bool take_json(struct envelope_view *body, uint8_t **made, const ProtobufCMessageDescriptor *input, size_t max,
    struct reeve_error *error)
{
	size_t length;
	uint8_t *bytes = http_json_pack((const char *)body->bytes, body->length, input, max, &length, error);

	if (bytes)
		replace(body, made, bytes, length);
	return bytes;
}

bool http_decode(struct rpc_message *message, const ProtobufCMessageDescriptor *input, size_t max, uint8_t **made,
    struct reeve_error *error)
{
	struct envelope_view *body = &message->envelope.body;
	uint8_t *bytes;
	size_t length;

	if (message->form & FORM_GRPC && !http_grpc_unwrap(body, &message->form, error))
		return false;
	if (message->form & FORM_QUERY && !take_message(body, made, message->form, error))
		return false;
	if (message->form & FORM_GZIPPED) {
		bytes = http_gunzip(body->bytes, body->length, max, &length, error);
		if (!bytes)
			return false;
		replace(body, made, bytes, length);
	}
	return !(message->form & FORM_JSON) || take_json(body, made, input, max, error);
}

char *http_json_write(const ProtobufCMessage *message, size_t *length)
{
	json_t *object = json_from_message_in(JSON_MAPPING, message);
	char *text = json_write(object, length);

	json_decref(object);
	return text;
}

static struct frame *respond_json(const struct http_api *api, uint32_t form, const ProtobufCMessage *response)
{
	struct http_reply reply = {.status = HTTP_STATUS_OK, .form = form, .type = "application/json"};
	char *text = http_json_write(response, &reply.length);
	struct frame *frame;

	reply.content = text;
	frame = form & FORM_GRPC ? http_grpc_respond(form, text, reply.length, false) : http_reply(api, &reply);
	free(text);
	return frame;
}

/* Notes the stream of an answer. */
static struct frame *address(struct frame *answer, uint32_t form, uint32_t stream)
{
	if (form & FORM_HTTP2)
		http2_answer_of(answer)->stream = stream;
	return answer;
}

/* Writes the page /metrics. */
static struct frame *respond_metrics(
    const struct http_api *api, uint32_t form, const Reeve__V1__ScrapeResponse *response)
{
	const struct http_reply reply = {
	    .status = HTTP_STATUS_OK,
	    .form = form,
	    .type = response->content_type,
	    .content = response->text,
	    .length = strlen(response->text),
	};

	return http_reply(api, &reply);
}

struct frame *http_respond(
    void *arg, uint32_t id, uint32_t form, const ProtobufCMessage *response, size_t max, struct reeve_error *error)
{
	struct http_reply reply = {.status = HTTP_STATUS_OK, .form = form, .type = "application/proto"};
	struct frame *frame;
	uint8_t *bytes;

	reply.length = protobuf_c_message_get_packed_size(response);
	if (reply.length > max) {
		error_set(error, STATUS(INTERNAL), "the answer is %zu bytes long, the limit is %zu", reply.length, max);
		return NULL;
	}
	if (form & FORM_METRICS)
		return address(respond_metrics(arg, form, (const Reeve__V1__ScrapeResponse *)response), form, id);
	if (form & FORM_JSON)
		return address(respond_json(arg, form, response), form, id);
	bytes = mem_malloc(reply.length + 1);
	protobuf_c_message_pack(response, bytes);
	reply.content = bytes;
	frame = form & FORM_GRPC ? http_grpc_respond(form, bytes, reply.length, false) : http_reply(arg, &reply);
	free(bytes);
	return address(frame, form, id);
}

/* Returns Connect's HTTP status for a code. */
static int status_of(reeve_status code)
{
	switch (code) {
	case STATUS(CANCELLED): return 499;
	case STATUS(INVALID_ARGUMENT):
	case STATUS(FAILED_PRECONDITION):
	case STATUS(OUT_OF_RANGE): return HTTP_STATUS_BAD_REQUEST;
	case STATUS(DEADLINE_EXCEEDED): return HTTP_STATUS_GATEWAY_TIMEOUT;
	case STATUS(NOT_FOUND): return HTTP_STATUS_NOT_FOUND;
	case STATUS(ALREADY_EXISTS):
	case STATUS(ABORTED): return HTTP_STATUS_CONFLICT;
	case STATUS(PERMISSION_DENIED): return HTTP_STATUS_FORBIDDEN;
	case STATUS(RESOURCE_EXHAUSTED): return HTTP_STATUS_TOO_MANY_REQUESTS;
	case STATUS(UNIMPLEMENTED): return HTTP_STATUS_NOT_IMPLEMENTED;
	case STATUS(UNAVAILABLE): return HTTP_STATUS_SERVICE_UNAVAILABLE;
	case STATUS(UNAUTHENTICATED): return HTTP_STATUS_UNAUTHORIZED;
	default: return HTTP_STATUS_INTERNAL_SERVER_ERROR;
	}
}

struct frame *http_refuse(void *arg, uint32_t id, uint32_t form, reeve_status code, const char *message)
{
	return address(http_problem(arg, form, status_of(code), code,
	                   code == STATUS(UNAUTHENTICATED) ? "www-authenticate: Bearer\r\n" : NULL, message),
	    form, id);
}
