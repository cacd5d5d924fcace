/*
 * The spawner: a small process beside the worker that starts exec handlers. It is forked before the worker has threads,
 * holds nothing but one socket, and is the parent of every handler, so it can end them whatever the worker is doing or
 * has come to.
 *
 * It is also the worker's guard: it starts nothing once the lease is over, and then kills whatever comes from it,
 * whether the worker is alive, frozen or dead; and the worker itself if a C function is running there. A renewed lease
 * is a new one: things go on.
 */
#ifndef REEVE_WORKER_SPAWNER_H
#define REEVE_WORKER_SPAWNER_H

#include <sys/types.h>

struct spawn_shared;

/* Forks the spawner and returns its pid, and in *socket the worker's end, close-on-exec. −1: errno says why. `shared`
 * is mapped MAP_SHARED and all zero; the lease in it is the worker's to change. The spawner ends, and kills every
 * handler's process group, when that socket is closed: by close() or by the worker's death. */
pid_t spawner_fork(int *socket, struct spawn_shared *shared);

#endif
