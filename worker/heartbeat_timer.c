#include "worker/heartbeat_timer.h"

#include "common/clock.h"

enum { CHANGES_INTERVAL_MS = 1000 }; /* minimum time between heartbeats if the later one is not urgent */

void heartbeat_timer_init(struct heartbeat_timer *timer)
{
	pthread_condattr_t attributes;

	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&timer->changed, &attributes);
	pthread_condattr_destroy(&attributes);
	timer->early_ms = INT64_MAX;
}

void heartbeat_timer_destroy(struct heartbeat_timer *timer)
{
	pthread_cond_destroy(&timer->changed);
}

void heartbeat_timer_sent(struct heartbeat_timer *timer, int64_t sent_ms)
{
	timer->sent_ms = sent_ms;
	timer->early_ms = INT64_MAX;
}

void heartbeat_timer_soon(struct heartbeat_timer *timer, bool urgent)
{
	int64_t early_ms = urgent ? clock_monotonic_ms() : timer->sent_ms + CHANGES_INTERVAL_MS;

	if (early_ms >= timer->early_ms)
		return;
	timer->early_ms = early_ms;
	heartbeat_timer_wake(timer);
}

void heartbeat_timer_wake(struct heartbeat_timer *timer)
{
	pthread_cond_broadcast(&timer->changed);
}
