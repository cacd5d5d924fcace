/* Memory: where there is none the manager ends, and what is not needed any more goes back to the system. */
#ifndef REEVE_MANAGER_MEMORY_H
#define REEVE_MANAGER_MEMORY_H

#include "manager/jobs/jobs.h"

/* Has libevent and jansson end the process where there is no memory, as the manager's own allocations do (common/mem.h). Before
 * anything of them is used. */
void memory_setup(void);

/* Has large blocks go back to the system as soon as they are freed; the job "memory" looks whether many small ones can. */
void memory_watch(struct jobs *jobs);

#endif
