/* Files that are written as a whole. */
#ifndef REEVE_COMMON_NEW_FILE_H
#define REEVE_COMMON_NEW_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Writes all bytes. Returns false with errno set. */
bool file_write_all(int fd, const void *bytes, size_t length);

/* Creates a file with these bytes and exactly this mode, and flushes it. `name` is relative to the directory `folder`,
 * or to the working directory with AT_FDCWD. Returns false with errno set, EEXIST if it exists; then it created none.
 */
bool file_create(int folder, const char *name, const void *bytes, size_t length, mode_t mode);

#endif
