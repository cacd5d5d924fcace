/* Why a task waits, as a phrase for people. No other file has these phrases. */
#ifndef REEVE_CLIENT_WAITING_H
#define REEVE_CLIENT_WAITING_H

#include <reeve/client.h>
#include <stddef.h>
#include <stdint.h>

enum { WAITING_TEXT = 160 };

/* Writes a phrase such as "its queue is paused", which is complete in itself; "" if the task does not wait or the
 * reason is unknown. Returns `out`. */
const char *waiting_text(const Reeve__V1__Task *task, int64_t now_us, char out[WAITING_TEXT]);

#endif
