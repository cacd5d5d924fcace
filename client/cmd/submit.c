/* `reeve submit`: one task from the command line; bulk.c submits files. */
#include "client/cmd/bulk.h"
#include "client/cmd/command.h"
#include "client/cmd/follow.h"
#include "client/cmd/interrupts.h"
#include "client/cmd/task_options.h"
#include "common/check_task.h"
#include "common/text.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

struct submit_options {
	struct option_message message;
	struct task_options task;
	const char *bulk, *bare_type;
	bool wait;
	const char *store;
};

static const struct option_spec specs[] = {
    TASK_OPTIONS(struct submit_options, "", TASK_AT_HELP, TASK_VERSION_HELP),
    OPT_NAME(0, "traceparent", OPTION_FIELD("traceparent"), "TRACEPARENT",
        "the trace context that the handler gets (W3C); if not set, $TRACEPARENT, if that is valid"),
    OPT_TEXT(0, "bulk", OPTION_AT(struct submit_options, bulk), "FILE|-",
        "submit a file (or standard input) with one JSON object per line, or one JSON array of them; the options above are their defaults"),
    OPT_NAME('t', "type", OPTION_AT(struct submit_options, bare_type), "TYPE",
        "with --bulk: each line or element is the details of a task of TYPE"),
    OPT_FLAG('w', "wait", OPTION_AT(struct submit_options, wait), "wait until it has ended and write its result"),
    OPT_RESULT_STORE(struct submit_options, store),
    {0},
};

static const struct option_table table = {
    .program = "reeve submit",
    .usage =
        "TYPE [DETAILS|-] [OPTION]... | --pipeline NAME [DETAILS|-] [OPTION]... | --bulk FILE|- [TYPE | --type TYPE] [OPTION]...",
    .summary = "Submits a task of TYPE and prints its id. DETAILS are the handler's input; - reads them from standard "
               "input. With --bulk a file is checked whole, then submitted in chunks; the ids come in its order.",
    .epilogue = "A line of a bulk file may have the fields queue, type, details (text, or any\n"
                "JSON), priority, delay or delay_ms, run_at, key, key_ttl or key_ttl_ms, version,\n"
                "max_attempts or retry_limit, timeout or timeout_ms, retry {base or base_ms, max\n"
                "or max_ms, backoff, jitter}, batch_id, pipeline, stage, source and traceparent.\n"
                "\n"
                "Examples:\n"
                "  reeve submit mail '{\"to\":\"ann@example.org\"}' --key order-17\n"
                "  reeve submit sha256 - --wait < file\n"
                "  reeve submit report --at '2026-01-14 08:00' --priority 5\n"
                "  reeve submit fetch URL --retry-limit 4 --backoff list:1m,5m,30m,2h --jitter 10\n"
                "  reeve submit build HEAD --key site --key-version 17\n"
                "  reeve submit --pipeline images '{\"url\":\"https://example.org/a.jpg\"}' --wait\n"
                "  reeve submit --bulk tasks.jsonl --queue night --wait\n"
                "  reeve submit --bulk letters.json --type mail\n"
                "\n"
                "Exit codes: 0 success, 1 a task did not complete (--wait), 2 wrong usage,\n"
                "3 no manager reachable, or it refuses for now, 4 refused.",
    .specs = specs,
};

static int submit_failed(const struct reeve_failure *failure)
{
	int code = command_failed(failure);

	if (failure->code == REEVE_DEADLINE_EXCEEDED || failure->code == REEVE_CANCELLED)
		command_log("the task may have been stored all the same; with a --key a submit can be repeated safely");
	return code;
}

static void report_existing(const Reeve__V1__TaskSpec *spec, const Reeve__V1__SubmittedTask *task)
{
	if (task->restarted)
		command_log("version %" PRId64 " is newer: task %" PRId64 ", which has the key \"%s\", is run again",
		    spec->version, task->id, spec->key);
	else if (task->existing)
		command_log("the key \"%s\" was known already: task %" PRId64 " is the earlier one", spec->key, task->id);
}

static int submit_and_wait(struct reeve_client *client, const Reeve__V1__TaskSpec *spec, const char *store, bool json)
{
	struct reeve_failure failure = {0};
	Reeve__V1__SubmitAndWaitResponse *answer = reeve_submit_and_wait(client, spec, 1, SUBMIT_WAIT_MS, NULL, &failure);
	int code;

	if (!answer)
		return submit_failed(&failure);
	if (!json)
		report_existing(spec, answer->tasks[0]);
	code = follow_submitted(client, answer, FOLLOW_RESULT, store, json);
	reeve_free(answer);
	return code;
}

/* Submits one task, and waits for it if requested. */
static int submit_one(
    struct reeve_client *client, const Reeve__V1__TaskSpec *spec, const struct submit_options *options, bool json)
{
	Reeve__V1__SubmittedTask task;
	struct reeve_failure failure = {0};

	interrupts_watch(client, false);
	if (!reeve_client_ready(client, &failure))
		return command_failed(&failure);
	if (options->wait)
		return submit_and_wait(client, spec, options->store, json);
	if (!reeve_submit(client, spec, 1, NULL, &task, &failure))
		return submit_failed(&failure);
	if (json) {
		command_print_json(&task);
		return EXIT_OK;
	}
	report_existing(spec, &task);
	printf("%" PRId64 "\n", task.id);
	return EXIT_OK;
}

static int submit_as(struct reeve_client *client, const struct submit_options *options, Reeve__V1__TaskSpec *spec,
    struct lines *lines, int operands, char **argv, bool json)
{
	int at = spec->pipeline ? 1 : 2; /* the index of the details */
	char *details = NULL;
	int code;

	if (options->bulk)
		return bulk_submit(client, lines, options->bare_type, spec, options->wait, json);
	if (operands >= at && strcmp(argv[at], "-") == 0) {
		details = task_details_read(client, &code);
		if (!details)
			return code;
		spec->details = details;
	} else if (operands >= at) {
		spec->details = argv[at];
	}
	code = submit_one(client, spec, options, json);
	free(details);
	return code;
}

static int submit(struct reeve_client *client, const struct submit_options *options, Reeve__V1__TaskSpec *spec,
    struct lines *lines, int operands, char **argv, bool json)
{
	Reeve__V1__BatchReportResponse *batch = NULL;
	int code;

	/* All tasks of a batch are of one queue. */
	if (spec->batch_id && !spec->queue) {
		batch = task_options_batch(client, spec->batch_id, &code);
		if (!batch)
			return code;
		spec->queue = batch->batch->queue;
	}
	code = submit_as(client, options, spec, lines, operands, argv, json);
	reeve_free(batch);
	return code;
}

/* Returns what is wrong with the options beyond the option table's checks, or NULL. */
static const char *usage_problem(const struct submit_options *options, const Reeve__V1__TaskSpec *spec, int operands)
{
	if (option_is_set(&options->message, "key_ttl_ms") && !spec->key && !options->bulk)
		return "--key-ttl needs a --key";
	if (spec->version && !spec->key && !options->bulk)
		return "--key-version needs a --key";
	if (options->bulk && spec->key)
		return "--key cannot be the same for all tasks of a file; each line may have its own";
	if (spec->pipeline && operands > (options->bulk ? 0 : 1))
		return "a TYPE cannot be combined with --pipeline: give only DETAILS (quote details with blanks)";
	if (options->bare_type && (!options->bulk || spec->pipeline || operands))
		return "--type goes with --bulk, without another TYPE and without --pipeline";
	if (options->store && (!options->wait || options->bulk))
		return "--result-store goes with --wait, without --bulk";
	if (options->bulk && operands > 1)
		return "the details of --bulk stand in its lines";
	if (!options->bulk && !spec->pipeline && operands == 0)
		return "the task's TYPE is missing";
	if (operands > 2)
		return "give one TYPE and one DETAILS; details with blanks need quotes";
	return NULL;
}

/* Takes the trace context of this process, as OpenTelemetry passes it. An invalid one is no reason to submit nothing.
 */
static void take_traceparent(Reeve__V1__TaskSpec *spec)
{
	const char *traceparent = text_given(getenv("TRACEPARENT"));
	const char *problem = traceparent ? task_traceparent_problem(traceparent) : NULL;

	if (spec->traceparent)
		return;
	if (problem)
		command_log("$TRACEPARENT is ignored: it %s", problem);
	else
		spec->traceparent = traceparent;
}

int command_submit(int argc, char **argv)
{
	Reeve__V1__TaskSpec spec = {.base.descriptor = &reeve__v1__task_spec__descriptor};
	struct submit_options options = {.message.message = &spec.base, .task.retry_limit = NOT_GIVEN};
	struct shared_options shared = {0};
	struct reeve_error error = {0};
	struct lines lines = {0};
	struct reeve_client *client;
	const char *problem;
	int operands, code;

	if (!command_options(&table, &options, &shared, argc, argv, &operands, &code))
		return code;
	if (!task_options_complete(&options.message, "", &options.task, &spec, &error))
		return command_usage(&table, "%s", error.message);
	take_traceparent(&spec);
	problem = usage_problem(&options, &spec, operands);
	if (problem)
		return command_usage(&table, "%s", problem);
	if (operands > 0 && !spec.pipeline)
		spec.type = argv[1];
	if (options.bare_type)
		spec.type = options.bare_type;
	if (options.bulk && !lines_open(&lines, options.bulk, &error)) {
		command_log("--bulk: %s", error.message);
		return EXIT_USAGE;
	}
	interrupts_hold();
	client = command_connect(&shared, &code);
	if (client)
		code = submit(client, &options, &spec, &lines, operands, argv, shared.json);
	command_disconnect(client);
	lines_close(&lines);
	return code;
}
