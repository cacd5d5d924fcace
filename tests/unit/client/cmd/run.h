/* Runs `reeve` inside the test's process; the test supplies its standard input and gets its standard output and
 * error. */
#ifndef REEVE_TESTS_CLIENT_RUN_H
#define REEVE_TESTS_CLIENT_RUN_H

#include "tests/unit/client/standin.h"

/* The output of the last run; valid until the next run. */
extern char run_out[1 << 20];
extern char run_err[1 << 20];

/* The fake manager of the tests; REEVE_MANAGER is set to its URL. */
extern struct standin *run_standin;
void run_begin(void);
void run_end(void);

/* Runs `reeve` with the arguments up to NULL and returns its exit code. `input` (NULL: none) is its standard input. */
int run_reeve(const char *input, ...) __attribute__((sentinel));
int run_reeve_bytes(const char *input, size_t length, ...) __attribute__((sentinel));

/* The same with output and error on one terminal, `columns` wide; run_out has what the terminal got. */
int run_reeve_on_terminal(int columns, ...) __attribute__((sentinel));

/* Creates a file with this content, which is removed when the test ends. Returns its path, which is valid until the
 * next call. */
const char *run_file(const char *text);

#endif
