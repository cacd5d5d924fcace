/*
 * The supervisor: a small process next to the worker that starts exec handlers. It is forked before the worker has
 * threads, has only one socket, and is the parent of every handler. So it can end the handlers whatever the worker is
 * doing, even after the worker's death.
 *
 * It is also the worker's watchdog. Once the lease is over it starts nothing, and kills all its descendants, whether
 * the worker is alive, frozen or dead; it kills the worker too if a C function runs in it. After a renewal of the lease
 * it starts processes again.
 */
#ifndef REEVE_WORKER_SUPERVISOR_H
#define REEVE_WORKER_SUPERVISOR_H

#include <sys/types.h>

struct spawn_shared;

/* Forks the supervisor. Returns its pid, and the worker's end of the socket in *socket, close-on-exec. −1: errno has
 * the reason. `shared` is mapped MAP_SHARED and all zero; only the worker changes the lease in it. The supervisor kills
 * every handler's process group and exits when the socket is closed, by close() or by the worker's death. */
pid_t supervisor_fork(int *socket, struct spawn_shared *shared);

#endif
