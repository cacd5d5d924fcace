/*
 * Carries bytes over an nng stream, on nng's threads.
 *
 * `io_lock` is held while an operation is passed to the stream and while the stream is closed. This keeps operations
 * off a closed stream, where nng would lose them.
 */
#include "common/rpc/conn_internal.h"

#include "common/mem.h"

static void received(void *arg)
{
	struct rpc_conn *conn = arg;

	conn->received(conn, nng_aio_result(conn->read_aio) == 0, nng_aio_count(conn->read_aio));
}

static void written(void *arg)
{
	struct rpc_conn *conn = arg;

	conn->written(conn, nng_aio_result(conn->write_aio) == 0, nng_aio_count(conn->write_aio));
}

/* Starts an operation on the stream. Returns false if the stream is closed. */
static bool begin(struct rpc_conn *conn, nng_aio *aio, const struct iovec *places, unsigned count,
    void (*operation)(nng_stream *stream, nng_aio *aio))
{
	nng_iov iov[IOV_MAX];
	bool open;

	for (unsigned i = 0; i < count; i++)
		iov[i] = (nng_iov){places[i].iov_base, places[i].iov_len};
	nng_aio_set_iov(aio, count, iov);
	pthread_mutex_lock(&conn->io_lock);
	open = !conn->stream_closed;
	if (open)
		operation(conn->stream, aio);
	pthread_mutex_unlock(&conn->io_lock);
	return open;
}

static bool receive_by_nng(struct rpc_conn *conn, const struct iovec *places, unsigned count)
{
	return begin(conn, conn->read_aio, places, count, nng_stream_recv);
}

static bool send_by_nng(struct rpc_conn *conn, const struct iovec *places, unsigned count)
{
	return begin(conn, conn->write_aio, places, count, nng_stream_send);
}

static void close_nng(struct rpc_conn *conn)
{
	pthread_mutex_lock(&conn->io_lock);
	conn->stream_closed = true;
	nng_stream_close(conn->stream);
	pthread_mutex_unlock(&conn->io_lock);
}

static void free_nng(struct rpc_conn *conn)
{
	nng_aio_stop(conn->read_aio);
	nng_aio_stop(conn->write_aio);
	nng_aio_free(conn->read_aio);
	nng_aio_free(conn->write_aio);
	nng_stream_free(conn->stream);
	pthread_mutex_destroy(&conn->io_lock);
}

struct rpc_conn *rpc_conn_create(nng_stream *stream, enum rpc_conn_side side, size_t max_body,
    struct rpc_conn_budget *budget, const struct rpc_conn_events *events, void *owner)
{
	static const struct carrier nng = {receive_by_nng, send_by_nng, close_nng, free_nng, NULL, NULL};
	struct rpc_conn *conn = rpc_conn_alloc(&nng, side, max_body, budget, events, owner);

	mem_check(nng_aio_alloc(&conn->read_aio, received, conn) == 0);
	mem_check(nng_aio_alloc(&conn->write_aio, written, conn) == 0);
	conn->stream = stream;
	pthread_mutex_init(&conn->io_lock, NULL);
	return conn;
}
