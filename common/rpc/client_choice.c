/*
 * Which manager gets a call. The current one gets it while it is alive and has its database, if any has. The client
 * prefers one manager, chosen at random, and returns to it some time after that is back.
 */
#include "common/rpc/client_internal.h"

#include "common/clock.h"

#include <stdio.h>

bool choice_serves(const struct rpc_client *client, const struct manager *avoid)
{
	for (int i = 0; i < client->n_managers; i++)
		if (&client->managers[i] != avoid && client->managers[i].health == HEALTH_SERVES)
			return true;
	return false;
}

const char *choice_refusal(const struct rpc_client *client)
{
	for (int i = 0; i < client->n_managers; i++)
		if (client->managers[i].health != HEALTH_REFUSES)
			return NULL;
	return client->managers[0].refusal;
}

/* Returns true if a manager can get calls. `serves`: another manager has its database, so one without is not usable. */
static bool usable(const struct manager *manager, const struct manager *avoid, bool serves)
{
	return manager != avoid && (serves ? manager->health == HEALTH_SERVES : manager_alive(manager));
}

struct manager *choice_make(struct rpc_client *client, const struct manager *avoid)
{
	struct manager *current = client->current, *preferred = client->preferred;
	bool serves = choice_serves(client, avoid);
	bool prefer = usable(preferred, avoid, serves);
	int alive = 0;

	if (current && usable(current, avoid, serves)) {
		/* Otherwise all clients would end up on one manager once each of the others has been away. */
		if (current != preferred && prefer && clock_monotonic_ms() >= preferred->stable_ms)
			client->current = preferred;
		return client->current;
	}
	if (prefer) {
		client->current = preferred;
		return preferred;
	}
	for (int i = 0; i < client->n_managers; i++) {
		struct manager *manager = &client->managers[i];

		if (!usable(manager, avoid, serves))
			continue;
		if (client_random(client, (uint32_t)++alive) == 0)
			client->current = manager;
	}
	if (alive)
		return client->current;
	if (!avoid || !manager_alive(avoid))
		return NULL;
	return client->managers + (avoid - client->managers);
}

void client_absence(struct rpc_client *client, char *out, size_t size)
{
	size_t used = 0;

	*out = 0;
	for (int i = 0; i < client->n_managers && used < size; i++) {
		const struct manager *manager = &client->managers[i];

		used += (size_t)snprintf(out + used, size - used, "%s%s%s%s", i ? ", " : "",
		    client->n_managers > 1 ? manager->url : "", client->n_managers > 1 ? ": " : "",
		    manager_alive(manager) ? "it is alive" : manager_absence(manager));
	}
}
