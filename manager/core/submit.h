/* Submits tasks: first creates missing routes, then commits the tasks, then informs the ready cache. */
#ifndef REEVE_MANAGER_CORE_SUBMIT_H
#define REEVE_MANAGER_CORE_SUBMIT_H

#include "manager/core/base.h"

struct db_clock;
struct queues;
struct routes;
struct submits;
struct task_events;
struct verbose;

struct submits_neighbours {
	struct queues *queues;
	struct routes *routes;
	struct task_events *events;
	const struct verbose *verbose;
	struct spans *spans;
};

struct submits *submits_create(struct base *base, const struct submits_neighbours *neighbours);
void submits_destroy(struct submits *submits);

/* `created` has one element for each task, in order, and is valid during the callback. */
typedef void submit_done(void *arg, const struct store_created *created, const struct reeve_error *error);

/* Creates tasks, all or none. `tasks`, whose routes this function fills in, and all they point to must live until
 * `done`. The request id is the 16 bytes of a UUID of version 7; an id that is older than a day or more than an hour in
 * the future is refused. `origin`: see store_op. */
void submit_tasks(struct submits *submits, const uint8_t *request_id, struct store_task *tasks, int count,
    int64_t deadline_ms, uint64_t origin, submit_done *done, void *arg);

/* Returns whether a request id is recent enough for a repeated call to be recognized. Else sets *error and returns
 * false. */
bool request_id_timely(const struct db_clock *clock, const uint8_t *request_id, struct reeve_error *error);

#endif
