/*
 * A worker that reports more than success or failure: remarks, error codes, a stack trace, and retry delays. Start it,
 * then run `reeve submit book '{"room": 7}' --wait`. `reeve show ID` prints what it reported.
 */
#include <execinfo.h>
#include <reeve/worker.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Returns the current stack, one frame per line. The caller must free() it. */
static char *stack_trace(void)
{
	void *frames[32];
	int count = backtrace(frames, 32);
	char **names = backtrace_symbols(frames, count), *text = NULL;
	size_t length;
	FILE *out = open_memstream(&text, &length);

	for (int i = 0; names && i < count; i++)
		fprintf(out, "%s\n", names[i]);
	fclose(out);
	free(names);
	return text;
}

static int book(const struct reeve_attempt *attempt, struct reeve_outcome *outcome)
{
	const char *room = strstr(attempt->details, "\"room\":");
	char remark[64], *stack;

	if (!room) { /* NO_RETRY: with these details it would never succeed */
		stack = stack_trace();
		reeve_outcome_stack_trace(outcome, stack);
		free(stack);
		return reeve_outcome_fatal(outcome, "no-room", "the details name no room");
	}
	snprintf(remark, sizeof remark, "asked %u times", attempt->attempt);
	reeve_outcome_remark(outcome, remark);
	/* RETRY, but not as soon as the policy says */
	if (atoi(room + strlen("\"room\":")) == 13 && attempt->attempt < 3) {
		reeve_outcome_retry_in(outcome, 1500);
		return reeve_outcome_fail(outcome, "taken", "the room is taken");
	}
	return reeve_outcome_complete(outcome, "booked"); /* SUCCESS */
}

int main(int argc, char **argv)
{
	struct reeve_worker_options options = {.managers = argc > 1 ? argv[1] : NULL, .concurrency = 4};
	struct reeve_worker *worker = reeve_worker_create(&options);

	reeve_worker_handle(worker, "book", book, NULL);
	reeve_worker_stop_on_signals(worker);
	int code = reeve_worker_run(worker);
	reeve_worker_destroy(worker);
	return code;
}
