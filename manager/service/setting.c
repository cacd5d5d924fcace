#include "manager/service/setting.h"

#include "common/field.h"
#include "common/json_names.h"
#include "common/limits.h"
#include "common/text.h"
#include "manager/service/check.h"

#include <stdio.h>
#include <string.h>

bool settings_count_check(size_t count, struct reeve_error *error)
{
	enum { FIELDS_MAX = 100 };
	if (!count)
		return error_set(error, STATUS(INVALID_ARGUMENT), "fields is empty: it names the fields to change");
	return check_range("fields", (int64_t)count, 1, FIELDS_MAX, error);
}

static json_t *text_or_null(const char *text)
{
	return text_given(text) ? json_string(text) : json_null();
}

static json_t *hours_of(const char *path, int64_t ms, struct reeve_error *error)
{
	const int64_t hour_ms = DAY_MS / 24;
	if (!(ms % hour_ms))
		return ms ? json_integer(ms / hour_ms) : json_null();
	error_set(error, STATUS(INVALID_ARGUMENT), "%s is %lld; it must be whole hours of %lld ms", path, (long long)ms,
	    (long long)hour_ms);
	return NULL;
}

static json_t *name_of(const struct setting *s, const char *path, const char *name, struct reeve_error *error)
{
	bool good = *name && s->check ? s->check(path, name, error)
	                              : check_name(path, name, s->kind == SETTING_NAME_OR_NONE, error);
	if (!good)
		return NULL;
	return text_or_null(*name ? name : s->otherwise);
}

/* Returns the new value of a column, or NULL with the problem in *error. */
static json_t *value_of(
    const struct setting *s, const char *path, const ProtobufCMessage *message, struct reeve_error *error)
{
	const ProtobufCFieldDescriptor *field = field_named(message->descriptor, s->field);
	char word[JSON_NAME_BYTES];
	if (s->kind == SETTING_NAME || s->kind == SETTING_NAME_OR_NONE)
		return name_of(s, path, field_text(message, field), error);
	int64_t number = field_number(message, field);
	if (s->kind == SETTING_FLAG)
		return json_boolean(number);
	if (!check_range(path, number, s->min, s->max, error))
		return NULL;
	if (s->kind == SETTING_NUMBER)
		return json_integer(number);
	if (s->kind == SETTING_HOURS)
		return hours_of(path, number, error);
	return text_or_null(number && json_enum_word(field->descriptor, (int)number, word) ? word : s->otherwise);
}

static bool put(json_t *change, const struct setting *s, const char *path, const ProtobufCMessage *message,
    struct reeve_error *error)
{
	char field[96];
	if (s->kind == SETTING_OWN)
		return s->put(change, message, error);
	snprintf(field, sizeof field, "%s%s%s", path, *path ? "." : "", s->field);
	json_t *value = value_of(s, field, message, error);
	return value && !json_object_set_new(change, s->column ? s->column : s->field, value);
}

bool setting_put(json_t *change, const struct setting *settings, const char *field, const char *path,
    const ProtobufCMessage *message, struct reeve_error *error)
{
	for (const struct setting *s = settings; s->field; s++)
		if (!strcmp(s->field, field))
			return put(change, s, path, message, error);
	return error_set(error, STATUS(INVALID_ARGUMENT), "fields has \"%.100s\"; there is no such setting", field);
}

bool settings_put_all(json_t *change, const struct setting *settings, const char *path, const ProtobufCMessage *message,
    struct reeve_error *error)
{
	for (const struct setting *s = settings; s->field; s++)
		if (field_is_set(message, field_named(message->descriptor, s->field)) && !put(change, s, path, message, error))
			return false;
	return true;
}
