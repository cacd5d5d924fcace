/*
 * What all fake managers share: a real rpc_server on a loop and a thread of its own. A test's fake adds the services.
 */
#ifndef REEVE_TESTS_FAKE_HOST_H
#define REEVE_TESTS_FAKE_HOST_H

#include "common/rpc/server.h"

#include <event2/event.h>
#include <pthread.h>

struct fake_host {
	struct event_base *base;
	struct rpc_server *server;
	pthread_t thread;
	bool running;
	pthread_mutex_t lock; /* guards what the fake and the test share */
	pthread_cond_t changed;
	char url[128];
	struct event *timer; /* see fake_host_repeat */
	void (*repeat)(void *arg);
	void *repeat_arg;
};

/* Initializes a zeroed host. It lives until fake_host_free. */
void fake_host_init(struct fake_host *host);

/* Creates a server without a thread. It may be called again after fake_host_close. */
void fake_host_open(struct fake_host *host, const struct rpc_server_options *options);

/* Listens, and sets the host's URL. A failure fails the test. */
void fake_host_listen(struct fake_host *host, const char *url);

/* Starts the thread. */
void fake_host_run(struct fake_host *host);

/* Serves on the calling thread until fake_host_halt is called on another. */
void *fake_host_loop(void *host);

/* Calls a function on the loop's thread every `ms` milliseconds, until the loop ends. Call it before fake_host_run. */
void fake_host_repeat(struct fake_host *host, int ms, void (*run)(void *arg), void *arg);

/* Calls a function on the loop's thread and waits for it. */
void fake_host_do(struct fake_host *host, void (*run)(void *arg), void *arg);

/* Ends the thread, if it runs: from now on nothing is read. */
void fake_host_halt(struct fake_host *host);

/* Ends the server, if there is one, as a dying manager would: open calls get no answer. */
void fake_host_close(struct fake_host *host);

/* Waits a minute at most until a number that the lock guards has reached `number`, and returns it. */
int fake_host_await(struct fake_host *host, const int *counter, int number);

/* Reads a number that the lock guards. */
int fake_host_read(struct fake_host *host, const int *counter);

void fake_host_free(struct fake_host *host);

#endif
