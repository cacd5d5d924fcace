/* The output of `reeve check`. */
#include "client/cmd/check.h"

#include "client/cmd/command.h"
#include "client/cmd/terminal.h"
#include "client/cmd/waiting.h"
#include "common/clock.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char *const state_names[] = {"OK", "WARNING", "CRITICAL", "UNKNOWN"};

const char *check_span(int64_t ms, char *out, size_t size)
{
	return duration_format(ms < 1000 ? ms : ms / 1000 * 1000, out, size);
}

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
	Reeve__V1__Task *task = reeve_get(client, id, NULL);
	char why[WAITING_TEXT];

	if (task && *waiting_text(task, reeve_client_now_us(client), why)) {
		fputs(": ", stdout);
		write_text(why);
	}
	reeve_free(task);
}

static void write_example(
    struct reeve_client *client, const Reeve__V1__CheckMeasure *measure, const Reeve__V1__CheckExample *example)
{
	Reeve__V1__CheckKind kind = measure->kind;
	bool all = !measure->examined || measure->examined >= measure->count; /* older managers do not send it */
	char took[40];

	fputs("  ", stdout);
	if (!all)
		printf("of %" PRId64 " examined: ", measure->examined);
	if (kind == KIND(SCHEDULES)) {
		fputs("schedule ", stdout);
		write_text(example->name);
		printf(" is overdue by %s", check_span(example->ms, took, sizeof took));
		if (example->waits_for)
			printf(": it waits for the end of its former run, task %" PRId64, example->waits_for);
		putchar('\n');
		return;
	}
	if (kind == KIND(CALLBACKS) || kind == KIND(MISSED) || kind == KIND(REFUSED)) {
		printf("%" PRId64 " %s ", example->count, kind == KIND(CALLBACKS) ? "to" : "of schedule");
		write_text(example->name);
		putchar('\n');
		return;
	}
	if (kind == KIND(DEAD) || kind == KIND(FAILED) || kind == KIND(UNSERVED) || kind == KIND(HALTED) ||
	    kind == KIND(QUEUE_LENGTH))
		printf("%" PRId64 " of ", example->count);
	else
		printf("task %" PRId64 " of ", example->task_id);
	fputs("queue ", stdout);
	write_text(example->queue);
	if (kind == KIND(HALTED) || kind == KIND(QUEUE_LENGTH)) {
		printf("%s%s\n", kind == KIND(HALTED) ? ", which is " : "", example->name);
		return;
	}
	fputs(", type ", stdout);
	write_text(example->type);
	if (kind == KIND(DEAD) || kind == KIND(FAILED)) {
		fputs(*example->name ? ": " : "", stdout);
		write_text(example->name);
		if (all)
			printf(", the latest is task %" PRId64, example->task_id);
	} else if (kind != KIND(UNSERVED)) {
		printf(", %s for %s", kind == KIND(RUNNING) ? "runs" : "due", check_span(example->ms, took, sizeof took));
		if (kind == KIND(RUNNING)) {
			fputs(" at worker ", stdout);
			write_text(example->name);
		}
	}
	if (kind == KIND(OLDEST_QUEUED) || (kind == KIND(FAILED) && all))
		write_reason(client, example->task_id);
	putchar('\n');
}

void check_print_plugin(struct reeve_client *client, const struct outcome *outcome)
{
	printf("REEVE %s - ", state_names[outcome->state]);
	write_text(outcome->summary);
	for (size_t i = 0; i < outcome->count && outcome->measures; i++) {
		putchar(i ? ' ' : '|');
		write_performance(&outcome->asked[i]);
	}
	putchar('\n');
	for (size_t i = 0; i < outcome->count && outcome->measures; i++) {
		const struct asked *asked = &outcome->asked[i];
		const Reeve__V1__CheckMeasure *measure = outcome->measures[i];

		printf("%s %s: %s\n", state_names[asked->state], asked->condition->option, asked->text);
		for (size_t j = 0; j < measure->n_examples && (asked->state != STATE_OK || measure->kind == KIND(HALTED)); j++)
			write_example(client, measure, measure->examples[j]);
	}
}

static json_t *bound_json(int64_t bound)
{
	return bound == NO_BOUND ? json_null() : json_integer(bound);
}

static json_t *examples_json(const Reeve__V1__CheckMeasure *measure)
{
	json_t *list = json_array();

	for (size_t i = 0; i < measure->n_examples; i++) {
		char *text = reeve_json(measure->examples[i]);

		json_array_append_new(list, json_loads(text, 0, NULL));
		free(text);
	}
	return list;
}

void check_print_json(const struct outcome *outcome)
{
	json_t *list = json_array();

	for (size_t i = 0; i < outcome->count && outcome->measures; i++) {
		const struct asked *asked = &outcome->asked[i];
		json_t *one =
		    json_pack("{s:s, s:s, s:I, s:o, s:o, s:I, s:I, s:s, s:o}", "name", asked->condition->label, "state",
		        state_names[asked->state], asked->condition->is_time ? "value_ms" : "value", (json_int_t)asked->value,
		        asked->condition->is_time ? "warning_ms" : "warning", bound_json(asked->bounds.warning),
		        asked->condition->is_time ? "critical_ms" : "critical", bound_json(asked->bounds.critical), "count",
		        (json_int_t)outcome->measures[i]->count, "examined", (json_int_t)outcome->measures[i]->examined, "text",
		        asked->text, "examples", examples_json(outcome->measures[i]));

		json_array_append_new(list, one);
	}
	command_print_object(
	    json_pack("{s:s, s:i, s:s, s:s, s:o}", "state", state_names[outcome->state], "code", outcome->state, "summary",
	        outcome->summary, "manager", outcome->manager ? outcome->manager : "", "conditions", list));
}
