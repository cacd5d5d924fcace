/* Batches of several statements, usually a transaction, as a list of steps. */
#ifndef REEVE_MANAGER_STORE_STEPS_H
#define REEVE_MANAGER_STORE_STEPS_H

#include "manager/store/role.h"

/* How a batch continues after a step. */
enum step_result {
	STEP_NEXT,
	STEP_COMMIT, /* the steps before the next SQL_COMMIT are not needed */
	STEP_RETRY,  /* the batch is rolled back and tried again, as after a serialization failure */
	STEP_ENDED,  /* the step has ended the batch itself */
};

struct step {
	/* Adds the parameters. Returns false if the statement is not needed now. NULL: it has no parameters. */
	bool (*add)(struct role *role);
	enum sql_id statement;
	/* Reads the rows. NULL: there are none to read. */
	enum step_result (*take)(struct role *role, const PGresult *rows);
};

/* Runs the steps in order; the batch is done after the last one. `steps` must be static. */
void steps_run(struct role *role, const struct step *steps, int count);

#define STEPS(list) (list), (int)(sizeof(list) / sizeof *(list))

/* The `add` of a COMMIT that ends a transaction only if one is open. */
bool steps_in_transaction(struct role *role);

#endif
