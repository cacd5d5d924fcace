/*
 * What a program says on descriptor 3: JSON objects. Each begins on a line of its own, and may take several, of which only
 * the first begins with its brace. What is none, or too long, is passed over; the first such problem is kept, for whoever
 * judges the program's end, and logged. Nothing here ever waits.
 */
#ifndef REEVE_WORKER_HANDLERS_MESSAGES_H
#define REEVE_WORKER_HANDLERS_MESSAGES_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

enum { MESSAGE_MAX_BYTES = 64 * 1024 }; /* of an object, without the end of its last line */

struct messages {
	int fd;            /* our end of the pipe, which does not block; −1: closed */
	const char *about; /* whom log lines are about */
	char *text;        /* what there is of the next object */
	size_t length, room;
	int depth;         /* of its brackets so far */
	bool in_string;    /* it stands within a string, … */
	bool escaped;      /* … behind a backslash */
	bool within_line;  /* the next byte is not a line's first */
	bool skipping;     /* the rest of a line that was too long */
	char problem[320]; /* the first, for people; "": none */
};

/* Called for each message; what it wants of it it copies. */
typedef void messages_take(void *arg, const json_t *message);

/* Reads what is there, at most as much as a pipe usually holds. Closes the descriptor when everybody else has. */
void messages_read(struct messages *messages, messages_take *take, void *arg);

/* The program has ended: reads what it has left, the last line though it may have no end. */
void messages_finish(struct messages *messages, messages_take *take, void *arg);

/* Notes, and logs, what is wrong with a message, if that is the first time; called from `take`, too. */
void messages_complain(struct messages *messages, const char *what);

/* Closes the descriptor and frees everything. */
void messages_clear(struct messages *messages);

#endif
