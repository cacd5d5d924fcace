/*
 * Spans of tasks whose trace is sampled (a flag of their traceparent): the submit, each wait of a due task until its
 * claim, and each attempt from its claim to its end. The host can receive them (core_host.span).
 *
 * Only the manager that claimed an attempt knows its trace. Another manager that ends the attempt makes no span.
 */
#ifndef REEVE_MANAGER_CORE_SPANS_H
#define REEVE_MANAGER_CORE_SPANS_H

#include "manager/core/base.h"

struct routes;

struct spans;

struct spans *spans_create(struct base *base, struct routes *routes);
void spans_destroy(struct spans *spans);

/* Returns the place of a task's traceparent. */
const char **spans_traceparent(const struct spans *spans, struct store_task *task);

/* A task was created. */
void spans_submitted(struct spans *spans, const struct store_task *task, const struct store_created *created);

/* A task was claimed. `due_us`: since when it was due; 0: unknown. */
void spans_claimed(struct spans *spans, const struct store_claimed *claimed, int64_t due_us, int64_t incarnation);

/* An attempt has ended at this time. */
void spans_ended(struct spans *spans, const struct store_result *result, int64_t now_us);

#endif
