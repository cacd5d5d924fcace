/* Looks up the fields of a statement's head by their names, once per statement sent and once per result read. */
#include "manager/store/bind.h"

#include "common/field.h"
#include "common/json.h"
#include "common/json_names.h"
#include "common/log.h"
#include "manager/store/row.h"

#include <assert.h>

enum { PATH_MAX_DEPTH = 4, COLUMNS_MAX = 128, NAME_MAX_BYTES = 128 };

/* PostgreSQL's type OIDs of columns. */
enum {
	TYPE_BOOL = 16,
	TYPE_INT8 = 20,
	TYPE_INT2 = 21,
	TYPE_INT4 = 23,
	TYPE_TEXT = 25,
	TYPE_FLOAT8 = 701,
	TYPE_TEXTS = 1009,
	TYPE_INT8S = 1016,
	TYPE_TIME = 1184,
	TYPE_TIMES = 1185,
	TYPE_JSONB = 3802,
};

/* Copies the next name of a space-separated list, and moves on; returns false at the list's end. */
static bool next_name(const char **at, char *name)
{
	size_t length = strcspn(*at, " ");
	assert(length < NAME_MAX_BYTES);
	memcpy(name, *at, length);
	name[length] = '\0';
	*at += length;
	*at += strspn(*at, " ");
	return length > 0;
}

/* Returns the name of an enum's value in SQL; NULL if it is unspecified. */
static const char *enum_text(const ProtobufCEnumDescriptor *e, int value, char *text)
{
	return json_enum_word(e, value, text) && strcmp(text, "unspecified") ? text : NULL;
}

static int enum_value(const ProtobufCEnumDescriptor *e, const char *text)
{
	int value;
	return json_enum_number(e, text, &value) ? value : 0;
}

/* --- parameters -------------------------------------------------------------------------------------------------- */

static void add_list(struct params *p, const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
	const void *list = *(void *const *)field_at(message, field);
	size_t count = *field_count(message, field);
	char name[JSON_NAME_BYTES];
	if (field->type == PROTOBUF_C_TYPE_INT64) {
		params_int8s(p, list, (int)count);
		return;
	}
	bool word = field->type == PROTOBUF_C_TYPE_ENUM;
	assert(word || field->type == PROTOBUF_C_TYPE_STRING);
	params_array_begin(p, PARAMS_TEXT);
	for (size_t i = 0; i < count; i++)
		params_add_text(
		    p, word ? enum_text(field->descriptor, ((const int *)list)[i], name) : ((char *const *)list)[i]);
	params_array_end(p);
}

static void add_int(struct params *p, const ProtobufCFieldDescriptor *field, int64_t value, bool may_be_null)
{
	if (may_be_null && !value)
		params_null(p);
	else if (json_is_time(field))
		params_time(p, value);
	else
		params_int8(p, value);
}

static void add_field(
    struct params *p, const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field, bool may_be_null)
{
	const void *at = field_at(message, field);
	char name[JSON_NAME_BYTES];
	if (field->label == PROTOBUF_C_LABEL_REPEATED) {
		if (may_be_null && !*field_count(message, field))
			params_null(p);
		else
			add_list(p, message, field);
		return;
	}
	switch (field->type) {
	case PROTOBUF_C_TYPE_STRING: {
		const char *text = *(char *const *)at;
		params_text(p, may_be_null && !*text ? NULL : text);
		break;
	}
	case PROTOBUF_C_TYPE_BOOL: params_bool(p, *(const protobuf_c_boolean *)at); break;
	case PROTOBUF_C_TYPE_ENUM: params_text(p, enum_text(field->descriptor, *(const int *)at, name)); break;
	case PROTOBUF_C_TYPE_INT32:
	case PROTOBUF_C_TYPE_SINT32: add_int(p, field, *(const int32_t *)at, may_be_null); break;
	case PROTOBUF_C_TYPE_UINT32: add_int(p, field, *(const uint32_t *)at, may_be_null); break;
	default: assert(field->type == PROTOBUF_C_TYPE_INT64); add_int(p, field, *(const int64_t *)at, may_be_null);
	}
}

/* Adds a field of each message in a list. */
static void add_each(
    struct params *p, const ProtobufCMessage *message, const ProtobufCFieldDescriptor *list, const char *name)
{
	const ProtobufCFieldDescriptor *field = field_named(list->descriptor, name);
	ProtobufCMessage *const *items = *(ProtobufCMessage *const **)field_at(message, list);
	bool text = field->type == PROTOBUF_C_TYPE_STRING, word = field->type == PROTOBUF_C_TYPE_ENUM;
	char enum_name[JSON_NAME_BYTES];
	assert(text || word || field->type == PROTOBUF_C_TYPE_INT64);
	params_array_begin(p, text || word ? PARAMS_TEXT : PARAMS_INT8);
	for (size_t i = 0; i < *field_count(message, list); i++) {
		const void *at = field_at(items[i], field);
		if (text)
			params_add_text(p, *(char *const *)at);
		else if (word)
			params_add_text(p, enum_text(field->descriptor, *(const int *)at, enum_name));
		else
			params_add_int8(p, *(const int64_t *)at);
	}
	params_array_end(p);
}

/* Adds the field that a path names: "limit", "schedule.name" or "metrics[].value". */
static void add_path(struct params *p, const ProtobufCMessage *message, char *path, bool may_be_null)
{
	char *save, *part = strtok_r(path, ".", &save), *next;
	for (; (next = strtok_r(NULL, ".", &save)); part = next) {
		char *list = strstr(part, "[]");
		if (list) {
			*list = '\0';
			add_each(p, message, field_named(message->descriptor, part), next);
			return;
		}
		message = *(ProtobufCMessage *const *)field_at(message, field_named(message->descriptor, part));
		if (!message) {
			params_null(p);
			return;
		}
	}
	add_field(p, message, field_named(message->descriptor, part), may_be_null);
}

static void add_value(struct params *p, const char *name, const struct bind_values *values)
{
	if (!strcmp(name, "@request_id"))
		params_uuid(p, values->request_id);
	else if (!strcmp(name, "@actor"))
		params_text(p, values->actor);
	else if (!strcmp(name, "@change"))
		params_text(p, values->change);
	else if (!strcmp(name, "@lease_ms"))
		params_int8(p, values->lease_ms);
	else if (!strcmp(name, "@max_bytes"))
		params_int8(p, values->max_bytes);
	else if (!strcmp(name, "@max_details"))
		params_int8(p, values->max_details);
	else if (!strcmp(name, "@max_task"))
		params_int8(p, values->max_task);
	else if (!strcmp(name, "@estimate"))
		params_time_or_null(p, values->estimate_us);
	else if (!strcmp(name, "@manager"))
		params_int8(p, values->manager);
	else if (!strcmp(name, "@max_scanned"))
		params_int8(p, values->max_scanned);
	else if (!strcmp(name, "@max_tasks"))
		params_int8(p, values->max_tasks);
	else if (!strcmp(name, "@ended_wanted"))
		params_bool(p, values->ended_wanted);
	else if (!strcmp(name, "@live_wanted"))
		params_int4(p, values->live_wanted);
	else
		assert(!"a value that there is");
}

void bind_params(
    struct params *p, enum sql_id statement, const ProtobufCMessage *request, const struct bind_values *values)
{
	const struct sql_text *sql = &sql_statements[statement];
	const char *at = sql->takes;
	char name[NAME_MAX_BYTES];
	assert(!sql->request || request->descriptor == sql->request);
	while (next_name(&at, name)) {
		if (*name == '@') {
			add_value(p, name, values);
			continue;
		}
		char *mark = strchr(name, '?');
		if (mark)
			*mark = '\0';
		add_path(p, request, name, mark != NULL);
	}
}

/* --- rows -------------------------------------------------------------------------------------------------------- */

/* The destination of a column: a field, possibly of a message within messages. */
struct column {
	bool of_response; /* a field of the response, not of a message in the list */
	int depth;        /* the length of the path */
	const ProtobufCFieldDescriptor *path[PATH_MAX_DEPTH];
	bool opens[PATH_MAX_DEPTH]; /* it is the first column of that message */
};

static bool same_message(const struct column *a, const struct column *b, int depth)
{
	if (a->of_response != b->of_response || a->depth <= depth + 1)
		return false;
	for (int i = 0; i <= depth; i++)
		if (a->path[i] != b->path[i])
			return false;
	return true;
}

static void column_resolve(
    struct column *columns, int n, char *name, const struct sql_text *sql, const ProtobufCMessageDescriptor *item)
{
	struct column *column = &columns[n];
	char *save;
	*column = (struct column){.of_response = *name == '.' || !item};
	if (!strcmp(name, "-"))
		return;
	const ProtobufCMessageDescriptor *message = column->of_response ? sql->response : item;
	for (char *part = strtok_r(name, ".", &save); part; part = strtok_r(NULL, ".", &save)) {
		assert(column->depth < PATH_MAX_DEPTH && message);
		const ProtobufCFieldDescriptor *field = field_named(message, part);
		column->path[column->depth++] = field;
		message = field->type == PROTOBUF_C_TYPE_MESSAGE ? field->descriptor : NULL;
	}
	for (int depth = 0; depth < column->depth - 1; depth++) {
		column->opens[depth] = true;
		for (int i = 0; i < n; i++)
			if (same_message(&columns[i], column, depth))
				column->opens[depth] = false;
	}
}

static int columns_resolve(struct column *columns, const struct sql_text *sql, const ProtobufCMessageDescriptor *item)
{
	const char *at = sql->gives;
	char name[NAME_MAX_BYTES];
	int n = 0;
	for (; next_name(&at, name); n++) {
		assert(n < COLUMNS_MAX);
		column_resolve(columns, n, name, sql, item);
	}
	return n;
}

static int64_t time_from(const PGresult *rows, int row, int column)
{
	int64_t us = row_time(rows, row, column);
	return us == INT64_MAX || us == INT64_MIN ? 0 : us;
}

static int64_t int_from(const PGresult *rows, int row, int column)
{
	switch (PQftype(rows, column)) {
	case TYPE_INT2: return row_int2(rows, row, column);
	case TYPE_INT4: return row_int4(rows, row, column);
	case TYPE_TIME: return time_from(rows, row, column);
	default: assert(PQftype(rows, column) == TYPE_INT8); return row_int8(rows, row, column);
	}
}

static void set_texts(
    ProtobufCMessage *message, const ProtobufCFieldDescriptor *field, const PGresult *rows, int row, int column)
{
	const char *data = NULL;
	int n = row_array(rows, row, column, &data);
	char **texts = mem_malloc(sizeof *texts * ((size_t)n + 1));
	assert(field->type == PROTOBUF_C_TYPE_STRING);
	for (int i = 0; i < n; i++) {
		int length;
		const char *value = row_array_next(&data, &length);
		texts[i] = mem_strndup(value, (size_t)length);
	}
	*(char ***)field_at(message, field) = texts;
	*field_count(message, field) = (size_t)n;
}

static void set_numbers(
    ProtobufCMessage *message, const ProtobufCFieldDescriptor *field, const PGresult *rows, int row, int column)
{
	const char *data = NULL;
	int n = row_array(rows, row, column, &data);
	int64_t *numbers = mem_malloc(sizeof *numbers * ((size_t)n + 1));
	bool times = PQftype(rows, column) == TYPE_TIMES;
	assert((times || PQftype(rows, column) == TYPE_INT8S) && field->type == PROTOBUF_C_TYPE_INT64);
	for (int i = 0; i < n; i++)
		numbers[i] = times ? pgtime_to_us(row_array_int8(&data)) : row_array_int8(&data);
	*(int64_t **)field_at(message, field) = numbers;
	*field_count(message, field) = (size_t)n;
}

/* Reads the binary form of jsonb: a version byte, then the text. */
static json_t *json_of(const PGresult *rows, int row, int column)
{
	assert(PQftype(rows, column) == TYPE_JSONB);
	return json_loadb(
	    PQgetvalue(rows, row, column) + 1, (size_t)PQgetlength(rows, row, column) - 1, JSON_DECODE_ANY, NULL);
}

static ProtobufCMessage *message_of(const json_t *json, const ProtobufCMessageDescriptor *descriptor)
{
	struct reeve_error error;
	ProtobufCMessage *message = json_to_message(json, descriptor, &error);
	if (!message)
		log_error("store", "a stored %s cannot be read: %s", descriptor->short_name, error.message);
	return message;
}

static void set_messages(
    ProtobufCMessage *message, const ProtobufCFieldDescriptor *field, const PGresult *rows, int row, int column)
{
	json_t *list = json_of(rows, row, column), *json;
	size_t i, n = 0;
	ProtobufCMessage **messages = mem_malloc(sizeof *messages * (json_array_size(list) + 1));
	json_array_foreach (list, i, json)
		if ((messages[n] = message_of(json, field->descriptor)))
			n++;
	*(ProtobufCMessage ***)field_at(message, field) = messages;
	*field_count(message, field) = n;
	json_decref(list);
}

static void set_list(
    ProtobufCMessage *message, const ProtobufCFieldDescriptor *field, const PGresult *rows, int row, int column)
{
	if (PQftype(rows, column) == TYPE_JSONB)
		set_messages(message, field, rows, row, column);
	else if (PQftype(rows, column) == TYPE_TEXTS)
		set_texts(message, field, rows, row, column);
	else
		set_numbers(message, field, rows, row, column);
}

static void set_message(
    ProtobufCMessage **message, const ProtobufCFieldDescriptor *field, const PGresult *rows, int row, int column)
{
	json_t *json = json_of(rows, row, column);
	assert(!*message);
	*message = message_of(json, field->descriptor);
	json_decref(json);
}

static void set_text(char **text, const PGresult *rows, int row, int column)
{
	assert(PQftype(rows, column) == TYPE_TEXT);
	if (*text != protobuf_c_empty_string)
		free(*text);
	*text = row_copy(rows, row, column);
}

/* Sets a field from a column that is not null. */
static void set_field(
    ProtobufCMessage *message, const ProtobufCFieldDescriptor *field, const PGresult *rows, int row, int column)
{
	void *at = field_at(message, field);
	if (field->label == PROTOBUF_C_LABEL_REPEATED) {
		set_list(message, field, rows, row, column);
		return;
	}
	if (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF)
		*(uint32_t *)((char *)message + field->quantifier_offset) = field->id;
	switch (field->type) {
	case PROTOBUF_C_TYPE_STRING: set_text(at, rows, row, column); break;
	case PROTOBUF_C_TYPE_MESSAGE: set_message(at, field, rows, row, column); break;
	case PROTOBUF_C_TYPE_BOOL:
		assert(PQftype(rows, column) == TYPE_BOOL);
		*(protobuf_c_boolean *)at = row_bool(rows, row, column);
		break;
	case PROTOBUF_C_TYPE_ENUM:
		*(int *)at = PQftype(rows, column) == TYPE_TEXT ? enum_value(field->descriptor, row_text(rows, row, column))
		                                                : (int)int_from(rows, row, column);
		break;
	case PROTOBUF_C_TYPE_DOUBLE:
		assert(PQftype(rows, column) == TYPE_FLOAT8);
		*(double *)at = row_float8(rows, row, column);
		break;
	case PROTOBUF_C_TYPE_INT32:
	case PROTOBUF_C_TYPE_SINT32:
	case PROTOBUF_C_TYPE_UINT32: *(int32_t *)at = (int32_t)int_from(rows, row, column); break;
	default: assert(field->type == PROTOBUF_C_TYPE_INT64); *(int64_t *)at = int_from(rows, row, column);
	}
}

/* Whether a column gives an enum's unspecified value, which stands for none. */
static bool is_unspecified(const ProtobufCFieldDescriptor *field, const PGresult *rows, int row, int column)
{
	return field->type == PROTOBUF_C_TYPE_ENUM && PQftype(rows, column) != TYPE_TEXT &&
	    int_from(rows, row, column) == 0;
}

static ProtobufCMessage *message_new(const ProtobufCMessageDescriptor *descriptor)
{
	ProtobufCMessage *message = mem_malloc(descriptor->sizeof_message);
	protobuf_c_message_init(descriptor, message);
	return message;
}

static void take_column(ProtobufCMessage *message, const struct column *to, const PGresult *rows, int row, int column)
{
	if (!to->depth || row_null(rows, row, column))
		return;
	const ProtobufCFieldDescriptor *last = to->path[to->depth - 1];
	for (int depth = 0; depth < to->depth - 1; depth++) {
		const ProtobufCFieldDescriptor *field = to->path[depth];
		ProtobufCMessage **inner = field_at(message, field);
		if (!*inner && (!to->opens[depth] || is_unspecified(last, rows, row, column)))
			return;
		if (!*inner)
			*inner = message_new(field->descriptor);
		message = *inner;
	}
	set_field(message, last, rows, row, column);
}

static void take_row(
    ProtobufCMessage *message, bool of_response, const struct column *columns, int count, const PGresult *rows, int row)
{
	for (int i = 0; i < count; i++)
		if (columns[i].of_response == of_response)
			take_column(message, &columns[i], rows, row, i);
}

static int first_of_list(const struct column *columns, int count)
{
	for (int i = 0; i < count; i++)
		if (!columns[i].of_response && columns[i].depth)
			return i;
	assert(!"a list has columns");
	return 0;
}

static void take_list(ProtobufCMessage *response, const ProtobufCFieldDescriptor *list, const struct column *columns,
    int count, const PGresult *rows)
{
	size_t *n = field_count(response, list);
	ProtobufCMessage ***items = field_at(response, list);
	int first = first_of_list(columns, count);
	assert(!*n);
	*items = mem_malloc(sizeof **items * ((size_t)PQntuples(rows) + 1));
	for (int row = 0; row < PQntuples(rows); row++) {
		if (row_null(rows, row, first))
			continue;
		ProtobufCMessage *item = (*items)[(*n)++] = message_new(list->descriptor);
		take_row(item, false, columns, count, rows, row);
	}
}

void bind_rows(enum sql_id statement, const PGresult *rows, ProtobufCMessage *response)
{
	const struct sql_text *sql = &sql_statements[statement];
	const ProtobufCFieldDescriptor *list = *sql->list ? field_named(sql->response, sql->list) : NULL;
	struct column columns[COLUMNS_MAX];
	int count = columns_resolve(columns, sql, list ? list->descriptor : NULL);
	assert(response->descriptor == sql->response && count == PQnfields(rows));
	if (list)
		take_list(response, list, columns, count, rows);
	if (PQntuples(rows))
		take_row(response, true, columns, count, rows, PQntuples(rows) - 1);
}
