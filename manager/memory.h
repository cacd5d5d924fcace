/* Memory: the manager aborts if an allocation fails, and returns unused memory to the system. */
#ifndef REEVE_MANAGER_MEMORY_H
#define REEVE_MANAGER_MEMORY_H

#include "manager/jobs/jobs.h"

/* Makes libevent and jansson abort the process if an allocation fails, as the manager's own allocations do
 * (common/mem.h). Call it before any use of these libraries. */
void memory_setup(void);

/* Returns large blocks to the system as soon as they are freed. Binds the job "memory", which returns the memory of
 * small blocks when much of it is free. */
void memory_watch(struct jobs *jobs);

#endif
