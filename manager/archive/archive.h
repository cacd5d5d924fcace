/*
 * The archive: before a partition of the history is dropped, its tasks are written to a file of JSON lines, one line
 * per task, with their attempts and events.
 *
 * Rows are read one page at a time and written on a separate thread, so that many rows need little memory and a slow
 * disk does not block the loop. When the file is on the disk and has its name, the database records that, and only then
 * may the partition be dropped. After any failure before that, all of the partition is written again.
 */
#ifndef REEVE_MANAGER_ARCHIVE_ARCHIVE_H
#define REEVE_MANAGER_ARCHIVE_ARCHIVE_H

#include "manager/jobs/jobs.h"
#include "manager/store/store.h"

#include <event2/event.h>

struct archive;

/* Creates the archive and binds the job "archive". The string `directory` and the store must outlive it. After it has
 * archived a partition it runs the job "tables", which may drop the partition. Returns NULL with *error
 * (UNAVAILABLE). */
struct archive *archive_create(
    struct event_base *base, struct store *store, struct jobs *jobs, const char *directory, struct reeve_error *error);

/* Frees the archive and abandons an unfinished file. The store must be closed before. `archive` may be NULL. */
void archive_destroy(struct archive *archive);

#endif
