/*
 * A PostgreSQL of one's own: a private cluster in a folder, made with initdb when it is not there yet, run as a child
 * process in the foreground, and reached through a Unix socket alone, in a folder that only its user may enter.
 *
 * PostgreSQL refuses to run as root. Started by root, the cluster runs as `postgres`, if there is such a user, else as
 * `nobody` (a cluster that exists, as its owner); started by anybody else, as that user.
 *
 *	DIR/postgres/      the cluster
 *	DIR/postgres.log   what it writes
 *	DIR/socket         its socket's folder, or a link to one under /tmp when the path would be too long for a socket
 *	DIR/lock           held while a process uses the folder
 *
 * Durability is PostgreSQL's own: fsync and synchronous_commit are on. One thread uses an instance, and that thread
 *must live as long as the cluster is to run: the kernel ends the cluster (fast shutdown) when the thread ends.
 */
#ifndef REEVE_EMBEDDED_H
#define REEVE_EMBEDDED_H

#include "common/error.h"

#include <stdbool.h>
#include <sys/types.h>

struct embedded;

/* Makes the cluster if need be, starts it and waits until it takes connections, which takes a second, or as long as a
 * recovery needs; gives up when `stop_fd` (−1: none) becomes readable (CANCELLED). Reuses what is there, whatever way
 * it ended. NULL with *error: no PostgreSQL (NOT_FOUND, naming the package), a folder in use by another process or made
 * by another major version (FAILED_PRECONDITION), a folder that may not be used (PERMISSION_DENIED), and the like. */
struct embedded *embedded_start(const char *folder, int stop_fd, struct reeve_error *error);

/* A libpq connection string for the database `reeve` as the role `reeve`, who owns it. Lives as long as the instance.
 */
const char *embedded_conninfo(const struct embedded *embedded);

/* How the server ended, if it did, in words: what became of its process, its last message, whether its disk is full, and where
 * its messages are. Lives until the next call. */
const char *embedded_ending(struct embedded *embedded);

/* The server's process id. */
pid_t embedded_pid(const struct embedded *embedded);

/* Whether the server still runs. */
bool embedded_alive(struct embedded *embedded);

/* Stops the server: fast shutdown, and if that takes more than a minute, an immediate one (the next start recovers).
 * Frees the instance. False with *error if the server did not end in order; it has ended in any case. */
bool embedded_stop(struct embedded *embedded, struct reeve_error *error);

#endif
