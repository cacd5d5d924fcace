/*
 * Listeners and connections. A connection has to greet in time, to take its answers, and to be heard of now and then;
 * one that does not is closed, so that silence costs nobody else a descriptor. A peer that sends faster than the loop
 * serves, or does not take its answers, is not read from for a while.
 */
#include "common/rpc/server_internal.h"

#include "common/clock.h"
#include "common/log.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>
#include <utlist.h>

enum {
	NEWCOMERS_MOST = 64,        /* accepted and not looked at */
	WAITING_MOST = 256,         /* frames of one peer that are not looked at */
	WAITING_MESSAGES = 2,       /* … and bytes, in longest messages */
	BACKLOG_MESSAGES = 4,       /* a peer with longer unsent answers is not read from */
	BACKLOG_MESSAGES_MOST = 64, /* and with these it is cut off */
	GREETING_MS = 5000,         /* how long a newcomer may take to greet */
	QUIET_MS = 300000,          /* how long nothing need be heard of a peer; Reeve's own ping all the time */
	STUCK_MS = 10000,           /* how long a peer may take no answers */
	CLOSE_GRACE_MS = 1000,      /* how long answers given before the end may take to leave */
};

void server_wake(struct rpc_server *server)
{
	if (server->woken)
		return;
	server->woken = true;
	eventfd_write(server->wake_fd, 1);
}

/* On nng's threads. */
static void peer_opened(void *arg)
{
	(void)arg;
}

/* On nng's threads. */
static bool peer_arrived(void *arg, struct frame *frames)
{
	struct peer *peer = arg;
	struct rpc_server *server = peer->server;
	size_t limit = WAITING_MESSAGES * server->options.max_message_bytes;
	struct frame *last = frames;
	int64_t now_ms = clock_monotonic_ms();
	size_t bytes = 0;
	int count = 0;
	bool go_on;

	for (struct frame *frame = frames; frame; frame = frame->next) {
		frame->owner = peer;
		frame->at_ms = now_ms;
		bytes += frame->length;
		count++;
		last = frame;
	}
	pthread_mutex_lock(&server->lock);
	*server->arrived_end = frames;
	server->arrived_end = &last->next;
	peer->waiting += count;
	peer->waiting_bytes += bytes;
	go_on = peer->waiting < WAITING_MOST && peer->waiting_bytes < limit && !peer->stalled;
	peer->stalled = !go_on;
	server_wake(server);
	pthread_mutex_unlock(&server->lock);
	return go_on;
}

/* On nng's threads. */
static void peer_closed(void *arg)
{
	struct peer *peer = arg;
	struct rpc_server *server = peer->server;

	pthread_mutex_lock(&server->lock);
	LL_PREPEND2(server->closed, peer, next_closed);
	pthread_cond_signal(&server->changed);
	server_wake(server);
	pthread_mutex_unlock(&server->lock);
}

static const struct conn_events peer_events = {peer_opened, peer_arrived, peer_closed};

static void free_peer(struct peer *peer)
{
	if (peer->over && peer->open_calls == 0)
		free(peer);
}

void peers_release(struct peer *peer)
{
	peer->open_calls--;
	free_peer(peer);
}

/* A connection is over. Its frames have all been looked at, since they arrived before. */
static void remove_peer(struct rpc_server *server, struct peer *peer)
{
	if (peer->dirty)
		LL_DELETE2(server->dirty, peer, next_dirty);
	peer->dirty = false;
	DL_DELETE(server->peers, peer);
	server->n_peers--;
	conn_free(peer->conn);
	peer->conn = NULL;
	peer->over = true;
	peer->open_calls++; /* the calls' owners may answer them all */
	server->walk = server->open;
	while (server->walk) {
		struct rpc_call *call = server->walk;

		server->walk = call->next;
		if (call->peer == peer)
			server_tell_closed(call);
	}
	peers_release(peer);
}

/* Makes room for the next connection (this one is refused, and comes again) by closing one that has not greeted yet. */
static void make_room(struct rpc_server *server)
{
	struct peer *peer;

	DL_FOREACH(server->peers, peer)
	{
		if (!conn_look(peer->conn).opened) {
			conn_close(peer->conn);
			return;
		}
	}
}

static void welcome(struct rpc_server *server, nng_stream *stream)
{
	struct peer *peer;

	if (server->n_peers >= server->options.max_pipes)
		make_room(server);
	peer = server->n_peers < server->options.max_pipes ? calloc(1, sizeof *peer) : NULL;
	if (!peer) {
		nng_stream_free(stream);
		return;
	}
	peer->server = server;
	peer->conn = conn_make(stream, CONN_REPLIES, server->options.max_message_bytes, &peer_events, peer);
	if (!peer->conn) {
		free(peer);
		return;
	}
	DL_APPEND(server->peers, peer);
	server->n_peers++;
	conn_start(peer->conn);
}

/* On nng's threads: a connection was accepted, or could not be. */
static void accepted(void *arg)
{
	struct listener *listener = arg;
	struct rpc_server *server = listener->server;
	bool good = nng_aio_result(listener->aio) == 0, go_on;
	struct newcomer *newcomer = good ? malloc(sizeof *newcomer) : NULL;

	if (good && !newcomer)
		nng_stream_free(nng_aio_get_output(listener->aio, 0));
	pthread_mutex_lock(&server->lock);
	if (newcomer) {
		newcomer->stream = nng_aio_get_output(listener->aio, 0);
		LL_APPEND(server->newcomers, newcomer);
		server->n_newcomers++;
		server_wake(server);
	}
	/* After a failure (no descriptors are left, say) the next sweep tries again. */
	go_on = newcomer && server->n_newcomers < NEWCOMERS_MOST;
	listener->idle = !go_on;
	pthread_mutex_unlock(&server->lock);
	if (go_on)
		nng_stream_listener_accept(listener->stream_listener, listener->aio);
}

/* Lets listeners that have stopped accept again. */
static void accept_more(struct rpc_server *server)
{
	struct listener *listener;

	LL_FOREACH(server->listeners, listener)
	{
		bool idle;

		pthread_mutex_lock(&server->lock);
		idle = listener->idle;
		listener->idle = false;
		pthread_mutex_unlock(&server->lock);
		if (idle)
			nng_stream_listener_accept(listener->stream_listener, listener->aio);
	}
}

/* A frame is about to be looked at. True if its peer, who was too fast, may be read from again. */
static bool note_taken(struct rpc_server *server, struct peer *peer, const struct frame *frame)
{
	bool resume;

	pthread_mutex_lock(&server->lock);
	peer->waiting--;
	peer->waiting_bytes -= frame->length;
	resume = peer->stalled && peer->waiting == 0;
	pthread_mutex_unlock(&server->lock);
	return resume;
}

/* Reads on from a peer, unless it does not take its answers either: then the sweep looks again. */
static void resume_peer(struct rpc_server *server, struct peer *peer)
{
	if (conn_look(peer->conn).backlog > BACKLOG_MESSAGES * server->options.max_message_bytes)
		return;
	pthread_mutex_lock(&server->lock);
	peer->stalled = false;
	pthread_mutex_unlock(&server->lock);
	conn_resume(peer->conn);
}

void peers_take(struct rpc_server *server)
{
	struct frame *frame, *next_frame;
	struct newcomer *newcomers, *newcomer, *next_newcomer;
	struct peer *closed, *peer, *next_peer;

	pthread_mutex_lock(&server->lock);
	server->woken = false;
	frame = server->arrived;
	server->arrived = NULL;
	server->arrived_end = &server->arrived;
	newcomers = server->newcomers;
	server->newcomers = NULL;
	server->n_newcomers = 0;
	closed = server->closed;
	server->closed = NULL;
	pthread_mutex_unlock(&server->lock);
	for (; frame; frame = next_frame) {
		bool resume = note_taken(server, frame->owner, frame);

		next_frame = frame->next;
		peer = frame->owner;
		server_dispatch(server, peer, frame);
		free(frame);
		if (resume)
			resume_peer(server, peer);
	}
	LL_FOREACH_SAFE2(closed, peer, next_peer, next_closed)
	remove_peer(server, peer);
	LL_FOREACH_SAFE(newcomers, newcomer, next_newcomer)
	{
		welcome(server, newcomer->stream);
		free(newcomer);
	}
	accept_more(server);
}

void peers_reply(struct peer *peer, struct frame *frame)
{
	struct rpc_server *server = peer->server;

	if (peer->over) {
		free(frame);
		return;
	}
	conn_queue(peer->conn, frame);
	if (peer->dirty)
		return;
	peer->dirty = true;
	if (!server->dirty)
		event_active(server->flush, EV_TIMEOUT, 0);
	LL_PREPEND2(server->dirty, peer, next_dirty);
}

void peers_flush(struct rpc_server *server)
{
	struct peer *dirty = server->dirty, *peer, *next;

	server->dirty = NULL;
	LL_FOREACH_SAFE2(dirty, peer, next, next_dirty)
	{
		peer->dirty = false;
		conn_flush(peer->conn);
	}
}

/* Why a peer is to be closed, or NULL. */
static const char *unwanted(const struct rpc_server *server, const struct conn_state *state)
{
	if (!state->opened)
		return state->quiet_ms > GREETING_MS ? "does not greet" : NULL;
	if (state->stuck_ms > STUCK_MS || state->backlog > BACKLOG_MESSAGES_MOST * server->options.max_message_bytes)
		return "does not take its answers";
	return state->quiet_ms > QUIET_MS ? "says nothing" : NULL;
}

void peers_sweep(struct rpc_server *server)
{
	struct peer *peer;

	DL_FOREACH(server->peers, peer)
	{
		struct conn_state state = conn_look(peer->conn);
		const char *reason = unwanted(server, &state);
		bool stalled;

		if (reason) {
			log_debug("rpc", "closing a connection whose peer %s", reason);
			conn_close(peer->conn);
			continue;
		}
		pthread_mutex_lock(&server->lock);
		stalled = peer->stalled && peer->waiting == 0;
		pthread_mutex_unlock(&server->lock);
		if (stalled)
			resume_peer(server, peer);
	}
	accept_more(server);
}

/* Turns an error of nng's into one of ours: "tcp://…:7171: address in use". */
static bool nng_failed(struct reeve_error *error, const char *what, int result)
{
	reeve_status code = STATUS(UNAVAILABLE);
	char text[128];

	if (result == NNG_EADDRINVAL || result == NNG_ENOTSUP || result == NNG_EINVAL)
		return error_set(error, STATUS(INVALID_ARGUMENT),
		    "cannot listen on \"%s\": it is no address of this machine, or not written as tcp://HOST:PORT or ipc:///PATH",
		    what);
	snprintf(text, sizeof text, "%s", nng_strerror(result));
	text[0] = (char)tolower((unsigned char)text[0]);
	if (result == NNG_EPERM)
		code = STATUS(PERMISSION_DENIED);
	return error_set(error, code, "%s: %s", what, text);
}

/* The listener's URL, a port of 0 replaced by the one taken. */
static char *real_url(nng_stream_listener *listener, const char *url)
{
	nng_url *parsed;
	char *real = NULL;
	const char *host;
	int port;

	if (nng_stream_listener_get_int(listener, NNG_OPT_TCP_BOUND_PORT, &port) != 0 ||
	    nng_url_parse(&parsed, url) != 0)
		return strdup(url);
	host = *parsed->u_hostname ? parsed->u_hostname : "0.0.0.0";
	/* nng has taken off the brackets of an IPv6 address. */
	if (asprintf(&real, strchr(host, ':') ? "%s://[%s]:%d" : "%s://%s:%d", parsed->u_scheme, host, port) < 0)
		real = NULL;
	nng_url_free(parsed);
	return real;
}

static void free_listener(struct listener *listener)
{
	if (listener->stream_listener)
		nng_stream_listener_close(listener->stream_listener);
	nng_aio_stop(listener->aio);
	nng_aio_free(listener->aio);
	nng_stream_listener_free(listener->stream_listener);
	free(listener->url);
	free(listener);
}

bool peers_listen(struct rpc_server *server, const char *url, struct reeve_error *error)
{
	struct listener *listener = calloc(1, sizeof *listener);
	int result;

	if (!listener || nng_aio_alloc(&listener->aio, accepted, listener) != 0) {
		free(listener);
		return error_set(error, STATUS(RESOURCE_EXHAUSTED), "no memory for a listener");
	}
	listener->server = server;
	result = nng_stream_listener_alloc(&listener->stream_listener, url);
	if (result == 0) {
		/* Where the transport knows these. */
		nng_stream_listener_set_bool(listener->stream_listener, NNG_OPT_TCP_NODELAY, true);
		nng_stream_listener_set_bool(listener->stream_listener, NNG_OPT_TCP_KEEPALIVE, true);
		result = nng_stream_listener_listen(listener->stream_listener);
	}
	if (result != 0) {
		free_listener(listener);
		return nng_failed(error, url, result);
	}
	listener->url = real_url(listener->stream_listener, url);
	if (!listener->url) {
		free_listener(listener);
		return error_set(error, STATUS(RESOURCE_EXHAUSTED), "no memory for a listener");
	}
	LL_PREPEND(server->listeners, listener);
	nng_stream_listener_accept(listener->stream_listener, listener->aio);
	return true;
}

/* Lets answers that were given leave, for a moment. */
static void drain(struct rpc_server *server)
{
	int64_t until_ms = clock_monotonic_ms() + CLOSE_GRACE_MS;
	struct peer *peer;

	peers_flush(server);
	DL_FOREACH(server->peers, peer)
	{
		while (conn_look(peer->conn).backlog > 0 && clock_monotonic_ms() < until_ms)
			usleep(1000);
	}
}

void peers_destroy(struct rpc_server *server)
{
	struct listener *listener, *next_listener;
	struct newcomer *newcomer, *next_newcomer;
	struct peer *peer;

	LL_FOREACH_SAFE(server->listeners, listener, next_listener)
	free_listener(listener);
	LL_FOREACH_SAFE(server->newcomers, newcomer, next_newcomer)
	{
		nng_stream_free(newcomer->stream);
		free(newcomer);
	}
	drain(server);
	DL_FOREACH(server->peers, peer)
	conn_close(peer->conn);
	pthread_mutex_lock(&server->lock);
	while (server->peers) {
		while (!server->closed)
			pthread_cond_wait(&server->changed, &server->lock);
		peer = server->closed;
		LL_DELETE2(server->closed, peer, next_closed);
		pthread_mutex_unlock(&server->lock);
		remove_peer(server, peer);
		pthread_mutex_lock(&server->lock);
	}
	pthread_mutex_unlock(&server->lock);
	frame_free_all(server->arrived);
}
