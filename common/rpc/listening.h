/*
 * Sockets that listen: what a URL (tcp://HOST:PORT, ipc:///PATH) names, made and taken down.
 *
 * The file of an ipc socket stays when its process dies. A successor takes it over, but nothing else: neither a file that
 * is no socket, nor a socket that somebody listens on. Whoever takes a path over holds a lock on the file PATH.lock meanwhile,
 * which no other user can open, and who ends removes the socket's file only if it is its own, before closing: so managers that
 * begin and end at the same moment do not remove each other's.
 */
#ifndef REEVE_COMMON_RPC_LISTENING_H
#define REEVE_COMMON_RPC_LISTENING_H

#include "common/error.h"

#include <stdbool.h>
#include <sys/types.h>

struct listening {
	int fd; /* -1: none */
	char *url, *path; /* path: of an ipc socket, or NULL */
	dev_t device;     /* of the path's file */
	ino_t inode;
};

/* Listens on a URL; a port of 0 takes a free one, which `url` then has. A name stands for the first of its addresses; it is
 * looked up at once, which may take as long as its name servers do. An ipc socket's file has the permissions `mode`, whatever the
 * umask is: who may write there may connect. False: *error says why, and there is nothing to close. */
bool listening_open(struct listening *listening, const char *url, mode_t mode, struct reeve_error *error);

/* Ends it, and removes its file. */
void listening_close(struct listening *listening);

#endif
