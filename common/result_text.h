/* Results are text. One that is not, or that begins as this text does, is in it: a data URL with its bytes in base64.
 * So each text stands for exactly one result. */
#ifndef REEVE_COMMON_RESULT_TEXT_H
#define REEVE_COMMON_RESULT_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#define RESULT_BINARY "data:application/octet-stream;base64,"

/* Returns the text of a binary result, or of one that begins with RESULT_BINARY, which the caller must free; NULL: the
 * result is text as it is. */
char *result_encode(const void *result, size_t length);

/* Returns the bytes that a text stands for, with a NUL behind them, which the caller must free; NULL: the text is the
 * result. */
char *result_decode(const char *text, size_t *length);

#endif
