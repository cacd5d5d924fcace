/*
 * A worker whose C functions take long, for tests of what happens to them when its lease ends.
 *
 *	lease-worker --manager URL[,URL] [--name NAME] [--concurrency N] [--no-supervisor] --counting FILE
 *
 * It runs tasks of two types. `count` counts in FILE (struct counting, counting.h; created if it does not exist) until
 * FILE has `finish` set, or until it is asked to stop and FILE has `cancellable` set. The details of `extend` are a
 *number: that many times, it asks to run two seconds longer and then sleeps half a second. Its result is how often that
 *was granted.
 */
#include "tests/tools/counting.h"

#include <fcntl.h>
#include <getopt.h>
#include <reeve/worker.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { POLL_US = 500 };

static int count(const struct reeve_attempt *attempt, struct reeve_outcome *outcome)
{
	struct counting *counting = attempt->user_data;

	atomic_fetch_add(&counting->begun, 1);
	while (!atomic_load(&counting->finish)) {
		if (atomic_load(&counting->cancellable) && reeve_attempt_cancelled(attempt))
			return reeve_outcome_fail(outcome, "stopped", "asked to stop");
		atomic_fetch_add(&counting->count, 1);
		usleep(POLL_US);
	}
	return 0;
}

static int extend(const struct reeve_attempt *attempt, struct reeve_outcome *outcome)
{
	int granted = 0;
	char text[16];

	for (int i = atoi(attempt->details); i > 0 && !reeve_attempt_cancelled(attempt); i--) {
		granted += reeve_attempt_extend(attempt, 2000);
		usleep(500 * 1000);
	}
	snprintf(text, sizeof text, "%d", granted);
	return reeve_outcome_complete(outcome, text);
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
	    {"manager", required_argument, NULL, 'm'},
	    {"counting", required_argument, NULL, 'f'},
	    {"name", required_argument, NULL, 'n'},
	    {"concurrency", required_argument, NULL, 'c'},
	    {"no-supervisor", no_argument, NULL, 's'},
	    {0},
	};
	struct reeve_worker_options wanted = {.name = "lease", .concurrency = 2};
	const char *path = "";

	for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
		switch (option) {
		case 'm': wanted.managers = optarg; break;
		case 'f': path = optarg; break;
		case 'n': wanted.name = optarg; break;
		case 'c': wanted.concurrency = atoi(optarg); break;
		case 's': wanted.no_supervisor = true; break;
		default: return 2;
		}
	}
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);

	if (fd < 0 || ftruncate(fd, sizeof(struct counting)) < 0) {
		fprintf(stderr, "lease-worker: --counting is missing or cannot be opened\n");
		return 2;
	}
	struct counting *counting = mmap(NULL, sizeof *counting, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	struct reeve_worker *worker = reeve_worker_create(&wanted);

	close(fd);
	reeve_worker_handle(worker, "count", count, counting);
	reeve_worker_handle(worker, "extend", extend, NULL);
	reeve_worker_stop_on_signals(worker);
	int code = reeve_worker_run(worker);

	if (code)
		fprintf(stderr, "lease-worker: %s\n", reeve_worker_error(worker));
	reeve_worker_destroy(worker);
	munmap(counting, sizeof *counting);
	return code;
}
