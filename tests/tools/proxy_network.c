/* Connections: the bytes on their way, when they are due, and how a connection ends. See proxy.h. */
#include "tests/tools/proxy.h"

#include "common/clock.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <utlist.h>

#define NEVER INT64_MAX

static void unit_free(struct unit *unit)
{
	evbuffer_free(unit->bytes);
	free(unit);
}

void link_reset(struct link *link)
{
	static const struct linger at_once = {.l_onoff = 1, .l_linger = 0};

	for (int i = 0; i < 2; i++) {
		int fd = bufferevent_getfd(link->way[i].from);

		if (fd >= 0)
			setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
	}
	link->dying = true;
	event_active(proxy.sweep, EV_TIMEOUT, 0);
}

static void way_clear(struct way *way)
{
	struct unit *unit, *next;

	DL_FOREACH_SAFE (way->waiting, unit, next)
		unit_free(unit);
	DL_FOREACH_SAFE (way->late, unit, next)
		unit_free(unit);
	event_free(way->timer);
	bufferevent_free(way->from);
}

void link_free(struct link *link)
{
	struct spoken_for *one, *next;

	way_clear(&link->way[UP]);
	way_clear(&link->way[DOWN]);
	DL_FOREACH_SAFE (link->spoken_for, one, next)
		free(one);
	DL_DELETE(proxy.links, link);
	free(link);
}

void on_sweep(evutil_socket_t fd, short what, void *arg)
{
	struct link *link, *next;

	(void)fd, (void)what, (void)arg;
	DL_FOREACH_SAFE (proxy.links, link, next)
		if (link->dying)
			link_free(link);
}

static void on_written(struct bufferevent *bev, void *arg)
{
	struct way *way = arg; /* the way whose source is `bev` */

	(void)bev;
	way->link->dying = true;
	event_active(proxy.sweep, EV_TIMEOUT, 0);
}

static void unit_send(struct way *way, struct unit *unit)
{
	if (!unit->end) {
		bufferevent_write_buffer(way->to, unit->bytes);
	} else if (evbuffer_get_length(bufferevent_get_output(way->to)) == 0) {
		on_written(way->to, way);
	} else { /* once the last bytes have been sent */
		bufferevent_setcb(way->to, NULL, on_written, NULL, &way->link->way[!way->direction]);
	}
	unit_free(unit);
}

void way_pump(struct way *way)
{
	int64_t now = clock_monotonic_us(), next_us = NEVER;
	struct unit *unit, *next;

	while ((unit = way->waiting) && unit->due_us <= now) {
		DL_DELETE(way->waiting, unit);
		unit_send(way, unit);
	}
	if (way->waiting)
		next_us = way->waiting->due_us;
	DL_FOREACH_SAFE (way->late, unit, next) {
		if (unit->due_us <= now) {
			DL_DELETE(way->late, unit);
			unit_send(way, unit);
		} else if (unit->due_us < next_us) {
			next_us = unit->due_us;
		}
	}
	if (next_us == NEVER)
		return;
	struct timeval wait = {.tv_sec = (next_us - now) / 1000000, .tv_usec = (next_us - now) % 1000000};

	event_add(way->timer, &wait);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	(void)fd, (void)what;
	way_pump(arg);
}

static struct unit *unit_make(struct evbuffer *bytes, bool end)
{
	struct unit *unit = calloc(1, sizeof *unit);

	if (!unit)
		abort();
	unit->bytes = bytes;
	unit->end = end;
	return unit;
}

void way_send(struct way *way, struct evbuffer *bytes, bool end)
{
	struct unit *unit = unit_make(bytes, end);

	switch (proxy.treatment[way->direction]) {
	case DROP:
		way->robbed = true;
		unit_free(unit);
		return;
	case HOLD: unit->due_us = NEVER; break;
	case DELAY: unit->due_us = clock_monotonic_us() + proxy.delay_ms[way->direction] * 1000; break;
	case PASS: break;
	}
	DL_APPEND(way->waiting, unit);
	way_pump(way);
}

void way_send_late(struct way *way, struct evbuffer *bytes, int64_t ms)
{
	struct unit *unit = unit_make(bytes, false);

	unit->due_us = clock_monotonic_us() + ms * 1000;
	DL_APPEND(way->late, unit);
	way_pump(way);
}

/* One side has ended, or the connection to it failed. */
static void on_event(struct bufferevent *bev, short what, void *arg)
{
	struct way *way = arg;

	(void)bev;
	if ((what & (BEV_EVENT_EOF | BEV_EVENT_ERROR)) && !way->link->dying)
		way_send(way, evbuffer_new(), true);
}

void on_accept(struct evconnlistener *listener, evutil_socket_t fd, struct sockaddr *from, int length, void *arg)
{
	static const int yes = 1;
	struct link *link = calloc(1, sizeof *link);
	struct bufferevent *near = bufferevent_socket_new(proxy.base, fd, BEV_OPT_CLOSE_ON_FREE);
	struct bufferevent *far = bufferevent_socket_new(proxy.base, -1, BEV_OPT_CLOSE_ON_FREE);

	(void)listener, (void)from, (void)length, (void)arg;
	if (!link || !near || !far)
		abort();
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
	link->way[UP] = (struct way){.link = link, .direction = UP, .from = near, .to = far};
	link->way[DOWN] = (struct way){.link = link, .direction = DOWN, .from = far, .to = near};
	for (int i = 0; i < 2; i++) {
		struct way *way = &link->way[i];

		way->timer = evtimer_new(proxy.base, on_timer, way);
		bufferevent_setcb(way->from, on_read, NULL, on_event, way);
	}
	DL_APPEND(proxy.links, link);
	if (proxy.refusing || bufferevent_socket_connect(far, (struct sockaddr *)&proxy.to, (int)proxy.to_length)) {
		link_reset(link);
		return;
	}
	setsockopt(bufferevent_getfd(far), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes); /* has no effect on a Unix socket */
	bufferevent_enable(near, EV_READ | EV_WRITE);
	bufferevent_enable(far, EV_READ | EV_WRITE);
}
