/* `reeve batch report|wait`. */
#include "client/cmd/batch.h"
#include "client/cmd/command.h"
#include "client/cmd/fields.h"
#include "client/cmd/progress.h"
#include "common/clock.h"
#include "common/mem.h"

#include <inttypes.h>
#include <reeve/v1/batch_calls.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { POLL_MS = 250, LINES_WIDTH = 12 };

/* Reads the operand that is a batch's id. Returns false with *code set after an error message. */
static bool take_id(const struct option_table *table, int operands, char **argv, int64_t *id, int *code)
{
	if (operands != 1)
		*code = command_usage(table,
		    operands ? "too many arguments: give one batch's ID"
		             : "the batch's id is missing; `reeve batch list` lists the ids");
	else if (!command_number(argv[1], id))
		*code = command_usage(table, "\"%s\" is not a batch id; ids are whole numbers from 1", argv[1]);
	else
		return true;
	return false;
}

/* Reads a page. Returns NULL with *code set after an error message. */
static Reeve__V1__BatchReportResponse *read_page(
    struct reeve_client *client, Reeve__V1__BatchReportRequest *request, int *code)
{
	struct reeve_failure failure = {0};
	Reeve__V1__BatchReportResponse *page = reeve_batch_report(client, request, NULL, &failure);

	if (page && page->batch)
		return page;
	if (page) {
		reeve_free(page);
		failure.code = REEVE_INTERNAL;
		strcpy(failure.message, "the manager answered without the batch");
	}
	*code = command_failed(&failure);
	return NULL;
}

/*
 * report
 */

static const struct option_spec report_specs[] = {
    OPT_CHOICE(0, "tasks", OPTION_FIELD("tasks"), "completed|failed|pending", "only these tasks"),
    OPT_FLAG(0, "full", OPTION_FIELD("full"), "also the details and the result of each task"),
    {0},
};

static const struct option_table report_table = {
    .program = "reeve batch report",
    .usage = "ID [--tasks completed|failed|pending] [--full] [--json]",
    .summary = "Shows a batch: its totals and times, and each of its tasks with attempts, times, remarks and "
               "errors.",
    .epilogue = "Examples:\n"
                "  reeve batch report 7 --tasks failed\n"
                "  reeve batch report 7 --full --json | jq '.tasks[].result'",
    .specs = report_specs,
};

/* The remark, and the error unless it was overcome. */
static void show_remark(const void *message, int64_t now_us, struct shown *out)
{
	const Reeve__V1__Task *task = message;
	const char *error = task->status == TASK(COMPLETED) ? "" : task->last_error;
	const char *code = task->status == TASK(COMPLETED) ? "" : task->error_code;

	(void)now_us;
	out->value = out->owned = mem_asprintf("%s%s%s%s%s", task->remark, *task->remark && (*code || *error) ? "; " : "",
	    code, *code && *error ? ": " : "", error);
}

static const struct column columns[] = {
    COL_NUMBER("ID", "id"),
    COL_WORD("STATUS", "status", .as = AS_STATE),
    COL_TEXT("TYPE", "type"),
    COL_NUMBER("TRIES", NULL, .show = fields_tries),
    COL_WORD("STARTED", "started_us", .as = AS_TIME),
    COL_WORD("ENDED", "ended_us", .as = AS_TIME),
    COL_TEXT("WORKER", "worker"),
    COL_TEXT("REMARK", NULL, .show = show_remark),
    {0},
};

static const struct column lines[] = {
    {"task", .field = "id"},
    {"status", .field = "status", .as = AS_STATE},
    {"type", .field = "type"},
    {"tries", .show = fields_tries},
    {"started", .field = "started_us", .as = AS_TIME},
    {"ended", .field = "ended_us", .as = AS_TIME},
    {"worker", .field = "worker"},
    {"remark", .show = show_remark},
    {"details", .field = "details"},
    {"result", .field = "result"},
    {0},
};

/* Writes one object over several pages: {"batch": {…}, "tasks": […]}. `shown`: how many tasks were on the pages before.
 */
static void json_page(Reeve__V1__BatchReportResponse *page, bool full, bool first, size_t shown)
{
	if (first) {
		fputs("{\"batch\":", stdout);
		command_write_message(page->batch);
		fputs(",\"tasks\":[", stdout);
	}
	for (size_t i = 0; i < page->n_tasks; i++) {
		Reeve__V1__Task *task = page->tasks[i];

		task->stack_trace = NULL; /* what is not sent must not appear as empty */
		if (!full || (task->omitted && task->omitted->details_bytes))
			task->details = NULL;
		if (!full || (task->omitted && task->omitted->result_bytes))
			task->result = NULL;
		fputs(shown + i ? "," : "", stdout);
		command_write_message(task);
	}
	if (!page->more)
		puts("]}");
}

static void print_page(
    const Reeve__V1__BatchReportResponse *page, bool full, bool first, struct table *table, int64_t now_us)
{
	if (first)
		batch_print(page->batch, now_us);
	for (size_t i = 0; i < page->n_tasks; i++) {
		if (full) {
			putchar('\n');
			fields_lines(LINES_WIDTH, lines, page->tasks[i], now_us);
		} else {
			fields_row(table, columns, page->tasks[i], now_us);
		}
	}
}

static int report(struct reeve_client *client, Reeve__V1__BatchReportRequest *request, bool json)
{
	struct table *table = table_create(columns);
	size_t shown = 0;
	bool more = true, first = true;
	int code = EXIT_OK;

	while (more && !ferror(stdout)) {
		Reeve__V1__BatchReportResponse *page = read_page(client, request, &code);

		if (!page)
			break;
		if (json)
			json_page(page, request->full, first, shown);
		else
			print_page(page, request->full, first, table, reeve_client_now_us(client));
		first = false;
		shown += page->n_tasks;
		more = reeve_next_page(request, page);
		reeve_free(page);
	}
	if (!json && !request->full && shown > 0) {
		putchar('\n');
		table_print(table);
	}
	table_destroy(table);
	return code;
}

int batch_report(int argc, char **argv)
{
	Reeve__V1__BatchReportRequest request = REEVE__V1__BATCH_REPORT_REQUEST__INIT;
	struct option_message options = {.message = &request.base};
	struct shared_options shared = {0};
	struct reeve_client *client;
	int operands, code;

	if (!command_options(&report_table, &options, &shared, argc, argv, &operands, &code) ||
	    !take_id(&report_table, operands, argv, &request.id, &code))
		return code;
	client = command_connect(&shared, &code);
	if (!client)
		return code;
	code = report(client, &request, shared.json);
	reeve_client_destroy(client);
	return code;
}

/*
 * wait
 */

struct wait_options {
	int64_t max_wait_ms;
};

static const struct option_spec wait_specs[] = {
    OPT_SPAN(0, "max-wait", OPTION_AT(struct wait_options, max_wait_ms), 0, 0,
        "stop waiting after this time; if not set, never"),
    {0},
};

static const struct option_table wait_table = {
    .program = "reeve batch wait",
    .usage = "ID [--max-wait DURATION] [--json]",
    .summary = "Waits until a batch has ended, and shows its totals. The exit code is 1 if a task failed or the "
               "time is over.",
    .epilogue = "Example: reeve batch wait 7 --max-wait 1h",
    .specs = wait_specs,
};

/* Shows how far the batch is. */
static void show_progress(struct progress *progress, const Reeve__V1__Batch *batch)
{
	if (!progress->begun_ms)
		progress_begin(progress, "waiting", 0, batch->submitted - batch->pending);
	progress->total = batch->submitted; /* an open batch grows */
	progress_show(progress, batch->submitted - batch->pending);
}

static int wait_for(struct reeve_client *client, int64_t id, int64_t max_wait_ms, bool json)
{
	int64_t end_ms = max_wait_ms < 0 ? INT64_MAX : clock_monotonic_ms() + max_wait_ms;
	Reeve__V1__BatchReportRequest request = {.id = id, .limit = 1};
	Reeve__V1__BatchReportResponse *page = NULL;
	struct progress progress = {0};
	bool ended = false;
	int code;

	do {
		if (page)
			nanosleep(&(struct timespec){.tv_nsec = POLL_MS * 1000000L}, NULL);
		reeve_free(page);
		page = read_page(client, &request, &code);
		if (!page)
			break;
		ended = fields_is(page->batch, "state", "ended");
		if (!ended && clock_monotonic_ms() < end_ms)
			show_progress(&progress, page->batch);
	} while (!ended && clock_monotonic_ms() < end_ms);
	progress_end(&progress);
	if (!page)
		return code;
	if (json)
		command_print_json(page->batch);
	else
		batch_print(page->batch, reeve_client_now_us(client));
	if (!ended)
		command_log("batch %" PRId64 " has not ended in time", id);
	code = ended && page->batch->failed == 0 ? EXIT_OK : EXIT_TASK_FAILED;
	reeve_free(page);
	return code;
}

int batch_wait(int argc, char **argv)
{
	struct wait_options options = {.max_wait_ms = -1};
	struct shared_options shared = {0};
	struct reeve_client *client;
	int operands, code;
	int64_t id;

	if (!command_options(&wait_table, &options, &shared, argc, argv, &operands, &code) ||
	    !take_id(&wait_table, operands, argv, &id, &code))
		return code;
	client = command_connect(&shared, &code);
	if (!client)
		return code;
	code = wait_for(client, id, options.max_wait_ms, shared.json);
	reeve_client_destroy(client);
	return code;
}
