/*
 * The states of a task and the transitions between them, in one table. docs/states.md is printed from it (reeve-manager
 * --print-states), and a test compares it with the behavior of the SQL. Nothing else changes a status.
 */
#ifndef REEVE_MANAGER_CORE_STATES_H
#define REEVE_MANAGER_CORE_STATES_H

#include <stdio.h>

enum task_state {
	STATE_NONE, /* before the submit */
	STATE_QUEUED,
	STATE_EXECUTING,
	STATE_FAILED,
	STATE_COMPLETED,
	STATE_DEAD,
	STATE_CANCELLED,
	STATE_COUNT
};

struct transition {
	enum task_state from;
	const char *event; /* its name in tests and docs */
	enum task_state to;
	const char *audit;     /* the name of the audit event */
	const char *statement; /* the file in sql/statements/ that does it */
	const char *help;
};

/* Ends with an event of NULL. */
extern const struct transition transitions[];

/* "queued", "executing", …; "–" for STATE_NONE. */
const char *state_name(enum task_state state);

/* Writes docs/states.md. */
void states_print(FILE *out);

#endif
