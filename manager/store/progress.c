/* Progress of attempts: percentages, remarks and log lines. */
#include "manager/store/progress.h"

#include "common/limits.h"
#include "manager/store/store_internal.h"

enum { ATTEMPTS_MAX = 1000 }; /* of one statement */

static void add_limited(struct params *p, const struct store_attempt_progress *const *all, int n)
{
	params_array_begin(p, PARAMS_BOOL);
	for (int i = 0; i < n; i++)
		params_add_bool(p, all[i]->identity != 0);
	params_array_end(p);
}

static void add_lines(struct params *p, const struct store_attempt_progress *const *all, int n)
{
	params_array_begin(p, PARAMS_TEXT);
	for (int i = 0; i < n; i++)
		for (int k = 0; k < all[i]->line_count; k++)
			params_add_text(p, all[i]->lines[k].text);
	params_array_end(p);
	params_array_begin(p, PARAMS_INT8);
	for (int i = 0; i < n; i++)
		for (int k = 0; k < all[i]->line_count; k++)
			params_add_int8(p, all[i]->lines[k].age_ms);
	params_array_end(p);
	params_array_begin(p, PARAMS_INT4);
	for (int i = 0; i < n; i++)
		for (int k = 0; k < all[i]->line_count; k++)
			params_add_int4(p, all[i]->lines[k].bytes);
	params_array_end(p);
}

void progress_add(struct params *p, const struct store_attempt_progress *const *all, int n, int32_t interval_ms)
{
	static const struct params_column columns[] = {
	    COLUMN(struct store_attempt_progress, id, INT8),
	    COLUMN(struct store_attempt_progress, token, TIME),
	    COLUMN(struct store_attempt_progress, hundredths, INT4),
	    COLUMN(struct store_attempt_progress, remark, TEXT),
	    COLUMN(struct store_attempt_progress, first_line, INT8),
	    COLUMN(struct store_attempt_progress, line_count, INT4),
	    COLUMN(struct store_attempt_progress, identity, INT8),
	};
	params_columns(p, all, n, COLUMNS(columns));
	add_limited(p, all, n);
	add_lines(p, all, n);
	params_int4(p, interval_ms);
	params_int4(p, LIMIT_LOG_LINES);
	params_int4(p, LIMIT_LOG_BYTES);
}

static struct store_progress *progress_of(const struct role *role, int i)
{
	return BATCH_OP(role, struct store_progress, i);
}

static int attempts_in(const struct role *role)
{
	int n = 0;
	for (int i = 0; i < role->count; i++)
		n += progress_of(role, i)->count;
	return n;
}

/* Rows and attempts are in the same order. */
static void on_kept(struct role *role, const PGresult *rows)
{
	int row = 0, place = 0;
	for (int i = 0; i < role->count; i++)
		for (int k = 0; k < progress_of(role, i)->count; k++) {
			struct store_attempt_progress *a = &progress_of(role, i)->attempts[k];
			place++;
			bool holds = row < PQntuples(rows) && row_int8(rows, row, 0) == place;
			a->ack = !holds ? STORE_LATE : row_bool(rows, row, 1) ? STORE_LATER : STORE_ACCEPTED;
			row += holds;
		}
	role_done(role);
}

static void progress_start(struct role *role)
{
	int n = 0;
	const struct store_attempt_progress **all = mem_malloc(sizeof *all * (size_t)attempts_in(role));
	for (int i = 0; i < role->count; i++)
		for (int k = 0; k < progress_of(role, i)->count; k++)
			all[n++] = &progress_of(role, i)->attempts[k];
	progress_add(&role->params, all, n, LIMIT_PROGRESS_MS);
	free(all);
	role_run(role, SQL_PROGRESS_KEEP, on_kept);
}

static bool progress_joins(const struct role *role, const struct store_op *op)
{
	return role->count == 0 || attempts_in(role) + ((const struct store_progress *)op)->count <= ATTEMPTS_MAX;
}

void store_progress(struct store *store, struct store_progress *op)
{
	static const struct op_kind kind = {.name = "progress", .start = progress_start, .joins = progress_joins};
	size_t bytes = 64;
	for (int i = 0; i < op->count; i++)
		bytes += store_progress_bytes(&op->attempts[i]);
	store_give(store, ROLE_EDIT, &kind, &op->op, 0, bytes);
}

size_t store_progress_bytes(const struct store_attempt_progress *a)
{
	size_t bytes = 64 + (a->remark ? strlen(a->remark) : 0);
	for (int i = 0; i < a->line_count; i++)
		bytes += 24 + (size_t)a->lines[i].bytes;
	return bytes;
}
