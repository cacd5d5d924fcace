/* Worker operations: registrations, leaving, detection of lost workers; extensions and remarks. */
#include "common/credential.h"
#include "common/log.h"
#include "manager/store/steps.h"
#include "manager/store/store_internal.h"

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

static bool add_names(struct role *role)
{
	static const struct params_column columns[] = {COLUMN(struct store_register, name, TEXT)};
	BATCH_COLUMNS(role, columns);
	return true;
}

static bool add_workers(struct role *role)
{
	static const struct params_column columns[] = {
	    COLUMN(struct store_register, name, TEXT),
	    COLUMN(struct store_register, host, TEXT),
	    COLUMN(struct store_register, pid, INT4),
	    COLUMN(struct store_register, version, TEXT),
	    COLUMN(struct store_register, concurrency, INT4),
	    COLUMN(struct store_register, queue_count, INT4),
	    COLUMN(struct store_register, type_count, INT4),
	    COLUMN(struct store_register, previous, INT8),
	    COLUMN(struct store_register, manual, BOOL),
	    COLUMN_LIST(struct store_register, queues, queue_count, TEXT),
	    COLUMN_LIST(struct store_register, types, type_count, TEXT),
	};
	static const struct params_column owners[] = {
	    COLUMN_OR_NULL(struct store_register, identity, INT8, 0),
	    COLUMN(struct store_register, actor, TEXT),
	};
	BATCH_COLUMNS(role, columns);
	params_int8(&role->params, registering(role, 0)->lease_ms);
	BATCH_COLUMNS(role, owners);
	return true;
}

/* The rows are in the order of the batch. */
static enum step_result take_registered(struct role *role, const PGresult *rows)
{
	for (int i = 0; i < role->count; i++) {
		struct store_register *op = registering(role, i);
		op->incarnation = row_int8(rows, i, 1);
		credential_key((const uint8_t *)PQgetvalue(rows, i, 4), (size_t)PQgetlength(rows, i, 4), op->signer,
		    op->incarnation, op->credential_key);
		snprintf(op->other_host, sizeof op->other_host, "%s", row_text(rows, i, 2));
		op->other_pid = row_int4(rows, i, 3);
	}
	return STEP_NEXT;
}

static void register_start(struct role *role)
{
	static const struct step steps[] = {
	    {NULL, SQL_BEGIN, NULL},
	    {add_names, SQL_REGISTER_LOCK, NULL},
	    {add_workers, SQL_REGISTER, take_registered},
	    {NULL, SQL_COMMIT, NULL},
	};
	steps_run(role, STEPS(steps));
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
	static const struct params_column columns[] = {
	    COLUMN(struct store_leave, incarnation, INT8),
	    COLUMN(struct store_leave, reason, TEXT),
	    COLUMN(struct store_leave, actor, TEXT),
	};
	BATCH_COLUMNS(role, columns);
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
		op->identity = op->lost || row_null(rows, row, 4) ? 0 : row_int8(rows, row, 4);
	}
	role_done(role);
}

static void poll_start(struct role *role)
{
	static const struct params_column columns[] = {COLUMN(struct store_poll, incarnation, INT8)};
	qsort(role->batch, (size_t)role->count, sizeof *role->batch, by_checked_at);
	BATCH_COLUMNS(role, columns);
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
		op->beats[i] = (struct store_beat){
		    .incarnation = row_array_int8(&ids), .seq = row_array_int8(&seqs), .lease_ms = row_array_int8(&leases)};
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
			log_warn("lease", "worker %s (incarnation %lld) is lost: no heartbeat for a lease", row_text(rows, row, 1),
			    (long long)op->lost[row]);
	}
	if (op->lost_count > LOST_NAMED)
		log_warn("lease", "%d more workers are lost: no heartbeat for a lease", op->lost_count - LOST_NAMED);
	role_done(role);
}

static void lose_start(struct role *role)
{
	static const struct params_column columns[] = {
	    COLUMN(struct store_beat, incarnation, INT8),
	    COLUMN(struct store_beat, seq, INT8),
	};
	const struct store_lose *op = BATCH_OP(role, struct store_lose, 0);
	params_struct_columns(&role->params, op->beats, sizeof *op->beats, op->count, COLUMNS(columns));
	params_text(&role->params, role->store->options.manager_name);
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
	static const struct params_column columns[] = {
	    COLUMN(struct store_extend, id, INT8),
	    COLUMN(struct store_extend, token, TIME),
	    COLUMN(struct store_extend, run_ms, INT8),
	};
	qsort(role->batch, (size_t)role->count, sizeof *role->batch, by_task);
	BATCH_COLUMNS(role, columns);
	params_int8(&role->params, extend_of(role, 0)->max_runtime_ms);
	params_int8(&role->params, role->store->options.expiry_grace_ms);
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

/* --- ownership -----------------------------------------------------------------------------------------------------
 */

static const struct store_own *owning(const struct role *role, int i)
{
	return BATCH_OP(role, struct store_own, i);
}

/* Rows and attempts are in the same order. */
static void on_own(struct role *role, const PGresult *rows)
{
	int row = 0, place = 0;
	for (int i = 0; i < role->count; i++)
		for (int k = 0; k < owning(role, i)->count; k++) {
			place++;
			bool own = row < PQntuples(rows) && row_int8(rows, row, 0) == place;
			owning(role, i)->own[k] = own;
			row += own;
		}
	role_done(role);
}

static void own_start(struct role *role)
{
	static const struct params_column columns[] = {
	    COLUMN_LIST(struct store_own, ids, count, INT8),
	    COLUMN_LIST(struct store_own, tokens, count, TIME),
	};
	struct params *p = &role->params;
	BATCH_COLUMNS(role, columns);
	params_array_begin(p, PARAMS_INT8);
	for (int i = 0; i < role->count; i++)
		for (int k = 0; k < owning(role, i)->count; k++)
			if (owning(role, i)->identity)
				params_add_int8(p, owning(role, i)->identity);
			else
				params_add_null(p);
	params_array_end(p);
	role_run(role, SQL_ATTEMPTS_OWN, on_own);
}

void store_own(struct store *store, struct store_own *op)
{
	static const struct op_kind kind = {.name = "ownership", .start = own_start};
	store_give(store, ROLE_LOOKUP, &kind, &op->op, op->count, 24 * (size_t)op->count);
}

/* --- remarks -------------------------------------------------------------------------------------------------------
 */

static const struct store_remarks *remarks(const struct role *role, int i)
{
	return BATCH_OP(role, struct store_remarks, i);
}

static void remarks_start(struct role *role)
{
	static const struct params_column columns[] = {
	    COLUMN_LIST(struct store_remarks, ids, count, INT8),
	    COLUMN_LIST(struct store_remarks, tokens, count, TIME),
	    COLUMN_LIST(struct store_remarks, texts, count, TEXT),
	    COLUMN_LIST(struct store_remarks, workers, count, INT8),
	};
	BATCH_COLUMNS(role, columns);
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
