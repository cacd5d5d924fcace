/* Checks of text that came from outside. */
#ifndef REEVE_COMMON_TEXT_H
#define REEVE_COMMON_TEXT_H

#include <stdbool.h>
#include <stddef.h>

enum { NAME_MAX_BYTES = 255 };

/* True if the bytes are valid UTF-8 (no overlong forms, no surrogates, at most U+10FFFF) without NUL. */
bool utf8_valid(const char *text, size_t length);

/* The number of bytes, at most `length`, of the longest whole-character prefix: where to cut. */
size_t utf8_cut(const char *text, size_t length);

/* Why `name` is no name, as a phrase that follows the field's name ("is empty", "is longer than 255 bytes", "holds a
 * control character", "is not UTF-8"), or NULL if it is one. */
const char *name_problem(const char *name, bool may_be_empty);

/* Copies `length` bytes to a new NUL-terminated string with every invalid byte and every NUL replaced by U+FFFD. Never
 * NULL; free() it. */
char *utf8_repair(const char *bytes, size_t length);

#endif
