/* The columns of batches_shown, in their order. */
#include "manager/store/batch_rows.h"

#include "manager/store/row.h"

#include <assert.h>
#include <stdlib.h>

Reeve__V1__Batch *batch_from_row(const PGresult *rows, int row, int column)
{
	Reeve__V1__Batch *b = mem_malloc(sizeof *b);
	int c = column;
	reeve__v1__batch__init(b);
	b->id = row_int8(rows, row, c++);
	b->name = row_copy(rows, row, c++);
	b->queue = row_copy(rows, row, c++);
	b->implicit = row_bool(rows, row, c++);
	b->state = row_copy(rows, row, c++);
	b->phase = row_copy(rows, row, c++);
	b->submitted = row_int8(rows, row, c++);
	b->pending = row_int8(rows, row, c++);
	b->success = row_int8(rows, row, c++);
	b->failed = row_int8(rows, row, c++);
	b->created_us = row_time(rows, row, c++);
	b->started_us = row_time(rows, row, c++);
	b->closed_us = row_time(rows, row, c++);
	b->ended_us = row_time(rows, row, c++);
	b->duration_ms = row_int8(rows, row, c++);
	b->remaining_ms = row_int8(rows, row, c++);
	b->entry_id = row_int8(rows, row, c++);
	b->entry_status = row_copy(rows, row, c++);
	b->exit_id = row_int8(rows, row, c++);
	b->exit_status = row_copy(rows, row, c++);
	b->source = row_copy(rows, row, c++);
	b->callbacks_waiting = row_int8(rows, row, c++);
	b->callbacks_given_up = row_int8(rows, row, c++);
	assert(c == column + BATCH_COLUMNS);
	return b;
}
