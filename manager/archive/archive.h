/*
 * The archive: before a partition of the history is dropped, its tasks are written to a file of JSON lines, one a task, with
 * their attempts and events.
 *
 * Rows are read a page at a time, and written on a thread of their own, so that neither memory nor the loop minds how many
 * there are, or how slow the disk is. When the file has its name and is safely stored, that is noted in the database, and only
 * then may the partition go. Whatever goes wrong in between, all of it is written again.
 */
#ifndef REEVE_MANAGER_ARCHIVE_ARCHIVE_H
#define REEVE_MANAGER_ARCHIVE_ARCHIVE_H

#include "manager/store/store.h"

#include <event2/event.h>

struct archive;

/* Starts it. The directory's text and the store must outlive it. `noted` is called after a partition has been archived: it
 * may be dropped. NULL: *error says why. */
struct archive *archive_create(struct event_base *base, struct store *store, const char *directory,
    void (*noted)(void *arg), void *arg, struct reeve_error *error);

/* The manager stops: nothing further is begun, or complained of. NULL is allowed. */
void archive_stop(struct archive *archive);

/* Ends it; what is under way is abandoned. The store must be closed before. NULL is allowed. */
void archive_destroy(struct archive *archive);

#endif
