/*
 * The parts of the door: http.c creates it; http_draft.c has messages that are arriving; http_parse.c makes them of HTTP/1's bytes, and
 * http_v2.c (with http_v2_send.c for the answers) of HTTP/2's; http_call.c reads calls out of messages and writes their answers, with
 * http_grpc.c for gRPC's; http_page.c, http_web.c and http_standard.c answer all other messages; http_query.c reads the query of a GET;
 * http_reply.c writes answers; http_gzip.c compresses.
 */
#ifndef REEVE_MANAGER_HTTP_HTTP_INTERNAL_H
#define REEVE_MANAGER_HTTP_HTTP_INTERNAL_H

#include "common/rpc/transport.h"
#include "manager/http/http.h"

enum {
	ORIGINS_MAX = 64,
	HEAD_MAX_BYTES = 16 << 10, /* of request line and headers */
	/* Contents of other lengths are not compressed: it is not worth it, or would keep the loop from other work. */
	GZIP_MIN_BYTES = 1 << 10,
	GZIP_MAX_BYTES = 1 << 20,
};

struct http_door {
	struct http_options options;
	char *origins;                   /* a copy, cut at the commas */
	const char *origin[ORIGINS_MAX]; /* NULL after the last one */
	bool any_origin;
};

/* The headers that matter. */
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
	HTTP_IDEMPOTENCY_KEY,
	HTTP_ORIGIN,
	HTTP_ACTOR,
	HTTP_ASKED_METHOD,
	HTTP_EXPECT,
	HTTP_TRACEPARENT,
	HTTP_GRPC_TIMEOUT,
	HTTP_GRPC_ENCODING,
	HTTP_GRPC_ACCEPT_ENCODING,
	HTTP_FIELDS,
};

/* A request, at the beginning of a frame's body. Behind it are the texts of its fields, each with a NUL, and then its content. */
struct http_message {
	uint32_t method;  /* enum http_method */
	uint32_t stream;  /* its number on an HTTP/2 connection; 0: HTTP/1 */
	uint32_t problem; /* the status with which it must be answered, or 0: then its content does not count */
	uint32_t close;   /* the connection ends after the answer */
	uint32_t ended;   /* of a stream of messages: this is not one, but their end */
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

/* Returns the path of the request with its query, also if the target has a host before it. */
const char *http_path(const struct http_message *message);

/* Returns whether the request is for the page /metrics, which is a call. */
bool http_is_metrics(const struct http_message *message);

/* Returns whether a header with several values may come more than once; only the first one counts then. */
bool http_field_repeats(enum http_field field);

/* Returns whether a call's content may be of this type. */
bool http_is_call_type(const char *type);

/* A message that is arriving, in one frame. */
struct http_draft {
	struct rpc_conn *conn;
	struct frame *frame; /* or NULL: nothing has arrived */
	size_t room, filled; /* of its body; the room is counted in the budget */
};

/* Makes room for what `length` further bytes can become. Returns false if the budget does not have it. */
bool http_draft_room(struct http_draft *draft, size_t length);

static inline struct http_message *http_draft_message(struct http_draft *draft)
{
	return (struct http_message *)frame_body(draft->frame);
}

/* Add bytes, for which the draft has room. http_draft_field begins or continues a field's text, which needs a NUL at its end. */
void http_draft_append(struct http_draft *draft, const void *bytes, size_t length);
void http_draft_field(struct http_draft *draft, enum http_field field, const char *bytes, size_t length);

/* Returns the complete message, whose memory is counted in the budget. The draft is empty then. */
struct frame *http_draft_take(struct http_draft *draft);
void http_draft_drop(struct http_draft *draft);

/* Returns HTTP_FIELDS for a header that does not matter. */
enum http_field http_field_named(const char *name);

/* How bytes become messages. */
extern const struct rpc_protocol http_protocol;

/* Functions of the transport: see common/rpc/transport.h. */
void http_send(struct rpc_conn *conn, struct frame *answer);
bool http_awaits(struct rpc_conn *conn, struct frame *frame);
void http_tend(void *arg, struct rpc_conn *conn, bool stopping);

/* What an answer depends on, kept with a call. The upper half is the number of the origin in the door's list, from 1 on. */
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
uint32_t http_form_of(const struct http_door *door, const struct http_message *message);

/* Returns whether a web page of the message's origin may call; also if it has none. */
bool http_origin_allowed(const struct http_door *door, const struct http_message *message);

/* Answers with a file of the dashboard, or returns NULL if the path, which is not terminated, is none. */
struct frame *http_serve_web(const struct http_door *door, uint32_t form, const char *path, size_t length);

/* Answers messages that are no calls; NULL: it is one. */
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
	const char *cache;   /* who may keep the content, and for how long; NULL: nobody */
	bool gzipped;        /* the content is compressed, and the caller takes gzip */
	const void *content;
	size_t length;
};

/* Writes an answer. */
struct frame *http_reply(const struct http_door *door, const struct http_reply *reply);

/* Writes an answer with an error of Connect as its content. `headers` may be NULL. */
struct frame *http_problem(const struct http_door *door, uint32_t form, int status, reeve_status code,
    const char *headers, const char *message);

/* gRPC. http_grpc_is: whether a message is its. http_grpc_is_stream: whether it begins a stream of messages. */
#define HTTP_REFLECTION "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
#define HTTP_REFLECTION_ALPHA "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
bool http_grpc_is(const struct http_message *message);
bool http_grpc_is_stream(const struct http_message *message);

/* Returns the length of the first message in the content, of which bytes have come until `filled`; 0: it is not complete. */
size_t http_grpc_complete(const struct http_message *message, size_t filled);

/* Reads the headers of a call. */
bool http_grpc_read(const struct http_message *message, uint32_t *form, uint32_t *ms, struct reeve_error *error);

/* Replaces a content by its message. Returns false with *error set if it is not one. */
bool http_grpc_unwrap(struct envelope_view *body, uint32_t *form, struct reeve_error *error);

/* Write an answer: a message, of several if there is `more`; the end of those; an error. */
struct frame *http_grpc_respond(uint32_t form, const void *bytes, size_t length, bool more);
struct frame *http_grpc_end(uint32_t form);
struct frame *http_grpc_refuse(uint32_t form, reeve_status code, const char *message);

/* Answers calls of gRPC's standard services: health and reflection. Unknown methods are answered UNIMPLEMENTED. */
struct frame *http_serve_standard(const struct http_door *door, const struct http_message *message, uint32_t form);

/* The manager's status in gRPC's health service. */
enum http_health { HTTP_SERVING = 1, HTTP_NOT_SERVING, HTTP_SERVICE_UNKNOWN };
enum http_health http_health_of(const struct http_door *door);

/* Writes the answer with a status; `more`: of a Watch, which goes on. */
struct frame *http_health_answer(uint32_t form, enum http_health health, bool more);

/* Finds a parameter of a query, "message=…&encoding=json". Returns its decoded value, to be freed, and its length; or NULL if it
 * is missing or invalid. */
char *http_query_value(const char *query, const char *name, size_t *length);

/* Decompress and compress. They return memory to be freed. http_gunzip returns NULL with *error set if the bytes are invalid or
 * more than `max` come out. http_gzip returns NULL if the result is not shorter. */
uint8_t *http_gunzip(const uint8_t *bytes, size_t length, size_t max, size_t *out, struct reeve_error *error);
uint8_t *http_gzip(const uint8_t *bytes, size_t length, size_t *out);

#endif
