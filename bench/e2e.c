/* Submitting and running at once: a warm, idle crew, and submitters at full speed until the history has all tasks. */
#include "bench/drive.h"

enum { SUBMITTERS = 64 };

static void measure(struct bench *bench, const char *name, int tasks, int threads)
{
	struct crew crew;
	int64_t before, runs, t0;

	crew_warm(bench, &crew, bench->processes);
	database_run(bench->pg, "checkpoint");
	before = history_count(bench);
	runs = atomic_load(&crew.shared->runs);
	t0 = now_ns();
	if (threads)
		submit_singly(bench, tasks, threads);
	else
		submit_bulk(bench, tasks, 1000, 1);
	reports_await(bench, &crew, runs + tasks);
	report(name, tasks * 1e9 / (double)(now_ns() - t0), "tasks/s");
	if (history_count(bench) != before + tasks)
		give_up("the history does not have all tasks");
	crew_stop(&crew);
	database_run(bench->pg, "analyze");
}

void bench_e2e(struct bench *bench)
{
	measure(bench, "e2e", bench->tasks, 0);
	measure(bench, "e2e_single64", bench->tasks * 2 / 5, SUBMITTERS);
}
