/* Checks of strings from outside. */
#ifndef REEVE_COMMON_TEXT_H
#define REEVE_COMMON_TEXT_H

#include "common/utf8.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Returns the text, or NULL if it is empty. */
static inline const char *text_given(const char *text)
{
	return text && *text ? text : NULL;
}

/* Returns why `name` is invalid, as a phrase to follow the field's name ("is empty", "is longer than 255 bytes", "holds
 * a control character", "is not UTF-8"), or NULL if it is valid. */
const char *name_problem(const char *name, bool may_be_empty);

/* Writes bytes in hexadecimal digits, in lower case and with a NUL: 2 * length + 1 bytes. Returns `out`. */
char *text_hex(const uint8_t *bytes, size_t length, char *out);

/* Copies `length` bytes to a new NUL-terminated string, and replaces each invalid byte and each NUL by U+FFFD. Never
 * returns NULL; free() the result. */
char *utf8_repair(const char *bytes, size_t length);

#endif
