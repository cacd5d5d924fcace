/* A look-up of each host, as background work. */
#include "manager/store/resolve.h"

#include "common/lookup.h"
#include "common/mem.h"
#include "manager/store/background.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct resolve {
	struct background *work;
	resolve_done *done;
	void *arg;
	char *hosts;
	char names[4096]; /* the answer: lists of names and addresses with the same number of elements */
	char addresses[1024];
	struct reeve_error error;
};

static void append(char *list, size_t size, const char *text)
{
	size_t used = strlen(list);
	snprintf(list + used, size - used, "%s%s", used ? "," : "", text);
}

static bool resolve_one(struct resolve *r, const char *host, int max)
{
	struct lookup_addresses found;
	if (!lookup_now(host, NULL, &found, &r->error))
		return false;
	for (int i = 0; i < found.count && i < max; i++) {
		append(r->addresses, sizeof r->addresses, found.list[i].text);
		append(r->names, sizeof r->names, host);
	}
	return true;
}

static void work(void *data)
{
	struct resolve *r = data;
	char *rest = NULL;
	int max = strchr(r->hosts, ',') ? 1 : LOOKUP_ADDRESSES_MAX; /* the list of ports has one per host */
	for (char *host = strtok_r(r->hosts, ",", &rest); host; host = strtok_r(NULL, ",", &rest))
		if (!resolve_one(r, host, max))
			break;
}

static void on_done(void *data, bool started)
{
	struct resolve *r = data;
	if (!started)
		error_set(&r->error, STATUS(UNAVAILABLE), "cannot start a thread to look up \"%s\"", r->hosts);
	r->done(r->arg, r->names, r->error.code == STATUS(OK) ? r->addresses : NULL, r->error.message);
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
