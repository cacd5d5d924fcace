/*
 * Ending tasks of whole queues: purges, and stops. A stop is a state in the database with the newest task's id at that time,
 * and every manager goes on with it, chunk by chunk, until nothing up to that id is left: whichever dies, another does.
 */
#ifndef REEVE_MANAGER_CORE_QUEUE_ENDS_H
#define REEVE_MANAGER_CORE_QUEUE_ENDS_H

#include "manager/core/base.h"

struct edits;
struct queue_stops;
struct queues;

struct queue_stops *queue_stops_create(struct base *base, struct queues *queues, struct edits *edits);
void queue_stops_destroy(struct queue_stops *stops);

/* A queue has just been told to stop. */
void queue_stops_look(struct queue_stops *stops);

/* Cancels what waits in a queue, up to a task's id. `done` is told how many that were, with an error too. */
typedef void queue_purged(void *arg, int64_t tasks, const struct reeve_error *error);
void queue_purge(struct queue_stops *stops, const char *queue, int64_t up_to, const char *actor, int64_t deadline_ms,
    queue_purged *done, void *arg);

#endif
