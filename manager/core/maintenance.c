/* The jobs heartbeat, expire, tables, statistics, counts, depths and deadlines. The manager's heartbeat also passes the
 * database's clock to db_clock. */
#include "manager/core/maintenance.h"

#include "common/log.h"
#include "manager/core/cluster.h"
#include "manager/core/db_clock.h"
#include "manager/core/queues.h"
#include "manager/core/ready.h"
#include "manager/core/report.h"
#include "manager/core/routes.h"

#include <stdlib.h>

enum { HEARTBEAT_MAX_MS = 1000, EXPIRE_ROWS = 200, STALE_MS = 500 };

struct maintenance {
	struct base *base;
	struct maintenance_neighbours to;
	int64_t heartbeat_every_ms;
	int64_t stable_ms;       /* since when heartbeats have succeeded without a gap */
	int64_t heartbeat_ok_ms; /* when the last one succeeded */
	int64_t sent_ms;         /* when the one in flight was sent */
	/* Attempts up to this journal row were assigned before the last jump of the clock, or before this manager started.
	 * It has observed them since watched_ms. */
	int64_t before_assignment, watched_ms;
	struct store_place expired; /* the place in the journal up to which expired attempts have been searched */
	struct store_manager_heartbeat heartbeat;
	struct store_expire expire;
	struct store_maintenance tables;
	struct store_roll roll;
	struct store_fold fold;
	struct store_depths depths;
};

/* Begins to observe all attempts assigned so far from now on, because it is not known any more how long they have been
 * running. */
static void restart_watch(struct maintenance *u, int64_t now)
{
	u->before_assignment = u->heartbeat.newest_assignment;
	u->watched_ms = now;
}

static void on_heartbeat(struct store_op *op, const struct reeve_error *error)
{
	struct maintenance *u = (struct maintenance *)((char *)op - offsetof(struct maintenance, heartbeat));
	int64_t now = base_now(u->base);
	jobs_done(u->base->jobs, JOB_HEARTBEAT, error, false);
	if (error)
		return;
	if (u->heartbeat.schema && u->base->host.outdated)
		u->base->host.outdated(u->base->host.arg, u->heartbeat.schema);
	/* The gap is longer than a heartbeat interval: the database was unreachable, or this process was stopped. */
	if (!u->stable_ms || now - u->heartbeat_ok_ms > u->base->options.heartbeat_ms)
		u->stable_ms = now;
	if (!u->heartbeat_ok_ms)
		restart_watch(u, now);
	u->heartbeat_ok_ms = now;
	unsigned changed = db_clock_read(u->to.clock, &u->heartbeat, u->sent_ms);
	if (changed & DB_CLOCK_JUMPED) {
		restart_watch(u, now);
		ready_clock_changed(u->to.cache);
	}
	if (changed & DB_CLOCK_BACK)
		ready_rewind_all(u->to.cache);
	cluster_on_heartbeat(u->to.cluster, u->heartbeat.peers, u->heartbeat.peer_count);
	routes_fingerprint(u->to.routes, u->heartbeat.routes);
	queues_fingerprint(u->to.queues, u->heartbeat.queues);
}

static bool heartbeat(void *arg)
{
	struct maintenance *u = arg;
	u->sent_ms = base_now(u->base);
	u->heartbeat = (struct store_manager_heartbeat){.op.done = on_heartbeat, .estimate_us = db_clock_us(u->to.clock)};
	store_manager_heartbeat(u->base->store, &u->heartbeat);
	return true;
}

static const struct store_place beginning = {STORE_TIME_BEGIN, 0};

static void on_expired(struct store_op *op, const struct reeve_error *error)
{
	struct maintenance *u = (struct maintenance *)((char *)op - offsetof(struct maintenance, expire));
	jobs_done(u->base->jobs, JOB_EXPIRE, error, u->expire.more);
	u->expired = u->expire.more ? u->expire.last : beginning;
	if (error)
		return;
	u->base->counters.expired += u->expire.count;
	for (int i = 0; i < u->expire.count; i++)
		log_warn(NULL, "task %lld: its attempt expired and was reclaimed", (long long)u->expire.results[i].id);
	report_apply(u->to.reports, op, u->expire.results, u->expire.count, "");
}

/* Reclaims expired attempts. After an outage it waits for a full lease, because a live worker may be about to
 * report. */
static bool expire(void *arg)
{
	struct maintenance *u = arg;
	int64_t now = base_now(u->base);
	if (!u->stable_ms || now - u->heartbeat_ok_ms > u->base->options.heartbeat_ms ||
	    now - u->stable_ms < u->base->options.lease_ms)
		return false;
	u->expire = (struct store_expire){
	    .op.done = on_expired,
	    .limit = EXPIRE_ROWS,
	    .after = u->expired,
	    .now_us = db_clock_latest_us(u->to.clock),
	    .before_assignment = u->before_assignment,
	    .watched_ms = now - u->watched_ms,
	};
	store_expire(u->base->store, &u->expire);
	return true;
}

static void on_tables(struct store_op *op, const struct reeve_error *error)
{
	struct maintenance *u = (struct maintenance *)((char *)op - offsetof(struct maintenance, tables));
	jobs_done(u->base->jobs, JOB_TABLES, error, u->tables.more);
}

static bool tables(void *arg)
{
	struct maintenance *u = arg;
	u->tables = (struct store_maintenance){.op.done = on_tables};
	store_maintenance(u->base->store, &u->tables);
	return true;
}

static void on_rolled(struct store_op *op, const struct reeve_error *error)
{
	struct maintenance *u = (struct maintenance *)((char *)op - offsetof(struct maintenance, roll));
	jobs_done(u->base->jobs, JOB_STATISTICS, error, u->roll.more);
}

/* Aggregates the statistics of executions. */
static bool statistics(void *arg)
{
	struct maintenance *u = arg;
	u->roll = (struct store_roll){.op.done = on_rolled};
	store_roll(u->base->store, &u->roll);
	return true;
}

static void on_folded(struct store_op *op, const struct reeve_error *error)
{
	struct maintenance *u = (struct maintenance *)((char *)op - offsetof(struct maintenance, fold));
	jobs_done(u->base->jobs, JOB_COUNTS, error, u->fold.more);
	if (!error && u->fold.inbox)
		jobs_ask(u->base->jobs, JOB_INBOX);
	if (!error && u->fold.callbacks)
		jobs_ask(u->base->jobs, JOB_CALLBACKS);
}

/* Folds counts of tasks. Readers add what is not folded yet. */
static bool counts(void *arg)
{
	struct maintenance *u = arg;
	u->fold = (struct store_fold){.op.done = on_folded};
	store_fold(u->base->store, &u->fold);
	return true;
}

static void on_sampled(struct store_op *op, const struct reeve_error *error)
{
	struct maintenance *u = (struct maintenance *)((char *)op - offsetof(struct maintenance, depths));
	jobs_done(u->base->jobs, JOB_DEPTHS, error, false);
}

static bool depths(void *arg)
{
	struct maintenance *u = arg;
	u->depths = (struct store_depths){.op.done = on_sampled, .queues = u->base->traffic.limit};
	store_depths(u->base->store, &u->depths);
	return true;
}

static bool deadlines(void *arg)
{
	struct maintenance *u = arg;
	store_expire_waiting(u->base->store);
	return false;
}

struct maintenance *maintenance_create(struct base *base, const struct maintenance_neighbours *neighbours)
{
	struct maintenance *u = mem_calloc(1, sizeof *u);
	u->base = base;
	u->to = *neighbours;
	u->expired = beginning;
	/* The manager's heartbeats must be well below the heartbeat interval: otherwise each would look like the end of a
	 * gap. */
	u->heartbeat_every_ms =
	    base->options.heartbeat_ms / 2 < HEARTBEAT_MAX_MS ? base->options.heartbeat_ms / 2 : HEARTBEAT_MAX_MS;
	jobs_every(base->jobs, JOB_HEARTBEAT, u->heartbeat_every_ms);
	jobs_bind(base->jobs, JOB_HEARTBEAT, heartbeat, u);
	jobs_bind(base->jobs, JOB_EXPIRE, expire, u);
	jobs_bind(base->jobs, JOB_TABLES, tables, u);
	jobs_bind(base->jobs, JOB_STATISTICS, statistics, u);
	jobs_bind(base->jobs, JOB_COUNTS, counts, u);
	jobs_bind(base->jobs, JOB_DEPTHS, depths, u);
	jobs_bind(base->jobs, JOB_DEADLINES, deadlines, u);
	return u;
}

void maintenance_destroy(struct maintenance *u)
{
	free(u);
}

bool maintenance_fresh(const struct maintenance *u)
{
	return u->heartbeat_ok_ms && base_now(u->base) - u->heartbeat_ok_ms <= 2 * u->heartbeat_every_ms + STALE_MS;
}
