/*
 * Ends all tasks of queues: purges and stops. A stop is a state in the database, with the id of the newest task at that
 * time. Every manager continues it, chunk by chunk, until no task up to that id is left. So a stop completes even if a
 * manager dies.
 */
#ifndef REEVE_MANAGER_CORE_QUEUE_ENDS_H
#define REEVE_MANAGER_CORE_QUEUE_ENDS_H

#include "manager/core/base.h"

struct edits;
struct queue_stops;
struct queues;

struct queue_stops *queue_stops_create(struct base *base, struct queues *queues, struct edits *edits);
void queue_stops_destroy(struct queue_stops *stops);

/* Starts the job at once. Called when a queue has got the command to stop. */
void queue_stops_poll(struct queue_stops *stops);

/* Cancels the waiting tasks of a queue, up to a task's id. `done` gets the number of cancelled tasks, also with an
 * error. */
typedef void queue_purged(void *arg, int64_t tasks, const struct reeve_error *error);
void queue_purge(struct queue_stops *stops, const char *queue, int64_t up_to, const char *actor, int64_t deadline_ms,
    queue_purged *done, void *arg);

#endif
