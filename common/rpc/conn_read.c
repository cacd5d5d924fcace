/* The reading half of a connection. */
#include "common/rpc/conn_internal.h"

#include "common/clock.h"
#include "common/mem.h"

#include <stdlib.h>
#include <string.h>

enum {
	BUFFER_MAX = 65536,
	SHORT_MAX = 65536, /* maximum length of a short frame */
	/* Short frames may use this part of the budget in addition, so that long ones do not block them. */
	SHORT_PART = 8,
	/* Of a long frame. With a budget, its memory grows as bytes arrive, since its length is only announced. */
	PARTIAL_MIN = 16384,
	/* Bytes of a long frame in one read. A loop that reads megabytes of each connection at a time has no time for
	 * others, such as the database's, whose sockets also take only a part of a statement at a time. */
	READ_MAX = 65536,
};

/* Adds `bytes` to the budget for an incoming frame of `length` bytes. Returns false, and adds nothing, if the budget is
 * used up. */
static bool afford(struct rpc_conn *conn, size_t bytes, size_t length)
{
	struct rpc_conn_budget *budget = conn->budget;
	size_t max = budget ? budget->incoming_max : 0;

	max += length <= SHORT_MAX ? max / SHORT_PART : 0;
	if (!budget || atomic_fetch_add(&budget->incoming, bytes) + bytes <= max)
		return true;
	atomic_fetch_sub(&budget->incoming, bytes);
	return false;
}

bool rpc_conn_reserve(struct rpc_conn *conn, size_t bytes, size_t length)
{
	bool afforded = afford(conn, bytes, length);

	if (!afforded)
		atomic_store(&conn->budget->exceeded, true);
	return afforded;
}

/* Enlarges the buffer of a long frame. Returns false if the budget does not allow it. */
static bool grow(struct rpc_conn *conn)
{
	size_t total = FRAME_HEAD_BYTES + conn->partial->length;
	size_t capacity = 2 * conn->partial_capacity < total ? 2 * conn->partial_capacity : total;
	size_t more = capacity - conn->partial_capacity;

	if (!afford(conn, more, conn->partial->length))
		return false;
	conn->partial = mem_realloc(conn->partial, sizeof *conn->partial + capacity);
	conn->partial_capacity = capacity;
	pthread_mutex_lock(&conn->lock);
	conn->frame_capacity = capacity;
	pthread_mutex_unlock(&conn->lock);
	return true;
}

/* Stops reading until rpc_conn_resume. */
static void starve(struct rpc_conn *conn)
{
	bool over;

	pthread_mutex_lock(&conn->lock);
	conn->starved = true;
	over = rpc_conn_clear(conn, &conn->reading);
	pthread_mutex_unlock(&conn->lock);
	if (over)
		conn->events->closed(conn->owner);
}

/* Reads more. `reading` must be set. Bytes after a partial frame go to the buffer, which is empty then. */
static void read_on(struct rpc_conn *conn)
{
	size_t capacity = 0, total = 0, missing = 0;
	struct iovec places[2];
	unsigned count = 0;

	if (conn->partial) {
		if (conn->partial_filled == conn->partial_capacity && !grow(conn)) {
			starve(conn);
			return;
		}
		capacity = conn->partial_capacity;
		total = FRAME_HEAD_BYTES + conn->partial->length;
		missing = capacity - conn->partial_filled;
		places[count++] =
		    (struct iovec){conn->partial->wire + conn->partial_filled, missing < READ_MAX ? missing : READ_MAX};
	}
	if (capacity == total && missing < READ_MAX)
		places[count++] = (struct iovec){conn->buffer + conn->filled, conn->size - conn->filled};
	if (!conn->carrier->receive(conn, places, count))
		rpc_conn_stop(conn, &conn->reading);
}

/* The frames of one read. */
struct harvest {
	struct frame *first;
	struct frame **end;
	bool starved; /* a protocol needs more memory than the budget has */
	bool begun;   /* a protocol's message is incomplete */
};

/* Takes a complete frame. Returns false if it is of an unknown kind. */
static bool take_frame(struct rpc_conn *conn, struct harvest *harvest, struct frame *frame)
{
	conn->partial = NULL;
	*harvest->end = frame;
	harvest->end = &frame->next;
	/* Without the highest bit the message came through an nng device, which Reeve does not use. */
	return frame_id(frame) >= FRAME_ID_LOWEST;
}

/* Returns true if the other end's first bytes are a record of TLS: a hello, or an alert, which is shorter than the
 * expected hello. */
static bool is_tls(const struct rpc_conn *conn)
{
	return conn->filled >= 2 && (conn->buffer[0] == 0x16 || conn->buffer[0] == 0x15) && conn->buffer[1] == 0x03;
}

/* Checks the other end's hello. Returns false if it uses another protocol. */
static bool take_hello(struct rpc_conn *conn)
{
	uint8_t expected[HELLO_BYTES] = {0, 'S', 'P', 0, 0, RPC_CONN_REQUESTS, 0, 0};

	if (conn->side == RPC_CONN_REQUESTS)
		expected[5] = RPC_CONN_REPLIES;
	if (memcmp(conn->buffer, expected, HELLO_BYTES) != 0)
		return false;
	conn->said_hello = true;
	pthread_mutex_lock(&conn->lock);
	conn->opened = true;
	pthread_mutex_unlock(&conn->lock);
	if (conn->events->opened)
		conn->events->opened(conn->owner);
	return true;
}

/* Creates a frame of `length` bytes with memory only for its beginning. */
static struct frame *begin_frame(size_t length, size_t capacity)
{
	struct frame *frame = frame_create(capacity > FRAME_HEAD_BYTES ? capacity - FRAME_HEAD_BYTES : 0);

	frame->length = length;
	return frame;
}

/* Moves the frames out of the buffer. Returns false on invalid data. */
static bool take_buffer(struct rpc_conn *conn, struct harvest *harvest)
{
	size_t at = 0;

	if (!conn->said_hello) {
		conn->stranger = is_tls(conn);
		if (conn->stranger)
			return false;
		if (conn->filled < HELLO_BYTES)
			return true;
		if (!take_hello(conn))
			return false;
		at = HELLO_BYTES;
	}
	while (conn->filled - at >= FRAME_LENGTH_BYTES) {
		uint64_t length = frame_read_length(conn->buffer + at);
		size_t have = conn->filled - at, total, capacity;
		struct frame *frame;

		if (length < FRAME_ID_BYTES || length - FRAME_ID_BYTES > conn->max_body)
			return false;
		total = FRAME_LENGTH_BYTES + length;
		if (have < total && total <= conn->size)
			break;
		have = have < total ? have : total;
		capacity = conn->budget && 2 * have + PARTIAL_MIN < total ? 2 * have + PARTIAL_MIN : total;
		/* Bytes already received need memory despite the budget. */
		if (have == total || !afford(conn, capacity, length - FRAME_ID_BYTES)) {
			capacity = have;
			rpc_conn_count_incoming(conn, capacity);
		}
		frame = begin_frame(length - FRAME_ID_BYTES, capacity);
		memcpy(frame->wire, conn->buffer + at, have);
		at += have;
		conn->partial = frame;
		conn->partial_filled = have;
		conn->partial_capacity = capacity;
		if (have == total && !take_frame(conn, harvest, frame))
			return false;
	}
	conn->filled -= at;
	memmove(conn->buffer, conn->buffer + at, conn->filled);
	return true;
}

/* Enlarges the buffer, or shrinks an empty one. */
static void resize(struct rpc_conn *conn, size_t size)
{
	if (size > conn->size && !afford(conn, size - conn->size, SIZE_MAX))
		return;
	conn->buffer = mem_realloc(conn->buffer, size);
	if (size < conn->size)
		rpc_conn_count_incoming(conn, size - conn->size);
	conn->size = size;
}

/* Passes the buffer's bytes to the protocol. Returns false on invalid data. */
static bool take_by_protocol(struct rpc_conn *conn, struct harvest *harvest)
{
	struct rpc_intake intake = {.bytes = conn->buffer, .length = conn->filled, .last = harvest->end};

	if (!conn->protocol->take(conn->protocol_state, &intake))
		return false;
	while (*intake.last)
		intake.last = &(*intake.last)->next;
	harvest->end = intake.last;
	harvest->starved = intake.starved;
	harvest->begun = intake.begun;
	conn->filled -= intake.used;
	memmove(conn->buffer, conn->buffer + intake.used, conn->filled);
	pthread_mutex_lock(&conn->lock);
	conn->opened |= intake.length > 0;
	conn->frame_length = intake.expected;
	conn->frame_capacity = intake.held;
	conn->held_since_ms = intake.since_ms;
	pthread_mutex_unlock(&conn->lock);
	return true;
}

/* Processes the bytes of a read. Returns false on invalid data. */
static bool take_in(struct rpc_conn *conn, size_t count, struct harvest *harvest)
{
	bool full;

	if (conn->partial) {
		size_t missing = FRAME_HEAD_BYTES + conn->partial->length - conn->partial_filled;
		size_t part = count < missing ? count : missing;

		conn->partial_filled += part;
		count -= part;
		if (part < missing)
			return true;
		if (!take_frame(conn, harvest, conn->partial))
			return false;
	}
	conn->filled += count;
	full = conn->filled == conn->size && conn->size < BUFFER_MAX;
	if (!(conn->protocol ? take_by_protocol(conn, harvest) : take_buffer(conn, harvest)))
		return false;
	if (full && conn->filled < conn->size)
		resize(conn, 2 * conn->size);
	else if (count < BUFFER_MIN && conn->filled == 0 && conn->size > BUFFER_MIN)
		resize(conn, BUFFER_MIN);
	return true;
}

/* Notes how far the incoming frame is, with the lock held. */
static void note_progress(struct rpc_conn *conn, const struct harvest *harvest, int64_t now_ms)
{
	bool begun = conn->protocol ? harvest->begun : conn->partial || conn->filled;

	if (!begun)
		conn->frame_since_ms = 0;
	else if (harvest->first || !conn->frame_since_ms)
		conn->frame_since_ms = now_ms;
	conn->starved = harvest->starved;
	if (conn->protocol)
		return;
	conn->frame_length = conn->partial ? conn->partial->length : conn->filled;
	conn->frame_capacity = conn->partial ? conn->partial_capacity : 0;
}

/* Continues or stops reading. `go_on`: the owner wants more. */
static void decide(struct rpc_conn *conn, const struct harvest *harvest, bool go_on)
{
	bool full = conn->protocol && conn->filled == conn->size; /* it has left as much as fits, until rpc_conn_resume */
	bool read, over = false;

	pthread_mutex_lock(&conn->lock);
	conn->last_received_ms = clock_monotonic_ms();
	note_progress(conn, harvest, conn->last_received_ms);
	read = (go_on || conn->resumed) && !harvest->starved && !full && !conn->closing;
	conn->resumed = false;
	if (!read)
		over = rpc_conn_clear(conn, &conn->reading);
	pthread_mutex_unlock(&conn->lock);
	if (read)
		read_on(conn);
	else if (over)
		conn->events->closed(conn->owner);
}

/* Takes `count` new bytes. Returns false if that ends the connection. Sets *go_on if the owner wants more. */
static bool take_bytes(struct rpc_conn *conn, size_t count, struct harvest *harvest, bool *go_on)
{
	if (!take_in(conn, count, harvest)) {
		for (struct frame *frame = harvest->first; frame; frame = frame->next)
			rpc_conn_count_incoming(conn, -(FRAME_HEAD_BYTES + frame->length));
		frame_free_all(harvest->first);
		return false;
	}
	*go_on = !harvest->first || conn->events->arrived(conn->owner, harvest->first);
	return true;
}

void rpc_conn_received(struct rpc_conn *conn, bool good, size_t count)
{
	struct harvest harvest = {NULL, &harvest.first, false, false};
	bool go_on;

	if (!good || count == 0 || !take_bytes(conn, count, &harvest, &go_on)) {
		rpc_conn_close(conn);
		rpc_conn_stop(conn, &conn->reading);
		return;
	}
	decide(conn, &harvest, go_on);
}

/* A read may be in flight, since a protocol's connection is read while a call is open, to notice its end. It is
 * replaced by one for the place where the buffer's bytes now end. */
void rpc_conn_take_again(struct rpc_conn *conn)
{
	struct harvest harvest = {NULL, &harvest.first, false, false};
	bool in_flight, closing, go_on;

	pthread_mutex_lock(&conn->lock);
	in_flight = conn->reading;
	closing = conn->closing;
	conn->reading |= !closing;
	pthread_mutex_unlock(&conn->lock);
	if (closing)
		return;
	if (!take_bytes(conn, 0, &harvest, &go_on)) {
		rpc_conn_close(conn);
		if (!in_flight)
			rpc_conn_stop(conn, &conn->reading);
		return;
	}
	if (!in_flight) {
		decide(conn, &harvest, go_on);
		return;
	}
	pthread_mutex_lock(&conn->lock);
	note_progress(conn, &harvest, clock_monotonic_ms());
	pthread_mutex_unlock(&conn->lock);
	read_on(conn);
}

void rpc_conn_resume(struct rpc_conn *conn)
{
	bool read;

	if (conn->protocol) {
		rpc_conn_take_again(conn);
		return;
	}
	pthread_mutex_lock(&conn->lock);
	read = !conn->reading && !conn->closing;
	conn->resumed = conn->reading;
	conn->reading |= read;
	conn->starved = false;
	pthread_mutex_unlock(&conn->lock);
	if (read)
		read_on(conn);
}
