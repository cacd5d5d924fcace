/*
 * Keeps the end of what a program writes to standard error. Nothing here blocks.
 */
#ifndef REEVE_WORKER_HANDLERS_TAIL_H
#define REEVE_WORKER_HANDLERS_TAIL_H

#include <stdbool.h>
#include <stddef.h>

enum { TAIL_BYTES = 64 * 1024 }; /* this much is kept, if the program wrote it */

/* All zero but `fd`: nothing was written. */
struct tail {
	int fd; /* our end of the pipe, non-blocking; −1: closed */
	char *bytes;
	size_t length, size;
	bool cut; /* earlier bytes were dropped */
};

/* Reads once what is available. False: nothing more for now. Closes the descriptor when no other process has it
 * open. */
bool tail_read(struct tail *tail);

/* Adds bytes as if they had been read. */
void tail_append(struct tail *tail, const char *bytes, size_t length);

/* Returns the end of it as a UTF-8 string of up to `max` bytes, without trailing newlines; "" if there is none. The
 * caller must free() it. */
char *tail_text(const struct tail *tail, size_t max);

/* Closes the descriptor and frees everything. */
void tail_clear(struct tail *tail);

#endif
