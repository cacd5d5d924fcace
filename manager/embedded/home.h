/*
 * The folder that an embedded PostgreSQL lives in: whose it is, that nobody else uses it, where its socket goes.
 * embedded.h shows what is in it.
 */
#ifndef REEVE_EMBEDDED_HOME_H
#define REEVE_EMBEDDED_HOME_H

#include "common/error.h"

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

struct home {
	char folder[PATH_MAX];       /* absolute */
	char cluster[PATH_MAX + 16]; /* where the cluster is, or will be */
	char log[PATH_MAX + 16];     /* what the server writes */
	char socket[PATH_MAX + 16];  /* the socket's folder, short enough and without characters that need quoting */
	bool exists;                 /* whether there is a cluster */
	int major;                   /* its major version */
	int lock;                    /* file descriptor */
	bool change_user;            /* whether the cluster's user is another than ours */
	uid_t uid;                   /* the cluster's user */
	gid_t gid;
};

/* Makes the folder if need be, locks it, finds out who is to own the cluster and makes the socket's folder. False with
 * *error: FAILED_PRECONDITION (in use by another process), PERMISSION_DENIED (we or the cluster's user may not),
 * INTERNAL. */
bool home_open(struct home *home, const char *folder, struct reeve_error *error);

/* Makes an empty folder inside for the cluster's user alone. `path` begins with home->folder. */
bool home_make_private(const struct home *home, const char *path, struct reeve_error *error);

/* Removes what is at `path`, inside the folder, if anything is: with no other rights than those of the cluster's user, who can
 * put links in the way. */
void home_remove(const struct home *home, const char *path);

/* Opens the log for appending: a file descriptor, or −1 with *error. A log over 16 MiB is begun anew. */
int home_open_log(const struct home *home, struct reeve_error *error);

/* Whether some PostgreSQL process still works in the cluster. */
bool home_in_use(const struct home *home);

/* Removes a socket's folder under /tmp and unlocks. */
void home_close(struct home *home);

#endif
