/*
 * Orders for workers themselves: drain, pause, stop, and how many handlers they run at once. They are rows that stand until
 * they are taken back or the incarnation is gone, and come with the answer to every heartbeat; a Fetch that the worker has
 * parked with any manager is answered with them at once.
 */
#ifndef REEVE_MANAGER_CORE_CONTROL_H
#define REEVE_MANAGER_CORE_CONTROL_H

#include "manager/core/base.h"

struct control;
struct dispatch;
struct sessions;

struct control *control_create(struct base *base, struct dispatch *dispatch, struct sessions *sessions);
void control_destroy(struct control *control);

/* Stores an order and hands it to whoever has a Fetch parked here. `op->op.done` is called when it is committed. */
void control_workers(struct control *control, struct store_control *op);

/* Orders that came with a heartbeat's answer: a worker that is to take no more tasks gets none by a Fetch it had parked here
 * before it heard of it. */
void control_standing(struct control *control, int64_t incarnation, const struct store_order *orders, int count);

/* Another manager says that it has taken an order: "MANAGER INCARNATION KIND VALUE". Whoever may notify can say that: if the
 * incarnation has a Fetch parked here, the orders that stand for it are read, and the Fetch is answered with those. */
void control_heard(struct control *control, const char *text);

#endif
