/* What the measurements through a manager have in common. Each prints its figures, and gives up when something fails. */
#ifndef REEVE_BENCH_DRIVE_H
#define REEVE_BENCH_DRIVE_H

#include "bench/crew.h"
#include "bench/database.h"
#include "bench/report.h"

#include <reeve/client.h>

struct bench {
	const char *manager, *conninfo;
	const char *worker; /* the program */
	int tasks;          /* of the large measurements */
	int processes, concurrency, prefetch;
	struct reeve_client *client;
	PGconn *pg; /* for looking, and for ANALYZE and CHECKPOINT */
};

void bench_drain(struct bench *bench);
void bench_e2e(struct bench *bench);
void bench_submit(struct bench *bench);
void bench_latency(struct bench *bench);
void bench_rpc(struct bench *bench);

/* Tasks in history. */
int64_t history_count(struct bench *bench);

/* After so many handlers have run in all: waits until no attempt is open, the look being one at the journal. Then the
 * history has them. */
void reports_await(struct bench *bench, const struct crew *crew, int64_t runs);

/* Starts the usual crew, lets it run a few thousand tasks and go idle. */
void crew_warm(struct bench *bench, struct crew *crew, int processes);

/* Submits so many no-op tasks in calls of `batch`, `in_flight` of them at once. */
void submit_bulk(struct bench *bench, int tasks, int batch, int in_flight);

/* Submits so many no-op tasks one a call, by so many threads. */
void submit_singly(struct bench *bench, int tasks, int threads);

#endif
