/* Results that a worker has stored in files (worker/result_store.h). */
#ifndef REEVE_CLIENT_STORED_H
#define REEVE_CLIENT_STORED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Returns true if a result is the address of a file that a worker has stored for the task. Only such files are read: a
 * handler can write any text as its result. */
bool stored_is(int64_t task, const char *result);

/* Reads the file from `directory`, wherever the worker has that, and checks its length and hash. Returns its bytes,
 * which the caller must free; NULL: it cannot be read, which has been reported. */
char *stored_read(const char *directory, int64_t task, const char *result, size_t *length);

#endif
