/* getaddrinfo in a thread of its own. The thread and the loop share the struct; who is last frees it. */
#include "manager/store/resolve.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct resolve {
	atomic_int holders; /* the thread and the loop */
	int wake;           /* eventfd: the thread has finished */
	struct event *event;
	resolve_done *done;
	void *arg;
	char *hosts;
	char names[4096];    /* the answer: names and addresses side by side */
	char addresses[1024];
	char problem[256];
};

static void release(struct resolve *r)
{
	if (atomic_fetch_sub(&r->holders, 1) > 1)
		return;
	close(r->wake);
	free(r->hosts);
	free(r);
}

enum { ADDRESSES_MOST = 8 };

static void append(char *list, size_t size, const char *text)
{
	size_t used = strlen(list);
	snprintf(list + used, size - used, "%s%s", used ? "," : "", text);
}

static bool resolve_one(struct resolve *r, const char *host, int most)
{
	struct addrinfo *found = NULL, hints = {.ai_socktype = SOCK_STREAM};
	int code = getaddrinfo(host, NULL, &hints, &found);
	if (code != 0) {
		snprintf(r->problem, sizeof r->problem, "cannot resolve \"%s\": %s", host, gai_strerror(code));
		return false;
	}
	for (struct addrinfo *a = found; a && most > 0; a = a->ai_next, most--) {
		char text[INET6_ADDRSTRLEN] = "";
		getnameinfo(a->ai_addr, a->ai_addrlen, text, sizeof text, NULL, 0, NI_NUMERICHOST);
		append(r->addresses, sizeof r->addresses, text);
		append(r->names, sizeof r->names, host);
	}
	freeaddrinfo(found);
	return true;
}

static void *work(void *arg)
{
	struct resolve *r = arg;
	char *rest = NULL;
	int most = strchr(r->hosts, ',') ? 1 : ADDRESSES_MOST; /* ports are given by host */
	for (char *host = strtok_r(r->hosts, ",", &rest); host; host = strtok_r(NULL, ",", &rest))
		if (!resolve_one(r, host, most))
			break;
	uint64_t one = 1;
	if (write(r->wake, &one, sizeof one) < 0)
		abort(); /* an eventfd takes a one */
	release(r);
	return NULL;
}

static void on_wake(evutil_socket_t fd, short what, void *arg)
{
	struct resolve *r = arg;
	(void)fd, (void)what;
	event_free(r->event);
	r->done(r->arg, r->names, r->problem[0] ? NULL : r->addresses, r->problem);
	release(r);
}

struct resolve *resolve_start(struct event_base *base, const char *hosts, resolve_done *done, void *arg)
{
	struct resolve *r = calloc(1, sizeof *r);
	atomic_init(&r->holders, 2);
	r->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	r->hosts = strdup(hosts);
	r->done = done;
	r->arg = arg;
	r->event = event_new(base, r->wake, EV_READ, on_wake, r);
	event_add(r->event, NULL);
	pthread_t thread;
	if (pthread_create(&thread, NULL, work, r) == 0) {
		pthread_detach(thread);
	} else {
		snprintf(r->problem, sizeof r->problem, "cannot start a thread to resolve \"%s\"", hosts);
		atomic_fetch_sub(&r->holders, 1);
		event_active(r->event, EV_READ, 0);
	}
	return r;
}

void resolve_cancel(struct resolve *r)
{
	event_free(r->event);
	release(r);
}
