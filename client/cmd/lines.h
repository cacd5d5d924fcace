/* The lines of a file, read twice: once to check them all, once to send them. */
#ifndef REEVE_CLIENT_LINES_H
#define REEVE_CLIENT_LINES_H

#include "common/error.h"

#include <stdint.h>
#include <stdio.h>

enum { LONGEST_LINE = 64 * 1024 * 1024 };

struct lines {
	const char *name; /* for messages */
	FILE *file;
	int64_t size;     /* in bytes */
	int64_t number;   /* of the line read last, from 1 */
	int64_t offset;   /* behind it */
	char *text;       /* it, with NUL behind it */
	size_t length;
	size_t capacity;
};

/* Opens a file, or with "-" standard input. False: *error says why. */
bool lines_open(struct lines *lines, const char *path, struct reeve_error *error);
void lines_close(struct lines *lines);

/* Gets ready to read. What cannot be read twice, as standard input, is copied to an unnamed temporary file. */
bool lines_prepare(struct lines *lines, struct reeve_error *error);

/* Reads the next line that is not blank into text, without its newline. False: there is none, or it could not be read:
 * then error->code is not OK. */
bool lines_next(struct lines *lines, struct reeve_error *error);

/* Begins again with the first. */
void lines_rewind(struct lines *lines);

#endif
