/* A table of chores, each with its interval; one that is still under way is not begun again. */
#include "manager/core/upkeep.h"

#include "common/log.h"
#include "manager/core/arrivals.h"
#include "manager/core/cluster.h"
#include "manager/core/queues.h"
#include "manager/core/report.h"
#include "manager/core/routes.h"
#include "manager/core/sessions.h"
#include "manager/core/window.h"

#include <stdlib.h>

enum { EXPIRE_ROWS = 200, AGAIN_MS = 10, TABLES_AGAIN_MS = 1000, JUMP_MS = 250, STALE_MS = 500 };

/* Our clock counts whole milliseconds: without this the reckoning could be ahead, and a task be claimed before its time. */
enum { ROUNDING_MS = 1 };

struct upkeep;

struct chore {
	void (*begin)(struct upkeep *upkeep);
	int64_t every_ms;
};

enum chore_name { CHORE_TICK, CHORE_EXPIRE, CHORE_TABLES, CHORE_ROUTES, CHORE_DEADLINES, CHORE_SESSIONS, CHORE_ROLL, CHORE_FOLD, CHORES };

struct upkeep {
	struct core *core;
	int64_t next_ms[CHORES];
	bool busy[CHORES];
	int64_t reading_us, reading_ms; /* the database's clock, and when it was read */
	int64_t steady_ms;              /* since when ticks have come without a gap */
	int64_t tick_ms;                /* when the last one came */
	int64_t sent_ms;                /* when the one under way was sent */
	int64_t told_us, told_from_ms, told_to_ms; /* the clock at the last tick: read between these two times */
	int64_t set_back_us; /* the clock at the last tick that found it set back */
	/* Attempts up to this journal row were given out before a jump of the clock, a gap or this manager's time: they have
	 * been watched since then. */
	int64_t before_assignment, watched_ms;
	struct store_place expired; /* so far the journal has been looked through for expired attempts */
	struct store_tick tick;
	struct store_expire expire;
	struct store_upkeep tables;
	struct store_roll roll;
	struct store_fold fold;
};

int64_t upkeep_database_us(const struct upkeep *u)
{
	if (!u->reading_us)
		return 0;
	return u->reading_us + (core_now(u->core) - u->reading_ms) * 1000;
}

int64_t upkeep_clock_us(const struct upkeep *u)
{
	if (!u->told_us)
		return 0;
	return u->told_us + (core_now(u->core) - u->told_to_ms - ROUNDING_MS) * 1000;
}

int64_t upkeep_set_back_us(const struct upkeep *u)
{
	return u->set_back_us;
}

/* Whether the database's clock has run differently from ours between the last two ticks, by more than it took to read it
 * and a little. `jump_ms`: by how much. */
static bool clock_jumped(const struct upkeep *u, int64_t now_us, int64_t from_ms, int64_t to_ms, int64_t *jump_ms)
{
	int64_t passed_ms = (now_us - u->told_us) / 1000;
	int64_t least_ms = from_ms - u->told_to_ms, most_ms = to_ms - u->told_from_ms;
	*jump_ms = passed_ms > most_ms ? passed_ms - most_ms : passed_ms < least_ms ? passed_ms - least_ms : 0;
	return *jump_ms > JUMP_MS || *jump_ms < -JUMP_MS;
}

/* What was given out so far is watched from now on: how long it has been running is not known any more. */
static void watch_anew(struct upkeep *u, int64_t now)
{
	u->before_assignment = u->tick.newest_assignment;
	u->watched_ms = now;
}

/* Some manager has seen the clock ahead of what it shows: what was done then goes by the furthest estimate, also here, until
 * the clock has caught up. */
static void follow_shared_estimate(struct upkeep *u, int64_t now)
{
	int64_t least_us = u->tick.ahead_us ? u->tick.ahead_us : u->tick.now_us;
	int64_t ahead_ms = (upkeep_database_us(u) - least_us) / 1000;
	if (u->tick.ahead_us ? ahead_ms >= -JUMP_MS : ahead_ms <= now - u->sent_ms + JUMP_MS)
		return;
	u->reading_us = least_us;
	u->reading_ms = now + ROUNDING_MS;
	if (!u->tick.ahead_us)
		return;
	if (!u->set_back_us)
		u->set_back_us = u->tick.set_back_us;
	window_rewind_all(u->core->window);
}

static void heed_clock(struct upkeep *u, int64_t now)
{
	int64_t jump_ms = 0;
	bool jumped = false;
	if (u->told_us && clock_jumped(u, u->tick.now_us, u->sent_ms, now, &jump_ms)) {
		log_warn(NULL, "the database's clock has jumped by %lld ms", (long long)jump_ms);
		watch_anew(u, now);
		jumped = true;
		if (jump_ms < 0)
			u->set_back_us = u->tick.now_us;
	}
	u->told_us = u->tick.now_us;
	u->told_from_ms = u->sent_ms;
	u->told_to_ms = now;
	/* Not back: what was due stays due when the clock is set back. */
	if (u->tick.now_us > upkeep_database_us(u)) {
		u->reading_us = u->tick.now_us;
		u->reading_ms = now + ROUNDING_MS;
	}
	if (jumped && jump_ms < 0)
		window_rewind_all(u->core->window);
	else if (jumped)
		window_clock_changed(u->core->window);
	follow_shared_estimate(u, now);
}

static void on_tick(struct store_op *op, const struct reeve_error *error)
{
	struct upkeep *u = (struct upkeep *)((char *)op - offsetof(struct upkeep, tick));
	int64_t now = core_now(u->core);
	u->busy[CHORE_TICK] = false;
	if (error)
		return;
	if (u->tick.schema && u->core->host.outdated)
		u->core->host.outdated(u->core->host.arg, u->tick.schema);
	/* A gap longer than a heartbeat: the database was away, or this process was stopped. */
	if (!u->steady_ms || now - u->tick_ms > u->core->options.heartbeat_ms)
		u->steady_ms = now;
	if (!u->tick_ms)
		watch_anew(u, now);
	u->tick_ms = now;
	heed_clock(u, now);
	cluster_ticked(u->core->cluster, u->tick.peers, u->tick.peer_count);
	routes_fingerprint(u->core->routes, u->tick.routes);
	queues_fingerprint(u->core->queues, u->tick.queues);
}

static void tick_begin(struct upkeep *u)
{
	u->busy[CHORE_TICK] = true;
	u->sent_ms = core_now(u->core);
	u->tick = (struct store_tick){.op.done = on_tick, .estimate_us = upkeep_database_us(u)};
	store_tick(u->core->store, &u->tick);
}

/* There is more to do than a page of it. */
static void go_on(struct upkeep *u, enum chore_name chore, int64_t in_ms)
{
	u->next_ms[chore] = core_now(u->core) + in_ms;
	core_alarm(u->core, u->next_ms[chore]);
}

/* It is over for now; if it went well and there is `more` to do, it begins again in so many milliseconds. */
static void chore_done(struct upkeep *u, enum chore_name chore, const struct reeve_error *error, bool more, int64_t in_ms)
{
	u->busy[chore] = false;
	if (!error && more)
		go_on(u, chore, in_ms);
}

static const struct store_place beginning = {STORE_TIME_BEGIN, 0};

static void on_expired(struct store_op *op, const struct reeve_error *error)
{
	struct upkeep *u = (struct upkeep *)((char *)op - offsetof(struct upkeep, expire));
	chore_done(u, CHORE_EXPIRE, error, u->expire.more, AGAIN_MS);
	u->expired = u->expire.more ? u->expire.last : beginning;
	if (error)
		return;
	u->core->counters.expired += u->expire.count;
	for (int i = 0; i < u->expire.count; i++)
		log_warn(NULL, "task %lld: its attempt expired and was taken back", (long long)u->expire.results[i].id);
	report_settle(u->core, op, u->expire.results, u->expire.count);
}

/* After an outage only when a fresh lease has passed: a worker that lives may be about to report. */
static void expire_begin(struct upkeep *u)
{
	int64_t now = core_now(u->core);
	if (!u->steady_ms || now - u->tick_ms > u->core->options.heartbeat_ms ||
	    now - u->steady_ms < u->core->options.lease_ms)
		return;
	u->busy[CHORE_EXPIRE] = true;
	u->expire = (struct store_expire){
	    .op.done = on_expired,
	    .limit = EXPIRE_ROWS,
	    .after = u->expired,
	    .now_us = u->told_us + (now - u->told_from_ms) * 1000,
	    .before_assignment = u->before_assignment,
	    .watched_ms = now - u->watched_ms,
	};
	store_expire(u->core->store, &u->expire);
}

static void on_tables(struct store_op *op, const struct reeve_error *error)
{
	struct upkeep *u = (struct upkeep *)((char *)op - offsetof(struct upkeep, tables));
	chore_done(u, CHORE_TABLES, error, u->tables.more, TABLES_AGAIN_MS);
}

static void tables_begin(struct upkeep *u)
{
	u->busy[CHORE_TABLES] = true;
	u->tables = (struct store_upkeep){.op.done = on_tables};
	store_upkeep(u->core->store, &u->tables);
}

static void on_rolled(struct store_op *op, const struct reeve_error *error)
{
	struct upkeep *u = (struct upkeep *)((char *)op - offsetof(struct upkeep, roll));
	chore_done(u, CHORE_ROLL, error, u->roll.more, AGAIN_MS);
}

/* The statistics of executions. */
static void roll_begin(struct upkeep *u)
{
	u->busy[CHORE_ROLL] = true;
	u->roll = (struct store_roll){.op.done = on_rolled};
	store_roll(u->core->store, &u->roll);
}

static void on_folded(struct store_op *op, const struct reeve_error *error)
{
	struct upkeep *u = (struct upkeep *)((char *)op - offsetof(struct upkeep, fold));
	chore_done(u, CHORE_FOLD, error, u->fold.more, AGAIN_MS);
	if (!error && u->fold.arrivals)
		arrivals_kick(u->core->arrivals);
	if (!error && u->fold.callbacks)
		core_callbacks(u->core);
}

/* What is kept counted of tasks: who reads it adds up what this has not yet. */
static void fold_begin(struct upkeep *u)
{
	u->busy[CHORE_FOLD] = true;
	u->fold = (struct store_fold){.op.done = on_folded};
	store_fold(u->core->store, &u->fold);
}

static void routes_begin(struct upkeep *u)
{
	routes_reload(u->core->routes);
}

static void deadlines_begin(struct upkeep *u)
{
	store_expire_waiting(u->core->store);
}

static void sessions_begin(struct upkeep *u)
{
	sessions_turn(u->core->sessions, core_now(u->core));
}

static const struct chore chores[CHORES] = {
    [CHORE_TICK] = {tick_begin, 1000},
    [CHORE_EXPIRE] = {expire_begin, 500},
    [CHORE_TABLES] = {tables_begin, 60 * 1000},
    [CHORE_ROUTES] = {routes_begin, 60 * 1000},
    [CHORE_DEADLINES] = {deadlines_begin, 100},
    [CHORE_SESSIONS] = {sessions_begin, 60 * 1000},
    [CHORE_ROLL] = {roll_begin, 30 * 1000},
    [CHORE_FOLD] = {fold_begin, 1000},
};

struct upkeep *upkeep_create(struct core *core)
{
	struct upkeep *u = mem_calloc(1, sizeof *u);
	u->core = core;
	u->expired = beginning;
	return u;
}

void upkeep_destroy(struct upkeep *u)
{
	free(u);
}

/* A tick must come well within a heartbeat, or the watch over gaps would begin anew with each. */
static int64_t interval(const struct upkeep *u, int chore)
{
	int64_t every = chores[chore].every_ms, half = u->core->options.heartbeat_ms / 2;
	return chore == CHORE_TICK && half < every ? half : every;
}

bool upkeep_fresh(const struct upkeep *u)
{
	return u->tick_ms && core_now(u->core) - u->tick_ms <= 2 * interval(u, CHORE_TICK) + STALE_MS;
}

void upkeep_tables(struct upkeep *u)
{
	go_on(u, CHORE_TABLES, 0);
}

int64_t upkeep_turn(struct upkeep *u, int64_t now_ms)
{
	int64_t next = INT64_MAX;
	for (int i = 0; i < CHORES; i++) {
		if (!u->busy[i] && now_ms >= u->next_ms[i]) {
			u->next_ms[i] = now_ms + interval(u, i);
			chores[i].begin(u);
		}
		int64_t again = u->next_ms[i] > now_ms ? u->next_ms[i] : now_ms + interval(u, i);
		next = again < next ? again : next;
	}
	return next;
}
