/* Archive operations: the next partition of the history to archive, and its rows. */
#include "manager/store/store_internal.h"

#include <stdlib.h>
#include <string.h>

enum { PAGE_BYTES = 4 * 1024 * 1024 };

static void take_page(struct role *role, struct store_archive *op, const PGresult *rows)
{
	int n = PQntuples(rows);
	op->lines = role->state = mem_calloc((size_t)n + 1, sizeof *op->lines);
	for (op->count = 0; op->count < n && !row_null(rows, op->count, 0); op->count++) {
		op->lines[op->count] = row_text(rows, op->count, 1);
		op->after = row_int8(rows, op->count, 0);
	}
}

static void on_archive(struct role *role, const PGresult *rows)
{
	struct store_archive *op = BATCH_OP(role, struct store_archive, 0);
	op->lost = op->kind != STORE_ARCHIVE_RELEASE && PQntuples(rows) == 0;
	if (op->kind == STORE_ARCHIVE_NEXT)
		snprintf(
		    op->partition, sizeof op->partition, "%s", op->lost || row_null(rows, 0, 0) ? "" : row_text(rows, 0, 0));
	else if (op->kind == STORE_ARCHIVE_PAGE)
		take_page(role, op, rows);
	role_done(role);
}

static void archive_start(struct role *role)
{
	static const enum sql_id statements[] = {
	    [STORE_ARCHIVE_NEXT] = SQL_ARCHIVE_NEXT,
	    [STORE_ARCHIVE_PAGE] = SQL_ARCHIVE_PAGE,
	    [STORE_ARCHIVE_NOTE] = SQL_ARCHIVE_NOTE,
	    [STORE_ARCHIVE_RELEASE] = SQL_ARCHIVE_RELEASE,
	};
	struct store_archive *op = BATCH_OP(role, struct store_archive, 0);
	struct params *p = &role->params;
	if (op->kind == STORE_ARCHIVE_PAGE || op->kind == STORE_ARCHIVE_NOTE)
		params_text(p, op->partition);
	if (op->kind == STORE_ARCHIVE_PAGE) {
		params_int8(p, op->after);
		params_int8(p, PAGE_BYTES);
	} else if (op->kind == STORE_ARCHIVE_NOTE) {
		params_text(p, op->file);
		params_int8(p, op->tasks);
		params_text(p, role->store->options.manager_name);
	}
	params_int8(p, role->store->manager_id);
	role_run(role, statements[op->kind], on_archive);
}

static bool alone(const struct role *role, const struct store_op *other)
{
	(void)role, (void)other;
	return false;
}

void store_archive(struct store *store, struct store_archive *op)
{
	static const struct op_kind kind = {.name = "archive", .start = archive_start, .joins = alone};
	store_give(store, ROLE_MAINTENANCE, &kind, &op->op, 1, 0);
}
