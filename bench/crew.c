/* Starts, watches and ends worker processes. */
#include "bench/crew.h"

#include "bench/report.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void become_worker(
    const struct crew *crew, const char *worker, const char *manager, int go, int concurrency, int prefetch)
{
	char slots[16], more[16];

	snprintf(slots, sizeof slots, "%d", concurrency);
	snprintf(more, sizeof more, "%d", prefetch);
	prctl(PR_SET_PDEATHSIG, SIGTERM); /* the workers end if the measurement gives up */
	dup2(go, 0);
	execl(worker, worker, manager, crew->path, slots, more, (char *)NULL);
	_exit(127);
}

void crew_start(struct crew *crew, const char *worker, const char *manager, int count, int concurrency, int prefetch)
{
	const char *folder = getenv("TMPDIR");

	*crew = (struct crew){.count = count};
	snprintf(crew->path, sizeof crew->path, "%s/bench-crew-XXXXXX", folder && *folder ? folder : "/tmp");
	int fd = mkstemp(crew->path);

	if (fd < 0 || ftruncate(fd, sizeof *crew->shared))
		give_up("cannot make %s", crew->path);
	crew->shared = mmap(NULL, sizeof *crew->shared, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (crew->shared == MAP_FAILED)
		give_up("cannot map %s", crew->path);
	close(fd);
	for (int i = 0; i < count; i++) {
		int go[2];

		if (pipe2(go, O_CLOEXEC))
			give_up("no pipe");
		crew->pids[i] = fork();
		if (crew->pids[i] < 0)
			give_up("cannot fork");
		if (crew->pids[i] == 0)
			become_worker(crew, worker, manager, go[0], concurrency, prefetch);
		close(go[0]);
		crew->go[i] = go[1];
	}
}

void crew_go(struct crew *crew)
{
	for (int i = 0; i < crew->count; i++)
		close(crew->go[i]);
}

void crew_await(const struct crew *crew, int64_t runs)
{
	int64_t seen = -1, since = 0;

	for (;;) {
		int64_t have = atomic_load(&crew->shared->runs);

		if (have >= runs)
			return;
		if (have != seen) {
			seen = have;
			since = now_ns();
		} else if (now_ns() - since > INT64_C(60000000000)) {
			give_up("only %lld of %lld tasks have run", (long long)have, (long long)runs);
		}
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	}
}

double crew_stop(struct crew *crew)
{
	double cpu = 0;

	for (int i = 0; i < crew->count; i++)
		kill(crew->pids[i], SIGTERM);
	for (int i = 0; i < crew->count; i++) {
		struct rusage use;
		int status;

		if (wait4(crew->pids[i], &status, 0, &use) < 0 || status)
			give_up("a worker process ended with status %d", status);
		cpu += (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) +
		    (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec) / 1e6;
	}
	munmap(crew->shared, sizeof *crew->shared);
	unlink(crew->path);
	return cpu;
}
