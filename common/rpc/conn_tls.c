/*
 * TLS between a connection and the carrier below it, a socket.
 *
 * `layer_pump` does all the work. It continues the handshake, decrypts what the connection reads, encrypts what it
 * writes, and starts reads and writes of the carrier. It runs after each event, on one thread at a time: an event that
 * comes during a run makes it run once more. Callbacks run without the lock.
 *
 * A thread of a pool takes the expensive steps of the handshake. During such a step `layer_pump` does nothing, and a
 * connection that is closed ends after it.
 */
#include "common/rpc/conn_tls_internal.h"

#include "common/clock.h"
#include "common/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
	PLAIN_MAX = 65536, /* bytes encrypted at a time */
	BURST_MAX = 8,     /* writes in one turn, while the other end reads as fast */
};

/* Ends the TLS: with an alert, if the filter has made one. */
static void refuse(struct tls_layer *layer, int problem)
{
	layer->problem = problem;
	layer->awaits_close = layer->turns && layer->state == LAYER_HANDSHAKE;
	layer->state = LAYER_REFUSED;
	if (layer->turns)
		layer->turns->finish(layer);
	tls_bytes_free(&layer->filter.in);
}

enum tls_step layer_step(struct tls_layer *layer)
{
	if (!layer->filter.ssl)
		tls_filter_open(&layer->filter, layer->tls, layer->host);
	return tls_filter_handshake(&layer->filter);
}

/* Applies the result of a step. */
static void apply(struct tls_layer *layer, enum tls_step step)
{
	switch (step) {
	case TLS_DONE:
		layer->state = LAYER_OPEN;
		if (layer->turns)
			layer->turns->finish(layer);
		break;
	case TLS_MORE: break;
	case TLS_END:
	case TLS_FAILED: refuse(layer, layer->filter.problem ? layer->filter.problem : TLS_BROKEN);
	}
}

/* Continues the handshake, or begins it. */
static void handshake_step(struct tls_layer *layer)
{
	bool first = layer->state == LAYER_NEW;

	layer->state = LAYER_HANDSHAKE;
	layer->has_turn = false;
	layer->shaking = layer->turns != NULL;
	if (!layer->turns) {
		apply(layer, layer_step(layer));
		return;
	}
	if (first)
		layer->turns->begin(layer);
	layer->turns->handshake_step(layer);
}

void layer_stepped(struct tls_layer *layer)
{
	pthread_mutex_lock(&layer->lock);
	layer->shaking = false;
	if (layer->state == LAYER_HANDSHAKE)
		apply(layer, layer->step);
	pthread_mutex_unlock(&layer->lock);
	layer_pump(layer);
}

/* Encrypts the beginning of what the connection writes. */
static void encrypt(struct tls_layer *layer)
{
	for (unsigned i = 0; i < layer->write_count && layer->encrypted < PLAIN_MAX; i++) {
		size_t left = PLAIN_MAX - layer->encrypted;
		size_t length = layer->write_places[i].iov_len < left ? layer->write_places[i].iov_len : left;

		if (length == 0)
			continue;
		if (tls_filter_write(&layer->filter, layer->write_places[i].iov_base, length) != TLS_DONE) {
			refuse(layer, layer->filter.problem ? layer->filter.problem : TLS_BROKEN);
			return;
		}
		layer->encrypted += length;
	}
}

/* Ends the connection's read. */
static void finish_read(struct tls_layer *layer, bool good, size_t count)
{
	layer->reading = false;
	layer->again = true;
	pthread_mutex_unlock(&layer->lock);
	rpc_conn_received(layer->conn, good, count);
	pthread_mutex_lock(&layer->lock);
}

/* Ends the connection's write. */
static void finish_write(struct tls_layer *layer, bool good)
{
	size_t count = layer->encrypted;

	layer->writing = false;
	layer->encrypted = 0;
	layer->again = true;
	pthread_mutex_unlock(&layer->lock);
	rpc_conn_written(layer->conn, good, count);
	pthread_mutex_lock(&layer->lock);
}

/* Decrypts for the connection's read. */
static void decrypt(struct tls_layer *layer)
{
	size_t total = 0;
	enum tls_step step = TLS_DONE;

	for (unsigned i = 0; i < layer->read_count && step == TLS_DONE; i++) {
		uint8_t *place = layer->read_places[i].iov_base;
		size_t left = layer->read_places[i].iov_len;

		while (left > 0 && step == TLS_DONE) {
			size_t count;

			step = tls_filter_read(&layer->filter, place, left, &count);
			place += count;
			left -= count;
			total += count;
		}
	}
	if (step == TLS_FAILED)
		refuse(layer, layer->filter.problem);
	if (total > 0)
		finish_read(layer, true, total);
	else if (step == TLS_END)
		finish_read(layer, true, 0);
}

/* Starts a write of the carrier below. */
static void send_below(struct tls_layer *layer)
{
	struct iovec place;
	bool good;

	if (tls_bytes_count(&layer->sending) == 0) {
		tls_bytes_free(&layer->sending);
		layer->sending = layer->filter.out;
		layer->filter.out = (struct tls_bytes){0};
	}
	place = (struct iovec){layer->sending.data + layer->sending.start, tls_bytes_count(&layer->sending)};
	layer->below_writing = true;
	layer->burst++;
	pthread_mutex_unlock(&layer->lock);
	good = layer->below->send(layer->conn, &place, 1);
	pthread_mutex_lock(&layer->lock);
	if (!good) {
		layer->below_writing = false;
		layer->state = LAYER_CLOSED;
		layer->again = true;
	}
}

/* Starts a read of the carrier below. */
static void receive_below(struct tls_layer *layer)
{
	struct iovec place = {layer->scratch, SCRATCH_BYTES};
	bool good;

	layer->below_reading = true;
	pthread_mutex_unlock(&layer->lock);
	good = layer->below->receive(layer->conn, &place, 1);
	pthread_mutex_lock(&layer->lock);
	if (!good) {
		layer->below_reading = false;
		layer->state = LAYER_CLOSED;
		layer->again = true;
	}
}

/* Returns whether the other end's first message is complete, or too long, or not one of TLS. A caller whose message is
 * incomplete takes no place among the handshakes, and little memory, which counts for nothing. */
static bool hello_arrived(const struct tls_layer *layer)
{
	enum { HEAD_BYTES = 5, HANDSHAKE = 22, HELLO_MAX = 1 << 12 };
	size_t count = tls_bytes_count(&layer->filter.in), length;
	const uint8_t *bytes;

	if (count == 0)
		return false;
	bytes = layer->filter.in.data + layer->filter.in.start;
	if (*bytes != HANDSHAKE)
		return true;
	if (count < HEAD_BYTES)
		return false;
	length = (size_t)bytes[3] << 8 | bytes[4];
	return count >= HEAD_BYTES + length || length > HELLO_MAX;
}

/* Returns whether enough has arrived for the next step. */
static bool step_arrived(const struct tls_layer *layer)
{
	return layer->state == LAYER_NEW ? hello_arrived(layer) : tls_bytes_count(&layer->filter.in) > 0;
}

/* A handshake step is due, or has its turn. */
static bool may_shake(struct tls_layer *layer)
{
	bool arrived = step_arrived(layer);

	if (layer->state == LAYER_NEW && !layer->turns)
		return true;
	if (layer->state > LAYER_HANDSHAKE || !arrived)
		return false;
	if (!layer->turns || layer->has_turn)
		return true;
	layer->turns->want(layer);
	return false;
}

static bool has_output(const struct tls_layer *layer)
{
	return tls_bytes_count(&layer->filter.out) > 0 || tls_bytes_count(&layer->sending) > 0;
}

/* Ends what is in flight when the connection is closed. */
static void finish_all(struct tls_layer *layer)
{
	bool first = !layer->closing;

	layer->closing = true;
	if (first) {
		pthread_mutex_unlock(&layer->lock);
		rpc_conn_close(layer->conn);
		pthread_mutex_lock(&layer->lock);
	}
	if (layer->reading)
		finish_read(layer, false, 0);
	if (layer->writing)
		finish_write(layer, false);
}

/* One round of `layer_pump`. */
static void pump_once(struct tls_layer *layer)
{
	if (!layer->shaking && may_shake(layer))
		handshake_step(layer);
	if (layer->shaking)
		return;
	if (layer->state == LAYER_OPEN && layer->writing && layer->encrypted == 0)
		encrypt(layer);
	if (layer->state == LAYER_OPEN && layer->reading)
		decrypt(layer);
	if (layer->state != LAYER_CLOSED && !layer->below_writing && has_output(layer)) {
		if (layer->burst < BURST_MAX || !layer->turns || layer->unlimited)
			send_below(layer);
		else
			layer->turns->want(layer);
	}
	if (layer->state != LAYER_CLOSED && !layer->below_reading && !step_arrived(layer) &&
	    (layer->reading || layer->state != LAYER_OPEN))
		receive_below(layer);
	if (layer->writing && layer->encrypted > 0 && !has_output(layer) && !layer->below_writing)
		finish_write(layer, true);
	/* A refused client has taken its leave with the alert. A server waits for the other end, as a close with unread
	 * bytes would be a reset, which loses the alert; the owner closes the connection after a while. */
	if (layer->state == LAYER_REFUSED && !has_output(layer) && !layer->below_writing && !layer->awaits_close)
		layer->state = LAYER_CLOSED;
	if (layer->state == LAYER_CLOSED)
		finish_all(layer);
}

void layer_pump(struct tls_layer *layer)
{
	pthread_mutex_lock(&layer->lock);
	layer->again = true;
	while (!layer->pumping && layer->again) {
		layer->pumping = true;
		layer->again = false;
		pump_once(layer);
		layer->pumping = false;
	}
	pthread_mutex_unlock(&layer->lock);
}

/* The carrier below has read. */
static void received(struct rpc_conn *conn, bool good, size_t count)
{
	struct tls_layer *layer = conn->tls;

	pthread_mutex_lock(&layer->lock);
	layer->below_reading = false;
	if (!good || count == 0)
		layer->state = LAYER_CLOSED;
	else if (layer->state < LAYER_REFUSED)
		tls_filter_feed(&layer->filter, layer->scratch, count);
	pthread_mutex_unlock(&layer->lock);
	layer_pump(layer);
}

/* The carrier below has written. */
static void written(struct rpc_conn *conn, bool good, size_t count)
{
	struct tls_layer *layer = conn->tls;

	pthread_mutex_lock(&conn->lock);
	rpc_conn_progressed(conn);
	pthread_mutex_unlock(&conn->lock);
	pthread_mutex_lock(&layer->lock);
	layer->below_writing = false;
	layer->sending.start += count;
	if (!good)
		layer->state = LAYER_CLOSED;
	pthread_mutex_unlock(&layer->lock);
	layer_pump(layer);
}

static bool receive_by_tls(struct rpc_conn *conn, const struct iovec *places, unsigned count)
{
	struct tls_layer *layer = conn->tls;
	bool open;

	pthread_mutex_lock(&layer->lock);
	open = layer->state != LAYER_CLOSED;
	memcpy(layer->read_places, places, sizeof *places * count);
	layer->read_count = count;
	layer->reading = open;
	pthread_mutex_unlock(&layer->lock);
	if (open)
		layer_pump(layer);
	return open;
}

static bool send_by_tls(struct rpc_conn *conn, const struct iovec *places, unsigned count)
{
	struct tls_layer *layer = conn->tls;
	bool open;

	pthread_mutex_lock(&layer->lock);
	open = layer->state != LAYER_CLOSED;
	memcpy(layer->write_places, places, sizeof *places * count);
	layer->write_count = count;
	layer->writing = open;
	pthread_mutex_unlock(&layer->lock);
	if (open)
		layer_pump(layer);
	return open;
}

static void close_tls(struct rpc_conn *conn)
{
	struct tls_layer *layer = conn->tls;

	pthread_mutex_lock(&layer->lock);
	layer->state = LAYER_CLOSED;
	layer->closing = true;
	if (layer->turns)
		layer->turns->leave(layer);
	pthread_mutex_unlock(&layer->lock);
	layer->below->close(conn);
	layer_pump(layer);
}

static void end_tls(struct rpc_conn *conn)
{
	if (conn->tls->below->end)
		conn->tls->below->end(conn);
}

static void free_tls(struct rpc_conn *conn)
{
	struct tls_layer *layer = conn->tls;

	layer->below->free(conn);
	tls_filter_close(&layer->filter);
	tls_bytes_free(&layer->sending);
	pthread_mutex_destroy(&layer->lock);
	if (!layer->turns)
		free(layer->scratch);
	free(layer->host);
	free(layer);
}

static void send_all_tls(struct rpc_conn *conn)
{
	struct tls_layer *layer = conn->tls;

	pthread_mutex_lock(&layer->lock);
	layer->unlimited = true;
	pthread_mutex_unlock(&layer->lock);
	layer_pump(layer);
}

void rpc_conn_secure(
    struct rpc_conn *conn, struct tls *tls, const char *host, struct tls_turns *turns, struct tls_queue *queue)
{
	static const struct carrier carrier = {receive_by_tls, send_by_tls, close_tls, free_tls, end_tls, send_all_tls};
	struct tls_layer *layer = mem_calloc(1, sizeof *layer);

	pthread_mutex_init(&layer->lock, NULL);
	layer->conn = conn;
	layer->tls = tls;
	layer->host = host ? mem_strdup(host) : NULL;
	layer->turns = turns;
	layer->address = queue;
	layer->scratch = turns ? turns->scratch : mem_malloc(SCRATCH_BYTES);
	layer->below = conn->carrier;
	conn->carrier = &carrier;
	conn->received = received;
	conn->written = written;
	conn->tls = layer;
}

int rpc_conn_problem(struct rpc_conn *conn, char *detail, size_t size)
{
	struct tls_layer *layer = conn->tls;
	int problem;

	if (size > 0)
		*detail = 0;
	if (!layer)
		return conn->stranger ? TLS_PEER_IS_TLS : TLS_FINE;
	pthread_mutex_lock(&layer->lock);
	problem = layer->problem;
	snprintf(detail, size, "%s", layer->filter.detail);
	pthread_mutex_unlock(&layer->lock);
	return problem;
}

const char *rpc_conn_peer_name(struct rpc_conn *conn)
{
	struct tls_layer *layer = conn->tls;
	bool named;

	if (!layer)
		return NULL;
	pthread_mutex_lock(&layer->lock);
	named = *layer->filter.peer;
	pthread_mutex_unlock(&layer->lock);
	return named ? layer->filter.peer : NULL;
}

bool rpc_conn_uncertified(struct rpc_conn *conn)
{
	struct tls_layer *layer = conn->tls;
	bool uncertified;

	if (!layer)
		return false;
	pthread_mutex_lock(&layer->lock);
	uncertified = layer->state == LAYER_OPEN && layer->filter.uncertified;
	pthread_mutex_unlock(&layer->lock);
	return uncertified;
}

/* Checks the other end's certificate again, and closes the connection if it is not valid any more. */
void layer_check(struct tls_layer *layer)
{
	pthread_mutex_lock(&layer->lock);
	if (layer->state == LAYER_OPEN && tls_filter_is_due(&layer->filter, layer->tls, time(NULL)))
		layer->problem = tls_filter_check(&layer->filter, layer->tls);
	if (layer->problem)
		layer->state = LAYER_CLOSED;
	pthread_mutex_unlock(&layer->lock);
}

void rpc_conn_recheck(struct rpc_conn *conn)
{
	struct tls_layer *layer = conn->tls;
	bool due;

	if (!layer)
		return;
	pthread_mutex_lock(&layer->lock);
	due = layer->state == LAYER_OPEN && tls_filter_is_due(&layer->filter, layer->tls, time(NULL));
	if (due && layer->turns)
		layer->turns->want(layer);
	pthread_mutex_unlock(&layer->lock);
	if (due && !layer->turns) {
		layer_check(layer);
		layer_pump(layer);
	}
}
