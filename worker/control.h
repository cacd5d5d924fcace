/* Control: the loop that decides what happens next. */
#ifndef REEVE_WORKER_CONTROL_H
#define REEVE_WORKER_CONTROL_H

struct reeve_worker;

/* Runs the loop until the worker has stopped. Then nothing is running or in flight, except handlers if the worker is
 * stuck. */
void control_run(struct reeve_worker *worker);

#endif
