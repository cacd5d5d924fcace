/*
 * Submission of a file. It is read twice: first every line is checked, and if one is invalid nothing is sent; then the
 * tasks are sent in chunks, each stored completely or not at all. Memory holds the chunks in flight and, for --wait,
 * the ids. A file that fits in one chunk is one call with --wait, which also waits for the tasks.
 */
#include "client/cmd/bulk.h"

#include "client/cmd/bulk_line.h"
#include "client/cmd/command.h"
#include "client/cmd/follow.h"
#include "client/cmd/interrupts.h"
#include "client/cmd/progress.h"
#include "common/mem.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { LOGGED_MAX = 10 /* maximum number of invalid lines that are reported */, MISSED = 16 };

/* Tasks of a chunk that was not stored. */
struct missed {
	size_t first, count;
	bool unsure; /* it may have been stored */
};

struct bulk {
	struct reeve_client *client;
	const Reeve__V1__TaskSpec *defaults;
	struct lines *lines;
	struct bulk_task *task; /* the one passed on last */
	struct reeve_error error;
	struct progress progress;
	bool bare, json, keep_ids, print;
	size_t total, bytes, n_given, n_stored, n_existing, n_restarted;
	int64_t given_line;           /* the number of the line passed on last */
	struct missed missed[MISSED]; /* more than can be in flight */
	int n_missed;
	int64_t *ids;
};

/* Parses the line that lines_next has found. */
static bool read_task(struct bulk *bulk, struct reeve_error *error)
{
	struct reeve_failure failure;

	if (!bulk_task_read(bulk->task, bulk->lines->text, bulk->lines->length, bulk->bare, bulk->defaults, error))
		return false;
	if (!reeve_check(bulk->client, &bulk->task->spec, &failure))
		return error_set(error, STATUS(INVALID_ARGUMENT), "%s", failure.message);
	return true;
}

/* Checks every line and counts the tasks. Returns the exit code. */
static int check_all(struct bulk *bulk)
{
	struct reeve_error error = {0};
	int64_t n_bad = 0;

	progress_begin(&bulk->progress, "checking", bulk->lines->size, 0);
	while (!interrupts_asked() && lines_next(bulk->lines, &error)) {
		struct reeve_error bad;

		if (read_task(bulk, &bad)) {
			bulk->total++;
			bulk->bytes += reeve_task_size(&bulk->task->spec);
		} else if (n_bad++ < LOGGED_MAX) {
			progress_end(&bulk->progress);
			command_log("%s:%" PRId64 ": %s", bulk->lines->name, bulk->lines->number, bad.message);
		}
		bulk_task_free(bulk->task);
		if (bulk->lines->number % 64 == 0)
			progress_show(&bulk->progress, bulk->lines->offset);
	}
	progress_end(&bulk->progress);
	if (error.code != STATUS(OK)) {
		command_log("%s", error.message);
		return EXIT_REFUSED;
	}
	if (interrupts_asked()) {
		struct reeve_failure interrupted = {.code = REEVE_CANCELLED, .message = "interrupted; nothing was submitted"};

		return command_failed(&interrupted);
	}
	if (n_bad > 0) {
		command_log("%s: %" PRId64 " %s%s cannot be submitted%s; nothing was", bulk->lines->name, n_bad,
		    bulk->lines->unit, n_bad == 1 ? "" : "s", n_bad > LOGGED_MAX ? ", the first 10 are shown" : "");
		return EXIT_REFUSED;
	}
	return EXIT_OK;
}

static bool next_task(void *arg, Reeve__V1__TaskSpec *spec)
{
	struct bulk *bulk = arg;

	bulk_task_free(bulk->task);
	if (interrupts_asked() || !lines_next(bulk->lines, &bulk->error))
		return false;
	if (!read_task(bulk, &bulk->error)) {
		/* It was valid when it was checked. */
		struct reeve_error changed;

		error_set(&changed, STATUS(INVALID_ARGUMENT), "%s:%" PRId64 " has changed while it was read: %s",
		    bulk->lines->name, bulk->lines->number, bulk->error.message);
		bulk->error = changed;
		return false;
	}
	*spec = bulk->task->spec;
	bulk->n_given++;
	bulk->given_line = bulk->lines->number;
	return true;
}

static void print_submitted(const struct bulk *bulk, const Reeve__V1__SubmittedTask *submitted)
{
	if (bulk->json)
		command_print_json(submitted);
	else
		printf("%" PRId64 "\n", submitted->id);
}

static void take_stored(void *arg, size_t first, const Reeve__V1__SubmittedTask *submitted, size_t count)
{
	struct bulk *bulk = arg;

	(void)first;
	if (bulk->keep_ids)
		bulk->ids = mem_realloc(bulk->ids, (bulk->n_stored + count) * sizeof *bulk->ids);
	/* The progress bar and the output may share a terminal. */
	progress_end(&bulk->progress);
	for (size_t i = 0; i < count; i++) {
		bulk->n_existing += submitted[i].existing && !submitted[i].restarted;
		bulk->n_restarted += submitted[i].restarted;
		if (bulk->print)
			print_submitted(bulk, &submitted[i]);
		if (bulk->keep_ids)
			bulk->ids[bulk->n_stored + i] = submitted[i].id;
	}
	bulk->n_stored += count;
	fflush(stdout);
	progress_show(&bulk->progress, (int64_t)bulk->n_stored);
}

static void take_missed(void *arg, size_t first, size_t count, const struct reeve_failure *failure)
{
	struct bulk *bulk = arg;

	if (bulk->n_missed == MISSED)
		return;
	bulk->missed[bulk->n_missed++] = (struct missed){
	    .first = first,
	    .count = count,
	    .unsure = failure->code == REEVE_DEADLINE_EXCEEDED || failure->code == REEVE_CANCELLED ||
	        failure->code == REEVE_INTERNAL,
	};
}

/* Returns the number of the line that has the index-th task. If the file has become shorter, this assumes that the
 * missing part had no blank lines. */
static int64_t line_of_task(struct bulk *bulk, size_t index)
{
	struct reeve_error error;
	size_t n = 0;

	lines_rewind(bulk->lines);
	while (n <= index && lines_next(bulk->lines, &error))
		n++;
	return bulk->lines->number + (int64_t)(index + 1 - n);
}

/* Reports which lines were stored as tasks and which were not. */
static void report_missed(struct bulk *bulk)
{
	size_t n_missed = 0, n_unsure = 0, end = bulk->n_stored;

	for (int i = 0; i < bulk->n_missed; i++) {
		const struct missed *missed = &bulk->missed[i];

		command_log("%s: the tasks of %ss %" PRId64 " to %" PRId64 " %s", bulk->lines->name, bulk->lines->unit,
		    line_of_task(bulk, missed->first), line_of_task(bulk, missed->first + missed->count - 1),
		    missed->unsure ? "may or may not have been stored" : "were not stored");
		n_missed += missed->count;
		n_unsure += missed->unsure ? missed->count : 0;
	}
	end += n_missed;
	if (end < bulk->total)
		command_log("%s: the tasks from %s %" PRId64 " on were not sent", bulk->lines->name, bulk->lines->unit,
		    end == bulk->n_given ? bulk->given_line + 1 : line_of_task(bulk, end));
	if (n_unsure > 0)
		command_log("%zu of %zu tasks are known to be stored, and up to %zu more may be", bulk->n_stored, bulk->total,
		    n_unsure);
	else
		command_log("%zu of %zu tasks were stored", bulk->n_stored, bulk->total);
}

/* Reports how a submit has ended. Returns the exit code. */
static int conclude(struct bulk *bulk, bool done, struct reeve_failure failure)
{
	int code = EXIT_OK;

	bulk_task_free(bulk->task);
	progress_end(&bulk->progress);
	if (!done) {
		code = command_failed(&failure);
	} else if (bulk->error.code != STATUS(OK)) {
		command_log("%s", bulk->error.message);
		code = EXIT_REFUSED;
	} else if (interrupts_asked() && bulk->n_stored < bulk->total) {
		failure = (struct reeve_failure){.code = REEVE_CANCELLED, .message = "interrupted"};
		code = command_failed(&failure);
	} else if (bulk->n_given < bulk->total) {
		command_log("%s has become shorter while it was read", bulk->lines->name);
		code = EXIT_REFUSED;
	}
	if (code != EXIT_OK)
		report_missed(bulk);
	if (bulk->n_existing == 1 && !bulk->json)
		command_log("1 of the keys was known already: its task is the earlier one");
	else if (bulk->n_existing > 0 && !bulk->json)
		command_log("%zu of the keys were known already: their tasks are the earlier ones", bulk->n_existing);
	if (bulk->n_restarted > 0 && !bulk->json)
		command_log("%zu newer version%s of known keys: their tasks are run again", bulk->n_restarted,
		    bulk->n_restarted == 1 ? "" : "s");
	return code;
}

static void begin_sending(struct bulk *bulk)
{
	lines_rewind(bulk->lines);
	progress_begin(&bulk->progress, "submitting", (int64_t)bulk->total, 0);
	progress_show(&bulk->progress, 0);
}

static int send_all(struct bulk *bulk)
{
	struct reeve_stream stream = {
	    .next = next_task,
	    .stored = take_stored,
	    .missed = take_missed,
	    .arg = bulk,
	};
	struct reeve_failure failure = {0};

	begin_sending(bulk);
	return conclude(bulk, reeve_submit_stream(bulk->client, &stream, &failure), failure);
}

/* Submits all tasks with one call, and waits for them. */
static int send_and_wait(struct bulk *bulk)
{
	struct bulk_task *tasks = mem_calloc(bulk->total, sizeof *tasks);
	Reeve__V1__TaskSpec *specs = mem_calloc(bulk->total, sizeof *specs);
	Reeve__V1__SubmittedTask *submitted = mem_calloc(bulk->total, sizeof *submitted);
	Reeve__V1__SubmitAndWaitResponse *answer = NULL;
	struct reeve_failure failure = {0};
	size_t n = 0;
	int code;

	begin_sending(bulk);
	for (; n < bulk->total; n++) {
		bulk->task = &tasks[n];
		if (!next_task(bulk, &specs[n]))
			break;
	}
	if (n == bulk->total)
		answer = reeve_submit_and_wait(bulk->client, specs, n, SUBMIT_WAIT_MS, NULL, &failure);
	for (size_t i = 0; answer && i < n; i++)
		submitted[i] = *answer->tasks[i];
	if (answer)
		take_stored(bulk, 0, submitted, n);
	else if (failure.code)
		take_missed(bulk, 0, n, &failure);
	code = conclude(bulk, !failure.code, failure);
	if (answer) {
		interrupts_watch(bulk->client, false);
		code = follow_submitted(bulk->client, answer, FOLLOW_SUMMARY, NULL, bulk->json);
	}
	reeve_free(answer);
	for (size_t i = 0; i < n; i++)
		bulk_task_free(&tasks[i]);
	free(tasks);
	free(specs);
	free(submitted);
	return code;
}

/* Submits the tasks as a stream, and waits for them if that is wanted. */
static int send_stream(struct bulk *bulk)
{
	int code = send_all(bulk);

	if (code == EXIT_OK && bulk->keep_ids) {
		interrupts_watch(bulk->client, false);
		code = follow_tasks(bulk->client, bulk->ids, bulk->n_stored, FOLLOW_SUMMARY, NULL, -1, bulk->json, false);
	}
	free(bulk->ids);
	return code;
}

int bulk_submit(struct reeve_client *client, struct lines *lines, bool bare, const Reeve__V1__TaskSpec *defaults,
    bool wait, bool json)
{
	struct bulk_task task = {0};
	struct bulk bulk = {
	    .task = &task,
	    .client = client,
	    .defaults = defaults,
	    .lines = lines,
	    .bare = bare,
	    .json = json,
	    .print = !(wait && json),
	};
	struct reeve_error error = {0};
	struct reeve_failure failure = {0};
	int code;

	/* The check includes the managers' limit of details. */
	if (!reeve_client_ready(client, &failure))
		return command_failed(&failure);
	if (!lines_prepare(lines, &error)) {
		command_log("--bulk: %s", error.message);
		return EXIT_USAGE;
	}
	interrupts_watch(client, true);
	code = check_all(&bulk);
	if (code != EXIT_OK || !bulk.total)
		return code;
	bulk.keep_ids = wait && !reeve_one_chunk(client, bulk.total, bulk.bytes);
	return wait && !bulk.keep_ids ? send_and_wait(&bulk) : send_stream(&bulk);
}
