/*
 * Reads INI files: sections [NAME], settings NAME = VALUE, and comments, which are lines that begin with # or ;. White
 * space around names and values does not count. A value can contain anything else. Lines are UTF-8, of up to 64 KiB.
 *
 * Debian's libinih cuts section names after 49 bytes and lines after 199, and ends every value at " ;": types can have
 * 255 bytes, and commands of handlers can contain anything.
 */
#ifndef REEVE_COMMON_INI_H
#define REEVE_COMMON_INI_H

#include <stdbool.h>
#include <stdio.h>

/* What to do with the lines, which count from 1. Each function returns whether to read on; if not, it has set an error
 * of its own. */
struct ini_reader {
	bool (*section)(void *arg, int line, const char *name);
	bool (*setting)(void *arg, int line, const char *name, const char *value); /* may precede the first section */
	bool (*invalid)(void *arg, int line, const char *problem);                 /* returns false */
	void *arg;
	bool inline_comments; /* a semicolon after white space begins a comment, too */
};

/* Reads all lines. Returns false if a function has. Check ferror(file) afterwards. */
bool ini_read(FILE *file, const struct ini_reader *reader);

#endif
