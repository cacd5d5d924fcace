/*
 * Listening sockets for URLs (SCHEME://HOST:PORT, tls+SCHEME://HOST:PORT, ipc:///PATH).
 *
 * The file of an ipc socket stays when its process dies. A successor replaces only such a file: neither one that is not
 * a socket, nor a socket with a listener. During the replacement it holds a lock on the file PATH.lock, which no other
 * user can open. A process that stops listening removes the socket's file only if the file is its own, before it closes
 * the socket. So managers that start and stop at the same moment do not remove each other's files.
 */
#ifndef REEVE_COMMON_RPC_LISTENING_H
#define REEVE_COMMON_RPC_LISTENING_H

#include "common/error.h"

#include <stdbool.h>
#include <sys/types.h>

struct listening {
	int fd;           /* -1: none */
	char *url, *path; /* path: of an ipc socket, or NULL */
	dev_t device;     /* of the path's file */
	ino_t inode;
};

/* Listens on a URL with the scheme `scheme`, or also ipc if that is "tcp". Port 0 takes a free port, which `url` then
 * contains. A host name means its first address; it is looked up at once, which may take as long as its name servers
 * do. The file of an ipc socket gets the permissions `mode`, whatever the umask: users who may write to it may connect.
 * Returns false with *error set if it cannot; then there is nothing to close. */
bool listening_open(
    struct listening *listening, const char *url, const char *scheme, mode_t mode, struct reeve_error *error);

/* Stops listening and removes the socket's file. */
void listening_close(struct listening *listening);

#endif
