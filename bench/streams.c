/*
 * Tasks of many types: how long a task waits until its handler starts, while tasks of types that are new to the
 * managers arrive.
 *
 *	bench-streams PREFIX MANAGERS TYPES RATE SECONDS        tasks of TYPES types at random, RATE a second
 *	bench-streams PREFIX MANAGERS TYPES fill PER-TYPE       submits PER-TYPE tasks of each type, and ends
 *	bench-streams PREFIX MANAGERS TYPES cold SECONDS        the managers start at this moment, with the tasks of `fill`:
 *	                                                        from now to the first start; then tasks at random, 100 a
 *second
 *
 * The workers are threads of this process, two per 1,000 types, and do nothing. Each of MANAGERS (URL,URL) has workers
 * and gets submits. A call has ten tasks (one in `cold`).
 *
 * The figures PREFIX_p50, _p95 and _p99 are the times from just before the submit call to the start of the handler.
 * PREFIX_oldest is the longest wait, including that of tasks that never started; PREFIX_rate is the number of starts
 * per second. PREFIX_later_p50 and so on are for the second half of the time only, when most types are known.
 */
#include "bench/report.h"

#include <pthread.h>
#include <reeve/client.h>
#include <reeve/worker.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
	THREADS = 32,
	CALL_TASKS = 10,
	TYPES_OF_ONE = 1000,
	WORKERS_MAX = 32,
	MANAGERS_MAX = 4,
	SAMPLES = 2000000,
	CONCURRENCY = 8,
	PREFETCH = 50,
	WAIT_MS = 60000,
	COLD_RATE = 100,
};

static struct {
	const char *prefix, *managers[MANAGERS_MAX];
	int n_managers;
	int types, rate, seconds, call_tasks;
} options;

static struct reeve_client *clients[MANAGERS_MAX]; /* one per manager */
static struct reeve_worker *workers[WORKERS_MAX];
static _Atomic int64_t first_start_ns, backlog_end_ns; /* backlog_end_ns: the last start so far of a task of `fill` */
static atomic_int backlog_started;
static int64_t *sent_ns;          /* by the task's number */
static _Atomic int64_t *start_ns; /* 0: not yet */
static atomic_int next_call, answered;
static int64_t begin_ns, until_ns;

/* Tasks of `fill` have the number -1. */
static int perform(const struct reeve_attempt *attempt, struct reeve_outcome *outcome)
{
	int64_t now = now_ns(), none = 0;
	int number = atoi(attempt->details);

	(void)outcome;
	atomic_compare_exchange_strong(&first_start_ns, &none, now);
	if (number < 0) {
		atomic_store(&backlog_end_ns, now);
		atomic_fetch_add(&backlog_started, 1);
	}
	if (number >= 0 && number < SAMPLES) {
		none = 0;
		atomic_compare_exchange_strong(&start_ns[number], &none, now);
	}
	return 0;
}

static void *work(void *arg)
{
	struct reeve_worker *worker = arg;

	if (reeve_worker_run(worker))
		fprintf(stderr, "bench-streams: a worker: %s\n", reeve_worker_error(worker));
	return NULL;
}

static int worker_count(void)
{
	return (options.types + TYPES_OF_ONE - 1) / TYPES_OF_ONE * 2;
}

static void type_name(char *name, int type)
{
	snprintf(name, 32, "type-%d", type);
}

static void start_workers(pthread_t *threads)
{
	for (int i = 0; i < worker_count(); i++) {
		char name[32];

		snprintf(name, sizeof name, "streams-%d-%d", (int)getpid(), i);
		workers[i] =
		    reeve_worker_create(&(struct reeve_worker_options){.managers = options.managers[i % options.n_managers],
		        .name = name,
		        .concurrency = CONCURRENCY,
		        .prefetch = PREFETCH,
		        .no_supervisor = true});
		for (int type = i / 2 * TYPES_OF_ONE; type < (i / 2 + 1) * TYPES_OF_ONE && type < options.types; type++) {
			type_name(name, type);
			reeve_worker_handle(workers[i], name, perform, NULL);
		}
		pthread_create(&threads[i], NULL, work, workers[i]);
	}
}

static void stop_workers(pthread_t *threads)
{
	for (int i = 0; i < worker_count(); i++)
		reeve_worker_stop(workers[i]);
	for (int i = 0; i < worker_count(); i++) {
		pthread_join(threads[i], NULL);
		reeve_worker_destroy(workers[i]);
	}
}

/* Submits calls at their scheduled times, as long as a thread without a call in flight is left. */
static void *submit(void *arg)
{
	unsigned seed = (unsigned)(uintptr_t)arg * 7919 + 1;

	for (;;) {
		Reeve__V1__TaskSpec specs[CALL_TASKS] = {0};
		Reeve__V1__SubmittedTask made[CALL_TASKS];
		struct reeve_failure failure;
		char types[CALL_TASKS][32], details[CALL_TASKS][16];
		int call = atomic_fetch_add(&next_call, 1);
		int64_t due_ns = begin_ns + (int64_t)call * options.call_tasks * 1000000000 / options.rate, now = now_ns();

		if (due_ns >= until_ns || (call + 1) * options.call_tasks > SAMPLES)
			return NULL;
		if (due_ns > now)
			nanosleep(&(struct timespec){(due_ns - now) / 1000000000, (due_ns - now) % 1000000000}, NULL);
		else if (now >= until_ns)
			return NULL;
		for (int i = 0; i < options.call_tasks; i++) {
			int number = call * options.call_tasks + i;

			type_name(types[i], (int)((unsigned)rand_r(&seed) % (unsigned)options.types));
			snprintf(details[i], sizeof details[i], "%d", number);
			specs[i] = (Reeve__V1__TaskSpec){.type = types[i], .details = details[i]};
			sent_ns[number] = now_ns();
		}
		if (!reeve_submit(clients[call % options.n_managers], specs, (size_t)options.call_tasks, NULL, made, &failure))
			give_up("submitting: %s", failure.message);
		atomic_fetch_add(&answered, options.call_tasks);
	}
}

static void figure(const char *name, double value, const char *unit)
{
	char line[100];

	snprintf(line, sizeof line, "%s_%s", options.prefix, name);
	report(line, value, unit);
}

static void run(void)
{
	static int64_t spans[SAMPLES], later[SAMPLES];
	char later_name[100];
	pthread_t submitters[THREADS];
	int64_t oldest = 0, ended;
	size_t count = 0, later_count = 0, unstarted = 0;

	begin_ns = now_ns();
	until_ns = begin_ns + (int64_t)options.seconds * 1000000000;
	for (int i = 0; i < THREADS; i++)
		pthread_create(&submitters[i], NULL, submit, (void *)(uintptr_t)(i + 1));
	for (int i = 0; i < THREADS; i++)
		pthread_join(submitters[i], NULL);
	ended = now_ns();
	for (int number = 0; number < SAMPLES; number++) {
		int64_t start, waited;

		if (!sent_ns[number])
			continue;
		start = atomic_load(&start_ns[number]);
		unstarted += start == 0 && ended - sent_ns[number] > 1000000000; /* the latest may still be in transit */
		if (start == 0 && ended - sent_ns[number] <= 1000000000)
			continue;
		waited = (start ? start : ended) - sent_ns[number];
		spans[count++] = waited;
		if (sent_ns[number] > begin_ns / 2 + until_ns / 2)
			later[later_count++] = waited;
		oldest = waited > oldest ? waited : oldest;
	}
	if (!count)
		give_up("no task was submitted");
	report_percentiles(options.prefix, spans, count);
	snprintf(later_name, sizeof later_name, "%s_later", options.prefix);
	if (later_count)
		report_percentiles(later_name, later, later_count);
	figure("oldest", (double)oldest / 1e6, "ms");
	figure("unstarted", (double)unstarted, "tasks");
	figure("rate", (double)(count - unstarted) * 1e9 / (double)(ended - begin_ns), "tasks/s");
}

static void fill(int per_type)
{
	struct reeve_failure failure;

	for (int first = 0; first < options.types; first += TYPES_OF_ONE) {
		static Reeve__V1__TaskSpec specs[TYPES_OF_ONE];
		static Reeve__V1__SubmittedTask made[TYPES_OF_ONE];
		static char types[TYPES_OF_ONE][32];
		int count = options.types - first < TYPES_OF_ONE ? options.types - first : TYPES_OF_ONE;

		for (int i = 0; i < count; i++) {
			type_name(types[i], first + i);
			specs[i] = (Reeve__V1__TaskSpec){.type = types[i], .details = "-1"};
		}
		for (int i = 0; i < per_type; i++)
			if (!reeve_submit(clients[0], specs, (size_t)count, NULL, made, &failure))
				give_up("submitting: %s", failure.message);
	}
}

static void destroy_clients(void)
{
	for (int i = 0; i < options.n_managers; i++)
		reeve_client_destroy(clients[i]);
}

int main(int argc, char **argv)
{
	pthread_t threads[WORKERS_MAX];
	struct reeve_failure failure;
	int64_t since = now_ns();
	bool cold;

	if (argc != 6 || atoi(argv[3]) < 1 || atoi(argv[3]) > WORKERS_MAX / 2 * TYPES_OF_ONE || atoi(argv[5]) < 1)
		give_up("usage: bench-streams PREFIX MANAGERS TYPES RATE SECONDS | … fill PER-TYPE | … cold SECONDS");
	options.prefix = argv[1];
	options.types = atoi(argv[3]);
	options.seconds = atoi(argv[5]);
	options.call_tasks = CALL_TASKS;
	cold = strcmp(argv[4], "cold") == 0;
	for (char *rest = NULL, *url = strtok_r(argv[2], ",", &rest); url && options.n_managers < MANAGERS_MAX;
	     url = strtok_r(NULL, ",", &rest)) {
		struct reeve_client *client = reeve_client_create(
		    &(struct reeve_client_options){.managers = url, .connect_timeout_ms = WAIT_MS, .call_timeout_ms = WAIT_MS},
		    &failure);

		if (!client || !reeve_client_ready(client, &failure))
			give_up("%s", failure.message);
		options.managers[options.n_managers] = url;
		clients[options.n_managers++] = client;
	}
	if (strcmp(argv[4], "fill") == 0) {
		fill(atoi(argv[5]));
		destroy_clients();
		return 0;
	}
	options.rate = cold ? COLD_RATE : atoi(argv[4]);
	sent_ns = calloc(SAMPLES, sizeof *sent_ns);
	start_ns = calloc(SAMPLES, sizeof *start_ns);
	if (options.rate < 1 || !sent_ns || !start_ns)
		give_up("RATE must be 1 or more");
	start_workers(threads);
	if (cold) {
		options.call_tasks = 1;
		while (atomic_load(&backlog_started) < options.types) {
			if (now_ns() - since > (int64_t)WAIT_MS * 1000000)
				give_up(
				    "%d of %d tasks started within %d s", atomic_load(&backlog_started), options.types, WAIT_MS / 1000);
			usleep(200);
		}
		figure("first", (double)(atomic_load(&first_start_ns) - since) / 1e6, "ms");
		figure("backlog", (double)(atomic_load(&backlog_end_ns) - since) / 1e6, "ms");
	} else {
		sleep(2); /* until they are registered */
	}
	run();
	stop_workers(threads);
	destroy_clients();
	return 0;
}
