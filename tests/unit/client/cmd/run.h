/* Runs `reeve` inside the test's process; the test supplies its standard input and gets its standard output and
 * error. */
#ifndef REEVE_TESTS_CLIENT_RUN_H
#define REEVE_TESTS_CLIENT_RUN_H

#include "tests/unit/client/fake_server.h"

/* The output of the last run; valid until the next run. */
extern char run_out[1 << 20];
extern char run_err[1 << 20];

/* The fake manager of the tests; REEVE_MANAGER is set to its URL. */
extern struct fake_server *run_fake_server;
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

/* Run `reeve` without input, and check its output. */
#define RUN(code, ...) cr_assert(eq(int, run_reeve(NULL, __VA_ARGS__, NULL), code), "%s%s", run_out, run_err)
#define OUT(text) cr_assert(eq(str, run_out, (char *)(text)))
#define ERR(text) cr_assert(eq(str, run_err, (char *)(text)))
#define OUT_HAS(text) cr_assert(strstr(run_out, text) != NULL, "%s", run_out)
#define OUT_HAS_NOT(text) cr_assert(strstr(run_out, text) == NULL, "%s", run_out)
#define ERR_HAS(text) cr_assert(strstr(run_err, text) != NULL, "%s", run_err)

#endif
