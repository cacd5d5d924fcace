/* Closes all connections if PostgreSQL has room for too few. See conn_set.h. */
#include "manager/store/conn_set.h"

#include "common/log.h"

#include <assert.h>
#include <stdio.h>
#include <sys/random.h>

/* How long a manager keeps its connections after one is refused, at least and at most. One that has worked keeps them
 * longer than one that collects its first ones, so that it gets those that the other gives back. */
enum { COLLECT_MIN_MS = 300, COLLECT_MAX_MS = 1000, KEEP_MIN_MS = 2500, KEEP_MAX_MS = 6000 };

/* The longest time of the first pause, and of any. A pause takes at least half of its longest time. */
enum { PAUSE_FIRST_MS = 2000, PAUSE_LAST_MS = 16000 };

static int64_t between(int64_t min, int64_t max)
{
	uint32_t chance = 0;
	if (getrandom(&chance, sizeof chance, GRND_NONBLOCK) != sizeof chance)
		chance = 0;
	return min + chance % (max - min + 1);
}

static int connected(const struct conn_set *set)
{
	int count = 0;
	for (int i = 0; i < set->count; i++)
		count += conn_up(set->conns[i]);
	return count;
}

static void close_all(struct conn_set *set, const char *why)
{
	int64_t pause_ms = between(set->pause_ms / 2, set->pause_ms);
	set->pause_ms = set->pause_ms * 2 > PAUSE_LAST_MS ? PAUSE_LAST_MS : set->pause_ms * 2;
	set->collecting = true;
	for (int i = 0; i < set->count; i++)
		conn_pause(set->conns[i], (int)pause_ms, why);
}

static void on_limit(evutil_socket_t fd, short what, void *arg)
{
	struct conn_set *set = arg;
	bool closes = set->collecting || set->others;
	char why[400];
	(void)fd, (void)what;
	snprintf(why, sizeof why, "PostgreSQL has room for only %d of the %d connections that a manager needs: %s",
	    connected(set), set->count, set->refusal);
	if (!set->logged)
		log_error(NULL, "%s%s", why, closes ? "; it leaves them to others, and tries again from time to time" : "");
	set->logged = true;
	if (closes)
		close_all(set, why);
}

void conn_set_refused(struct conn_set *set, const char *words)
{
	snprintf(set->refusal, sizeof set->refusal, "%s", words);
	if (evtimer_pending(set->limit, NULL))
		return;
	int64_t ms = set->collecting ? between(COLLECT_MIN_MS, COLLECT_MAX_MS) : between(KEEP_MIN_MS, KEEP_MAX_MS);
	const struct timeval wait = {.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000};
	event_add(set->limit, &wait);
}

bool conn_set_ready(struct conn_set *set)
{
	bool collected = set->collecting;
	if (connected(set) < set->count)
		return false;
	event_del(set->limit);
	set->pause_ms = PAUSE_FIRST_MS;
	set->collecting = false;
	if (set->logged)
		log_info(NULL, "PostgreSQL has room for the manager's connections again");
	set->logged = false;
	return collected;
}

void conn_set_lost(struct conn_set *set)
{
	if (!connected(set))
		set->collecting = true;
}

void conn_set_open(struct conn_set *set, struct event_base *base)
{
	*set = (struct conn_set){.collecting = true, .limit = evtimer_new(base, on_limit, set), .pause_ms = PAUSE_FIRST_MS};
}

void conn_set_close(struct conn_set *set)
{
	event_free(set->limit);
}

void conn_set_add(struct conn_set *set, struct conn *conn)
{
	assert(set->count < CONN_SET_CONNECTIONS);
	set->conns[set->count++] = conn;
}
