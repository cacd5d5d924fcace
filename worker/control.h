/* The worker's control: the loop that decides what happens next. */
#ifndef REEVE_WORKER_CONTROL_H
#define REEVE_WORKER_CONTROL_H

#include "worker/state.h"

/* Serves until the worker has stopped; then nothing is under way any more but what `stuck` says. */
void control_run(struct reeve_worker *worker);

#endif
