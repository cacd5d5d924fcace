/* What progress.c does for reports. */
#ifndef REEVE_MANAGER_STORE_PROGRESS_H
#define REEVE_MANAGER_STORE_PROGRESS_H

#include "manager/store/ops_attempts.h"
#include "manager/store/params.h"

/* Adds the parameters of progress_keep.sql; interval_ms: the shortest time between two writes of an attempt. */
void progress_add(struct params *p, const struct store_attempt_progress *const *all, int n, int32_t interval_ms);

/* Returns about how many bytes the statement has for the attempt. */
size_t store_progress_bytes(const struct store_attempt_progress *progress);

#endif
