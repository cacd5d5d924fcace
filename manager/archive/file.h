/*
 * A file of the archive: written beside its place as NAME.part, and given its name when all of it is on the disk. Functions
 * block, and are called from one thread at a time.
 */
#ifndef REEVE_MANAGER_ARCHIVE_FILE_H
#define REEVE_MANAGER_ARCHIVE_FILE_H

#include "common/error.h"

#include <limits.h>
#include <stddef.h>

struct archive_file {
	int fd;               /* −1: not open */
	char part[PATH_MAX];
	char path[PATH_MAX];  /* its name in the end */
	char directory[PATH_MAX];
	char name[NAME_MAX];
};

/* Begins DIRECTORY/NAME.jsonl.part, which is emptied if it is there. Refused if another process is writing it. */
bool archive_file_open(struct archive_file *file, const char *directory, const char *name, struct reeve_error *error);

bool archive_file_write(struct archive_file *file, const char *text, size_t length, struct reeve_error *error);

/* Brings all of it to the disk and gives it its name, file->path. A file that is there already is not written over: if it
 * is the same it will do, else this one is named NAME.2.jsonl, and so on. Closes it. */
bool archive_file_finish(struct archive_file *file, struct reeve_error *error);

/* Closes and removes one that is not finished; nothing happens to others. */
void archive_file_abandon(struct archive_file *file);

#endif
