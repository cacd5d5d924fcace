/* `reeve wait`, and the waiting of `reeve submit --wait`. Of an ended task only what its line shows is kept. */
#include "client/cmd/follow.h"

#include "client/cmd/command.h"
#include "client/cmd/interrupts.h"
#include "client/cmd/logs.h"
#include "client/cmd/progress.h"
#include "client/cmd/stored.h"
#include "client/cmd/table.h"
#include "client/cmd/terminal.h"
#include "client/cmd/waiting.h"
#include "common/clock.h"
#include "common/mem.h"
#include "common/output.h"
#include "common/result_text.h"
#include "common/text.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { KEPT_TEXT = 200, LOGGED_MAX = 10, TICK_MS = 1000, FOLLOWED_MAX = 100 };

/* The interval at which the reason why a task waits is reported: of one for whose result its submit has waited a
 * second, and of others; and how many tasks are checked for it. */
enum { EXPLAIN_RESULT_MS = 2000, EXPLAIN_MS = 3000, ASKED_ABOUT = 5 };

/* A task that has ended. */
struct ended {
	int64_t id; /* first, for compare_ids */
	Reeve__V1__TaskStatus status;
	uint32_t attempt;
	int64_t ran_ms;
	char *type;
	char *text; /* the beginning of its result or error */
};

struct following {
	struct reeve_client *client;
	enum follow_mode mode;
	const char *store;
	bool json;
	struct progress progress;
	int64_t *ids; /* distinct, ascending */
	bool *gone;   /* which of them have ended */
	size_t total;
	size_t first; /* all before this one have ended */
	size_t n_ended, n_completed, n_dead, n_cancelled;
	size_t n_unwritten; /* results that the manager has omitted */
	struct ended *ended;
	int64_t explain_ms;
	struct logs *logs; /* of each id; NULL: they are not wanted */
	struct reeve_failure logs_failure;
	int64_t ask_ms;              /* when to check next why tasks wait */
	Reeve__V1__Waiting reported; /* the reason reported last */
	uint32_t shown_attempt;
};

static char *copy_beginning(const char *text)
{
	size_t length = strlen(text);

	return mem_strndup(text, length > KEPT_TEXT ? utf8_cut(text, KEPT_TEXT) : length);
}

/* Returns why a task did not complete, in one phrase. */
static char *describe_failure(const Reeve__V1__Task *task)
{
	const char *gap = *task->error_code && *task->last_error ? ": " : "";

	return mem_asprintf("%s%s%s", task->error_code, gap, task->last_error);
}

static void report_failure(const Reeve__V1__Task *task)
{
	char *why = describe_failure(task);
	char *line = terminal_one_line(why);

	command_log("task %" PRId64 " (%s) is %s after %" PRIu32 " attempt%s%s%s", task->id, task->type,
	    reeve_task_status_name(task->status), task->attempt, task->attempt == 1 ? "" : "s", *line ? ": " : "", line);
	free(line);
	free(why);
}

/* Returns what stands in a table for a binary result; NULL: the result is text. */
static char *binary_text(const char *result)
{
	size_t length;
	char *bytes = result_decode(result, &length);
	char *text = bytes ? mem_asprintf("binary: %zu bytes", length) : NULL;

	free(bytes);
	return text;
}

static void keep(struct following *following, const Reeve__V1__Task *task)
{
	struct ended *ended = &following->ended[following->n_ended];
	char *why = task->status == TASK(COMPLETED) ? NULL : describe_failure(task);

	ended->id = task->id;
	ended->status = task->status;
	ended->attempt = task->attempt;
	ended->ran_ms = task->started_us ? (task->ended_us - task->started_us) / 1000 : -1;
	ended->type = mem_strdup(task->type);
	if (!why && task->omitted)
		why = mem_asprintf("omitted: %" PRId64 " bytes, too long for the manager's messages (--max-message)",
		    task->omitted->result_bytes);
	if (!why)
		why = binary_text(task->result);
	ended->text = copy_beginning(why ? why : task->result);
	free(why);
}

/* Writes a result, also one that is in a file of `store`, if that is not NULL. Returns false if it cannot. */
static bool write_result(const Reeve__V1__Task *task, const char *store)
{
	size_t length;
	char *bytes;

	if (task->omitted) {
		command_log(
		    "task %" PRId64 " completed, but its result has %" PRId64
		    " bytes, too long for the manager's messages; raise --max-message of the managers, then: reeve show %" PRId64,
		    task->id, task->omitted->result_bytes, task->id);
		return false;
	}
	if (store && stored_is(task->id, task->result))
		bytes = stored_read(store, task->id, task->result, &length);
	else
		bytes = reeve_result_decode(task->result, &length);
	if (!bytes)
		return false;
	fwrite(bytes, 1, length, stdout);
	/* On a terminal the prompt must begin a line; a program gets only the result. */
	if (length > 0 && bytes[length - 1] != '\n' && terminal_columns(stdout) > 0)
		putchar('\n');
	free(bytes);
	return true;
}

static int compare_ids(const void *a, const void *b)
{
	int64_t one = *(const int64_t *)a, other = *(const int64_t *)b;

	return (one > other) - (one < other);
}

/* Prints the new log lines of a task. Returns false if they cannot be read: then the waiting ends. */
static bool print_logs(struct following *following, size_t place)
{
	if (!following->logs || following->gone[place] || following->logs_failure.code)
		return !following->logs_failure.code;
	progress_end(&following->progress);
	return logs_print(&following->logs[place], &following->logs_failure);
}

static void take_ended(void *arg, const Reeve__V1__Task *task)
{
	struct following *following = arg;
	bool completed = task->status == TASK(COMPLETED);
	int64_t *id = bsearch(&task->id, following->ids, following->total, sizeof *id, compare_ids);

	if (id) {
		print_logs(following, (size_t)(id - following->ids));
		following->gone[id - following->ids] = true;
	}
	following->n_completed += completed;
	following->n_dead += task->status == TASK(DEAD);
	following->n_cancelled += task->status == TASK(CANCELLED);
	if (following->json) {
		progress_end(&following->progress);
		command_print_json(task);
	} else if (following->mode == FOLLOW_TABLE) {
		keep(following, task);
	} else if (completed && following->mode == FOLLOW_RESULT) {
		progress_end(&following->progress);
		following->n_unwritten += !write_result(task, following->store);
	} else if (!completed && following->n_ended - following->n_completed < LOGGED_MAX) {
		progress_end(&following->progress);
		report_failure(task);
	}
	following->n_ended++;
	progress_show(&following->progress, (int64_t)following->n_ended);
}

/* Reports why a task waits, unless that was the last report. */
static void print_why(struct following *following, const Reeve__V1__Task *task)
{
	static const Reeve__V1__Waiting none;
	const Reeve__V1__Waiting *now = task->waiting ? task->waiting : &none, *last = &following->reported;
	char why[WAITING_TEXT];

	/* The retry delay of another attempt is a new reason; a change in busy slots is not. */
	if (now->reason == last->reason && now->task_id == last->task_id &&
	    (now->reason != REEVE__V1__WAIT_REASON__WAIT_REASON_RETRY_DELAY || task->attempt == following->shown_attempt))
		return;
	following->reported = *now;
	following->shown_attempt = task->attempt;
	if (!now->reason || !*waiting_text(task, reeve_client_now_us(following->client), why))
		return; /* it runs, for example: report the next reason, even if it is an old one */
	progress_end(&following->progress);
	command_log("task %" PRId64 " (%s in queue %s) waits: %s", task->id, task->type, task->queue, why);
}

/* Finds the first waiting task and reports why it waits. Several tasks are followed as one: a running one among them is
 * skipped, because it does not explain the others. */
static void ask_why(struct following *following)
{
	int asked = 0;

	while (following->first < following->total && following->gone[following->first])
		following->first++;
	for (size_t i = following->first; i < following->total && asked < ASKED_ABOUT && !interrupts_asked(); i++) {
		Reeve__V1__Task *task = following->gone[i] ? NULL : reeve_get(following->client, following->ids[i], NULL);
		bool explained = task && ((task->waiting && task->waiting->reason) || following->total == 1);

		asked += !following->gone[i];
		if (explained)
			print_why(following, task);
		reeve_free(task);
		if (explained)
			return;
	}
}

/* Returns true if it only writes lines, and their reader has gone. */
static bool nobody_reads(const struct following *following)
{
	return following->json && output_lost();
}

static bool take_poll(void *arg, size_t pending)
{
	struct following *following = arg;

	/* A reader of lines gets each when its task ends. */
	fflush(stdout);
	for (size_t i = following->first; i < following->total; i++)
		if (!print_logs(following, i))
			return false;
	if (pending > 0 && clock_monotonic_ms() >= following->ask_ms) {
		ask_why(following);
		following->ask_ms = clock_monotonic_ms() + following->explain_ms;
	}
	progress_show(&following->progress, (int64_t)(following->total - pending));
	return !interrupts_asked() && !nobody_reads(following);
}

static void print_table(struct following *following, const int64_t *ids, size_t count)
{
	static const struct column columns[] = {COL_NUMBER("ID", NULL), COL_TEXT("TYPE", NULL), COL_WORD("STATUS", NULL),
	    COL_NUMBER("ATTEMPTS", NULL), COL_NUMBER("RAN", NULL), COL_TEXT("RESULT OR ERROR", NULL), {0}};
	struct table *table = table_create(columns);

	qsort(following->ended, following->n_ended, sizeof *following->ended, compare_ids);
	for (size_t i = 0; i < count; i++) {
		const struct ended *ended = bsearch(&ids[i], following->ended, following->n_ended, sizeof *ended, compare_ids);
		char ran[40];

		if (!ended)
			continue;
		table_number(table, ended->id);
		table_text(table, ended->type);
		table_coloured(
		    table, reeve_task_status_name(ended->status), terminal_state_colour(reeve_task_status_name(ended->status)));
		table_number(table, ended->attempt);
		table_text(table, ended->ran_ms < 0 ? "-" : duration_format(ended->ran_ms, ran, sizeof ran));
		table_text(table, ended->text);
	}
	if (following->n_ended > 0)
		table_print(table);
	table_destroy(table);
}

/* Sorts the ids to follow, without duplicates. */
static void take_ids(struct following *following, const int64_t *ids, size_t count)
{
	size_t distinct = 0;

	following->ids = mem_malloc(count * sizeof *ids);
	following->gone = mem_calloc(count, sizeof *following->gone);
	following->ended = mem_calloc(count, sizeof *following->ended);
	if (count)
		memcpy(following->ids, ids, count * sizeof *ids);
	qsort(following->ids, count, sizeof *ids, compare_ids);
	for (size_t i = 0; i < count; i++)
		if (i == 0 || following->ids[i] != following->ids[i - 1])
			following->ids[distinct++] = following->ids[i];
	following->total = distinct;
}

static void begin_logs(struct following *following)
{
	following->logs = mem_calloc(following->total + 1, sizeof *following->logs);
	for (size_t i = 0; i < following->total; i++)
		following->logs[i] = (struct logs){.client = following->client,
		    .id = following->ids[i],
		    .out = stderr,
		    .named = following->total > 1,
		    .progress = true};
}

/* Reports the totals and returns the exit code. */
static int conclude(const struct following *following, size_t pending)
{
	size_t failed = following->n_ended - following->n_completed;

	if (following->mode == FOLLOW_SUMMARY && !following->json)
		command_log("%zu completed, %zu dead, %zu cancelled", following->n_completed, following->n_dead,
		    following->n_cancelled);
	if (pending > 0 && interrupts_asked()) {
		struct reeve_failure interrupted = {.code = REEVE_CANCELLED};

		command_log("interrupted; %zu %s", pending,
		    pending == 1 ? "task has not ended and goes on" : "tasks have not ended and go on");
		return command_exit_code(&interrupted);
	}
	if (pending > 0 && !nobody_reads(following))
		command_log("%zu task%s not ended in time", pending, pending == 1 ? " has" : "s have");
	return failed > 0 || pending > 0 || following->n_unwritten > 0 ? EXIT_TASK_FAILED : EXIT_OK;
}

/* Waits for these tasks, which have not ended, or not for long. */
static bool await(struct following *following, const int64_t *ids, size_t count, int64_t timeout_ms, size_t *pending,
    struct reeve_failure *failure)
{
	struct reeve_wait wait = {
	    .timeout_ms = timeout_ms,
	    /* A progress bar must move. Without one, a poll may take as long as the interval of reasons allows. */
	    .poll_ms = following->progress.shown || following->logs ? TICK_MS : following->explain_ms,
	    .ended = take_ended,
	    .polled = take_poll,
	    .arg = following,
	};
	bool done = reeve_wait(following->client, ids, count, &wait, pending, failure);

	if (!done && failure->code == REEVE_CANCELLED) {
		done = true;
		*pending = following->total - following->n_ended;
	}
	if (done && following->logs_failure.code) {
		done = false;
		*failure = following->logs_failure;
	}
	return done;
}

static void free_following(struct following *following)
{
	for (size_t i = 0; i < following->total; i++) {
		if (following->logs)
			logs_clear(&following->logs[i]);
		free(following->ended[i].type);
		free(following->ended[i].text);
	}
	free(following->ended);
	free(following->logs);
	free(following->gone);
	free(following->ids);
}

static struct following following_in(struct reeve_client *client, enum follow_mode mode, const char *store, bool json)
{
	return (struct following){.client = client,
	    .mode = mode,
	    .store = store,
	    .json = json,
	    .explain_ms = mode == FOLLOW_RESULT ? EXPLAIN_RESULT_MS : EXPLAIN_MS};
}

static void begin_waiting(struct following *following)
{
	following->ask_ms = clock_monotonic_ms() + following->explain_ms;
	progress_begin(&following->progress, "waiting", (int64_t)following->total, 0);
	progress_show(&following->progress, (int64_t)following->n_ended);
}

int follow_tasks(struct reeve_client *client, const int64_t *ids, size_t count, enum follow_mode mode,
    const char *store, int64_t timeout_ms, bool json, bool logs)
{
	struct following following = following_in(client, mode, store, json);
	struct reeve_failure failure = {0};
	size_t pending = 0;
	bool done;
	int code;

	take_ids(&following, ids, count);
	if (logs)
		begin_logs(&following);
	begin_waiting(&following);
	done = await(&following, ids, count, timeout_ms, &pending, &failure);
	progress_end(&following.progress);
	if (mode == FOLLOW_TABLE && !json)
		print_table(&following, ids, count);
	fflush(stdout);
	code = done ? conclude(&following, pending) : command_failed(&failure);
	free_following(&following);
	return code;
}

int follow_submitted(struct reeve_client *client, const Reeve__V1__SubmitAndWaitResponse *answer, enum follow_mode mode,
    const char *store, bool json)
{
	struct following following = following_in(client, mode, store, json);
	struct reeve_failure failure = {0};
	int64_t *ids = mem_calloc(answer->n_tasks, sizeof *ids);
	size_t pending = 0;
	bool done = true;
	int code;

	for (size_t i = 0; i < answer->n_tasks; i++)
		ids[i] = answer->tasks[i]->id;
	take_ids(&following, ids, answer->n_tasks);
	for (size_t i = 0; i < answer->n_ended; i++)
		take_ended(&following, answer->ended[i]);
	for (size_t i = 0; i < following.total; i++)
		if (!following.gone[i])
			ids[pending++] = following.ids[i];
	if (pending) {
		begin_waiting(&following);
		done = await(&following, ids, pending, -1, &pending, &failure);
		progress_end(&following.progress);
	}
	fflush(stdout);
	code = done ? conclude(&following, pending) : command_failed(&failure);
	free_following(&following);
	free(ids);
	return code;
}

struct wait_options {
	int64_t max_wait_ms;
	bool result;
	const char *store;
	bool follow;
};

static const struct option_spec wait_specs[] = {
    OPT_SPAN(0, "max-wait", OPTION_AT(struct wait_options, max_wait_ms), 0, 0, "maximum time to wait; 0: do not wait"),
    OPT_FLAG(0, "result", OPTION_AT(struct wait_options, result), "write the result of one task, and only that"),
    OPT_RESULT_STORE(struct wait_options, store),
    OPT_FLAG('f', "follow", OPTION_AT(struct wait_options, follow),
        "print the tasks' progress and log lines on standard error as they come; of up to 100 tasks"),
    {0},
};

static const struct option_table wait_table = {
    .program = "reeve wait",
    .usage = "ID... [--follow] [--max-wait DURATION] [--json] | ID --result [--follow] [--max-wait DURATION]",
    .summary = "Waits until all these tasks have ended and shows their outcomes. The id - reads more ids from "
               "standard input.",
    .epilogue = "Exit codes: 0 all completed, 1 one did not (or not in time), 2 wrong usage,\n"
                "3 no manager reachable, or it refuses for now, 4 refused (no such task).\n"
                "\n"
                "Examples: reeve wait 17 18 19\n"
                "          reeve wait 17 --result >report.pdf",
    .specs = wait_specs,
};

int command_wait(int argc, char **argv)
{
	struct wait_options options = {.max_wait_ms = -1};
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
	if (options.store && !options.result) {
		free(ids);
		return command_usage(&wait_table, "--result-store needs --result");
	}
	if (options.result && (count > 1 || shared.json)) {
		free(ids);
		return command_usage(&wait_table, "--result goes with one ID, and without --json");
	}
	if (options.follow && count > FOLLOWED_MAX) {
		free(ids);
		return command_usage(&wait_table, "--follow takes up to %d tasks", FOLLOWED_MAX);
	}
	interrupts_hold();
	client = command_connect(&shared, &code);
	if (client) {
		interrupts_watch(client, false);
		code = follow_tasks(client, ids, count, options.result ? FOLLOW_RESULT : FOLLOW_TABLE, options.store,
		    options.max_wait_ms, shared.json, options.follow);
		interrupts_watch(NULL, false);
		reeve_client_destroy(client);
	}
	free(ids);
	return code;
}
