/*
 * {"name": "…", "max_steps": 100, "stages": [{"name": "…", "type": "…", "next": "…", "max_attempts": 3, "timeout":
 * "30s", "backoff": "exp:1s:1h", "jitter": 10, "priority": 5}, …]}: the contract's Pipeline (common/json.h) with short
 * forms of a stage's `retry` and `priority`.
 */
#include "client/cmd/pipeline_file.h"

#include "client/cmd/json_input.h"
#include "common/clock.h"
#include "common/json.h"
#include "common/limits.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

enum { PREFIX_BYTES = 32 };

static bool needed(const json_t *object, const char *prefix, const char *name, struct reeve_error *error)
{
	return json_input_given(object, name) ||
	    error_set(error, STATUS(INVALID_ARGUMENT), "%s%s is missing", prefix, name);
}

/* Replaces backoff and jitter with the retry policy. */
static bool take_backoff(json_t *stage, const char *prefix, struct reeve_error *error)
{
	static const Reeve__V1__RetryPolicy none = REEVE__V1__RETRY_POLICY__INIT;
	bool given = json_input_given(stage, "backoff") || json_input_given(stage, "jitter");
	struct backoff backoff = {0};

	if (given && json_input_given(stage, "retry"))
		return error_set(error, STATUS(INVALID_ARGUMENT), "%sretry cannot be combined with backoff and jitter", prefix);
	if (!json_input_backoff(stage, prefix, &backoff, error))
		return false;
	backoff.policy.base = none.base;
	if (given)
		json_object_set_new(stage, "retry", json_from_message(&backoff.policy.base));
	return true;
}

static bool take_stage(json_t *stage, const char *prefix, struct reeve_error *error)
{
	const char *timeout = json_string_value(json_object_get(stage, "timeout"));
	const char *queue = json_string_value(json_object_get(stage, "queue"));
	json_int_t number = 0;
	int64_t ms;

	if (queue && !*queue) /* as `reeve pipeline show` writes one that is not set */
		json_object_del(stage, "queue");
	if (timeout && duration_parse(timeout, &ms) && ms == 0)
		return error_set(error, STATUS(INVALID_ARGUMENT), "%stimeout must be a duration above 0", prefix);
	if (!needed(stage, prefix, "name", error) || !needed(stage, prefix, "type", error) ||
	    !take_backoff(stage, prefix, error) ||
	    !json_input_number(stage, prefix, "max_attempts", 1, LIMIT_ATTEMPTS, &number, error))
		return false;
	if (json_is_object(json_object_get(stage, "priority")))
		return json_input_check(stage, prefix, error);
	if (!json_input_number(stage, prefix, "priority", -LIMIT_PRIORITY, LIMIT_PRIORITY, &number, error))
		return false;
	if (json_input_given(stage, "priority"))
		json_object_set_new(stage, "priority", json_pack("{sI}", "value", number));
	return json_input_check(stage, prefix, error);
}

static bool take_stages(json_t *stages, struct reeve_error *error)
{
	char prefix[PREFIX_BYTES];
	json_t *stage;
	size_t i;

	if (!json_is_array(stages) || json_array_size(stages) == 0)
		return error_set(error, STATUS(INVALID_ARGUMENT), "stages must be a list of stages, one at least");
	if (json_array_size(stages) > LIMIT_STAGES)
		return error_set(error, STATUS(INVALID_ARGUMENT), "stages has more than %d elements", LIMIT_STAGES);
	json_array_foreach (stages, i, stage) {
		snprintf(prefix, sizeof prefix, "stages[%zu].", i);
		if (json_is_object(stage) && !take_stage(stage, prefix, error))
			return false;
	}
	return true;
}

static bool take_pipeline(json_t *pipeline, struct reeve_error *error)
{
	json_int_t number;

	return needed(pipeline, "", "name", error) && needed(pipeline, "", "stages", error) &&
	    json_input_number(pipeline, "", "max_steps", 1, LIMIT_STEPS, &number, error) &&
	    json_input_check(pipeline, "", error) && take_stages(json_object_get(pipeline, "stages"), error);
}

Reeve__V1__Pipeline *pipeline_file_read(const char *path, struct reeve_error *error)
{
	Reeve__V1__Pipeline *pipeline = NULL;
	json_error_t problem;
	json_t *json = strcmp(path, "-") ? json_load_file(path, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &problem)
	                                 : json_loadf(stdin, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &problem);

	if (!json && problem.line < 0)
		error_set(error, STATUS(INVALID_ARGUMENT), "%s", problem.text);
	else if (!json)
		error_set(error, STATUS(INVALID_ARGUMENT), "is not JSON: %s (line %d)", problem.text, problem.line);
	else if (!json_is_object(json))
		error_set(error, STATUS(INVALID_ARGUMENT), "must be a JSON object");
	else if (take_pipeline(json, error))
		pipeline = (Reeve__V1__Pipeline *)json_to_message(json, &reeve__v1__pipeline__descriptor, error);
	json_decref(json);
	return pipeline;
}
