/*
 * `reeve check`: a plugin for monitoring. Its first line, its exit codes and the numbers after the bar have the format
 * of Nagios, Icinga and similar systems; then each condition has a line.
 */
#include "client/cmd/check.h"

#include "client/cmd/command.h"
#include "common/clock.h"
#include "common/mem.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <reeve/v1/admin_calls.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

struct check_options {
	const char *dead, *failed, *oldest, *running, *schedules, *callbacks, *unserved, *held, *missed, *refused, *length;
	const char *queue, *type;
	int64_t timeout_ms;
};

/* The bounds of a check without conditions: a warning from the first task that no worker takes. Tasks in queues that
 * are paused, stopped or not started are shown without a warning, because an operator decided that. */
static const struct bounds from_the_first = {0, NO_BOUND}, unbounded = {NO_BOUND, NO_BOUND};

/* The conditions that can be checked. */
static const struct condition conditions[] = {
    {"dead-per-hour", "dead_per_hour", KIND(DEAD), false, offsetof(struct check_options, dead),
        "task ended dead within the last hour", "tasks ended dead within the last hour", NULL},
    {"failed-waiting", "failed", KIND(FAILED), false, offsetof(struct check_options, failed),
        "task has failed and waits to be tried again", "tasks have failed and wait to be tried again", NULL},
    {"oldest-queued", "oldest_queued", KIND(OLDEST_QUEUED), true, offsetof(struct check_options, oldest),
        "the task that waits longest is due for %s", "no due task waits", NULL},
    {"longest-running", "running_longest", KIND(RUNNING), true, offsetof(struct check_options, running),
        "the attempt that runs longest runs for %s", "no attempt runs", NULL},
    {"schedule-late", "schedule_latest", KIND(SCHEDULES), true, offsetof(struct check_options, schedules),
        "the latest schedule is overdue by %s", "no schedule is overdue", NULL},
    {"callbacks-given-up", "callbacks_given_up", KIND(CALLBACKS), false, offsetof(struct check_options, callbacks),
        "callback was given up within the last hour", "callbacks were given up within the last hour", NULL},
    {"unserved", "unserved", KIND(UNSERVED), false, offsetof(struct check_options, unserved),
        "waiting task lacks a worker that takes it", "waiting tasks lack a worker that takes them", &from_the_first},
    {"halted", "halted", KIND(HALTED), false, offsetof(struct check_options, held),
        "task waits in a queue that gives none", "tasks wait in queues that give none", &unbounded},
    {"runs-missed", "runs_missed", KIND(MISSED), false, offsetof(struct check_options, missed),
        "scheduled time was missed within the last hour", "scheduled times were missed within the last hour", NULL},
    {"runs-refused", "runs_refused", KIND(REFUSED), false, offsetof(struct check_options, refused),
        "run of a schedule was refused within the last hour", "runs of schedules were refused within the last hour",
        NULL},
    {"queue-length", "queue_length", KIND(QUEUE_LENGTH), false, offsetof(struct check_options, length),
        "task waits in the longest queue", "tasks wait in the longest queue", NULL},
};

enum { N_CONDITIONS = sizeof conditions / sizeof *conditions };

_Static_assert((int)N_CONDITIONS <= CONDITIONS_MAX, "an outcome has room for all conditions");

#define CONDITION(name, member, help) OPT_TEXT(0, name, OPTION_AT(struct check_options, member), "[WARN,]CRIT", help)

static const struct option_spec check_specs[] = {
    CONDITION("dead-per-hour", dead, "more tasks than this ended dead within the last hour"),
    CONDITION("failed-waiting", failed, "more failed tasks than this wait for their retry"),
    CONDITION("oldest-queued", oldest, "a due task has waited longer than this, in a running queue"),
    CONDITION("longest-running", running, "an attempt has been executing longer than this"),
    CONDITION("schedule-late", schedules, "a schedule that is not paused is overdue by more than this duration"),
    CONDITION("callbacks-given-up", callbacks, "more callbacks than this were given up within the last hour"),
    CONDITION("unserved", unserved,
        "more tasks than this wait in running queues and no worker accepts them; without conditions \"0,\" is checked"),
    CONDITION("halted", held,
        "more tasks than this wait in queues that are paused, not started, stopping or stopped; without conditions it is shown without limits"),
    CONDITION("runs-missed", missed, "more scheduled times than this were missed within the last hour"),
    CONDITION("runs-refused", refused, "more runs of schedules than this were refused within the last hour"),
    CONDITION("queue-length", length, "more due and failed tasks than this wait in one queue"),
    OPT_NAME('q', "queue", OPTION_AT(struct check_options, queue), "NAME", "check only this queue"),
    OPT_NAME('t', "type", OPTION_AT(struct check_options, type), "TYPE", "check only this task type"),
    OPT_SPAN(0, "call-timeout", OPTION_AT(struct check_options, timeout_ms), 1, 3600 * 1000,
        "timeout of the check once a manager is found", .default_value = "10s"),
    {0},
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

/* "more than 5" or "longer than 5m". */
static void write_bound(FILE *out, const struct condition *condition, int64_t bound)
{
	char text[40];

	if (condition->is_time)
		fprintf(out, "longer than %s", duration_format(bound, text, sizeof text));
	else
		fprintf(out, "more than %" PRId64, bound);
}

static void judge(struct asked *asked, const Reeve__V1__CheckMeasure *measure)
{
	const struct condition *condition = asked->condition;
	char *text = NULL, took[40];
	size_t size;
	FILE *out = mem_stream(&text, &size);

	asked->value = condition->is_time ? measure->longest_ms : measure->count;
	asked->state = asked->bounds.critical != NO_BOUND && asked->value > asked->bounds.critical ? STATE_CRITICAL
	    : asked->bounds.warning != NO_BOUND && asked->value > asked->bounds.warning            ? STATE_WARNING
	                                                                                           : STATE_OK;
	if (!condition->is_time) {
		if (asked->value)
			fprintf(out, "%" PRId64 " ", asked->value);
		else
			fputs("no ", out);
		fputs(asked->value > 1 ? condition->many : condition->one, out);
	} else if (asked->value || measure->count) {
		const char *mark = strstr(condition->one, "%s");

		fprintf(out, "%.*s%s%s", (int)(mark - condition->one), condition->one,
		    check_span(asked->value, took, sizeof took), mark + 2);
	} else {
		fputs(condition->many, out);
	}
	if (asked->state != STATE_OK) {
		fputs(", ", out);
		write_bound(out, condition, asked->state == STATE_CRITICAL ? asked->bounds.critical : asked->bounds.warning);
	}
	fclose(out);
	asked->text = text;
}

/* Joins the sentences of all conditions that are not OK; or reports that all are. */
static char *summary_of(const struct outcome *outcome)
{
	char *text = NULL;
	size_t size;
	FILE *out = mem_stream(&text, &size);
	const char *joint = "";

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

/* Prints why the check was not possible, and returns the exit code. A monitor shows the first line of standard output,
 * so the reason must be there. */
static int unknown(bool json, const char *why)
{
	struct outcome outcome = {.state = STATE_UNKNOWN, .summary = (char *)(uintptr_t)why};

	if (json)
		check_print_json(&outcome);
	else
		check_print_plugin(NULL, &outcome);
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
			*problem =
			    mem_asprintf("--%s takes CRIT, \"WARN,CRIT\" or \"WARN,\", %s, not \"%.100s\"", conditions[i].option,
			        conditions[i].is_time ? "durations like 90s or 10m" : "whole numbers from 0", text);
			return false;
		}
		if (asked->bounds.critical != NO_BOUND && asked->bounds.warning > asked->bounds.critical) {
			*problem = mem_asprintf("--%s: the warning's bound lies above the critical one", conditions[i].option);
			return false;
		}
		outcome->count++;
	}
	return true;
}

/* Returns the lower of the condition's bounds, above which tasks and schedules are counted; 0 for other conditions. */
static int64_t longer_than(const struct asked *asked)
{
	if (asked->condition->kind != KIND(RUNNING) && asked->condition->kind != KIND(SCHEDULES))
		return 0;
	return asked->bounds.warning != NO_BOUND ? asked->bounds.warning : asked->bounds.critical;
}

static Reeve__V1__CheckResponse *ask(struct reeve_client *client, const struct check_options *options,
    const struct outcome *outcome, struct reeve_failure *failure)
{
	Reeve__V1__CheckQuestion questions[N_CONDITIONS] = {0}, *list[N_CONDITIONS];
	Reeve__V1__CheckRequest request = {
	    .queue = options->queue, .type = options->type, .n_questions = outcome->count, .questions = list};
	Reeve__V1__CheckResponse *response;

	for (size_t i = 0; i < outcome->count; i++) {
		questions[i].kind = outcome->asked[i].condition->kind;
		questions[i].longer_ms = longer_than(&outcome->asked[i]);
		list[i] = &questions[i];
	}
	response =
	    reeve_admin_check(client, &request, &(struct reeve_call_options){.timeout_ms = options->timeout_ms}, failure);
	if (!response || response->n_measures == outcome->count)
		return response;
	snprintf(failure->message, sizeof failure->message,
	    "the manager answered %zu of %zu conditions; its version must be that of reeve, %s", response->n_measures,
	    outcome->count, REEVE_VERSION);
	reeve_free(response);
	return NULL;
}

/* Compares the measures with the bounds and prints the result. Returns the exit code. */
static int evaluate(
    struct reeve_client *client, struct outcome *outcome, const Reeve__V1__CheckResponse *check, bool json)
{
	outcome->measures = check->measures;
	outcome->manager = check->manager;
	for (size_t i = 0; i < outcome->count; i++) {
		judge(&outcome->asked[i], check->measures[i]);
		if (outcome->asked[i].state > outcome->state)
			outcome->state = outcome->asked[i].state;
	}
	outcome->summary = summary_of(outcome);
	if (json)
		check_print_json(outcome);
	else
		check_print_plugin(client, outcome);
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
	Reeve__V1__CheckResponse *check;
	char *problem = NULL;
	int operands, code;

	if (!command_options(&check_table, &options, &shared, argc, argv, &operands, &code))
		return code == EXIT_OK ? code : unknown(false, "wrong usage; `reeve check --help` says what it takes");
	if (operands > 0)
		problem = mem_asprintf("unexpected argument \"%.100s\"", argv[1]);
	if (problem || !read_conditions(&options, &outcome, &problem)) {
		command_usage(&check_table, "%s", problem);
		code = unknown(shared.json, problem);
		free(problem);
		return code;
	}
	client = command_connect(&shared, &code);
	if (!client)
		return unknown(
		    shared.json, "--manager: the URL is invalid; it takes tcp://HOST:PORT or ipc:///PATH, separated by commas");
	check = ask(client, &options, &outcome, &failure);
	code = check ? evaluate(client, &outcome, check, shared.json) : unknown(shared.json, failure.message);
	reeve_free(check);
	reeve_client_destroy(client);
	return code;
}
