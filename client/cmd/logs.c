/* `reeve logs`. With --follow it reads once a second, as often as workers write. */
#include "client/cmd/logs.h"

#include "client/cmd/command.h"
#include "client/cmd/interrupts.h"
#include "client/cmd/terminal.h"
#include "common/limits.h"
#include "common/mem.h"
#include "common/output.h"

#include <inttypes.h>
#include <reeve/v1/task_calls.h>
#include <stdlib.h>
#include <string.h>

enum { FOLLOW_MS = 1000 };

static void begin_line(const struct logs *logs)
{
	if (logs->named)
		fprintf(logs->out, "%" PRId64 ": ", logs->id);
}

/* Prints what a reader must know before the line: that lines are missing, and that another attempt has written it. */
static void print_break(const struct logs *logs, const Reeve__V1__LogLine *line)
{
	int64_t dropped = line->number - logs->after - 1;

	if (dropped > 0 && !(logs->newest && !logs->after)) {
		begin_line(logs);
		fprintf(logs->out, "-- %" PRId64 " line%s dropped\n", dropped, dropped == 1 ? " was" : "s were");
	}
	if (line->attempt != (logs->attempt ? logs->attempt : 1)) {
		begin_line(logs);
		fprintf(logs->out, "-- attempt %" PRIu32 "\n", line->attempt);
	}
}

static void print_line(struct logs *logs, const Reeve__V1__LogLine *line)
{
	char time[64], *text;

	if (logs->json) {
		command_print_json(line);
	} else {
		text = terminal_one_line(line->text);
		print_break(logs, line);
		begin_line(logs);
		fprintf(logs->out, "%s  %s\n", terminal_time(line->at_us, time, sizeof time), text);
		free(text);
	}
	logs->after = line->number;
	logs->attempt = line->attempt;
}

/* Prints the progress and the remark if one of them has changed. */
static void print_progress(struct logs *logs, const Reeve__V1__LogsResponse *response)
{
	const char *last = logs->shown_remark ? logs->shown_remark : "";
	char *text;

	bool has_progress = response->last_progress_case == REEVE__V1__LOGS_RESPONSE__LAST_PROGRESS_PROGRESS;

	if (has_progress == logs->has_shown && response->progress == logs->shown && !strcmp(response->remark, last))
		return;
	logs->has_shown = has_progress;
	logs->shown = response->progress;
	free(logs->shown_remark);
	logs->shown_remark = mem_strdup(response->remark);
	text = terminal_one_line(response->remark);
	begin_line(logs);
	if (has_progress)
		fprintf(logs->out, "%g %%%s", response->progress, *text ? "  " : "");
	fprintf(logs->out, "%s\n", text);
	free(text);
}

bool logs_print(struct logs *logs, struct reeve_failure *failure)
{
	bool more = true;

	while (more) {
		bool newest = logs->newest && !logs->after;
		Reeve__V1__LogsRequest request = {.task_id = logs->id,
		    .after_number = logs->after,
		    .newest = newest,
		    .limit = newest ? logs->newest : LIMIT_LOG_LINES};
		Reeve__V1__LogsResponse *response = reeve_task_logs(logs->client, &request, NULL, failure);

		if (!response)
			return false;
		for (size_t i = 0; i < response->n_lines; i++)
			print_line(logs, response->lines[i]);
		if (logs->progress && !response->more)
			print_progress(logs, response);
		logs->status = response->status;
		more = response->more && response->n_lines > 0;
		reeve_free(response);
	}
	fflush(logs->out);
	return true;
}

void logs_clear(struct logs *logs)
{
	free(logs->shown_remark);
}

struct logs_options {
	bool follow;
	int64_t limit;
};

static const struct option_spec specs[] = {
    OPT_FLAG('f', "follow", OPTION_AT(struct logs_options, follow), "go on with new lines until the task has ended"),
    OPT_INTEGER('n', "limit", OPTION_AT(struct logs_options, limit), 1, LIMIT_LOG_LINES, "N", "only the last N lines"),
    {0},
};

static const struct option_table table = {
    .program = "reeve logs",
    .usage = "ID [--follow] [--limit N] [--json]",
    .summary =
        "Shows what the handlers of a task have logged, of all its attempts. The last lines are kept, as long as the "
        "task is.",
    .epilogue = "Examples:\n"
                "  reeve logs 17 --follow\n"
                "  reeve logs 17 --limit 20 --json",
    .specs = specs,
};

/* Prints new lines until the task has ended or the reader has gone. */
static bool follow(struct logs *logs, struct reeve_failure *failure)
{
	const struct reeve_wait wait = {.timeout_ms = FOLLOW_MS};
	size_t pending;

	while (logs_print(logs, failure)) {
		if (reeve_task_status_ended(logs->status) || output_lost())
			return true;
		if (!reeve_wait(logs->client, &logs->id, 1, &wait, &pending, failure))
			return false;
	}
	return false;
}

static int print_logs(struct reeve_client *client, int64_t id, const struct logs_options *options, bool json)
{
	struct logs logs = {.client = client,
	    .id = id,
	    .out = stdout,
	    .json = json,
	    .newest = options->limit == NOT_GIVEN ? 0 : (uint32_t)options->limit};
	struct reeve_failure failure = {0};
	bool done = options->follow ? follow(&logs, &failure) : logs_print(&logs, &failure);

	if (done && !logs.after && !json)
		command_log("task %" PRId64 " has no log lines", id);
	logs_clear(&logs);
	return done ? EXIT_OK : command_failed(&failure);
}

int command_logs(int argc, char **argv)
{
	struct logs_options options = {.limit = NOT_GIVEN};
	struct shared_options shared = {0};
	struct reeve_client *client;
	int operands, code;
	int64_t id;

	if (!command_options(&table, &options, &shared, argc, argv, &operands, &code))
		return code;
	if (operands != 1)
		return command_usage(&table, operands ? "too many arguments: give one task" : "the task's id is missing");
	if (!command_number(argv[1], &id))
		return command_usage(&table, "\"%s\" is not a task id; ids are whole numbers from 1", argv[1]);
	interrupts_hold();
	client = command_connect(&shared, &code);
	if (client) {
		interrupts_watch(client, false);
		code = print_logs(client, id, &options, shared.json);
		interrupts_watch(NULL, false);
		reeve_client_destroy(client);
	}
	return code;
}
