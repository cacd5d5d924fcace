/* See task_texts.h. */
#include "common/task_texts.h"

#include "common/text.h"

#include <stddef.h>
#include <string.h>

static const char *name_or_none(const char *text)
{
	return name_problem(text, true);
}

static bool is_hex(const char *text, size_t length)
{
	return strspn(text, "0123456789abcdef") >= length;
}

static bool is_zero(const char *text, size_t length)
{
	return strspn(text, "0") >= length;
}

/* A later version than 00 may go on after the flags. */
const char *task_traceparent_problem(const char *text)
{
	const char *trace = text + 3, *parent = trace + 33, *flags = parent + 17, *end = flags + 2;
	size_t length = strlen(text);
	bool well = length >= 55 && is_hex(text, 2) && trace[-1] == '-' && is_hex(trace, 32) && parent[-1] == '-' &&
	    is_hex(parent, 16) && flags[-1] == '-' && is_hex(flags, 2) && (!*end || (*end == '-' && !is_zero(text, 2)));

	if (!well || strncmp(text, "ff", 2) == 0)
		return "is not a W3C traceparent: version-traceid-parentid-flags in lower case hexadecimal digits";
	if (is_zero(trace, 32) || is_zero(parent, 16))
		return "has a trace id or parent id of zeros, which W3C declares invalid";
	return name_problem(text, true);
}

static const struct {
	const char *field;
	size_t offset;
	const char *(*problem)(const char *text);
} texts[] = {
    {"pipeline", offsetof(Reeve__V1__TaskSpec, pipeline), name_or_none},
    {"stage", offsetof(Reeve__V1__TaskSpec, stage), name_or_none},
    {"type", offsetof(Reeve__V1__TaskSpec, type), name_or_none},
    {"queue", offsetof(Reeve__V1__TaskSpec, queue), name_or_none},
    {"key", offsetof(Reeve__V1__TaskSpec, key), name_or_none},
    {"source", offsetof(Reeve__V1__TaskSpec, source), name_or_none},
    {"traceparent", offsetof(Reeve__V1__TaskSpec, traceparent), task_traceparent_problem},
};

const char *task_text_problem(const Reeve__V1__TaskSpec *task, const char **field)
{
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		const char *text = *(const char *const *)((const char *)task + texts[i].offset);
		const char *problem = text_given(text) ? texts[i].problem(text) : NULL;
		*field = texts[i].field;
		if (problem)
			return problem;
	}
	*field = "type";
	return text_given(task->type) || text_given(task->pipeline) ? NULL : "is empty";
}
