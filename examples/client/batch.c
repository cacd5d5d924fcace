/*
 * Opens a batch, fills it with tasks, closes it, waits for its end, and prints its report. With the worker of
 * examples/worker/remarks.c running: `example-batch tcp://127.0.0.1:7171 book '{"room": 7}' '{"room": 13}' '{}'`.
 */
#include <inttypes.h>
#include <reeve/v1/batch_calls.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { MOST = 100 };

/*
 * Opens, fills and closes a batch. Returns its id, or 0 after an error, which is in *failure. After a failed submit it
 * closes the batch, too: an open one never ends.
 */
static int64_t submit_batch(
    struct reeve_client *client, const char *type, char **details, size_t count, struct reeve_failure *failure)
{
	Reeve__V1__OpenBatchRequest opening = {.name = "example"};
	Reeve__V1__CloseBatchRequest closing = {0};
	/* Retry delays of exactly 200 ms after the first failed attempt and 300 ms after the second. */
	Reeve__V1__RetryPolicy delays = {
	    .kind = REEVE__V1__RETRY_KIND__RETRY_KIND_LINEAR, .base_ms = 200, .step_ms = 100, .jitter_percent = -1};
	Reeve__V1__TaskSpec tasks[MOST] = {{.type = NULL}};
	Reeve__V1__SubmittedTask submitted[MOST];
	Reeve__V1__OpenBatchResponse *opened = reeve_batch_open(client, &opening, NULL, failure);
	Reeve__V1__CloseBatchResponse *closed;
	struct reeve_failure ignored;
	bool filled;

	if (!opened)
		return 0;
	closing.id = opened->id;
	reeve_free(opened);
	for (size_t i = 0; i < count; i++)
		tasks[i] = (Reeve__V1__TaskSpec){
		    .type = type, .details = details[i], .max_attempts = 3, .retry = &delays, .batch_id = closing.id};
	filled = reeve_submit(client, tasks, count, NULL, submitted, failure);
	closed = reeve_batch_close(client, &closing, NULL, filled ? failure : &ignored);
	reeve_free(closed);
	return filled && closed ? closing.id : 0;
}

static void print_report(const Reeve__V1__BatchReportResponse *report)
{
	const Reeve__V1__Batch *batch = report->batch;

	printf("batch %" PRId64 ": %" PRId64 " completed, %" PRId64 " failed in %" PRId64 " ms\n", batch->id,
	    batch->completed, batch->failed, batch->duration_ms);
	for (size_t i = 0; i < report->n_tasks; i++) {
		const Reeve__V1__Task *task = report->tasks[i];

		printf("task %" PRId64 ": %s at attempt %" PRIu32 "; %s\n", task->id, reeve_task_status_name(task->status),
		    task->attempt, *task->remark ? task->remark : task->last_error);
	}
}

/* Polls until the batch has ended, and prints its report. */
static bool await_batch(struct reeve_client *client, int64_t id, struct reeve_failure *failure)
{
	Reeve__V1__BatchReportRequest request = {.id = id, .limit = MOST};

	for (;;) {
		Reeve__V1__BatchReportResponse *report = reeve_batch_report(client, &request, NULL, failure);
		bool ended;

		if (!report)
			return false;
		ended = report->batch->state == REEVE__V1__BATCH_STATE__BATCH_STATE_ENDED;
		if (ended)
			print_report(report);
		reeve_free(report);
		if (ended)
			return true;
		nanosleep(&(struct timespec){.tv_nsec = 200 * 1000 * 1000}, NULL);
	}
}

int main(int argc, char **argv)
{
	struct reeve_client_options options = {.managers = argc > 1 ? argv[1] : NULL};
	struct reeve_failure failure;
	struct reeve_client *client;
	int64_t id = 0;
	bool good;

	if (argc < 4 || argc - 3 > MOST) {
		fprintf(stderr, "Usage: example-batch MANAGER TYPE DETAILS...\n");
		return 2;
	}
	client = reeve_client_create(&options, &failure);
	if (client)
		id = submit_batch(client, argv[2], argv + 3, (size_t)argc - 3, &failure);
	good = id && await_batch(client, id, &failure);
	if (!good)
		fprintf(stderr, "%s: %s\n", reeve_code_name(failure.code), failure.message);
	reeve_client_destroy(client);
	return good ? 0 : 1;
}
