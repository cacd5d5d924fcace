/* Runs the steps of a batch. See steps.h. */
#include "manager/store/steps.h"

static void on_step(struct role *role, const PGresult *rows);

static void run_next(struct role *role)
{
	for (; role->step < role->steps_end; role->step++) {
		params_reset(&role->params);
		if (role->step->add && !role->step->add(role))
			continue;
		role_run(role, role->step->statement, on_step);
		return;
	}
	role_done(role);
}

static void on_step(struct role *role, const PGresult *rows)
{
	static const struct conn_result retry = {
	    .kind = CONN_REFUSED, .sqlstate = "40001", .message = "the rows have changed between two statements"};
	const struct step *step = role->step++;
	switch (step->take ? step->take(role, rows) : STEP_NEXT) {
	case STEP_COMMIT:
		while (role->step->statement != SQL_COMMIT)
			role->step++;
		run_next(role);
		break;
	case STEP_NEXT: run_next(role); break;
	case STEP_RETRY: role_refused(role, &retry); break;
	case STEP_ENDED: break;
	}
}

void steps_run(struct role *role, const struct step *steps, int count)
{
	role->step = steps;
	role->steps_end = steps + count;
	run_next(role);
}

bool steps_in_transaction(struct role *role)
{
	return conn_in_transaction(role->conn);
}
