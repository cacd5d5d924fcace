/*
 * The manager's counters: for `reeve stats`, and for the metrics with the category "manager", which can be read in the
 * database and at any manager.
 */
#ifndef REEVE_MANAGER_SERVICE_COUNTERS_H
#define REEVE_MANAGER_SERVICE_COUNTERS_H

#include "manager/service/services.h"

enum { COUNTERS_MAX = 96, COUNTER_NAME_BYTES = 48 };

struct counter {
	char name[COUNTER_NAME_BYTES];
	int64_t value;
};

/* Reads all counters; returns their number. */
int counters_read(const struct services *services, struct counter counters[COUNTERS_MAX]);

struct counters_writer;

/* Creates the job "counters", which writes the counters to the database if they have changed. `services` must outlive
 * it. */
struct counters_writer *counters_writer_create(const struct services *services);

/* Frees it, after the store has been closed; NULL is allowed. */
void counters_writer_destroy(struct counters_writer *writer);

#endif
