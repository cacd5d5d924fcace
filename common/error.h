/*
 * What went wrong, for a caller that must tell somebody: a gRPC status code and a sentence that says what, with which
 * object, and what to do. Filled through an out-parameter by functions that return false (or NULL) on failure.
 */
#ifndef REEVE_COMMON_ERROR_H
#define REEVE_COMMON_ERROR_H

#include <reeve/v1/envelope.pb-c.h>
#include <stdbool.h>

/* gRPC's codes under a short name: STATUS(NOT_FOUND). */
#define STATUS(name) REEVE__V1__STATUS_CODE__STATUS_##name
typedef Reeve__V1__StatusCode reeve_status;

struct reeve_error {
	reeve_status code; /* STATUS(OK) while nothing is wrong */
	char message[512]; /* without a final full stop or newline */
};

/* Sets *error (which may be NULL) and returns false, so that `return error_set(…)` reads well. */
bool error_set(struct reeve_error *error, reeve_status code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* "NOT_FOUND" for STATUS(NOT_FOUND); "UNKNOWN" for numbers that mean nothing. A constant string. */
const char *status_name(reeve_status code);

/* The process's exit codes. */
enum exit_code {
	EXIT_OK = 0,
	EXIT_TASK_FAILED = 1,   /* a task did not complete; for servers: a failure while running */
	EXIT_USAGE = 2,         /* wrong options or arguments */
	EXIT_UNREACHABLE = 3,   /* no manager, or none that has room; or no database */
	EXIT_REFUSED = 4,       /* the manager said no; for servers: the database's schema or rights say no */
	EXIT_NOTHING_DONE = 5,  /* a worker for one task was stopped before it had done one */
};

#endif
