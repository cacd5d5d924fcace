/* The notifications that a program gets while no manager is reachable. */
#include "tests/unit/common/rpc/fake_manager.h"

#include <reeve/client.h>
#include <stdatomic.h>
#include <unistd.h>

static atomic_int n_absent, n_back;

static void note(void *arg, bool back)
{
	cr_assert_eq(arg, &n_absent);
	atomic_fetch_add(back ? &n_back : &n_absent, 1);
}

static void *read_on(void *arg)
{
	struct reeve_failure failure = {0};
	Reeve__V1__Task *task = reeve_get(arg, 1, &failure);

	cr_assert(task, "%s", failure.message);
	reeve_free(task);
	return NULL;
}

/* Starts a call while no manager is running, and a manager some seconds later. */
static void call_through_absence(
    struct reeve_client *client, struct fake_manager **manager, const char *url, int pause_ms)
{
	pthread_t thread;

	n_absent = n_back = 0;
	cr_assert_eq(pthread_create(&thread, NULL, read_on, client), 0);
	usleep((useconds_t)pause_ms * 1000);
	*manager = fake_manager_start(url, NULL);
	pthread_join(thread, NULL);
}

Test(absence, is_logged_once_and_so_is_its_end)
{
	struct fake_manager *manager = fake_manager_start("tcp://127.0.0.1:0", NULL);
	struct reeve_client_options options = {.connect_timeout_ms = 20000, .absent = note, .absent_arg = &n_absent};
	struct reeve_failure failure = {0};
	struct reeve_client *client;
	char url[128];

	snprintf(url, sizeof url, "%s", manager->host.url);
	fake_manager_free(manager);
	options.managers = url;
	client = reeve_client_create(&options, &failure);
	call_through_absence(client, &manager, url, 4000);
	cr_assert_eq(n_absent, 1);
	cr_assert_eq(n_back, 1);
	/* A short absence is not reported. */
	fake_manager_free(manager);
	call_through_absence(client, &manager, url, 100);
	cr_assert_eq(n_absent, 0);
	cr_assert_eq(n_back, 0);
	reeve_client_destroy(client);
	fake_manager_free(manager);
}
