/* A hash of managers by number, each with the time at which its heartbeat number last changed. */
#include "manager/core/cluster.h"

#include "common/hash.h"
#include "common/log.h"
#include "manager/core/notifier.h"
#include "manager/core/ready.h"
#include "manager/core/waits.h"

#include <stdlib.h>

/* A manager without a heartbeat for this time counts as gone. Heartbeats come at least once a second. */
enum { STILL_MS = 3000 };

struct peer {
	int64_t manager, seq;
	int64_t moved_ms;
	bool alive;
	bool moved; /* a new heartbeat has been seen */
	bool listed;
	UT_hash_handle hh;
};

struct cluster {
	struct base *base;
	struct cluster_neighbours to;
	struct peer *all;
	int alive, place; /* number of live managers, and this one's place among them, from 0 */
};

struct cluster *cluster_create(struct base *base, const struct cluster_neighbours *to)
{
	struct cluster *p = mem_calloc(1, sizeof *p);
	p->base = base;
	p->to = *to;
	p->alive = 1;
	return p;
}

void cluster_destroy(struct cluster *p)
{
	struct peer *peer, *tmp;
	HASH_ITER (hh, p->all, peer, tmp) {
		HASH_DEL(p->all, peer);
		free(peer);
	}
	free(p);
}

int cluster_alive(const struct cluster *p)
{
	return p->alive;
}

static struct peer *peer_get(struct cluster *p, const struct store_peer *row, int64_t now_ms)
{
	struct peer *peer;
	HASH_FIND(hh, p->all, &row->manager, sizeof row->manager, peer);
	if (!peer) {
		peer = mem_calloc(1, sizeof *peer);
		peer->manager = row->manager;
		peer->seq = row->seq;
		/* A manager that is new here counts as alive until it misses its heartbeats. */
		peer->moved_ms = now_ms;
		HASH_ADD(hh, p->all, manager, sizeof peer->manager, peer);
	} else if (peer->seq != row->seq) {
		peer->seq = row->seq;
		peer->moved_ms = now_ms;
		peer->moved = true;
	}
	return peer;
}

static void drop_unlisted(struct cluster *p)
{
	struct peer *peer, *tmp;
	HASH_ITER (hh, p->all, peer, tmp) {
		if (!peer->listed) {
			HASH_DEL(p->all, peer);
			free(peer);
		} else {
			peer->listed = false;
		}
	}
}

/* Returns true if the rows lack this manager's own last heartbeat: another transaction has locked its row, and perhaps
 * all rows. */
static bool held_up(const struct cluster *p, const struct store_peer *rows, int count)
{
	int64_t self = store_manager_id(p->base->store);
	struct peer *me;
	HASH_FIND(hh, p->all, &self, sizeof self, me);
	for (int i = 0; me && i < count; i++)
		if (rows[i].manager == self)
			return rows[i].seq == me->seq;
	return false;
}

void cluster_on_heartbeat(struct cluster *p, const struct store_peer *rows, int count)
{
	int64_t now = base_now(p->base), self = store_manager_id(p->base->store);
	int alive = 0, place = 0;
	bool held = held_up(p, rows, count);
	for (int i = 0; i < count; i++) {
		struct peer *peer = peer_get(p, &rows[i], now);
		if (held && peer->alive) /* the other rows may be locked, too: their managers may be alive */
			peer->moved_ms = now;
		bool lives = peer->manager == self || now - peer->moved_ms < STILL_MS;
		if (peer->alive && !lives && peer->moved)
			log_info(NULL, "manager %lld (of the table managers) is silent; its share of the tasks is taken over",
			    (long long)peer->manager);
		peer->alive = lives;
		peer->listed = true;
		if (peer->manager == self)
			place = alive;
		alive += lives;
	}
	drop_unlisted(p);
	if (alive < 1)
		alive = 1;
	if (alive == p->alive && place == p->place)
		return;
	p->alive = alive;
	p->place = place;
	notifier_others(p->to.notifier, alive > 1);
	waits_others(p->to.waits, alive > 1);
	store_others(p->base->store, alive > 1);
	ready_shard(p->to.cache, alive, place);
}
