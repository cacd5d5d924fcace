/* Checks that a program's output was written. */
#ifndef REEVE_COMMON_OUTPUT_H
#define REEVE_COMMON_OUTPUT_H

#include <stdbool.h>

/* Returns whether what the program writes to standard output is lost: a write has failed, or the pipe has no reader any
 * more. */
bool output_lost(void);

/* Flushes standard output and returns `code`. If any output could not be written, it prints the reason to standard
 * error and returns EXIT_TASK_FAILED instead of 0. A reader that has closed the pipe (`reeve list | head`) is not a
 * failure. */
int output_finish(const char *program, int code);

#endif
