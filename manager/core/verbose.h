/* Logs each step of tasks: of verbose queues, or of all queues with --log-tasks. */
#ifndef REEVE_MANAGER_CORE_VERBOSE_H
#define REEVE_MANAGER_CORE_VERBOSE_H

#include "manager/core/base.h"

struct db_clock;
struct queues;
struct routes;
struct verbose;

struct verbose *verbose_create(
    const struct base *base, const struct db_clock *clock, struct routes *routes, struct queues *queues);
void verbose_destroy(struct verbose *verbose);

/* Logs "queue NAME: task ID (TYPE): …" if the queue of this route is verbose. Does nothing for route 0 (unknown). */
void verbose_log(const struct verbose *verbose, int route, int64_t task, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Logs the end of a worker, if all tasks or those of any queue are logged. */
void verbose_worker_ended(const struct verbose *verbose, int64_t incarnation);

/* Logs the outcome of an attempt, with up to 200 bytes each of its result, error and remark, and the resting period
 * that follows. */
void verbose_result(const struct verbose *verbose, const struct store_result *result);

#endif
