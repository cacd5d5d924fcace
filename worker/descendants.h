/* The processes that come from one, found in /proc. */
#ifndef REEVE_WORKER_DESCENDANTS_H
#define REEVE_WORKER_DESCENDANTS_H

#include <sys/types.h>

/* Kills them all (SIGKILL), whatever session they are in, those that are forked meanwhile too. What has gone to another
 * parent is no descendant any more: a subreaper (PR_SET_CHILD_SUBREAPER) keeps all that come from it. Takes
 * milliseconds; without /proc it does nothing. */
void descendants_kill(pid_t ancestor);

#endif
