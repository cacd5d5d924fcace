/*
 * Pings and a manager's health. A manager is alive if a ping was answered on its open connection. It is silent if a
 * ping is unanswered and no byte has come from it for the ping limit; then its connection is closed.
 */
#include "common/rpc/client_internal.h"

#include "common/clock.h"
#include "common/log.h"
#include "common/rpc/wire.h"

#include <reeve/v1/admin.pb-c.h>
#include <stdio.h>
#include <string.h>
#include <utlist.h>

enum {
	IDLE_PING_MAX_MS = 15000, /* maximum, whatever the manager asks for */
	/* While other answers arrive, a ping is sent after this many idle intervals at the latest. */
	MAX_IDLE_PINGS = 4,
	/* A ping that follows large calls gets the time that they take on a slow line, and on the slowest line that a
	 * manager accepts if the line has shown to be slow. */
	SLOW_BYTES_PER_MS = 1000,
	SLOWEST_BYTES_PER_MS = 100,
};

/* Moves the calls of a manager without a database to other managers if one of those has its database. */
static void move_calls(struct manager *manager)
{
	struct rpc_client *client = manager->client;
	struct call *call, *next;

	if (!choice_serves(client, manager))
		return;
	HASH_ITER (hh_sent, manager->sent, call, next) {
		call->avoid = true;
		call_move(call);
	}
	if (client->current == manager)
		client->current = choice_make(client, manager);
	manager->stable_ms = clock_monotonic_ms() + STABLE_PINGS * client->ping_interval_ms;
}

/* Applies the answer to a ping from a manager with another version of the contract: it gets no calls. */
static void note_refusal(
    struct manager *manager, const struct envelope_reply *reply, const Reeve__V1__PingResponse *response)
{
	struct rpc_client *client = manager->client;

	if (reply->code == STATUS(OK)) /* it is from before versions */
		envelope_contract_problem(REEVE__V1__CONTRACT__CONTRACT_CURRENT, response ? response->contract : 0,
		    manager->refusal, sizeof manager->refusal);
	else
		snprintf(manager->refusal, sizeof manager->refusal, "%.*s", (int)reply->message.length,
		    (const char *)reply->message.bytes);
	manager->health = HEALTH_REFUSES;
	log_debug("rpc", "%s: %s", manager->url, manager->refusal);
	pthread_cond_broadcast(&client->alive_changed);
	client_wake_control(client);
}

/* Notes what a ping's answer reports. */
static void note_ping(struct manager *manager, const Reeve__V1__PingResponse *response, int64_t now_ms)
{
	struct rpc_client *client = manager->client;

	if (response->now_us > 0) {
		client->clock_known = true;
		client->clock_ms = response->now_us / 1000;
		client->clock_read_ms = now_ms;
	}
	manager->max_message = response->max_message_bytes;
	client->max_message = response->max_message_bytes;
	client->max_details = response->max_details_bytes;
	manager->health = response->database_up ? HEALTH_SERVES : HEALTH_NO_DATABASE;
	manager->idle_ping_ms = response->idle_ping_ms < IDLE_PING_MAX_MS ? response->idle_ping_ms : IDLE_PING_MAX_MS;
	manager->redial_pause_ms = 0;
}

void manager_pinged(struct manager *manager, const struct envelope_reply *reply)
{
	struct rpc_client *client = manager->client;
	Reeve__V1__PingResponse *response = NULL;
	int64_t now_ms = clock_monotonic_ms();
	bool known, was_alive = manager_alive(manager);

	if (manager->state != MANAGER_OPEN)
		return;
	manager->proved_ms = manager->pinged_ms;
	if (reply->code == STATUS(OK))
		response =
		    (void *)wire_unpack(&reeve__v1__ping_response__descriptor, reply->body.bytes, reply->body.length, NULL);
	known = response && response->contract == REEVE__V1__CONTRACT__CONTRACT_CURRENT;
	if (known)
		note_ping(manager, response, now_ms);
	if (reply->code == STATUS(UNIMPLEMENTED) || (reply->code == STATUS(OK) && !known))
		note_refusal(manager, reply, response);
	if (response)
		protobuf_c_message_free_unpacked(&response->base, NULL);
	if (manager->health == HEALTH_REFUSES)
		return;
	if (reply->code == STATUS(RESOURCE_EXHAUSTED) || reply->code == STATUS(UNAVAILABLE))
		manager->health = HEALTH_FULL;
	else if (manager->health == HEALTH_UNKNOWN)
		manager->health = HEALTH_NO_DATABASE;
	if (manager->health != HEALTH_SERVES)
		move_calls(manager);
	if (was_alive)
		return;
	manager->stable_ms = now_ms + STABLE_PINGS * client->ping_interval_ms;
	if (manager->next_address > 0)
		manager->next_address--; /* this address worked: dial it first next time */
	log_debug("rpc", "%s is alive", manager->url);
	/* Soon after the start, the preferred manager replaces the manager that answered first. */
	if (manager == client->preferred && now_ms - client->created_ms < 2 * client->ping_interval_ms)
		client->current = manager;
	pthread_cond_broadcast(&client->alive_changed);
	client_wake_control(client);
}

/* Returns when the last byte came from the manager. */
static int64_t last_received_ms(const struct manager *manager)
{
	return clock_monotonic_ms() - rpc_conn_poll(manager->conn).quiet_ms;
}

/* Returns when the next ping is due. Managers with more connections ask for fewer pings, except while a call is in
 * flight that must be answered soon. Another answer, such as a heartbeat's, then proves as well as a ping's that the
 * manager is alive. */
static int64_t ping_due_ms(const struct manager *manager)
{
	int64_t interval_ms = manager->client->ping_interval_ms, idle_ms = manager->idle_ping_ms;
	int64_t due_ms, first_ms, last_ms;

	if (manager->quick_calls > 0 || manager->health != HEALTH_SERVES || idle_ms <= interval_ms)
		return manager->pinged_ms + interval_ms;
	due_ms = last_received_ms(manager) + idle_ms;
	first_ms = manager->pinged_ms + idle_ms;
	last_ms = manager->pinged_ms + MAX_IDLE_PINGS * idle_ms;
	return due_ms < first_ms ? first_ms : due_ms < last_ms ? due_ms : last_ms;
}

void manager_ping_now(struct manager *manager)
{
	int64_t due_ms = clock_monotonic_ms() + manager->client->ping_interval_ms;

	manager->quick_calls++;
	if (manager->ping_due_ms > due_ms)
		manager->ping_due_ms = due_ms;
}

/* Sends a ping. Releases the lock temporarily. */
static void ping(struct manager *manager, int64_t now_ms)
{
	static const char method[] = "/reeve.v1.AdminService/Ping";
	struct rpc_client *client = manager->client;
	const struct client_token *token = atomic_load(&client->token);
	struct envelope_request envelope = {
	    .method = {(const uint8_t *)method, sizeof method - 1},
	    .token = {(const uint8_t *)token->text, token->length},
	    .actor = {(const uint8_t *)client->actor, strlen(client->actor)},
	    .deadline_ms = (uint32_t)client->ping_limit_ms,
	};
	struct frame *frame = envelope_write_request(&envelope);

	manager->pinged_ms = now_ms;
	manager->ping_due_ms = ping_due_ms(manager);
	manager->ping_frame_id = manager_queue(manager, frame);
	client_unlock(client);
	manager_flush(manager);
	client_lock(client);
}

/* Returns how fast the calls before an unanswered ping may be expected to arrive at least, in bytes each ms. That the
 * kernel took some of them only after a wait shows that the manager's machine takes them, slowly. What is taken at once
 * shows nothing: a frozen manager's kernel takes bytes, too, until its buffer is full. Nor does a call that this
 * machine has taken have arrived: on a slow line most of it may be in the kernel's buffer. */
static int64_t line_rate(const struct manager *manager, const struct rpc_conn_state *state, int64_t now_ms)
{
	return state->waited_ms < now_ms - manager->proved_ms ? SLOWEST_BYTES_PER_MS : SLOW_BYTES_PER_MS;
}

/* Returns from when a manager with an unanswered ping counts as silent. */
static int64_t silent_from_ms(const struct manager *manager)
{
	int64_t limit_ms = manager->client->ping_limit_ms;
	struct rpc_conn_state state = rpc_conn_poll(manager->conn);
	int64_t now_ms = clock_monotonic_ms(), last_ms = now_ms - state.quiet_ms;
	int64_t from_ms = (last_ms > manager->listening_ms ? last_ms : manager->listening_ms) + limit_ms;

	/* A late ping gets at least half the limit; one on an idle connection gets the full limit. */
	if (manager->pinged_ms - last_ms <= 2 * manager->client->ping_interval_ms)
		limit_ms /= 2;
	if (from_ms < manager->pinged_ms + limit_ms)
		from_ms = manager->pinged_ms + limit_ms;
	return from_ms + (int64_t)manager->bytes_open / line_rate(manager, &state, now_ms);
}

int64_t manager_check(struct manager *manager, int64_t now_ms)
{
	int64_t silent_ms;

	if (!manager->ping_frame_id && now_ms >= manager->ping_due_ms && manager->ping_due_ms > 0)
		manager->ping_due_ms = ping_due_ms(manager); /* urgent calls may have been answered */
	if (!manager->ping_frame_id && now_ms >= manager->ping_due_ms)
		ping(manager, now_ms);
	if (manager->state != MANAGER_OPEN)
		return now_ms;
	if (!manager->ping_frame_id)
		return manager->ping_due_ms;
	silent_ms = silent_from_ms(manager);
	if (now_ms < silent_ms)
		return silent_ms;
	manager_disconnect(manager, "does not answer");
	return INT64_MAX;
}
