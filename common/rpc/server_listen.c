/*
 * Listeners and newcomers. When all connections are taken, one that has not greeted makes room, or the one that has
 * said nothing for longest and has no call open; else the newcomer is turned away: it may greet, and is told why its
 * calls are not served. Callers on this machine have some connections of their own, so that an operator gets in.
 */
#include "common/rpc/server_internal.h"

#include "common/clock.h"
#include "common/log.h"

#include <ctype.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <nng/nng.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <utlist.h>

enum {
	NEWCOMERS_MOST = 64,    /* let in one after the other: then other events have their turn */
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

static void welcome(struct rpc_server *server, int fd, const struct sockaddr *from)
{
	struct peer *peer = peers_add(server, fd, from);
	int64_t now_ms = clock_monotonic_ms();
	const char *reason;

	if (!peer)
		return;
	reason = reason_against(server, peer, now_ms);
	if (reason)
		turn_away(peer, reason, now_ms);
	conn_start(peer->conn);
}

/* Somebody wants to connect. After a failure (no descriptors are left, say) the next sweep tries again. */
static void on_newcomers(evutil_socket_t listening, short what, void *arg)
{
	struct listener *listener = arg;

	(void)what;
	for (int i = 0; i < NEWCOMERS_MOST; i++) {
		struct sockaddr_storage from = {0};
		socklen_t length = sizeof from;
		int fd = accept4(listening, (struct sockaddr *)&from, &length, SOCK_NONBLOCK | SOCK_CLOEXEC), yes = 1;

		if (fd < 0 && (errno == ECONNABORTED || errno == EINTR))
			continue;
		if (fd < 0) {
			if (errno != EAGAIN && errno != EWOULDBLOCK)
				event_del(listener->newcomers);
			return;
		}
		if (from.ss_family == AF_INET || from.ss_family == AF_INET6) {
			setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
			setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof yes);
		}
		welcome(listener->server, fd, (struct sockaddr *)&from);
	}
}

void server_accept_more(struct rpc_server *server)
{
	struct listener *listener;

	LL_FOREACH(server->listeners, listener)
	{
		if (!event_pending(listener->newcomers, EV_READ, NULL))
			event_add(listener->newcomers, NULL);
	}
}

/* Tells why it cannot listen: "tcp://…:7171: address in use". */
static bool failed(struct reeve_error *error, const char *url, int problem)
{
	char text[128];

	if (problem == EADDRNOTAVAIL || problem == EINVAL || problem == EAFNOSUPPORT)
		return error_set(error, STATUS(INVALID_ARGUMENT),
		    "cannot listen on \"%s\": it is no address of this machine, or not written as tcp://HOST:PORT or "
		    "ipc:///PATH",
		    url);
	if (problem == EADDRINUSE)
		return error_set(error, STATUS(UNAVAILABLE), "%s: address in use", url);
	snprintf(text, sizeof text, "%s", strerror(problem));
	text[0] = (char)tolower((unsigned char)text[0]);
	return error_set(error, problem == EACCES || problem == EPERM ? STATUS(PERMISSION_DENIED) : STATUS(UNAVAILABLE),
	    "%s: %s", url, text);
}

/* Makes the listener's socket, and listens. 0, or why it cannot. */
static int listen_at(struct listener *listener, const struct sockaddr *address, socklen_t length)
{
	int yes = 1;

	listener->fd = socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (listener->fd < 0)
		return errno;
	if (address->sa_family != AF_UNIX)
		setsockopt(listener->fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
	if (bind(listener->fd, address, length) != 0 || listen(listener->fd, SOMAXCONN) != 0) {
		int problem = errno;

		close(listener->fd);
		listener->fd = -1;
		return problem;
	}
	return 0;
}

/* Whether a socket's file is there of a process that is not there any more. */
static bool left_over(const struct sockaddr_un *address)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool refused = fd >= 0 && connect(fd, (const struct sockaddr *)address, sizeof *address) != 0 && errno == ECONNREFUSED;

	if (fd >= 0)
		close(fd);
	return refused;
}

static int listen_on_path(struct listener *listener, const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int problem;

	if (!*path || strlen(path) >= sizeof address.sun_path)
		return EINVAL;
	strcpy(address.sun_path, path);
	problem = listen_at(listener, (struct sockaddr *)&address, sizeof address);
	if (problem == EADDRINUSE && left_over(&address) && unlink(path) == 0)
		problem = listen_at(listener, (struct sockaddr *)&address, sizeof address);
	if (!problem)
		listener->path = strdup(path);
	return problem;
}

/* No host: all IPv4 addresses. */
static int listen_on_port(struct listener *listener, const char *host, const char *port)
{
	const struct addrinfo hints = {
	    .ai_family = *host ? AF_UNSPEC : AF_INET, .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
	struct addrinfo *found;
	int problem;

	if (!*port || getaddrinfo(*host ? host : NULL, port, &hints, &found) != 0)
		return EINVAL;
	problem = listen_at(listener, found->ai_addr, found->ai_addrlen);
	freeaddrinfo(found);
	return problem;
}

/* The listener's URL, a port of 0 replaced by the one taken. NULL: no memory. */
static char *real_url(const struct listener *listener, const nng_url *url)
{
	struct sockaddr_storage bound;
	socklen_t length = sizeof bound;
	const char *host;
	char *real = NULL;
	int port;

	if (listener->path)
		return strdup(url->u_rawurl);
	host = *url->u_hostname ? url->u_hostname : "0.0.0.0";
	if (getsockname(listener->fd, (struct sockaddr *)&bound, &length) != 0)
		return NULL;
	port = ntohs(bound.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&bound)->sin6_port
	                                         : ((struct sockaddr_in *)&bound)->sin_port);
	/* nng has taken off the brackets of an IPv6 address. */
	if (asprintf(&real, strchr(host, ':') ? "%s://[%s]:%d" : "%s://%s:%d", url->u_scheme, host, port) < 0)
		return NULL;
	return real;
}

static void free_listener(struct listener *listener)
{
	if (listener->newcomers)
		event_free(listener->newcomers);
	if (listener->fd >= 0)
		close(listener->fd);
	if (listener->path)
		unlink(listener->path);
	free(listener->path);
	free(listener->url);
	free(listener);
}

/* Listens on a URL. 0, or why it cannot. */
static int begin(struct listener *listener, const char *text)
{
	nng_url *url;
	int problem = EINVAL;

	if (nng_url_parse(&url, text) != 0)
		return EINVAL;
	if (!strcmp(url->u_scheme, "tcp"))
		problem = listen_on_port(listener, url->u_hostname, url->u_port);
	else if (!strcmp(url->u_scheme, "ipc"))
		problem = listen_on_path(listener, url->u_path);
	if (!problem) {
		listener->url = real_url(listener, url);
		listener->newcomers =
		    event_new(listener->server->base, listener->fd, EV_READ | EV_PERSIST, on_newcomers, listener);
		if (!listener->url || !listener->newcomers || event_add(listener->newcomers, NULL) != 0)
			problem = ENOMEM;
	}
	nng_url_free(url);
	return problem;
}

bool server_listen(struct rpc_server *server, const char *url, struct reeve_error *error)
{
	struct listener *listener = calloc(1, sizeof *listener);
	int problem;

	if (!listener)
		return error_set(error, STATUS(RESOURCE_EXHAUSTED), "no memory for a listener");
	listener->server = server;
	listener->fd = -1;
	problem = begin(listener, url);
	if (problem) {
		free_listener(listener);
		return failed(error, url, problem);
	}
	LL_PREPEND(server->listeners, listener);
	return true;
}

void server_listen_no_more(struct rpc_server *server)
{
	struct listener *listener, *next;

	LL_FOREACH_SAFE(server->listeners, listener, next)
	free_listener(listener);
	server->listeners = NULL;
}
