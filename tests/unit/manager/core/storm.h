/* What the files of the random stress test share: see storm_test.c. */
#ifndef REEVE_TESTS_UNIT_CORE_STORM_H
#define REEVE_TESTS_UNIT_CORE_STORM_H

#include "tests/unit/manager/core/fake_answers.h"

#include <stdbool.h>
#include <stdint.h>

enum { STORM_ROWS = 4000 };

enum row_state { ROW_UNSEEN, ROW_WAITS, ROW_RUNS, ROW_OVER };

struct row {
	enum row_state state; /* as committed */
	int route;
	int32_t priority;
	int64_t version, run_at;
	int worker; /* our worker that has it, from 1; 0: the other manager's */
	int64_t fetch_id;
	bool locked; /* by a statement that has not committed */
};

/* The table: rows[1] to rows[row_count]. */
extern struct row rows[STORM_ROWS + 1];
extern int row_count;

/* Begins a storm: empties the table, and forgets all operations. The number determines what storm_chance returns. */
void storm_begin(uint64_t number);

/* Returns a random number below this one. */
uint32_t storm_chance(uint32_t below);

/* Returns the version after this one. */
int64_t storm_later(int64_t version, int64_t now);

/* Collects the operations that the core has started. */
void storm_gather(void);

/* Begins, commits or answers one of them. */
void storm_move_some_op(void);

/* Ends all of them. */
void storm_end_ops(void);

#endif
