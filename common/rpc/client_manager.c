/*
 * The client's view of a manager: a line, redialed whenever it is down, and pings. A manager is alive if its line is
 * open and a ping on it was answered. It is silent if a ping is unanswered and no byte has come from it for the ping
 * limit; then its line is closed. A manager that reports no database is used only while no other manager has one. Only
 * the background thread changes the state of a line, except for the events of other threads: dialed, opened, closed,
 * name looked up.
 */
#include "common/rpc/client_internal.h"

#include "common/clock.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/rpc/wire.h"

#include <reeve/v1/admin.pb-c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

enum {
	IDLE_PING_MAX_MS = 15000, /* maximum, whatever the manager asks for */
	/* While other answers arrive, a ping is sent after this many idle intervals at the latest. */
	HEARD_PINGS = 4,
	REDIAL_MIN_MS = 20,
	REDIAL_MAX_MS = 500,
	PATIENCE_MS = 5000,            /* to connect, and for the other end's hello */
	ANSWER_BYTES_MAX = 256 << 20, /* longer than any manager's answer; the connection of a longer one is closed */
	SLOW_BYTES_PER_MS = 1000,      /* a ping that follows large calls gets the time that they take on a slow line */
};

static void become(struct manager *manager, enum line_state line)
{
	manager->line = line;
	manager->since_ms = clock_monotonic_ms();
}

/* Returns the meaning of a dialing error, for people. */
static const char *dial_problem(int result)
{
	switch (result) {
	case NNG_ECONNREFUSED:
		return "connection refused: nothing listens there";
	case NNG_ETIMEDOUT:
		return "no answer to the attempt to connect";
	case NNG_EUNREACHABLE:
		return "no route to that host";
	case NNG_ENOENT:
		return "there is no such socket";
	default:
		return nng_strerror(result);
	}
}

const char *manager_absence(const struct manager *manager)
{
	switch (manager->line) {
	case LINE_LOOKING:
		return manager->problem ? manager->problem : "its name has not been found yet";
	case LINE_DIALING:
		return manager->problem ? manager->problem : "no answer to the attempt to connect";
	case LINE_OPENING:
		return "something takes connections there, but does not greet as a Reeve manager does";
	case LINE_OPEN:
		return *manager->refusal ? manager->refusal : "it takes connections, but does not answer";
	default:
		return manager->problem ? manager->problem : "not connected yet";
	}
}

/* On nng's threads. */
static void dialed(void *arg)
{
	struct manager *manager = arg;
	struct rpc_client *client = manager->client;
	int result = nng_aio_result(manager->dial_aio);

	client_lock(client);
	manager->stream = result == 0 ? nng_aio_get_output(manager->dial_aio, 0) : NULL;
	if (!manager->stream && result != NNG_ECLOSED)
		manager->problem = dial_problem(result);
	become(manager, manager->stream ? LINE_DIALED : LINE_CLOSED);
	client_wake_control(client);
	client_unlock(client);
}

/* On nng's threads. */
static void line_opened(void *arg)
{
	struct manager *manager = arg;
	struct rpc_client *client = manager->client;

	client_lock(client);
	if (manager->line == LINE_OPENING) {
		become(manager, LINE_OPEN);
		manager->problem = "the connection was closed";
		manager->ping_due_ms = 0;
	}
	client_wake_control(client);
	client_unlock(client);
}

/* On nng's threads. */
static void line_closed(void *arg)
{
	struct manager *manager = arg;
	struct rpc_client *client = manager->client;

	client_lock(client);
	if (manager->line == LINE_OPENING)
		manager->problem = "something listens there that is not a Reeve manager, or it has no room for a connection";
	become(manager, LINE_CLOSED);
	manager->alive = false;
	*manager->refusal = 0;
	client_wake_control(client);
	client_unlock(client);
}

/* Returns true if a manager other than `avoid` is alive and has its database. */
static bool any_serves(const struct rpc_client *client, const struct manager *avoid)
{
	for (int i = 0; i < client->n_managers; i++)
		if (&client->managers[i] != avoid && client->managers[i].alive && client->managers[i].served)
			return true;
	return false;
}

/* Handles a manager without a database: moves its calls to other managers if one of those has its database. */
static void unserved(struct manager *manager)
{
	struct rpc_client *client = manager->client;
	struct call *call, *next;

	if (!any_serves(client, manager))
		return;
	HASH_ITER(hh_sent, manager->sent, call, next)
	{
		call->avoid = true;
		call_move(call);
	}
	if (client->current == manager)
		client->current = manager_choose(client, manager);
	manager->stable_ms = clock_monotonic_ms() + STABLE_PINGS * client->ping_interval_ms;
}

/* Applies the answer to a ping from a manager with another version of the contract: it gets no calls. */
static void refused(struct manager *manager, const struct envelope_reply *reply, const Reeve__V1__PingResponse *response)
{
	struct rpc_client *client = manager->client;

	if (reply->code == STATUS(OK)) /* it is from before versions */
		envelope_contract_problem(REEVE__V1__CONTRACT__CONTRACT_CURRENT, response ? response->contract : 0,
		    manager->refusal, sizeof manager->refusal);
	else
		snprintf(manager->refusal, sizeof manager->refusal, "%.*s", (int)reply->message.length,
		    (const char *)reply->message.bytes);
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
	manager->served = response->database_up;
	manager->full = false;
	manager->idle_ping_ms = response->idle_ping_ms < IDLE_PING_MAX_MS ? response->idle_ping_ms : IDLE_PING_MAX_MS;
	manager->redial_pause_ms = 0;
}

/* Applies the answer to a ping. */
static void pong(struct manager *manager, const struct envelope_reply *reply)
{
	struct rpc_client *client = manager->client;
	Reeve__V1__PingResponse *response = NULL;
	int64_t now_ms = clock_monotonic_ms();
	bool known;

	if (reply->code == STATUS(OK))
		response = (void *)wire_unpack(
		    &reeve__v1__ping_response__descriptor, reply->body.bytes, reply->body.length, NULL);
	*manager->refusal = 0;
	known = response && response->contract == REEVE__V1__CONTRACT__CONTRACT_CURRENT;
	if (known)
		note_ping(manager, response, now_ms);
	if (reply->code == STATUS(UNIMPLEMENTED) || (reply->code == STATUS(OK) && !known))
		refused(manager, reply, response);
	if (response)
		protobuf_c_message_free_unpacked(&response->base, NULL);
	if (*manager->refusal)
		return;
	if (reply->code == STATUS(RESOURCE_EXHAUSTED) || reply->code == STATUS(UNAVAILABLE)) {
		manager->served = false; /* it has no room: prefer other managers */
		manager->full = true;
	}
	if (!manager->served)
		unserved(manager);
	if (manager->alive || manager->line != LINE_OPEN)
		return;
	manager->alive = true;
	manager->stable_ms = now_ms + STABLE_PINGS * client->ping_interval_ms;
	if (manager->next_address > 0)
		manager->next_address--; /* this address worked: dial it first next time */
	log_debug("rpc", "%s is alive", manager->url);
	/* Soon after the start, the favourite replaces the manager that answered first. */
	if (manager == client->favourite && now_ms - client->created_ms < 2 * client->ping_interval_ms)
		client->current = manager;
	pthread_cond_broadcast(&client->alive_changed);
	client_wake_control(client);
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
	client_lock(client);
	if (id == manager->ping_frame_id) {
		manager->ping_frame_id = 0;
		pong(manager, &reply);
	}
	HASH_FIND(hh_sent, manager->sent, &id, sizeof id, call);
	if (call && !call_answered(call, &reply))
		call = NULL;
	client_unlock(client);
	if (call)
		call_deliver(call, &reply);
}

/* On nng's threads. */
static bool line_arrived(void *arg, struct frame *frames)
{
	while (frames) {
		struct frame *next = frames->next;

		take_reply(arg, frames);
		free(frames);
		frames = next;
	}
	return true;
}

static const struct rpc_conn_events line_events = {line_opened, line_arrived, line_closed, NULL};

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
	if (--manager->users == 0 && manager->line == LINE_CLOSED)
		client_wake_control(client);
	client_unlock(client);
}

/* Returns when the last byte came from the manager. */
static int64_t heard_ms(const struct manager *manager)
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

	if (manager->quick_calls > 0 || !manager->alive || !manager->served || idle_ms <= interval_ms)
		return manager->pinged_ms + interval_ms;
	due_ms = heard_ms(manager) + idle_ms;
	first_ms = manager->pinged_ms + idle_ms;
	last_ms = manager->pinged_ms + HEARD_PINGS * idle_ms;
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
	struct envelope_request envelope = {
	    .method = {(const uint8_t *)method, sizeof method - 1},
	    .token = {(const uint8_t *)client->token, strlen(client->token)},
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

/* Moves the calls in flight and closes the line. Releases the lock temporarily. */
static void cut(struct manager *manager, const char *why)
{
	struct rpc_client *client = manager->client;
	struct call *call, *next;

	log_debug("rpc", "%s %s", manager->url, why);
	manager->problem = manager->line == LINE_OPENING ? manager_absence(manager) : "it takes connections, but does not answer";
	become(manager, LINE_CLOSING);
	manager->alive = false;
	*manager->refusal = 0;
	manager->ping_frame_id = 0;
	HASH_ITER(hh_sent, manager->sent, call, next)
	{
		call_move(call);
	}
	client_unlock(client);
	rpc_conn_close(manager->conn);
	client_lock(client);
}

/* Cleans up after a closed line and schedules the next dialing. Does it later while other threads use the connection.
 * Releases the lock temporarily. */
static void clear_up(struct manager *manager, int64_t now_ms)
{
	struct rpc_client *client = manager->client;
	struct rpc_conn *conn = manager->conn;
	struct call *call, *next;
	int64_t pause_ms = manager->redial_pause_ms;

	HASH_ITER(hh_sent, manager->sent, call, next)
	{
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
	become(manager, LINE_DOWN);
	if (!conn)
		return;
	client_unlock(client);
	rpc_conn_free(conn);
	client_lock(client);
}

/* Makes a connection of the stream and starts it. Releases the lock temporarily. */
static void greet(struct manager *manager)
{
	struct rpc_client *client = manager->client;
	nng_stream *stream = manager->stream;
	struct rpc_conn *conn;

	manager->stream = NULL;
	client_unlock(client);
	conn = rpc_conn_create(stream, RPC_CONN_REQUESTS, ANSWER_BYTES_MAX, NULL, &line_events, manager);
	client_lock(client);
	manager->conn = conn;
	become(manager, LINE_OPENING);
	client_unlock(client);
	rpc_conn_start(conn);
	client_lock(client);
}

/* On the lookup's thread. */
static void on_lookup_done(void *arg)
{
	struct manager *manager = arg;
	struct rpc_client *client = manager->client;

	client_lock(client);
	manager->lookup_done = true;
	if (manager->line == LINE_LOOKING) {
		become(manager, LINE_DOWN);
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
static int make_dialer(struct manager *manager, const char *url)
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
static void lookup_begin(struct manager *manager)
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

/* Makes the dialer for the next address of the manager's name. Returns false if no address is known.
 * Releases the lock temporarily. */
static bool choose_address(struct manager *manager)
{
	struct rpc_client *client = manager->client;
	char url[LOOKUP_ADDRESS_BYTES + 64];
	const char *address;
	int result;

	lookup_begin(manager);
	if (manager->n_addresses == 0)
		return false;
	if (manager->next_address >= manager->n_addresses)
		manager->next_address = 0;
	address = manager->addresses[manager->next_address++];
	snprintf(url, sizeof url, strchr(address, ':') ? "tcp://[%s]:%s" : "tcp://%s:%s", address, manager->port);
	client_unlock(client);
	result = make_dialer(manager, url);
	client_lock(client);
	return result == 0;
}

/* Dials the manager, or first looks up its name. Releases the lock temporarily. */
static void dial(struct manager *manager)
{
	struct rpc_client *client = manager->client;

	if (manager->host) {
		become(manager, LINE_LOOKING);
		if (!choose_address(manager)) {
			/* If a lookup is running, its end wakes the line; otherwise wait for the next try. */
			if (!manager->lookup)
				become(manager, LINE_CLOSED);
			return;
		}
	}
	become(manager, LINE_DIALING);
	client_unlock(client);
	nng_stream_dialer_dial(manager->dialer, manager->dial_aio);
	client_lock(client);
}

/* Returns from when an open line with an unanswered ping counts as silent. */
static int64_t silent_from_ms(const struct manager *manager)
{
	int64_t limit_ms = manager->client->ping_limit_ms;
	int64_t last_ms = heard_ms(manager);
	int64_t from_ms = (last_ms > manager->listening_ms ? last_ms : manager->listening_ms) + limit_ms;

	/* A late ping gets at least half the limit; one on an idle line gets the full limit. */
	if (manager->pinged_ms - last_ms <= 2 * manager->client->ping_interval_ms)
		limit_ms /= 2;
	if (from_ms < manager->pinged_ms + limit_ms)
		from_ms = manager->pinged_ms + limit_ms;
	return from_ms + (int64_t)manager->bytes_open / SLOW_BYTES_PER_MS;
}

/* Pings an open line, or closes it if it is silent. Returns the time of the next call. */
static int64_t tend_open(struct manager *manager, int64_t now_ms)
{
	int64_t silent_ms;

	if (!manager->ping_frame_id && now_ms >= manager->ping_due_ms && manager->ping_due_ms > 0)
		manager->ping_due_ms = ping_due_ms(manager); /* urgent calls may have been answered */
	if (!manager->ping_frame_id && now_ms >= manager->ping_due_ms)
		ping(manager, now_ms);
	if (manager->line != LINE_OPEN)
		return now_ms;
	if (!manager->ping_frame_id)
		return manager->ping_due_ms;
	silent_ms = silent_from_ms(manager);
	if (now_ms < silent_ms)
		return silent_ms;
	cut(manager, "does not answer");
	return INT64_MAX;
}

int64_t manager_tend(struct manager *manager, int64_t now_ms)
{
	if (manager->line == LINE_DOWN && now_ms >= manager->redial_ms)
		dial(manager);
	if (manager->line == LINE_DIALED)
		greet(manager);
	if (manager->line == LINE_CLOSED)
		clear_up(manager, now_ms);
	switch (manager->line) {
	case LINE_DOWN:
		return manager->redial_ms;
	case LINE_OPEN:
		return tend_open(manager, now_ms);
	case LINE_DIALING:
		if (now_ms - manager->since_ms < PATIENCE_MS)
			return manager->since_ms + PATIENCE_MS;
		nng_aio_abort(manager->dial_aio, NNG_ETIMEDOUT);
		return INT64_MAX;
	case LINE_OPENING:
		if (now_ms - manager->since_ms < PATIENCE_MS)
			return manager->since_ms + PATIENCE_MS;
		cut(manager, "does not greet");
		return INT64_MAX;
	default:
		return INT64_MAX;
	}
}

const char *manager_refusal(const struct rpc_client *client)
{
	for (int i = 0; i < client->n_managers; i++)
		if (!*client->managers[i].refusal)
			return NULL;
	return client->managers[0].refusal;
}

/* Returns true if a manager can get calls. `served`: another manager has its database, so one without is not usable. */
static bool usable(const struct manager *manager, const struct manager *avoid, bool served)
{
	return manager->alive && manager != avoid && (manager->served || !served);
}

struct manager *manager_choose(struct rpc_client *client, const struct manager *avoid)
{
	struct manager *current = client->current, *favourite = client->favourite;
	bool served = any_serves(client, avoid);
	bool prefer_favourite = usable(favourite, avoid, served);
	int alive = 0;

	if (current && usable(current, avoid, served)) {
		/* Otherwise all clients would end up on one manager once each of the others has been away. */
		if (current != favourite && prefer_favourite && clock_monotonic_ms() >= favourite->stable_ms)
			client->current = favourite;
		return client->current;
	}
	if (prefer_favourite) {
		client->current = favourite;
		return favourite;
	}
	for (int i = 0; i < client->n_managers; i++) {
		struct manager *manager = &client->managers[i];

		if (!usable(manager, avoid, served))
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

/* Validates the URL for dialing, and sets host and port if it has a host name. */
static int read_url(struct manager *manager)
{
	nng_url *url;
	int result = nng_url_parse(&url, manager->url);

	if (result != 0)
		return result;
	if (strstr(url->u_scheme, "tcp") && (!*url->u_hostname || !*url->u_port || !strcmp(url->u_port, "0")))
		result = NNG_EADDRINVAL;
	if (result == 0 && !strcmp(url->u_scheme, "tcp") && !lookup_numeric(url->u_hostname)) {
		manager->host = mem_strdup(url->u_hostname);
		manager->port = mem_strdup(url->u_port);
	}
	nng_url_free(url);
	return result;
}

bool manager_open(struct manager *manager, struct reeve_error *error)
{
	int result = read_url(manager);

	mem_check(nng_aio_alloc(&manager->dial_aio, dialed, manager) == 0);
	if (result == 0) /* also with a host name, to validate the rest of the URL */
		result = make_dialer(manager, manager->url);
	if (result != 0)
		return error_set(error, STATUS(INVALID_ARGUMENT), "\"%s\" is not a manager's address (tcp://HOST:PORT)",
		    manager->url);
	return true;
}

/* Closes the connection, waits for its end, and frees it. */
static void close_connection(struct manager *manager)
{
	struct rpc_client *client = manager->client;

	rpc_conn_close(manager->conn);
	client_lock(client);
	while (manager->line != LINE_CLOSED || manager->users > 0) {
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
	free(manager->url);
}
