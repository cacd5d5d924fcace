/* Parses a message one member at a time, by a table. */
#include "worker/handlers/answer.h"

#include "common/clock.h"
#include "common/limits.h"
#include "common/mem.h"
#include "common/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool answer_duration(const json_t *value, int64_t *ms)
{
	double seconds = json_number_value(value);

	if (json_is_string(value))
		return duration_parse(json_string_value(value), ms);
	if (!json_is_number(value) || !(seconds >= 0 && seconds <= LIMIT_AGE_DAYS * 24.0 * 3600))
		return false;
	*ms = (int64_t)(seconds * 1000 + 0.5);
	return true;
}

static const char *const directives[] = {[DIRECTIVE_SUCCESS] = "SUCCESS",
    [DIRECTIVE_RETRY] = "RETRY",
    [DIRECTIVE_NO_RETRY] = "NO_RETRY",
    [DIRECTIVE_SKIP] = "SKIP"};

static void set_text(char **text, const char *to)
{
	free(*text);
	*text = mem_strdup(to);
}

/* Takes "NO_RETRY" or "NO_RETRY | text". */
static const char *take_directive(struct answer *answer, const json_t *value)
{
	const char *word = json_is_string(value) ? json_string_value(value) : "";
	size_t length = strcspn(word, " \t|");
	const char *text = word + length + strspn(word + length, " \t");

	answer->directive = DIRECTIVE_UNKNOWN;
	for (size_t i = DIRECTIVE_SUCCESS; i <= DIRECTIVE_SKIP && (*text == '|' || !*text); i++)
		if (length == strlen(directives[i]) && !memcmp(word, directives[i], length))
			answer->directive = (enum directive)i;
	if (answer->directive == DIRECTIVE_UNKNOWN)
		return "must be SUCCESS, RETRY, NO_RETRY or SKIP, or one of these with a text, as in \"RETRY | text\"";
	text += *text == '|';
	text += strspn(text, " \t");
	if (*text) {
		set_text(&answer->remark, text);
		set_text(&answer->error, text);
	}
	return NULL;
}

static const char *take_text(char **text, const json_t *value)
{
	if (!json_is_string(value))
		return "must be a string";
	set_text(text, json_string_value(value));
	return NULL;
}

static const char *take_remark(struct answer *answer, const json_t *value)
{
	return take_text(&answer->remark, value);
}

static const char *take_error(struct answer *answer, const json_t *value)
{
	return take_text(&answer->error, value);
}

static const char *take_code(struct answer *answer, const json_t *value)
{
	if (json_is_string(value) && name_problem(json_string_value(value), true))
		return name_problem(json_string_value(value), true);
	return take_text(&answer->code, value);
}

static const char *take_stack_trace(struct answer *answer, const json_t *value)
{
	return take_text(&answer->stack_trace, value);
}

static const char *take_stage(struct answer *answer, const json_t *value)
{
	if (json_is_string(value) && name_problem(json_string_value(value), false))
		return name_problem(json_string_value(value), false);
	return take_text(&answer->stage, value);
}

static const char *take_retry_in(struct answer *answer, const json_t *value)
{
	int64_t ms;

	if (!answer_duration(value, &ms) || ms > DAYS_MS(LIMIT_RETRY_DAYS))
		return "must be a duration (\"90s\", \"10m\", or a number of seconds) of up to " LIMIT_TEXT(
		    LIMIT_RETRY_DAYS) " days";
	answer->retry_in_ms = ms ? ms : 1; /* 0 would mean that it is not set */
	return NULL;
}

static const struct {
	const char *name;
	const char *(*take)(struct answer *answer, const json_t *value); /* returns what is wrong with the value, or NULL */
} members[] = {
    {"directive", take_directive},
    {"remark", take_remark},
    {"error", take_error},
    {"error_code", take_code},
    {"stack_trace", take_stack_trace},
    {"retry_in", take_retry_in},
    {"stage", take_stage},
};

bool answer_take(struct answer *answer, const json_t *message, char *problem, size_t size)
{
	bool valid = true;

	for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
		const json_t *value = json_object_get(message, members[i].name);
		const char *found = value && !json_is_null(value) ? members[i].take(answer, value) : NULL;

		if (found && valid)
			snprintf(problem, size, "%s %s", members[i].name, found);
		valid = valid && !found;
	}
	if (valid && answer->stage && answer->directive > DIRECTIVE_SUCCESS && answer->directive <= DIRECTIVE_SKIP) {
		snprintf(problem, size, "stage cannot be set together with %s", directives[answer->directive]);
		valid = false;
	}
	return valid;
}

void answer_clear(struct answer *answer)
{
	free(answer->remark);
	free(answer->error);
	free(answer->code);
	free(answer->stack_trace);
	free(answer->stage);
	*answer = (struct answer){0};
}
