/* Reads fields by the messages' descriptors. */
#include "client/cmd/fields.h"

#include "client/cmd/terminal.h"
#include "common/clock.h"
#include "common/field.h"
#include "common/json_names.h"
#include "common/mem.h"

#include <inttypes.h>
#include <reeve/v1/task.pb-c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *fields_at(const void *message, const char *path, const ProtobufCFieldDescriptor **field)
{
	const ProtobufCMessage *inner = message;
	const ProtobufCMessageDescriptor *descriptor = inner->descriptor;

	for (;;) {
		*field = field_step(descriptor, &path);
		void *at = inner ? field_at(inner, *field) : NULL;

		if (!*path)
			return at;
		inner = at ? *(ProtobufCMessage *const *)at : NULL;
		descriptor = (*field)->descriptor;
	}
}

/* "a,b,c", or "all". */
static void join(char *const *names, size_t count, struct shown *out)
{
	size_t size;
	FILE *stream = mem_stream(&out->owned, &size);

	fputs(count ? "" : "all", stream);
	for (size_t i = 0; i < count; i++)
		fprintf(stream, "%s%s", i ? "," : "", names[i]);
	fclose(stream);
	out->value = out->owned;
}

static void show_value(const ProtobufCFieldDescriptor *field, const void *at, struct shown *out)
{
	char word[JSON_NAME_BYTES];

	if (field->label == PROTOBUF_C_LABEL_REPEATED) {
		const char *owner = (const char *)at - field->offset;

		join(*(char *const *const *)at, *(const size_t *)(owner + field->quantifier_offset), out);
		return;
	}
	switch (field->type) {
	case PROTOBUF_C_TYPE_STRING:
		if (*(const char *const *)at)
			out->value = *(const char *const *)at;
		return;
	case PROTOBUF_C_TYPE_ENUM:
		if (field_number_at(field, at) && json_enum_word(field->descriptor, (int)field_number_at(field, at), word))
			snprintf(out->text, sizeof out->text, "%s", word);
		return;
	case PROTOBUF_C_TYPE_BOOL: strcpy(out->text, field_number_at(field, at) ? "yes" : "no"); return;
	case PROTOBUF_C_TYPE_DOUBLE: snprintf(out->text, sizeof out->text, "%.15g", *(const double *)at); return;
	default: snprintf(out->text, sizeof out->text, "%" PRId64, field_number_at(field, at));
	}
}

static void clear(struct shown *out)
{
	*out->text = '\0';
	out->value = out->text;
	out->owned = NULL;
	out->colour = "";
}

void fields_word(const void *message, const char *path, struct shown *shown)
{
	const ProtobufCFieldDescriptor *field;
	const void *at = fields_at(message, path, &field);

	clear(shown);
	if (at)
		show_value(field, at, shown);
}

bool fields_is(const void *message, const char *path, const char *word)
{
	struct shown shown;

	fields_word(message, path, &shown);
	return strcmp(shown.value, word) == 0;
}

static void show_field(const struct column *column, const void *message, int64_t now_us, struct shown *out)
{
	const ProtobufCFieldDescriptor *field;
	const void *at = fields_at(message, column->field, &field);
	int64_t number;

	if (!at)
		return;
	if (column->as == AS_VALUE || column->as == AS_STATE) {
		show_value(field, at, out);
		out->colour = column->as == AS_STATE ? terminal_state_colour(out->value) : "";
		return;
	}
	number = field_number_at(field, at);
	if (column->as == AS_SWITCH)
		strcpy(out->text, number ? "on" : "off");
	else if (number && column->as == AS_AGE)
		terminal_age(now_us, number, out->text, sizeof out->text);
	else if (number && column->as == AS_TIME)
		terminal_time(number, out->text, sizeof out->text);
	else if (number && column->as == AS_HOUR)
		terminal_minute(number, out->text, sizeof out->text);
	else if (number && column->as == AS_SPAN)
		duration_format(number, out->text, sizeof out->text);
	else if (number)
		snprintf(out->text, sizeof out->text, "%" PRId64, number);
}

/* Writes what a column shows. The caller must free out->owned. */
static void show(const struct column *column, const void *message, int64_t now_us, struct shown *out)
{
	clear(out);
	if (column->show)
		column->show(message, now_us, out);
	else
		show_field(column, message, now_us, out);
	if (!*out->value && column->otherwise)
		out->value = column->otherwise;
}

void fields_tries(const void *message, int64_t now_us, struct shown *shown)
{
	const Reeve__V1__Task *task = message;

	(void)now_us;
	snprintf(shown->text, sizeof shown->text, "%" PRIu32 "/%" PRIu32, task->attempt, task->max_attempts);
}

void fields_row(struct table *table, const struct column *columns, const void *message, int64_t now_us)
{
	struct shown shown;

	for (const struct column *column = columns; column->heading; column++) {
		show(column, message, now_us, &shown);
		table_coloured(table, shown.value, shown.colour);
		free(shown.owned);
	}
}

void fields_line(int width, const char *heading, const char *value)
{
	if (!*value)
		return;
	printf("%-*s ", width, heading);
	terminal_write_clean(stdout, value);
	putchar('\n');
}

/* Returns true if the names, separated by spaces, have this one. */
static bool list_has(const char *names, const char *name)
{
	size_t length = strlen(name);

	for (const char *at = names; (at = strstr(at, name)) != NULL; at += length)
		if ((at == names || at[-1] == ' ') && (at[length] == ' ' || !at[length]))
			return true;
	return false;
}

void fields_lines(int width, const struct column *columns, const void *message, int64_t now_us)
{
	struct shown shown;

	for (const struct column *column = columns; column->heading; column++) {
		show(column, message, now_us, &shown);
		fields_line(width, column->heading, shown.value);
		free(shown.owned);
	}
}

void fields_texts(int width, const void *message, const char *except)
{
	const ProtobufCMessageDescriptor *descriptor = ((const ProtobufCMessage *)message)->descriptor;

	for (unsigned i = 0; i < descriptor->n_fields; i++) {
		const ProtobufCFieldDescriptor *field = &descriptor->fields[i];

		if (field->type == PROTOBUF_C_TYPE_STRING && field->label != PROTOBUF_C_LABEL_REPEATED &&
		    !list_has(except, field->name))
			fields_line(width, field->name, *(const char *const *)((const char *)message + field->offset));
	}
}

void fields_time(int width, const char *heading, int64_t us, int64_t now_us)
{
	char time[40], age[32], line[96];

	if (us == 0)
		return;
	terminal_age(now_us, us, age, sizeof age);
	snprintf(line, sizeof line, "%s (%s%s)", terminal_time(us, time, sizeof time), age,
	    strncmp(age, "in ", 3) == 0 ? "" : " ago");
	fields_line(width, heading, line);
}
