/* One line of a bulk file: a task as a JSON object. */
#ifndef REEVE_CLIENT_BULK_LINE_H
#define REEVE_CLIENT_BULK_LINE_H

#include "client/cmd/backoff.h"
#include "common/error.h"

#include <jansson.h>
#include <reeve/client.h>

struct bulk_task {
	struct reeve_task_spec spec; /* what it points to is held by those below, or by the defaults */
	json_t *object;
	char *details; /* written from JSON that is no text */
	struct backoff backoff; /* the line's own */
	int32_t jitter_percent; /* likewise, as in the policy */
};

/* Reads a line. What it leaves out is as in `defaults`. Afterwards bulk_task_free(), in any case; until then it must not
 * move. False: *error says what is wrong, naming the field. */
bool bulk_task_read(struct bulk_task *task, const char *line, size_t length, const struct reeve_task_spec *defaults,
    struct reeve_error *error);

void bulk_task_free(struct bulk_task *task);

#endif
