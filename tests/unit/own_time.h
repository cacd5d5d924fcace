/*
 * The time that this process had, for upper limits: on a busy machine it stands still while nothing of the process
 * runs. A thread that sleeps again and again measures it; what a sleep takes longer than twice its time does not count.
 */
#ifndef REEVE_TESTS_OWN_TIME_H
#define REEVE_TESTS_OWN_TIME_H

#include "common/clock.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

enum { OWN_TICK_US = 5000 };

static _Atomic int64_t own_us;

static inline void *own_ticks(void *arg)
{
	for (int64_t last_us = clock_monotonic_us();;) {
		usleep(OWN_TICK_US);
		int64_t now_us = clock_monotonic_us();
		atomic_fetch_add(&own_us, now_us - last_us < 2 * OWN_TICK_US ? now_us - last_us : 2 * OWN_TICK_US);
		last_us = now_us;
	}
	return arg;
}

static inline void own_begin(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, own_ticks, NULL) == 0)
		pthread_detach(thread);
}

static inline int64_t own_ms(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, own_begin);
	return atomic_load(&own_us) / 1000;
}

#endif
