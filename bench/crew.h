/* Worker processes for measurements, and the shared memory in which they report their progress. */
#ifndef REEVE_BENCH_CREW_H
#define REEVE_BENCH_CREW_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { STAMPS = 1000 };

/* Shared by all processes of a crew. */
struct crew_shared {
	_Atomic int64_t runs;            /* finished handlers, of any type */
	_Atomic int64_t started[STAMPS]; /* now_ns() at the start of each handler of type "stamp", by the task's number */
};

enum { CREW_MAX = 256 };

struct crew {
	struct crew_shared *shared;
	char path[200];
	int count;
	pid_t pids[CREW_MAX];
	int go[CREW_MAX]; /* closing it lets the process begin */
};

/* Starts `count` processes of the program `worker`, which wait for crew_go. */
void crew_start(struct crew *crew, const char *worker, const char *manager, int count, int concurrency, int prefetch);

/* Lets them register and run tasks. */
void crew_go(struct crew *crew);

/* Waits until this many handlers have run in total. Gives up after a minute without progress. */
void crew_await(const struct crew *crew, int64_t runs);

/* Ends the processes with SIGTERM and waits for them. Returns their CPU time in seconds. */
double crew_stop(struct crew *crew);

#endif
