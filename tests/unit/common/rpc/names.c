#include "names.h"

#include <dlfcn.h>
#include <netdb.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

enum { SLOW_S = 60 };

atomic_bool names_are_silent;
atomic_int names_looked_up;

typedef int resolver(const char *host, const char *service, const struct addrinfo *hints, struct addrinfo **found);

static bool ends_with(const char *host, const char *end)
{
	size_t length = strlen(host), part = strlen(end);

	return length >= part && !strcmp(host + length - part, end);
}

/* Replaces the C library's function in the entire program. */
int getaddrinfo(const char *host, const char *service, const struct addrinfo *hints, struct addrinfo **found)
{
	resolver *real = (resolver *)dlsym(RTLD_NEXT, "getaddrinfo");
	struct addrinfo *last;
	int result;

	if (!host || !ends_with(host, ".test") || (hints && hints->ai_flags & AI_NUMERICHOST))
		return real(host, service, hints, found);
	atomic_fetch_add(&names_looked_up, 1);
	if (ends_with(host, ".gone.test"))
		return EAI_NONAME;
	if (ends_with(host, ".slow.test") || atomic_load(&names_are_silent)) {
		sleep(SLOW_S);
		return EAI_AGAIN;
	}
	if (strcmp(host, "second.test") != 0)
		return real("127.0.0.1", service, hints, found);
	result = real("127.0.0.9", service, hints, found);
	for (last = *found; result == 0 && last->ai_next; last = last->ai_next)
		;
	return result == 0 ? real("127.0.0.1", service, hints, &last->ai_next) : result;
}
