/* Measures how fast tasks are accepted while no worker runs. The tasks are removed afterwards. */
#include "bench/drive.h"

enum { BATCH = 1000, SUBMITTERS = 16 };

static void forget(struct bench *bench)
{
	database_run(bench->pg, "truncate tasks, requests; checkpoint");
}

void bench_submit(struct bench *bench)
{
	int single = bench->tasks / 4;
	int64_t t0 = now_ns();

	submit_bulk(bench, bench->tasks, BATCH, 1);
	report("submit_bulk", bench->tasks * 1e9 / (double)(now_ns() - t0), "tasks/s");
	forget(bench);
	t0 = now_ns();
	submit_bulk(bench, bench->tasks, BATCH, 4);
	report("submit_stream", bench->tasks * 1e9 / (double)(now_ns() - t0), "tasks/s");
	forget(bench);
	t0 = now_ns();
	submit_singly(bench, single, SUBMITTERS);
	report("submit_single16", single * 1e9 / (double)(now_ns() - t0), "tasks/s");
	forget(bench);
}
