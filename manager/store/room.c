/* Closes all connections if PostgreSQL has room for too few. See room.h. */
#include "manager/store/room.h"

#include "common/log.h"

#include <assert.h>
#include <stdio.h>
#include <sys/random.h>

/* How long a manager keeps its connections after one is refused, at least and at most. One that has worked keeps them
 * longer than one that gathers, so that it gets those that the other gives back. */
enum { GATHER_MIN_MS = 300, GATHER_MAX_MS = 1000, KEEP_MIN_MS = 2500, KEEP_MAX_MS = 6000 };

/* The longest time of the first pause, and of any. A pause takes at least half of its longest time. */
enum { PAUSE_FIRST_MS = 2000, PAUSE_LAST_MS = 16000 };

static int64_t between(int64_t least, int64_t most)
{
	uint32_t chance = 0;
	if (getrandom(&chance, sizeof chance, GRND_NONBLOCK) != sizeof chance)
		chance = 0;
	return least + chance % (most - least + 1);
}

static int connected(const struct room *room)
{
	int count = 0;
	for (int i = 0; i < room->count; i++)
		count += conn_up(room->conns[i]);
	return count;
}

static void close_all(struct room *room, const char *why)
{
	int64_t pause_ms = between(room->pause_ms / 2, room->pause_ms);
	room->pause_ms = room->pause_ms * 2 > PAUSE_LAST_MS ? PAUSE_LAST_MS : room->pause_ms * 2;
	room->gathers = true;
	for (int i = 0; i < room->count; i++)
		conn_pause(room->conns[i], (int)pause_ms, why);
}

static void on_limit(evutil_socket_t fd, short what, void *arg)
{
	struct room *room = arg;
	bool closes = room->gathers || room->others;
	char why[400];
	(void)fd, (void)what;
	snprintf(why, sizeof why, "PostgreSQL has room for only %d of the %d connections that a manager needs: %s",
	    connected(room), room->count, room->refusal);
	if (!room->told)
		log_error(NULL, "%s%s", why, closes ? "; it leaves them to others, and tries again from time to time" : "");
	room->told = true;
	if (closes)
		close_all(room, why);
}

void room_refused(struct room *room, const char *words)
{
	snprintf(room->refusal, sizeof room->refusal, "%s", words);
	if (evtimer_pending(room->limit, NULL))
		return;
	int64_t ms = room->gathers ? between(GATHER_MIN_MS, GATHER_MAX_MS) : between(KEEP_MIN_MS, KEEP_MAX_MS);
	const struct timeval wait = {.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000};
	event_add(room->limit, &wait);
}

bool room_ready(struct room *room)
{
	bool gathered = room->gathers;
	if (connected(room) < room->count)
		return false;
	event_del(room->limit);
	room->pause_ms = PAUSE_FIRST_MS;
	room->gathers = false;
	if (room->told)
		log_info(NULL, "PostgreSQL has room for the manager's connections again");
	room->told = false;
	return gathered;
}

void room_lost(struct room *room)
{
	if (!connected(room))
		room->gathers = true;
}

void room_open(struct room *room, struct event_base *base)
{
	*room = (struct room){.gathers = true, .limit = evtimer_new(base, on_limit, room), .pause_ms = PAUSE_FIRST_MS};
}

void room_close(struct room *room)
{
	event_free(room->limit);
}

void room_add(struct room *room, struct conn *conn)
{
	assert(room->count < ROOM_CONNECTIONS);
	room->conns[room->count++] = conn;
}
