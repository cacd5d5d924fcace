/* Sharing tasks with other managers: each prefers the ids of its own shard. */
#include "manager/core/ready_internal.h"

#include <utlist.h>

enum { OTHERS_MS = 500 }; /* how long another manager has to take a task of its shard */

int ready_shard_of(int64_t id, int shards)
{
	uint32_t block = (uint32_t)(id >> 6), mixed = (block ^ block >> 16) * 73244475;
	return (int)((id + (mixed ^ mixed >> 16)) % shards);
}

bool ready_is_others(const struct ready_cache *cache, int64_t id)
{
	return cache->shards > 1 && ready_shard_of(id, cache->shards) != cache->shard;
}

void stream_pass_over(struct stream *s, const struct store_candidate *c)
{
	const struct store_candidate *was = &s->passed;
	if (ready_too_long(s->cache, c)) {
		s->too_long = true;
		return;
	}
	if (was->id && (was->run_at_us < c->run_at_us || (was->run_at_us == c->run_at_us && was->id <= c->id)))
		return;
	if (!was->id)
		DL_APPEND2(s->cache->passed, s, passed_prev, passed_next);
	s->passed = *c;
	s->passed_state = PASSED_WAITS;
	s->probe_ms = base_now(s->cache->base) + OTHERS_MS;
}

void stream_forget_passed(struct stream *s)
{
	if (!s->passed.id)
		return;
	s->passed.id = 0;
	DL_DELETE2(s->cache->passed, s, passed_prev, passed_next);
}

void stream_passed_lost(struct stream *s)
{
	s->passed_state = PASSED_UNSURE;
	s->probe_ms = base_now(s->cache->base);
	stream_schedule(s);
}

void stream_read_unsharded(struct stream *s, int64_t for_ms)
{
	struct store_candidate from = s->passed;
	s->all_shards = true;
	s->unsharded_until_ms = base_now(s->cache->base) + for_ms;
	stream_forget_passed(s);
	stream_rewind(s, from.run_at_us, from.id - 1);
}

void stream_probe_passed(struct stream *s, int64_t now_ms)
{
	struct ready_cache *cache = s->cache;
	struct known *k;
	if (!s->passed.id || now_ms < s->probe_ms)
		return;
	s->probe_ms = now_ms + OTHERS_MS;
	if (s->passed_state == PASSED_UNSURE) {
		stream_find_passed(s);
		return;
	}
	HASH_FIND(hh, cache->known, &s->passed.id, sizeof s->passed.id, k);
	if (k || s->passed_state == PASSED_TRIED) {
		/* No candidate any more: its claim failed, or it does not wait. It is tried again later. */
		s->passed_state = k ? PASSED_TRIED : PASSED_WAITS;
		return;
	}
	s->passed_state = PASSED_TRIED;
	stream_add_candidate(s, &s->passed);
	HASH_FIND(hh, cache->known, &s->passed.id, sizeof s->passed.id, k);
	if (k)
		k->probe = true;
}

void ready_shard(struct ready_cache *cache, int shards, int shard)
{
	struct stream *s, *tmp;
	cache->shards = shards;
	cache->shard = shard;
	HASH_ITER (hh, cache->streams, s, tmp) {
		stream_forget_passed(s);
		s->all_shards = false;
	}
	ready_rewind_all(cache);
}
