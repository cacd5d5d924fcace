/* sql/tables/pipelines.sql describes the JSON of the column `stages`. */
#include "manager/service/pipeline.h"

#include "common/check_task.h"
#include "common/limits.h"
#include "manager/service/check.h"
#include "manager/service/retry.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef Reeve__V1__Pipeline pipeline_t;
typedef Reeve__V1__PipelineStage stage_t;

static int stage_find(const pipeline_t *p, const char *name)
{
	for (size_t i = 0; i < p->n_stages; i++)
		if (!strcmp(p->stages[i]->name, name))
			return (int)i;
	return -1;
}

/* Returns the stage that follows if the handler does not choose one; −1: none. */
static int stage_next(const pipeline_t *p, int stage)
{
	const char *next = p->stages[stage]->next;
	if (!*next)
		return stage + 1 < (int)p->n_stages ? stage + 1 : -1;
	return strcmp(next, STAGE_END) ? stage_find(p, next) : -1;
}

/* --- checks ------------------------------------------------------------------------------------------------------ */

static const char *part(char path[64], int stage, const char *field)
{
	snprintf(path, 64, "stages[%d].%s", stage, field);
	return path;
}

static bool check_stage(const pipeline_t *p, int i, struct reeve_error *error)
{
	const stage_t *s = p->stages[i];
	char path[64];
	if (!check_name(part(path, i, "name"), s->name, false, error) ||
	    !check_name(part(path, i, "type"), s->type, false, error) ||
	    !check_name(part(path, i, "next"), s->next, true, error) ||
	    !check_name(part(path, i, "queue"), s->queue, true, error) ||
	    !check_range(part(path, i, "max_attempts"), s->max_attempts, 0, LIMIT_ATTEMPTS, error) ||
	    !check_range(part(path, i, "timeout_ms"), s->timeout_ms, 0, DAYS_MS(LIMIT_TIMEOUT_DAYS), error) ||
	    (s->priority &&
	        !check_range(part(path, i, "priority"), s->priority->value, -LIMIT_PRIORITY, LIMIT_PRIORITY, error)) ||
	    (s->retry && !check_retry(part(path, i, "retry"), s->retry, error)))
		return false;
	if (!strcmp(s->name, STAGE_END))
		return error_set(error, STATUS(INVALID_ARGUMENT),
		    "stages[%d].name is \"" STAGE_END "\", the word by which handlers end a pipeline", i);
	int first = stage_find(p, s->name);
	if (first != i)
		return error_set(
		    error, STATUS(INVALID_ARGUMENT), "stages[%d].name is \"%s\", as that of stages[%d] is", i, s->name, first);
	if (*s->next && strcmp(s->next, STAGE_END) && stage_find(p, s->next) < 0)
		return error_set(
		    error, STATUS(INVALID_ARGUMENT), "stages[%d].next is \"%s\"; there is no such stage", i, s->next);
	return true;
}

/* Sets the error for a path that returns to `stage`. */
static bool goes_round(const pipeline_t *p, int stage, struct reeve_error *error)
{
	char way[300] = "";
	size_t length = 0;
	int at = stage;
	do {
		length += (size_t)snprintf(way + length, sizeof way - length, "%s → ", p->stages[at]->name);
		at = stage_next(p, at);
	} while (at != stage && length < sizeof way);
	if (length >= sizeof way) /* long or many names: the error names only the first stage */
		return error_set(error, STATUS(INVALID_ARGUMENT),
		    "stages[%d].next: what follows \"%s\" leads back to it: an endless loop", stage, p->stages[stage]->name);
	return error_set(error, STATUS(INVALID_ARGUMENT), "stages[%d].next: %s%s is an endless loop", stage, way,
	    p->stages[stage]->name);
}

/* Checks for cycles: follows the single successors from each stage on, for as many steps as there are stages. */
static bool check_ways(const pipeline_t *p, struct reeve_error *error)
{
	for (int i = 0; i < (int)p->n_stages; i++) {
		int at = i;
		for (size_t n = 0; n < p->n_stages && at >= 0; n++) {
			at = stage_next(p, at);
			if (at == i)
				return goes_round(p, i, error);
		}
	}
	return true;
}

bool pipeline_check(const pipeline_t *p, struct reeve_error *error)
{
	if (!check_name("name", p->name, false, error) || !check_range("max_steps", p->max_steps, 0, LIMIT_STEPS, error))
		return false;
	if (p->n_stages == 0 || p->n_stages > LIMIT_STAGES)
		return error_set(error, STATUS(INVALID_ARGUMENT), "stages has %zu elements; from 1 to %d are allowed",
		    p->n_stages, LIMIT_STAGES);
	for (int i = 0; i < (int)p->n_stages; i++)
		if (!check_stage(p, i, error))
			return false;
	return check_ways(p, error);
}

/* --- conversion -------------------------------------------------------------------------------------------------- */

static json_t *stage_json(const pipeline_t *p, int i)
{
	const stage_t *s = p->stages[i];
	int next = stage_next(p, i);
	json_t *json = json_pack("{ss ss si sI sI sI}", "name", s->name, "type", s->type, "max_attempts",
	    s->max_attempts ? (int)s->max_attempts : DEFAULT_ATTEMPTS, "timeout_ms",
	    (json_int_t)(s->timeout_ms ? s->timeout_ms : DEFAULT_TIMEOUT_MS), "retry_base_ms",
	    (json_int_t)(s->retry ? retry_base_ms(s->retry) : DEFAULT_RETRY_BASE_MS), "retry_max_ms",
	    (json_int_t)(s->retry ? retry_max_ms(s->retry) : DEFAULT_RETRY_MAX_MS));
	char *policy = s->retry ? retry_json(s->retry) : NULL;
	if (policy)
		json_object_set_new(json, "retry_policy", json_loads(policy, 0, NULL));
	if (next >= 0)
		json_object_set_new(json, "next", json_string(p->stages[next]->name));
	if (*s->queue)
		json_object_set_new(json, "queue", json_string(s->queue));
	if (s->priority)
		json_object_set_new(json, "priority", json_integer(s->priority->value));
	free(policy);
	return json;
}

char *pipeline_stages_json(const pipeline_t *p)
{
	json_t *stages = json_array();
	for (int i = 0; i < (int)p->n_stages; i++)
		json_array_append_new(stages, stage_json(p, i));
	char *text = json_dumps(stages, JSON_COMPACT);
	json_decref(stages);
	return text;
}
