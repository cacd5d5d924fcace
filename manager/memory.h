/* Memory that is not needed any more goes back to the system. */
#ifndef REEVE_MANAGER_MEMORY_H
#define REEVE_MANAGER_MEMORY_H

#include <event2/event.h>

/* Has large blocks go back to the system as soon as they are freed, and looks now and then whether many small ones can. The
 * event is the caller's to free. */
struct event *memory_watch(struct event_base *base);

#endif
