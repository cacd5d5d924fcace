/* Collects an object line by line in one buffer, which grows up to the maximum length of a message. */
#include "worker/handlers/messages.h"

#include "common/log.h"
#include "common/mem.h"
#include "common/text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	READ_BYTES = 4096,
	READS_MAX = 64,  /* per call, so that a program that writes without pause does not block all else */
	ROUNDS_LAST = 8, /* calls at the end: together more than the largest pipe that a program can make its own (1 MiB) */
	QUOTED_BYTES = 120,
};

void messages_complain(struct messages *messages, const char *what)
{
	size_t length = messages->length < QUOTED_BYTES ? messages->length : QUOTED_BYTES;
	char *quoted;

	if (messages->problem[0])
		return;
	quoted = utf8_repair(messages->text ? messages->text : "", length);
	for (char *at = quoted; *at; at++)
		if ((unsigned char)*at < ' ' || *at == 0x7F)
			*at = ' ';
	quoted[utf8_cut(quoted, strlen(quoted) < QUOTED_BYTES ? strlen(quoted) : QUOTED_BYTES)] = '\0';
	snprintf(messages->problem, sizeof messages->problem, "%s: %s: %s%s", messages->source, what, quoted,
	    length < messages->length ? "…" : "");
	log_warn(messages->about, "%s (further problems are not logged)", messages->problem);
	free(quoted);
}

static bool is_blank(const char *text, size_t length)
{
	while (length && strchr(" \t\r\n", *text) && *text) {
		text++;
		length--;
	}
	return !length;
}

/* Clears the collected bytes. */
static void reset(struct messages *messages)
{
	messages->length = 0;
	messages->depth = 0;
	messages->in_string = messages->escaped = false;
}

/* Updates the bracket depth and string state over a piece. */
static void follow(struct messages *messages, const char *piece, size_t length)
{
	for (size_t i = 0; i < length; i++) {
		if (messages->escaped)
			messages->escaped = false;
		else if (messages->in_string && piece[i] == '\\')
			messages->escaped = true;
		else if (piece[i] == '"')
			messages->in_string = !messages->in_string;
		else if (!messages->in_string)
			messages->depth += (piece[i] == '{' || piece[i] == '[') - (piece[i] == '}' || piece[i] == ']');
	}
}

/* Adds a piece of a line; `begins`: the piece begins the line. */
static void append(struct messages *messages, const char *piece, size_t length, bool begins)
{
	if (messages->skipping || !length)
		return;
	if (begins && *piece == '{' && messages->length) {
		messages_complain(messages, "a JSON object without its end");
		reset(messages);
	}
	if (messages->length + length > MESSAGE_MAX_BYTES) {
		messages_complain(messages, "longer than 64 KiB");
		messages->skipping = true;
		reset(messages);
		return;
	}
	if (messages->length + length > messages->size) {
		messages->size = 2 * messages->size + length;
		messages->text = mem_realloc(messages->text, messages->size);
	}
	memcpy(messages->text + messages->length, piece, length);
	messages->length += length;
	follow(messages, piece, length);
}

static bool is_word(const char *text, size_t length, const char *word)
{
	return length == strlen(word) && !memcmp(text, word, length);
}

/* "40 page 3 of 7" after PROGRESS: a number, and perhaps a message. */
static json_t *progress_of(const char *text)
{
	char *end;
	double percent = strtod(text, &end);
	bool valid = end > text && (!*end || *end == ' ' || *end == '\t' || *end == '%');

	end += valid ? strspn(end, " \t%") : 0;
	return json_pack("{s:o, s:s*}", "progress", valid ? json_real(percent) : json_string(text), "message",
	    valid && *end ? end : NULL);
}

/* Returns the object that LOG or PROGRESS and its text stand for. */
static json_t *report_of(bool log, const char *text, size_t length)
{
	char *clean;
	json_t *message;

	while (length && (*text == ' ' || *text == '\t')) {
		text++;
		length--;
	}
	clean = utf8_repair(text, length);
	message = log ? json_pack("{s:s}", "log", clean) : progress_of(clean);
	free(clean);
	return message;
}

/* Returns the object that a line "WORD | text" stands for, or NULL. */
static json_t *line_of_words(const char *text, size_t length)
{
	size_t word = 0, bar;
	json_t *message;
	char *clean;
	bool log;

	while (word < length && (text[word] == '_' || (text[word] >= 'A' && text[word] <= 'Z')))
		word++;
	for (bar = word; bar < length && (text[bar] == ' ' || text[bar] == '\t');)
		bar++;
	if (!word || bar == length || text[bar] != '|')
		return NULL;
	while (text[length - 1] == '\r')
		length--;
	log = is_word(text, word, "LOG");
	if (log || is_word(text, word, "PROGRESS"))
		return report_of(log, text + bar + 1, length - bar - 1);
	clean = utf8_repair(text, length);
	message = json_pack("{s:s}", "directive", clean);
	free(clean);
	return message;
}

/* Handles the end of a line; `last`: nothing comes after it. */
static void take_line(struct messages *messages, bool last, messages_take *take, void *arg)
{
	bool unfinished = messages->depth > 0 && !messages->in_string && messages->text[0] == '{';
	json_t *message;

	if (messages->skipping) {
		messages->skipping = false;
		return;
	}
	if (unfinished && !last) {
		append(messages, "\n", 1, false);
		return;
	}
	if (!is_blank(messages->text, messages->length)) {
		message = line_of_words(messages->text, messages->length);
		if (!message)
			message = json_loadb(messages->text, messages->length, 0, NULL);
		if (json_is_object(message))
			take(arg, message);
		else
			messages_complain(messages, unfinished ? "a JSON object without its end" : "not a JSON object");
		json_decref(message);
	}
	reset(messages);
}

void messages_read(struct messages *messages, messages_take *take, void *arg)
{
	char bytes[READ_BYTES];

	for (int i = 0; i < READS_MAX && messages->fd >= 0; i++) {
		ssize_t length = read(messages->fd, bytes, sizeof bytes);

		if (length < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (length <= 0) {
			close(messages->fd);
			messages->fd = -1;
			return;
		}
		const char *at = bytes, *end = bytes + length, *newline;
		for (; at < end && (newline = memchr(at, '\n', (size_t)(end - at))); at = newline + 1) {
			append(messages, at, (size_t)(newline - at), !messages->within_line);
			take_line(messages, false, take, arg);
			messages->within_line = false;
		}
		if (at < end) {
			append(messages, at, (size_t)(end - at), !messages->within_line);
			messages->within_line = true;
		}
	}
}

void messages_finish(struct messages *messages, messages_take *take, void *arg)
{
	for (int i = 0; i < ROUNDS_LAST && messages->fd >= 0; i++)
		messages_read(messages, take, arg);
	if (messages->length)
		take_line(messages, true, take, arg);
}

void messages_clear(struct messages *messages)
{
	if (messages->fd >= 0)
		close(messages->fd);
	messages->fd = -1;
	free(messages->text);
	messages->text = NULL;
	messages->size = 0;
	reset(messages);
}
