/* Submitting: routes first, then the store, then the window. */
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
};

struct submits *submits_create(struct base *base, const struct submits_neighbours *neighbours);
void submits_destroy(struct submits *submits);

/* `made` has one element a task, in order, and lives during the callback. */
typedef void submit_done(void *arg, const struct store_made *made, const struct reeve_error *error);

/* Makes tasks, all or none. `tasks` (their routes are filled in here) and what it leads to must live until `done`. The
 * request id is 16 bytes of a version 7 UUID: older than a day or far in the future, it is refused. `origin`: see store_op. */
void submit_tasks(struct submits *submits, const uint8_t *request_id, struct store_task *tasks, int count,
    int64_t deadline_ms, uint64_t origin, submit_done *done, void *arg);

/* Whether a request id's time is one that can be told apart from a repeated call. */
bool request_id_timely(const struct db_clock *clock, const uint8_t *request_id, struct reeve_error *error);

#endif
