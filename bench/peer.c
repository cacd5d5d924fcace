/*
 * nng's wire protocol for requests (see common/rpc/frame.h) over a bufferevent. The id of a call is its index in a
 * table.
 */
#include "bench/peer.h"

#include "bench/report.h"
#include "bench/stream.h"
#include "common/rpc/envelope.h"

#include <arpa/inet.h>
#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { HELLO_BYTES = 8, ANSWER_MAX = 64 << 20, DEADLINE_MS = 60000 };

struct pending {
	peer_done *done; /* NULL: free */
	void *arg;
	int next_free;
};

struct peer {
	struct bufferevent *stream;
	peer_ended *ended;
	void *arg;
	bool said_hello;
	int64_t heard_ns;
	struct pending *calls;
	int capacity, free; /* the first free index; −1: none */
};

static void answer(struct peer *peer, uint32_t id, const uint8_t *bytes, size_t length)
{
	struct envelope_reply reply;
	struct reeve_error error;
	int place = (int)(id - FRAME_ID_LOWEST);

	if (place < 0 || place >= peer->capacity || !peer->calls[place].done)
		give_up("an answer to no call");
	if (!envelope_read_reply(bytes, length, &reply, &error))
		give_up("%s", error.message);
	peer->heard_ns = now_ns();
	struct pending call = peer->calls[place];
	peer->calls[place] = (struct pending){.next_free = peer->free};
	peer->free = place;
	struct envelope_view view = reply.code ? reply.message : reply.body;
	call.done(call.arg, reply.code, view.bytes, view.length);
}

static void on_read(struct bufferevent *stream, void *arg)
{
	struct peer *peer = arg;
	struct evbuffer *in = bufferevent_get_input(stream);

	if (!peer->said_hello) {
		if (evbuffer_get_length(in) < HELLO_BYTES)
			return;
		evbuffer_drain(in, HELLO_BYTES);
		peer->said_hello = true;
	}
	for (uint8_t head[FRAME_LENGTH_BYTES]; evbuffer_copyout(in, head, sizeof head) == sizeof head;) {
		uint64_t length = frame_read_length(head);
		if (length < FRAME_ID_BYTES || length > ANSWER_MAX)
			give_up("a frame of %llu bytes", (unsigned long long)length);
		if (evbuffer_get_length(in) < sizeof head + length)
			return;
		evbuffer_drain(in, sizeof head);
		const uint8_t *bytes = evbuffer_pullup(in, (ssize_t)length);
		uint32_t id;
		memcpy(&id, bytes, sizeof id);
		answer(peer, ntohl(id), bytes + FRAME_ID_BYTES, length - FRAME_ID_BYTES);
		evbuffer_drain(in, length);
	}
}

static void on_event(struct bufferevent *stream, short what, void *arg)
{
	struct peer *peer = arg;

	(void)stream;
	if (what & (BEV_EVENT_EOF | BEV_EVENT_ERROR))
		peer->ended(peer->arg, what & BEV_EVENT_ERROR ? strerror(EVUTIL_SOCKET_ERROR()) : "closed");
}

struct peer *peer_connect(struct event_base *base, const char *url, peer_ended *ended, void *arg)
{
	static const uint8_t hello[HELLO_BYTES] = {0, 'S', 'P', 0, 0, 0x30, 0, 0};
	struct peer *peer = calloc(1, sizeof *peer);

	peer->ended = ended;
	peer->arg = arg;
	peer->free = -1;
	peer->stream = stream_connect(base, url, "tcp://", "tls+tcp://", NULL);
	bufferevent_setcb(peer->stream, on_read, NULL, on_event, peer);
	bufferevent_write(peer->stream, hello, sizeof hello);
	bufferevent_enable(peer->stream, EV_READ | EV_WRITE);
	return peer;
}

static int call_place(struct peer *peer)
{
	if (peer->free < 0) {
		int capacity = peer->capacity ? 2 * peer->capacity : 4;
		peer->calls = realloc(peer->calls, sizeof *peer->calls * (size_t)capacity);
		for (int i = peer->capacity; i < capacity; i++)
			peer->calls[i] = (struct pending){.next_free = i + 1 < capacity ? i + 1 : -1};
		peer->free = peer->capacity;
		peer->capacity = capacity;
	}
	int place = peer->free;
	peer->free = peer->calls[place].next_free;
	return place;
}

void peer_call(struct peer *peer, const char *method, const ProtobufCMessage *request, peer_done *done, void *arg)
{
	uint8_t id[UUID_BYTES];
	size_t length = protobuf_c_message_get_packed_size(request);
	uint8_t *body = malloc(length + 1);
	int place = call_place(peer);

	protobuf_c_message_pack(request, body);
	uuid7_make(time(NULL) * INT64_C(1000), id);
	const struct envelope_request envelope = {
	    .method = {(const uint8_t *)method, strlen(method)},
	    .token = {(const uint8_t *)"", 0},
	    .actor = {(const uint8_t *)"bench", 5},
	    .body = {body, length},
	    .request_id = id,
	    .deadline_ms = DEADLINE_MS,
	};
	struct frame *frame = envelope_write_request(&envelope);
	frame_seal(frame, FRAME_ID_LOWEST + (uint32_t)place);
	peer->calls[place] = (struct pending){done, arg, -1};
	bufferevent_write(peer->stream, frame->wire, FRAME_HEAD_BYTES + frame->length);
	free(frame);
	free(body);
}

void peer_close(struct peer *peer)
{
	bufferevent_free(peer->stream);
	free(peer->calls);
	free(peer);
}

int64_t peer_heard_ns(const struct peer *peer)
{
	return peer->heard_ns;
}
