/* Parses conditions from left to right; `at` is always where an error message would point. */
#include "client/cmd/where.h"

#include "client/cmd/terminal.h"
#include "common/clock.h"
#include "common/json_names.h"
#include "common/mem.h"
#include "common/text.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MESSAGE_BYTES = 200, BEFORE_BYTES = 60, AFTER_BYTES = 40 };

struct reader {
	const char *text; /* all of it */
	const char *at;
	char *out; /* where the next value goes */
	struct where *where;
	unsigned given; /* the conditions read so far */
	char seen[8];   /* the statuses read so far */
	char *path;     /* of the condition on details that is being read */
	struct reeve_error *error;
};

/* Shows the part of the string around the place, in one line, and a mark under it. */
static void point_at(const struct reader *reader, const char *place, char *out, size_t size)
{
	size_t offset = (size_t)(place - reader->text), from = offset > BEFORE_BYTES ? offset - BEFORE_BYTES : 0;
	char piece[BEFORE_BYTES + AFTER_BYTES + 1];
	int indent;

	while (from > 0 && from < offset && ((unsigned char)reader->text[from] & 0xc0) == 0x80)
		from++;
	size_t length = utf8_cut(reader->text + from, strnlen(reader->text + from, sizeof piece - 1));
	memcpy(piece, reader->text + from, length);
	piece[length] = '\0';
	for (char *c = piece; *c; c++) {
		if (iscntrl((unsigned char)*c))
			*c = ' ';
	}
	size_t place_in_piece = offset - from < length ? offset - from : length;
	char kept = piece[place_in_piece];
	piece[place_in_piece] = '\0';
	indent = terminal_width(piece);
	piece[place_in_piece] = kept;
	snprintf(out, size, "\n  %s\n  %*s^", piece, indent, "");
}

__attribute__((format(printf, 3, 4))) static bool wrong(
    const struct reader *reader, const char *place, const char *format, ...)
{
	char message[MESSAGE_BYTES], picture[sizeof reader->error->message - MESSAGE_BYTES];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(message, sizeof message, format, arguments);
	va_end(arguments);
	point_at(reader, place, picture, sizeof picture);
	return error_set(reader->error, STATUS(INVALID_ARGUMENT), "%s%s", message, picture);
}

/* Returns what a backslash and this character mean in "…"; 0: invalid. */
static char escaped(char c)
{
	switch (c) {
	case 'n': return '\n';
	case 't': return '\t';
	case 'r': return '\r';
	case '"':
	case '\\': return c;
	default: return '\0';
	}
}

/* Reads a value in quotes; `at` is at the opening quote. */
static bool read_quoted(struct reader *reader)
{
	const char *begin = reader->at;
	char quote = *begin;

	for (reader->at++; *reader->at; reader->at++) {
		if (*reader->at == '\\' && quote == '"') {
			char c = escaped(reader->at[1]);

			if (!c)
				return wrong(reader, reader->at, "only \", \\, n, t and r can follow a backslash");
			*reader->out++ = c;
			reader->at++;
		} else if (*reader->at != quote) {
			*reader->out++ = *reader->at;
		} else if (quote == '\'' && reader->at[1] == quote) {
			*reader->out++ = quote;
			reader->at++;
		} else {
			reader->at++;
			if (*reader->at && !isspace((unsigned char)*reader->at))
				return wrong(reader, reader->at, "a blank must follow the quote");
			return true;
		}
	}
	return wrong(reader, begin, "this quote is never closed");
}

/* Reads a value into `out` and appends NUL. Returns NULL if it is invalid. */
static const char *read_value(struct reader *reader, const char *name)
{
	const char *begin = reader->at;
	char *value = reader->out;

	if (*reader->at == '\'' || *reader->at == '"') {
		if (!read_quoted(reader))
			return NULL;
	} else {
		while (*reader->at && !isspace((unsigned char)*reader->at))
			*reader->out++ = *reader->at++;
	}
	*reader->out++ = '\0';
	if (!*value) {
		wrong(reader, begin, "%s has no value", name);
		return NULL;
	}
	return value;
}

/* A kind of condition. */
struct condition {
	const char *name;
	char operator;
	/* Applies the value, which is at `place`. */
	bool (*take)(struct reader *reader, const struct condition *condition, const char *value, const char *place);
	size_t offset; /* of the field */
};

static void *field(const struct reader *reader, const struct condition *condition)
{
	return (char *)&reader->where->filter + condition->offset;
}

static bool take_text(struct reader *reader, const struct condition *condition, const char *value, const char *place)
{
	(void)place;
	*(const char **)field(reader, condition) = value;
	return true;
}

static bool take_duration(
    struct reader *reader, const struct condition *condition, const char *value, const char *place)
{
	int64_t ms;

	if (!duration_parse(value, &ms) || ms == 0)
		return wrong(reader, place, "%s takes a duration like 90s, 5m, 1h30m or 2d", condition->name);
	*(int64_t *)field(reader, condition) = ms;
	return true;
}

static bool take_number(struct reader *reader, const struct condition *condition, const char *value, const char *place)
{
	char *end;

	errno = 0;
	long long number = isdigit((unsigned char)*value) ? strtoll(value, &end, 10) : 0;
	if (number <= 0 || errno || *end != '\0')
		return wrong(reader, place, "%s takes a whole number from 1", condition->name);
	*(int64_t *)field(reader, condition) = number;
	return true;
}

/* Parses statuses, separated by commas. */
static bool take_statuses(
    struct reader *reader, const struct condition *condition, const char *value, const char *place)
{
	for (const char *name = value; name; name = strchr(name, ',') ? strchr(name, ',') + 1 : NULL) {
		Reeve__V1__TaskFilter *filter = &reader->where->filter;
		char word[16];
		int status;

		snprintf(word, sizeof word, "%.*s", (int)strcspn(name, ","), name);
		if (!json_enum_number(&reeve__v1__task_status__descriptor, word, &status) || !status)
			return wrong(reader, place + (name - value),
			    "%s takes queued, executing, failed, completed, dead or cancelled, or several with commas",
			    condition->name);
		if (!memchr(reader->seen, status, filter->n_statuses)) {
			reader->seen[filter->n_statuses] = (char)status;
			reader->where->statuses[filter->n_statuses++] = (Reeve__V1__TaskStatus)status;
		}
	}
	return true;
}

/* Adds a condition on a member of the details, whose path is in the buffer before the value. */
static bool take_details(struct reader *reader, const struct condition *condition, const char *value, const char *place)
{
	Reeve__V1__TaskFilter *filter = &reader->where->filter;
	Reeve__V1__DetailsFilter *details = &reader->where->details[filter->n_details];

	(void)condition;
	if (filter->n_details == LIMIT_DETAILS_CONDITIONS)
		return wrong(reader, place, "at most %d conditions on details are allowed", LIMIT_DETAILS_CONDITIONS);
	*details = (Reeve__V1__DetailsFilter){
	    .base.descriptor = &reeve__v1__details_filter__descriptor, .path = reader->path, .value = value};
	reader->where->each_details[filter->n_details++] = details;
	return true;
}

#define FIELD(name) offsetof(Reeve__V1__TaskFilter, name)

static const struct condition conditions[] = {
    {"status", '=', take_statuses, 0},
    {"queue", '=', take_text, FIELD(queue)},
    {"type", '=', take_text, FIELD(type)},
    {"error", '=', take_text, FIELD(error)},
    {"error", '~', take_text, FIELD(error_contains)},
    {"code", '=', take_text, FIELD(error_code)},
    {"older", '=', take_duration, FIELD(older_ms)},
    {"newer", '=', take_duration, FIELD(newer_ms)},
    {"running_longer", '=', take_duration, FIELD(running_longer_ms)},
    {"batch", '=', take_number, FIELD(batch_id)},
    {"key", '=', take_text, FIELD(key)},
    {"source", '=', take_text, FIELD(source)},
    {"pipeline", '=', take_text, FIELD(pipeline)},
    {"stage", '=', take_text, FIELD(stage)},
    {"parent", '=', take_number, FIELD(parent_id)},
};

static const struct condition on_details = {"details.PATH", '=', take_details, 0};

enum { N_CONDITIONS = sizeof conditions / sizeof *conditions };

/* Reads "details.PATH=". Returns NULL if it is invalid. */
static const struct condition *read_details(struct reader *reader, size_t length)
{
	static const char begin[] = "details.";
	const char *path = reader->at + sizeof begin - 1;

	if (reader->at[length] != '=' || length == sizeof begin - 1) {
		wrong(reader, reader->at + length, "details. must be followed by a member's name, = and a value");
		return NULL;
	}
	reader->path = reader->out;
	length -= sizeof begin - 1;
	memcpy(reader->out, path, length);
	reader->out[length] = '\0';
	reader->out += length + 1;
	reader->given |= 1U << N_CONDITIONS;
	reader->at = path + length + 1;
	return &on_details;
}

/* Returns the condition whose name is at `at`, and moves `at` to its value. Returns NULL if there is none. */
static const struct condition *read_name(struct reader *reader)
{
	const char *name = reader->at;
	size_t length = strcspn(name, "=~ \t\n\r");
	char operator= name[length];
	bool known = false;

	if (strncmp(name, "details.", 8) == 0)
		return read_details(reader, length);
	for (size_t i = 0; i < N_CONDITIONS; i++) {
		if (strlen(conditions[i].name) != length || strncmp(conditions[i].name, name, length) != 0)
			continue;
		known = true;
		if (conditions[i].operator!= operator)
			continue;
		if (reader->given & 1U << i) {
			wrong(reader, name, "%s is given twice", conditions[i].name);
			return NULL;
		}
		reader->given |= 1U << i;
		reader->at = name + length + 1;
		return &conditions[i];
	}
	if (known && operator== '~')
		wrong(reader, name + length, "%.*s takes = alone; ~ goes with error", (int)length, name);
	else if (known)
		wrong(reader, name + length, "%.*s must be followed by = and a value", (int)length, name);
	else
		wrong(reader, name, "there is no such condition; there are " WHERE_NAMES);
	return NULL;
}

bool where_parse(struct where *where, const char *text, const Reeve__V1__TaskFilter *more, struct reeve_error *error)
{
	struct reader reader = {.text = text, .at = text, .where = where, .error = error};

	*where = (struct where){.filter.base.descriptor = &reeve__v1__task_filter__descriptor};
	where->filter.statuses = where->statuses;
	where->filter.details = where->each_details;
	where->text = mem_malloc(strlen(text) + 1);
	reader.out = where->text; /* a value is shorter than its condition */
	for (;;) {
		const struct condition *condition;
		const char *value, *place;

		while (isspace((unsigned char)*reader.at))
			reader.at++;
		if (!*reader.at)
			break;
		condition = read_name(&reader);
		if (!condition)
			return false;
		place = reader.at;
		value = read_value(&reader, condition->name);
		if (!value || !condition->take(&reader, condition, value, place))
			return false;
	}
	if (more && more->running_longer_ms)
		where->filter.running_longer_ms = more->running_longer_ms;
	return reader.given || error_set(error, STATUS(INVALID_ARGUMENT), "it is empty; there are " WHERE_NAMES);
}

void where_free(struct where *where)
{
	free(where->text);
	where->text = NULL;
}
