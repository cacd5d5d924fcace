/* The connections of bench-scale's workers, with their pings. */
#include "bench/scale.h"

#include <reeve/v1/admin.pb-c.h>
#include <stdlib.h>

enum { PING_MIN_MS = 500, HEARD_PINGS = 4 };

struct connection {
	struct peer *peer;
	struct event *ping;
	int64_t pinged_ns;
};

static struct connection *connections;
static bool closing;
static int64_t idle_ping_ms = PING_MIN_MS; /* from the manager's last answer */

static void on_ended(void *arg, const char *why)
{
	(void)arg;
	if (!closing)
		give_up("a connection has ended: %s", why);
}

struct peer *connect_to(const char *url)
{
	return peer_connect(base, url, on_ended, NULL);
}

struct peer *connection_of(int worker)
{
	return connections[worker % options.connections].peer;
}

static void ping_in(struct connection *c, int64_t ms)
{
	const struct timeval next = {ms / 1000, ms % 1000 * 1000};

	event_add(c->ping, &next);
}

static void on_ping(void *arg, uint32_t code, const uint8_t *bytes, size_t length)
{
	struct connection *c = arg;
	Reeve__V1__PingResponse *r = code ? NULL : reeve__v1__ping_response__unpack(NULL, length, bytes);

	if (r)
		idle_ping_ms = r->idle_ping_ms > PING_MIN_MS ? r->idle_ping_ms : PING_MIN_MS;
	reeve__v1__ping_response__free_unpacked(r, NULL);
	ping_in(c, idle_ping_ms);
}

/* Returns how long no ping is needed, because the manager has sent other answers; 0: a ping is due. */
static int64_t ping_left_ms(const struct connection *c)
{
	int64_t interval = idle_ping_ms * 1000000, due = peer_heard_ns(c->peer) + interval;

	if (!c->pinged_ns)
		return 0;
	if (due > c->pinged_ns + HEARD_PINGS * interval)
		due = c->pinged_ns + HEARD_PINGS * interval;
	return due > now_ns() ? (due - now_ns()) / 1000000 + 1 : 0;
}

/* Pings like a worker's connection: at once, then at the interval that the manager sets, if no other answer arrives
 * (common/rpc/client_manager.c). */
static void ping(evutil_socket_t fd, short what, void *arg)
{
	struct connection *c = arg;
	int64_t left_ms = ping_left_ms(c);
	Reeve__V1__PingRequest r = REEVE__V1__PING_REQUEST__INIT;

	(void)fd, (void)what;
	if (left_ms) {
		ping_in(c, left_ms);
		return;
	}
	c->pinged_ns = now_ns();
	peer_call(c->peer, "/reeve.v1.AdminService/Ping", &r.base, on_ping, c);
}

void connections_open(void)
{
	closing = false;
	if (!connections)
		connections = calloc((size_t)options.connections, sizeof *connections);
	for (int i = 0; i < options.connections; i++) {
		struct connection *c = &connections[i];

		/* Let earlier connections send their hello: those of separate workers would not delay each other. */
		event_base_loop(base, EVLOOP_NONBLOCK);
		c->peer = connect_to(options.manager);
		c->pinged_ns = 0;
		c->ping = evtimer_new(base, ping, c);
		ping(-1, 0, c);
	}
}

void connections_close(void)
{
	closing = true;
	for (int i = 0; i < options.connections; i++) {
		event_free(connections[i].ping);
		peer_close(connections[i].peer);
	}
	turn(now_ns()); /* libevent closes them in its loop; there may not be enough descriptors for both sets */
}
