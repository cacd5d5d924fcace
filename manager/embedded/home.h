/*
 * The folder of an embedded PostgreSQL: its owner, its lock, and the place of its socket. embedded.h lists its content.
 */
#ifndef REEVE_EMBEDDED_HOME_H
#define REEVE_EMBEDDED_HOME_H

#include "common/error.h"

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

struct home {
	char folder[PATH_MAX];       /* absolute */
	char cluster[PATH_MAX + 16]; /* the cluster's folder, which may not exist yet */
	char log[PATH_MAX + 16];     /* the server's log */
	char socket[PATH_MAX + 16];  /* the socket's folder; short enough, and needs no quotes */
	bool exists;                 /* the cluster exists */
	int major;                   /* its major version; 0 if it does not exist */
	int lock;                    /* file descriptor; −1: not open */
	bool change_user;            /* we are root, and the cluster's user is not */
	uid_t uid;                   /* the cluster's user */
	gid_t gid;
};

/* Creates the folder if it does not exist, locks it, chooses the cluster's user and creates the socket's folder.
 * Returns false with *error: FAILED_PRECONDITION (in use by another process, or DIR/postgres is not a cluster),
 * PERMISSION_DENIED (we or the cluster's user may not use it), INVALID_ARGUMENT (its name is empty or too long),
 * INTERNAL. */
bool home_open(struct home *home, const char *folder, struct reeve_error *error);

/* Creates an empty folder that only the cluster's user may enter. `path` must begin with home->folder. */
bool home_make_private(const struct home *home, const char *path, struct reeve_error *error);

/* Removes the file or folder at `path`, inside the folder, if there is one. Uses only the rights of the cluster's user,
 * who could put links there, except to remove an empty folder. */
void home_remove(const struct home *home, const char *path);

/* Opens the log to append to it. Returns a file descriptor, or −1 with *error. Empties a log over 16 MiB. */
int home_open_log(const struct home *home, struct reeve_error *error);

/* Returns true if a PostgreSQL process still works in the cluster. */
bool home_in_use(const struct home *home);

/* Removes the socket's folder, unless a PostgreSQL process still works in the cluster, and unlocks the folder. */
void home_close(struct home *home);

#endif
