/* A client of a fake manager. Each file that includes this has its own. */
#ifndef REEVE_TESTS_CLIENT_LIB_FIXTURE_H
#define REEVE_TESTS_CLIENT_LIB_FIXTURE_H

#include "tests/unit/client/fake_server.h"

#include <criterion/criterion.h>
#include <reeve/client.h>
#include <reeve/v1/admin_calls.h>
#include <reeve/v1/metric_calls.h>
#include <reeve/v1/task_calls.h>

static struct fake_server *fake_server;
static struct reeve_client *client;
static struct reeve_failure failure;

static inline void begin(void)
{
	fake_server = fake_server_start();
	client = reeve_client_create(&(struct reeve_client_options){.managers = fake_server_url(fake_server)}, &failure);
	cr_assert(client != NULL, "%s", failure.message);
}

static inline void finish(void)
{
	reeve_client_destroy(client);
	fake_server_stop(fake_server);
}

#endif
