/*
 * At most one read and one write are under way. Each completion decides on the next; nobody else starts one while its
 * flag (`reading`, `writing`) is up. The connection is over when it is closing and all flags are down.
 *
 * Two locks: `lock` guards the flags and the queue and is held for moments; `io_lock` is held while an operation is
 * given to the stream, and while the stream is closed, so that none is given to a closed stream: nng would forget it.
 */
#include "common/rpc/conn.h"

#include "common/clock.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum {
	GREETING_BYTES = 8,
	BUFFER_LEAST = 2048, /* most connections are idle most of the time */
	BUFFER_MOST = 65536,
	PARTIAL_LEAST = 16384, /* of a long frame: it grows as it comes, since its length is only announced */
	CHUNK_LEAST = 1024,
	CHUNK_MOST = 65536,
	GATHERED_MOST = 16384, /* shorter frames are gathered in chunks, longer ones are chunks themselves */
	IOV_MOST = 8,          /* what an aio takes */
};

/* Bytes to be sent: gathered ones, or one frame's. Bytes may be added while others of the chunk are being written. */
struct chunk {
	struct chunk *next;
	struct frame *frame;
	size_t filled, room;
	uint8_t gathered[];
};

struct conn {
	nng_stream *stream;
	nng_aio *read_aio, *write_aio;
	enum conn_side side;
	size_t max_body;
	struct conn_budget *budget; /* or NULL */
	const struct conn_events *events;
	void *owner;

	/* The reader's own. */
	bool greeted;
	uint8_t *buffer;
	size_t size, filled;
	struct frame *partial; /* a long frame, read into directly */
	size_t partial_filled, partial_room; /* bytes of it with its head */

	pthread_mutex_t io_lock;
	bool stream_closed;

	pthread_mutex_t lock;
	bool opened, closing, over;
	bool reading, writing, shutting;
	bool resumed; /* conn_resume came before the reader had stopped */
	struct chunk *out, *out_last;
	size_t out_offset; /* of the first chunk: bytes that are sent */
	size_t backlog;
	size_t heavy; /* `eased` is to be told when no more is queued than this; 0: not */
	int64_t heard_ms, progress_ms;
	int64_t frame_since_ms; /* of the frame that is coming in, 0: none is */
	size_t frame_length;
	bool starved;
};

static void received(void *arg);
static void written(void *arg);

struct conn *conn_make(nng_stream *stream, enum conn_side side, size_t max_body, struct conn_budget *budget,
    const struct conn_events *events, void *owner)
{
	struct conn *conn = calloc(1, sizeof *conn);

	if (conn)
		conn->buffer = malloc(BUFFER_LEAST);
	if (!conn || !conn->buffer || nng_aio_alloc(&conn->read_aio, received, conn) != 0 ||
	    nng_aio_alloc(&conn->write_aio, written, conn) != 0) {
		nng_stream_free(stream);
		if (conn)
			nng_aio_free(conn->read_aio);
		if (conn)
			free(conn->buffer);
		free(conn);
		return NULL;
	}
	pthread_mutex_init(&conn->lock, NULL);
	pthread_mutex_init(&conn->io_lock, NULL);
	conn->stream = stream;
	conn->side = side;
	conn->max_body = max_body;
	conn->budget = budget;
	conn->events = events;
	conn->owner = owner;
	conn->size = BUFFER_LEAST;
	conn->heard_ms = clock_monotonic_ms();
	return conn;
}

/* Counts bytes of frames that come in, or, a negative number, that do not any more. */
static void count_incoming(struct conn *conn, size_t bytes)
{
	if (conn->budget)
		atomic_fetch_add(&conn->budget->incoming, bytes);
}

/* Counts bytes that are queued or sent, with the lock held. */
static void count_backlog(struct conn *conn, size_t bytes)
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

void conn_free(struct conn *conn)
{
	nng_aio_stop(conn->read_aio);
	nng_aio_stop(conn->write_aio);
	nng_aio_free(conn->read_aio);
	nng_aio_free(conn->write_aio);
	nng_stream_free(conn->stream);
	pthread_mutex_destroy(&conn->lock);
	pthread_mutex_destroy(&conn->io_lock);
	free_chunks(conn->out);
	count_incoming(conn, -(conn->size - BUFFER_LEAST));
	if (conn->partial)
		count_incoming(conn, -conn->partial_room);
	free(conn->partial);
	free(conn->buffer);
	free(conn);
}

/* Lowers a flag, with the lock held. True if that was the end: the owner is to be told when the lock is let go. */
static bool lower(struct conn *conn, bool *flag)
{
	*flag = false;
	if (!conn->closing || conn->reading || conn->writing || conn->shutting || conn->over)
		return false;
	conn->over = true;
	return true;
}

static void stop(struct conn *conn, bool *flag)
{
	bool over;

	pthread_mutex_lock(&conn->lock);
	over = lower(conn, flag);
	pthread_mutex_unlock(&conn->lock);
	if (over)
		conn->events->closed(conn->owner);
}

void conn_close(struct conn *conn)
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
	pthread_mutex_lock(&conn->io_lock);
	conn->stream_closed = true;
	nng_stream_close(conn->stream);
	pthread_mutex_unlock(&conn->io_lock);
	stop(conn, &conn->shutting);
}

/* Gives an operation to the stream. False: it is closed. */
static bool begin(struct conn *conn, nng_aio *aio, void (*operation)(nng_stream *stream, nng_aio *aio))
{
	bool open;

	pthread_mutex_lock(&conn->io_lock);
	open = !conn->stream_closed;
	if (open)
		operation(conn->stream, aio);
	pthread_mutex_unlock(&conn->io_lock);
	return open;
}

/* Writes what is queued; `writing` is up. */
static void write_on(struct conn *conn)
{
	nng_iov iov[IOV_MOST];
	unsigned count = 0;

	pthread_mutex_lock(&conn->lock);
	for (struct chunk *chunk = conn->out; chunk && count < IOV_MOST; chunk = chunk->next) {
		uint8_t *bytes = chunk->frame ? chunk->frame->wire : chunk->gathered;
		size_t offset = count ? 0 : conn->out_offset;

		iov[count++] = (nng_iov){bytes + offset, chunk->filled - offset};
	}
	pthread_mutex_unlock(&conn->lock);
	nng_aio_set_iov(conn->write_aio, count, iov);
	if (!begin(conn, conn->write_aio, nng_stream_send))
		stop(conn, &conn->writing);
}

/* Takes `count` bytes off the queue, with the lock held. Returns the chunks that are done. */
static struct chunk *take_sent(struct conn *conn, size_t count)
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
	if (!conn->out)
		conn->out_last = NULL;
	return done;
}

/* On nng's threads. */
static void written(void *arg)
{
	struct conn *conn = arg;
	struct chunk *done;
	bool more, over, eased;

	if (nng_aio_result(conn->write_aio) != 0) {
		conn_close(conn);
		stop(conn, &conn->writing);
		return;
	}
	pthread_mutex_lock(&conn->lock);
	done = take_sent(conn, nng_aio_count(conn->write_aio));
	conn->progress_ms = clock_monotonic_ms();
	more = conn->out && !conn->closing;
	eased = conn->heavy && conn->backlog <= conn->heavy && !conn->closing;
	conn->heavy = eased ? 0 : conn->heavy;
	if (eased) { /* before the flag goes down, and the connection with it */
		pthread_mutex_unlock(&conn->lock);
		conn->events->eased(conn->owner);
		pthread_mutex_lock(&conn->lock);
		more = conn->out && !conn->closing;
	}
	over = !more && lower(conn, &conn->writing);
	pthread_mutex_unlock(&conn->lock);
	free_chunks(done);
	if (more)
		write_on(conn);
	else if (over)
		conn->events->closed(conn->owner);
}

/* Adds a chunk, with the lock held. NULL: no memory. */
static struct chunk *append(struct conn *conn, size_t room)
{
	struct chunk *chunk = malloc(sizeof *chunk + room);

	if (!chunk)
		return NULL;
	*chunk = (struct chunk){.room = room};
	if (conn->out)
		conn->out_last->next = chunk;
	else
		conn->out = chunk;
	conn->out_last = chunk;
	return chunk;
}

/* Copies bytes to the end of the queue, with the lock held. False: no memory. */
static bool gather(struct conn *conn, const void *bytes, size_t length)
{
	struct chunk *chunk = conn->out_last;

	if (!chunk || chunk->room - chunk->filled < length)
		chunk = append(conn, chunk ? CHUNK_MOST : length + CHUNK_LEAST);
	if (!chunk)
		return false;
	memcpy(chunk->gathered + chunk->filled, bytes, length);
	chunk->filled += length;
	count_backlog(conn, length);
	return true;
}

/* Puts a frame at the end of the queue, with the lock held. False: no memory. */
static bool append_frame(struct conn *conn, struct frame *frame)
{
	struct chunk *chunk = append(conn, 0);

	if (!chunk)
		return false;
	chunk->frame = frame;
	chunk->filled = chunk->room = FRAME_HEAD_BYTES + frame->length;
	count_backlog(conn, chunk->filled);
	return true;
}

void conn_queue(struct conn *conn, struct frame *frame)
{
	size_t length = FRAME_HEAD_BYTES + frame->length;
	bool dropped, queued = false;

	pthread_mutex_lock(&conn->lock);
	dropped = conn->closing;
	if (!dropped)
		queued = length > GATHERED_MOST ? append_frame(conn, frame) : gather(conn, frame->wire, length);
	pthread_mutex_unlock(&conn->lock);
	if (!queued || length <= GATHERED_MOST)
		free(frame);
	/* Without memory for the frame its caller would wait in vain: let it notice. */
	if (!queued && !dropped)
		conn_close(conn);
}

void conn_flush(struct conn *conn)
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

/* Counts so many bytes more of what comes in, if the budget has them. */
static bool afford(struct conn *conn, size_t bytes)
{
	struct conn_budget *budget = conn->budget;

	if (!budget || atomic_fetch_add(&budget->incoming, bytes) + bytes <= budget->incoming_most)
		return true;
	atomic_fetch_sub(&budget->incoming, bytes);
	return false;
}

/* Makes room for more of a long frame. False: the budget does not allow it, or there is no memory. */
static bool grow(struct conn *conn)
{
	size_t whole = FRAME_HEAD_BYTES + conn->partial->length;
	size_t room = 2 * conn->partial_room < whole ? 2 * conn->partial_room : whole;
	size_t more = room - conn->partial_room;
	struct frame *larger;

	if (!afford(conn, more))
		return false;
	larger = realloc(conn->partial, sizeof *larger + room);
	if (!larger) {
		count_incoming(conn, -more);
		return false;
	}
	conn->partial = larger;
	conn->partial_room = room;
	return true;
}

/* Stops reading until conn_resume. */
static void starve(struct conn *conn)
{
	bool over;

	pthread_mutex_lock(&conn->lock);
	conn->starved = true;
	over = lower(conn, &conn->reading);
	pthread_mutex_unlock(&conn->lock);
	if (over)
		conn->events->closed(conn->owner);
}

/* Reads more; `reading` is up. What comes after a partial frame goes to the buffer, which is empty then. */
static void read_on(struct conn *conn)
{
	size_t room = 0, whole = 0;
	nng_iov iov[2];
	unsigned count = 0;

	if (conn->partial) {
		if (conn->partial_filled == conn->partial_room && !grow(conn)) {
			starve(conn);
			return;
		}
		room = conn->partial_room;
		whole = FRAME_HEAD_BYTES + conn->partial->length;
		iov[count++] = (nng_iov){conn->partial->wire + conn->partial_filled, room - conn->partial_filled};
	}
	if (room == whole)
		iov[count++] = (nng_iov){conn->buffer + conn->filled, conn->size - conn->filled};
	nng_aio_set_iov(conn->read_aio, count, iov);
	if (!begin(conn, conn->read_aio, nng_stream_recv))
		stop(conn, &conn->reading);
}

/* Frames that one read has brought. */
struct harvest {
	struct frame *first;
	struct frame **end;
};

/* Takes a whole frame. False: it is not the kind that this end understands. */
static bool take_frame(struct conn *conn, struct harvest *harvest, struct frame *frame)
{
	conn->partial = NULL;
	*harvest->end = frame;
	harvest->end = &frame->next;
	/* Without the highest bit the message has come through a device, which nobody here uses. */
	return frame_id(frame) >= FRAME_ID_LOWEST;
}

/* Looks at the other end's greeting. False: it speaks something else. */
static bool take_greeting(struct conn *conn)
{
	uint8_t expected[GREETING_BYTES] = {0, 'S', 'P', 0, 0, CONN_REQUESTS, 0, 0};

	if (conn->side == CONN_REQUESTS)
		expected[5] = CONN_REPLIES;
	if (memcmp(conn->buffer, expected, GREETING_BYTES) != 0)
		return false;
	conn->greeted = true;
	pthread_mutex_lock(&conn->lock);
	conn->opened = true;
	pthread_mutex_unlock(&conn->lock);
	conn->events->opened(conn->owner);
	return true;
}

/* Makes a frame of which only the first bytes have room. NULL: no memory. */
static struct frame *begin_frame(size_t length, size_t room)
{
	struct frame *frame = frame_make(room > FRAME_HEAD_BYTES ? room - FRAME_HEAD_BYTES : 0);

	if (frame)
		frame->length = length;
	return frame;
}

/* Takes the frames out of the buffer. False: garbage, or no memory. */
static bool take_buffer(struct conn *conn, struct harvest *harvest)
{
	size_t at = 0;

	if (!conn->greeted) {
		if (conn->filled < GREETING_BYTES)
			return true;
		if (!take_greeting(conn))
			return false;
		at = GREETING_BYTES;
	}
	while (conn->filled - at >= FRAME_LENGTH_BYTES) {
		uint64_t length = frame_read_length(conn->buffer + at);
		size_t have = conn->filled - at, whole, room;
		struct frame *frame;

		if (length < FRAME_ID_BYTES || length - FRAME_ID_BYTES > conn->max_body)
			return false;
		whole = FRAME_LENGTH_BYTES + length;
		if (have < whole && whole <= conn->size)
			break;
		have = have < whole ? have : whole;
		room = 2 * have + PARTIAL_LEAST < whole ? 2 * have + PARTIAL_LEAST : whole;
		if (have == whole || !afford(conn, room)) { /* what is there already has to go somewhere */
			room = have;
			count_incoming(conn, room);
		}
		frame = begin_frame(length - FRAME_ID_BYTES, room);
		if (!frame) {
			count_incoming(conn, -room);
			return false;
		}
		memcpy(frame->wire, conn->buffer + at, have);
		at += have;
		conn->partial = frame;
		conn->partial_filled = have;
		conn->partial_room = room;
		if (have == whole && !take_frame(conn, harvest, frame))
			return false;
	}
	conn->filled -= at;
	memmove(conn->buffer, conn->buffer + at, conn->filled);
	return true;
}

/* Makes the buffer larger, or smaller when it is empty. */
static void resize(struct conn *conn, size_t size)
{
	uint8_t *buffer;

	if (size > conn->size && !afford(conn, size - conn->size))
		return;
	buffer = realloc(conn->buffer, size);
	if (!buffer) {
		count_incoming(conn, size > conn->size ? conn->size - size : 0);
		return;
	}
	if (size < conn->size)
		count_incoming(conn, size - conn->size);
	conn->buffer = buffer;
	conn->size = size;
}

/* Takes in what a read has brought. False: garbage, or no memory. */
static bool take_in(struct conn *conn, size_t count, struct harvest *harvest)
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
	full = conn->filled == conn->size && conn->size < BUFFER_MOST;
	if (!take_buffer(conn, harvest))
		return false;
	if (full)
		resize(conn, 2 * conn->size);
	else if (count < BUFFER_LEAST && conn->filled == 0 && conn->size > BUFFER_LEAST)
		resize(conn, BUFFER_LEAST);
	return true;
}

/* Reads on, or stops reading, as the owner wants and as things are. `fresh`: a whole frame has come. */
static void decide(struct conn *conn, bool go_on, bool fresh)
{
	bool read, over = false;

	pthread_mutex_lock(&conn->lock);
	conn->heard_ms = clock_monotonic_ms();
	if (!conn->partial && !conn->filled)
		conn->frame_since_ms = 0;
	else if (fresh || !conn->frame_since_ms)
		conn->frame_since_ms = conn->heard_ms;
	conn->frame_length = conn->partial ? conn->partial->length : conn->filled;
	read = (go_on || conn->resumed) && !conn->closing;
	conn->resumed = false;
	if (!read)
		over = lower(conn, &conn->reading);
	pthread_mutex_unlock(&conn->lock);
	if (read)
		read_on(conn);
	else if (over)
		conn->events->closed(conn->owner);
}

/* On nng's threads. */
static void received(void *arg)
{
	struct conn *conn = arg;
	struct harvest harvest = {NULL, &harvest.first};
	bool fresh;
	size_t count = nng_aio_count(conn->read_aio);
	bool go_on = true;

	if (nng_aio_result(conn->read_aio) != 0 || count == 0 || !take_in(conn, count, &harvest)) {
		for (struct frame *frame = harvest.first; frame; frame = frame->next)
			count_incoming(conn, -(FRAME_HEAD_BYTES + frame->length));
		frame_free_all(harvest.first);
		conn_close(conn);
		stop(conn, &conn->reading);
		return;
	}
	fresh = harvest.first;
	if (fresh)
		go_on = conn->events->arrived(conn->owner, harvest.first);
	decide(conn, go_on, fresh);
}

bool conn_heavy(struct conn *conn, size_t most)
{
	bool heavy;

	pthread_mutex_lock(&conn->lock);
	heavy = conn->backlog > most && !conn->closing;
	if (heavy)
		conn->heavy = most / 2;
	pthread_mutex_unlock(&conn->lock);
	return heavy;
}

void conn_resume(struct conn *conn)
{
	bool read;

	pthread_mutex_lock(&conn->lock);
	read = !conn->reading && !conn->closing;
	conn->resumed = conn->reading;
	conn->reading |= read;
	conn->starved = false;
	pthread_mutex_unlock(&conn->lock);
	if (read)
		read_on(conn);
}

void conn_start(struct conn *conn)
{
	const uint8_t greeting[GREETING_BYTES] = {0, 'S', 'P', 0, 0, conn->side, 0, 0};
	bool queued;

	pthread_mutex_lock(&conn->lock);
	queued = gather(conn, greeting, sizeof greeting);
	pthread_mutex_unlock(&conn->lock);
	if (!queued) {
		conn_close(conn);
		return;
	}
	conn_flush(conn);
	conn_resume(conn);
}

struct conn_state conn_look(struct conn *conn)
{
	struct conn_state state;
	int64_t now_ms = clock_monotonic_ms();

	pthread_mutex_lock(&conn->lock);
	state.opened = conn->opened;
	state.quiet_ms = now_ms - conn->heard_ms;
	state.stuck_ms = conn->writing ? now_ms - conn->progress_ms : 0;
	state.backlog = conn->closing ? 0 : conn->backlog;
	state.frame_ms = conn->frame_since_ms ? now_ms - conn->frame_since_ms : 0;
	state.frame = conn->frame_length;
	state.starved = conn->starved;
	pthread_mutex_unlock(&conn->lock);
	return state;
}
