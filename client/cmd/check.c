/*
 * `reeve check`: a plugin for monitoring. Its first line, its exit codes and the numbers after the bar have the format
 * of Nagios, Icinga and similar systems; then each condition has a line.
 */
#include "client/cmd/command.h"
#include "client/cmd/terminal.h"
#include "client/cmd/waiting.h"
#include "common/clock.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* The exit codes of a plugin, which differ from those of the other commands. */
enum state { STATE_OK, STATE_WARNING, STATE_CRITICAL, STATE_UNKNOWN };

static const char *const state_names[] = {"OK", "WARNING", "CRITICAL", "UNKNOWN"};

enum { NO_BOUND = -1 };

/* A value above a bound is a warning, or critical; NO_BOUND: never. */
struct bounds {
	int64_t warning, critical;
};

struct check_options {
	const char *dead, *failed, *oldest, *running, *schedules, *callbacks, *unserved, *held;
	const char *queue, *type;
	int64_t timeout_ms;
};

/* The bounds of a check without conditions: a warning from the first task that no worker takes. Tasks in queues that
 * are paused, stopped or not started are shown without a warning, because an operator decided that. */
static const struct bounds from_the_first = {0, NO_BOUND}, unbounded = {NO_BOUND, NO_BOUND};

/* The conditions that can be checked. */
static const struct condition {
	const char *option;
	const char *label; /* in the plugin's numbers, and in JSON */
	enum reeve_check_kind kind;
	bool is_time; /* the value is the longest time; otherwise a count */
	size_t offset;
	const char *one, *many; /* "%s" is the duration */
	const struct bounds *by_itself; /* the bounds if no condition is requested; NULL: checked only on request */
} conditions[] = {
    {"dead-per-hour", "dead_per_hour", REEVE_CHECK_DEAD, false, offsetof(struct check_options, dead),
        "task ended dead within the last hour", "tasks ended dead within the last hour", NULL},
    {"failed", "failed", REEVE_CHECK_FAILED, false, offsetof(struct check_options, failed),
        "task has failed and waits to be tried again", "tasks have failed and wait to be tried again", NULL},
    {"oldest-queued", "oldest_queued", REEVE_CHECK_OLDEST_QUEUED, true, offsetof(struct check_options, oldest),
        "the task that waits longest is due for %s", "no due task waits", NULL},
    {"running-longer", "running_longest", REEVE_CHECK_RUNNING, true, offsetof(struct check_options, running),
        "the attempt that runs longest runs for %s", "no attempt runs", NULL},
    {"schedule-late", "schedule_latest", REEVE_CHECK_SCHEDULES, true, offsetof(struct check_options, schedules),
        "the latest schedule is overdue by %s", "no schedule is overdue", NULL},
    {"callbacks-given-up", "callbacks_given_up", REEVE_CHECK_CALLBACKS, false,
        offsetof(struct check_options, callbacks), "callback was given up within the last hour",
        "callbacks were given up within the last hour", NULL},
    {"unserved", "unserved", REEVE_CHECK_UNSERVED, false, offsetof(struct check_options, unserved),
        "waiting task lacks a worker that takes it", "waiting tasks lack a worker that takes them", &from_the_first},
    {"halted", "halted", REEVE_CHECK_HALTED, false, offsetof(struct check_options, held),
        "task waits in a queue that gives none", "tasks wait in queues that give none", &unbounded},
};

enum { N_CONDITIONS = sizeof conditions / sizeof *conditions };

static const struct option_spec check_specs[] = {
    {.name = "dead-per-hour",
        .type = OPTION_TEXT,
        .offset = offsetof(struct check_options, dead),
        .argument = "[WARN,]CRIT",
        .help = "more tasks than this ended dead within the last hour"},
    {.name = "failed",
        .type = OPTION_TEXT,
        .offset = offsetof(struct check_options, failed),
        .argument = "[WARN,]CRIT",
        .help = "more failed tasks than this wait for their retry"},
    {.name = "oldest-queued",
        .type = OPTION_TEXT,
        .offset = offsetof(struct check_options, oldest),
        .argument = "[WARN,]CRIT",
        .help = "a due task has waited longer than this, in a running queue"},
    {.name = "running-longer",
        .type = OPTION_TEXT,
        .offset = offsetof(struct check_options, running),
        .argument = "[WARN,]CRIT",
        .help = "an attempt has been executing longer than this"},
    {.name = "schedule-late",
        .type = OPTION_TEXT,
        .offset = offsetof(struct check_options, schedules),
        .argument = "[WARN,]CRIT",
        .help = "a schedule that is not paused is overdue by more than this duration"},
    {.name = "callbacks-given-up",
        .type = OPTION_TEXT,
        .offset = offsetof(struct check_options, callbacks),
        .argument = "[WARN,]CRIT",
        .help = "more callbacks than this were given up within the last hour"},
    {.name = "unserved",
        .type = OPTION_TEXT,
        .offset = offsetof(struct check_options, unserved),
        .argument = "[WARN,]CRIT",
        .help = "more tasks than this wait in running queues and no worker accepts them; without conditions "
                "\"0,\" is checked"},
    {.name = "halted",
        .type = OPTION_TEXT,
        .offset = offsetof(struct check_options, held),
        .argument = "[WARN,]CRIT",
        .help = "more tasks than this wait in queues that are paused, not started, stopping or stopped; without "
                "conditions it is shown without limits"},
    {.name = "queue",
        .type = OPTION_TEXT,
        .offset = offsetof(struct check_options, queue),
        .argument = "NAME",
        .letter = 'q',
        .help = "check only this queue"},
    {.name = "type",
        .type = OPTION_TEXT,
        .offset = offsetof(struct check_options, type),
        .argument = "TYPE",
        .letter = 't',
        .help = "check only this task type"},
    {.name = "timeout",
        .type = OPTION_DURATION,
        .offset = offsetof(struct check_options, timeout_ms),
        .default_value = "10s",
        .min = 1,
        .max = 3600 * 1000,
        .argument = "DURATION",
        .help = "timeout of the check"},
    {.name = NULL},
};

static const struct option_table check_table = {
    .program = "reeve check",
    .usage = "[CONDITION]... [--queue NAME] [--type TYPE] [--json]",
    .summary = "Checks Reeve's health, for monitoring. A condition takes one limit, above which the result is "
               "CRITICAL, or two with a comma, where the first is the limit for WARNING; \"WARN,\" is only a "
               "warning. Without conditions: whether a manager and its database answer, and whether every waiting "
               "task has a worker.",
    .epilogue = "Example: reeve check --dead-per-hour 0,10 --oldest-queued 5m,30m\n"
                "\n"
                "Exit codes, unlike those of other commands: 0 OK, 1 WARNING, 2 CRITICAL,\n"
                "3 UNKNOWN (no manager, no database, an unknown queue or type, wrong usage).",
    .specs = check_specs,
};

static const char *text_of(const struct check_options *options, const struct condition *condition)
{
	return *(const char *const *)((const char *)options + condition->offset);
}

/* Parses one bound. */
static bool read_bound(const char *text, bool is_time, int64_t *bound)
{
	char *end;

	if (is_time)
		return duration_parse(text, bound);
	errno = 0;
	*bound = isdigit((unsigned char)*text) ? strtoll(text, &end, 10) : -1;
	return *bound >= 0 && !errno && *end == '\0';
}

/* Parses "CRIT", "WARN,CRIT" or "WARN,". */
static bool read_bounds(const char *text, bool is_time, struct bounds *bounds)
{
	const char *comma = strchr(text, ',');
	char first[64];

	bounds->warning = bounds->critical = NO_BOUND;
	if (!comma)
		return read_bound(text, is_time, &bounds->critical);
	if ((size_t)(comma - text) >= sizeof first)
		return false;
	memcpy(first, text, (size_t)(comma - text));
	first[comma - text] = '\0';
	return read_bound(first, is_time, &bounds->warning) &&
	       (comma[1] == '\0' || read_bound(comma + 1, is_time, &bounds->critical));
}

/* A requested condition and its outcome. */
struct asked {
	const struct condition *condition;
	struct bounds bounds;
	int64_t value;
	enum state state;
	char *text; /* a sentence without a full stop */
};

struct outcome {
	enum state state;
	char *summary;
	const char *manager; /* or NULL */
	const struct reeve_measures *check; /* or NULL */
	struct asked asked[N_CONDITIONS];
	size_t count;
};

__attribute__((format(printf, 1, 2))) static char *text_made(const char *format, ...)
{
	va_list arguments;
	char *text;

	va_start(arguments, format);
	if (vasprintf(&text, format, arguments) < 0)
		abort();
	va_end(arguments);
	return text;
}

/* Formats a duration in full seconds, or in milliseconds if it is shorter than one. */
static const char *span(int64_t ms, char *out, size_t size)
{
	return duration_format(ms < 1000 ? ms : ms / 1000 * 1000, out, size);
}

/* "more than 5" or "longer than 5m". */
static void write_bound(FILE *out, const struct condition *condition, int64_t bound)
{
	char text[40];

	if (condition->is_time)
		fprintf(out, "longer than %s", duration_format(bound, text, sizeof text));
	else
		fprintf(out, "more than %" PRId64, bound);
}

static void judge(struct asked *asked, const struct reeve_check_measure *measure)
{
	const struct condition *condition = asked->condition;
	char *text = NULL, took[40];
	size_t size;
	FILE *out = open_memstream(&text, &size);

	if (!out)
		abort();
	asked->value = condition->is_time ? measure->longest_ms : measure->count;
	asked->state = asked->bounds.critical != NO_BOUND && asked->value > asked->bounds.critical  ? STATE_CRITICAL
	               : asked->bounds.warning != NO_BOUND && asked->value > asked->bounds.warning ? STATE_WARNING
	                                                                                            : STATE_OK;
	if (!condition->is_time) {
		if (asked->value)
			fprintf(out, "%" PRId64 " ", asked->value);
		else
			fputs("no ", out);
		fputs(asked->value > 1 ? condition->many : condition->one, out);
	} else if (asked->value || measure->count) {
		const char *mark = strstr(condition->one, "%s");

		fprintf(out, "%.*s%s%s", (int)(mark - condition->one), condition->one, span(asked->value, took, sizeof took),
		    mark + 2);
	} else {
		fputs(condition->many, out);
	}
	if (asked->state != STATE_OK) {
		fputs(", ", out);
		write_bound(out, condition,
		    asked->state == STATE_CRITICAL ? asked->bounds.critical : asked->bounds.warning);
	}
	fclose(out);
	asked->text = text;
}

/* Joins the sentences of all conditions that are not OK; or reports that all are. */
static char *summary_of(const struct outcome *outcome)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	const char *joint = "";

	if (!out)
		abort();
	/* The worst come first: a pager may show only the beginning. */
	for (int state = STATE_CRITICAL; state > STATE_OK; state--) {
		for (size_t i = 0; i < outcome->count; i++) {
			if ((int)outcome->asked[i].state != state)
				continue;
			fprintf(out, "%s%s", joint, outcome->asked[i].text);
			joint = "; ";
		}
	}
	if (outcome->state == STATE_OK)
		fprintf(out, "manager %s and its database answer", outcome->manager);
	if (outcome->state == STATE_OK && outcome->count)
		fprintf(out, ", %zu condition%s kept", outcome->count, outcome->count == 1 ? " is" : "s are");
	fclose(out);
	return text;
}

/*
 * Output.
 */

/* Writes a string without terminal control characters and without the bar, which begins the numbers. */
static void write_text(const char *text)
{
	char *line = terminal_one_line(text);

	for (char *c = line; *c; c++)
		putchar(*c == '|' ? '/' : *c);
	free(line);
}

static void write_number(const struct asked *asked, int64_t number)
{
	if (number == NO_BOUND)
		return;
	if (asked->condition->is_time)
		printf("%" PRId64 ".%03d", number / 1000, (int)(number % 1000));
	else
		printf("%" PRId64, number);
}

/* Writes label=value[unit];warning;critical;minimum. */
static void write_performance(const struct asked *asked)
{
	printf("%s=", asked->condition->label);
	write_number(asked, asked->value);
	printf("%s;", asked->condition->is_time ? "s" : "");
	write_number(asked, asked->bounds.warning);
	putchar(';');
	write_number(asked, asked->bounds.critical);
	fputs(";0", stdout);
}

/* Writes why a task waits. */
static void write_reason(struct reeve_client *client, int64_t id)
{
	struct reeve_task *task = reeve_get(client, id, NULL);
	char why[WAITING_TEXT];

	if (task && *waiting_text(task, reeve_client_now_us(client), why)) {
		fputs(": ", stdout);
		write_text(why);
	}
	reeve_task_free(task);
}

static void write_example(
    struct reeve_client *client, const struct reeve_check_measure *measure, const struct reeve_check_example *example)
{
	enum reeve_check_kind kind = measure->kind;
	bool all = !measure->examined || measure->examined >= measure->count; /* older managers do not send it */
	char took[40];

	fputs("  ", stdout);
	if (!all)
		printf("of %" PRId64 " examined: ", measure->examined);
	if (kind == REEVE_CHECK_SCHEDULES) {
		fputs("schedule ", stdout);
		write_text(example->name);
		printf(" is overdue by %s", span(example->ms, took, sizeof took));
		if (example->waits_for)
			printf(": it waits for the end of its former run, task %" PRId64, example->waits_for);
		putchar('\n');
		return;
	}
	if (kind == REEVE_CHECK_CALLBACKS) {
		printf("%" PRId64 " to ", example->count);
		write_text(example->name);
		putchar('\n');
		return;
	}
	if (kind == REEVE_CHECK_DEAD || kind == REEVE_CHECK_FAILED || kind == REEVE_CHECK_UNSERVED || kind == REEVE_CHECK_HALTED)
		printf("%" PRId64 " of ", example->count);
	else
		printf("task %" PRId64 " of ", example->task_id);
	fputs("queue ", stdout);
	write_text(example->queue);
	if (kind == REEVE_CHECK_HALTED) {
		printf(", which is %s\n", example->name);
		return;
	}
	fputs(", type ", stdout);
	write_text(example->type);
	if (kind == REEVE_CHECK_DEAD || kind == REEVE_CHECK_FAILED) {
		fputs(*example->name ? ": " : "", stdout);
		write_text(example->name);
		if (all)
			printf(", the latest is task %" PRId64, example->task_id);
	} else if (kind != REEVE_CHECK_UNSERVED) {
		printf(", %s for %s", kind == REEVE_CHECK_RUNNING ? "runs" : "due", span(example->ms, took, sizeof took));
		if (kind == REEVE_CHECK_RUNNING) {
			fputs(" at worker ", stdout);
			write_text(example->name);
		}
	}
	if (kind == REEVE_CHECK_OLDEST_QUEUED || (kind == REEVE_CHECK_FAILED && all))
		write_reason(client, example->task_id);
	putchar('\n');
}

static void write_plugin(struct reeve_client *client, const struct outcome *outcome)
{
	printf("REEVE %s - ", state_names[outcome->state]);
	write_text(outcome->summary);
	for (size_t i = 0; i < outcome->count && outcome->check; i++) {
		putchar(i ? ' ' : '|');
		write_performance(&outcome->asked[i]);
	}
	putchar('\n');
	for (size_t i = 0; i < outcome->count && outcome->check; i++) {
		const struct asked *asked = &outcome->asked[i];
		const struct reeve_check_measure *measure = &outcome->check->measures[i];

		printf("%s %s: %s\n", state_names[asked->state], asked->condition->option, asked->text);
		for (size_t j = 0; j < measure->n_examples && (asked->state != STATE_OK || measure->kind == REEVE_CHECK_HALTED); j++)
			write_example(client, measure, &measure->examples[j]);
	}
}

static json_t *bound_json(int64_t bound)
{
	return bound == NO_BOUND ? json_null() : json_integer(bound);
}

static json_t *examples_json(const struct reeve_check_measure *measure)
{
	json_t *list = json_array();

	for (size_t i = 0; i < measure->n_examples; i++) {
		char *text = reeve_json(measure->examples[i].wire);

		json_array_append_new(list, json_loads(text, 0, NULL));
		free(text);
	}
	return list;
}

static void write_json(const struct outcome *outcome)
{
	json_t *list = json_array();

	for (size_t i = 0; i < outcome->count && outcome->check; i++) {
		const struct asked *asked = &outcome->asked[i];
		json_t *one = json_pack("{s:s, s:s, s:I, s:o, s:o, s:I, s:I, s:s, s:o}", "name", asked->condition->label, "state",
		    state_names[asked->state], asked->condition->is_time ? "value_ms" : "value", (json_int_t)asked->value,
		    asked->condition->is_time ? "warning_ms" : "warning", bound_json(asked->bounds.warning),
		    asked->condition->is_time ? "critical_ms" : "critical", bound_json(asked->bounds.critical), "count",
		    (json_int_t)outcome->check->measures[i].count, "examined",
		    (json_int_t)outcome->check->measures[i].examined, "text", asked->text, "examples",
		    examples_json(&outcome->check->measures[i]));

		json_array_append_new(list, one);
	}
	json_t *all = json_pack("{s:s, s:i, s:s, s:s, s:o}", "state", state_names[outcome->state], "code", outcome->state,
	    "summary", outcome->summary, "manager", outcome->manager ? outcome->manager : "", "conditions", list);
	char *text = json_dumps(all, JSON_COMPACT);

	if (!text)
		abort();
	command_write_json(text);
	putchar('\n');
	free(text);
	json_decref(all);
}

/* Prints why the check was not possible, and returns the exit code. A monitor shows the first line of standard output,
 * so the reason must be there. */
static int unknown(bool json, const char *why)
{
	struct outcome outcome = {.state = STATE_UNKNOWN, .summary = (char *)(uintptr_t)why};

	if (json)
		write_json(&outcome);
	else
		write_plugin(NULL, &outcome);
	return STATE_UNKNOWN;
}

static bool any_given(const struct check_options *options)
{
	for (size_t i = 0; i < N_CONDITIONS; i++)
		if (text_of(options, &conditions[i]))
			return true;
	return false;
}

/* Parses the conditions. Returns false if one is invalid, with *problem set, to be freed with free(). */
static bool read_conditions(const struct check_options *options, struct outcome *outcome, char **problem)
{
	bool by_itself = !any_given(options);

	for (size_t i = 0; i < N_CONDITIONS; i++) {
		const char *text = text_of(options, &conditions[i]);
		struct asked *asked = &outcome->asked[outcome->count];

		if (by_itself ? !conditions[i].by_itself : !text)
			continue;
		asked->condition = &conditions[i];
		if (by_itself) {
			asked->bounds = *conditions[i].by_itself;
		} else if (!read_bounds(text, conditions[i].is_time, &asked->bounds)) {
			*problem = text_made("--%s takes CRIT, \"WARN,CRIT\" or \"WARN,\", %s, not \"%.100s\"", conditions[i].option,
			    conditions[i].is_time ? "durations like 90s or 10m" : "whole numbers from 0", text);
			return false;
		}
		if (asked->bounds.critical != NO_BOUND && asked->bounds.warning > asked->bounds.critical) {
			*problem = text_made("--%s: the warning's bound lies above the critical one", conditions[i].option);
			return false;
		}
		outcome->count++;
	}
	if (options->queue && !*options->queue)
		*problem = text_made("--queue is empty");
	else if (options->type && !*options->type)
		*problem = text_made("--type is empty");
	return !*problem;
}

/* Returns the lower of the condition's bounds, above which tasks and schedules are counted; 0 for other conditions. */
static int64_t longer_than(const struct asked *asked)
{
	if (asked->condition->kind != REEVE_CHECK_RUNNING && asked->condition->kind != REEVE_CHECK_SCHEDULES)
		return 0;
	return asked->bounds.warning != NO_BOUND ? asked->bounds.warning : asked->bounds.critical;
}

static struct reeve_measures *ask(struct reeve_client *client, const struct check_options *options,
    const struct outcome *outcome, struct reeve_failure *failure)
{
	struct reeve_check_question questions[N_CONDITIONS];
	struct reeve_check_query query = {.queue = options->queue,
	    .type = options->type,
	    .count = outcome->count,
	    .questions = questions,
	    .timeout_ms = options->timeout_ms};

	for (size_t i = 0; i < outcome->count; i++)
		questions[i] = (struct reeve_check_question){outcome->asked[i].condition->kind, longer_than(&outcome->asked[i])};
	return reeve_measure(client, &query, failure);
}

/* Compares the measures with the bounds and prints the result. Returns the exit code. */
static int tell(struct reeve_client *client, struct outcome *outcome, const struct reeve_measures *check, bool json)
{
	outcome->check = check;
	outcome->manager = check->manager;
	for (size_t i = 0; i < outcome->count; i++) {
		judge(&outcome->asked[i], &check->measures[i]);
		if (outcome->asked[i].state > outcome->state)
			outcome->state = outcome->asked[i].state;
	}
	outcome->summary = summary_of(outcome);
	if (json)
		write_json(outcome);
	else
		write_plugin(client, outcome);
	for (size_t i = 0; i < outcome->count; i++)
		free(outcome->asked[i].text);
	free(outcome->summary);
	return outcome->state;
}

int command_check(int argc, char **argv)
{
	struct check_options options = {0};
	struct shared_options shared = {0};
	struct outcome outcome = {0};
	struct reeve_failure failure = {0};
	struct reeve_client *client;
	struct reeve_measures *check;
	char *problem = NULL;
	int operands, code;

	if (!command_options(&check_table, &options, &shared, argc, argv, &operands, &code))
		return code == EXIT_OK ? code : unknown(false, "wrong usage; `reeve check --help` says what it takes");
	if (operands > 0)
		problem = text_made("unexpected argument \"%.100s\"", argv[1]);
	if (problem || !read_conditions(&options, &outcome, &problem)) {
		command_usage(&check_table, "%s", problem);
		code = unknown(shared.json, problem);
		free(problem);
		return code;
	}
	client = command_connect(&shared, &code);
	if (!client)
		return unknown(shared.json, "--manager is wrong");
	check = ask(client, &options, &outcome, &failure);
	code = check ? tell(client, &outcome, check, shared.json) : unknown(shared.json, failure.message);
	reeve_measures_free(check);
	reeve_client_destroy(client);
	return code;
}
