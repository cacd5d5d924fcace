#include "client_support.h"

const char *both(const char *a, const char *b)
{
	static char urls[300];

	snprintf(urls, sizeof urls, "%s, %s", a, b);
	return urls;
}

const char *nobody(void)
{
	static char url[128];
	struct fake_manager *manager = fake_manager_start(LOOPBACK, NULL);

	snprintf(url, sizeof url, "%s", manager->host.url);
	fake_manager_free(manager);
	return url;
}
