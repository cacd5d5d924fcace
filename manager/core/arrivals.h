/*
 * Tasks that were submitted by SQL in an application's transaction and could not be made whole there, because that would have
 * kept others waiting until it commits: they have no route yet, or are to be counted into a batch. They wait in the table
 * `arrivals`, and are admitted right after the commit by whichever manager comes to them first, each once. A notification
 * tells of them; each tick looks for those of whom nobody has heard.
 */
#ifndef REEVE_MANAGER_CORE_ARRIVALS_H
#define REEVE_MANAGER_CORE_ARRIVALS_H

#include "manager/core/core.h"

struct arrivals *arrivals_create(struct core *core);
void arrivals_destroy(struct arrivals *arrivals);

/* There are some, or may be: admits them. */
void arrivals_kick(struct arrivals *arrivals);

/* Does what is due. Returns when it wants to be called again. */
int64_t arrivals_turn(struct arrivals *arrivals, int64_t now_ms);

#endif
