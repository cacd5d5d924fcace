/* Servers and clients that speak TLS over sockets. */
#include "server_support.h"
#include "tls_support.h"

#include "common/rpc/conn_tls.h"
#include "common/rpc/server_internal.h"
#include "common/rpc/tls_filter.h"

#include <dlfcn.h>
#include <errno.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
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
	int64_t until_ms = clock_monotonic_ms() + 30000;
	char absence[256] = "";

	while (strcmp(absence, reason) != 0 && clock_monotonic_ms() < until_ms) {
		rpc_client_absence(client, absence, sizeof absence);
		pause_ms(10);
	}
	cr_assert_str_eq(absence, reason);
}

static void check_peer_name(struct fake_manager *manager, void *arg)
{
	const char *name = rpc_conn_peer_name(manager->host.server->peers->conn);

	snprintf(arg, 64, "%s", name ? name : "none");
}

/* Calls with short and with long answers, which take many records and writes. */
Test(tls, calls_are_answered)
{
	struct tls *tls = server_tls();
	struct fake_manager *manager = start_secure(tls);
	struct rpc_client *client = secure_client(manager->host.url, client_file);
	struct reeve_error error;
	char name[64];

	cr_assert_eq(strncmp(manager->host.url, "tls+tcp://127.0.0.1:", 20), 0);
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
		clients[i] = secure_client(manager->host.url, client_file);
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

	client = secure_client(manager->host.url, test_ca_issue(&ca, "late", "URI:reeve://a", -60, -1));
	expect_absence(client, tls_problem_text(TLS_BY_PEER + TLS_EXPIRED, TLS_CLIENT));
	rpc_client_destroy(client);

	snprintf(url, sizeof url, "tcp://127.0.0.1:%d", port_of(manager->host.url));
	client = fake_client(url);
	expect_absence(client, "its port speaks TLS: tls+tcp:// in place of tcp://");
	rpc_client_destroy(client);
	snprintf(url, sizeof url, "tls+tcp://127.0.0.1:%d", port_of(plain->host.url));
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
	struct rpc_client *client = secure_client(manager->host.url, client_file);
	struct reeve_error error;

	cr_assert_eq(fake_call_get(client, 1, &error), STATUS(OK));
	test_ca_revoke(&ca, (long[]){2}, 1);
	cr_assert(tls_reload(tls, &error));
	expect_absence(client, tls_problem_text(TLS_BY_PEER + TLS_REVOKED, TLS_CLIENT));
	rpc_client_destroy(client);
	fake_manager_free(manager);
	tls_destroy(tls);
}

/* A certificate that expires during a connection ends it. One that expires before it gives way to a longer one. */
Test(tls, a_certificate_expires_during_a_connection)
{
	struct tls *tls = server_tls();
	struct fake_manager *manager = start_secure(tls);
	struct rpc_client *client = NULL;
	struct reeve_error error;
	bool alive = false;

	for (int valid_s = 3; !alive && valid_s < 30; valid_s *= 3) {
		rpc_client_destroy(client);
		client = secure_client(manager->host.url, test_ca_issue(&ca, "short", "URI:reeve://a", -60, valid_s));
		alive = rpc_client_alive(client, 1000 * valid_s) && fake_call_get(client, 1, &error) == STATUS(OK);
	}
	cr_assert(alive);
	expect_absence(client, tls_problem_text(TLS_BY_PEER + TLS_EXPIRED, TLS_CLIENT));
	rpc_client_destroy(client);
	fake_manager_free(manager);
	tls_destroy(tls);
}

Test(tls, a_caller_without_a_certificate_is_refused)
{
	struct tls *tls = server_tls();
	struct fake_manager *manager = start_secure(tls);
	struct rpc_client *client = secure_client(manager->host.url, NULL);
	struct reeve_error error;

	cr_assert_eq(fake_call_get(client, 1, &error), STATUS(UNAUTHENTICATED));
	cr_assert(strstr(error.message, "requires a certificate (--tls-cert)"), "%s", error.message);
	rpc_client_destroy(client);
	fake_manager_free(manager);
	tls_destroy(tls);
}

static void note_unfinished(struct fake_manager *manager, void *arg)
{
	int count = server_tls_unfinished(manager->host.server);

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
	int port = port_of(manager->host.url), fds[ABANDONED];
	struct innocent innocent;
	struct rpc_client *late;
	int unfinished = 0;
	struct reeve_error error;
	size_t length;
	char *hello = make_hello(&length);

	setenv("REEVE_TLS_CERT", client_file, 1);
	setenv("REEVE_TLS_CA", ca.file, 1);
	innocent_start(&innocent, manager->host.url);
	for (int i = 0; i < ABANDONED; i++) {
		fds[i] = dial_bare(port);
		push(fds[i], hello, length);
		if (i % 100 == 0)
			fake_manager_do(manager, note_unfinished, &unfinished);
	}
	late = secure_client(manager->host.url, client_file);
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

/* The first bytes of a message are no handshake yet; and of one address that has very many, the oldest one is closed,
 * not that of a slow caller. */
Test(tls, handshakes_of_one_address_end_no_other)
{
	enum { MANY = 1200 };
	static const uint8_t begun[] = {22, 3, 1, 0, 4, 1, 0, 1, 0}; /* a record with the head of a ClientHello */
	struct tls *tls = server_tls();
	struct fake_manager *manager = start_secure(tls);
	int port = port_of(manager->host.url), fds[MANY], slow, unfinished = 0;
	int64_t since_ms, until_ms;
	struct pollfd end;

	for (int i = 0; i < MANY; i++) {
		fds[i] = dial_from(port, 2);
		push(fds[i], begun, 5);
	}
	since_ms = clock_monotonic_ms();
	slow = dial_bare(port);
	push(slow, begun, sizeof begun);
	until_ms = clock_monotonic_ms() + 10000;
	while (unfinished == 0 && clock_monotonic_ms() < until_ms)
		fake_manager_do(manager, note_unfinished, &unfinished);
	cr_assert_eq(unfinished, 1);
	for (int i = 0; i < MANY; i++)
		push(fds[i], begun + 5, sizeof begun - 5);
	until_ms = clock_monotonic_ms() + 2000;
	while (unfinished < 1024 && clock_monotonic_ms() < until_ms)
		fake_manager_do(manager, note_unfinished, &unfinished);
	pause_ms(200);
	end = (struct pollfd){.fd = slow, .events = POLLRDHUP};
	if (clock_monotonic_ms() - since_ms < 4000) /* after 5 s, each is closed */
		cr_assert_eq(poll(&end, 1, 0), 0, "the slow caller's connection is closed");
	for (int i = 0; i < MANY; i++)
		close(fds[i]);
	close(slow);
	fake_manager_free(manager);
	tls_destroy(tls);
}

/* Before its handshake a connection takes at most 4 KiB, which nothing counts: one that announces more is an unfinished
 * handshake. */
Test(tls, a_long_hello_is_a_handshake_before_it_is_complete)
{
	static const uint8_t full[5] = {22, 3, 1, 0x10, 0}, longer[5] = {22, 3, 1, 0x10, 1};
	struct tls *tls = server_tls();
	struct fake_manager *manager = start_secure(tls);
	int waits = dial_bare(port_of(manager->host.url)), begins = dial_bare(port_of(manager->host.url)), unfinished = 0;
	int64_t until_ms = clock_monotonic_ms() + 4000;

	push(waits, full, sizeof full);
	push(begins, longer, sizeof longer);
	while (unfinished == 0 && clock_monotonic_ms() < until_ms)
		fake_manager_do(manager, note_unfinished, &unfinished);
	cr_assert_eq(unfinished, 1);
	close(waits);
	close(begins);
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
		struct rpc_client *client = secure_client(manager->host.url, client_file);

		for (int j = 0; j < PEERS; j++) {
			fds[j] = dial_bare(port_of(manager->host.url));
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
	int half = dial_bare(port_of(manager->host.url)), slow = dial_bare(port_of(manager->host.url)), silent;
	const uint8_t head[] = {0x16, 3, 1, 1, 0, 1};
	bool over = false;
	char byte;

	silent = dial_bare(port_of(manager->host.url));
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

static _Atomic(pthread_t) loop;
static atomic_int steps, loop_steps; /* of servers' handshakes: of all, and on the loop's thread */

/* Replaces OpenSSL's function in the entire program. */
int SSL_do_handshake(SSL *ssl)
{
	int (*real)(SSL *) = (int (*)(SSL *))dlsym(RTLD_NEXT, "SSL_do_handshake");

	if (SSL_is_server(ssl)) {
		atomic_fetch_add(&steps, 1);
		atomic_fetch_add(&loop_steps, pthread_equal(pthread_self(), atomic_load(&loop)) != 0);
	}
	return real(ssl);
}

/* The loop's thread does nothing of the work of handshakes. */
Test(tls, handshakes_do_not_hold_up_the_loop)
{
	enum { CLIENTS = 10 };
	struct tls *tls = server_tls();
	struct fake_manager *manager = start_secure(tls);

	atomic_store(&loop, manager->host.thread);
	for (int i = 0; i < CLIENTS; i++) {
		struct rpc_client *client = secure_client(manager->host.url, client_file);

		cr_assert(rpc_client_alive(client, 20000));
		rpc_client_destroy(client);
	}
	cr_expect_geq(atomic_load(&steps), 2 * CLIENTS, "%d", atomic_load(&steps));
	cr_expect_eq(atomic_load(&loop_steps), 0, "%d of %d", atomic_load(&loop_steps), atomic_load(&steps));
	fake_manager_free(manager);
	tls_destroy(tls);
}
