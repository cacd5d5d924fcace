/* Candidates that wait again after a claim: those that were locked, after a while, and those that no claim has changed.
 */
#include "manager/core/ready_internal.h"

#include <utlist.h>

enum {
	CANDIDATE_SUSPEND_MS = 250,   /* delay until a locked candidate is tried again */
	STREAM_SUSPEND_MS = 50,       /* how long a stream of locked tasks is suspended at first */
	STREAM_SUSPEND_MAX_MS = 2000, /* the maximum of that time */
};

void ready_suspend(struct ready_cache *cache, int64_t id)
{
	int64_t now_ms = base_now(cache->base);
	struct known *k;
	HASH_FIND(hh, cache->known, &id, sizeof id, k);
	if (!k || k->state != KNOWN_CLAIMED)
		return;
	struct stream *s = k->c.stream;
	if (now_ms >= s->suspended_until_ms) {
		s->suspended_ms = !s->suspended_ms                ? STREAM_SUSPEND_MS
		    : 2 * s->suspended_ms < STREAM_SUSPEND_MAX_MS ? 2 * s->suspended_ms
		                                                  : STREAM_SUSPEND_MAX_MS;
		s->suspended_until_ms = now_ms + s->suspended_ms;
		stream_update(s);
		stream_schedule(s);
	}
	if (2 * cache->resting_count >= cache->base->options.ready_limit) { /* too many are suspended: it is read again */
		ready_release(cache, &k->c);
		return;
	}
	k->c.was_locked = true;
	k->state = KNOWN_SUSPENDED;
	k->suspended_until_ms = now_ms + CANDIDATE_SUSPEND_MS;
	DL_APPEND(cache->resting, k);
	cache->resting_count++;
	jobs_at(cache->base->jobs, JOB_STREAMS, k->suspended_until_ms);
}

/* Returns true if `a` comes before `b` in the order of their stream. */
static bool stream_before(const struct candidate *a, const struct candidate *b)
{
	return a->run_at_us < b->run_at_us || (a->run_at_us == b->run_at_us && a->id < b->id);
}

/* Makes a taken candidate wait again, before those that are due later, or after all others. */
static void wait_again(struct known *k, bool in_order)
{
	struct stream *s = k->c.stream;
	struct known *later = in_order ? s->candidates : NULL;
	while (later && !stream_before(&k->c, &later->c))
		later = later->next;
	k->state = KNOWN_WAITS;
	s->taken--;
	DL_PREPEND_ELEM(s->candidates, later, k);
	s->stuck = 0;
	s->count++;
	s->cache->size++;
	if (!stream_wanted(s))
		stream_let_go(s);
	stream_update(s);
}

void ready_untake(struct ready_cache *cache, int64_t id)
{
	struct known *k;
	HASH_FIND(hh, cache->known, &id, sizeof id, k);
	if (!k || k->state != KNOWN_CLAIMED)
		return;
	if (k->newer) /* it has changed since */
		ready_forget(cache, id);
	else
		wait_again(k, true);
}

int64_t ready_resume_suspended(struct ready_cache *cache, int64_t now_ms)
{
	struct known *k;
	while ((k = cache->resting) && k->suspended_until_ms <= now_ms) {
		DL_DELETE(cache->resting, k);
		cache->resting_count--;
		k->state = KNOWN_CLAIMED;
		if (k->newer) /* it has changed since */
			ready_forget(cache, k->c.id);
		else
			wait_again(k, false);
	}
	return cache->resting ? cache->resting->suspended_until_ms : INT64_MAX;
}
