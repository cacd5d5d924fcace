/*
 * The states of a task and the transitions between them: one table, from which docs/states.md is made (reeve-manager
 * --print-states), and against which a test holds what the SQL does. Nothing else changes a status.
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
	const char *event;     /* what happens, as tests and docs name it */
	enum task_state to;
	const char *audit;     /* the event's name in the audit */
	const char *statement; /* the file under sql/statements/ that does it */
	const char *sentence;
};

/* Ends with an event of NULL. */
extern const struct transition transitions[];

/* "queued", "executing", …; "–" for STATE_NONE. */
const char *state_name(enum task_state state);

/* Writes docs/states.md. */
void states_print(FILE *out);

#endif
