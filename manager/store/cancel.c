#include "manager/store/cancel.h"

#include "manager/store/row.h"
#include "manager/store/store_internal.h"

struct cancel *cancel_begin(struct role *role, int max)
{
	struct cancel *c = role->state = mem_calloc(1, sizeof *c + sizeof *c->ids * (size_t)max);
	return c;
}

void cancel_mark_params(
    struct role *role, const int64_t *ids, int count, const char *actor, const char *reason, const char *code)
{
	params_int8s(&role->params, ids, count);
	params_text(&role->params, actor);
	params_text(&role->params, reason);
	params_text(&role->params, code);
}

void cancel_waiting_params(struct role *role, const int64_t *ids, int count, const char *reason)
{
	params_int8s(&role->params, ids, count);
	params_int4(&role->params, role->store->options.history_days);
	params_text(&role->params, reason);
}

bool cancel_add_mark(struct role *role)
{
	const struct cancel *c = role->state;
	cancel_mark_params(role, c->ids, c->count, "", c->reason, c->code);
	return c->count > 0;
}

bool cancel_add_waiting(struct role *role)
{
	const struct cancel *c = role->state;
	cancel_waiting_params(role, c->ids, c->count, c->reason);
	return c->count > 0;
}

enum step_result cancel_take_ended(struct role *role, const PGresult *rows)
{
	struct cancel *c = role->state;
	for (int row = 0; row < PQntuples(rows) && row < c->count; row++)
		c->ids[c->ended++] = row_int8(rows, row, 0);
	return STEP_NEXT;
}
