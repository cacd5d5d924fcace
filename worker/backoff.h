/* The delay before the next call to a manager after a failed one: 100 ms, doubling up to 5 s, minus a random part of up
 * to a quarter, so that workers do not retry in step. Not thread-safe: the owner guards it. */
#ifndef REEVE_WORKER_BACKOFF_H
#define REEVE_WORKER_BACKOFF_H

#include <stdint.h>
#include <stdlib.h>

enum { BACKOFF_FIRST_MS = 100, BACKOFF_MAX_MS = 5000 };

/* All zero: no delay. */
struct backoff {
	int64_t delay_ms; /* the last delay, before the random part was subtracted */
	int64_t until_ms; /* on the monotonic clock; 0: no delay */
};

/* Records a failure at `now_ms`. */
static inline void backoff_fail(struct backoff *backoff, int64_t now_ms)
{
	backoff->delay_ms = backoff->delay_ms ? backoff->delay_ms * 2 : BACKOFF_FIRST_MS;
	if (backoff->delay_ms > BACKOFF_MAX_MS)
		backoff->delay_ms = BACKOFF_MAX_MS;
	backoff->until_ms = now_ms + backoff->delay_ms - arc4random_uniform((uint32_t)(backoff->delay_ms / 4));
}

/* Records a success. */
static inline void backoff_clear(struct backoff *backoff)
{
	backoff->delay_ms = backoff->until_ms = 0;
}

#endif
