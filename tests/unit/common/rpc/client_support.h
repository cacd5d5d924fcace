/* What the tests of the client share. */
#ifndef REEVE_TESTS_CLIENT_SUPPORT_H
#define REEVE_TESTS_CLIENT_SUPPORT_H

#include "fake_manager.h"

#include <reeve/v1/admin.pb-c.h>
#include <reeve/v1/task.pb-c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TASKS &reeve__v1__task_service__descriptor

/* Returns the URLs of two managers as a client takes them. */
const char *both(const char *a, const char *b);

/* Returns a URL where nothing listens: that of a closed listener. */
const char *nobody(void);

/* Waits until two managers have answered the client's pings. */
void await_both_alive(struct rpc_client *client);

#endif
