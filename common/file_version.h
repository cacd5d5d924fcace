/* Versions of files, to notice that a file has changed. */
#ifndef REEVE_COMMON_FILE_VERSION_H
#define REEVE_COMMON_FILE_VERSION_H

#include <stdbool.h>
#include <sys/stat.h>

/* All zero: there is no such file. */
struct file_version {
	ino_t inode;
	off_t size;
	struct timespec modified;
};

/* Returns the version of a file. Any thread may call it. */
struct file_version file_version_of(const char *path);

bool file_version_same(const struct file_version *a, const struct file_version *b);

#endif
