/* A connection alone, on an event loop. */
#include "server_support.h"

#include "common/rpc/conn.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
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

/* However fast the peer reads, one iteration of the loop sends at most 2 MiB. */
Test(rpc_server, a_long_backlog_leaves_in_turns, .timeout = 20)
{
	enum { FRAMES = 4000, LENGTH = 20000, TURN_MAX = 8 << 18 };
	static const struct rpc_conn_events events = {note_event, never_arrived, note_event, NULL};
	struct event_base *base = event_base_new();
	int listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), fd, reader;
	struct sockaddr_in address = {.sin_family = AF_INET};
	socklen_t length = sizeof address;
	size_t before, largest = 0;
	atomic_int noted = 0;
	struct rpc_conn *conn;
	pthread_t thread;

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	cr_assert_eq(bind(listening, (struct sockaddr *)&address, sizeof address), 0);
	cr_assert_eq(listen(listening, 1), 0);
	cr_assert_eq(getsockname(listening, (struct sockaddr *)&address, &length), 0);
	reader = dial_bare(ntohs(address.sin_port));
	fd = accept4(listening, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	cr_assert_geq(fd, 0);
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
	close(listening);
	event_base_free(base);
}
