/*
 * Makes calls through the client library all the time, and prints the duration of each: a failover as seen by a program
 * that embeds the library.
 *
 *	steady-calls THREADS [TYPE [QUEUE [BATCH]]]
 *
 * Each thread submits a task of TYPE (default `nothing`; the details are a unique name) to QUEUE (default `default`),
 * into the open batch with the id BATCH if it is set, reads the task, waits for its end, and starts over after 40 ms,
 * until SIGTERM. REEVE_MANAGER has the managers. Writes a line for each call:
 *
 *	BEGUN TOOK submit|get|wait ID        both in milliseconds, BEGUN since 1970
 *
 * For a failed call, the line has its code instead of the id; then the exit code is 1.
 */
#include <inttypes.h>
#include <pthread.h>
#include <reeve/client.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { THREADS_MAX = 64, WAIT_MS = 60000 };

static struct reeve_client *client;
static Reeve__V1__TaskSpec common = {.type = "nothing"};
static atomic_bool stop, failed;
static atomic_int last_name;

static int64_t now_ms(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return now.tv_sec * INT64_C(1000) + now.tv_nsec / 1000000;
}

struct timed {
	int64_t at_ms, since_ms;
};

static struct timed begin(void)
{
	return (struct timed){now_ms(CLOCK_REALTIME), now_ms(CLOCK_MONOTONIC)};
}

static bool end(struct timed call, const char *name, bool good, int64_t id, const struct reeve_failure *failure)
{
	int64_t took_ms = now_ms(CLOCK_MONOTONIC) - call.since_ms;

	if (good) {
		printf("%" PRId64 " %" PRId64 " %s %" PRId64 "\n", call.at_ms, took_ms, name, id);
	} else {
		printf("%" PRId64 " %" PRId64 " %s %s\n", call.at_ms, took_ms, name, reeve_code_name(failure->code));
		fprintf(stderr, "steady-calls: %s: %s\n", name, failure->message);
		atomic_store(&failed, true);
	}
	return good;
}

static void *call_on(void *arg)
{
	/* Without a pause the callers would use the whole machine, and measure how they wait for each other. */
	const struct timespec pause = {.tv_nsec = 40 * 1000000};
	const struct reeve_wait wait = {.timeout_ms = WAIT_MS};

	(void)arg;
	for (; !atomic_load(&stop); nanosleep(&pause, NULL)) {
		char name[32];
		Reeve__V1__TaskSpec spec = common;
		Reeve__V1__SubmittedTask made = {0};
		struct reeve_failure failure = {0};
		Reeve__V1__Task *task;
		struct timed call = begin();
		size_t pending = 0;
		bool good;

		snprintf(name, sizeof name, "c%d", atomic_fetch_add(&last_name, 1) + 1);
		spec.details = name;
		good = reeve_submit(client, &spec, 1, NULL, &made, &failure);
		if (!end(call, "submit", good, made.id, &failure))
			continue;
		call = begin();
		task = reeve_get(client, made.id, &failure);
		end(call, "get", task, made.id, &failure);
		reeve_free(task);
		call = begin();
		good = reeve_wait(client, &made.id, 1, &wait, &pending, &failure) && pending == 0;
		end(call, "wait", good, made.id, &failure);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	struct reeve_client_options options = {.managers = getenv("REEVE_MANAGER")};
	int count = argc > 1 ? atoi(argv[1]) : 0;
	pthread_t threads[THREADS_MAX];
	struct reeve_failure failure;
	sigset_t stops;
	int signal;

	if (count < 1 || count > THREADS_MAX || argc > 5) {
		fprintf(stderr, "Usage: steady-calls THREADS [TYPE [QUEUE [BATCH]]]\n");
		return 2;
	}
	sigemptyset(&stops);
	sigaddset(&stops, SIGTERM);
	pthread_sigmask(SIG_BLOCK, &stops, NULL); /* in all threads that are created later */
	if (argc > 2)
		common.type = argv[2];
	if (argc > 3)
		common.queue = argv[3];
	if (argc > 4)
		common.batch_id = atoll(argv[4]);
	client = reeve_client_create(&options, &failure);
	if (!client) {
		fprintf(stderr, "steady-calls: %s\n", failure.message);
		return 2;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (int i = 0; i < count; i++) {
		if (pthread_create(&threads[i], NULL, call_on, NULL) != 0)
			abort();
	}
	sigwait(&stops, &signal);
	atomic_store(&stop, true);
	for (int i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	reeve_client_destroy(client);
	return atomic_load(&failed);
}
