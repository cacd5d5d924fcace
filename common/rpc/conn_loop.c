/*
 * Carries bytes over a socket on an event loop. A write is tried at once, and usually completes: no thread or
 * descriptor needs to be woken for a message.
 */
#include "common/rpc/conn_internal.h"

#include "common/clock.h"
#include "common/mem.h"

#include <errno.h>
#include <event2/event.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { TURN_WRITES = 8 }; /* consecutive writes, while the other end reads as fast; then other events run */

static bool blocked(void)
{
	return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

/* Each completed write starts the next one, from inside `written`, as long as bytes are queued. */
static void try_to_send(struct rpc_conn *conn)
{
	conn->in_turn = true;
	for (int i = 0; i < TURN_WRITES && conn->sending; i++) {
		struct msghdr message = {.msg_iov = conn->send_places, .msg_iovlen = conn->send_count};
		ssize_t sent = sendmsg(conn->fd, &message, MSG_NOSIGNAL);

		if (sent < 0 && blocked())
			break;
		conn->sending = false;
		conn->written(conn, sent >= 0, sent >= 0 ? (size_t)sent : 0);
	}
	conn->in_turn = false;
	if (conn->sending)
		event_add(conn->writable, NULL);
}

static void on_writable(evutil_socket_t fd, short what, void *arg)
{
	(void)fd, (void)what;
	try_to_send(arg);
}

/* The event stays added while one read follows another. */
static void on_readable(evutil_socket_t fd, short what, void *arg)
{
	struct rpc_conn *conn = arg;
	ssize_t count = readv(fd, conn->receive_places, (int)conn->receive_count);

	(void)what;
	if (count < 0 && blocked())
		return;
	conn->receiving = false;
	conn->received(conn, count >= 0, count >= 0 ? (size_t)count : 0);
	if (!conn->receiving && conn->fd >= 0)
		event_del(conn->readable);
}

static bool receive_by_loop(struct rpc_conn *conn, const struct iovec *places, unsigned count)
{
	if (conn->fd < 0)
		return false;
	memcpy(conn->receive_places, places, sizeof *places * count);
	conn->receive_count = count;
	conn->receiving = true;
	if (!event_pending(conn->readable, EV_READ, NULL))
		event_add(conn->readable, NULL);
	return true;
}

static bool send_by_loop(struct rpc_conn *conn, const struct iovec *places, unsigned count)
{
	if (conn->fd < 0)
		return false;
	memcpy(conn->send_places, places, sizeof *places * count);
	conn->send_count = count;
	conn->sending = true;
	if (!conn->in_turn)
		try_to_send(conn);
	return true;
}

void rpc_conn_drain(struct rpc_conn *conn, int64_t until_ms)
{
	if (conn->carrier->send_all)
		conn->carrier->send_all(conn);
	rpc_conn_flush(conn);
	for (int64_t left_ms; conn->sending && (left_ms = until_ms - clock_monotonic_ms()) > 0;) {
		struct pollfd writable = {.fd = conn->fd, .events = POLLOUT};

		if (poll(&writable, 1, (int)left_ms) > 0)
			try_to_send(conn);
	}
	if (conn->fd >= 0)
		shutdown(conn->fd, SHUT_WR);
}

void rpc_conn_await_end(struct rpc_conn *conn, int64_t until_ms)
{
	uint8_t unread[16384];

	for (int64_t left_ms; conn->fd >= 0 && (left_ms = until_ms - clock_monotonic_ms()) > 0;) {
		struct pollfd readable = {.fd = conn->fd, .events = POLLIN};
		ssize_t count;

		if (poll(&readable, 1, (int)left_ms) <= 0)
			continue;
		count = recv(conn->fd, unread, sizeof unread, MSG_DONTWAIT);
		if (count == 0 || (count < 0 && !blocked()))
			return;
	}
}

static void close_loop(struct rpc_conn *conn)
{
	bool receiving = conn->receiving, sending = conn->sending;

	event_del(conn->readable);
	event_del(conn->writable);
	close(conn->fd);
	conn->fd = -1;
	conn->receiving = conn->sending = false;
	if (receiving)
		conn->received(conn, false, 0);
	if (sending)
		conn->written(conn, false, 0);
}

static void end_loop(struct rpc_conn *conn)
{
	if (conn->fd >= 0)
		shutdown(conn->fd, SHUT_WR);
}

static void free_loop(struct rpc_conn *conn)
{
	event_free(conn->readable);
	event_free(conn->writable);
	if (conn->fd >= 0)
		close(conn->fd);
}

struct rpc_conn *rpc_conn_create_on_loop(struct event_base *base, int fd, enum rpc_conn_side side, size_t max_body,
    struct rpc_conn_budget *budget, const struct rpc_conn_events *events, void *owner)
{
	static const struct carrier loop = {receive_by_loop, send_by_loop, close_loop, free_loop, end_loop, NULL};
	struct rpc_conn *conn = rpc_conn_alloc(&loop, side, max_body, budget, events, owner);

	conn->fd = fd;
	conn->readable = event_new(base, fd, EV_READ | EV_PERSIST, on_readable, conn);
	conn->writable = event_new(base, fd, EV_WRITE, on_writable, conn);
	mem_check(conn->readable && conn->writable);
	return conn;
}
