/* Fetches of pull clients that do not park: each gets all its tasks in one answer. While it has room, and rows for it are
 * being read, it gets none. */
#include "manager/core/dispatch_internal.h"
#include "manager/core/queues.h"

enum { SEARCHES_MS = 250 }; /* how long a Fetch waits for streams that are being searched: that may take long */

/* Undoes `grant`. */
static void take_grant_back(struct dispatch *d, const struct grant *grant)
{
	struct fetch *f = grant->fetch;
	if (grant->limit)
		grant->limit->granted--;
	if (grant->limited)
		queues_use_room(d->queues, stream_route(grant->candidate.stream), -1);
	f->granted--;
	f->granted_bytes -= grant->bytes;
	f->profile->capacity++;
	d->capacity++;
	if (f->request.idle_ms) {
		f->profile->idle_capacity++;
		deadlines_set(&f->profile->idle, &f->idle, f->arrived_ms - f->request.idle_ms);
	}
	window_untake(d->window, grant->candidate.id);
}

static bool accepts(const void *profile, int route)
{
	return demand_accepts(profile, route);
}

/* Returns true if a Fetch that collects tasks accepts the route. */
static bool read_passed(void *arg, int route)
{
	const struct dispatch *d = arg;
	struct demand_walk walk;
	if (!deal_wants(d->deal, route))
		return false;
	for (struct profile *p = demand_first(&walk, d->demand, route); p; p = demand_next(&walk))
		if (p->collects)
			return true;
	return false;
}

/* Sets f->collects: whether the Fetch has tasks and room, comes only once, and more tasks for it may be read soon. */
static bool fetches_collect(struct dispatch *d)
{
	int64_t rounds = window_rounds(d->window);
	bool some = false;
	for (struct fetch *f = d->unparked; f; f = f->unparked_next)
		f->profile->collects = false;
	for (struct fetch *f = d->unparked; f; f = f->unparked_next) {
		f->collects = f->granted && f->granted < f->request.slots && !f->request.goes_on &&
		    base_now(d->base) < f->arrived_ms + COLLECT_MS && (!f->collected || rounds < f->collected);
		some |= f->collects;
		f->profile->collects |= f->collects;
	}
	if (!some)
		return false;
	window_read_passed(d->window, read_passed, d);
	some = false;
	for (struct fetch *f = d->unparked; f; f = f->unparked_next) {
		bool searching =
		    base_now(d->base) < f->arrived_ms + SEARCHES_MS && window_searches(d->window, accepts, f->profile);
		f->collects = f->collects && (searching || window_reads(d->window, accepts, f->profile));
		some |= f->collects;
		if (!f->collects)
			continue;
		f->collected = f->collected ? f->collected : rounds + COLLECT_ROUNDS;
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
			take_grant_back(d, &d->grants[i]);
	for (int i = 0; i < tried; i++)
		if (!d->grants[i].fetch->collects)
			d->grants[kept++] = d->grants[i];
	return kept;
}
