/* Heartbeats of workers, and the commands that they get. */
#include "manager/store/steps.h"
#include "manager/store/store_internal.h"

#include <stdlib.h>
#include <string.h>

enum { HEARTBEATS_BATCH_WAIT_MS = 10 };

static struct store_heartbeat *heartbeat(struct role *role, int i)
{
	return BATCH_OP(role, struct store_heartbeat, i);
}

static int by_worker(const void *a, const void *b)
{
	const struct store_heartbeat *x = *(struct store_heartbeat *const *)a, *y = *(struct store_heartbeat *const *)b;
	return (x->incarnation > y->incarnation) - (x->incarnation < y->incarnation);
}

/* Finds an operation in the batch, which is sorted by incarnation. */
static struct store_heartbeat *heartbeat_of(struct role *role, int64_t incarnation)
{
	struct store_heartbeat wanted = {.incarnation = incarnation}, *key = &wanted;
	struct store_op **at = bsearch(&key, role->batch, (size_t)role->count, sizeof *role->batch, by_worker);
	return at ? (struct store_heartbeat *)*at : NULL;
}

/* Reads an incarnation's commands from the rows, which are in the order of incarnations, like the batch. Returns
 * their number. */
static int commands_take(const PGresult *rows, int *row, int64_t incarnation, struct store_worker_command *commands)
{
	int n = 0;
	for (; *row < PQntuples(rows) && row_int8(rows, *row, 0) <= incarnation; ++*row) {
		if (row_int8(rows, *row, 0) < incarnation)
			continue;
		snprintf(commands[n].kind, sizeof commands[n].kind, "%s", row_text(rows, *row, 1));
		commands[n].task_id = row_int8(rows, *row, 2);
		commands[n].token = row_time(rows, *row, 3);
		commands[n].value = row_int4(rows, *row, 4);
		n++;
	}
	return n;
}

static struct store_worker_commands *asked(struct role *role, int i)
{
	return BATCH_OP(role, struct store_worker_commands, i);
}

static int by_asked(const void *a, const void *b)
{
	const struct store_worker_commands *x = *(struct store_worker_commands *const *)a,
	                                   *y = *(struct store_worker_commands *const *)b;
	return (x->incarnation > y->incarnation) - (x->incarnation < y->incarnation);
}

static void on_standing(struct role *role, const PGresult *rows)
{
	struct store_worker_command *commands = role->state = mem_calloc((size_t)PQntuples(rows) + 1, sizeof *commands);
	for (int i = 0, row = 0; i < role->count; i++) {
		asked(role, i)->commands = commands;
		asked(role, i)->command_count = commands_take(rows, &row, asked(role, i)->incarnation, commands);
		commands += asked(role, i)->command_count;
	}
	role_done(role);
}

static void commands_start(struct role *role)
{
	static const struct params_column columns[] = {COLUMN(struct store_worker_commands, incarnation, INT8)};
	qsort(role->batch, (size_t)role->count, sizeof *role->batch, by_asked);
	BATCH_COLUMNS(role, columns);
	role_run(role, SQL_WORKER_COMMANDS, on_standing);
}

void store_worker_commands(struct store *store, struct store_worker_commands *op)
{
	static const struct op_kind kind = {.name = "commands", .start = commands_start};
	store_give(store, ROLE_LOOKUP, &kind, &op->op, 1, sizeof *op);
}

/* Batch and rows are both in the order of incarnations. */
static enum step_result take_commands(struct role *role, const PGresult *rows)
{
	struct store_worker_command *commands = role->state = mem_calloc((size_t)PQntuples(rows) + 1, sizeof *commands);
	for (int i = 0, row = 0; i < role->count; i++) {
		struct store_heartbeat *op = heartbeat(role, i);
		op->commands = commands;
		op->command_count = commands_take(rows, &row, op->incarnation, commands);
		commands += op->command_count;
	}
	return STEP_NEXT;
}

static bool add_workers(struct role *role)
{
	static const struct params_column columns[] = {COLUMN(struct store_heartbeat, incarnation, INT8)};
	BATCH_COLUMNS(role, columns);
	return true;
}

/* Why heartbeats were not renewed is to be found out. */
static bool add_workers_unless_renewed(struct role *role)
{
	for (int i = 0; i < role->count; i++)
		if (!heartbeat(role, i)->renewed)
			return add_workers(role);
	return false;
}

/* The worker is lost, a later heartbeat has arrived, or the row is locked. */
static enum step_result take_unrenewed(struct role *role, const PGresult *rows)
{
	for (int i = 0; i < role->count; i++)
		heartbeat(role, i)->lost = !heartbeat(role, i)->renewed;
	for (int row = 0; row < PQntuples(rows); row++) {
		struct store_heartbeat *op = heartbeat_of(role, row_int8(rows, row, 0));
		if (op && !op->renewed) {
			op->lost = row_bool(rows, row, 1);
			op->overtaken = row_int8(rows, row, 2) > op->seq;
			op->locked = !op->lost && row_int8(rows, row, 2) < op->seq;
		}
	}
	return STEP_NEXT;
}

static bool add_heartbeats(struct role *role)
{
	static const struct params_column columns[] = {
	    COLUMN(struct store_heartbeat, incarnation, INT8),
	    COLUMN(struct store_heartbeat, seq, INT8),
	    COLUMN(struct store_heartbeat, mode, TEXT),
	    COLUMN(struct store_heartbeat, concurrency, INT4),
	    COLUMN(struct store_heartbeat, completed, INT8),
	    COLUMN(struct store_heartbeat, failed, INT8),
	    COLUMN(struct store_heartbeat, type_count, INT4),
	};
	static const struct params_column types[] = {COLUMN_LIST(struct store_heartbeat, types, type_count, TEXT)};
	struct params *p = &role->params;
	qsort(role->batch, (size_t)role->count, sizeof *role->batch, by_worker);
	BATCH_COLUMNS(role, columns);
	params_array_begin(p, PARAMS_INT4);
	for (int i = 0, last = 0; i < role->count; i++)
		params_add_int4(p, last += heartbeat(role, i)->type_count);
	params_array_end(p);
	BATCH_COLUMNS(role, types);
	return true;
}

static enum step_result take_renewed(struct role *role, const PGresult *rows)
{
	for (int i = 0; i < role->count; i++) {
		struct store_heartbeat *op = heartbeat(role, i);
		op->renewed = op->lost = op->overtaken = op->locked = false;
	}
	for (int row = 0; row < PQntuples(rows); row++) {
		struct store_heartbeat *op = heartbeat_of(role, row_int8(rows, row, 0));
		if (op)
			op->renewed = true;
	}
	return STEP_NEXT;
}

static bool add_counts(struct role *role)
{
	static const struct params_column columns[] = {
	    COLUMN(struct store_worker_count, incarnation, INT8),
	    COLUMN(struct store_worker_count, queue, TEXT),
	    COLUMN(struct store_worker_count, batch_id, INT8),
	    COLUMN(struct store_worker_count, completed, INT8),
	    COLUMN(struct store_worker_count, failed, INT8),
	};
	int all = 0, n = 0;
	for (int i = 0; i < role->count; i++)
		all += heartbeat(role, i)->renewed ? heartbeat(role, i)->count_count : 0;
	if (!all)
		return false;
	const struct store_worker_count **counts = mem_malloc(sizeof *counts * (size_t)all);
	for (int i = 0; i < role->count; i++)
		for (int k = 0; heartbeat(role, i)->renewed && k < heartbeat(role, i)->count_count; k++)
			counts[n++] = &heartbeat(role, i)->counts[k];
	params_columns(&role->params, counts, n, COLUMNS(columns));
	free(counts);
	return true;
}

static void heartbeat_start(struct role *role)
{
	static const struct step steps[] = {
	    {add_heartbeats, SQL_HEARTBEAT, take_renewed},
	    {add_workers_unless_renewed, SQL_WORKER_LOOKUP, take_unrenewed},
	    {add_counts, SQL_WORKER_COUNTS, NULL},
	    {add_workers, SQL_WORKER_COMMANDS, take_commands},
	};
	steps_run(role, STEPS(steps));
}

static bool heartbeat_joins(const struct role *role, const struct store_op *op)
{
	for (int i = 0; i < role->count; i++)
		if (BATCH_OP(role, struct store_heartbeat, i)->incarnation == ((const struct store_heartbeat *)op)->incarnation)
			return false;
	return true;
}

void store_heartbeat(struct store *store, struct store_heartbeat *op)
{
	static const struct op_kind kind = {.name = "heartbeat",
	    .start = heartbeat_start,
	    .joins = heartbeat_joins,
	    .batch_wait_ms = HEARTBEATS_BATCH_WAIT_MS};
	op->op.can_wait = true;
	store_give(store, ROLE_HEARTBEAT, &kind, &op->op, 1, 128 + op->carries);
}
