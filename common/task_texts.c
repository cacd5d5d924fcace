/* See task_texts.h. */
#include "common/task_texts.h"

#include "common/text.h"

#include <stddef.h>

static const char *name_or_none(const char *text)
{
	return name_problem(text, true);
}

static const struct {
	const char *field;
	size_t offset;
	const char *(*problem)(const char *text);
} texts[] = {
    {"pipeline", offsetof(Reeve__V1__TaskSpec, pipeline), name_or_none},
    {"type", offsetof(Reeve__V1__TaskSpec, type), name_or_none},
    {"queue", offsetof(Reeve__V1__TaskSpec, queue), name_or_none},
    {"key", offsetof(Reeve__V1__TaskSpec, key), name_or_none},
    {"source", offsetof(Reeve__V1__TaskSpec, source), name_or_none},
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
