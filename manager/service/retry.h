/* Conversion of retry policies to table columns. (The function retry_shown does the opposite.) */
#ifndef REEVE_MANAGER_SERVICE_RETRY_H
#define REEVE_MANAGER_SERVICE_RETRY_H

#include <jansson.h>
#include <reeve/v1/task.pb-c.h>

/* Returns the column retry_policy: JSON, which the caller frees, or NULL if base and maximum are all there is to
 * store. */
char *retry_json(const Reeve__V1__RetryPolicy *policy);

/* Return the policy's base and maximum delay in ms, or the default where it has none. The base may be 0 for kinds
 * linear and list. */
int64_t retry_base_ms(const Reeve__V1__RetryPolicy *policy);
int64_t retry_max_ms(const Reeve__V1__RetryPolicy *policy);

/* Puts the columns retry_base_ms, retry_max_ms and retry_policy of a policy; without one (NULL) all are null. */
void retry_put(json_t *columns, const Reeve__V1__RetryPolicy *policy);

#endif
