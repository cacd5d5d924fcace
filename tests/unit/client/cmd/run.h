/* Runs `reeve` inside the test's process, with its standard input, output and error in the test's hands. */
#ifndef REEVE_TESTS_CLIENT_RUN_H
#define REEVE_TESTS_CLIENT_RUN_H

#include "tests/unit/client/standin.h"

/* What the last run wrote; they live until the next. */
extern char run_out[1 << 20];
extern char run_err[1 << 20];

/* The manager of the tests, with REEVE_MANAGER set to it. */
extern struct standin *run_standin;
void run_begin(void);
void run_end(void);

/* Runs `reeve` with the arguments up to NULL and returns its exit code. `input` (NULL: none) is its standard input. */
int run_reeve(const char *input, ...) __attribute__((sentinel));
int run_reeve_bytes(const char *input, size_t length, ...) __attribute__((sentinel));

/* The same with output and error on one terminal, `columns` wide; what it showed is in run_out. */
int run_reeve_on_terminal(int columns, ...) __attribute__((sentinel));

/* A file with this text; it is gone when the test ends. Returns its path, which lives until the next call. */
const char *run_file(const char *text);

#endif
