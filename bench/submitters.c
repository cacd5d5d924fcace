/* Submits no-op tasks: in bulk, and one per call from many threads. */
#include "bench/drive.h"

#include <pthread.h>
#include <stdlib.h>

struct bulk {
	int left;
	char details[200];
};

static bool bulk_next(void *arg, Reeve__V1__TaskSpec *task)
{
	struct bulk *bulk = arg;

	if (bulk->left == 0)
		return false;
	details_write(bulk->details, bulk->left--);
	task->type = "noop";
	task->details = bulk->details;
	return true;
}

void submit_bulk(struct bench *bench, int tasks, int batch, int in_flight)
{
	struct bulk bulk = {.left = tasks};
	struct reeve_stream stream = {
	    .next = bulk_next, .arg = &bulk, .chunk_tasks = (size_t)batch, .in_flight = in_flight};
	struct reeve_failure failure;

	if (!reeve_submit_stream(bench->client, &stream, &failure))
		give_up("submitting: %s", failure.message);
}

struct singles {
	struct bench *bench;
	_Atomic int left;
};

static void *single_main(void *arg)
{
	struct singles *singles = arg;
	char details[200];
	int number;

	while ((number = atomic_fetch_sub(&singles->left, 1)) > 0) {
		Reeve__V1__TaskSpec task = {.type = "noop", .details = details};
		Reeve__V1__SubmittedTask submitted;
		struct reeve_failure failure;

		details_write(details, number);
		if (!reeve_submit(singles->bench->client, &task, 1, NULL, &submitted, &failure))
			give_up("submitting: %s", failure.message);
	}
	return NULL;
}

void submit_singly(struct bench *bench, int tasks, int threads)
{
	struct singles singles = {.bench = bench, .left = tasks};
	pthread_t *all = calloc((size_t)threads, sizeof *all);

	for (int i = 0; i < threads; i++)
		if (pthread_create(&all[i], NULL, single_main, &singles))
			give_up("cannot start a thread");
	for (int i = 0; i < threads; i++)
		pthread_join(all[i], NULL);
	free(all);
}
