/* Finds and kills the descendants of a process, or the processes of sessions, through /proc. */
#ifndef REEVE_WORKER_DESCENDANTS_H
#define REEVE_WORKER_DESCENDANTS_H

#include <stddef.h>
#include <sys/types.h>

/* Kills all descendants with SIGKILL, in any session, including those forked during the call. A process that was
 * reparented to a process outside is no longer a descendant; a subreaper (PR_SET_CHILD_SUBREAPER) keeps all of its
 * descendants. Takes milliseconds. Without /proc it does nothing. */
void descendants_kill(pid_t ancestor);

/* Kills all processes of these sessions in the same way. Their parents do not matter. */
void sessions_kill(const pid_t *sessions, size_t count);

#endif
