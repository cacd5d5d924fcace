/* Runs getaddrinfo as an work. */
#include "manager/store/resolve.h"

#include "common/mem.h"
#include "manager/store/background.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct resolve {
	struct background *work;
	resolve_done *done;
	void *arg;
	char *hosts;
	char names[4096];    /* the answer: lists of names and addresses with the same number of elements */
	char addresses[1024];
	char problem[256];
};

enum { ADDRESSES_MAX = 8 };

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

static void work(void *data)
{
	struct resolve *r = data;
	char *rest = NULL;
	int most = strchr(r->hosts, ',') ? 1 : ADDRESSES_MAX; /* the list of ports has one per host */
	for (char *host = strtok_r(r->hosts, ",", &rest); host; host = strtok_r(NULL, ",", &rest))
		if (!resolve_one(r, host, most))
			break;
}

static void on_done(void *data, bool started)
{
	struct resolve *r = data;
	if (!started)
		snprintf(r->problem, sizeof r->problem, "cannot start a thread to resolve \"%s\"", r->hosts);
	r->done(r->arg, r->names, r->problem[0] ? NULL : r->addresses, r->problem);
}

static void release(void *data)
{
	struct resolve *r = data;
	free(r->hosts);
	free(r);
}

struct resolve *resolve_start(struct event_base *base, const char *hosts, resolve_done *done, void *arg)
{
	static const struct background_kind kind = {work, on_done, release};
	struct resolve *r = mem_calloc(1, sizeof *r);
	r->hosts = mem_strdup(hosts);
	r->done = done;
	r->arg = arg;
	struct background *work = background_start(base, &kind, r);
	r->work = work;
	return r;
}

void resolve_cancel(struct resolve *r)
{
	background_abandon(r->work);
}
