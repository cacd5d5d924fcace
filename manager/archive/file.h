/*
 * A file of the archive. It is written under a name with ".part" and renamed when all of it is on the disk. The
 * functions block, and must be called from one thread at a time.
 */
#ifndef REEVE_MANAGER_ARCHIVE_FILE_H
#define REEVE_MANAGER_ARCHIVE_FILE_H

#include "common/error.h"

#include <limits.h>
#include <stddef.h>

struct archive_file {
	int fd; /* −1: not open */
	char part[PATH_MAX];
	char path[PATH_MAX]; /* its final name */
	char directory[PATH_MAX];
	char name[NAME_MAX];
};

/* Creates DIRECTORY/NAME.jsonl.part, or empties it. Returns false with *error: ABORTED if another process is writing
 * it, else UNAVAILABLE. */
bool archive_file_open(struct archive_file *file, const char *directory, const char *name, struct reeve_error *error);

bool archive_file_write(struct archive_file *file, const char *text, size_t length, struct reeve_error *error);

/* Flushes the file to the disk, renames it to file->path and closes it. Never overwrites an existing file: if that has
 * the same content, it is kept instead; otherwise this one becomes NAME.2.jsonl, and so on. Returns false with *error
 * (UNAVAILABLE). */
bool archive_file_finish(struct archive_file *file, struct reeve_error *error);

/* Closes and removes an unfinished file. Does nothing if the file is not open. */
void archive_file_abandon(struct archive_file *file);

#endif
