/* Lines in the log on each step of the tasks of queues that are verbose, or with --log-tasks of all. */
#ifndef REEVE_MANAGER_CORE_VERBOSE_H
#define REEVE_MANAGER_CORE_VERBOSE_H

#include "manager/core/base.h"

struct db_clock;
struct queues;
struct routes;
struct verbose;

struct verbose *verbose_create(const struct base *base, const struct db_clock *clock, struct routes *routes, struct queues *queues);
void verbose_destroy(struct verbose *verbose);

/* Writes "task ID of queue NAME: …", if the queue of this route is verbose; route 0: nobody knows. */
void verbose_say(const struct verbose *verbose, int route, int64_t task, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* What became of an attempt; of its result, error and remark the first 200 bytes. */
void verbose_result(const struct verbose *verbose, const struct store_result *result);

#endif
