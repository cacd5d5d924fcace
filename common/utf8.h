/* UTF-8 from outside. Nothing here allocates. */
#ifndef REEVE_COMMON_UTF8_H
#define REEVE_COMMON_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/* Returns the length of the character that begins at `at` and fits before `end`, or 0 if there is none or it is NUL. */
size_t utf8_character(const unsigned char *at, const unsigned char *end);

/* Returns true if the bytes are valid UTF-8 (no overlong forms, no surrogates, nothing above U+10FFFF) without NUL. */
bool utf8_valid(const char *text, size_t length);

/* Returns the length in bytes of the longest prefix of text[0..length) that does not end within a character. */
size_t utf8_cut(const char *text, size_t length);

#endif
