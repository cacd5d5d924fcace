/*
 * A store for tests of the core: it keeps every operation that it is given until the test says what has become of it. And
 * a core on top of it whose clock the test moves.
 *
 * Recurring operations that most tests are not about (ticks, upkeep, wakes, the loading of routes and of queues, expired
 * attempts, batches, the watch over workers and the sweep) are answered by fake_turn; the others wait in fake_take's lists, in the order they came.
 */
#ifndef REEVE_TESTS_FAKE_STORE_H
#define REEVE_TESTS_FAKE_STORE_H

#include "manager/core/core.h"

enum fake_kind {
	FAKE_SUBMIT,
	FAKE_QUEUES,
	FAKE_ROUTES,
	FAKE_PAGE,
	FAKE_STREAMS,
	FAKE_CLAIM,
	FAKE_REDELIVER,
	FAKE_REPORT,
	FAKE_EXPIRE,
	FAKE_EDIT,
	FAKE_LOOK,
	FAKE_ORDERS,
	FAKE_ENDED,
	FAKE_TICK,
	FAKE_WAKE,
	FAKE_UPKEEP,
	FAKE_ROLL,
	FAKE_FOLD,
	FAKE_WATCH,
	FAKE_LOSE,
	FAKE_SWEEP,
	FAKE_HEARTBEAT,
	FAKE_TAKE_BACK,
	FAKE_CONTROL,
	FAKE_BATCHES,
	FAKE_BATCH_MOVE,
	FAKE_SCHEDULES,
	FAKE_ADMIT,
	FAKE_LATE,
	FAKE_PIPELINES,
	FAKE_QUEUE_STOPS,
	FAKE_QUEUE_END,
	FAKE_KINDS
};

enum {
	FAKE_MANAGER = 7, /* the number of the manager under test */
	FAKE_ROUTES_MOST = 30100,
	FAKE_WORKERS_MOST = 8,
	FAKE_QUEUES_MOST = 4,
	FAKE_BATCHES_MOST = 4,
};

/* What the fake database says, for the test to change. */
struct fake {
	int64_t now_ms;         /* the monotonic clock */
	int64_t alarm_ms;       /* when the core wants to be called */
	bool dispatch_later;    /* the test calls core_dispatch itself */
	int64_t clock_us;       /* the database's clock minus the monotonic one */
	int64_t shown_us;       /* the latest time that it has told in a tick */
	int64_t estimate_us;    /* the furthest estimate that it was told while it was behind that */
	int64_t set_back_us;    /* what it showed when it was set back */
	int other_managers;     /* that live; their numbers follow on that of the one under test */
	int64_t others_seq;     /* how far their ticks have come; 0: they go on by themselves */
	int64_t own_seq;        /* how far those of the one under test have; 0: they go on */
	int workers;            /* incarnations that live: */
	struct store_beat beats[FAKE_WORKERS_MOST];
	int watch_looks, sweeps;
	int64_t assignments;    /* the newest journal row */
	struct store_queue queues[FAKE_QUEUES_MOST]; /* those with settings */
	int queue_count, queue_changes;              /* raise the second with each change */
	bool down;              /* recurring operations fail */
	int wakes;              /* sent so far */
	char woken[7900];       /* the last one */
	int expired_looks;
	int64_t schedule_next_us; /* in so much time the next tick is due */
	int schedule_looks;
	struct store_batch_due batches[FAKE_BATCHES_MOST]; /* there is something to do for these */
	int batch_count, batch_looks;
	struct store_batches_due batches_due; /* the last look for batches */
	bool arrivals;          /* the tick says that tasks are to be admitted */
	bool admitting;         /* the test answers what admits them */
	int admit_looks;
	int folds, folds_more;  /* so far; so many more find a full page */
};
extern struct fake fake;

/* A core whose first turn is over: its routes are known, the clock was read, and nothing is under way. */
struct core *fake_core(void);

/* The same with other options; those left 0 are the usual ones. */
struct core *fake_core_with(const struct core_options *options);

/* Fails what is under way, as a store that is closed, and frees the core. */
void fake_end(struct core *core);

/* A route that the database has; its number. Before fake_core, to be known from the start. */
int fake_route(const char *queue, const char *type);

/* Whether it is retired, and so not among those that are loaded. */
void fake_route_retired(int route, bool is);

/* The database's clock. */
int64_t fake_db_us(void);

/* The oldest operation of a kind that has not been answered, which is then the test's to answer; NULL: there is none. */
void *fake_take(enum fake_kind kind);

/* How many there are. */
int fake_count(enum fake_kind kind);

/* Answers one that was taken. */
void fake_ok(void *op);
void fake_fail(void *op, reeve_status code);

/* Calls the core if its alarm is due; answers what recurs. */
void fake_turn(struct core *core);

/* Moves the clock on, calling the core whenever its alarm goes off. */
void fake_pass(struct core *core, int64_t ms);

#endif
