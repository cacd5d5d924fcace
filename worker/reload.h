/* Reloading the handlers files while the worker runs. */
#ifndef REEVE_WORKER_RELOAD_H
#define REEVE_WORKER_RELOAD_H

struct reeve_worker;

/* Reloads the files if reeve_worker_reload was called. Called by control without the lock. */
void reload_step(struct reeve_worker *worker);

#endif
