/*
 * The log. A line is built and escaped in one buffer on the stack, and written by one write(2), so that the lines of
 * threads and processes that share standard error do not mix. A line that cannot be written at once, because nobody
 * reads the pipe or terminal, is dropped and counted: no program waits for its log.
 */
#include "common/log.h"

#include "common/clock.h"
#include "common/utf8.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LINE_BYTES = 4096, AGAIN_MS = 10000 };

/* Set once at the start, before there are threads, and only read afterwards. */
static const char *program_name = "reeve";
static bool under_systemd;
static enum log_format line_format;

/* Atomic, since it may change while other threads log. */
static _Atomic int min_urgent = LOG_LEVEL_INFO;

/* Lines that were dropped and not yet reported. */
static _Atomic unsigned dropped;

struct line {
	char text[LINE_BYTES];
	size_t used, limit;
	bool full;
};

/* In a line of fields: the end of its object, so that the message has room, and what follows the message. */
enum { OBJECT_END = 1024, TAIL_BYTES = 2 };

void log_setup(const char *program, enum log_level level)
{
	program_name = program;
	under_systemd = getenv("JOURNAL_STREAM") != NULL;
	log_set_level(level);
}

void log_set_level(enum log_level level)
{
	atomic_store_explicit(&min_urgent, level, memory_order_relaxed);
}

enum log_level log_level_named(const char *name)
{
	static const char *const names[] = {
	    [LOG_LEVEL_ERROR] = "error", [LOG_LEVEL_WARN] = "warn", [LOG_LEVEL_INFO] = "info", [LOG_LEVEL_DEBUG] = "debug"};

	size_t i = 0;

	while (strcmp(name, names[i]) != 0)
		i++;
	return (enum log_level)i;
}

void log_set_format(const char *name)
{
	line_format = !strcmp(name, "json") ? LOG_FORMAT_JSON
	    : !strcmp(name, "logfmt")       ? LOG_FORMAT_LOGFMT
	                                    : LOG_FORMAT_TEXT;
}

/* Appends bytes, unless they pass the limit. Then the line is full and stays so. */
static void append(struct line *line, const char *bytes, size_t length)
{
	line->full |= line->used + length > line->limit;
	if (line->full)
		return;
	memcpy(line->text + line->used, bytes, length);
	line->used += length;
}

/* Appends a string from outside, with control characters and invalid UTF-8 as \xNN. `quoted`: it is within quotes,
 * where these and backslashes follow a backslash. */
static void append_escaped(struct line *line, const char *text, bool quoted)
{
	while (*text) {
		size_t length = 1;
		char escape[8];

		while (length < 4 && ((unsigned char)text[length] & 0xc0) == 0x80)
			length++;
		bool c1 = length == 2 && (unsigned char)text[0] == 0xc2 && (unsigned char)text[1] < 0xa0;
		if (utf8_valid(text, length) && (unsigned char)*text >= 0x20 && *text != 0x7f && !c1) {
			if (quoted && (*text == '"' || *text == '\\'))
				append(line, (char[]){'\\', *text}, 2);
			else
				append(line, text, length);
			text += length;
		} else {
			int written = snprintf(escape, sizeof escape, quoted ? "\\\\x%02x" : "\\x%02x", (unsigned char)*text++);
			append(line, escape, (size_t)written);
		}
	}
}

static const struct {
	const char *name, *padded;
	int syslog;
} levels[] = {{"error", "error", 3}, {"warn", "warn ", 4}, {"info", "info ", 6}, {"debug", "debug", 7}};

static void append_head(struct line *line, enum log_level level)
{
	if (under_systemd) {
		line->used = snprintf(line->text, sizeof line->text, "<%d>%s: ", levels[level].syslog, program_name);
		return;
	}

	char now[40];
	time_format(clock_wall_us(), now, sizeof now);
	/* Cut the microseconds to milliseconds. */
	line->used = snprintf(line->text, sizeof line->text, "%.23sZ %s %s: ", now, levels[level].padded, program_name);
}

static void append_text(struct line *line, const char *object, const char *text)
{
	if (object) {
		append_escaped(line, object, false);
		append(line, ": ", 2);
	}
	append_escaped(line, text, false);
}

/* Appends a field whose value is cut at `limit`. There is always room for its name and the quotes. */
static void append_field(struct line *line, const char *name, const char *value, size_t limit)
{
	bool json = line_format == LOG_FORMAT_JSON;

	line->full = false;
	line->limit = sizeof line->text;
	append(line, json ? ",\"" : " ", json ? 2 : 1);
	append(line, name, strlen(name));
	append(line, json ? "\":\"" : "=\"", json ? 3 : 2);
	line->limit = limit;
	append_escaped(line, value, true);
	line->text[line->used++] = '"';
}

static void append_fields(struct line *line, enum log_level level, const char *object, const char *text)
{
	char now[40];

	if (under_systemd)
		line->used = (size_t)snprintf(line->text, sizeof line->text, "<%d>", levels[level].syslog);
	time_format(clock_wall_us(), now, sizeof now);
	if (line_format == LOG_FORMAT_JSON)
		line->used += (size_t)snprintf(line->text + line->used, sizeof line->text - line->used,
		    "{\"time\":\"%.23sZ\",\"level\":\"%s\",\"program\":\"%s\"", now, levels[level].name, program_name);
	else
		line->used += (size_t)snprintf(line->text + line->used, sizeof line->text - line->used,
		    "time=%.23sZ level=%s program=%s", now, levels[level].name, program_name);
	if (object)
		append_field(line, "object", object, OBJECT_END);
	append_field(line, "message", text, sizeof line->text - TAIL_BYTES - 1);
	if (line_format == LOG_FORMAT_JSON)
		line->text[line->used++] = '}';
}

/* Tells whether a line can be written at once. A pipe has room for a line then, because LINE_BYTES is at most PIPE_BUF.
 */
static bool writable(void)
{
	struct pollfd out = {.fd = STDERR_FILENO, .events = POLLOUT};

	return poll(&out, 1, 0) != 0;
}

static void write_line(enum log_level level, const char *object, const char *text)
{
	struct line line = {.limit = sizeof line.text - 1};

	if (line_format == LOG_FORMAT_TEXT) {
		append_head(&line, level);
		append_text(&line, object, text);
	} else {
		append_fields(&line, level, object, text);
	}
	line.text[line.used++] = '\n';
	/* Nothing can be done if the log cannot be written. */
	if (write(STDERR_FILENO, line.text, line.used) < 0) {
	}
}

void log_line(enum log_level level, const char *object, const char *format, ...)
{
	char text[LINE_BYTES], note[80];
	va_list arguments;
	unsigned lost;
	int saved = errno;

	if ((int)level > atomic_load_explicit(&min_urgent, memory_order_relaxed))
		return;
	if (!writable()) {
		atomic_fetch_add(&dropped, 1);
		errno = saved;
		return;
	}
	lost = atomic_exchange(&dropped, 0);
	if (lost > 0) {
		snprintf(note, sizeof note, "%u lines are missing here, because nobody read the log in time", lost);
		write_line(LOG_LEVEL_WARN, NULL, note);
	}
	va_start(arguments, format);
	vsnprintf(text, sizeof text, format, arguments);
	va_end(arguments);
	if (lost == 0 || writable())
		write_line(level, object, text);
	else
		atomic_fetch_add(&dropped, 1);
	errno = saved;
}

bool log_again(int64_t *logged_ms, int64_t now_ms)
{
	if (*logged_ms && now_ms - *logged_ms < AGAIN_MS)
		return false;
	*logged_ms = now_ms;
	return true;
}
