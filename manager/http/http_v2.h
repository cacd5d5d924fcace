/*
 * HTTP/2 on a connection, by nghttp2: http_v2.c makes messages of bytes, http_v2_send.c sends answers. Each stream carries one call, or
 * a stream of messages (gRPC's reflection), of which each is a message of its own.
 *
 * Bounds. A message that the budget has no memory for is refused with REFUSED_STREAM: the caller knows that nothing has happened.
 * Answers that the caller does not take stay in their frames, and count as unsent. nghttp2 ends connections that reset too many
 * streams, or send too many settings, pings or continuations.
 */
#ifndef REEVE_MANAGER_HTTP_HTTP_V2_H
#define REEVE_MANAGER_HTTP_HTTP_V2_H

#include "manager/http/http_internal.h"

#include <nghttp2/nghttp2.h>

/* An answer, at the beginning of a frame from `wire` on. Behind it are its headers, as in HTTP/1.1, its content, and its trailers. */
struct http2_answer {
	uint32_t stream, status;
	uint32_t head, content, trailers; /* their lengths */
	uint32_t more;                    /* of a stream of messages: others follow */
	uint32_t watched;                 /* it has this health (enum http_health), and others follow when that changes */
};

static inline struct http2_answer *http2_answer_of(struct frame *frame)
{
	return (struct http2_answer *)frame->wire;
}

/* Makes an answer of its parts. */
struct frame *http2_compose(
    const struct http2_answer *parts, const void *head, const void *content, const char *trailers);

struct http2_stream {
	struct http2 *http2;
	int32_t id;
	struct http2_stream *prev, *next;
	struct http_draft draft;
	size_t head;                          /* bytes of its headers */
	size_t unread;                        /* bytes of its content that came after the answer was clear */
	bool complete;                        /* its last message has been handed over, or is refused */
	bool many;                            /* a stream of messages */
	struct frame *answers, **answers_end; /* that are not written completely */
	size_t offset;                        /* the written bytes of the first one's content */
	bool started;                         /* its head has been submitted */
	bool waiting;                         /* for an answer, between those of many messages */
	bool answered;                        /* its last answer is there */
	uint32_t watched;                     /* see struct http2_answer; 0: no health */
};

struct http2 {
	struct rpc_conn *conn;
	size_t max; /* bytes of a content */
	nghttp2_session *session;
	struct http2_stream *streams;
	int arriving;              /* messages that have begun and are not complete */
	size_t held;               /* the memory of those messages */
	struct rpc_intake *intake; /* bytes are being taken; or NULL */
	bool writing, ended;
};

struct http2 *http2_open(struct rpc_conn *conn, size_t max);
void http2_close(struct http2 *http2);
bool http2_take(struct http2 *http2, struct rpc_intake *intake);
bool http2_awaits(struct http2 *http2, uint32_t stream);

/* Sends an answer, and takes ownership of it. */
void http2_send(struct http2 *http2, struct frame *answer);

/* Notifies the streams that watch the health. With `stopping`, ends streams of messages, and tells the caller that the connection ends. */
void http2_tend(struct http2 *http2, enum http_health health, bool stopping);

/* All queued bytes have been sent. */
void http2_sent(struct http2 *http2);

/* Queues what can be sent now. */
void http2_write(struct http2 *http2);

/* Drops the answers of a stream. */
void http2_drop_answers(struct http2_stream *stream);

#endif
