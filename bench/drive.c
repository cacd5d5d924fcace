/*
 * Runs a measurement through a running manager.
 *
 *	bench-drive NAME CONNINFO MANAGER WORKER-PROGRAM TASKS PROCESSES CONCURRENCY PREFETCH
 *
 * NAME is drain, e2e, submit, latency, rpc or handlers. CONNINFO is the manager's database, as a user who may run
 *CHECKPOINT.
 */
#include "bench/drive.h"

#include <stdlib.h>
#include <time.h>

int64_t history_count(struct bench *bench)
{
	return database_number(bench->pg, "select count(*) from task_history");
}

void reports_await(struct bench *bench, const struct crew *crew, int64_t runs)
{
	crew_await(crew, runs);
	for (int64_t began = now_ns();
	     database_number(bench->pg, "select count(*) from assignments where closed_at is null");) {
		if (now_ns() - began > INT64_C(60000000000))
			give_up("attempts stay open");
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	}
}

void crew_warm(struct bench *bench, struct crew *crew, int processes)
{
	enum { WARM = 5000 };

	crew_start(crew, bench->worker, bench->manager, processes, bench->concurrency, bench->prefetch);
	crew_go(crew);
	submit_bulk(bench, WARM, 1000, 4);
	reports_await(bench, crew, WARM);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(struct bench *);
	} all[] = {{"drain", bench_drain}, {"e2e", bench_e2e}, {"submit", bench_submit}, {"latency", bench_latency},
	    {"rpc", bench_rpc}, {"handlers", bench_handlers}};
	struct reeve_failure failure;

	if (argc != 9)
		give_up("usage: bench-drive NAME CONNINFO MANAGER WORKER-PROGRAM TASKS PROCESSES CONCURRENCY PREFETCH");
	struct bench bench = {
	    .conninfo = argv[2],
	    .manager = argv[3],
	    .worker = argv[4],
	    .tasks = atoi(argv[5]),
	    .processes = atoi(argv[6]),
	    .concurrency = atoi(argv[7]),
	    .prefetch = atoi(argv[8]),
	};

	if (bench.tasks < 1 || bench.processes < 1 || bench.processes > CREW_MAX)
		give_up("TASKS must be 1 or more, PROCESSES 1 to %d", CREW_MAX);
	bench.client = reeve_client_create(&(struct reeve_client_options){.managers = bench.manager}, &failure);
	if (!bench.client || !reeve_client_ready(bench.client, &failure))
		give_up("%s", failure.message);
	bench.pg = database_connect(bench.conninfo, false, false);
	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		if (strcmp(all[i].name, argv[1]))
			continue;
		all[i].run(&bench);
		reeve_client_destroy(bench.client);
		PQfinish(bench.pg);
		return 0;
	}
	give_up("no measurement %s", argv[1]);
}
