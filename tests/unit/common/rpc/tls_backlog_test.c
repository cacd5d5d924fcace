/* A connection of a server that has much to send by TLS. */
#include "server_support.h"
#include "tls_support.h"

#include "common/rpc/conn_tls.h"
#include "common/rpc/frame.h"

#include <openssl/ssl.h>
#include <signal.h>
#include <sys/socket.h>

static struct test_ca ca;
static char server_file[192], client_file[192];

static void make_ca(void)
{
	test_ca_make(&ca);
	strcpy(server_file, test_ca_issue(&ca, "server", "IP:127.0.0.1", -60, 3600));
	strcpy(client_file, test_ca_issue(&ca, "client", "URI:reeve://worker-1", -60, 3600));
}

static void free_ca(void)
{
	test_ca_free(&ca);
}

TestSuite(tls_backlog, .init = make_ca, .fini = free_ca, .timeout = 60);

static bool never_arrived(void *arg, struct frame *frames)
{
	(void)arg;
	frame_free_all(frames);
	return true;
}

static void note_event(void *arg)
{
	++*(int *)arg;
}

/* Reads what the server sends, after a handshake. */
static void *read_by_tls(void *arg)
{
	static char bytes[1 << 20];
	SSL_CTX *context = SSL_CTX_new(TLS_client_method());
	SSL *ssl = SSL_new(context);

	cr_assert_eq(SSL_use_certificate_file(ssl, client_file, SSL_FILETYPE_PEM), 1);
	cr_assert_eq(SSL_use_PrivateKey_file(ssl, client_file, SSL_FILETYPE_PEM), 1);
	SSL_set_fd(ssl, *(int *)arg);
	cr_assert_eq(SSL_connect(ssl), 1);
	SSL_write(ssl, handshake, 8);
	while (SSL_read(ssl, bytes, sizeof bytes) > 0)
		;
	SSL_free(ssl);
	SSL_CTX_free(context);
	return NULL;
}

/* A connection of a server alone, on a loop, with a long backlog. */
struct backlog {
	struct event_base *base;
	struct tls_turns *turns;
	struct tls_queue queue;
	struct tls *tls;
	struct rpc_conn *conn;
	int fds[2], noted;
	pthread_t thread;
};

static void open_backlog(struct backlog *backlog)
{
	enum { FRAMES = 2000, LENGTH = 20000 };
	static const struct rpc_conn_events events = {note_event, never_arrived, note_event, NULL, NULL};
	struct reeve_error error = {0};

	memset(backlog, 0, sizeof *backlog);
	signal(SIGPIPE, SIG_IGN);
	backlog->base = event_base_new();
	backlog->turns = tls_turns_create(backlog->base);
	backlog->tls = tls_create(TLS_SERVER, &(struct tls_files){.certificate = server_file, .ca = ca.file}, &error);
	cr_assert_not_null(backlog->tls, "%s", error.message);
	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, backlog->fds), 0);
	evutil_make_socket_nonblocking(backlog->fds[0]);
	backlog->conn = rpc_conn_create_on_loop(
	    backlog->base, backlog->fds[0], RPC_CONN_REPLIES, LENGTH, NULL, &events, &backlog->noted);
	rpc_conn_secure(backlog->conn, backlog->tls, NULL, backlog->turns, &backlog->queue);
	rpc_conn_start(backlog->conn);
	for (int i = 0; i < FRAMES; i++) {
		struct frame *frame = frame_create(LENGTH);

		memset(frame_body(frame), 0, LENGTH);
		frame_seal(frame, 1);
		rpc_conn_queue(backlog->conn, frame);
	}
	cr_assert_eq(pthread_create(&backlog->thread, NULL, read_by_tls, &backlog->fds[1]), 0);
}

static void close_backlog(struct backlog *backlog)
{
	while (backlog->noted == 0)
		event_base_loop(backlog->base, EVLOOP_ONCE);
	rpc_conn_close(backlog->conn);
	cr_assert_eq(backlog->noted, 2, "the hello and the end");
	pthread_join(backlog->thread, NULL);
	rpc_conn_free(backlog->conn);
	close(backlog->fds[1]);
	tls_turns_destroy(backlog->turns);
	event_base_free(backlog->base);
	tls_destroy(backlog->tls);
}

/* However fast the peer reads, one iteration of the loop encrypts and sends up to a mebibyte. */
Test(tls_backlog, a_long_backlog_leaves_in_turns)
{
	enum { TURN_MAX = 17 << 16 }; /* a turn, and what the one before has left */
	struct backlog backlog;
	size_t before, largest = 0;

	open_backlog(&backlog);
	before = rpc_conn_poll(backlog.conn).backlog;
	while (before > 0) {
		size_t left = rpc_conn_poll(backlog.conn).backlog;

		largest = before - left > largest ? before - left : largest;
		before = left;
		if (left > 0)
			event_base_loop(backlog.base, EVLOOP_ONCE);
	}
	cr_assert_leq(largest, TURN_MAX);
	close_backlog(&backlog);
}

/* A server that ends sends what is queued, all at once. */
Test(tls_backlog, a_long_backlog_is_drained)
{
	struct backlog backlog;

	open_backlog(&backlog);
	while (backlog.noted == 0)
		event_base_loop(backlog.base, EVLOOP_ONCE);
	rpc_conn_drain(backlog.conn, clock_monotonic_ms() + 20000);
	cr_assert_eq(rpc_conn_poll(backlog.conn).backlog, 0);
	close_backlog(&backlog);
}
