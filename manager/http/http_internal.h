/*
 * The parts of struct http_api (http.c):
 *
 *	http_draft.c                                 messages that are arriving
 *	http_parse.c, http_v2.c, http_v2_send.c      messages from the bytes of HTTP/1; of HTTP/2; answers of HTTP/2
 *	http_call.c, http_grpc.c                     calls from messages, and answers; the same for gRPC
 *	http_page.c, http_web.c, http_standard.c     answers to all other messages
 *	http_poll.c                                  the dashboard's long poll
 *	http_query.c, http_reply.c, http_gzip.c      the query of a GET; the text of answers; compression
 */
#ifndef REEVE_MANAGER_HTTP_HTTP_INTERNAL_H
#define REEVE_MANAGER_HTTP_HTTP_INTERNAL_H

#include "common/json_names.h"
#include "common/rpc/transport.h"
#include "manager/http/http.h"

enum {
	ORIGINS_MAX = 64,
	HEAD_MAX_BYTES = 16 << 10, /* of request line and headers */
	/* Only contents of these lengths are compressed: shorter ones gain little, longer ones would block the loop. */
	GZIP_MIN_BYTES = 1 << 10,
	GZIP_MAX_BYTES = 1 << 20,
};

struct http_api {
	struct http_options options;
	struct rpc_server *server;       /* NULL: it does not listen yet */
	char *origins;                   /* a copy, cut at the commas */
	const char *origin[ORIGINS_MAX]; /* NULL after the last one */
	bool any_origin;
};

/* The headers that are used. */
enum http_field {
	HTTP_TARGET, /* of the request line */
	HTTP_HOST,
	HTTP_CONTENT_TYPE,
	HTTP_CONTENT_ENCODING,
	HTTP_ACCEPT,
	HTTP_ACCEPT_ENCODING,
	HTTP_AUTHORIZATION,
	HTTP_TIMEOUT,
	HTTP_PROTOCOL,
	HTTP_CACHE_CONTROL,
	HTTP_IDEMPOTENCY_KEY,
	HTTP_ORIGIN,
	HTTP_ACTOR,
	HTTP_ASKED_METHOD,
	HTTP_EXPECT,
	HTTP_TRACEPARENT,
	HTTP_GRPC_TIMEOUT,
	HTTP_GRPC_ENCODING,
	HTTP_GRPC_ACCEPT_ENCODING,
	HTTP_FETCH_SITE, /* from a browser, the kind of page that sends the request: same-origin, same-site, cross-site,
	                    none */
	HTTP_FIELDS,
};

/* A request, at the beginning of a frame's body. The texts of its fields, each with a NUL, and its content follow. */
struct http_message {
	uint32_t method;  /* enum http_method */
	uint32_t stream;  /* its number on an HTTP/2 connection; 0: HTTP/1 */
	uint32_t problem; /* the status of an answer without a call, which ignores the content; or 0 */
	uint32_t close;   /* the connection ends after the answer */
	uint32_t ended;   /* the end of a stream of messages, and not a message */
	uint32_t content_at, content_length;
	uint32_t field_at[HTTP_FIELDS], field_length[HTTP_FIELDS]; /* at 0: it is missing */
};

static inline const struct http_message *http_message_of(struct frame *frame)
{
	return (const struct http_message *)frame_body(frame);
}

/* Returns a field's text, or NULL if it is missing. */
static inline const char *http_field(const struct http_message *message, enum http_field field)
{
	return message->field_at[field] ? (const char *)message + message->field_at[field] : NULL;
}

/* Returns the path of the request with its query, without a host before it. */
const char *http_path(const struct http_message *message);

/* Returns whether the request is for the page /metrics, which is a call. */
bool http_is_metrics(const struct http_message *message);

/* Returns whether a header may occur more than once; then only the first one is used. */
bool http_field_repeats(enum http_field field);

/* Returns whether a path names a method that changes nothing. */
bool http_is_read(const char *path, size_t length);

/* Returns whether a path names a method without a request id, whose repeated calls take effect again. */
bool http_is_repeatable(const char *path, size_t length);

/* Returns whether a path is that of the long poll, which only reads. */
bool http_is_poll(const char *path, size_t length);

/* Returns whether a call's content may be of this type. */
bool http_is_call_type(const char *type);

/* A message that is arriving, in one frame. */
struct http_draft {
	struct rpc_conn *conn;
	struct frame *frame; /* or NULL: nothing has arrived */
	size_t room, filled; /* of its body; the room is counted in the budget */
};

/* Makes room for the text of `length` further bytes. Returns false if the budget has no memory for it. */
bool http_draft_room(struct http_draft *draft, size_t length);

static inline struct http_message *http_draft_message(struct http_draft *draft)
{
	return (struct http_message *)frame_body(draft->frame);
}

/* Add bytes, for which the draft has room. http_draft_field begins or continues a field's text, which needs a NUL at
 * its end: http_draft_field_end adds it, and removes the blanks before it. */
void http_draft_append(struct http_draft *draft, const void *bytes, size_t length);
void http_draft_field(struct http_draft *draft, enum http_field field, const char *bytes, size_t length);
void http_draft_field_end(struct http_draft *draft, enum http_field field);

/* Returns the complete message, whose memory is counted in the budget. The draft is empty then. */
struct frame *http_draft_take(struct http_draft *draft);
void http_draft_drop(struct http_draft *draft);

/* Returns HTTP_FIELDS for a header that is not used. */
enum http_field http_field_named(const char *name);

/* How bytes become messages. */
extern const struct rpc_protocol http_protocol;

/* Functions of the transport: see common/rpc/transport.h. */
void http_send(struct rpc_conn *conn, struct frame *answer);
bool http_wants_answer(struct rpc_conn *conn, struct frame *frame);
void http_maintain(void *arg, struct rpc_conn *conn, bool stopping);

/* The form of an answer, kept with its call. The upper half is the number of the origin in the list of origins, from 1.
 */
enum http_form {
	FORM_JSON = 1,
	FORM_GZIP = 2, /* the caller takes gzip */
	FORM_CLOSE = 4,
	FORM_HEAD = 8,     /* without content */
	FORM_GZIPPED = 16, /* the content of the request is compressed */
	FORM_QUERY = 32,   /* the content of the request is in the query */
	FORM_BASE64 = 64,  /* … in base64 */
	FORM_HTTP2 = 128,
	FORM_GRPC = 256,
	FORM_METRICS = 512, /* the page /metrics: the call Scrape, answered with its text */
	FORM_ORIGIN_BIT = 16,
};

/* Returns the form of an answer as far as the fields determine it. */
uint32_t http_form_of(const struct http_api *api, const struct http_message *message);

/* Returns whether a web page of the message's origin may call; true without an origin. */
bool http_origin_allowed(const struct http_api *api, const struct http_message *message);

/* Answers with a file of the dashboard; NULL: the path, which has no NUL, names none. */
struct frame *http_serve_web(const struct http_api *api, uint32_t form, const char *path, size_t length);

/* Answers a message that is no call; NULL: it is a call. */
struct frame *http_serve(void *arg, struct frame *frame);

/* Functions of the transport: see common/rpc/transport.h. */
bool http_read(void *arg, struct frame *frame, struct rpc_message *message, struct reeve_error *error);
bool http_decode(struct rpc_message *message, const ProtobufCMessageDescriptor *input, size_t max, uint8_t **made,
    struct reeve_error *error);
struct frame *http_respond(
    void *arg, uint32_t id, uint32_t form, const ProtobufCMessage *response, size_t max, struct reeve_error *error);
struct frame *http_refuse(void *arg, uint32_t id, uint32_t form, reeve_status code, const char *message);

struct http_reply {
	int status;
	uint32_t form;
	const char *type;    /* of the content, or NULL */
	const char *headers; /* further lines, each with its end; or NULL */
	const char *cache;   /* the header cache-control; NULL: the content may not be kept */
	bool gzipped;        /* the content is compressed, and the caller takes gzip */
	const void *content;
	size_t length;
};

/* Writes an answer. */
struct frame *http_reply(const struct http_api *api, const struct http_reply *reply);

/* Writes an answer with an error of Connect as its content. `headers` may be NULL. */
struct frame *http_problem(
    const struct http_api *api, uint32_t form, int status, reeve_status code, const char *headers, const char *message);

/* Converts JSON to protobuf's bytes, which the caller must free. Returns NULL with *error set if it is invalid, or much
 * longer than `max`. */
uint8_t *http_json_pack(const char *text, size_t length, const ProtobufCMessageDescriptor *input, size_t max,
    size_t *packed, struct reeve_error *error);

/* Converts a message to JSON, which the caller must free. */
char *http_json_write(const ProtobufCMessage *message, size_t *length);

/* Returns the name of a code in Connect, perhaps written to `name`. */
const char *http_code_name(reeve_status code, char name[JSON_NAME_BYTES]);

/* The methods of the dashboard's long poll. Their service is the API. */
extern const struct rpc_entry http_poll_methods[];

/* gRPC. Return whether a message belongs to it, and whether it begins a stream of messages. */
#define HTTP_REFLECTION "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
#define HTTP_REFLECTION_ALPHA "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
bool http_grpc_is(const struct http_message *message);
bool http_grpc_is_stream(const struct http_message *message);

/* Returns the length of the first message in the content, which has arrived up to `filled`; 0: it is not complete. */
size_t http_grpc_complete(const struct http_message *message, size_t filled);

/* Reads the headers of a call. */
bool http_grpc_read(const struct http_message *message, uint32_t *form, uint32_t *ms, struct reeve_error *error);

/* Replaces a content by the message that it frames. Returns false with *error set if it is invalid. */
bool http_grpc_unwrap(struct envelope_view *body, uint32_t *form, struct reeve_error *error);

/* Write an answer: a message (`more`: others follow); the end of several messages; an error. */
struct frame *http_grpc_respond(uint32_t form, const void *bytes, size_t length, bool more);
struct frame *http_grpc_end(uint32_t form);
struct frame *http_grpc_refuse(uint32_t form, reeve_status code, const char *message);

/* Answers calls of gRPC's standard services: health and reflection. Unknown methods are answered UNIMPLEMENTED. */
struct frame *http_serve_standard(const struct http_api *api, const struct http_message *message, uint32_t form);

/* The manager's status in gRPC's health service. */
enum http_health { HTTP_SERVING = 1, HTTP_NOT_SERVING, HTTP_SERVICE_UNKNOWN };
enum http_health http_health_of(const struct http_api *api);

/* Writes the answer with a status; `more`: of a Watch, which goes on. */
struct frame *http_health_answer(uint32_t form, enum http_health health, bool more);

/* Finds a parameter of a query ("message=…&encoding=json"). Returns its decoded value, which the caller must free, and
 * its length; NULL: it is missing or invalid. */
char *http_query_value(const char *query, const char *name, size_t *length);

/* Decompress and compress into memory that the caller must free. http_gunzip returns NULL with *error set if the bytes
 * are invalid, or result in more than `max`. http_gzip returns NULL if the result is not shorter. */
uint8_t *http_gunzip(const uint8_t *bytes, size_t length, size_t max, size_t *out, struct reeve_error *error);
uint8_t *http_gzip(const uint8_t *bytes, size_t length, size_t *out);

#endif
