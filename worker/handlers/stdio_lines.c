/* Collects lines in one buffer, which grows up to the maximum length of a line, and parses them as JSON. */
#include "worker/handlers/stdio_lines.h"

#include "common/clock.h"
#include "common/mem.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	FIRST_BYTES = 4096,
	CLOSED_GRACE_MS = 1000, /* how long a child that has closed its standard output may take to end */
};

bool stdio_lines_blank(const char *text, size_t length)
{
	for (; length && strchr(" \t\r\n", *text) && *text; text++)
		length--;
	return !length;
}

/* The child has written what is not the attempt's: it will be killed. */
static void break_off(struct run *run, const char *problem)
{
	messages_complain(&run->messages, problem);
	run->broken_ms = clock_monotonic_ms();
}

/* {"progress": 40, "message": "page 3 of 7"} is the remark "40 %: page 3 of 7". */
static void take_progress(struct run *run, const json_t *progress, const json_t *text)
{
	double percent = json_number_value(progress);
	const char *message = json_string_value(text);

	if (!json_is_number(progress) || !(percent >= 0 && percent <= 100)) {
		messages_complain(&run->messages, "progress must be a number from 0 to 100");
		return;
	}
	free(run->answer.remark);
	run->answer.remark = mem_asprintf("%g %%%s%s", percent, message ? ": " : "", message ? message : "");
	run->remarked = true;
}

/* {"log": "opened the file"} is kept as if it came from standard error. */
static void take_log(struct run *run, const json_t *log)
{
	if (!json_is_string(log)) {
		messages_complain(&run->messages, "log must be a string");
		return;
	}
	tail_append(&run->error, json_string_value(log), json_string_length(log));
	tail_append(&run->error, "\n", 1);
}

static bool given(const json_t *value)
{
	return value && !json_is_null(value);
}

/* Takes an answer: a result, or an error, or a directive in place of either. */
static void take_answer(struct run *run, const json_t *message)
{
	const json_t *result = json_object_get(message, "result");
	enum directive *directive = &run->answer.directive;
	bool error = given(json_object_get(message, "error"));

	if (!result && !error && *directive == DIRECTIVE_NONE)
		return;
	run->answered = true;
	if (error && *directive == DIRECTIVE_NONE)
		*directive = DIRECTIVE_RETRY;
	if (given(result) && *directive > DIRECTIVE_SUCCESS && *directive < DIRECTIVE_UNKNOWN) {
		messages_complain(&run->messages, "an answer cannot have both a result and an error");
		*directive = DIRECTIVE_UNKNOWN;
	}
	if (error && !run->answer.code)
		run->answer.code = mem_strdup("error");
	if (json_is_string(result))
		run->result = mem_strdup(json_string_value(result));
	else if (given(result))
		run->result = json_dumps(result, JSON_COMPACT | JSON_ENCODE_ANY);
	run->result_length = run->result ? strlen(run->result) : 0;
}

static void take_message(struct stdio_lines *lines, const json_t *message)
{
	const json_t *progress = json_object_get(message, "progress"), *log = json_object_get(message, "log");
	const char *id = json_string_value(json_object_get(message, "id"));

	if (!json_is_object(message))
		break_off(&lines->run, "not a JSON object in one line");
	else if (!id)
		break_off(&lines->run, "a line without the id of its task");
	else if (strcmp(id, lines->id))
		break_off(&lines->run, "a line with the id of another task");
	if (lines->run.broken_ms)
		return;
	if (given(progress))
		take_progress(&lines->run, progress, json_object_get(message, "message"));
	if (given(log))
		take_log(&lines->run, log);
	run_take_message(&lines->run, message);
	take_answer(&lines->run, message);
}

static void take_line(struct stdio_lines *lines, char *text, size_t length)
{
	struct messages *messages = &lines->run.messages;
	json_t *message;

	if (stdio_lines_blank(text, length))
		return;
	messages->text = text; /* for a problem with it */
	messages->length = length;
	message = json_loadb(text, length, 0, NULL);
	take_message(lines, message);
	json_decref(message);
	messages->text = NULL;
	messages->length = 0;
}

/* Takes the complete lines. Those after an answer stay. */
static void take_lines(struct stdio_lines *lines)
{
	char *at = lines->text, *end = at + lines->length, *newline;
	struct run *run = &lines->run;

	while (!run->answered && !run->broken_ms && !run->too_long && (newline = memchr(at, '\n', (size_t)(end - at)))) {
		run->too_long = (size_t)(newline - at) > run->spec->max_output_bytes;
		if (!run->too_long)
			take_line(lines, at, (size_t)(newline - at));
		at = newline + 1;
	}
	lines->length = (size_t)(end - at);
	if (at > lines->text)
		memmove(lines->text, at, lines->length);
	if (!run->answered && !run->broken_ms && lines->length > run->spec->max_output_bytes)
		run->too_long = true;
}

/* Reads once from standard output. False: nothing more for now. */
bool stdio_lines_read(struct run *run)
{
	struct stdio_lines *lines = (struct stdio_lines *)run;
	ssize_t length;

	if (run->output < 0)
		return false;
	if (lines->length == lines->size) {
		lines->size = lines->size ? 2 * lines->size : FIRST_BYTES;
		lines->text = mem_realloc(lines->text, lines->size);
	}
	length = read(run->output, lines->text + lines->length, lines->size - lines->length);
	if (length < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	if (length <= 0) {
		run_close(&run->output);
		if (!run->broken_ms)
			run->broken_ms = clock_monotonic_ms() + CLOSED_GRACE_MS;
		return false;
	}
	lines->length += (size_t)length;
	take_lines(lines);
	if (run->too_long || (run->broken_ms && !run->answered))
		run_close(&run->output);
	return run->output >= 0 && !run->answered;
}

void stdio_lines_complain(struct stdio_lines *lines, const char *problem)
{
	struct messages *messages = &lines->run.messages;

	messages->text = lines->text;
	messages->length = lines->length;
	messages_complain(messages, problem);
	messages->text = NULL;
	messages->length = 0;
}
