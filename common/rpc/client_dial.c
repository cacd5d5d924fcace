/*
 * Dialing. The addresses of a manager's name are dialed in turn. After each round the name is looked up again, while
 * dialing continues.
 */
#include "common/rpc/client_internal.h"

#include "common/clock.h"
#include "common/log.h"
#include "common/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Returns the meaning of a dialing error, for people. */
static const char *dial_problem(int result)
{
	switch (result) {
	case NNG_ECONNREFUSED: return "connection refused: nothing listens there";
	case NNG_ETIMEDOUT: return "no answer to the attempt to connect";
	case NNG_EUNREACHABLE: return "no route to that host";
	case NNG_ENOENT: return "there is no such socket";
	default: return nng_strerror(result);
	}
}

/* On nng's threads. */
static void on_dialed(void *arg)
{
	struct manager *manager = arg;
	struct rpc_client *client = manager->client;
	int result = nng_aio_result(manager->dial_aio);

	client_lock(client);
	manager->stream = result == 0 ? nng_aio_get_output(manager->dial_aio, 0) : NULL;
	if (!manager->stream && result != NNG_ECLOSED)
		manager->problem = dial_problem(result);
	manager_set_state(manager, manager->stream ? MANAGER_DIALED : MANAGER_CLOSED);
	client_wake_control(client);
	client_unlock(client);
}

/* On the lookup's thread. */
static void on_lookup_done(void *arg)
{
	struct manager *manager = arg;
	struct rpc_client *client = manager->client;

	client_lock(client);
	manager->lookup_done = true;
	if (manager->state == MANAGER_RESOLVING) {
		manager_set_state(manager, MANAGER_DOWN);
		manager->redial_ms = 0;
	}
	client_wake_control(client);
	client_unlock(client);
}

/* Copies the addresses that a lookup has found; keeps the old ones if it found none. Releases the lock temporarily. */
static void take_addresses(struct manager *manager)
{
	struct rpc_client *client = manager->client;
	struct lookup *lookup = manager->lookup;
	const struct lookup_addresses *found = lookup_found(lookup);

	manager->lookup_done = false;
	manager->lookup = NULL;
	for (int i = 0; i < found->count; i++)
		strcpy(manager->addresses[i], found->list[i].text);
	if (found->count > 0) {
		manager->n_addresses = found->count;
		manager->next_address = 0;
	} else {
		log_debug("rpc", "%s: no address", manager->url);
		manager->problem = "unknown host: no address was found for its name";
	}
	client_unlock(client);
	lookup_free(lookup);
	client_lock(client);
}

/* Replaces the manager's dialer by one for `url`. */
static int create_dialer(struct manager *manager, const char *url)
{
	nng_stream_dialer *dialer;
	int result = nng_stream_dialer_alloc(&dialer, url);

	mem_check(result != NNG_ENOMEM);
	if (result != 0)
		return result;
	/* Not all transports support these options. */
	nng_stream_dialer_set_bool(dialer, NNG_OPT_TCP_NODELAY, true);
	nng_stream_dialer_set_bool(dialer, NNG_OPT_TCP_KEEPALIVE, true);
	nng_stream_dialer_free(manager->dialer);
	manager->dialer = dialer;
	return 0;
}

/* Starts a lookup in the background when all addresses were tried, except directly after a lookup has ended. Releases
 * the lock temporarily. */
static void begin_lookup(struct manager *manager)
{
	struct rpc_client *client = manager->client;
	struct lookup *lookup;

	if (manager->lookup_done) {
		take_addresses(manager);
		return;
	}
	if (manager->lookup || manager->next_address < manager->n_addresses)
		return;
	client_unlock(client);
	lookup = lookup_start(manager->host, on_lookup_done, manager);
	client_lock(client);
	manager->lookup = lookup;
}

/* Creates the dialer for the next address of the manager's name. Returns false if no address is known. Releases the
 * lock temporarily. */
static bool choose_address(struct manager *manager)
{
	struct rpc_client *client = manager->client;
	char url[LOOKUP_ADDRESS_BYTES + 64];
	const char *address;
	int result;

	begin_lookup(manager);
	if (manager->n_addresses == 0)
		return false;
	if (manager->next_address >= manager->n_addresses)
		manager->next_address = 0;
	address = manager->addresses[manager->next_address++];
	snprintf(url, sizeof url, strchr(address, ':') ? "tcp://[%s]:%s" : "tcp://%s:%s", address, manager->port);
	client_unlock(client);
	result = create_dialer(manager, url);
	client_lock(client);
	return result == 0;
}

void manager_dial(struct manager *manager)
{
	struct rpc_client *client = manager->client;

	if (manager->host) {
		manager_set_state(manager, MANAGER_RESOLVING);
		if (!choose_address(manager)) {
			/* If a lookup is running, its end wakes the background thread; otherwise wait for the next try. */
			if (!manager->lookup)
				manager_set_state(manager, MANAGER_CLOSED);
			return;
		}
	}
	manager_set_state(manager, MANAGER_DIALING);
	client_unlock(client);
	nng_stream_dialer_dial(manager->dialer, manager->dial_aio);
	client_lock(client);
}

/* Validates the URL for dialing, and sets host and port if it has a host name. */
static int read_url(struct manager *manager)
{
	nng_url *url;
	int result = nng_url_parse(&url, manager->url);

	if (result != 0)
		return result;
	if (strcmp(url->u_scheme, "tls+tcp") == 0)
		manager->tls_host = mem_strdup(url->u_hostname);
	if (strstr(url->u_scheme, "tcp") && (!*url->u_hostname || !*url->u_port || !strcmp(url->u_port, "0")))
		result = NNG_EADDRINVAL;
	if (result == 0 && strstr(url->u_scheme, "tcp") && !lookup_numeric(url->u_hostname)) {
		manager->host = mem_strdup(url->u_hostname);
		manager->port = mem_strdup(url->u_port);
	}
	nng_url_free(url);
	return result;
}

bool manager_open(struct manager *manager, struct reeve_error *error)
{
	int result = read_url(manager);

	mem_check(nng_aio_alloc(&manager->dial_aio, on_dialed, manager) == 0);
	if (result == 0) /* also with a host name, to validate the rest of the URL */
		result = create_dialer(manager, manager->url + (manager->tls_host ? strlen("tls+") : 0));
	if (result != 0)
		return error_set(error, STATUS(INVALID_ARGUMENT),
		    "\"%s\" is not a manager's address (tcp://HOST:PORT, tls+tcp://HOST:PORT)", manager->url);
	return true;
}
