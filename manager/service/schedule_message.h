/* Schedules: checks of messages, conversion of messages to JSON for the database, and of rows to messages. */
#ifndef REEVE_MANAGER_SERVICE_SCHEDULE_MESSAGE_H
#define REEVE_MANAGER_SERVICE_SCHEDULE_MESSAGE_H

#include "common/error.h"
#include "manager/store/store.h"

#include <reeve/v1/schedule.pb-c.h>

/* Returns the argument of the SQL function schedule_changed for a new schedule. The caller frees it. NULL: *error names
 * the invalid field. */
char *schedule_addition(const Reeve__V1__Schedule *schedule, int64_t max_details_bytes, struct reeve_error *error);

/* Like schedule_addition, for an edit of these fields. */
char *schedule_change(const Reeve__V1__Schedule *schedule, const char *const *fields, size_t count, int64_t max_details_bytes,
    struct reeve_error *error);

/* Create messages with everything they point to on the heap. The ..._free_unpacked of the response that has them frees
 * them. */
Reeve__V1__Schedule *schedule_message(const struct store_schedule *schedule);
Reeve__V1__ScheduleRun *schedule_run_message(const struct store_schedule_run *run);

#endif
