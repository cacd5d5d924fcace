/*
 * New connections. When all connections are taken, the server closes one for the newcomer: one that has sent no hello,
 * else one that has made no call, else the one without open calls that has been silent for longest; else one of another
 * address that has more than half of all connections. Otherwise it turns the newcomer away: the newcomer may send its
 * hello, and its calls are answered with the reason. Callers on this machine have some extra connections, so that an
 * operator gets in.
 */
#include "common/rpc/server_internal.h"

#include "common/clock.h"
#include "common/log.h"
#include "common/mem.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <utlist.h>

enum {
	NEWCOMERS_MAX = 64,    /* accepted one after the other; then other events run */
	TURNED_AWAY_MAX = 256, /* open at the same time */
	TURNED_AWAY_PART = 8,  /* and at most this part of the descriptors; more are closed without an answer */
	LOCAL_PART = 64,       /* callers on this machine have this part of all connections in addition, … */
	LOCAL_MIN = 1,
	LOCAL_MAX = 64,
	IDLE_MS = 10000,      /* a connection without calls may be closed for another when silent for this long */
	IDLE_PINGS = 3,       /* and for this many of the pings that it should send */
	IDLE_AFTER_MS = 1000, /* a connection without a hello or a call is not closed for another within this time */
	IDLE_SEARCH_MS = 50,  /* limits the searches for a connection to close, which take a while */
	OTHER_FILES = 128,    /* descriptors for the database, callbacks, archives and lookups */
	OTHER_PART = 2,       /* but at most this part of all descriptors */
};

/* Returns how many connections callers on this machine have in addition to `connections`. */
static int local_reserve(int connections)
{
	int reserve = connections / LOCAL_PART;

	return reserve < LOCAL_MIN ? LOCAL_MIN : reserve > LOCAL_MAX ? LOCAL_MAX : reserve;
}

/* Raises the limit of descriptors as far as permitted, and lowers max_connections to what it allows, including callers
 * on this machine and connections that are turned away. Otherwise the process would run out of descriptors before all
 * connections are taken, and would never close an idle one. */
void server_fit_files(struct rpc_server *server)
{
	struct rlimit limit;
	int files, max;

	server->turned_away_max = TURNED_AWAY_MAX;
	if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
		return;
	limit.rlim_cur = limit.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &limit) != 0 && getrlimit(RLIMIT_NOFILE, &limit) != 0)
		return;
	if (limit.rlim_cur > INT32_MAX)
		return;
	files = (int)limit.rlim_cur;
	max = files - (files / OTHER_PART < OTHER_FILES ? files / OTHER_PART : OTHER_FILES);
	if (max / TURNED_AWAY_PART < TURNED_AWAY_MAX)
		server->turned_away_max = max / TURNED_AWAY_PART;
	max -= server->turned_away_max;
	max -= local_reserve(max);
	if (server->options.max_connections <= max)
		return;
	log_warn("rpc", "takes %d connections, not %d (--max-connections): it may have %d descriptors (ulimit -n)", max,
	    server->options.max_connections, files);
	server->options.max_connections = max > 0 ? max : 1;
}

/* Returns how idle a connection is; 0: it is in use. */
static int64_t idleness(const struct peer *peer, const struct rpc_conn_state *state, int64_t now_ms)
{
	int64_t idle_ms = IDLE_PINGS * rpc_server_idle_ping_ms(peer->server);

	if (peer->refusal || (peer->calls && peer->called))
		return 0;
	if (!state->opened)
		return now_ms - peer->since_ms < IDLE_AFTER_MS ? 0 : INT64_MAX / 2 + now_ms - peer->since_ms;
	if (!peer->called) /* a caller without an identity must not keep others out, whatever it sends */
		return now_ms - peer->since_ms < IDLE_AFTER_MS ? 0 : INT64_MAX / 4 + now_ms - peer->since_ms;
	return state->quiet_ms >= (idle_ms > IDLE_MS ? idle_ms : IDLE_MS) ? state->quiet_ms : 0;
}

/* Returns true if a connection's address has more than half of all connections and the newcomer has another address.
 * This prevents open calls from keeping all others out. */
static bool is_of_majority(const struct peer *peer, const struct address *newcomer)
{
	return newcomer && peer->address != newcomer && !peer->refusal &&
	    peer->address->connections > peer->server->options.max_connections / 2;
}

/* Closes the idlest connection. If none is idle, closes the quietest one of an address that has more than half of all,
 * if `newcomer` is another address (NULL: unknown). Checking all connections takes time, so it does not do so for each
 * newcomer of a flood. Returns true if it closed one. */
static bool close_idle(struct rpc_server *server, const struct address *newcomer, int64_t now_ms)
{
	struct peer *peer, *idlest = NULL, *quietest = NULL;
	int64_t idle_ms = 0, quiet_ms = -1;

	if (now_ms - server->idle_search_ms < IDLE_SEARCH_MS)
		return false;
	server->idle_search_ms = now_ms;
	DL_FOREACH (server->peers, peer) {
		struct rpc_conn_state state = rpc_conn_poll(peer->conn);
		int64_t ms = idleness(peer, &state, now_ms);

		if (ms > idle_ms) {
			idle_ms = ms;
			idlest = peer;
		}
		if (is_of_majority(peer, newcomer) && state.quiet_ms > quiet_ms) {
			quiet_ms = state.quiet_ms;
			quietest = peer;
		}
	}
	if (!idlest && !quietest)
		return false;
	if (!idlest && log_again(&server->majority_logged_ms, now_ms))
		log_warn("rpc",
		    "closing a connection in use (logged at most every 10 s): its address has %d of %d, and a caller from another address needs one",
		    quietest->address->connections, server->options.max_connections);
	rpc_conn_close(idlest ? idlest->conn : quietest->conn);
	return true;
}

/* Returns why a newcomer is turned away, or NULL. */
static const char *reason_against(struct rpc_server *server, const struct peer *peer, int64_t now_ms)
{
	int max = server->options.max_connections;

	if (server->options.address_percent < 100 && peer->address->connections > limits_of_address(server, max))
		return "its address has as many connections as one may have (--address-share of --max-connections)";
	max += peer->address->local ? local_reserve(max) : 0;
	if (server->n_peers > max && !close_idle(server, peer->address, now_ms))
		return "all connections that it takes are in use (--max-connections)";
	return NULL;
}

static void turn_away(struct peer *peer, const char *reason, int64_t now_ms)
{
	struct rpc_server *server = peer->server;

	peer->refusal = reason;
	peer->address->connections--;
	server->n_peers--;
	server->n_turned_away++;
	if (log_again(&server->full_logged_ms, now_ms))
		log_warn("rpc", "turning a caller away (logged at most every 10 s): %s; %d connections are open", reason,
		    server->n_peers);
	if (server->n_turned_away > server->turned_away_max)
		rpc_conn_close(peer->conn);
}

static void welcome(const struct listener *listener, int fd, const struct sockaddr *from)
{
	struct rpc_server *server = listener->server;
	struct peer *peer = peers_add(listener, fd, from);
	int64_t now_ms = clock_monotonic_ms();
	const char *reason;

	if (listener->secure)
		server_tls_secure(peer);
	reason = reason_against(server, peer, now_ms);
	if (reason)
		turn_away(peer, reason, now_ms);
	rpc_conn_start(peer->conn);
}

/* Handles a failure to accept a newcomer, such as a lack of descriptors. Returns true if it closed an idle connection,
 * so that a descriptor is free. Otherwise the listener tries again a moment later. */
static bool accept_failed(struct listener *listener, int problem)
{
	struct rpc_server *server = listener->server;
	int64_t now_ms = clock_monotonic_ms();

	if (log_again(&server->full_logged_ms, now_ms))
		log_warn("rpc", "cannot accept a connection (logged at most every 10 s): %s; %d connections are open",
		    strerror(problem), server->n_peers);
	if (close_idle(server, NULL, now_ms))
		return true;
	event_del(listener->newcomers);
	event_add(server->again, &(struct timeval){0, IDLE_SEARCH_MS * 1000});
	return false;
}

/* Accepts new connections. */
static void on_newcomers(evutil_socket_t listening, short what, void *arg)
{
	struct listener *listener = arg;

	(void)what;
	for (int i = 0; i < NEWCOMERS_MAX; i++) {
		struct sockaddr_storage from = {0};
		socklen_t length = sizeof from;
		int fd = accept4(listening, (struct sockaddr *)&from, &length, SOCK_NONBLOCK | SOCK_CLOEXEC), yes = 1;

		if (fd < 0 && (errno == ECONNABORTED || errno == EINTR))
			continue;
		if (fd < 0) {
			if (errno != EAGAIN && errno != EWOULDBLOCK && accept_failed(listener, errno))
				continue;
			return;
		}
		if (from.ss_family == AF_INET || from.ss_family == AF_INET6) {
			setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
			setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof yes);
		}
		welcome(listener, fd, (struct sockaddr *)&from);
	}
}

void server_accept_more(struct rpc_server *server)
{
	struct listener *listener;

	LL_FOREACH (server->listeners, listener) {
		if (!event_pending(listener->newcomers, EV_READ, NULL))
			event_add(listener->newcomers, NULL);
	}
}

static void free_listener(struct listener *listener)
{
	event_free(listener->newcomers);
	listening_close(&listener->listening);
	free(listener);
}

bool rpc_server_listen_for(struct rpc_server *server, const struct rpc_transport *transport, void *arg, const char *url,
    struct reeve_error *error)
{
	struct listener *listener = mem_calloc(1, sizeof *listener);

	listener->server = server;
	listener->transport = transport;
	listener->transport_arg = arg;
	if (!server_tls_listen(server, url, &listener->secure, error) ||
	    !listening_open(&listener->listening, url, transport->scheme, server->options.socket_mode, error)) {
		free(listener);
		return false;
	}
	listener->newcomers = event_new(server->base, listener->listening.fd, EV_READ | EV_PERSIST, on_newcomers, listener);
	mem_check(listener->newcomers && event_add(listener->newcomers, NULL) == 0);
	LL_PREPEND(server->listeners, listener);
	return true;
}

bool rpc_server_listen(struct rpc_server *server, const char *url, struct reeve_error *error)
{
	return rpc_server_listen_for(server, &server_nng, NULL, url, error);
}

const char *rpc_server_url(const struct rpc_server *server)
{
	return server->listeners ? server->listeners->listening.url : NULL;
}

const char *rpc_server_exposed(const struct rpc_server *server, bool plain)
{
	const struct listener *listener;

	LL_FOREACH (server->listeners, listener) {
		struct sockaddr_storage bound = {0};
		socklen_t length = sizeof bound;

		if (plain && listener->secure)
			continue;
		if (getsockname(listener->listening.fd, (struct sockaddr *)&bound, &length) != 0 ||
		    !limits_is_local((struct sockaddr *)&bound))
			return listener->listening.url;
	}
	return NULL;
}

void server_listen_no_more(struct rpc_server *server)
{
	struct listener *listener, *next;

	LL_FOREACH_SAFE (server->listeners, listener, next)
		free_listener(listener);
	server->listeners = NULL;
}
