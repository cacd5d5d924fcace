/* The handlers files, read again while the worker runs. */
#ifndef REEVE_WORKER_RELOAD_H
#define REEVE_WORKER_RELOAD_H

struct reeve_worker;

/* Carries out what reeve_worker_reload has asked for, if anything. Control's; called without the lock. */
void reload_step(struct reeve_worker *worker);

#endif
