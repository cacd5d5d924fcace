/*
 * A worker process for measurements: C functions that do nothing, or record when they started.
 *
 *	bench-worker MANAGER SHARED CONCURRENCY PREFETCH
 *
 * It starts when its standard input ends. SHARED is the file described in crew.h. With REEVE_BENCH_HANDLERS it runs the
 * programs of that handlers file instead.
 */
#include "bench/crew.h"

#include <fcntl.h>
#include <reeve/worker.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static struct crew_shared *shared;

static int noop(const struct reeve_attempt *attempt, struct reeve_outcome *outcome)
{
	(void)attempt, (void)outcome;
	atomic_fetch_add_explicit(&shared->runs, 1, memory_order_relaxed);
	return 0;
}

static int stamp(const struct reeve_attempt *attempt, struct reeve_outcome *outcome)
{
	struct timespec t;
	int number;

	clock_gettime(CLOCK_MONOTONIC, &t);
	if (sscanf(attempt->details, "{\"user_id\":%d", &number) != 1 || number < 0 || number >= STAMPS)
		return reeve_outcome_fatal(outcome, "details", "no number in the details");
	atomic_store(&shared->started[number], t.tv_sec * INT64_C(1000000000) + t.tv_nsec);
	atomic_fetch_add(&shared->runs, 1);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc != 5)
		return 2;
	int fd = open(argv[2], O_RDWR | O_CLOEXEC);

	if (fd < 0)
		return 2;
	shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (shared == MAP_FAILED)
		return 2;
	const char *handlers = getenv("REEVE_BENCH_HANDLERS");
	struct reeve_worker *worker = reeve_worker_create(&(struct reeve_worker_options){
	    .managers = argv[1], .concurrency = atoi(argv[3]), .prefetch = atoi(argv[4]), .no_supervisor = !handlers});
	char c;

	if (handlers) {
		reeve_worker_handle_file(worker, handlers);
	} else {
		reeve_worker_handle(worker, "noop", noop, NULL);
		reeve_worker_handle(worker, "stamp", stamp, NULL);
	}
	reeve_worker_stop_on_signals(worker);
	while (read(0, &c, 1) > 0)
		;
	int code = reeve_worker_run(worker);

	if (code)
		fprintf(stderr, "bench-worker: %s\n", reeve_worker_error(worker));
	reeve_worker_destroy(worker);
	return code;
}
