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

void await_both_alive(struct rpc_client *client)
{
	int64_t end_ms = clock_monotonic_ms() + 60 * 1000;
	char absence[400];
	const char *first;

	do {
		cr_assert_lt(clock_monotonic_ms(), end_ms);
		pause_ms(1);
		rpc_client_absence(client, absence, sizeof absence);
		first = strstr(absence, "it is alive");
	} while (!first || !strstr(first + 1, "it is alive"));
}
