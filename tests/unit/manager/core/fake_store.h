/*
 * A fake store for tests of the core: it keeps every operation until the test answers it. It also has a core on top,
 * whose clock the test moves.
 *
 * fake_turn answers the recurring operations that most tests are not about: heartbeats, maintenance, notifications,
 * loads of routes and queues, expired attempts, batches, the watch over workers, and the sweep. The other operations
 * wait for fake_take, in order of arrival.
 */
#ifndef REEVE_TESTS_FAKE_STORE_H
#define REEVE_TESTS_FAKE_STORE_H

#include "manager/core/core.h"

enum fake_kind {
	FAKE_SUBMIT,
	FAKE_QUEUES,
	FAKE_ROOMS,
	FAKE_PICK,
	FAKE_ROUTES,
	FAKE_PAGE,
	FAKE_STREAMS,
	FAKE_CLAIM,
	FAKE_REDELIVER,
	FAKE_REPORT,
	FAKE_EXPIRE,
	FAKE_EDIT,
	FAKE_POLL,
	FAKE_COMMANDS,
	FAKE_ENDED,
	FAKE_MANAGER_HEARTBEAT,
	FAKE_NOTIFY,
	FAKE_MAINTENANCE,
	FAKE_ROLL,
	FAKE_FOLD,
	FAKE_WATCH,
	FAKE_LOSE,
	FAKE_SWEEP,
	FAKE_HEARTBEAT,
	FAKE_REQUEUE,
	FAKE_BATCHES,
	FAKE_BATCH_MOVE,
	FAKE_SCHEDULES,
	FAKE_INGEST,
	FAKE_RESCAN,
	FAKE_PIPELINES,
	FAKE_QUEUE_STOPS,
	FAKE_QUEUE_END,
	FAKE_READ,
	FAKE_REGISTER,
	FAKE_LEAVE,
	FAKE_EXTEND,
	FAKE_REMARKS,
	FAKE_PROGRESS,
	FAKE_METRICS,
	FAKE_OWN,
	FAKE_FOREIGN,
	FAKE_ACTIVITY,
	FAKE_DEPTHS,
	FAKE_FLEET,
	FAKE_KINDS
};

enum {
	FAKE_MANAGER = 7, /* the number of the manager under test */
	FAKE_ROUTES_MAX = 30100,
	FAKE_WORKERS_MAX = 2500,
	FAKE_QUEUES_MAX = 4,
	FAKE_BATCHES_MAX = 4,
};

/* The data of the fake database, for the test to change. */
struct fake {
	int64_t now_ms;      /* the monotonic clock */
	int64_t alarm_ms;    /* when the core's jobs must run next */
	bool dispatch_later; /* the test calls core_dispatch itself */
	int64_t clock_us;    /* the database's clock minus the monotonic one */
	int64_t shown_us;    /* the latest time that the clock has shown in a heartbeat */
	int64_t estimate_us; /* the highest estimate in a heartbeat while the clock was behind shown_us */
	int64_t set_back_us; /* the time that the clock showed when it was set back */
	int other_managers;  /* number of other live managers; their numbers are next to that of the one under test */
	int own_place;       /* how many of them precede it */
	int64_t others_seq;  /* sequence number of their heartbeats, if these have stopped; 0: it increases */
	int64_t own_seq;     /* the same for the manager under test */
	int workers;         /* number of live incarnations: */
	struct store_beat beats[FAKE_WORKERS_MAX];
	int watch_polls, sweeps;
	int64_t assignments;                        /* the newest journal row */
	struct store_queue queues[FAKE_QUEUES_MAX]; /* those with settings */
	int queue_count, queue_changes;             /* raise the second with each change */
	bool down;                                  /* recurring operations fail */
	bool full;                                  /* the store refuses callers' operations at once */
	int notifier;                               /* number of notifications sent */
	char woken[7900];                           /* the last notification */
	int expired_polls;
	int64_t schedule_next_us; /* time until the next schedule is due */
	int schedule_polls;
	struct store_batch_due batches[FAKE_BATCHES_MAX]; /* these batches have something to do */
	int batch_count, batch_polls;
	struct store_batches_due batches_due; /* the last query for batches */
	bool inbox;                           /* the counts job finds tasks in the inbox */
	bool ingesting;                       /* the test answers the operations that ingest tasks */
	bool adding;                          /* … and those that add to the activity */
	int ingest_polls;
	int folds, folds_more; /* number of folds; this many more find a full page */
};
extern struct fake fake;

/* Loads of the queues' settings wait until the test sets it to false. May be set before fake_core. */
extern bool fake_settings_later;

/* Creates a core whose first run is over: its routes are known, the clock was read, and nothing is in flight. */
struct core *fake_core(void);

/* The same with other options; those that are 0 have the usual values. */
struct core *fake_core_with(const struct core_options *options);

/* Creates a core with a lease of 15 s and heartbeats of 4 s, and a worker, incarnation 5, that it has seen once. */
struct core *fake_core_with_worker(void);

/* Fails the operations in flight, as a store does when it is closed, and frees the core. */
void fake_end(struct core *core);

/* Adds a route to the database and returns its number. Call it before fake_core if the route must be known from the
 * start. */
int fake_route(const char *queue, const char *type);

/* Sets whether the route is retired; a load does not include retired routes. */
void fake_route_retired(int route, bool is);

/* Returns the time of the database's clock. */
int64_t fake_db_us(void);

/* Returns the oldest unanswered operation of a kind, which the test must then answer; NULL: there is none. */
void *fake_take(enum fake_kind kind);

/* Returns the number of unanswered operations of a kind. */
int fake_count(enum fake_kind kind);

/* Answer an operation from fake_take. */
void fake_ok(void *op);
void fake_fail(void *op, reeve_status code);

/* Runs the core's jobs if their timer is due, and answers the recurring operations. */
void fake_turn(struct core *core);

/* Moves the clock forward; runs the core's jobs whenever their timer is due. */
void fake_pass(struct core *core, int64_t ms);

#endif
