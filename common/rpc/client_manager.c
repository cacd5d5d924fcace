/*
 * A manager as the client sees it: a req0 socket with one dialer, so at most one pipe; contexts in slots; and a ping. It
 * is alive when it is connected and has answered a ping on this connection.
 *
 * req0 by itself would send whatever was unanswered again on the next pipe. Here a pipe that goes away takes everything
 * out of the slots at once, and the calls decide for themselves where to go.
 */
#include "common/rpc/client_internal.h"

#include "common/clock.h"
#include "common/log.h"
#include "common/rpc/wire.h"

#include <nng/protocol/reqrep0/req.h>
#include <reeve/v1/admin.pb-c.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

enum {
	RECONNECT_LEAST_MS = 20,
	RECONNECT_MOST_MS = 500,
	ANSWER_BYTES_MOST = 256 << 20, /* no manager answers so much: whoever does is cut off */
	SHY_MS = 50, /* what a connection must last before the first ping, if the one before it came to nothing */
	SLOW_BYTES_PER_MS = 1000,      /* a ping behind large calls is given the time they take on a slow line */
};

static void slot_release(struct slot *slot)
{
	DL_DELETE(slot->manager->busy, slot);
	DL_PREPEND(slot->manager->idle, slot);
}

void slot_give_up(struct slot *slot)
{
	slot->given_up = true;
	slot->ping = false;
	if (slot->manager->ping == slot)
		slot->manager->ping = NULL;
	/* If it is between two operations this does nothing, and slot_moved sees that it was given up. */
	nng_aio_abort(slot->aio, NNG_ECANCELED);
}

/* Takes in what a ping tells. */
static void pong(struct manager *manager, const struct envelope_reply *reply)
{
	struct rpc_client *client = manager->client;
	Reeve__V1__PingResponse *response = NULL;
	int64_t now_ms = clock_monotonic_ms();

	if (reply->code == STATUS(OK))
		response = (void *)wire_unpack(
		    &reeve__v1__ping_response__descriptor, reply->body.bytes, reply->body.length, NULL);
	if (response) {
		if (response->now_us > 0) {
			client->clock_known = true;
			client->clock_ms = response->now_us / 1000;
			client->clock_read_ms = now_ms;
		}
		manager->max_message = response->max_message_bytes;
		client->max_message = response->max_message_bytes;
		client->max_details = response->max_details_bytes;
		protobuf_c_message_free_unpacked(&response->base, NULL);
	}
	/* An answer may outlive its connection by a moment. */
	if (manager->alive || !manager->connected || manager->lost)
		return;
	manager->alive = true;
	log_debug("rpc", "%s is alive", manager->url);
	/* Soon after the start, the one chosen by lot takes over from the one that was quickest. */
	if (manager == client->favourite && now_ms - client->created_ms < 2 * client->ping_interval_ms)
		client->current = manager;
	pthread_cond_broadcast(&client->alive_changed);
	client_wake_keeper(client);
}

/* With the lock: what the slot carries is sent, or has failed. True if the answer is to be received now. */
static bool slot_sent(struct slot *slot, int result)
{
	if (result != 0) {
		nng_msg_free(nng_aio_get_msg(slot->aio));
		nng_aio_set_msg(slot->aio, NULL);
	}
	if (result != 0 || slot->given_up)
		return false;
	slot->receiving = true;
	return true;
}

/* Takes the slot's burden, the answer being `reply`, or NULL if none will come. Returns a call that has ended. */
static struct call *slot_unload(struct slot *slot, const struct envelope_reply *reply)
{
	struct manager *manager = slot->manager;
	struct call *call = slot->call;

	if (call)
		call = call_answered(call, reply);
	if (slot->ping) {
		slot->ping = false;
		manager->ping = NULL;
		if (reply)
			pong(manager, reply);
	} else if (reply && !slot->given_up) {
		/* Whoever answers calls is alive, even if the ping waits behind them. */
		manager->waited_from_ms = clock_monotonic_ms();
	}
	slot_release(slot);
	return call;
}

/* On nng's threads: the slot's sending or receiving is over. */
static void slot_moved(void *arg)
{
	static const char broken[] = "the manager's answer is not well-formed";
	struct slot *slot = arg;
	struct rpc_client *client = slot->manager->client;
	int result = nng_aio_result(slot->aio);
	struct envelope_reply reply = {0};
	struct call *call;
	nng_msg *msg = NULL;

	/* Only this thread writes `receiving` while the slot is busy. */
	if (slot->receiving && result == 0) {
		msg = nng_aio_get_msg(slot->aio);
		nng_aio_set_msg(slot->aio, NULL);
		if (!envelope_read_reply(nng_msg_body(msg), nng_msg_len(msg), &reply, NULL))
			reply = (struct envelope_reply){
				STATUS(INTERNAL), {(const uint8_t *)broken, sizeof broken - 1}, {0}};
	}
	client_lock(client);
	if (!slot->receiving && slot_sent(slot, result)) {
		nng_ctx_recv(slot->ctx, slot->aio);
		client_unlock(client);
		return;
	}
	call = slot_unload(slot, msg ? &reply : NULL);
	client_unlock(client);
	if (call)
		call_deliver(call, &reply);
	nng_msg_free(msg);
}

static struct slot *slot_make(struct manager *manager)
{
	struct slot *slot = calloc(1, sizeof *slot);

	if (!slot)
		return NULL;
	slot->manager = manager;
	if (nng_ctx_open(&slot->ctx, manager->socket) != 0)
		goto failed;
	if (nng_aio_alloc(&slot->aio, slot_moved, slot) != 0) {
		nng_ctx_close(slot->ctx);
		goto failed;
	}
	return slot;

failed:
	free(slot);
	return NULL;
}

struct slot *slot_take(struct manager *manager)
{
	struct slot *slot = manager->idle;

	if (slot)
		DL_DELETE(manager->idle, slot);
	else
		slot = slot_make(manager);
	if (!slot)
		return NULL;
	DL_APPEND(manager->busy, slot);
	slot->receiving = false;
	slot->given_up = false;
	return slot;
}

void slot_send(struct slot *slot, nng_msg *msg)
{
	nng_aio_set_msg(slot->aio, msg);
	nng_ctx_send(slot->ctx, slot->aio);
}

void manager_move_calls(struct manager *manager)
{
	struct slot *slot;

	manager->lost = false;
	DL_FOREACH (manager->busy, slot) {
		struct call *call = slot->call;

		if (slot->given_up || (!call && !slot->ping))
			continue;
		if (call) {
			manager->bytes_open -= call->size;
			slot->call = NULL;
			call->slot = NULL;
			call_wait(call);
		}
		slot_give_up(slot);
	}
}

/* Sends a ping. Lets go of the lock in between. */
static void ping(struct manager *manager, int64_t now_ms)
{
	struct rpc_client *client = manager->client;
	static const char method[] = "/reeve.v1.AdminService/Ping";
	struct envelope_request envelope = {
		.method = {(const uint8_t *)method, sizeof method - 1},
		.token = {(const uint8_t *)client->token, strlen(client->token)},
		.actor = {(const uint8_t *)client->actor, strlen(client->actor)},
		.deadline_ms = (uint32_t)client->ping_limit_ms,
	};
	nng_msg *msg = envelope_write_request(&envelope);
	struct slot *slot = msg ? slot_take(manager) : NULL;

	manager->ping_due_ms = now_ms + client->ping_interval_ms;
	if (!slot) {
		nng_msg_free(msg);
		return;
	}
	slot->ping = true;
	manager->ping = slot;
	manager->waited_from_ms = now_ms;
	client_unlock(client);
	slot_send(slot, msg);
	client_lock(client);
}

int64_t manager_tend(struct manager *manager, int64_t now_ms)
{
	struct rpc_client *client = manager->client;
	nng_pipe pipe = manager->pipe;
	int64_t limit_ms;

	if (manager->lost)
		manager_move_calls(manager);
	if (!manager->connected)
		return INT64_MAX;
	if (!manager->ping && now_ms >= manager->ping_due_ms) {
		ping(manager, now_ms);
		if (!manager->connected)
			return INT64_MAX;
	}
	if (!manager->ping)
		return manager->ping_due_ms;
	limit_ms = manager->waited_from_ms + client->ping_limit_ms + (int64_t)manager->bytes_open / SLOW_BYTES_PER_MS;
	if (now_ms < limit_ms)
		return limit_ms;
	log_debug("rpc", "%s does not answer", manager->url);
	manager->connected = false;
	manager->alive = false;
	manager_move_calls(manager);
	/* What nng still holds for it goes with the pipe; dialling again succeeds only when the manager is back. */
	client_unlock(client);
	nng_pipe_close(pipe);
	client_lock(client);
	return INT64_MAX;
}

struct manager *manager_choose(struct rpc_client *client, const struct manager *avoid)
{
	struct manager *current = client->current;
	int alive = 0;

	if (current && current->alive && current != avoid)
		return current;
	if (client->favourite->alive && client->favourite != avoid) {
		client->current = client->favourite;
		return client->current;
	}
	for (int i = 0; i < client->n_managers; i++) {
		struct manager *manager = &client->managers[i];

		if (!manager->alive || manager == avoid)
			continue;
		if (client_random(client, (uint32_t)++alive) == 0)
			client->current = manager;
	}
	if (alive)
		return client->current;
	if (!avoid || !avoid->alive)
		return NULL;
	return client->managers + (avoid - client->managers);
}

/* On nng's threads. */
static void pipe_event(nng_pipe pipe, nng_pipe_ev event, void *arg)
{
	struct manager *manager = arg;
	struct rpc_client *client = manager->client;

	client_lock(client);
	if (event == NNG_PIPE_EV_ADD_POST) {
		manager->connected = true;
		manager->alive = false;
		manager->pipe = pipe;
		/* A manager without room takes the connection and closes it: nng leaks what is being sent at that moment. */
		manager->ping_due_ms = manager->shy ? clock_monotonic_ms() + SHY_MS : 0;
	} else {
		manager->lost = true;
		manager->shy = !manager->alive;
		if (manager->connected && nng_pipe_id(manager->pipe) == nng_pipe_id(pipe)) {
			log_debug("rpc", "connection to %s lost", manager->url);
			manager->connected = false;
			manager->alive = false;
		}
	}
	client_wake_keeper(client);
	client_unlock(client);
}

/* True if the URL names a place one can dial. */
static bool url_usable(const char *url)
{
	nng_url *parsed;
	bool usable;

	if (nng_url_parse(&parsed, url) != 0)
		return false;
	usable = !strstr(parsed->u_scheme, "tcp") || (*parsed->u_hostname && *parsed->u_port && strcmp(parsed->u_port, "0"));
	nng_url_free(parsed);
	return usable;
}

bool manager_open(struct manager *manager, struct reeve_error *error)
{
	nng_socket socket;
	int result;

	if (!url_usable(manager->url))
		return error_set(error, STATUS(INVALID_ARGUMENT),
		    "\"%s\" is not a manager's address (tcp://HOST:PORT)", manager->url);
	result = nng_req0_open(&socket);
	if (result != 0)
		return error_set(error, STATUS(UNAVAILABLE), "nng socket: %s", nng_strerror(result));
	manager->socket = socket;
	manager->open = true;
	if ((result = nng_socket_set_ms(socket, NNG_OPT_REQ_RESENDTIME, NNG_DURATION_INFINITE)) != 0 ||
	    (result = nng_socket_set_ms(socket, NNG_OPT_RECONNMINT, RECONNECT_LEAST_MS)) != 0 ||
	    (result = nng_socket_set_ms(socket, NNG_OPT_RECONNMAXT, RECONNECT_MOST_MS)) != 0 ||
	    (result = nng_socket_set_size(socket, NNG_OPT_RECVMAXSZ, ANSWER_BYTES_MOST)) != 0 ||
	    (result = nng_pipe_notify(socket, NNG_PIPE_EV_ADD_POST, pipe_event, manager)) != 0 ||
	    (result = nng_pipe_notify(socket, NNG_PIPE_EV_REM_POST, pipe_event, manager)) != 0)
		return error_set(error, STATUS(UNAVAILABLE), "nng socket: %s", nng_strerror(result));
	result = nng_dial(socket, manager->url, NULL, NNG_FLAG_NONBLOCK);
	if (result != 0)
		return error_set(error, STATUS(INVALID_ARGUMENT), "\"%s\" is not a manager's address: %s", manager->url,
		    nng_strerror(result));
	return true;
}

void manager_close(struct manager *manager)
{
	struct slot *slot, *next;

	if (manager->open)
		nng_close(manager->socket);
	/* Closing the socket ends what was under way; when the operations have stopped, all slots are idle. */
	for (;;) {
		client_lock(manager->client);
		slot = manager->busy;
		client_unlock(manager->client);
		if (!slot)
			break;
		nng_aio_stop(slot->aio);
	}
	DL_FOREACH_SAFE (manager->idle, slot, next) {
		nng_aio_stop(slot->aio);
		nng_aio_free(slot->aio);
		free(slot);
	}
	free(manager->url);
}
