/*
 * What a program says on descriptor 3: JSON objects, one a line. Lines that are none, or too long, are ignored, which
 * is logged once for each program. Nothing here ever waits.
 */
#ifndef REEVE_WORKER_HANDLERS_MESSAGES_H
#define REEVE_WORKER_HANDLERS_MESSAGES_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

enum { MESSAGE_MAX_BYTES = 64 * 1024 }; /* of a line, without its end */

struct messages {
	int fd;            /* our end of the pipe, which does not block; −1: closed */
	const char *about; /* whom log lines are about */
	char *line;        /* what there is of the next line */
	size_t length, room;
	bool skipping;   /* the rest of a line that was too long */
	bool complained; /* logged */
};

/* Called for each message; what it wants of it it copies. */
typedef void messages_take(void *arg, const json_t *message);

/* Reads what is there, at most as much as a pipe holds. Closes the descriptor when everybody else has. */
void messages_read(struct messages *messages, messages_take *take, void *arg);

/* The program has ended: reads what it has left, the last line though it may have no end. */
void messages_finish(struct messages *messages, messages_take *take, void *arg);

/* Logs what is wrong with a message, if that is the first time. */
void messages_complain(struct messages *messages, const char *what);

/* Closes the descriptor and frees everything. */
void messages_clear(struct messages *messages);

#endif
