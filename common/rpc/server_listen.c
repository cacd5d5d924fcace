/*
 * Listeners and newcomers. When all connections are taken, one that has not greeted makes room, or the one that has
 * said nothing for longest and has no call open; else the newcomer is turned away: it may greet, and is told why its
 * calls are not served. Callers on this machine have some connections of their own, so that an operator gets in.
 */
#include "common/rpc/server_internal.h"

#include "common/clock.h"
#include "common/log.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

enum {
	NEWCOMERS_MOST = 64,    /* accepted and not looked at */
	TURNED_AWAY_MOST = 256, /* at a time; more are closed without a word */
	LOCAL_PART = 64,        /* such a part of all connections callers on this machine have in addition, … */
	LOCAL_LEAST = 1,
	LOCAL_MOST = 64,
	IDLE_MS = 10000,    /* a connection without calls that has been silent for so long may be closed for another … */
	IDLE_PINGS = 3,     /* … if so many of the pings that it should send are missing, too */
	GREETING_MS = 1000, /* so long nobody is closed for not having greeted */
	ROOM_EVERY_MS = 50, /* looking for one takes a while */
	FULL_SAID_EVERY_MS = 10000,
};

static int local_room(const struct rpc_server *server)
{
	int room = server->options.max_pipes / LOCAL_PART;

	return room < LOCAL_LEAST ? LOCAL_LEAST : room > LOCAL_MOST ? LOCAL_MOST : room;
}

/* How little a connection needs its place; 0: it is in use. */
static int64_t idleness(const struct peer *peer, int64_t now_ms)
{
	int64_t idle_ms = IDLE_PINGS * rpc_server_idle_ping_ms(peer->server);
	struct conn_state state;

	if (peer->turned_away || peer->usage.calls > 0)
		return 0;
	state = conn_look(peer->conn);
	if (!state.opened)
		return now_ms - peer->since_ms < GREETING_MS ? 0 : INT64_MAX / 2 + now_ms - peer->since_ms;
	return state.quiet_ms >= (idle_ms > IDLE_MS ? idle_ms : IDLE_MS) ? state.quiet_ms : 0;
}

/* Closes the connection that needs its place least, if there is one that does not need it. Looking at all takes time:
 * not for each newcomer of a flood. */
static bool make_room(struct rpc_server *server, int64_t now_ms)
{
	struct peer *peer, *idlest = NULL;
	int64_t most = 0;

	if (now_ms - server->room_made_ms < ROOM_EVERY_MS)
		return false;
	server->room_made_ms = now_ms;
	DL_FOREACH(server->peers, peer)
	{
		int64_t ms = idleness(peer, now_ms);

		if (ms > most) {
			most = ms;
			idlest = peer;
		}
	}
	if (!idlest)
		return false;
	log_debug("rpc", "closing an idle connection for another");
	conn_close(idlest->conn);
	return true;
}

/* Why a newcomer does not get in, or NULL. */
static const char *reason_against(struct rpc_server *server, const struct peer *peer, int64_t now_ms)
{
	int most = server->options.max_pipes;

	if (server->options.address_percent < 100 && peer->address->connections > limits_of_address(server, most))
		return "its address has as many connections as one may have (--address-share of --max-connections)";
	most += peer->address->local ? local_room(server) : 0;
	if (server->n_peers > most && !make_room(server, now_ms))
		return "all connections that it takes are in use (--max-connections)";
	return NULL;
}

static void turn_away(struct peer *peer, const char *reason, int64_t now_ms)
{
	struct rpc_server *server = peer->server;

	peer->turned_away = reason;
	peer->address->connections--;
	server->n_peers--;
	server->n_turned_away++;
	if (now_ms - server->full_said_ms >= FULL_SAID_EVERY_MS) {
		server->full_said_ms = now_ms;
		log_warn("rpc", "turning a caller away, and perhaps more: %s; %d connections are open", reason,
		    server->n_peers);
	}
	if (server->n_turned_away > TURNED_AWAY_MOST)
		conn_close(peer->conn);
}

static void welcome(struct rpc_server *server, nng_stream *stream)
{
	struct peer *peer = peers_add(server, stream);
	int64_t now_ms = clock_monotonic_ms();
	const char *reason;

	if (!peer)
		return;
	reason = reason_against(server, peer, now_ms);
	if (reason)
		turn_away(peer, reason, now_ms);
	conn_start(peer->conn);
}

void server_welcome(struct rpc_server *server)
{
	struct newcomer *newcomers, *newcomer, *next;

	pthread_mutex_lock(&server->lock);
	newcomers = server->newcomers;
	server->newcomers = NULL;
	server->n_newcomers = 0;
	pthread_mutex_unlock(&server->lock);
	LL_FOREACH_SAFE(newcomers, newcomer, next)
	{
		welcome(server, newcomer->stream);
		free(newcomer);
	}
	server_accept_more(server);
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

void server_accept_more(struct rpc_server *server)
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

/* Turns an error of nng's into one of ours: "tcp://…:7171: address in use". */
static bool nng_failed(struct reeve_error *error, const char *what, int result)
{
	reeve_status code = STATUS(UNAVAILABLE);
	char text[128];

	if (result == NNG_EADDRINVAL || result == NNG_ENOTSUP || result == NNG_EINVAL)
		return error_set(error, STATUS(INVALID_ARGUMENT),
		    "cannot listen on \"%s\": it is no address of this machine, or not written as tcp://HOST:PORT or "
		    "ipc:///PATH",
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

bool server_listen(struct rpc_server *server, const char *url, struct reeve_error *error)
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

void server_listen_no_more(struct rpc_server *server)
{
	struct listener *listener, *next_listener;
	struct newcomer *newcomer, *next_newcomer;

	LL_FOREACH_SAFE(server->listeners, listener, next_listener)
	free_listener(listener);
	server->listeners = NULL;
	LL_FOREACH_SAFE(server->newcomers, newcomer, next_newcomer)
	{
		nng_stream_free(newcomer->stream);
		free(newcomer);
	}
	server->newcomers = NULL;
}
