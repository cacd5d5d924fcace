/* The worker's control: the loop that decides what happens next. */
#ifndef REEVE_WORKER_CONTROL_H
#define REEVE_WORKER_CONTROL_H

#include "worker/state.h"

/* Runs the loop until the worker has stopped. Then nothing is running or in flight, except handlers if `stuck` is
 * set. */
void control_run(struct reeve_worker *worker);

#endif
