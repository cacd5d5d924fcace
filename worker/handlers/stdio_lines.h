/*
 * What a child of a stdio handler writes for a task: lines of JSON (docs/worker.md).
 */
#ifndef REEVE_WORKER_HANDLERS_STDIO_LINES_H
#define REEVE_WORKER_HANDLERS_STDIO_LINES_H

#include "worker/handlers/run.h"

/* An attempt, and what has been read of the next line. */
struct stdio_lines {
	struct run run; /* first, so that each can be found from the other */
	char id[48];    /* of the attempt, in each line */
	char *text;
	size_t length, size;
};

/* Reads once from the child's standard output, and takes the complete lines up to the answer (run->answered), or up to
 * one that is not the attempt's: then the child is to be killed (run->broken_ms, run->too_long). False: nothing more
 * for now. `run` is that of a struct stdio_lines. */
bool stdio_lines_read(struct run *run);

/* Notes and logs a problem with the text that has been read. */
void stdio_lines_complain(struct stdio_lines *lines, const char *problem);

/* Returns true if a text has only white space. */
bool stdio_lines_blank(const char *text, size_t length);

#endif
