/*
 * The signals are blocked in all threads and received by a separate one, which may call the client like any other
 * thread. No signal handler runs.
 */
#include "client/cmd/interrupts.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>

static struct {
	sigset_t signals;
	bool started;
	atomic_int count;
	pthread_mutex_t lock;
	/* Protected by `lock`. */
	struct reeve_client *client;
	bool gently;
} state = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void *take_signals(void *arg)
{
	int signal;

	(void)arg;
	for (;;) {
		if (sigwait(&state.signals, &signal) != 0)
			continue;
		pthread_mutex_lock(&state.lock);
		int count = ++state.count;
		if (state.client && (count > 1 || !state.gently))
			reeve_client_interrupt(state.client);
		/* No call is in flight that must end in order. */
		if (!state.client)
			_Exit(128 + signal);
		pthread_mutex_unlock(&state.lock);
	}
	return NULL;
}

void interrupts_hold(void)
{
	pthread_t thread;

	if (state.started)
		return;
	sigemptyset(&state.signals);
	sigaddset(&state.signals, SIGINT);
	sigaddset(&state.signals, SIGTERM);
	pthread_sigmask(SIG_BLOCK, &state.signals, NULL);
	if (pthread_create(&thread, NULL, take_signals, NULL) != 0) {
		/* Without the thread they end the process, as by default. */
		pthread_sigmask(SIG_UNBLOCK, &state.signals, NULL);
		return;
	}
	pthread_detach(thread);
	state.started = true;
}

void interrupts_watch(struct reeve_client *client, bool gently)
{
	pthread_mutex_lock(&state.lock);
	state.client = client;
	state.gently = gently;
	pthread_mutex_unlock(&state.lock);
}

bool interrupts_asked(void)
{
	return state.count > 0;
}
