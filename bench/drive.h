/* What the measurements through a manager share. Each prints its figures, and gives up on failure. */
#ifndef REEVE_BENCH_DRIVE_H
#define REEVE_BENCH_DRIVE_H

#include "bench/crew.h"
#include "bench/database.h"
#include "bench/report.h"

#include <reeve/client.h>

struct bench {
	const char *manager, *conninfo;
	const char *worker; /* the worker program */
	int tasks;          /* number of tasks in the large measurements */
	int processes, concurrency, prefetch;
	struct reeve_client *client;
	PGconn *pg; /* for queries, ANALYZE and CHECKPOINT */
};

void bench_drain(struct bench *bench);
void bench_e2e(struct bench *bench);
void bench_submit(struct bench *bench);
void bench_latency(struct bench *bench);
void bench_rpc(struct bench *bench);
void bench_handlers(struct bench *bench);

/* Returns the number of tasks in the history. */
int64_t history_count(struct bench *bench);

/* Waits until this many handlers have run in total, and then until no attempt is open, querying the journal every
 * millisecond; gives up after a minute. Then the history has the tasks. */
void reports_await(struct bench *bench, const struct crew *crew, int64_t runs);

/* Starts the usual crew and waits until it has run a few thousand tasks and is idle. */
void crew_warm(struct bench *bench, struct crew *crew, int processes);

/* Submits this many no-op tasks in calls of `batch` tasks, `in_flight` calls at once. */
void submit_bulk(struct bench *bench, int tasks, int batch, int in_flight);

/* Submits this many no-op tasks, one per call, from this many threads. */
void submit_singly(struct bench *bench, int tasks, int threads);

#endif
