/* The outcomes of attempts, and what becomes of their tasks. */
#include "manager/store/store_internal.h"

#include <assert.h>
#include <string.h>

static const char *const outcome_names[STORE_OUTCOMES] = {
    [STORE_COMPLETED] = "completed",
    [STORE_FAILED] = "failed",
    [STORE_FATAL] = "fatal",
    [STORE_RETURNED] = "returned",
    [STORE_CANCELLED] = "cancelled",
    [STORE_LEASE_ENDED] = "lease_ended",
    [STORE_EXPIRED] = "expired",
    [STORE_LOST] = "lost",
    [STORE_REQUEUED] = "requeued",
};

const char *store_outcome_name(enum store_outcome outcome)
{
	assert(outcome < STORE_OUTCOMES);
	return outcome_names[outcome];
}

void report_row_take(struct store_result *r, const PGresult *rows, int row)
{
	static const char *const all[] = {"failed", "queued", "dead", "cancelled", "completed"};
	const char *becomes = row_text(rows, row, 2);
	int i = 0;
	while (i < 4 && strcmp(all[i], becomes))
		i++;
	r->ack = STORE_ACCEPTED;
	r->becomes = all[i];
	r->ended = i >= 2;
	r->due_us = row_time(rows, row, 3);
	r->version = row_time(rows, row, 4);
	r->route = row_int4(rows, row, 5);
	r->priority = row_int4(rows, row, 6);
	r->batched = row_bool(rows, row, 7);
	r->attempt = row_int2(rows, row, 8);
}
