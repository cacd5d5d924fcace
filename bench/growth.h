/* What bench-growth measures: the statements of the jobs, with their parameters. */
#ifndef REEVE_BENCH_GROWTH_H
#define REEVE_BENCH_GROWTH_H

#include "bench/database.h"
#include "manager/jobs/jobs.h"

struct bench {
	/* set up like the manager's connections; `watch` reads the statistics */
	PGconn *maintenance, *hot, *hashed, *plain, *watch;
	struct params params;
	const char *label;
	int64_t manager, newest_task, first_alive, batch, callback;
	int64_t due_batch, releasing_batch, failing_batch;
	char partition[64];
	int64_t key, id;                 /* the position of a job that works page by page; at the begin when it has ended */
	int64_t expired_key, expired_id; /* where expired_find ended */
};

/* The result of a call. */
struct made {
	int64_t rows;
	bool more;
};

/* A statement of a job. */
struct measured {
	enum job_name job; /* JOBS: not a job, but done at heartbeats of workers */
	const char *name;
	enum sql_id statement;
	void (*add)(struct bench *b);
	struct made (*end)(struct bench *b, const PGresult *result); /* NULL: repeat the call REPEATS times */
	enum { MAINTENANCE, HOT, HASHED, PLAIN } session;
};

extern const struct measured growth_measured[];
extern const int growth_measured_count;

/* Returns true if a job is measured, or reads and writes no table, or the same as another job. */
bool growth_knows(enum job_name job);

#endif
