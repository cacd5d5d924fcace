/* What follows from an order. See control.h. */
#include "manager/core/control.h"

#include "manager/core/dispatch.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Stands before the caller's callback. */
struct control {
	struct store_control op;
	struct core *core;
	struct store_control *given;
};

static void on_controlled(struct store_op *op, const struct reeve_error *error)
{
	struct control *c = (struct control *)op;
	struct store_order order = {.value = c->op.value};
	snprintf(order.kind, sizeof order.kind, "%s", c->op.kind);
	c->given->workers = c->op.workers;
	c->given->count = c->op.count;
	for (int i = 0; !error && i < c->op.count; i++)
		dispatch_order(c->core->dispatch, c->op.workers[i].incarnation, &order);
	c->given->op.done(&c->given->op, error);
	free(c);
}

void control_workers(struct core *core, struct store_control *op)
{
	struct control *c = calloc(1, sizeof *c);
	c->core = core;
	c->given = op;
	c->op = *op;
	c->op.op.done = on_controlled;
	store_control(core->store, &c->op);
}

static bool ends_fetching(const char *kind)
{
	return !strcmp(kind, "pause") || !strcmp(kind, "drain") || !strcmp(kind, "stop");
}

void control_standing(struct core *core, int64_t incarnation, const struct store_order *orders, int count)
{
	for (int i = 0; i < count; i++)
		if (orders[i].task_id == 0 && ends_fetching(orders[i].kind))
			dispatch_order(core->dispatch, incarnation, &orders[i]);
}

void control_heard(struct core *core, const char *text)
{
	int64_t manager, incarnation;
	struct store_order order = {0};
	if (sscanf(text, "%" SCNd64 " %" SCNd64 " %11s %" SCNd32, &manager, &incarnation, order.kind, &order.value) == 4 &&
	    manager != store_manager_id(core->store))
		dispatch_order(core->dispatch, incarnation, &order);
}
