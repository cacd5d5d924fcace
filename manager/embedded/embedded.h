/*
 * An embedded PostgreSQL: a private cluster in a folder, created with initdb if it does not exist. The server runs as a
 * child process in the foreground. It is reached only through a Unix socket, in a folder that only its user may enter.
 *
 * PostgreSQL refuses to run as root. If root starts it, an existing cluster runs as its owner, and a new one as the
 * user `postgres`, or as `nobody` if there is no such user. If another user starts it, the cluster runs as that user.
 *
 *	DIR/postgres/      the cluster
 *	DIR/postgres.log   its log
 *	DIR/socket         its socket's folder, or a link to one under /tmp if the path does not suit a socket
 *	DIR/lock           locked while a process uses the folder
 *
 * Durability is PostgreSQL's: fsync and synchronous_commit are on. Only one thread may use an instance. It must live as
 * long as the cluster runs: when it ends, the kernel sends the server the signal for a fast shutdown.
 */
#ifndef REEVE_EMBEDDED_H
#define REEVE_EMBEDDED_H

#include "common/error.h"

#include <stdbool.h>
#include <sys/types.h>

struct embedded;

/* Creates the cluster if there is none, starts it and waits until it accepts connections, which takes a second, or as
 * long as a recovery. An existing cluster may have ended in any way. Returns NULL with *error:
 * - NOT_FOUND: PostgreSQL is not installed; the message names the package.
 * - FAILED_PRECONDITION: another process uses the folder, DIR/postgres is not a cluster, or its major version is not
 *   installed.
 * - PERMISSION_DENIED: the folder may not be used.
 * - INVALID_ARGUMENT: the folder's name is empty or too long.
 * - CANCELLED: `stop_fd` (−1: none) became readable.
 * - INTERNAL: another failure. */
struct embedded *embedded_start(const char *folder, int stop_fd, struct reeve_error *error);

/* Returns a libpq connection string for the database `reeve` and its owner, the role `reeve`. Valid as long as the
 * instance. */
const char *embedded_conninfo(const struct embedded *embedded);

/* Describes how the server ended: its exit, its last message, whether its disk is full, and where its log is. Returns
 * "runs" if it has not ended. Valid until the next call. */
const char *embedded_ending(struct embedded *embedded);

/* Returns the server's process id. */
pid_t embedded_pid(const struct embedded *embedded);

/* Returns true if the server still runs. */
bool embedded_alive(struct embedded *embedded);

/* Stops the server and frees the instance: by a fast shutdown, by an immediate one if that takes more than a minute
 * (the next start recovers), and finally by SIGKILL. Returns false with *error if the server did not end cleanly; it
 * has ended in any case. */
bool embedded_stop(struct embedded *embedded, struct reeve_error *error);

#endif
