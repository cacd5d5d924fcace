/* Why a task waits, in words: the one place where they are made. */
#ifndef REEVE_CLIENT_WAITING_H
#define REEVE_CLIENT_WAITING_H

#include <reeve/client.h>
#include <stddef.h>
#include <stdint.h>

enum { WAITING_TEXT = 160 };

/* A phrase as "its queue is paused", which needs no other word to be understood; "" if the task does not wait, or nobody said why.
 * Returns `out`. */
const char *waiting_text(const struct reeve_task *task, int64_t now_us, char out[WAITING_TEXT]);

#endif
