/* Schedules as calls give them, checked and put as the table keeps them; and as the store answers them, made into
 * messages. */
#ifndef REEVE_MANAGER_SERVICE_SCHEDULE_MESSAGE_H
#define REEVE_MANAGER_SERVICE_SCHEDULE_MESSAGE_H

#include "common/error.h"
#include "manager/store/store.h"

#include <reeve/v1/schedule.pb-c.h>

/* What the function schedule_changed takes for a definition to add. To be freed; NULL: *error names the field that is
 * wrong. */
char *schedule_addition(const Reeve__V1__Schedule *schedule, int64_t max_details_bytes, struct reeve_error *error);

/* The same for an edit of these fields. */
char *schedule_change(const Reeve__V1__Schedule *schedule, char *const *fields, size_t count, int64_t max_details_bytes,
    struct reeve_error *error);

/* Make messages with all that they lead to on the heap, for the ..._free_unpacked of the response that they are put
 * into. */
Reeve__V1__Schedule *schedule_message(const struct store_schedule *schedule);
Reeve__V1__ScheduleRun *schedule_run_message(const struct store_schedule_run *run);

#endif
