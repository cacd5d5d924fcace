/* The thread and the owner of a `struct lookup` share it; the last of the two frees it. */
#include "common/lookup.h"

#include "common/mem.h"

#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

struct lookup {
	pthread_mutex_t lock;
	/* Guarded by the lock. */
	bool over;      /* the thread has finished with it */
	bool abandoned; /* the owner has finished with it */
	void (*done)(void *arg);
	void *arg;
	struct lookup_addresses found;
	char host[];
};

bool lookup_numeric(const char *host)
{
	struct addrinfo hints = {.ai_flags = AI_NUMERICHOST, .ai_socktype = SOCK_STREAM}, *found;

	if (getaddrinfo(host, NULL, &hints, &found) != 0)
		return false;
	freeaddrinfo(found);
	return true;
}

bool lookup_now(const char *host, const char *port, struct lookup_addresses *found, struct reeve_error *error)
{
	struct addrinfo hints = {
	    .ai_family = *host ? AF_UNSPEC : AF_INET, .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
	struct addrinfo *first;
	int problem = getaddrinfo(*host ? host : NULL, port, &hints, &first);

	found->count = 0;
	if (problem == EAI_SERVICE)
		return error_set(error, STATUS(INVALID_ARGUMENT), "\"%s\" is not a port", port);
	if (problem)
		return error_set(error, STATUS(UNAVAILABLE), "cannot look up \"%s\": %s", host,
		    problem == EAI_SYSTEM ? strerror(errno) : gai_strerror(problem));
	for (struct addrinfo *at = first; at && found->count < LOOKUP_ADDRESSES_MAX; at = at->ai_next) {
		struct lookup_address *address = &found->list[found->count];

		memcpy(&address->socket, at->ai_addr, at->ai_addrlen);
		address->length = at->ai_addrlen;
		if (getnameinfo(at->ai_addr, at->ai_addrlen, address->text, sizeof address->text, NULL, 0, NI_NUMERICHOST) == 0)
			found->count++;
	}
	freeaddrinfo(first);
	return found->count > 0 || error_set(error, STATUS(UNAVAILABLE), "cannot look up \"%s\": no address", host);
}

static void release(struct lookup *lookup)
{
	pthread_mutex_destroy(&lookup->lock);
	free(lookup);
}

static void *run(void *arg)
{
	struct lookup *lookup = arg;
	bool last;

	lookup_now(lookup->host, NULL, &lookup->found, NULL);
	pthread_mutex_lock(&lookup->lock);
	last = lookup->abandoned;
	if (!last)
		lookup->done(lookup->arg);
	lookup->over = true;
	pthread_mutex_unlock(&lookup->lock);
	if (last)
		release(lookup);
	return NULL;
}

struct lookup *lookup_start(const char *host, void (*done)(void *arg), void *arg)
{
	struct lookup *lookup = mem_calloc(1, sizeof *lookup + strlen(host) + 1);
	sigset_t all, before;
	pthread_t thread;
	int result;

	pthread_mutex_init(&lookup->lock, NULL);
	lookup->done = done;
	lookup->arg = arg;
	strcpy(lookup->host, host);
	/* The program's signals are not for this thread. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	result = pthread_create(&thread, NULL, run, lookup);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (result != 0) {
		release(lookup);
		return NULL;
	}
	pthread_detach(thread);
	return lookup;
}

const struct lookup_addresses *lookup_found(const struct lookup *lookup)
{
	return &lookup->found;
}

void lookup_free(struct lookup *lookup)
{
	bool last;

	if (!lookup)
		return;
	pthread_mutex_lock(&lookup->lock);
	last = lookup->over;
	lookup->abandoned = true;
	pthread_mutex_unlock(&lookup->lock);
	if (last)
		release(lookup);
}
