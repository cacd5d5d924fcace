/* Everything that the messages refer to is on the heap, so that protobuf-c can free it. */
#include "manager/store/read_rows.h"

#include "common/json_names.h"
#include "manager/store/bind.h"
#include "manager/store/row.h"
#include "manager/store/store.h"

#include <reeve/v1/admin.pb-c.h>
#include <reeve/v1/task.pb-c.h>
#include <stdlib.h>
#include <string.h>

/* Works for the responses of all changes, which have the same fields. */
void take_matching(const PGresult *rows, void *response)
{
	Reeve__V1__CancelResponse found = REEVE__V1__CANCEL_RESPONSE__INIT, *out = response;
	bind_rows(SQL_FIND_TASKS, rows, &found.base);
	out->tasks = found.tasks;
	out->n_tasks = found.n_tasks;
	out->next_after_id = found.next_after_id;
	if (out->n_tasks == STORE_FILTER_MAX)
		out->next_after_id = out->tasks[out->n_tasks - 1]->id;
}

/* Returns the measure of a kind by its name, or NULL. */
static Reeve__V1__CheckMeasure *measure_of(const Reeve__V1__CheckResponse *response, const char *name)
{
	int kind;
	if (!json_enum_number(&reeve__v1__check_kind__descriptor, name, &kind))
		return NULL;
	for (size_t i = 0; i < response->n_measures; i++)
		if (response->measures[i]->kind == (Reeve__V1__CheckKind)kind)
			return response->measures[i];
	return NULL;
}

static Reeve__V1__CheckExample *example_from(const PGresult *rows, int row)
{
	Reeve__V1__CheckExample *e = mem_malloc(sizeof *e);
	reeve__v1__check_example__init(e);
	e->count = row_int8(rows, row, 3);
	e->ms = row_int8(rows, row, 4);
	e->task_id = row_int8(rows, row, 5);
	e->queue = row_copy(rows, row, 6);
	e->type = row_copy(rows, row, 7);
	e->name = row_copy(rows, row, 8);
	e->waits_for = row_int8(rows, row, 9);
	return e;
}

void take_check(const PGresult *rows, void *response)
{
	Reeve__V1__CheckResponse *out = response;
	bool known = false;
	for (int row = 0; row < PQntuples(rows); row++) {
		Reeve__V1__CheckMeasure *m = measure_of(out, row_text(rows, row, 0));
		known = known || !strcmp(row_text(rows, row, 0), "known");
		if (!m)
			continue;
		if (row_int8(rows, row, 1) > m->count)
			m->count = row_int8(rows, row, 1);
		if (row_int8(rows, row, 2) > m->longest_ms)
			m->longest_ms = row_int8(rows, row, 2);
		if (!row_int8(rows, row, 3))
			continue; /* only the longest or the count, without an example */
		m->examined = row_int8(rows, row, 1);
		m->examples = mem_realloc(m->examples, sizeof *m->examples * (m->n_examples + 1));
		m->examples[m->n_examples++] = example_from(rows, row);
	}
	if (!known)
		*(char *)out->manager = '\0';
}
