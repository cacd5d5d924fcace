/*
 * The end of what a program writes to standard error: all that is kept of it. Nothing here ever waits.
 */
#ifndef REEVE_WORKER_HANDLERS_TAIL_H
#define REEVE_WORKER_HANDLERS_TAIL_H

#include <stdbool.h>
#include <stddef.h>

enum { TAIL_BYTES = 64 * 1024 }; /* so much is kept at least, if so much was written */

/* All zero but `fd`: nothing was written. */
struct tail {
	int fd; /* our end of the pipe, which does not block; −1: closed */
	char *bytes;
	size_t length, room;
	bool cut; /* something came before */
};

/* Reads what is there once. False: there is nothing more for now; the descriptor is closed when everybody else has. */
bool tail_read(struct tail *tail);

/* The end of it as UTF-8 text of at most `most` bytes, without the newlines at its very end; "" for none. free() it. */
char *tail_text(const struct tail *tail, size_t most);

/* Closes the descriptor and frees everything. */
void tail_clear(struct tail *tail);

#endif
