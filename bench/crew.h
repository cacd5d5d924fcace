/* Worker processes to measure with, and the memory in which they tell what they do. */
#ifndef REEVE_BENCH_CREW_H
#define REEVE_BENCH_CREW_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { STAMPS = 1000 };

/* Shared by all processes of a crew. */
struct crew_shared {
	_Atomic int64_t runs;             /* handlers that have run, of any type */
	_Atomic int64_t started[STAMPS];  /* now_ns() when the handler of a task of type "stamp" began, by its number */
};

enum { CREW_MOST = 16 };

struct crew {
	struct crew_shared *shared;
	char path[200];
	int count;
	pid_t pids[CREW_MOST];
	int go[CREW_MOST]; /* closed: the process begins */
};

/* Starts `count` processes of the program `worker` that wait to be told to begin. */
void crew_start(
    struct crew *crew, const char *worker, const char *manager, int count, int concurrency, int prefetch);

/* Lets them register and run tasks. */
void crew_go(struct crew *crew);

/* Waits until so many handlers have run in all; gives up after a minute without any. */
void crew_await(const struct crew *crew, int64_t runs);

/* Ends them by SIGTERM and waits. Returns the CPU time they used, in seconds. */
double crew_stop(struct crew *crew);

#endif
