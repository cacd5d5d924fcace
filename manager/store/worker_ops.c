/* Worker operations: registrations, heartbeats, commands, leaving, detection of lost workers; extensions and
 * remarks. */
#include "common/log.h"
#include "manager/store/internal.h"

#include <stdlib.h>
#include <string.h>

/* The maximum of operations (remarks: of rows) of one statement. Registrations and remarks have weight 0: the limits
 * of their roles are for other operations. */
enum { EXTENDS_MAX = 100, REGISTER_MAX = 200, REMARKS_MAX = 1000 };

/* The maximum of workers lost at once that the log names; it counts the others, because callers can invent workers. */
enum { LOST_NAMED = 10 };

/* The statement can process only one operation. */
static bool alone(const struct role *role, const struct store_op *op)
{
	(void)op;
	return role->count == 0;
}

/* --- registration ------------------------------------------------------------------------------------------------- */

static struct store_register *registering(const struct role *role, int i)
{
	return BATCH_OP(role, struct store_register, i);
}

/* The rows are in the order of the batch. */
static void on_registered(struct role *role, const PGresult *rows)
{
	for (int i = 0; i < role->count; i++) {
		struct store_register *op = registering(role, i);
		op->incarnation = row_int8(rows, i, 1);
		snprintf(op->other_host, sizeof op->other_host, "%s", row_text(rows, i, 2));
		op->other_pid = row_int4(rows, i, 3);
	}
	role_run(role, SQL_COMMIT, role_on_done);
}

static void add_names(struct role *role)
{
	params_array_begin(&role->params, PARAMS_TEXT);
	for (int i = 0; i < role->count; i++)
		params_add_text(&role->params, registering(role, i)->name);
	params_array_end(&role->params);
}

static void on_names_locked(struct role *role, const PGresult *rows)
{
	(void)rows;
	struct params *p = &role->params;
	int n = role->count;
	params_reset(p);
	add_names(role);
	params_array_begin(p, PARAMS_TEXT);
	for (int i = 0; i < n; i++)
		params_add_text(p, registering(role, i)->host);
	params_array_end(p);
	params_array_begin(p, PARAMS_INT4);
	for (int i = 0; i < n; i++)
		params_add_int4(p, registering(role, i)->pid);
	params_array_end(p);
	params_array_begin(p, PARAMS_TEXT);
	for (int i = 0; i < n; i++)
		params_add_text(p, registering(role, i)->version);
	params_array_end(p);
	params_array_begin(p, PARAMS_INT4);
	for (int i = 0; i < n; i++)
		params_add_int4(p, registering(role, i)->concurrency);
	params_array_end(p);
	params_array_begin(p, PARAMS_INT4);
	for (int i = 0; i < n; i++)
		params_add_int4(p, registering(role, i)->queue_count);
	params_array_end(p);
	params_array_begin(p, PARAMS_INT4);
	for (int i = 0; i < n; i++)
		params_add_int4(p, registering(role, i)->type_count);
	params_array_end(p);
	params_array_begin(p, PARAMS_INT8);
	for (int i = 0; i < n; i++)
		params_add_int8(p, registering(role, i)->previous);
	params_array_end(p);
	params_array_begin(p, PARAMS_BOOL);
	for (int i = 0; i < n; i++)
		params_add_bool(p, registering(role, i)->manual);
	params_array_end(p);
	params_array_begin(p, PARAMS_TEXT);
	for (int i = 0; i < n; i++)
		for (int k = 0; k < registering(role, i)->queue_count; k++)
			params_add_text(p, registering(role, i)->queues[k]);
	params_array_end(p);
	params_array_begin(p, PARAMS_TEXT);
	for (int i = 0; i < n; i++)
		for (int k = 0; k < registering(role, i)->type_count; k++)
			params_add_text(p, registering(role, i)->types[k]);
	params_array_end(p);
	params_int8(p, registering(role, 0)->lease_ms);
	role_run(role, SQL_REGISTER, on_registered);
}

static void on_register_begun(struct role *role, const PGresult *rows)
{
	(void)rows;
	params_reset(&role->params);
	add_names(role);
	role_run(role, SQL_REGISTER_LOCK, on_names_locked);
}

static void register_start(struct role *role)
{
	role_run(role, SQL_BEGIN, on_register_begun);
}

/* A name may be only once in a batch. */
static bool register_joins(const struct role *role, const struct store_op *op)
{
	const struct store_register *one = (const struct store_register *)op;
	if (role->count >= REGISTER_MAX)
		return false;
	for (int i = 0; i < role->count; i++)
		if (!strcmp(registering(role, i)->name, one->name))
			return false;
	return true;
}

void store_register(struct store *store, struct store_register *op)
{
	static const struct op_kind kind = {.name = "register", .start = register_start, .joins = register_joins};
	store_give(store, ROLE_ROUTES, &kind, &op->op, 0, 1024 + 32 * ((size_t)op->queue_count + (size_t)op->type_count));
}

static void leave_start(struct role *role)
{
	struct params *p = &role->params;
	params_array_begin(p, PARAMS_INT8);
	for (int i = 0; i < role->count; i++)
		params_add_int8(p, BATCH_OP(role, struct store_leave, i)->incarnation);
	params_array_end(p);
	params_array_begin(p, PARAMS_TEXT);
	for (int i = 0; i < role->count; i++)
		params_add_text(p, BATCH_OP(role, struct store_leave, i)->reason);
	params_array_end(p);
	role_run(role, SQL_LEAVE, role_on_done);
}

void store_leave(struct store *store, struct store_leave *op)
{
	static const struct op_kind kind = {.name = "leave", .start = leave_start};
	store_give(store, ROLE_ROUTES, &kind, &op->op, 0, 256);
}

static struct store_poll *lookup_op(struct role *role, int i)
{
	return BATCH_OP(role, struct store_poll, i);
}

static int by_checked_at(const void *a, const void *b)
{
	const struct store_poll *x = *(struct store_poll *const *)a, *y = *(struct store_poll *const *)b;
	return (x->incarnation > y->incarnation) - (x->incarnation < y->incarnation);
}

/* Batch and rows are both in the order of incarnations. */
static void on_polled(struct role *role, const PGresult *rows)
{
	int row_count = PQntuples(rows), row = 0;
	for (int i = 0; i < role->count; i++) {
		struct store_poll *op = lookup_op(role, i);
		while (row < row_count && row_int8(rows, row, 0) < op->incarnation)
			row++;
		op->lost = row == row_count || row_int8(rows, row, 0) != op->incarnation || row_bool(rows, row, 1);
	}
	role_done(role);
}

static void poll_start(struct role *role)
{
	qsort(role->batch, (size_t)role->count, sizeof *role->batch, by_checked_at);
	params_array_begin(&role->params, PARAMS_INT8);
	for (int i = 0; i < role->count; i++)
		params_add_int8(&role->params, lookup_op(role, i)->incarnation);
	params_array_end(&role->params);
	role_run(role, SQL_WORKER_LOOKUP, on_polled);
}

void store_poll(struct store *store, struct store_poll *op)
{
	static const struct op_kind kind = {.name = "lookup", .start = poll_start};
	store_give(store, ROLE_LOOKUP, &kind, &op->op, 1, sizeof *op);
}

/* --- lost workers ------------------------------------------------------------------------------------------------ */

static void on_watched(struct role *role, const PGresult *rows)
{
	struct store_watch *op = BATCH_OP(role, struct store_watch, 0);
	const char *ids = NULL, *seqs = NULL, *leases = NULL;
	op->count = row_array(rows, 0, 0, &ids);
	row_array(rows, 0, 1, &seqs);
	row_array(rows, 0, 2, &leases);
	op->beats = role->state = mem_calloc((size_t)op->count + 1, sizeof *op->beats);
	for (int i = 0; i < op->count; i++)
		op->beats[i] = (struct store_beat){.incarnation = row_array_int8(&ids),
		    .seq = row_array_int8(&seqs),
		    .lease_ms = row_array_int8(&leases)};
	role_done(role);
}

static void watch_start(struct role *role)
{
	role_run(role, SQL_WORKERS_WATCH, on_watched);
}

void store_watch(struct store *store, struct store_watch *op)
{
	static const struct op_kind kind = {.name = "watch", .start = watch_start, .joins = alone};
	store_give(store, ROLE_HEARTBEAT, &kind, &op->op, 1, 0);
}

static void on_lost(struct role *role, const PGresult *rows)
{
	struct store_lose *op = BATCH_OP(role, struct store_lose, 0);
	op->lost_count = PQntuples(rows);
	op->lost = role->state = mem_calloc((size_t)op->lost_count + 1, sizeof *op->lost);
	for (int row = 0; row < op->lost_count; row++) {
		op->lost[row] = row_int8(rows, row, 0);
		if (row < LOST_NAMED)
			log_warn("lease", "worker %s (incarnation %lld) is lost: no heartbeat for a lease",
			    row_text(rows, row, 1), (long long)op->lost[row]);
	}
	if (op->lost_count > LOST_NAMED)
		log_warn("lease", "%d more workers are lost: no heartbeat for a lease", op->lost_count - LOST_NAMED);
	role_done(role);
}

static void lose_start(struct role *role)
{
	const struct store_lose *op = BATCH_OP(role, struct store_lose, 0);
	struct params *p = &role->params;
	params_array_begin(p, PARAMS_INT8);
	for (int i = 0; i < op->count; i++)
		params_add_int8(p, op->beats[i].incarnation);
	params_array_end(p);
	params_array_begin(p, PARAMS_INT8);
	for (int i = 0; i < op->count; i++)
		params_add_int8(p, op->beats[i].seq);
	params_array_end(p);
	params_text(p, role->store->options.manager_name);
	role_run(role, SQL_WORKER_LOSE, on_lost);
}

void store_lose(struct store *store, struct store_lose *op)
{
	static const struct op_kind kind = {.name = "lose", .start = lose_start, .joins = alone};
	store_give(store, ROLE_LEASE, &kind, &op->op, 1, 0);
}

/* --- extensions --------------------------------------------------------------------------------------------------- */

static struct store_extend *extend_of(struct role *role, int i)
{
	return BATCH_OP(role, struct store_extend, i);
}

static void on_extended(struct role *role, const PGresult *rows)
{
	for (int i = 0; i < role->count; i++) {
		struct store_extend *op = extend_of(role, i);
		op->held = op->locked = false;
		for (int row = 0; row < PQntuples(rows) && !op->held; row++) {
			op->held = row_int8(rows, row, 0) == op->id && row_time(rows, row, 1) == op->token;
			if (!op->held)
				continue;
			op->locked = row_null(rows, row, 2);
			if (op->locked)
				continue;
			op->run_ms = row_int8(rows, row, 2);
			op->expires_in_ms = row_int8(rows, row, 3);
		}
	}
	role_done(role);
}

static int by_task(const void *a, const void *b)
{
	const struct store_extend *x = *(struct store_extend *const *)a, *y = *(struct store_extend *const *)b;
	return (x->id > y->id) - (x->id < y->id);
}

static void extend_start(struct role *role)
{
	struct params *p = &role->params;
	qsort(role->batch, (size_t)role->count, sizeof *role->batch, by_task);
	params_array_begin(p, PARAMS_INT8);
	for (int i = 0; i < role->count; i++)
		params_add_int8(p, extend_of(role, i)->id);
	params_array_end(p);
	params_array_begin(p, PARAMS_TIME);
	for (int i = 0; i < role->count; i++)
		params_add_time(p, extend_of(role, i)->token);
	params_array_end(p);
	params_array_begin(p, PARAMS_INT8);
	for (int i = 0; i < role->count; i++)
		params_add_int8(p, extend_of(role, i)->run_ms);
	params_array_end(p);
	params_int8(p, extend_of(role, 0)->max_runtime_ms);
	params_int8(p, role->store->options.expiry_grace_ms);
	role_run(role, SQL_EXTEND, on_extended);
}

/* A task may be only once in a batch. */
static bool extend_joins(const struct role *role, const struct store_op *op)
{
	if (role->count >= EXTENDS_MAX)
		return false;
	for (int i = 0; i < role->count; i++)
		if (BATCH_OP(role, struct store_extend, i)->id == ((const struct store_extend *)op)->id)
			return false;
	return true;
}

void store_extend(struct store *store, struct store_extend *op)
{
	static const struct op_kind kind = {.name = "extend", .start = extend_start, .joins = extend_joins};
	store_give(store, ROLE_REPORT, &kind, &op->op, 1, 64);
}

/* --- remarks ------------------------------------------------------------------------------------------------------- */

static const struct store_remarks *remarks(const struct role *role, int i)
{
	return BATCH_OP(role, struct store_remarks, i);
}

static void remarks_start(struct role *role)
{
	struct params *p = &role->params;
	params_array_begin(p, PARAMS_INT8);
	for (int i = 0; i < role->count; i++)
		for (int k = 0; k < remarks(role, i)->count; k++)
			params_add_int8(p, remarks(role, i)->ids[k]);
	params_array_end(p);
	params_array_begin(p, PARAMS_TIME);
	for (int i = 0; i < role->count; i++)
		for (int k = 0; k < remarks(role, i)->count; k++)
			params_add_time(p, remarks(role, i)->tokens[k]);
	params_array_end(p);
	params_array_begin(p, PARAMS_TEXT);
	for (int i = 0; i < role->count; i++)
		for (int k = 0; k < remarks(role, i)->count; k++)
			params_add_text(p, remarks(role, i)->texts[k]);
	params_array_end(p);
	role_run(role, SQL_REMARKS_KEEP, role_on_done);
}

static bool remarks_join(const struct role *role, const struct store_op *op)
{
	int rows = ((const struct store_remarks *)op)->count;
	for (int i = 0; i < role->count; i++)
		rows += remarks(role, i)->count;
	return role->count == 0 || rows <= REMARKS_MAX;
}

void store_remarks(struct store *store, struct store_remarks *op)
{
	static const struct op_kind kind = {.name = "remarks", .start = remarks_start, .joins = remarks_join};
	store_give(store, ROLE_EDIT, &kind, &op->op, 0, 64 + op->bytes);
}

/* --- heartbeats ------------------------------------------------------------------------------------------------ */

enum { HEARTBEATS_GATHER_MS = 10 };

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
	const struct store_worker_commands *x = *(struct store_worker_commands *const *)a, *y = *(struct store_worker_commands *const *)b;
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
	qsort(role->batch, (size_t)role->count, sizeof *role->batch, by_asked);
	params_array_begin(&role->params, PARAMS_INT8);
	for (int i = 0; i < role->count; i++)
		params_add_int8(&role->params, asked(role, i)->incarnation);
	params_array_end(&role->params);
	role_run(role, SQL_WORKER_COMMANDS, on_standing);
}

void store_worker_commands(struct store *store, struct store_worker_commands *op)
{
	static const struct op_kind kind = {.name = "commands", .start = commands_start};
	store_give(store, ROLE_LOOKUP, &kind, &op->op, 1, sizeof *op);
}

static void on_commands(struct role *role, const PGresult *rows)
{
	int row_count = PQntuples(rows);
	struct store_worker_command *commands = mem_calloc((size_t)row_count + 1, sizeof *commands);
	role->state = commands;
	int row = 0; /* batch and row_count are both in the order of incarnations */
	for (int i = 0; i < role->count; i++) {
		struct store_heartbeat *op = heartbeat(role, i);
		op->commands = commands;
		op->command_count = commands_take(rows, &row, op->incarnation, commands);
		commands += op->command_count;
	}
	role_done(role);
}

static void add_workers(struct role *role)
{
	params_array_begin(&role->params, PARAMS_INT8);
	for (int i = 0; i < role->count; i++)
		params_add_int8(&role->params, heartbeat(role, i)->incarnation);
	params_array_end(&role->params);
}

/* Finds out why heartbeats were not renewed: the worker is lost, a later heartbeat has arrived, or the row is
 * locked. */
static void on_unrenewed(struct role *role, const PGresult *rows)
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
	add_workers(role);
	role_run(role, SQL_WORKER_COMMANDS, on_commands);
}

static void on_renewed(struct role *role, const PGresult *rows)
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
	bool all = true;
	for (int i = 0; i < role->count; i++)
		all &= heartbeat(role, i)->renewed;
	add_workers(role);
	role_run(role, all ? SQL_WORKER_COMMANDS : SQL_WORKER_LOOKUP, all ? on_commands : on_unrenewed);
}

static void heartbeat_start(struct role *role)
{
	qsort(role->batch, (size_t)role->count, sizeof *role->batch, by_worker);
	add_workers(role);
	struct params *p = &role->params;
	params_array_begin(p, PARAMS_INT8);
	for (int i = 0; i < role->count; i++)
		params_add_int8(p, heartbeat(role, i)->seq);
	params_array_end(p);
	params_array_begin(p, PARAMS_TEXT);
	for (int i = 0; i < role->count; i++)
		params_add_text(p, heartbeat(role, i)->mode);
	params_array_end(p);
	params_array_begin(p, PARAMS_INT4);
	for (int i = 0; i < role->count; i++)
		params_add_int4(p, heartbeat(role, i)->concurrency);
	params_array_end(p);
	params_array_begin(p, PARAMS_INT8);
	for (int i = 0; i < role->count; i++)
		params_add_int8(p, heartbeat(role, i)->succeeded);
	params_array_end(p);
	params_array_begin(p, PARAMS_INT8);
	for (int i = 0; i < role->count; i++)
		params_add_int8(p, heartbeat(role, i)->failed);
	params_array_end(p);
	params_array_begin(p, PARAMS_INT4);
	for (int i = 0; i < role->count; i++)
		params_add_int4(p, heartbeat(role, i)->type_count);
	params_array_end(p);
	params_array_begin(p, PARAMS_INT4);
	for (int i = 0, last = 0; i < role->count; i++)
		params_add_int4(p, last += heartbeat(role, i)->type_count);
	params_array_end(p);
	params_array_begin(p, PARAMS_TEXT);
	for (int i = 0; i < role->count; i++)
		for (int k = 0; k < heartbeat(role, i)->type_count; k++)
			params_add_text(p, heartbeat(role, i)->types[k]);
	params_array_end(p);
	role_run(role, SQL_HEARTBEAT, on_renewed);
}

static bool heartbeat_joins(const struct role *role, const struct store_op *op)
{
	for (int i = 0; i < role->count; i++)
		if (BATCH_OP(role, struct store_heartbeat, i)->incarnation ==
		    ((const struct store_heartbeat *)op)->incarnation)
			return false;
	return true;
}

void store_heartbeat(struct store *store, struct store_heartbeat *op)
{
	static const struct op_kind kind = {
	    .name = "heartbeat", .start = heartbeat_start, .joins = heartbeat_joins, .gather_ms = HEARTBEATS_GATHER_MS};
	op->op.can_wait = true;
	store_give(store, ROLE_HEARTBEAT, &kind, &op->op, 1, 128 + op->carries);
}
