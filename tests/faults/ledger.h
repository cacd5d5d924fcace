/*
 * Ledgers: what handlers and submitters saw, recorded independently of the database. README.md in this folder describes
 * the format.
 *
 * A ledger is a file in a folder. Each line is one JSON object, written by one write(2) to a file opened with O_APPEND,
 * so any number of processes can share it. All functions are thread-safe. A ledger that cannot be written ends the
 * program, because a run without it proves nothing.
 */
#ifndef TESTS_FAULTS_LEDGER_H
#define TESTS_FAULTS_LEDGER_H

#include <stdbool.h>
#include <stdint.h>

/* Opens FOLDER/NAME.KIND for appending (KIND: "handler" or "submit"). The descriptor is closed on exec. */
int ledger_open(const char *folder, const char *name, const char *kind);

/* Returns CLOCK_MONOTONIC in microseconds, which is the same for all processes of a machine. */
int64_t ledger_now_us(void);

/* Appends one line, formatted as by printf, and a newline. */
void ledger_write(int fd, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Writes the 64-bit FNV-1a and the length of a text, as "HEX/N", to `to`, which has LEDGER_PRINT bytes, and returns it.
 * The checker compares these to see whether texts were changed. */
enum { LEDGER_PRINT = 48 };
const char *ledger_print(const char *text, char *to);

/* Copies a name, with '_' in place of characters that JSON would have to escape. Truncates it to size - 1 bytes. */
void ledger_name(char *to, int size, const char *name);

#endif
