/* JSON as people write it, before the reader of messages (common/json.h) gets it: short forms, and what it would take
 * as left out. Errors name the field after `prefix`, "stages[3]." or "". */
#ifndef REEVE_CLIENT_JSON_INPUT_H
#define REEVE_CLIENT_JSON_INPUT_H

#include "client/cmd/backoff.h"
#include "common/error.h"

#include <jansson.h>

/* Returns true if an object has a member that is not null. */
bool json_input_given(const json_t *object, const char *name);

/* Reads a whole number, which is left as it is if it is not given. */
bool json_input_number(const json_t *object, const char *prefix, const char *name, json_int_t low, json_int_t high,
    json_int_t *number, struct reeve_error *error);

/* Takes the members "backoff" ("linear:5s:3s") and "jitter" (a percentage) out of an object. */
bool json_input_backoff(json_t *object, const char *prefix, struct backoff *backoff, struct reeve_error *error);

/* Refuses empty texts, apart from details, and numbers below 0, apart from priorities. */
bool json_input_check(const json_t *object, const char *prefix, struct reeve_error *error);

#endif
