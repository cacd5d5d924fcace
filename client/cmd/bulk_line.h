/* One line of a bulk file: a task as a JSON object, or its details. */
#ifndef REEVE_CLIENT_BULK_LINE_H
#define REEVE_CLIENT_BULK_LINE_H

#include "client/cmd/backoff.h"
#include "common/error.h"

#include <reeve/client.h>

struct bulk_task {
	Reeve__V1__TaskSpec spec; /* points into the members below, or into the defaults */
	Reeve__V1__TaskSpec *own; /* what the line says */
	struct backoff backoff;   /* the line's own, or the defaults' policy with what the line changes */
};

/* Parses a line, which is a task, or only its details (`bare`). Fields that it leaves out are as in `defaults`. Call
 * bulk_task_free() afterwards in any case; until then the task must not be moved. Returns false with *error set, naming
 * the field, if the line is invalid. */
bool bulk_task_read(struct bulk_task *task, const char *line, size_t length, bool bare,
    const Reeve__V1__TaskSpec *defaults, struct reeve_error *error);

void bulk_task_free(struct bulk_task *task);

#endif
