/*
 * {"name": "…", "max_steps": 100, "stages": [{"name": "…", "type": "…", "next": "…", "max_attempts": 3, "timeout": "30s",
 * "backoff": "exp:1s:1h", "jitter": 10, "priority": 5}, …]}. A table for each object maps its fields; null counts as
 * left out.
 */
#include "client/cmd/pipeline_file.h"

#include "client/cmd/backoff.h"
#include "common/clock.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STAGES_MAX = 100, PREFIX_BYTES = 32 };

struct stage_text {
	struct backoff backoff;
	Reeve__V1__NewPriority priority;
	const char *growth; /* as in the file; NULL: not set */
	json_int_t jitter;  /* −1: not set */
};

struct pipeline_file {
	Reeve__V1__Pipeline pipeline;
	json_t *json;
	Reeve__V1__PipelineStage stages[STAGES_MAX], *list[STAGES_MAX];
	struct stage_text texts[STAGES_MAX];
};

/* The destination of a value: the file's pipeline, or one of its stages. */
struct place {
	struct pipeline_file *file;
	int stage;
};

static const char *read_name(const json_t *value, const char **text)
{
	*text = json_string_value(value);
	if (!*text)
		return "must be a text";
	if (strlen(*text) != json_string_length(value))
		return "holds a NUL byte";
	return **text ? NULL : "is empty";
}

static const char *read_whole(const json_t *value, json_int_t low, json_int_t high, const char *otherwise, json_int_t *number)
{
	*number = json_integer_value(value);
	return json_is_integer(value) && *number >= low && *number <= high ? NULL : otherwise;
}

static Reeve__V1__PipelineStage *stage_of(const struct place *place)
{
	return &place->file->stages[place->stage];
}

static const char *take_stage_name(const struct place *place, const json_t *value)
{
	return read_name(value, &stage_of(place)->name);
}

static const char *take_type(const struct place *place, const json_t *value)
{
	return read_name(value, &stage_of(place)->type);
}

static const char *take_next(const struct place *place, const json_t *value)
{
	return read_name(value, &stage_of(place)->next);
}

static const char *take_max_attempts(const struct place *place, const json_t *value)
{
	json_int_t number;
	const char *problem = read_whole(value, 1, 10000, "must be a whole number from 1 to 10000", &number);

	stage_of(place)->max_attempts = (uint32_t)number;
	return problem;
}

static const char *take_timeout(const struct place *place, const json_t *value)
{
	const char *text = json_string_value(value);

	if (text && duration_parse(text, &stage_of(place)->timeout_ms) && stage_of(place)->timeout_ms > 0)
		return NULL;
	return "must be a duration like \"250ms\", \"5s\" or \"1m30s\"";
}

static const char *take_backoff(const struct place *place, const json_t *value)
{
	return read_name(value, &place->file->texts[place->stage].growth);
}

static const char *take_jitter(const struct place *place, const json_t *value)
{
	return read_whole(value, 0, 100, "must be a whole number from 0 to 100", &place->file->texts[place->stage].jitter);
}

static const char *take_priority(const struct place *place, const json_t *value)
{
	json_int_t number;
	const char *problem =
	    read_whole(value, -1000000, 1000000, "must be a whole number from -1000000 to 1000000", &number);

	place->file->texts[place->stage].priority.value = (int32_t)number;
	stage_of(place)->priority = &place->file->texts[place->stage].priority;
	return problem;
}

static const char *take_name(const struct place *place, const json_t *value)
{
	return read_name(value, &place->file->pipeline.name);
}

static const char *take_max_steps(const struct place *place, const json_t *value)
{
	json_int_t number;
	const char *problem = read_whole(value, 1, 10000, "must be a whole number from 1 to 10000", &number);

	place->file->pipeline.max_steps = (uint32_t)number;
	return problem;
}

static const char *take_stages(const struct place *place, const json_t *value)
{
	(void)place;
	if (!json_is_array(value) || json_array_size(value) == 0)
		return "must be a list of stages, one at least";
	return json_array_size(value) > STAGES_MAX ? "has more than 100 elements" : NULL;
}

struct field {
	const char *name;
	bool needed;
	const char *(*take)(const struct place *place, const json_t *value); /* returns NULL, or what is wrong */
};

static const struct field stage_fields[] = {
    {"name", true, take_stage_name},
    {"type", true, take_type},
    {"next", false, take_next},
    {"max_attempts", false, take_max_attempts},
    {"timeout", false, take_timeout},
    {"backoff", false, take_backoff},
    {"jitter", false, take_jitter},
    {"priority", false, take_priority},
    {NULL},
};

static const struct field pipeline_fields[] = {
    {"name", true, take_name},
    {"max_steps", false, take_max_steps},
    {"stages", true, take_stages},
    {NULL},
};

static bool refuse(struct reeve_error *error, const char *prefix, const char *name, const char *problem)
{
	return error_set(error, STATUS(INVALID_ARGUMENT), "%s%.100s %s", prefix, name, problem);
}

static bool read_object(const struct place *place, const char *prefix, const json_t *object, const struct field *fields,
    struct reeve_error *error)
{
	const char *name;
	json_t *value;

	json_object_foreach((json_t *)object, name, value) {
		const struct field *field = fields;
		const char *problem;

		while (field->name && strcmp(field->name, name) != 0)
			field++;
		if (!field->name)
			return refuse(error, prefix, name, fields == stage_fields ? "is not a field of a stage" : "is not a field of a pipeline");
		problem = json_is_null(value) ? NULL : field->take(place, value);
		if (problem)
			return refuse(error, prefix, name, problem);
	}
	for (const struct field *field = fields; field->name; field++) {
		value = json_object_get(object, field->name);
		if (field->needed && (!value || json_is_null(value)))
			return refuse(error, prefix, field->name, "is missing");
	}
	return true;
}

/* Sets the retry policy from backoff and jitter. */
static bool read_growth(const struct place *place, const char *prefix, struct reeve_error *error)
{
	struct stage_text *text = &place->file->texts[place->stage];
	Reeve__V1__RetryPolicy *policy = &text->backoff.policy;
	struct reeve_error wrong;

	if (!text->growth && text->jitter < 0)
		return true;
	if (text->growth && !backoff_parse(&text->backoff, text->growth, text->jitter, &wrong))
		return refuse(error, prefix, "backoff:", wrong.message);
	if (!text->growth)
		policy->jitter_percent = text->jitter ? (int32_t)text->jitter : -1;
	stage_of(place)->retry = policy;
	return true;
}

static bool read_stages(struct pipeline_file *file, struct reeve_error *error)
{
	const json_t *stages = json_object_get(file->json, "stages");

	for (int i = 0; i < (int)json_array_size(stages); i++) {
		const json_t *stage = json_array_get(stages, (size_t)i);
		struct place place = {file, i};
		char prefix[PREFIX_BYTES];

		file->texts[i].jitter = -1;
		snprintf(prefix, sizeof prefix, "stages[%d]", i);
		if (!json_is_object(stage))
			return refuse(error, prefix, "", "must be an object");
		snprintf(prefix, sizeof prefix, "stages[%d].", i);
		if (!read_object(&place, prefix, stage, stage_fields, error) || !read_growth(&place, prefix, error))
			return false;
		file->list[file->pipeline.n_stages++] = &file->stages[i];
	}
	file->pipeline.stages = file->list;
	return true;
}

static bool read_file(struct pipeline_file *file, const char *path, struct reeve_error *error)
{
	json_error_t problem;

	file->json = strcmp(path, "-") ? json_load_file(path, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &problem)
	                               : json_loadf(stdin, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &problem);
	if (!file->json && problem.line < 0)
		return error_set(error, STATUS(INVALID_ARGUMENT), "%s", problem.text);
	if (!file->json)
		return error_set(error, STATUS(INVALID_ARGUMENT), "is not JSON: %s (line %d)", problem.text, problem.line);
	if (!json_is_object(file->json))
		return error_set(error, STATUS(INVALID_ARGUMENT), "must be a JSON object");
	return read_object(&(struct place){file, 0}, "", file->json, pipeline_fields, error) && read_stages(file, error);
}

struct pipeline_file *pipeline_file_read(const char *path, struct reeve_error *error)
{
	struct pipeline_file *file = calloc(1, sizeof *file);

	if (!file)
		abort();
	if (read_file(file, path, error))
		return file;
	pipeline_file_free(file);
	return NULL;
}

void pipeline_file_free(struct pipeline_file *file)
{
	if (!file)
		return;
	json_decref(file->json);
	free(file);
}

Reeve__V1__Pipeline *pipeline_file_pipeline(struct pipeline_file *file)
{
	return &file->pipeline;
}
