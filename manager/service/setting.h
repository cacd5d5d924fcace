/* Settings: fields of a request that become new values of columns, in the JSON that a statement takes as @change. A
 * table has the rule for each field. Some requests name the fields to set in a list `fields`; others set all that they
 * give. */
#ifndef REEVE_MANAGER_SERVICE_SETTING_H
#define REEVE_MANAGER_SERVICE_SETTING_H

#include "common/error.h"

#include <jansson.h>
#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stdint.h>

enum setting_kind {
	SETTING_OWN,          /* `put` checks and puts it */
	SETTING_FLAG,         /* true or false */
	SETTING_NAME,         /* 1 to LIMIT_NAME_BYTES without control characters */
	SETTING_NAME_OR_NONE, /* the same, or empty: `otherwise`, or null */
	SETTING_NUMBER,       /* from `min` to `max` */
	SETTING_HOURS,        /* milliseconds up to `max`, whole hours; the column has hours, null for 0 */
	SETTING_WORD,         /* an enum from `min` to `max`: its value's name; for 0 `otherwise` */
};

struct setting {
	const char *field; /* NULL ends a table */
	enum setting_kind kind;
	const char *column; /* NULL: it has the field's name */
	int64_t min, max;
	const char *otherwise; /* the text for an empty name or the enum's 0; NULL: null */
	/* Checks a text that is not empty in place of the rule for names, such as a URL; or NULL. */
	bool (*check)(const char *field, const char *text, struct reeve_error *error);
	/* Of SETTING_OWN. */
	bool (*put)(json_t *change, const ProtobufCMessage *message, struct reeve_error *error);
};

/* Checks the number of a request's `fields`. */
bool settings_count_check(size_t count, struct reeve_error *error);

/* Puts the value of a field into `change`. `path` is the message's name in the request: "settings", or "" for the
 * request itself. Returns false with the problem in *error, which names the field. */
bool setting_put(json_t *change, const struct setting *settings, const char *field, const char *path,
    const ProtobufCMessage *message, struct reeve_error *error);

/* Puts all fields that are set. The others keep the defaults of the statement. */
bool settings_put_all(json_t *change, const struct setting *settings, const char *path, const ProtobufCMessage *message,
    struct reeve_error *error);

#endif
