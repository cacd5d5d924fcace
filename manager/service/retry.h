/* Retry policies, as calls give them and as the tables keep them. */
#ifndef REEVE_MANAGER_SERVICE_RETRY_H
#define REEVE_MANAGER_SERVICE_RETRY_H

#include "common/error.h"

#include <reeve/v1/task.pb-c.h>

/* Whether a policy's numbers are in their ranges and belong to its kind. `field` is "tasks[3].retry". */
bool retry_check(const char *field, const Reeve__V1__RetryPolicy *policy, struct reeve_error *error);

/* What the column retry_policy keeps of it: JSON, to be freed; NULL where nothing is to be kept beside base and cap. */
char *retry_json(const Reeve__V1__RetryPolicy *policy);

/* The policy's base and cap in ms; 0: not given, and needed. */
int64_t retry_base_ms(const Reeve__V1__RetryPolicy *policy);
int64_t retry_max_ms(const Reeve__V1__RetryPolicy *policy);

/* Fills a policy (whose delays are to be freed) from what the tables keep. */
void retry_fill(Reeve__V1__RetryPolicy *policy, const char *json, int64_t base_ms, int64_t max_ms);

#endif
