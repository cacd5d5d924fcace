/*
 * Up to one read and one write are in flight. Each completion decides on the next one; no other code starts one while
 * its flag (`reading`, `writing`) is set. The connection has ended when it is closing and all flags are clear.
 *
 * `lock` guards the flags and the queue and is held only for moments.
 */
#include "common/rpc/conn_internal.h"

#include "common/clock.h"
#include "common/mem.h"

#include <stdlib.h>
#include <string.h>

enum {
	CHUNK_MIN = 1024,
	CHUNK_MAX = 65536,
	COPIED_MAX = 16384, /* shorter frames share chunks, longer ones are chunks of their own */
};

struct rpc_conn *rpc_conn_alloc(const struct carrier *carrier, enum rpc_conn_side side, size_t max_body,
    struct rpc_conn_budget *budget, const struct rpc_conn_events *events, void *owner)
{
	struct rpc_conn *conn = mem_calloc(1, sizeof *conn);

	conn->buffer = mem_malloc(BUFFER_MIN);
	pthread_mutex_init(&conn->lock, NULL);
	conn->carrier = carrier;
	conn->received = rpc_conn_received;
	conn->written = rpc_conn_written;
	conn->side = side;
	conn->max_body = max_body;
	conn->budget = budget;
	conn->events = events;
	conn->owner = owner;
	conn->size = BUFFER_MIN;
	conn->last_received_ms = clock_monotonic_ms();
	return conn;
}

void rpc_conn_use(struct rpc_conn *conn, const struct rpc_protocol *protocol, void *arg)
{
	conn->protocol = protocol;
	conn->protocol_state = protocol->open(arg, conn);
}

void *rpc_conn_protocol_state(const struct rpc_conn *conn)
{
	return conn->protocol_state;
}

void rpc_conn_unreserve(struct rpc_conn *conn, size_t bytes)
{
	rpc_conn_count_incoming(conn, -bytes);
}

void rpc_conn_count_incoming(struct rpc_conn *conn, size_t bytes)
{
	if (conn->budget)
		atomic_fetch_add(&conn->budget->incoming, bytes);
}

/* Adds queued bytes to the backlog, or subtracts sent ones (a negative number). Call with the lock held. */
static void count_backlog(struct rpc_conn *conn, size_t bytes)
{
	conn->backlog += bytes;
	if (conn->budget && !conn->closing)
		atomic_fetch_add(&conn->budget->unsent, bytes);
}

static void free_chunks(struct chunk *chunk)
{
	while (chunk) {
		struct chunk *next = chunk->next;

		free(chunk->frame);
		free(chunk);
		chunk = next;
	}
}

void rpc_conn_free(struct rpc_conn *conn)
{
	conn->carrier->free(conn);
	if (conn->protocol)
		conn->protocol->free(conn->protocol_state);
	free_chunks(conn->out);
	rpc_conn_count_incoming(conn, -(conn->size - BUFFER_MIN));
	if (conn->partial)
		rpc_conn_count_incoming(conn, -conn->partial_capacity);
	free(conn->partial);
	pthread_mutex_destroy(&conn->lock);
	free(conn->buffer);
	free(conn);
}

bool rpc_conn_clear(struct rpc_conn *conn, bool *flag)
{
	*flag = false;
	if (!conn->closing || conn->reading || conn->writing || conn->shutting || conn->over)
		return false;
	conn->over = true;
	return true;
}

void rpc_conn_stop(struct rpc_conn *conn, bool *flag)
{
	bool over;

	pthread_mutex_lock(&conn->lock);
	over = rpc_conn_clear(conn, flag);
	pthread_mutex_unlock(&conn->lock);
	if (over)
		conn->events->closed(conn->owner);
}

void rpc_conn_close(struct rpc_conn *conn)
{
	bool first;

	pthread_mutex_lock(&conn->lock);
	first = !conn->closing;
	if (first && conn->budget)
		atomic_fetch_sub(&conn->budget->unsent, conn->backlog);
	conn->closing = true;
	conn->shutting |= first;
	pthread_mutex_unlock(&conn->lock);
	if (!first)
		return;
	conn->carrier->close(conn);
	rpc_conn_stop(conn, &conn->shutting);
}

/* Writes what is queued. `writing` must be set. */
static void write_on(struct rpc_conn *conn)
{
	struct iovec places[IOV_MAX];
	size_t left = WRITE_MAX;
	unsigned count = 0;

	pthread_mutex_lock(&conn->lock);
	for (struct chunk *chunk = conn->out; chunk && count < IOV_MAX && left > 0; chunk = chunk->next) {
		uint8_t *bytes = chunk->frame ? chunk->frame->wire : chunk->copied;
		size_t offset = count ? 0 : conn->out_offset, length = chunk->filled - offset;

		length = length < left ? length : left;
		left -= length;
		places[count++] = (struct iovec){bytes + offset, length};
	}
	pthread_mutex_unlock(&conn->lock);
	if (!conn->carrier->send(conn, places, count))
		rpc_conn_stop(conn, &conn->writing);
}

/* Removes `count` bytes from the queue, with the lock held. Returns the chunks that are completely sent. */
static struct chunk *take_sent(struct rpc_conn *conn, size_t count)
{
	struct chunk *done = NULL;

	count_backlog(conn, -count);
	conn->out_offset += count;
	while (conn->out && conn->out_offset >= conn->out->filled) {
		struct chunk *chunk = conn->out;

		conn->out_offset -= chunk->filled;
		conn->out = chunk->next;
		chunk->next = done;
		done = chunk;
	}
	if (!conn->out) {
		conn->out_last = NULL;
		conn->taken = false;
	}
	return done;
}

/* Returns whether the owner must be notified that the backlog has shrunk, with the lock held. */
static bool take_eased(struct rpc_conn *conn)
{
	bool eased = conn->heavy && conn->backlog <= conn->heavy && !conn->closing;

	conn->heavy = eased ? 0 : conn->heavy;
	return eased;
}

void rpc_conn_progressed(struct rpc_conn *conn)
{
	int64_t now_ms = clock_monotonic_ms();

	if (now_ms - conn->progress_ms >= RPC_CONN_WAIT_MS)
		conn->waited_ms = now_ms;
	conn->progress_ms = now_ms;
	if (conn->taken)
		conn->taken_ms = now_ms;
}

void rpc_conn_written(struct rpc_conn *conn, bool good, size_t count)
{
	struct chunk *done;
	bool more, over, eased, finished;

	if (!good) {
		rpc_conn_close(conn);
		rpc_conn_stop(conn, &conn->writing);
		return;
	}
	pthread_mutex_lock(&conn->lock);
	rpc_conn_progressed(conn);
	done = take_sent(conn, count);
	more = conn->out && !conn->closing;
	eased = take_eased(conn);
	if (eased) { /* before the flag is cleared: the connection may end then */
		pthread_mutex_unlock(&conn->lock);
		conn->events->eased(conn->owner);
		pthread_mutex_lock(&conn->lock);
		more = conn->out && !conn->closing;
	}
	over = !more && rpc_conn_clear(conn, &conn->writing);
	finished = !more && !conn->closing && conn->finish_ms;
	pthread_mutex_unlock(&conn->lock);
	free_chunks(done);
	if (more)
		write_on(conn);
	else if (over)
		conn->events->closed(conn->owner);
	else if (finished)
		conn->carrier->end(conn);
	else if (conn->protocol && conn->protocol->sent)
		conn->protocol->sent(conn->protocol_state);
}

/* Appends a chunk to the queue, with the lock held. */
static struct chunk *append(struct rpc_conn *conn, size_t capacity)
{
	struct chunk *chunk = mem_malloc(sizeof *chunk + capacity);

	*chunk = (struct chunk){.capacity = capacity};
	if (conn->out_last)
		conn->out_last->next = chunk;
	else
		conn->out = chunk;
	conn->out_last = chunk;
	return chunk;
}

/* Copies bytes to the end of the queue, with the lock held. */
static void copy_bytes(struct rpc_conn *conn, const void *bytes, size_t length)
{
	struct chunk *chunk = conn->out_last;

	if (!chunk || chunk->capacity - chunk->filled < length)
		chunk = append(conn, chunk ? CHUNK_MAX : length + CHUNK_MIN);
	memcpy(chunk->copied + chunk->filled, bytes, length);
	chunk->filled += length;
	count_backlog(conn, length);
}

/* Appends a frame to the queue, with the lock held. */
static void append_frame(struct rpc_conn *conn, struct frame *frame)
{
	struct chunk *chunk = append(conn, 0);

	chunk->frame = frame;
	chunk->filled = chunk->capacity = FRAME_HEAD_BYTES + frame->length;
	count_backlog(conn, chunk->filled);
}

void rpc_conn_queue(struct rpc_conn *conn, struct frame *frame)
{
	size_t length = FRAME_HEAD_BYTES + frame->length;
	bool kept = false;

	pthread_mutex_lock(&conn->lock);
	if (!conn->closing) {
		kept = length > COPIED_MAX;
		if (kept)
			append_frame(conn, frame);
		else
			copy_bytes(conn, frame->wire, length);
	}
	pthread_mutex_unlock(&conn->lock);
	if (!kept)
		free(frame);
}

size_t rpc_conn_queue_bytes(struct rpc_conn *conn, const void *bytes, size_t length)
{
	size_t unsent;

	pthread_mutex_lock(&conn->lock);
	if (!conn->closing && length)
		copy_bytes(conn, bytes, length);
	unsent = conn->closing ? SIZE_MAX : conn->backlog - conn->held;
	pthread_mutex_unlock(&conn->lock);
	return unsent;
}

void rpc_conn_hold(struct rpc_conn *conn, size_t bytes)
{
	bool less = bytes > SIZE_MAX / 2, eased;

	pthread_mutex_lock(&conn->lock);
	if (less || !conn->held)
		conn->taken_ms = clock_monotonic_ms();
	conn->taken |= less;
	conn->held += bytes;
	count_backlog(conn, bytes);
	eased = take_eased(conn);
	pthread_mutex_unlock(&conn->lock);
	if (eased)
		conn->events->eased(conn->owner);
}

void rpc_conn_withdraw(struct rpc_conn *conn, uint32_t id)
{
	if (conn->events->withdrawn)
		conn->events->withdrawn(conn->owner, id);
}

void rpc_conn_flush(struct rpc_conn *conn)
{
	bool write;

	pthread_mutex_lock(&conn->lock);
	write = conn->out && !conn->writing && !conn->closing;
	if (write) {
		conn->writing = true;
		conn->progress_ms = clock_monotonic_ms();
	}
	pthread_mutex_unlock(&conn->lock);
	if (write)
		write_on(conn);
}

void rpc_conn_finish(struct rpc_conn *conn)
{
	bool idle;

	pthread_mutex_lock(&conn->lock);
	conn->finish_ms = clock_monotonic_ms();
	idle = !conn->out && !conn->writing && !conn->closing;
	pthread_mutex_unlock(&conn->lock);
	if (idle)
		conn->carrier->end(conn);
}

bool rpc_conn_heavy(struct rpc_conn *conn, size_t max)
{
	bool heavy;

	pthread_mutex_lock(&conn->lock);
	heavy = conn->backlog > max && !conn->closing;
	if (heavy)
		conn->heavy = max / 2;
	pthread_mutex_unlock(&conn->lock);
	return heavy;
}

void rpc_conn_start(struct rpc_conn *conn)
{
	const uint8_t hello[HELLO_BYTES] = {0, 'S', 'P', 0, 0, conn->side, 0, 0};

	if (!conn->protocol) {
		pthread_mutex_lock(&conn->lock);
		copy_bytes(conn, hello, sizeof hello);
		pthread_mutex_unlock(&conn->lock);
		rpc_conn_flush(conn);
	}
	rpc_conn_resume(conn);
}

struct rpc_conn_state rpc_conn_poll(struct rpc_conn *conn)
{
	struct rpc_conn_state state;
	int64_t now_ms = clock_monotonic_ms();

	pthread_mutex_lock(&conn->lock);
	state.opened = conn->opened;
	state.quiet_ms = now_ms - conn->last_received_ms;
	state.stuck_ms = conn->writing ? now_ms - conn->progress_ms : 0;
	if (conn->held && now_ms - conn->taken_ms > state.stuck_ms) /* other bytes pass what is held */
		state.stuck_ms = now_ms - conn->taken_ms;
	state.waited_ms = conn->waited_ms ? now_ms - conn->waited_ms : INT64_MAX;
	state.backlog = conn->closing ? 0 : conn->backlog;
	state.frame_ms = conn->frame_since_ms ? now_ms - conn->frame_since_ms : 0;
	state.frame = conn->frame_length;
	state.held = conn->closing ? 0 : conn->frame_capacity;
	state.held_ms = conn->held_since_ms ? now_ms - conn->held_since_ms : state.frame_ms;
	state.starved = conn->starved;
	state.ended_ms = conn->finish_ms ? now_ms - conn->finish_ms : 0;
	pthread_mutex_unlock(&conn->lock);
	return state;
}
