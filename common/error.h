/*
 * Errors: a gRPC status code, and a message that says what failed, with which object, and what to do. Functions that
 * return false (or NULL) on failure set the error through an out-parameter.
 */
#ifndef REEVE_COMMON_ERROR_H
#define REEVE_COMMON_ERROR_H

#include <reeve/v1/envelope.pb-c.h>
#include <stdbool.h>

/* Short names for gRPC's codes: STATUS(NOT_FOUND). */
#define STATUS(name) REEVE__V1__STATUS_CODE__STATUS_CODE_##name
typedef Reeve__V1__StatusCode reeve_status;

struct reeve_error {
	reeve_status code; /* STATUS(OK): no error */
	char message[512]; /* without a final full stop or newline */
};

/* Sets *error (which may be NULL) and returns false, so that callers can write `return error_set(…)`. */
bool error_set(struct reeve_error *error, reeve_status code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Returns "NOT_FOUND" for STATUS(NOT_FOUND), "UNKNOWN" for a number that is not a code. The string is a constant. */
const char *status_name(reeve_status code);

/* Exit codes of the programs. */
enum exit_code {
	EXIT_OK = 0,
	EXIT_TASK_FAILED = 1,  /* a task did not complete; for servers: a failure while running */
	EXIT_USAGE = 2,        /* wrong options or arguments */
	EXIT_UNREACHABLE = 3,  /* no manager reachable, or none that accepts calls; no database reachable */
	EXIT_REFUSED = 4,      /* the manager refused; for servers: the database's schema or rights do not allow it */
	EXIT_NOTHING_DONE = 5, /* a worker for one task was stopped before it ran one */
	EXIT_NO_MANAGER = 6,   /* a worker got no answer from a manager for as long as it may wait */
};

#endif
