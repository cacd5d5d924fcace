/*
 * Ledgers: what handlers and submitters saw themselves, apart from the database. README.md here has the format.
 *
 * A ledger is a file in a folder; every line is one JSON object, written by one write(2) to a file opened O_APPEND, so
 * that any number of processes may share one. All functions may be called from any thread. A ledger that cannot be
 * written ends the program: without it the run proves nothing.
 */
#ifndef TESTS_FAULTS_LEDGER_H
#define TESTS_FAULTS_LEDGER_H

#include <stdbool.h>
#include <stdint.h>

/* Opens FOLDER/NAME.KIND for appending (KIND: "handler" or "submit"); the descriptor is closed on exec. */
int ledger_open(const char *folder, const char *name, const char *kind);

/* CLOCK_MONOTONIC in microseconds: the same for all processes of a machine. */
int64_t ledger_now_us(void);

/* Appends one line, in printf's format; the newline is added. */
void ledger_write(int fd, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Of a text that must pass unchanged: its FNV-1a of 64 bits and its length, as "HEX/N", in `to`, which has LEDGER_PRINT
 * bytes. Returns that. */
enum { LEDGER_PRINT = 48 };
const char *ledger_print(const char *text, char *to);

/* Copies a name, with everything replaced that JSON would want escaped. */
void ledger_name(char *to, int size, const char *name);

#endif
