/* Servers and clients that speak TLS over sockets. */
#include "server_support.h"
#include "tls_support.h"

#include "common/rpc/conn_tls.h"
#include "common/rpc/server_internal.h"
#include "common/rpc/tls_filter.h"

#include <errno.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <sys/socket.h>
#include <time.h>

#define SECURE_LOOPBACK "tls+tcp://127.0.0.1:0"

static struct test_ca ca;
static char server_file[192], client_file[192], crl_file[192];

static void make_ca(void)
{
	test_ca_make(&ca);
	strcpy(server_file, test_ca_issue(&ca, "server", "IP:127.0.0.1,DNS:localhost,URI:reeve://manager", -60, 3600));
	strcpy(client_file, test_ca_issue(&ca, "client", "URI:reeve://worker-1", -60, 3600));
	strcpy(crl_file, test_ca_revoke(&ca, NULL, 0));
}

static void free_ca(void)
{
	test_ca_free(&ca);
}

TestSuite(tls, .init = make_ca, .fini = free_ca, .timeout = 60);

static struct tls *server_tls(void)
{
	struct reeve_error error = {0};
	struct tls *tls =
	    tls_create(TLS_SERVER, &(struct tls_files){.certificate = server_file, .ca = ca.file, .crl = crl_file}, &error);

	cr_assert_not_null(tls, "%s", error.message);
	return tls;
}

static struct fake_manager *start_secure(struct tls *tls)
{
	return fake_manager_start(SECURE_LOOPBACK, &(struct rpc_server_options){.tls = tls});
}

static struct rpc_client *secure_client(const char *url, const char *certificate)
{
	struct rpc_client_options options = {.urls = url, .tls = {.certificate = certificate, .ca = ca.file}};
	struct reeve_error error = {0};
	struct rpc_client *client = rpc_client_create(&options, &error);

	cr_assert(client, "%s", error.message);
	return client;
}

/* Waits until the client knows why it has no connection. */
static void expect_absence(struct rpc_client *client, const char *reason)
{
	char absence[256] = "";

	for (int i = 0; i < 500 && strcmp(absence, reason) != 0; i++) {
		rpc_client_absence(client, absence, sizeof absence);
		pause_ms(10);
	}
	cr_assert_str_eq(absence, reason);
}

static void check_peer_name(struct fake_manager *manager, void *arg)
{
	const char *name = rpc_conn_peer_name(manager->server->peers->conn);

	snprintf(arg, 64, "%s", name ? name : "none");
}

/* Calls with short and with long answers, which take many records and writes. */
Test(tls, calls_are_answered)
{
	struct tls *tls = server_tls();
	struct fake_manager *manager = start_secure(tls);
	struct rpc_client *client = secure_client(manager->url, client_file);
	struct reeve_error error;
	char name[64];

	cr_assert_eq(strncmp(manager->url, "tls+tcp://127.0.0.1:", 20), 0);
	for (int i = 1; i <= 100; i++)
		cr_assert_eq(fake_call_get(client, i, &error), STATUS(OK), "%s", error.message);
	manager->get_bytes = 5000000;
	for (int i = 1; i <= 5; i++)
		cr_assert_eq(fake_call_get(client, i, &error), STATUS(OK), "%s", error.message);
	fake_manager_do(manager, check_peer_name, name);
	cr_assert_str_eq(name, "reeve://worker-1");
	rpc_client_destroy(client);
	fake_manager_free(manager);
	tls_destroy(tls);
}

/* Many clients at once. */
Test(tls, many_calls_at_once)
{
	enum { CLIENTS = 20, WAITS = 50 };
	struct tls *tls = server_tls();
	struct fake_manager *manager = start_secure(tls);
	struct rpc_client *clients[CLIENTS];
	struct fake_result *results = calloc(CLIENTS * WAITS, sizeof *results);

	for (int i = 0; i < CLIENTS; i++) {
		clients[i] = secure_client(manager->url, client_file);
		for (int j = 0; j < WAITS; j++)
			fake_start_wait(clients[i], i * WAITS + j, NULL, &results[i * WAITS + j]);
	}
	fake_manager_await(manager, &manager->n_parked, CLIENTS * WAITS);
	fake_manager_do(manager, answer_all, NULL);
	for (int i = 0; i < CLIENTS * WAITS; i++) {
		fake_result_await(&results[i]);
		cr_assert_eq(results[i].code, STATUS(OK), "%s", results[i].message);
	}
	for (int i = 0; i < CLIENTS; i++)
		rpc_client_destroy(clients[i]);
	free(results);
	fake_manager_free(manager);
	tls_destroy(tls);
}

/* What the client knows of a refusal, by either end. */
Test(tls, refusals_have_reasons)
{
	struct tls *tls = server_tls();
	struct fake_manager *manager = start_secure(tls);
	struct fake_manager *plain = fake_manager_start(LOOPBACK, NULL);
	struct rpc_client *client;
	char url[64];

	client = secure_client(manager->url, test_ca_issue(&ca, "late", "URI:reeve://a", -60, -1));
	expect_absence(client, tls_problem_text(TLS_BY_PEER + TLS_EXPIRED, TLS_CLIENT));
	rpc_client_destroy(client);

	snprintf(url, sizeof url, "tcp://127.0.0.1:%d", port_of(manager->url));
	client = fake_client(url);
	expect_absence(client, "its port speaks TLS: tls+tcp:// in place of tcp://");
	rpc_client_destroy(client);
	snprintf(url, sizeof url, "tls+tcp://127.0.0.1:%d", port_of(plain->url));
	client = secure_client(url, client_file);
	expect_absence(client, "its port does not speak TLS: tcp:// in place of tls+tcp://, or another port");
	rpc_client_destroy(client);
	fake_manager_free(manager);
	fake_manager_free(plain);
	tls_destroy(tls);
}

/* A revocation, read again, ends the open connection, and what the client then learns names the reason. */
Test(tls, a_revoked_client_loses_its_connection)
{
	struct tls *tls = server_tls();
	struct fake_manager *manager = start_secure(tls);
	struct rpc_client *client = secure_client(manager->url, client_file);
	struct reeve_error error;

	cr_assert_eq(fake_call_get(client, 1, &error), STATUS(OK));
	test_ca_revoke(&ca, (long[]){2}, 1);
	cr_assert(tls_reload(tls, &error));
	expect_absence(client, tls_problem_text(TLS_BY_PEER + TLS_REVOKED, TLS_CLIENT));
	rpc_client_destroy(client);
	fake_manager_free(manager);
	tls_destroy(tls);
}

/* A certificate that expires during a connection ends it. */
Test(tls, a_certificate_expires_during_a_connection)
{
	struct tls *tls = server_tls();
	struct fake_manager *manager = start_secure(tls);
	struct rpc_client *client = secure_client(manager->url, test_ca_issue(&ca, "short", "URI:reeve://a", -60, 3));
	struct reeve_error error;

	cr_assert_eq(fake_call_get(client, 1, &error), STATUS(OK));
	expect_absence(client, tls_problem_text(TLS_BY_PEER + TLS_EXPIRED, TLS_CLIENT));
	rpc_client_destroy(client);
	fake_manager_free(manager);
	tls_destroy(tls);
}

Test(tls, a_caller_without_a_certificate_is_refused)
{
	struct tls *tls = server_tls();
	struct fake_manager *manager = start_secure(tls);
	struct rpc_client *client = secure_client(manager->url, NULL);
	struct reeve_error error;

	cr_assert_eq(fake_call_get(client, 1, &error), STATUS(UNAUTHENTICATED));
	cr_assert(strstr(error.message, "requires a certificate (--tls-cert)"), "%s", error.message);
	rpc_client_destroy(client);
	fake_manager_free(manager);
	tls_destroy(tls);
}

static void note_unfinished(struct fake_manager *manager, void *arg)
{
	int count = server_tls_unfinished(manager->server);

	*(int *)arg = count > *(int *)arg ? count : *(int *)arg;
}

/* Returns a client's hello, which the caller must free, and sets its length. */
static char *make_hello(size_t *length)
{
	SSL_CTX *context = SSL_CTX_new(TLS_client_method());
	BIO *out = BIO_new(BIO_s_mem());
	SSL *ssl = SSL_new(context);
	char *bytes, *hello;

	SSL_set_bio(ssl, BIO_new(BIO_s_mem()), out);
	cr_assert_eq(SSL_connect(ssl), -1);
	*length = (size_t)BIO_get_mem_data(out, &bytes);
	hello = malloc(*length);
	memcpy(hello, bytes, *length);
	SSL_free(ssl);
	SSL_CTX_free(context);
	return hello;
}

/* Peers that send a hello and no more cost little, and others do not notice them. */
Test(tls, abandoned_handshakes_harm_nobody, .timeout = 100)
{
	enum { ABANDONED = 1500 };
	struct tls *tls = server_tls();
	struct fake_manager *manager = start_secure(tls);
	int port = port_of(manager->url), fds[ABANDONED];
	struct innocent innocent;
	struct rpc_client *late;
	int unfinished = 0;
	struct reeve_error error;
	size_t length;
	char *hello = make_hello(&length);

	setenv("REEVE_TLS_CERT", client_file, 1);
	setenv("REEVE_TLS_CA", ca.file, 1);
	innocent_start(&innocent, manager->url);
	for (int i = 0; i < ABANDONED; i++) {
		fds[i] = dial_bare(port);
		push(fds[i], hello, length);
	}
	late = secure_client(manager->url, client_file);
	cr_assert_eq(fake_call_get(late, 1, &error), STATUS(OK), "%s", error.message);
	rpc_client_destroy(late);
	for (int i = 0; i < 40; i++) {
		fake_manager_do(manager, note_unfinished, &unfinished);
		pause_ms(50);
	}
	cr_assert_gt(unfinished, 10);
	cr_assert_leq(unfinished, 1024);
	innocent_unharmed(&innocent);
	for (int i = 0; i < ABANDONED; i++)
		close(fds[i]);
	free(hello);
	fake_manager_free(manager);
	tls_destroy(tls);
}

/* Connections and servers that end while threads work on their handshakes. */
Test(tls, handshakes_end_at_any_time)
{
	enum { ROUNDS = 30, PEERS = 20 };
	struct tls *tls = server_tls();
	int fds[PEERS];
	size_t length;
	char *hello = make_hello(&length);

	for (int i = 0; i < ROUNDS; i++) {
		struct fake_manager *manager = start_secure(tls);
		struct rpc_client *client = secure_client(manager->url, client_file);

		for (int j = 0; j < PEERS; j++) {
			fds[j] = dial_bare(port_of(manager->url));
			push(fds[j], hello, length);
		}
		pause_ms(i % 5);
		for (int j = 0; j < PEERS; j += 2)
			close(fds[j]);
		if (i % 3)
			fake_manager_cut(manager);
		fake_manager_free(manager);
		for (int j = 1; j < PEERS; j += 2)
			close(fds[j]);
		rpc_client_destroy(client);
	}
	free(hello);
	tls_destroy(tls);
}

/* A peer that closes one direction, or sends its handshake byte by byte for longer than allowed. */
Test(tls, half_closed_and_slow_peers_are_closed)
{
	struct tls *tls = server_tls();
	struct fake_manager *manager = start_secure(tls);
	int half = dial_bare(port_of(manager->url)), slow = dial_bare(port_of(manager->url)), silent;
	const uint8_t head[] = {0x16, 3, 1, 1, 0, 1};
	bool over = false;
	char byte;

	silent = dial_bare(port_of(manager->url));
	push(half, head, sizeof head);
	shutdown(half, SHUT_WR);
	cr_assert_eq(recv(half, &byte, 1, 0), 0);
	push(slow, head, sizeof head);
	for (int i = 0; i < 80 && !over; i++) {
		push(slow, "\0", 1);
		pause_ms(100);
		over = recv(slow, &byte, 1, MSG_DONTWAIT) == 0 || errno != EAGAIN;
	}
	cr_assert(over);
	cr_assert_eq(recv(silent, &byte, 1, 0), 0);
	await_connections(manager, 0);
	close(half);
	close(slow);
	close(silent);
	fake_manager_free(manager);
	tls_destroy(tls);
}

static int64_t cpu_us(clockid_t clock)
{
	struct timespec used;

	clock_gettime(clock, &used);
	return used.tv_sec * INT64_C(1000000) + used.tv_nsec / 1000;
}

/* Returns the CPU time of the server's part of a handshake. */
static int64_t handshake_us(struct tls *server_tls)
{
	struct reeve_error error;
	struct tls *client_tls =
	    tls_create(TLS_CLIENT, &(struct tls_files){.certificate = client_file, .ca = ca.file}, &error);
	struct tls_filter server = {0}, client = {0};
	int64_t used_us = 0, begun_us;

	tls_filter_open(&client, client_tls, "127.0.0.1");
	for (int i = 0; i < 2; i++) {
		tls_filter_handshake(&client);
		begun_us = cpu_us(CLOCK_THREAD_CPUTIME_ID);
		if (i == 0)
			tls_filter_open(&server, server_tls, NULL);
		tls_filter_feed(&server, client.out.data + client.out.start, tls_bytes_count(&client.out));
		cr_assert_eq(tls_filter_handshake(&server), i == 0 ? TLS_MORE : TLS_DONE);
		used_us += cpu_us(CLOCK_THREAD_CPUTIME_ID) - begun_us;
		tls_bytes_free(&client.out);
		tls_filter_feed(&client, server.out.data + server.out.start, tls_bytes_count(&server.out));
		tls_bytes_free(&server.out);
	}
	tls_filter_close(&server);
	tls_filter_close(&client);
	tls_destroy(client_tls);
	return used_us;
}

/* The loop's thread does little of the work of handshakes. */
Test(tls, handshakes_do_not_hold_up_the_loop)
{
	enum { CLIENTS = 100, SAMPLES = 20 };
	struct tls *tls = server_tls();
	struct fake_manager *manager = start_secure(tls);
	int64_t handshakes_us = 0, loop_us;
	clockid_t clock;

	for (int i = 0; i < SAMPLES; i++)
		handshakes_us += handshake_us(tls) * CLIENTS / SAMPLES;
	cr_assert_eq(pthread_getcpuclockid(manager->thread, &clock), 0);
	loop_us = cpu_us(clock);
	for (int i = 0; i < CLIENTS; i++) {
		struct rpc_client *client = secure_client(manager->url, client_file);

		cr_assert(rpc_client_alive(client, 5000));
		rpc_client_destroy(client);
	}
	loop_us = cpu_us(clock) - loop_us;
	cr_assert_lt(loop_us, handshakes_us / 2, "%lld us of the loop, where handshakes take %lld us", (long long)loop_us,
	    (long long)handshakes_us);
	fake_manager_free(manager);
	tls_destroy(tls);
}

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

	memset(backlog, 0, sizeof *backlog);
	signal(SIGPIPE, SIG_IGN);
	backlog->base = event_base_new();
	backlog->turns = tls_turns_create(backlog->base);
	backlog->tls = server_tls();
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
Test(tls, a_long_backlog_leaves_in_turns)
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
Test(tls, a_long_backlog_is_drained)
{
	struct backlog backlog;

	open_backlog(&backlog);
	while (backlog.noted == 0)
		event_base_loop(backlog.base, EVLOOP_ONCE);
	rpc_conn_drain(backlog.conn, clock_monotonic_ms() + 20000);
	cr_assert_eq(rpc_conn_poll(backlog.conn).backlog, 0);
	close_backlog(&backlog);
}
