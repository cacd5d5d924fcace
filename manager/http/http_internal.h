/*
 * The parts of the door: http.c creates it; http_parse.c makes messages of bytes; http_call.c reads calls out of messages and
 * writes their answers; http_page.c answers all other messages; http_query.c reads the query of a GET; http_reply.c writes
 * answers; http_gzip.c compresses.
 */
#ifndef REEVE_MANAGER_HTTP_HTTP_INTERNAL_H
#define REEVE_MANAGER_HTTP_HTTP_INTERNAL_H

#include "common/rpc/transport.h"
#include "manager/http/http.h"

enum { ORIGINS_MAX = 64 };

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
	HTTP_FIELDS,
};

/* A request, at the beginning of a frame's body. Behind it are the texts of its fields, each with a NUL, and then its content. */
struct http_message {
	uint32_t method;  /* enum http_method */
	uint32_t problem; /* the status with which it must be answered, or 0; then only the texts below count */
	uint32_t close;   /* the connection ends after the answer */
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

/* Returns whether a call's content may be of this type. */
bool http_is_call_type(const char *type);

/* How bytes become messages. */
extern const struct rpc_protocol http_protocol;

/* An answer has been queued on a connection: the next message may follow. */
void http_answered(struct rpc_conn *conn);

/* What an answer depends on, kept with a call. The upper half is the number of the origin in the door's list, from 1 on. */
enum http_form {
	FORM_JSON = 1,
	FORM_GZIP = 2, /* the caller takes gzip */
	FORM_CLOSE = 4,
	FORM_HEAD = 8,     /* without content */
	FORM_GZIPPED = 16, /* the content of the request is compressed */
	FORM_QUERY = 32,   /* the content of the request is in the query */
	FORM_BASE64 = 64,  /* … in base64 */
	FORM_ORIGIN_BIT = 16,
};

/* Returns the form of an answer as far as the fields determine it. */
uint32_t http_form_of(const struct http_door *door, const struct http_message *message);

/* Returns whether a web page of the message's origin may call; also if it has none. */
bool http_origin_allowed(const struct http_door *door, const struct http_message *message);

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
	const void *content;
	size_t length;
};

/* Writes an answer. */
struct frame *http_reply(const struct http_door *door, const struct http_reply *reply);

/* Writes an answer with an error of Connect as its content. `headers` may be NULL. */
struct frame *http_problem(const struct http_door *door, uint32_t form, int status, reeve_status code,
    const char *headers, const char *message);

/* Finds a parameter of a query, "message=…&encoding=json". Returns its decoded value, to be freed, and its length; or NULL if it
 * is missing or invalid. */
char *http_query_value(const char *query, const char *name, size_t *length);

/* Decompress and compress. They return memory to be freed. http_gunzip returns NULL with *error set if the bytes are invalid or
 * more than `max` come out. http_gzip returns NULL if the result is not shorter. */
uint8_t *http_gunzip(const uint8_t *bytes, size_t length, size_t max, size_t *out, struct reeve_error *error);
uint8_t *http_gzip(const uint8_t *bytes, size_t length, size_t *out);

#endif
