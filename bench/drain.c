/* Measures how fast a crew drains a full backlog: from its start until the history has all tasks. */
#include "bench/drive.h"

#include <unistd.h>

void bench_drain(struct bench *bench)
{
	struct crew crew;
	int64_t before;

	submit_bulk(bench, bench->tasks, 1000, 4);
	database_run(bench->pg, "analyze");
	database_run(bench->pg, "checkpoint");
	before = history_count(bench);
	crew_start(&crew, bench->worker, bench->manager, bench->processes, bench->concurrency, bench->prefetch);
	usleep(300000); /* until the processes are loaded and wait */
	int64_t t0 = now_ns();

	crew_go(&crew);
	crew_await(&crew, 1);
	int64_t first = now_ns() - t0;

	reports_await(bench, &crew, bench->tasks);
	int64_t took = now_ns() - t0;

	if (history_count(bench) != before + bench->tasks)
		give_up("the history does not have all tasks");

	report("drain", bench->tasks * 1e9 / (double)took, "tasks/s");
	report("drain_first_ms", (double)first / 1e6, "ms");
	report("drain_worker_cpu", crew_stop(&crew) * 1e6 / bench->tasks, "ms/1000");
	database_run(bench->pg, "analyze");
}
