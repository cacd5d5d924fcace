/* The end of what a program prints: it must have arrived. */
#ifndef REEVE_COMMON_OUTPUT_H
#define REEVE_COMMON_OUTPUT_H

/* Writes what standard output still buffers. Returns `code`; if anything could not be written it says why on standard error, and
 * returns EXIT_TASK_FAILED in place of 0. A reader that has gone away (`reeve list | head`) is no failure. */
int output_finish(const char *program, int code);

#endif
