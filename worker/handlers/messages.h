/*
 * Messages of a program on descriptor 3: JSON objects. Each begins on a new line. It may have several lines, of which
 * only the first may begin with a brace. A line "LOG | text" stands for {"log": "text"},
 * "PROGRESS | 40 text" for {"progress": 40, "message": "text"}, "WORD | text" with any other word for {"directive":
 * "WORD | text"}. Anything else that is not a JSON object, or is too long, is skipped; the first such problem is kept,
 * for the code that sets the outcome, and logged. Nothing here blocks.
 */
#ifndef REEVE_WORKER_HANDLERS_MESSAGES_H
#define REEVE_WORKER_HANDLERS_MESSAGES_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

enum { MESSAGE_MAX_BYTES = 64 * 1024 }; /* of an object, without the end of its last line */

struct messages {
	int fd;             /* our end of the pipe, non-blocking; −1: closed */
	const char *about;  /* the object of log lines */
	const char *source; /* where they come from, for problems: "descriptor 3" */
	char *text;         /* the bytes of the next object so far */
	size_t length, size;
	int depth;         /* of its brackets so far */
	bool in_string;    /* inside a string */
	bool escaped;      /* in a string, after a backslash */
	bool within_line;  /* the next byte is not the first of its line */
	bool skipping;     /* skips the rest of a line that was too long */
	char problem[320]; /* the first one, human-readable; "": none */
};

/* Called for each message. It must copy what it needs. */
typedef void messages_take(void *arg, const json_t *message);

/* Reads what is available, up to 256 KiB. Closes the descriptor when no other process has it open. */
void messages_read(struct messages *messages, messages_take *take, void *arg);

/* Reads the rest after the program has ended, including a last line without a newline. */
void messages_finish(struct messages *messages, messages_take *take, void *arg);

/* Records and logs a problem with a message, if it is the first. `take` may call it. */
void messages_complain(struct messages *messages, const char *what);

/* Closes the descriptor and frees everything. */
void messages_clear(struct messages *messages);

#endif
