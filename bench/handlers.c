/* Measures what the kinds of handlers cost: a backlog of tasks that do nothing, drained with each kind. */
#include "bench/drive.h"

#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void await_history(struct bench *bench)
{
	for (int64_t began = now_ns(); database_number(bench->pg, "select count(*) from tasks");) {
		if (now_ns() - began > INT64_C(120000000000))
			give_up("tasks are left");
		nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
	}
}

/* Drains `tasks` tasks, with the handlers of bench-worker or, if `line` is set, with that line of a handlers file. */
static void drain_with(struct bench *bench, const char *figure, const char *line, int tasks)
{
	const char *folder = getenv("TMPDIR");
	char path[300];
	struct crew crew;

	snprintf(path, sizeof path, "%s/bench-handlers.ini", folder && *folder ? folder : "/tmp");
	unsetenv("REEVE_BENCH_HANDLERS");
	if (line) {
		FILE *file = fopen(path, "w");

		if (!file || fprintf(file, "[handler noop]\n%s\n", line) < 0 || fclose(file) ||
		    setenv("REEVE_BENCH_HANDLERS", path, 1))
			give_up("cannot write %s", path);
	}
	submit_bulk(bench, tasks, 1000, 4);
	database_run(bench->pg, "analyze");
	database_run(bench->pg, "checkpoint");
	crew_start(&crew, bench->worker, bench->manager, bench->processes, bench->concurrency, bench->prefetch);
	usleep(300000); /* until the processes are loaded and wait */
	int64_t t0 = now_ns();

	crew_go(&crew);
	await_history(bench);
	report(figure, tasks * 1e9 / (double)(now_ns() - t0), "tasks/s");
	crew_stop(&crew);
	unlink(path);
}

void bench_handlers(struct bench *bench)
{
	char *worker = strdup(bench->worker), stdio[400];

	snprintf(stdio, sizeof stdio, "stdio = %s/bench-child", dirname(worker));
	drain_with(bench, "handlers_function", NULL, bench->tasks);
	drain_with(bench, "handlers_stdio", stdio, bench->tasks / 4 + 1);
	drain_with(bench, "handlers_exec", "exec = /bin/true", bench->tasks / 50 + 1);
	free(worker);
}
