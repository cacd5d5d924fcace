/* The thread and the loop share the struct; the last one to release it frees it. */
#include "manager/store/background.h"

#include "common/mem.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct background {
	atomic_int holders; /* references: of the thread and the loop */
	int wake;           /* eventfd: the thread has finished */
	bool started;
	struct event *event;
	const struct background_kind *kind;
	void *data;
};

static void let_go(struct background *e)
{
	if (atomic_fetch_sub(&e->holders, 1) > 1)
		return;
	close(e->wake);
	e->kind->release(e->data);
	free(e);
}

static void *run(void *arg)
{
	struct background *e = arg;
	e->kind->work(e->data);
	uint64_t one = 1;
	if (write(e->wake, &one, sizeof one) < 0)
		abort(); /* cannot happen: an eventfd at 0 accepts a 1 */
	let_go(e);
	return NULL;
}

static void on_wake(evutil_socket_t fd, short what, void *arg)
{
	struct background *e = arg;
	(void)fd, (void)what;
	event_free(e->event);
	e->kind->done(e->data, e->started);
	let_go(e);
}

struct background *background_start(struct event_base *base, const struct background_kind *kind, void *data)
{
	struct background *e = mem_calloc(1, sizeof *e);
	atomic_init(&e->holders, 2);
	e->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	e->kind = kind;
	e->data = data;
	e->event = event_new(base, e->wake, EV_READ, on_wake, e);
	event_add(e->event, NULL);
	pthread_t thread;
	e->started = true; /* before the thread can finish */
	if (pthread_create(&thread, NULL, run, e) == 0) {
		pthread_detach(thread);
	} else {
		e->started = false;
		atomic_fetch_sub(&e->holders, 1);
		event_active(e->event, EV_READ, 0);
	}
	return e;
}

void background_abandon(struct background *e)
{
	event_free(e->event);
	let_go(e);
}
