/* What the manager orders, in the answers to Fetches and heartbeats. An order may come many times, and for an attempt
 * that is long gone: it is carried out when it changes something. */
#ifndef REEVE_WORKER_ORDERS_H
#define REEVE_WORKER_ORDERS_H

#include "worker/state.h"

/* Carries out the orders. `all`: they are all that stand, as a heartbeat's answer tells them; so if none of them says to
 * pause, a pause is over. Called with the lock. */
void orders_obey(struct reeve_worker *worker, Reeve__V1__Order *const *orders, size_t count, bool all);

#endif
