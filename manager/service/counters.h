/*
 * The manager's own counters: as `reeve stats` shows them, and as they are kept among the metrics, in the category "manager",
 * so that they can be read from the database and at any manager.
 */
#ifndef REEVE_MANAGER_SERVICE_COUNTERS_H
#define REEVE_MANAGER_SERVICE_COUNTERS_H

#include "manager/service/services.h"

enum { COUNTERS_MOST = 96, COUNTER_NAME_BYTES = 48 };

struct counter {
	char name[COUNTER_NAME_BYTES];
	int64_t value;
};

/* Reads them all; returns how many there are. */
int counters_read(const struct services *services, struct counter counters[COUNTERS_MOST]);

struct counters_writer;

/* The job "counters": writes them to the database if they have changed. `services` must outlive it. */
struct counters_writer *counters_writer_create(const struct services *services);

/* After the store has been closed; NULL is allowed. */
void counters_writer_destroy(struct counters_writer *writer);

#endif
