/*
 * Ending tasks of whole queues: purges, and stops. A stop is a state in the database with the newest task's id at that time,
 * and every manager goes on with it, chunk by chunk, until nothing up to that id is left: whichever dies, another does.
 */
#ifndef REEVE_MANAGER_CORE_QUEUE_ENDS_H
#define REEVE_MANAGER_CORE_QUEUE_ENDS_H

#include "manager/core/core.h"

struct queue_stops *queue_stops_create(struct core *core);
void queue_stops_destroy(struct queue_stops *stops);

/* A queue has just been told to stop. */
void queue_stops_look(struct queue_stops *stops);

/* Goes on with stops. Returns when to be called again. */
int64_t queue_stops_turn(struct queue_stops *stops, int64_t now_ms);

/* Cancels what waits in a queue, up to a task's id. `done` is told how many that were, with an error too. */
typedef void queue_purged(void *arg, int64_t tasks, const struct reeve_error *error);
void queue_purge(struct core *core, const char *queue, int64_t up_to, const char *actor, int64_t deadline_ms,
    queue_purged *done, void *arg);

#endif
