/* A connection alone, on an event loop. */
#include "server_support.h"

#include "common/rpc/conn.h"

#include <endian.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

static bool never_arrived(void *arg, struct frame *frames)
{
	(void)arg;
	frame_free_all(frames);
	return true;
}

static void note_event(void *arg)
{
	atomic_fetch_add((atomic_int *)arg, 1);
}

static void *read_all(void *arg)
{
	static char bytes[1 << 20];

	while (read(*(int *)arg, bytes, sizeof bytes) > 0)
		;
	return NULL;
}

/* Connects two sockets. The conn's is *fd; returns the other one. */
static int connect_pair(int *fd)
{
	int listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), other;
	struct sockaddr_in address = {.sin_family = AF_INET};
	socklen_t length = sizeof address;

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	setsockopt(listening, SOL_SOCKET, SO_RCVBUF, &(int){400000}, sizeof(int));
	cr_assert_eq(bind(listening, (struct sockaddr *)&address, sizeof address), 0);
	cr_assert_eq(listen(listening, 1), 0);
	cr_assert_eq(getsockname(listening, (struct sockaddr *)&address, &length), 0);
	other = dial_bare(ntohs(address.sin_port));
	*fd = accept4(listening, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	cr_assert_geq(*fd, 0);
	close(listening);
	return other;
}

/* However fast the peer reads, one iteration of the loop sends at most 2 MiB. */
Test(rpc_server, a_long_backlog_leaves_in_turns, .timeout = 20)
{
	enum { FRAMES = 4000, LENGTH = 20000, TURN_MAX = 8 << 18 };
	static const struct rpc_conn_events events = {note_event, never_arrived, note_event, NULL, NULL};
	struct event_base *base = event_base_new();
	int fd, reader = connect_pair(&fd);
	size_t before, largest = 0;
	atomic_int noted = 0;
	struct rpc_conn *conn;
	pthread_t thread;

	conn = rpc_conn_create_on_loop(base, fd, RPC_CONN_REPLIES, LENGTH, NULL, &events, &noted);
	rpc_conn_start(conn);
	for (int i = 0; i < FRAMES; i++) {
		struct frame *frame = frame_create(LENGTH);

		frame_seal(frame, 1);
		rpc_conn_queue(conn, frame);
	}
	cr_assert_eq(pthread_create(&thread, NULL, read_all, &reader), 0);
	before = rpc_conn_poll(conn).backlog;
	cr_assert_gt(before, (size_t)FRAMES * LENGTH);
	rpc_conn_flush(conn);
	while (before > 0) {
		size_t left = rpc_conn_poll(conn).backlog;

		largest = before - left > largest ? before - left : largest;
		before = left;
		if (left > 0)
			event_base_loop(base, EVLOOP_ONCE);
	}
	cr_assert_leq(largest, TURN_MAX);
	rpc_conn_close(conn);
	cr_assert_eq(noted, 1);
	pthread_join(thread, NULL);
	rpc_conn_free(conn);
	close(reader);
	event_base_free(base);
}

/* However fast the peer writes, one iteration of the loop reads at most 64 KiB of a long message. */
Test(rpc_server, a_long_message_arrives_in_turns, .timeout = 20)
{
	enum { LENGTH = 1 << 20, SENT = 200000, TURN_MAX = 65536 };
	static const struct rpc_conn_events events = {note_event, never_arrived, note_event, NULL, NULL};
	struct event_base *base = event_base_new();
	int fd, writer = connect_pair(&fd), before = 0, left, largest = 0;
	uint64_t length = htobe64(LENGTH);
	uint8_t *bytes = calloc(1, SENT);
	atomic_int noted = 0;
	struct rpc_conn *conn;

	memcpy(bytes, handshake, 8);
	memcpy(bytes + 8, &length, 8);
	cr_assert_eq(send(writer, bytes, SENT, MSG_NOSIGNAL), SENT);
	while (before < SENT)
		cr_assert_eq(ioctl(fd, FIONREAD, &before), 0);
	conn = rpc_conn_create_on_loop(base, fd, RPC_CONN_REPLIES, LENGTH, NULL, &events, &noted);
	rpc_conn_start(conn);
	while (before > 0) {
		event_base_loop(base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
		cr_assert_eq(ioctl(fd, FIONREAD, &left), 0);
		largest = before - left > largest ? before - left : largest;
		before = left;
	}
	cr_assert_leq(largest, TURN_MAX);
	rpc_conn_close(conn);
	rpc_conn_free(conn);
	close(writer);
	free(bytes);
	event_base_free(base);
}
