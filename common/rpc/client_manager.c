/*
 * A manager's connection, which is opened again whenever it is down. Only the background thread changes its state,
 * except for the events of other threads: dialed, opened, closed, name looked up.
 */
#include "common/rpc/client_internal.h"

#include "common/clock.h"
#include "common/log.h"
#include "common/rpc/conn_tls.h"

#include <stdlib.h>
#include <string.h>

enum {
	REDIAL_MIN_MS = 20,
	REDIAL_MAX_MS = 500,
	TLS_QUIET_MS = 600000, /* a reason is logged again after this time */
	TLS_CHECK_MS = 1000,
	CONNECT_TIMEOUT_MS = 5000,    /* also for the other end's hello */
	ANSWER_BYTES_MAX = 256 << 20, /* longer than any manager's answer; the connection of a longer one is closed */
};

void manager_set_state(struct manager *manager, enum manager_state state)
{
	manager->state = state;
	manager->since_ms = clock_monotonic_ms();
}

static const char silent[] = "it takes connections, but does not answer";

const char *manager_absence(const struct manager *manager)
{
	switch (manager->state) {
	case MANAGER_RESOLVING: return manager->problem ? manager->problem : "its name has not been found yet";
	case MANAGER_DIALING: return manager->problem ? manager->problem : "no answer to the attempt to connect";
	case MANAGER_HANDSHAKE:
		if (manager->tls_problem != TLS_FINE && manager->problem == tls_problem_text(manager->tls_problem, TLS_CLIENT))
			return manager->problem; /* of the connection before */
		return "something takes connections there, but sends no hello: another program, or a manager that is frozen";
	case MANAGER_OPEN: return manager->health == HEALTH_REFUSES ? manager->refusal : silent;
	default: return manager->problem ? manager->problem : "not connected yet";
	}
}

/* On nng's threads. */
static void on_opened(void *arg)
{
	struct manager *manager = arg;
	struct rpc_client *client = manager->client;

	client_lock(client);
	if (manager->state == MANAGER_HANDSHAKE) {
		manager_set_state(manager, MANAGER_OPEN);
		manager->problem = "the connection was closed";
		manager->ping_due_ms = 0;
	}
	client_wake_control(client);
	client_unlock(client);
}

/* Notes why a connection was refused. Logs it once for each reason, until some time has passed. */
static void note_tls_problem(struct manager *manager)
{
	int64_t now_ms = clock_monotonic_ms();
	char detail[160];
	int problem = manager->conn ? rpc_conn_problem(manager->conn, detail, sizeof detail) : TLS_FINE;

	if (problem == TLS_FINE)
		return;
	manager->problem = tls_problem_text(problem, TLS_CLIENT);
	if (problem == manager->tls_problem && now_ms - manager->tls_logged_ms < TLS_QUIET_MS)
		return;
	manager->tls_problem = problem;
	manager->tls_logged_ms = now_ms;
	log_warn("tls", "%s: no connection: %s%s%s%s", manager->url, manager->problem, *detail ? " (" : "", detail,
	    *detail ? ")" : "");
}

/* On nng's threads. */
static void on_closed(void *arg)
{
	struct manager *manager = arg;
	struct rpc_client *client = manager->client;

	client_lock(client);
	if (manager->state == MANAGER_HANDSHAKE)
		manager->problem = "something listens there that is not a Reeve manager, or it has no room for a connection";
	note_tls_problem(manager);
	manager_set_state(manager, MANAGER_CLOSED);
	manager->health = HEALTH_UNKNOWN;
	client_wake_control(client);
	client_unlock(client);
}

/* Handles one frame: the answer to a call or to a ping, or a late answer, which is dropped. */
static void take_reply(struct manager *manager, struct frame *frame)
{
	static const char broken[] = "the manager's answer is not well-formed";
	struct rpc_client *client = manager->client;
	struct envelope_reply reply;
	uint32_t id = frame_id(frame);
	struct call *call;

	if (!envelope_read_reply(frame_body(frame), frame->length, &reply, NULL))
		reply = (struct envelope_reply){STATUS(INTERNAL), {(const uint8_t *)broken, sizeof broken - 1}, {0}};
	if (reply.code == STATUS(UNAUTHENTICATED))
		rpc_client_reload(client); /* perhaps there is a new token by now */
	client_lock(client);
	if (id == manager->ping_frame_id) {
		manager->ping_frame_id = 0;
		manager_pinged(manager, &reply);
	}
	HASH_FIND(hh_sent, manager->sent, &id, sizeof id, call);
	if (call && !call_answered(call, &reply))
		call = NULL;
	client_unlock(client);
	if (call)
		call_deliver(call, &reply);
}

/* On nng's threads. */
static bool on_arrived(void *arg, struct frame *frames)
{
	while (frames) {
		struct frame *next = frames->next;

		take_reply(arg, frames);
		free(frames);
		frames = next;
	}
	return true;
}

static const struct rpc_conn_events conn_events = {on_opened, on_arrived, on_closed, NULL, NULL};

uint32_t manager_queue(struct manager *manager, struct frame *frame)
{
	uint32_t id = FRAME_ID_LOWEST | ++manager->last_frame_id;
	struct call *taken;

	/* The ids wrap around after 2^31 calls. */
	do {
		HASH_FIND(hh_sent, manager->sent, &id, sizeof id, taken);
		if (taken || id == manager->ping_frame_id)
			id = FRAME_ID_LOWEST | ++manager->last_frame_id;
	} while (taken || id == manager->ping_frame_id);
	frame_seal(frame, id);
	rpc_conn_queue(manager->conn, frame);
	manager->users++;
	return id;
}

void manager_flush(struct manager *manager)
{
	struct rpc_client *client = manager->client;

	rpc_conn_flush(manager->conn);
	client_lock(client);
	if (--manager->users == 0 && manager->state == MANAGER_CLOSED)
		client_wake_control(client);
	client_unlock(client);
}

void manager_disconnect(struct manager *manager, const char *why)
{
	struct rpc_client *client = manager->client;
	struct call *call, *next;

	log_debug("rpc", "%s %s", manager->url, why);
	manager->problem = manager->state == MANAGER_HANDSHAKE ? manager_absence(manager) : silent;
	manager_set_state(manager, MANAGER_CLOSING);
	manager->health = HEALTH_UNKNOWN;
	manager->ping_frame_id = 0;
	HASH_ITER (hh_sent, manager->sent, call, next) {
		call_move(call);
	}
	client_unlock(client);
	rpc_conn_close(manager->conn);
	client_lock(client);
}

/* Cleans up after a closed connection and schedules the next dialing. Does it later while other threads use the
 * connection. Releases the lock temporarily. */
static void clean_up(struct manager *manager, int64_t now_ms)
{
	struct rpc_client *client = manager->client;
	struct rpc_conn *conn = manager->conn;
	struct call *call, *next;
	int64_t pause_ms = manager->redial_pause_ms;

	HASH_ITER (hh_sent, manager->sent, call, next) {
		call_move(call);
	}
	manager->ping_frame_id = 0;
	if (manager->users > 0)
		return;
	manager->conn = NULL;
	pause_ms = pause_ms < REDIAL_MIN_MS ? REDIAL_MIN_MS : 2 * pause_ms;
	pause_ms = pause_ms > REDIAL_MAX_MS ? REDIAL_MAX_MS : pause_ms;
	manager->redial_pause_ms = pause_ms;
	manager->redial_ms = now_ms + pause_ms / 2 + client_random(client, (uint32_t)pause_ms / 2 + 1);
	manager_set_state(manager, MANAGER_DOWN);
	if (!conn)
		return;
	client_unlock(client);
	rpc_conn_free(conn);
	client_lock(client);
}

/* Makes a connection of the stream and starts it. Releases the lock temporarily. */
static void begin_handshake(struct manager *manager)
{
	struct rpc_client *client = manager->client;
	nng_stream *stream = manager->stream;
	struct rpc_conn *conn;

	manager->stream = NULL;
	client_unlock(client);
	conn = rpc_conn_create(stream, RPC_CONN_REQUESTS, ANSWER_BYTES_MAX, NULL, &conn_events, manager);
	if (manager->tls_host) {
		tls_refresh(client->tls);
		rpc_conn_secure(conn, client->tls, manager->tls_host, NULL, NULL);
	}
	client_lock(client);
	manager->conn = conn;
	manager_set_state(manager, MANAGER_HANDSHAKE);
	client_unlock(client);
	rpc_conn_start(conn);
	client_lock(client);
}

/* Closes the connection if the other end's certificate is not valid any more. Releases the lock temporarily. */
static void recheck(struct manager *manager, int64_t now_ms)
{
	struct rpc_client *client = manager->client;

	if (!manager->tls_host || now_ms - manager->tls_checked_ms < TLS_CHECK_MS)
		return;
	manager->tls_checked_ms = now_ms;
	client_unlock(client);
	tls_refresh(client->tls);
	rpc_conn_recheck(manager->conn);
	client_lock(client);
}

int64_t manager_run(struct manager *manager, int64_t now_ms)
{
	if (manager->state == MANAGER_DOWN && now_ms >= manager->redial_ms)
		manager_dial(manager);
	if (manager->state == MANAGER_DIALED)
		begin_handshake(manager);
	if (manager->state == MANAGER_OPEN)
		recheck(manager, now_ms);
	if (manager->state == MANAGER_CLOSED)
		clean_up(manager, now_ms);
	switch (manager->state) {
	case MANAGER_DOWN: return manager->redial_ms;
	case MANAGER_OPEN: return manager_check(manager, now_ms);
	case MANAGER_DIALING:
		if (now_ms - manager->since_ms < CONNECT_TIMEOUT_MS)
			return manager->since_ms + CONNECT_TIMEOUT_MS;
		nng_aio_abort(manager->dial_aio, NNG_ETIMEDOUT);
		return INT64_MAX;
	case MANAGER_HANDSHAKE:
		if (now_ms - manager->since_ms < CONNECT_TIMEOUT_MS)
			return manager->since_ms + CONNECT_TIMEOUT_MS;
		manager_disconnect(manager, "sends no hello");
		return INT64_MAX;
	default: return INT64_MAX;
	}
}

/* Closes the connection, waits for its end, and frees it. */
static void close_connection(struct manager *manager)
{
	struct rpc_client *client = manager->client;

	rpc_conn_close(manager->conn);
	client_lock(client);
	while (manager->state != MANAGER_CLOSED || manager->users > 0) {
		client->work = false;
		while (!client->work)
			pthread_cond_wait(&client->work_changed, &client->lock);
	}
	client_unlock(client);
	rpc_conn_free(manager->conn);
}

void manager_destroy(struct manager *manager)
{
	lookup_free(manager->lookup);
	if (manager->dialer)
		nng_stream_dialer_close(manager->dialer);
	if (manager->dial_aio)
		nng_aio_stop(manager->dial_aio);
	if (manager->stream)
		nng_stream_free(manager->stream);
	if (manager->conn)
		close_connection(manager);
	nng_aio_free(manager->dial_aio);
	nng_stream_dialer_free(manager->dialer);
	free(manager->host);
	free(manager->port);
	free(manager->tls_host);
	free(manager->url);
}
