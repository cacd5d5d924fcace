/*
 * When an early heartbeat is due. Parts that have news for the managers set it; the heartbeat thread waits on
 * `changed`. Guarded by the worker's lock.
 */
#ifndef REEVE_WORKER_HEARTBEAT_TIMER_H
#define REEVE_WORKER_HEARTBEAT_TIMER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct heartbeat_timer {
	int64_t sent_ms;  /* when the last heartbeat, or the Register, was sent, on the monotonic clock */
	int64_t early_ms; /* news must be sent by then; INT64_MAX: there is no news */
	pthread_cond_t
	    changed; /* early_ms or the session's phase has changed, an answer has come, or the thread must end */
};

void heartbeat_timer_init(struct heartbeat_timer *timer);
void heartbeat_timer_destroy(struct heartbeat_timer *timer);

/* Records that a message with all news is sent at `sent_ms`. */
void heartbeat_timer_sent(struct heartbeat_timer *timer, int64_t sent_ms);

/* Has the next heartbeat sent early, because the worker has news that managers display: at once if `urgent`, else one
 * second after the last heartbeat was sent. */
void heartbeat_timer_soon(struct heartbeat_timer *timer, bool urgent);

/* Wakes the heartbeat thread. */
void heartbeat_timer_wake(struct heartbeat_timer *timer);

#endif
