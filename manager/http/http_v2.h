/*
 * HTTP/2 on a connection, by nghttp2: http_v2.c reads messages, http_v2_send.c sends answers. A stream carries one
 * call, or several messages (gRPC's reflection).
 *
 * Limits: a message for which the budget has no memory is refused with REFUSED_STREAM, which promises that nothing has
 * happened. Answers that the caller does not read stay in their frames and count as unsent. Connections end that
 * withdraw too many calls, and nghttp2 ends those that send too many resets, settings, pings or continuations.
 */
#ifndef REEVE_MANAGER_HTTP_HTTP_V2_H
#define REEVE_MANAGER_HTTP_HTTP_V2_H

#include "manager/http/http_internal.h"

#include <nghttp2/nghttp2.h>

/* An answer, from `wire` of a frame on. Its headers (as in HTTP/1.1), content and trailers follow. */
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

/* Makes an answer from its parts. */
struct frame *http2_compose(
    const struct http2_answer *parts, const void *head, const void *content, const char *trailers);

struct http2_stream {
	struct http2 *http2;
	int32_t id;
	struct http2_stream *prev, *next; /* in the order in which they began */
	int64_t begun_ms;
	struct http_draft draft;
	size_t head;                          /* bytes of its headers */
	size_t unread;                        /* bytes of its content that came after its answer was decided */
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
	size_t copied;             /* bytes of heads that have been copied for them */
	int64_t withdrawn_ms;      /* when the calls that the caller has withdrawn are forgotten: see http_v2.c */
	bool writing, ended;
};

struct http2 *http2_open(struct rpc_conn *conn, size_t max);
void http2_close(struct http2 *http2);
bool http2_take(struct http2 *http2, struct rpc_intake *intake);
bool http2_wants_answer(struct http2 *http2, uint32_t stream);

/* Sends an answer, and takes ownership of it. */
void http2_send(struct http2 *http2, struct frame *answer);

/* Notifies the streams that watch the health. `stopping`: ends streams of messages, and announces the connection's end.
 */
void http2_maintain(struct http2 *http2, enum http_health health, bool stopping);

/* All queued bytes have been sent. */
void http2_sent(struct http2 *http2);

/* Queues what can be sent now. */
void http2_write(struct http2 *http2);

/* Drops the answers of a stream. */
void http2_drop_answers(struct http2_stream *stream);

#endif
