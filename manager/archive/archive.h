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

#include "manager/jobs/jobs.h"
#include "manager/store/store.h"

#include <event2/event.h>

struct archive;

/* Starts it, as the job "archive". The directory's text and the store must outlive it. After a partition has been archived the
 * job "tables" runs: it may drop that one. NULL: *error says why. */
struct archive *archive_create(struct event_base *base, struct store *store, struct jobs *jobs, const char *directory,
    struct reeve_error *error);

/* Ends it; what is under way is abandoned. The store must be closed before. NULL is allowed. */
void archive_destroy(struct archive *archive);

#endif
