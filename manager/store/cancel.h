/* The end of waiting tasks as steps of a transaction: they are marked, then ended. */
#ifndef REEVE_MANAGER_STORE_CANCEL_H
#define REEVE_MANAGER_STORE_CANCEL_H

#include "manager/store/steps.h"

/* The tasks to end: the state of the batch in flight. */
struct cancel {
	int count;     /* 0: there is nothing to do */
	int ended;     /* result: the number that has ended; their ids are then the first ones of `ids` */
	char code[32]; /* with which they end dead */
	char reason[400];
	int64_t ids[];
};

/* Returns the state for up to `max` tasks, without any, and sets it as the role's. */
struct cancel *cancel_begin(struct role *role, int max);

/* Add the parameters of cancel_mark.sql and cancel_waiting.sql. `code` NULL: the tasks end cancelled. */
void cancel_mark_params(
    struct role *role, const int64_t *ids, int count, const char *actor, const char *reason, const char *code);
void cancel_waiting_params(struct role *role, const int64_t *ids, int count, const char *reason);

/* The `add` of these steps, and a `take` for the second one. */
bool cancel_add_mark(struct role *role);
bool cancel_add_waiting(struct role *role);
enum step_result cancel_take_ended(struct role *role, const PGresult *rows);

/* The last steps of a transaction that ends the tasks of struct cancel. */
#define CANCEL_STEPS(take_ended)                                                                                       \
	{cancel_add_mark, SQL_CANCEL_MARK, NULL}, {cancel_add_waiting, SQL_CANCEL_WAITING, (take_ended)},                  \
	{                                                                                                                  \
		NULL, SQL_COMMIT, NULL                                                                                         \
	}

#endif
