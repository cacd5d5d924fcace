#include "tests/unit/fake_host.h"

#include <criterion/criterion.h>
#include <event2/thread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* A function to call on the loop's thread. */
struct call {
	struct fake_host *host;
	void (*run)(void *arg);
	void *arg;
	bool done;
};

void fake_host_init(struct fake_host *host)
{
	evthread_use_pthreads();
	pthread_mutex_init(&host->lock, NULL);
	pthread_cond_init(&host->changed, NULL);
}

void fake_host_open(struct fake_host *host, const struct rpc_server_options *options)
{
	host->base = event_base_new();
	host->server = rpc_server_create(host->base, options);
}

void fake_host_listen(struct fake_host *host, const char *url)
{
	struct reeve_error error = {0};

	cr_assert(rpc_server_listen(host->server, url, &error), "%s", error.message);
	snprintf(host->url, sizeof host->url, "%s", rpc_server_url(host->server));
}

void *fake_host_loop(void *host)
{
	event_base_loop(((struct fake_host *)host)->base, EVLOOP_NO_EXIT_ON_EMPTY);
	return NULL;
}

void fake_host_run(struct fake_host *host)
{
	cr_assert_eq(pthread_create(&host->thread, NULL, fake_host_loop, host), 0);
	host->running = true;
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct fake_host *host = arg;

	(void)fd;
	(void)what;
	host->repeat(host->repeat_arg);
}

void fake_host_repeat(struct fake_host *host, int ms, void (*run)(void *arg), void *arg)
{
	struct timeval period = {.tv_usec = ms * 1000};

	host->repeat = run;
	host->repeat_arg = arg;
	host->timer = event_new(host->base, -1, EV_PERSIST, on_timer, host);
	event_add(host->timer, &period);
}

static void make_call(evutil_socket_t fd, short what, void *arg)
{
	struct call *call = arg;

	(void)fd;
	(void)what;
	call->run(call->arg);
	pthread_mutex_lock(&call->host->lock);
	call->done = true;
	pthread_cond_broadcast(&call->host->changed);
	pthread_mutex_unlock(&call->host->lock);
}

void fake_host_do(struct fake_host *host, void (*run)(void *arg), void *arg)
{
	struct call call = {host, run, arg, false};
	struct timeval now = {0, 0};

	event_base_once(host->base, -1, EV_TIMEOUT, make_call, &call, &now);
	pthread_mutex_lock(&host->lock);
	while (!call.done)
		pthread_cond_wait(&host->changed, &host->lock);
	pthread_mutex_unlock(&host->lock);
}

static void end_loop(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	event_base_loopbreak(arg);
}

void fake_host_halt(struct fake_host *host)
{
	struct timeval now = {0, 0};

	if (!host->running)
		return;
	/* From inside the loop, because a break before the thread has entered the loop has no effect. */
	event_base_once(host->base, -1, EV_TIMEOUT, end_loop, host->base, &now);
	pthread_join(host->thread, NULL);
	host->running = false;
}

void fake_host_close(struct fake_host *host)
{
	if (!host->server)
		return;
	fake_host_halt(host);
	rpc_server_destroy(host->server);
	host->server = NULL;
	if (host->timer)
		event_free(host->timer);
	host->timer = NULL;
	event_base_free(host->base);
}

int fake_host_await(struct fake_host *host, const int *counter, int number)
{
	struct timespec until;
	int reached;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += 60;
	pthread_mutex_lock(&host->lock);
	while (*counter < number && pthread_cond_timedwait(&host->changed, &host->lock, &until) == 0)
		;
	reached = *counter;
	pthread_mutex_unlock(&host->lock);
	return reached;
}

int fake_host_read(struct fake_host *host, const int *counter)
{
	int number;

	pthread_mutex_lock(&host->lock);
	number = *counter;
	pthread_mutex_unlock(&host->lock);
	return number;
}

void fake_host_free(struct fake_host *host)
{
	fake_host_close(host);
	pthread_mutex_destroy(&host->lock);
	pthread_cond_destroy(&host->changed);
}
