/* The thread and the owner share the struct; the last of the two frees it. */
#include "common/rpc/lookup.h"

#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

struct lookup {
	pthread_mutex_t lock;
	/* Guarded by the lock. */
	bool over;      /* the thread has finished with it */
	bool abandoned; /* the owner has finished with it */
	void (*done)(void *arg);
	void *arg;
	int count;
	char addresses[LOOKUP_ADDRESSES_MAX][LOOKUP_ADDRESS_BYTES];
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

static void release(struct lookup *lookup)
{
	pthread_mutex_destroy(&lookup->lock);
	free(lookup);
}

static void *look(void *arg)
{
	struct lookup *lookup = arg;
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found = NULL;
	bool last;

	if (getaddrinfo(lookup->host, NULL, &hints, &found) != 0)
		found = NULL;
	for (struct addrinfo *at = found; at && lookup->count < LOOKUP_ADDRESSES_MAX; at = at->ai_next) {
		char *text = lookup->addresses[lookup->count];

		if (getnameinfo(at->ai_addr, at->ai_addrlen, text, LOOKUP_ADDRESS_BYTES, NULL, 0, NI_NUMERICHOST) == 0)
			lookup->count++;
	}
	if (found)
		freeaddrinfo(found);
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
	struct lookup *lookup = calloc(1, sizeof *lookup + strlen(host) + 1);
	sigset_t all, before;
	pthread_t thread;
	int result;

	if (!lookup)
		return NULL;
	pthread_mutex_init(&lookup->lock, NULL);
	lookup->done = done;
	lookup->arg = arg;
	strcpy(lookup->host, host);
	/* The program's signals are not for this thread. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	result = pthread_create(&thread, NULL, look, lookup);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (result != 0) {
		release(lookup);
		return NULL;
	}
	pthread_detach(thread);
	return lookup;
}

const char *lookup_address(const struct lookup *lookup, int i)
{
	return i < lookup->count ? lookup->addresses[i] : NULL;
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
