/* `reeve wait`, and the waiting of `reeve submit --wait`. What is kept of an ended task is what its line shows. */
#include "client/cmd/follow.h"

#include "client/cmd/command.h"
#include "client/cmd/interrupts.h"
#include "client/cmd/progress.h"
#include "client/cmd/table.h"
#include "client/cmd/terminal.h"
#include "common/clock.h"
#include "common/text.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { KEPT_TEXT = 200, TOLD = 10, TICK_MS = 1000 };

/* A task that has ended. */
struct ended {
	int64_t id;
	enum reeve_task_status status;
	uint32_t attempt;
	int64_t ran_ms;
	char *type;
	char *text; /* the beginning of its result or error */
};

struct following {
	enum follow_mode mode;
	bool json;
	struct progress progress;
	size_t total; /* distinct ids */
	size_t n_ended, n_completed, n_dead, n_cancelled;
	struct ended *ended;
};

static char *copy_beginning(const char *text)
{
	size_t length = strlen(text);

	return strndup(text, length > KEPT_TEXT ? utf8_cut(text, KEPT_TEXT) : length);
}

/* Why a task did not complete, in one phrase. */
static char *describe_failure(const struct reeve_task *task)
{
	char *phrase;
	const char *gap = *task->error_code && *task->last_error ? ": " : "";

	if (asprintf(&phrase, "%s%s%s", task->error_code, gap, task->last_error) < 0)
		abort();
	return phrase;
}

static void tell_failure(const struct reeve_task *task)
{
	char *why = describe_failure(task);
	char *line = terminal_one_line(why);

	command_say("task %" PRId64 " (%s) is %s after %" PRIu32 " attempt%s%s%s", task->id, task->type,
	    reeve_task_status_name(task->status), task->attempt, task->attempt == 1 ? "" : "s", *line ? ": " : "",
	    line);
	free(line);
	free(why);
}

static void keep(struct following *following, const struct reeve_task *task)
{
	struct ended *ended = &following->ended[following->n_ended];
	char *why = task->status == REEVE_TASK_COMPLETED ? NULL : describe_failure(task);

	ended->id = task->id;
	ended->status = task->status;
	ended->attempt = task->attempt;
	ended->ran_ms = task->started_us ? (task->finished_us - task->started_us) / 1000 : -1;
	ended->type = strdup(task->type);
	ended->text = copy_beginning(why ? why : task->result);
	free(why);
}

static void write_result(const struct reeve_task *task)
{
	size_t length = strlen(task->result);

	fwrite(task->result, 1, length, stdout);
	/* On a terminal the prompt is to begin a line; a program gets the result and nothing else. */
	if (length > 0 && task->result[length - 1] != '\n' && terminal_columns(stdout) > 0)
		putchar('\n');
}

static void take_ended(void *arg, const struct reeve_task *task)
{
	struct following *following = arg;
	bool completed = task->status == REEVE_TASK_COMPLETED;

	following->n_completed += completed;
	following->n_dead += task->status == REEVE_TASK_DEAD;
	following->n_cancelled += task->status == REEVE_TASK_CANCELLED;
	if (following->json) {
		progress_end(&following->progress);
		command_print_json(task->wire);
	} else if (following->mode == FOLLOW_TABLE) {
		keep(following, task);
	} else if (completed && following->mode == FOLLOW_RESULT) {
		progress_end(&following->progress);
		write_result(task);
	} else if (!completed && following->n_ended - following->n_completed < TOLD) {
		progress_end(&following->progress);
		tell_failure(task);
	}
	following->n_ended++;
	progress_show(&following->progress, (int64_t)following->n_ended);
}

static bool take_look(void *arg, size_t pending)
{
	struct following *following = arg;

	/* Who reads line by line sees each as it ends. */
	fflush(stdout);
	progress_show(&following->progress, (int64_t)(following->total - pending));
	return !interrupts_asked();
}

static int compare_ended(const void *a, const void *b)
{
	const struct ended *one = a, *other = b;

	return (one->id > other->id) - (one->id < other->id);
}

static void print_table(struct following *following, const int64_t *ids, size_t count)
{
	static const struct column columns[] = {{"ID", COLUMN_NUMBER}, {"TYPE", COLUMN_TEXT}, {"STATUS", COLUMN_WORD},
	    {"ATTEMPTS", COLUMN_NUMBER}, {"RAN", COLUMN_NUMBER}, {"RESULT OR ERROR", COLUMN_TEXT}, {0}};
	struct table *table = table_create(columns);

	qsort(following->ended, following->n_ended, sizeof *following->ended, compare_ended);
	for (size_t i = 0; i < count; i++) {
		struct ended key = {.id = ids[i]};
		const struct ended *ended =
		    bsearch(&key, following->ended, following->n_ended, sizeof key, compare_ended);
		char ran[40];

		if (!ended)
			continue;
		table_number(table, ended->id);
		table_text(table, ended->type);
		table_coloured(table, reeve_task_status_name(ended->status), terminal_status_colour(ended->status));
		table_number(table, ended->attempt);
		table_text(table, ended->ran_ms < 0 ? "-" : duration_format(ended->ran_ms, ran, sizeof ran));
		table_text(table, ended->text);
	}
	if (following->n_ended > 0)
		table_print(table);
	table_destroy(table);
}

static size_t count_distinct(const int64_t *ids, size_t count, int (*compare)(const void *, const void *))
{
	int64_t *sorted = malloc((count ? count : 1) * sizeof *sorted);
	size_t distinct = count > 0;

	if (!sorted)
		abort();
	memcpy(sorted, ids, count * sizeof *sorted);
	qsort(sorted, count, sizeof *sorted, compare);
	for (size_t i = 1; i < count; i++)
		distinct += sorted[i] != sorted[i - 1];
	free(sorted);
	return distinct;
}

static int compare_ids(const void *a, const void *b)
{
	int64_t one = *(const int64_t *)a, other = *(const int64_t *)b;

	return (one > other) - (one < other);
}

/* Says how it all ended and returns the exit code. */
static int conclude(const struct following *following, size_t pending)
{
	size_t failed = following->n_ended - following->n_completed;

	if (following->mode == FOLLOW_SUMMARY && !following->json)
		command_say("%zu completed, %zu dead, %zu cancelled", following->n_completed, following->n_dead,
		    following->n_cancelled);
	if (pending > 0 && interrupts_asked()) {
		struct reeve_failure interrupted = {.code = REEVE_CANCELLED};

		command_say("interrupted; %zu %s", pending,
		    pending == 1 ? "task has not ended and goes on" : "tasks have not ended and go on");
		return command_exit_code(&interrupted);
	}
	if (pending > 0)
		command_say("%zu task%s not ended in time", pending, pending == 1 ? " has" : "s have");
	return failed > 0 || pending > 0 ? EXIT_TASK_FAILED : EXIT_OK;
}

int follow_tasks(
    struct reeve_client *client, const int64_t *ids, size_t count, enum follow_mode mode, int64_t timeout_ms, bool json)
{
	struct following following = {.mode = mode, .json = json, .total = count_distinct(ids, count, compare_ids)};
	struct reeve_failure failure = {0};
	struct reeve_wait wait = {
	    .timeout_ms = timeout_ms,
	    .ended = take_ended,
	    .looked = take_look,
	    .arg = &following,
	};
	size_t pending = 0;
	bool done;
	int code;

	following.ended = calloc(following.total ? following.total : 1, sizeof *following.ended);
	if (!following.ended)
		abort();
	progress_begin(&following.progress, "waiting", (int64_t)following.total, 0);
	/* A bar must move; without one the manager may take its time to answer. */
	wait.look_ms = following.progress.shown ? TICK_MS : 0;
	progress_show(&following.progress, 0);
	done = reeve_wait(client, ids, count, &wait, &pending, &failure);
	progress_end(&following.progress);
	if (mode == FOLLOW_TABLE && !json)
		print_table(&following, ids, count);
	fflush(stdout);
	if (!done && failure.code == REEVE_CANCELLED) {
		done = true;
		pending = following.total - following.n_ended;
	}
	code = done ? conclude(&following, pending) : command_failed(&failure);
	for (size_t i = 0; i < following.total; i++) {
		free(following.ended[i].type);
		free(following.ended[i].text);
	}
	free(following.ended);
	return code;
}

struct wait_options {
	int64_t timeout_ms;
};

static const struct option_spec wait_specs[] = {
    {.name = "timeout",
        .type = OPTION_DURATION,
        .offset = offsetof(struct wait_options, timeout_ms),
        .argument = "DURATION",
        .sentence = "wait no longer than this; 0 only looks"},
    {.name = NULL},
};

static const struct option_table wait_table = {
    .program = "reeve wait",
    .usage = "ID... [--timeout DURATION] [--json]",
    .summary = "Waits until all the tasks have ended and shows how. An ID of - reads more from standard input.",
    .epilogue = "Exit codes: 0 all completed, 1 one did not (or not in time), 2 wrong usage,\n"
                "3 no manager reachable, or it refuses for now, 4 refused (no such task).\n"
                "\n"
                "Example: reeve wait 17 18 19",
    .specs = wait_specs,
};

int command_wait(int argc, char **argv)
{
	struct wait_options options = {.timeout_ms = -1};
	struct shared_options shared = {0};
	struct reeve_client *client;
	int operands, code;
	int64_t *ids;
	size_t count;

	if (!command_options(&wait_table, &options, &shared, argc, argv, &operands, &code))
		return code;
	ids = command_ids(&wait_table, operands, argv, &count, &code);
	if (!ids)
		return code;
	interrupts_hold();
	client = command_connect(&shared, &code);
	if (client) {
		interrupts_watch(client, false);
		code = follow_tasks(client, ids, count, FOLLOW_TABLE, options.timeout_ms, shared.json);
		interrupts_watch(NULL, false);
		reeve_client_destroy(client);
	}
	free(ids);
	return code;
}
