/* Collects lines in one buffer, which grows up to the maximum length of a line, and parses them as JSON. */
#include "worker/handlers/stdio_lines.h"

#include "common/clock.h"
#include "common/json.h"
#include "common/json_names.h"
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

static bool given(const json_t *value)
{
	return value && !json_is_null(value);
}

/* {"result_base64": "/9j/4AAQ"} is the result of those bytes. */
static void take_bytes(struct run *run, const json_t *result)
{
	ProtobufCBinaryData bytes = {0};

	if (!json_is_string(result) || !json_base64_read(json_string_value(result), json_string_length(result), &bytes)) {
		messages_complain(&run->messages, "result_base64 must be bytes in base64");
		run->answer.directive = DIRECTIVE_UNKNOWN;
	}
	run->result = (char *)bytes.data;
	run->result_length = bytes.len;
}

/* Takes an answer: a result, or an error, or a directive in place of either. */
static void take_answer(struct run *run, const json_t *message)
{
	const json_t *text = json_object_get(message, "result"), *bytes = json_object_get(message, "result_base64");
	const json_t *result = given(bytes) ? bytes : text;
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
	if (given(bytes) && given(text)) {
		messages_complain(&run->messages, "an answer cannot have both result and result_base64");
		*directive = DIRECTIVE_UNKNOWN;
	}
	if (given(bytes)) {
		take_bytes(run, bytes);
		return;
	}
	if (given(result))
		run->result = mem_strdup(json_string_value(result));
	run->result_length = run->result ? strlen(run->result) : 0;
}

/* Returns what is wrong with a line that is no message. */
static const char *no_message(const json_t *message, const json_error_t *why)
{
	switch (message ? json_error_unknown : json_error_code(why)) {
	case json_error_null_character: return "a text with a NUL (use result_base64)";
	case json_error_numeric_overflow: return "a number that is too large (use a string)";
	default: return "not a JSON object in one line";
	}
}

static void take_message(struct stdio_lines *lines, const json_t *message, const json_error_t *why)
{
	const char *id = json_string_value(json_object_get(message, "id"));

	if (!json_is_object(message))
		break_off(&lines->run, no_message(message, why));
	else if (!id)
		break_off(&lines->run, "a line without the id of its task");
	else if (strcmp(id, lines->id))
		break_off(&lines->run, "a line with the id of another task");
	if (lines->run.broken_ms)
		return;
	run_take_message(&lines->run, message);
	take_answer(&lines->run, message);
}

static void take_line(struct stdio_lines *lines, char *text, size_t length)
{
	struct messages *messages = &lines->run.messages;
	json_error_t why;
	json_t *message;

	if (stdio_lines_blank(text, length))
		return;
	messages->text = text; /* for a problem with it */
	messages->length = length;
	message = json_load_as_text(text, length, 0, "result", &why);
	take_message(lines, message, &why);
	json_decref(message);
	messages->text = NULL;
	messages->length = 0;
}

/* Takes the complete lines. Those after an answer stay. The first `searched` bytes are known to have no newline. */
static void take_lines(struct stdio_lines *lines, size_t searched)
{
	char *at = lines->text, *from = at + searched, *end = at + lines->length, *newline;
	struct run *run = &lines->run;

	while (!run->answered && !run->broken_ms && !run->too_long) {
		newline = memchr(from, '\n', (size_t)(end - from));
		if (!newline)
			break;
		run->too_long = (size_t)(newline - at) > run->spec->max_output_bytes;
		if (!run->too_long)
			take_line(lines, at, (size_t)(newline - at));
		at = from = newline + 1;
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
	bool read_on = run->answered && run->asked_to_end; /* what it still writes means nothing */
	size_t searched = lines->length;
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
	lines->length = read_on ? 0 : lines->length + (size_t)length;
	take_lines(lines, searched);
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
