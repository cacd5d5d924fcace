/* Fetches of pull clients that do not park: each gets all its tasks in one answer. While rows for it are being read, it
 * gets none: any rows if it has room, otherwise those of higher priorities that were left to other managers. */
#include "manager/core/dispatch_internal.h"
#include "manager/core/queues.h"
#include "manager/core/routes.h"

enum { SEARCHES_MS = 250 }; /* how long a Fetch waits for streams that are being searched: that may take long */

/* Undoes `grant`. */
static void grant_undo(struct dispatch *d, const struct grant *grant)
{
	struct fetch *f = grant->fetch;
	fetch_count(f, routes_get(d->routes, stream_route(grant->candidate.stream)), -1);
	if (grant->limited)
		queues_use_room(d->queues, stream_route(grant->candidate.stream), -1);
	f->granted--;
	f->granted_bytes -= grant->bytes;
	f->worth -= task_worth(grant->candidate.stream);
	f->profile->capacity++;
	d->capacity++;
	if (f->request.idle_ms) {
		f->profile->idle_capacity++;
		deadlines_set(&f->profile->idle, &f->idle, f->arrived_ms - f->request.idle_ms);
	}
	ready_untake(d->cache, grant->candidate.id);
}

static bool accepts(const void *profile, int route)
{
	return demand_accepts(profile, route);
}

/* Returns true if a Fetch that collects tasks wants those of the stream. It has them read once. */
static bool read_passed(void *arg, const struct stream *s)
{
	const struct dispatch *d = arg;
	int route = stream_route(s);
	const struct store_queue *queue = queues_of_route(d->queues, route);
	struct demand_walk walk;
	if (queue->state != STORE_QUEUE_RUNNING || !queues_have_room(d->queues, queue))
		return false;
	for (struct profile *p = demand_first(&walk, d->demand, route); p; p = demand_next(&walk))
		if (p->unparked && stream_priority(s) > p->collects_above && stream_all_read_ms(s) <= p->collects_from_ms)
			return true;
	return false;
}

/* Returns above which priority more tasks are of use to the Fetch. */
static int32_t useful_above(const struct fetch *f)
{
	return f->granted < f->request.slots ? INT32_MIN : f->lowest;
}

/* Returns true if more tasks for the Fetch may be read soon. If it has no room, only tasks that were left to other
 * managers count: matching has waited for all others of a higher priority. */
static bool more_may_come(const struct dispatch *d, const struct fetch *f)
{
	if (f->granted == f->request.slots)
		return ready_reads_passed(d->cache, accepts, f->profile, f->lowest);
	if (base_now(d->base) < f->arrived_ms + SEARCHES_MS && ready_searches(d->cache, accepts, f->profile))
		return true;
	return ready_reads(d->cache, accepts, f->profile);
}

/* Sets f->collects: whether the Fetch has tasks, comes only once, and more or better tasks for it may be read soon. */
static bool fetches_collect(struct dispatch *d)
{
	int64_t rounds = ready_rounds(d->cache);
	bool some = false;
	for (struct fetch *f = d->unparked; f; f = f->unparked_next) {
		f->profile->collects_above = INT32_MAX;
		f->profile->collects_from_ms = 0;
	}
	for (struct fetch *f = d->unparked; f; f = f->unparked_next) {
		if (f->worth > f->max_worth) {
			f->max_worth = f->worth;
			f->collected = rounds + COLLECT_ROUNDS;
		}
		f->collects = f->granted && !f->request.continues && base_now(d->base) < f->arrived_ms + COLLECT_MS &&
		    (rounds < f->collected || f->worth < f->max_worth);
		some |= f->collects;
		if (f->collects && useful_above(f) < f->profile->collects_above)
			f->profile->collects_above = useful_above(f);
		if (f->collects && f->arrived_ms > f->profile->collects_from_ms)
			f->profile->collects_from_ms = f->arrived_ms;
	}
	if (!some)
		return false;
	ready_read_passed(d->cache, read_passed, d);
	some = false;
	for (struct fetch *f = d->unparked; f; f = f->unparked_next) {
		f->collects = f->collects && more_may_come(d, f);
		some |= f->collects;
		if (!f->collects)
			continue;
		jobs_at(d->base->jobs, JOB_DISPATCH, f->arrived_ms + COLLECT_MS);
		f->until_ms = f->arrived_ms + COLLECT_MS + UNPARKED_LIMIT_MS;
		fetch_timer(f, f->until_ms);
	}
	return some;
}

int grants_collect(struct dispatch *d, int tried, bool *unsure)
{
	int kept = 0;
	if (!fetches_collect(d))
		return tried;
	*unsure = true;
	for (int i = tried - 1; i >= 0; i--) /* each comes before those that were taken after it */
		if (d->grants[i].fetch->collects)
			grant_undo(d, &d->grants[i]);
	for (int i = 0; i < tried; i++)
		if (!d->grants[i].fetch->collects)
			d->grants[kept++] = d->grants[i];
	return kept;
}
