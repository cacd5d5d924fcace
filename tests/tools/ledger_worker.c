/*
 * A worker that writes a ledger: a line for each attempt that starts, in a file that all workers of a test share. So
 * the test can count what actually ran, whatever the tables contain. The handler is a C function, so that tens of
 * thousands of tasks take seconds.
 *
 *	ledger-worker --manager URL[,URL] --ledger FILE [--name NAME] [--concurrency N] [--prefetch N]
 *
 * It runs tasks of one type, `ledger`; their details are NAME, or "NAME MS" for a task that takes MS milliseconds. A
 * line is
 *
 *	MONOTONIC_MS TASK_ID TOKEN ATTEMPT NAME WORKER
 *
 * written in one piece when the attempt starts, and "done TASK_ID TOKEN" when an attempt with a duration has lasted for
 * that time; an attempt that was asked to stop has no such line. The result is NAME.
 */
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <reeve/worker.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { POLL_MS = 5 };

struct ledger {
	int fd;
	const char *worker;
};

static int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * INT64_C(1000) + t.tv_nsec / 1000000;
}

/* Appends a line in one piece: the file was opened with O_APPEND. */
static void write_line(const struct ledger *ledger, const char *line, int length)
{
	if (write(ledger->fd, line, (size_t)length) != length) {
		perror("ledger-worker: the ledger");
		abort();
	}
}

static bool last(const struct reeve_attempt *attempt, int64_t ms)
{
	for (int64_t until = now_ms() + ms; now_ms() < until;) {
		if (reeve_attempt_cancelled(attempt))
			return false;
		usleep(POLL_MS * 1000);
	}
	return true;
}

static int note(const struct reeve_attempt *attempt, struct reeve_outcome *outcome)
{
	const struct ledger *ledger = attempt->user_data;
	char name[64], line[400];
	int64_t ms = 0;

	if (sscanf(attempt->details, "%63s %" SCNd64, name, &ms) < 1)
		return reeve_outcome_fatal(outcome, "details", "no name in the details");
	write_line(ledger, line,
	    snprintf(line, sizeof line, "%" PRId64 " %" PRId64 " %" PRId64 " %" PRIu32 " %s %.255s\n", now_ms(),
	        attempt->task_id, attempt->token, attempt->attempt, name, ledger->worker));
	if (ms > 0 && !last(attempt, ms))
		return reeve_outcome_fail(outcome, "stopped", "asked to stop");
	if (ms > 0)
		write_line(ledger, line,
		    snprintf(line, sizeof line, "done %" PRId64 " %" PRId64 "\n", attempt->task_id, attempt->token));
	return reeve_outcome_complete(outcome, name);
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
	    {"manager", required_argument, NULL, 'm'},
	    {"ledger", required_argument, NULL, 'l'},
	    {"name", required_argument, NULL, 'n'},
	    {"concurrency", required_argument, NULL, 'c'},
	    {"prefetch", required_argument, NULL, 'p'},
	    {0},
	};
	struct reeve_worker_options wanted = {.name = "ledger", .concurrency = 4, .no_supervisor = true};
	const char *path = NULL;

	for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
		switch (option) {
		case 'm': wanted.managers = optarg; break;
		case 'l': path = optarg; break;
		case 'n': wanted.name = optarg; break;
		case 'c': wanted.concurrency = atoi(optarg); break;
		case 'p': wanted.prefetch = atoi(optarg); break;
		default: return 2;
		}
	}
	struct ledger ledger = {
	    .fd = path ? open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666) : -1, .worker = wanted.name};

	if (ledger.fd < 0) {
		fprintf(stderr, "ledger-worker: --ledger is missing or cannot be written\n");
		return 2;
	}
	struct reeve_worker *worker = reeve_worker_create(&wanted);

	reeve_worker_handle(worker, "ledger", note, &ledger);
	reeve_worker_stop_on_signals(worker);
	int code = reeve_worker_run(worker);

	if (code)
		fprintf(stderr, "ledger-worker: %s\n", reeve_worker_error(worker));
	reeve_worker_destroy(worker);
	close(ledger.fd);
	return code;
}
