/* The TLS of a connection without sockets: each byte between two filters passes through the test. */
#include "common/rpc/tls_context.h"
#include "common/rpc/tls_filter.h"
#include "tls_support.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct test_ca ca;

struct pair {
	struct tls *server_tls, *client_tls;
	struct tls_filter server, client;
};

static void open_pair(
    struct pair *pair, const struct tls_files *server, const struct tls_files *client, const char *host)
{
	struct reeve_error error = {0};

	memset(pair, 0, sizeof *pair);
	pair->server_tls = tls_create(TLS_SERVER, server, &error);
	cr_assert_not_null(pair->server_tls, "%s", error.message);
	pair->client_tls = tls_create(TLS_CLIENT, client, &error);
	cr_assert_not_null(pair->client_tls, "%s", error.message);
	tls_filter_open(&pair->server, pair->server_tls, NULL);
	tls_filter_open(&pair->client, pair->client_tls, host);
}

static void close_pair(struct pair *pair)
{
	tls_filter_close(&pair->server);
	tls_filter_close(&pair->client);
	tls_destroy(pair->server_tls);
	tls_destroy(pair->client_tls);
}

/* Opens a pair with good certificates of both ends. */
static void open_good(struct pair *pair)
{
	char server[192];

	strcpy(server, test_ca_issue(&ca, "server", "DNS:manager,URI:reeve://manager", -60, 3600));
	open_pair(pair, &(struct tls_files){.certificate = server, .ca = ca.file},
	    &(struct tls_files){
	        .certificate = test_ca_issue(&ca, "client", "DNS:x,URI:reeve://worker-1", -60, 3600), .ca = ca.file},
	    "manager");
}

/* Passes what one filter has to send to the other, `chunk` bytes at a time, each followed by `step`. Stops when a step
 * is not TLS_MORE. */
static enum tls_step pass(
    struct tls_filter *from, struct tls_filter *to, size_t chunk, enum tls_step (*step)(struct tls_filter *filter))
{
	enum tls_step result = TLS_MORE;

	while (from->out.start < from->out.end && result == TLS_MORE) {
		size_t length = tls_bytes_count(&from->out) < chunk ? tls_bytes_count(&from->out) : chunk;

		tls_filter_feed(to, from->out.data + from->out.start, length);
		from->out.start += length;
		result = step(to);
	}
	return result;
}

static void shake(struct pair *pair, size_t chunk)
{
	cr_assert_eq(tls_filter_handshake(&pair->client), TLS_MORE);
	cr_assert_eq(pass(&pair->client, &pair->server, chunk, tls_filter_handshake), TLS_MORE);
	cr_assert_eq(pass(&pair->server, &pair->client, chunk, tls_filter_handshake), TLS_DONE);
	cr_assert_eq(pass(&pair->client, &pair->server, chunk, tls_filter_handshake), TLS_DONE);
}

/* Reads one byte. */
static enum tls_step read_one(struct tls_filter *filter)
{
	uint8_t byte;
	size_t count;

	return tls_filter_read(filter, &byte, 1, &count);
}

static void make_ca(void)
{
	test_ca_make(&ca);
}

static void free_ca(void)
{
	test_ca_free(&ca);
}

TestSuite(tls_filter, .init = make_ca, .fini = free_ca, .timeout = 60);

/* Whatever the pieces in which the bytes arrive: one by one, or all at once. */
Test(tls_filter, bytes_pass_in_any_pieces)
{
	const size_t chunks[] = {1, 7, 1000000};

	for (int i = 0; i < 3; i++) {
		uint8_t sent[40000], got[sizeof sent];
		size_t count, total = 0;
		struct pair pair;

		for (size_t at = 0; at < sizeof sent; at++)
			sent[at] = (uint8_t)(at * 7 + at / 256);
		open_good(&pair);
		shake(&pair, chunks[i]);
		cr_assert_str_eq(pair.server.peer, "reeve://worker-1");
		cr_assert_str_eq(pair.client.peer, "reeve://manager");
		cr_assert_eq(tls_filter_write(&pair.client, sent, sizeof sent), TLS_DONE);
		while (tls_bytes_count(&pair.client.out) > 0) {
			size_t length = tls_bytes_count(&pair.client.out);

			length = length < chunks[i] ? length : chunks[i];
			tls_filter_feed(&pair.server, pair.client.out.data + pair.client.out.start, length);
			pair.client.out.start += length;
			while (tls_filter_read(&pair.server, got + total, 1 + sizeof got - total > 5000 ? 5000 : 1, &count) ==
			    TLS_DONE)
				total += count;
		}
		cr_assert_eq(total, sizeof sent);
		cr_assert_eq(memcmp(sent, got, total), 0);
		cr_assert_eq(tls_bytes_count(&pair.server.in), 0);
		close_pair(&pair);
	}
}

/* A hello that breaks off, at any byte, is only unfinished. */
Test(tls_filter, a_hello_that_breaks_off_is_unfinished)
{
	struct pair pair;

	open_good(&pair);
	cr_assert_eq(tls_filter_handshake(&pair.client), TLS_MORE);
	cr_assert_eq(pass(&pair.client, &pair.server, 1, tls_filter_handshake), TLS_MORE);
	cr_assert_eq(pair.server.problem, TLS_FINE);
	close_pair(&pair);
}

/* A changed byte anywhere in a hello, or in a record, is refused or without effect, and never accepted as content. */
Test(tls_filter, changed_bytes_are_refused)
{
	struct pair pair, other;
	int refused = 0;

	open_good(&pair);
	cr_assert_eq(tls_filter_handshake(&pair.client), TLS_MORE);
	for (size_t at = 0; at < tls_bytes_count(&pair.client.out); at += 3) {
		struct tls_filter server = {0};
		enum tls_step step;

		tls_filter_open(&server, pair.server_tls, NULL);
		pair.client.out.data[at] ^= 0x55;
		tls_filter_feed(&server, pair.client.out.data, pair.client.out.end);
		step = tls_filter_handshake(&server);
		cr_assert(step == TLS_MORE || step == TLS_FAILED);
		refused += step == TLS_FAILED;
		cr_assert_eq(step == TLS_FAILED, server.problem != TLS_FINE);
		pair.client.out.data[at] ^= 0x55;
		tls_filter_close(&server);
	}
	cr_assert_gt(refused, 5);
	close_pair(&pair);

	for (size_t at = 0; at < 25; at += 4) {
		open_good(&other);
		shake(&other, 1000000);
		cr_assert_eq(tls_filter_write(&other.client, "abcd", 4), TLS_DONE);
		cr_assert_eq(tls_bytes_count(&other.client.out), 26);
		other.client.out.data[other.client.out.start + at] ^= 1;
		tls_filter_feed(&other.server, other.client.out.data + other.client.out.start, 26);
		cr_assert_neq(read_one(&other.server), TLS_DONE, "byte %zu", at);
		close_pair(&other);
	}
}

/* Bytes of other protocols, and random ones. The server answers with an alert, by which its opposite recognizes TLS. */
Test(tls_filter, other_bytes_are_refused)
{
	static const char *const starts[] = {"GET / HTTP/1.1\r\n\r\n", "\1SP", "SSH-2.0-x\r\n", "\x80\x2e\x01\x03\x01"};
	struct pair pair;

	open_good(&pair);
	for (int i = 0; i < 4; i++) {
		struct tls_filter server = {0};

		tls_filter_open(&server, pair.server_tls, NULL);
		tls_filter_feed(&server, starts[i], strlen(starts[i]));
		cr_assert_eq(tls_filter_handshake(&server), TLS_FAILED);
		cr_assert_eq(server.problem, TLS_PEER_IS_PLAIN, "%s", starts[i]);
		cr_assert_eq(server.out.data[server.out.start], 0x15);
		tls_filter_close(&server);
	}
	srand(7);
	for (int i = 0; i < 300; i++) {
		struct tls_filter server = {0};
		uint8_t bytes[600] = {0x16, 3, 1, 0, (uint8_t)rand()};

		for (size_t at = i % 2 ? 5 : 3; at < sizeof bytes; at++)
			bytes[at] = (uint8_t)rand();
		tls_filter_open(&server, pair.server_tls, NULL);
		tls_filter_feed(&server, bytes, sizeof bytes);
		cr_assert_neq(tls_filter_handshake(&server), TLS_DONE);
		tls_filter_close(&server);
	}
	close_pair(&pair);
}

/* A client before TLS 1.3, and an attempt to begin a second handshake. */
Test(tls_filter, old_versions_and_second_handshakes_are_refused)
{
	struct pair pair, second;
	struct tls_filter old = {0};

	open_good(&pair);
	tls_filter_open(&old, pair.client_tls, "manager");
	SSL_set_min_proto_version(old.ssl, TLS1_2_VERSION);
	SSL_set_max_proto_version(old.ssl, TLS1_2_VERSION);
	tls_filter_handshake(&old);
	cr_assert_eq(pass(&old, &pair.server, 1000000, tls_filter_handshake), TLS_FAILED);
	cr_assert_eq(pair.server.problem, TLS_OLD_VERSION);
	cr_assert_eq(pass(&pair.server, &old, 1000000, tls_filter_handshake), TLS_FAILED);
	cr_assert_eq(old.problem, TLS_BY_PEER + TLS_OLD_VERSION);
	tls_filter_close(&old);
	close_pair(&pair);

	open_good(&second);
	shake(&second, 1000000);
	tls_filter_open(&old, second.client_tls, "manager");
	tls_filter_handshake(&old);
	cr_assert_eq(pass(&old, &second.server, 1000000, read_one), TLS_FAILED);
	cr_assert_eq(second.server.problem, TLS_BROKEN);
	tls_filter_close(&old);
	close_pair(&second);
}

/* A peer that sends messages without content for the caller, here a server that sends tickets. */
Test(tls_filter, records_without_content_are_bounded)
{
	enum { TICKETS = 2000 };
	enum tls_step step = TLS_MORE;
	struct pair pair;
	int i;

	open_good(&pair);
	shake(&pair, 1000000);
	for (i = 0; i < TICKETS && step == TLS_MORE; i++) {
		cr_assert_eq(SSL_new_session_ticket(pair.server.ssl), 1);
		cr_assert_eq(SSL_do_handshake(pair.server.ssl), 1);
		step = pass(&pair.server, &pair.client, 1000000, read_one);
	}
	cr_assert_eq(step, TLS_FAILED);
	cr_assert_gt(i, 10, "some are allowed");
	cr_assert_eq(pair.client.problem, TLS_BROKEN);
	cr_assert_str_eq(pair.client.detail, "records without content");
	close_pair(&pair);
}

static void change_keys(struct pair *pair, int count)
{
	for (int i = 0; i < count; i++) {
		cr_assert_eq(SSL_key_update(pair->client.ssl, SSL_KEY_UPDATE_NOT_REQUESTED), 1);
		cr_assert_eq(SSL_do_handshake(pair->client.ssl), 1);
	}
}

/* Changes of keys cost much. They are bounded, also between content and many at once; with much content more are
 * allowed. */
Test(tls_filter, changes_of_keys_are_bounded)
{
	enum { ALLOWED = 64, CONTENT = 1 << 20 };
	char *content = calloc(1, CONTENT);
	struct pair pair;
	size_t count;

	open_good(&pair);
	shake(&pair, 1000000);
	change_keys(&pair, ALLOWED);
	cr_assert_eq(tls_filter_write(&pair.client, content, CONTENT), TLS_DONE);
	tls_filter_feed(&pair.server, pair.client.out.data + pair.client.out.start, tls_bytes_count(&pair.client.out));
	tls_bytes_free(&pair.client.out);
	for (size_t all = 0; all < CONTENT; all += count)
		cr_assert_eq(tls_filter_read(&pair.server, content, CONTENT, &count), TLS_DONE);
	change_keys(&pair, 1);
	cr_assert_eq(pass(&pair.client, &pair.server, 1000000, read_one), TLS_MORE);
	change_keys(&pair, 5000);
	cr_assert_eq(pass(&pair.client, &pair.server, 1000000, read_one), TLS_FAILED);
	cr_assert_eq(pair.server.problem, TLS_BROKEN);
	cr_assert_str_eq(pair.server.detail, "too many changes of keys");
	cr_assert_eq(pair.server.key_updates, ALLOWED + 2, "the others were not processed");
	close_pair(&pair);
	free(content);
}

/* The end of a connection by TLS. */
Test(tls_filter, an_orderly_end_is_an_end)
{
	struct pair pair;

	open_good(&pair);
	shake(&pair, 1000000);
	SSL_shutdown(pair.client.ssl);
	cr_assert_eq(pass(&pair.client, &pair.server, 1000000, read_one), TLS_END);
	close_pair(&pair);
}

/* Each reason for which the client refuses the server, as both ends know it. */
static void expect_server_refused(const char *names, int from_s, int until_s, int mine, int theirs)
{
	struct pair pair;

	open_pair(&pair,
	    &(struct tls_files){.certificate = test_ca_issue(&ca, "bad", names, from_s, until_s), .ca = ca.file},
	    &(struct tls_files){.ca = ca.file}, "manager");
	tls_filter_handshake(&pair.client);
	pass(&pair.client, &pair.server, 1000000, tls_filter_handshake);
	cr_assert_eq(pass(&pair.server, &pair.client, 1000000, tls_filter_handshake), TLS_FAILED);
	cr_assert_eq(pair.client.problem, mine, "%d", pair.client.problem);
	cr_assert_eq(pass(&pair.client, &pair.server, 1000000, tls_filter_handshake), TLS_FAILED);
	cr_assert_eq(pair.server.problem, theirs, "%d", pair.server.problem);
	close_pair(&pair);
}

Test(tls_filter, a_client_names_its_reason)
{
	expect_server_refused("DNS:other,IP:127.0.0.1", -60, 60, TLS_WRONG_NAME, TLS_BY_PEER + TLS_WRONG_NAME);
	expect_server_refused(NULL, -60, 60, TLS_WRONG_NAME, TLS_BY_PEER + TLS_WRONG_NAME);
	expect_server_refused("DNS:manager", -60, -10, TLS_EXPIRED, TLS_BY_PEER + TLS_EXPIRED);
	expect_server_refused("DNS:manager", 60, 120, TLS_NOT_YET_VALID, TLS_BY_PEER + TLS_NOT_YET_VALID);
}

/* Each reason for which the server refuses the client. The client learns it after its own handshake. */
static void expect_client_refused(const struct tls_files *server, const char *certificate, int mine, int theirs)
{
	struct pair pair;

	open_pair(&pair, server, &(struct tls_files){.certificate = certificate, .ca = ca.file}, "manager");
	tls_filter_handshake(&pair.client);
	pass(&pair.client, &pair.server, 1000000, tls_filter_handshake);
	cr_assert_eq(pass(&pair.server, &pair.client, 1000000, tls_filter_handshake), TLS_DONE);
	cr_assert_eq(pass(&pair.client, &pair.server, 1000000, tls_filter_handshake), TLS_FAILED);
	cr_assert_eq(pair.server.problem, mine, "%d", pair.server.problem);
	cr_assert_eq(pass(&pair.server, &pair.client, 1000000, read_one), TLS_FAILED);
	cr_assert_eq(pair.client.problem, theirs, "%d", pair.client.problem);
	close_pair(&pair);
}

Test(tls_filter, a_server_names_its_reason)
{
	struct test_ca other;
	char own[192], crl[192];
	struct tls_files server = {.certificate = own, .ca = ca.file};
	const char *client;

	strcpy(own, test_ca_issue(&ca, "server", "DNS:manager", -60, 60));
	client = test_ca_issue(&ca, "client", "URI:reeve://a", -60, -10);
	expect_client_refused(&server, client, TLS_EXPIRED, TLS_BY_PEER + TLS_EXPIRED);
	client = test_ca_issue(&ca, "client", "URI:reeve://a", 60, 120);
	expect_client_refused(&server, client, TLS_NOT_YET_VALID, TLS_BY_PEER + TLS_NOT_YET_VALID);
	test_ca_make(&other); /* with the same name, but another key */
	client = test_ca_issue(&other, "client", "URI:reeve://a", -60, 60);
	expect_client_refused(&server, client, TLS_WRONG_CA, TLS_BY_PEER + TLS_WRONG_CA);
	strcpy(crl, test_ca_revoke(&other, NULL, 0));
	server.crl = crl;
	client = test_ca_issue(&ca, "client", "URI:reeve://a", -60, 60);
	expect_client_refused(&server, client, TLS_NO_CRL, TLS_BY_PEER + TLS_NO_CRL);
	strcpy(crl, test_ca_revoke(&ca, &ca.serial, 1));
	expect_client_refused(&server, client, TLS_REVOKED, TLS_BY_PEER + TLS_REVOKED);
	test_ca_free(&other);
}

/* The server knows which clients have shown no certificate; one that needs none does not mind. */
Test(tls_filter, a_client_without_a_certificate_is_known)
{
	char own[192], clients[192];
	struct tls_files server = {.certificate = own};
	const struct tls_files with = {.certificate = clients, .ca = ca.file}, without = {.ca = ca.file};
	struct pair pair;

	strcpy(own, test_ca_issue(&ca, "server", "DNS:manager", -60, 60));
	strcpy(clients, test_ca_issue(&ca, "client", NULL, -60, 60));
	for (int i = 0; i < 4; i++) {
		server.ca = i & 1 ? ca.file : NULL;
		open_pair(&pair, &server, i & 2 ? &with : &without, "manager");
		tls_filter_handshake(&pair.client);
		pass(&pair.client, &pair.server, 1000000, tls_filter_handshake);
		cr_assert_eq(pass(&pair.server, &pair.client, 1000000, tls_filter_handshake), TLS_DONE);
		cr_assert_eq(pass(&pair.client, &pair.server, 1000000, tls_filter_handshake), TLS_DONE);
		cr_assert_eq(pair.server.uncertified, i == 1, "%d", i);
		cr_assert(!pair.client.uncertified);
		close_pair(&pair);
	}
}

/* Open connections are checked again, by the files as they are now. */
Test(tls_filter, certificates_are_checked_again)
{
	struct reeve_error error;
	struct tls_files server;
	char own[192], crl[192];
	const char *client;
	struct pair pair;

	strcpy(own, test_ca_issue(&ca, "server", "DNS:manager", -60, 3600));
	strcpy(crl, test_ca_revoke(&ca, NULL, 0));
	server = (struct tls_files){.certificate = own, .ca = ca.file, .crl = crl};
	client = test_ca_issue(&ca, "client", "URI:reeve://a", -60, 600);
	open_pair(&pair, &server, &(struct tls_files){.certificate = client, .ca = ca.file}, "manager");
	shake(&pair, 1000000);
	cr_assert_not(tls_filter_is_due(&pair.server, pair.server_tls, time(NULL)));
	cr_assert(tls_filter_is_due(&pair.server, pair.server_tls, time(NULL) + 601));
	cr_assert_not(tls_filter_is_due(&pair.client, pair.client_tls, time(NULL) + 601));
	cr_assert(tls_reload(pair.server_tls, &error));
	cr_assert(tls_filter_is_due(&pair.server, pair.server_tls, time(NULL)));
	cr_assert_eq(tls_filter_check(&pair.server, pair.server_tls), TLS_FINE);
	cr_assert_not(tls_filter_is_due(&pair.server, pair.server_tls, time(NULL)));
	test_ca_revoke(&ca, (long[]){2, 5}, 2);
	cr_assert(tls_reload(pair.server_tls, &error));
	cr_assert_eq(tls_filter_check(&pair.server, pair.server_tls), TLS_REVOKED);
	cr_assert(tls_reload(pair.client_tls, &error));
	cr_assert_eq(tls_filter_check(&pair.client, pair.client_tls), TLS_FINE);
	close_pair(&pair);
}

/* A list that has expired refuses all certificates, so its end is listed too. */
Test(tls_filter, the_end_of_a_revocation_list_is_listed)
{
	char own[192], text[TLS_ENDING_TEXT];
	struct tls_files server = {.certificate = own, .ca = ca.file};
	struct tls_ending endings[TLS_FILES];
	struct reeve_error error;
	struct tls *tls;

	strcpy(own, test_ca_issue(&ca, "server", "DNS:manager", -60, 3600));
	server.crl = test_ca_revoke(&ca, NULL, 0);
	tls = tls_create(TLS_SERVER, &server, &error);
	cr_assert_eq(tls_endings(tls, endings), 0);
	ca.list_s = -1;
	test_ca_revoke(&ca, NULL, 0);
	cr_assert(tls_reload(tls, &error));
	cr_assert_eq(tls_endings(tls, endings), 1);
	cr_assert_str_eq(endings[0].option, "--tls-crl");
	cr_assert_str_eq(tls_ending_text(&endings[0], text), "the revocation list has expired");
	tls_destroy(tls);
	expect_client_refused(
	    &server, test_ca_issue(&ca, "client", "URI:reeve://a", -60, 60), TLS_NO_CRL, TLS_BY_PEER + TLS_NO_CRL);
}
