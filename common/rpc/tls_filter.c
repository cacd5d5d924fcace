/* OpenSSL reads and writes through a BIO on the filter's two buffers. */
#include "common/rpc/tls_filter.h"

#include "common/lookup.h"
#include "common/mem.h"
#include "common/rpc/tls_context.h"

#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
	BYTES_MIN = 1024,
	RECORD_LOWEST = 20, /* of the first byte of a record of TLS */
	RECORD_HIGHEST = 23,
	IDLE_BYTES_MAX = 20480, /* for a record in parts, and some changes of keys */
	KEY_UPDATES_MAX = 64,   /* and one more for each mebibyte of content */
	KEY_UPDATE_BYTES = 1 << 20,
};

void tls_bytes_free(struct tls_bytes *bytes)
{
	free(bytes->data);
	*bytes = (struct tls_bytes){0};
}

void tls_bytes_append(struct tls_bytes *bytes, const void *more, size_t length)
{
	size_t count = tls_bytes_count(bytes), capacity = bytes->capacity ? bytes->capacity : BYTES_MIN;

	if (length == 0)
		return;
	if (bytes->start > 0)
		memmove(bytes->data, bytes->data + bytes->start, count);
	while (capacity < count + length)
		capacity *= 2;
	if (capacity != bytes->capacity)
		bytes->data = mem_realloc(bytes->data, capacity);
	memcpy(bytes->data + count, more, length);
	bytes->start = 0;
	bytes->end = count + length;
	bytes->capacity = capacity;
}

static int bio_read(BIO *bio, char *place, int length)
{
	struct tls_filter *filter = BIO_get_data(bio);
	size_t count = tls_bytes_count(&filter->in);

	BIO_clear_retry_flags(bio);
	if (filter->problem)
		return -1;
	if (count == 0) {
		BIO_set_retry_read(bio);
		return -1;
	}
	count = count < (size_t)length ? count : (size_t)length;
	memcpy(place, filter->in.data + filter->in.start, count);
	filter->in.start += count;
	if (filter->in.start == filter->in.end)
		tls_bytes_free(&filter->in);
	return (int)count;
}

static int bio_write(BIO *bio, const char *bytes, int length)
{
	struct tls_filter *filter = BIO_get_data(bio);

	tls_bytes_append(&filter->out, bytes, (size_t)length);
	return length;
}

static long bio_control(BIO *bio, int command, long number, void *pointer)
{
	(void)bio, (void)number, (void)pointer;
	return command == BIO_CTRL_FLUSH;
}

static BIO_METHOD *method;

static void create_method(void)
{
	method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "reeve");
	mem_check(method && BIO_meth_set_read(method, bio_read) && BIO_meth_set_write(method, bio_write) &&
	    BIO_meth_set_ctrl(method, bio_control));
}

/* Requires the server's certificate to name the host. */
static void require_name(SSL *ssl, const char *host)
{
	X509_VERIFY_PARAM *param = SSL_get0_param(ssl);

	X509_VERIFY_PARAM_set_hostflags(param, X509_CHECK_FLAG_NEVER_CHECK_SUBJECT | X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
	if (lookup_numeric(host)) {
		mem_check(X509_VERIFY_PARAM_set1_ip_asc(param, host) == 1);
		return;
	}
	mem_check(X509_VERIFY_PARAM_set1_host(param, host, 0) == 1);
	SSL_set_tlsext_host_name(ssl, host);
}

/* Copies a name of the certificate of this kind, if it has one without unusual characters. */
static bool copy_name(X509 *certificate, int kind, char *out, size_t size)
{
	GENERAL_NAMES *names = X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);
	bool found = false;

	for (int i = 0; !found && i < sk_GENERAL_NAME_num(names); i++) {
		int is;
		const ASN1_STRING *value = GENERAL_NAME_get0_value(sk_GENERAL_NAME_value(names, i), &is);
		const unsigned char *text;
		int length;

		if (is != kind)
			continue;
		text = ASN1_STRING_get0_data(value);
		length = ASN1_STRING_length(value);
		found = length > 0 && (size_t)length < size;
		for (int at = 0; at < length; at++)
			found &= text[at] > ' ' && text[at] < 0x7f;
		if (found)
			snprintf(out, size, "%.*s", length, (const char *)text);
	}
	GENERAL_NAMES_free(names);
	return found;
}

static void note_refusal(struct tls_filter *filter, int x509_error, X509 *certificate)
{
	char name[100];

	if (filter->problem)
		return;
	filter->problem = tls_problem_of_verification(x509_error);
	if (!certificate)
		return;
	if (!copy_name(certificate, GEN_URI, name, sizeof name) && !copy_name(certificate, GEN_DNS, name, sizeof name) &&
	    X509_NAME_get_text_by_NID(X509_get_subject_name(certificate), NID_commonName, name, sizeof name) < 1)
		snprintf(name, sizeof name, "without a name");
	snprintf(filter->detail, sizeof filter->detail, "%s", name);
}

/* Notes the reason why a certificate is refused, and chooses the alert. */
static int on_verified(int good, X509_STORE_CTX *verification)
{
	SSL *ssl = X509_STORE_CTX_get_ex_data(verification, SSL_get_ex_data_X509_STORE_CTX_idx());
	int x509_error = X509_STORE_CTX_get_error(verification);

	if (good)
		return 1;
	note_refusal(SSL_get_app_data(ssl), x509_error, X509_STORE_CTX_get_current_cert(verification));
	X509_STORE_CTX_set_error(verification, tls_alert_error(x509_error));
	return 0;
}

/* Counts the other end's changes of keys, each of which costs much for its few bytes. */
static void on_message(int is_sent, int version, int type, const void *message, size_t length, SSL *ssl, void *arg)
{
	struct tls_filter *filter = arg;

	(void)version, (void)ssl;
	if (is_sent || type != SSL3_RT_HANDSHAKE || length == 0 || *(const uint8_t *)message != SSL3_MT_KEY_UPDATE)
		return;
	if (++filter->key_updates <= KEY_UPDATES_MAX + filter->content_bytes / KEY_UPDATE_BYTES)
		return;
	filter->problem = TLS_BROKEN;
	snprintf(filter->detail, sizeof filter->detail, "too many changes of keys");
}

void tls_filter_open(struct tls_filter *filter, struct tls *tls, const char *host)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	SSL_CTX *context;
	BIO *bio;

	pthread_once(&once, create_method);
	*filter = (struct tls_filter){.end = tls_end_of(tls), .in = filter->in};
	context = tls_current(tls, &filter->generation);
	filter->ssl = SSL_new(context);
	SSL_CTX_free(context);
	bio = BIO_new(method);
	mem_check(filter->ssl && bio);
	BIO_set_data(bio, filter);
	BIO_set_init(bio, 1);
	SSL_set_bio(filter->ssl, bio, bio);
	SSL_set_app_data(filter->ssl, filter);
	SSL_set_verify(filter->ssl, SSL_get_verify_mode(filter->ssl), on_verified);
	SSL_set_msg_callback(filter->ssl, on_message);
	SSL_set_msg_callback_arg(filter->ssl, filter);
	if (filter->end == TLS_SERVER)
		SSL_set_accept_state(filter->ssl);
	else
		SSL_set_connect_state(filter->ssl);
	if (host)
		require_name(filter->ssl, host);
}

void tls_filter_close(struct tls_filter *filter)
{
	SSL_free(filter->ssl);
	filter->ssl = NULL;
	tls_bytes_free(&filter->in);
	tls_bytes_free(&filter->out);
}

void tls_filter_feed(struct tls_filter *filter, const void *bytes, size_t length)
{
	tls_bytes_append(&filter->in, bytes, length);
}

/* Returns when the first certificate of the chain expires, in seconds since 1970. */
static int64_t earliest_end(STACK_OF(X509) * chain)
{
	int64_t earliest = INT64_MAX;

	for (int i = 0; i < sk_X509_num(chain); i++) {
		int64_t end_s = tls_time_s(X509_get0_notAfter(sk_X509_value(chain, i)));

		earliest = end_s < earliest ? end_s : earliest;
	}
	return earliest;
}

/* Notes what OpenSSL's last error means. */
static enum tls_step fail(struct tls_filter *filter)
{
	unsigned long code = ERR_peek_error();
	int reason = ERR_GET_REASON(code);

	if (filter->problem)
		;
	else if (ERR_GET_LIB(code) == ERR_LIB_SSL && reason > SSL_AD_REASON_OFFSET)
		filter->problem =
		    tls_problem_of_alert(reason - SSL_AD_REASON_OFFSET, filter->end, SSL_get_certificate(filter->ssl));
	else if (reason == SSL_R_UNSUPPORTED_PROTOCOL || reason == SSL_R_UNSUPPORTED_SSL_VERSION)
		filter->problem = TLS_OLD_VERSION;
	else
		filter->problem = TLS_BROKEN;
	if (filter->problem == TLS_BROKEN && code)
		snprintf(filter->detail, sizeof filter->detail, "%s", ERR_reason_error_string(code));
	ERR_clear_error();
	return TLS_FAILED;
}

/* Returns what the result of an operation means. */
static enum tls_step step_of(struct tls_filter *filter, int result)
{
	if (result > 0)
		return TLS_DONE;
	switch (SSL_get_error(filter->ssl, result)) {
	case SSL_ERROR_WANT_READ: return TLS_MORE;
	case SSL_ERROR_ZERO_RETURN: return TLS_END;
	default: return fail(filter);
	}
}

/* Refuses bytes that do not begin a record. The other end gets the alert protocol_version, by which a plain client
 * recognizes TLS. */
static enum tls_step refuse_plain(struct tls_filter *filter)
{
	static const uint8_t alert[] = {SSL3_RT_ALERT, 3, 3, 0, 2, SSL3_AL_FATAL, SSL_AD_PROTOCOL_VERSION};

	if (filter->end == TLS_SERVER)
		tls_bytes_append(&filter->out, alert, sizeof alert);
	filter->problem = TLS_PEER_IS_PLAIN;
	return TLS_FAILED;
}

enum tls_step tls_filter_handshake(struct tls_filter *filter)
{
	enum tls_step step;

	if (!filter->begun && tls_bytes_count(&filter->in) > 0) {
		uint8_t first = filter->in.data[filter->in.start];

		if (first < RECORD_LOWEST || first > RECORD_HIGHEST)
			return refuse_plain(filter);
		filter->begun = true;
	}
	ERR_clear_error();
	step = step_of(filter, SSL_do_handshake(filter->ssl));
	if (step == TLS_DONE) {
		X509 *certificate = SSL_get0_peer_certificate(filter->ssl);

		filter->uncertified = !certificate && SSL_get_verify_mode(filter->ssl) != SSL_VERIFY_NONE;
		filter->expires = earliest_end(SSL_get0_verified_chain(filter->ssl));
		if (certificate && !copy_name(certificate, GEN_URI, filter->peer, sizeof filter->peer))
			*filter->peer = 0;
	}
	return step;
}

enum tls_step tls_filter_read(struct tls_filter *filter, void *place, size_t length, size_t *count)
{
	size_t before = tls_bytes_count(&filter->in);
	enum tls_step step;

	*count = 0;
	ERR_clear_error();
	step = step_of(filter, SSL_read_ex(filter->ssl, place, length, count));
	filter->content_bytes += (int64_t)*count;
	filter->idle_bytes = step == TLS_DONE ? 0 : filter->idle_bytes + before - tls_bytes_count(&filter->in);
	if (step != TLS_MORE || filter->idle_bytes <= IDLE_BYTES_MAX)
		return step;
	filter->problem = TLS_BROKEN;
	snprintf(filter->detail, sizeof filter->detail, "records without content");
	return TLS_FAILED;
}

enum tls_step tls_filter_write(struct tls_filter *filter, const void *bytes, size_t length)
{
	size_t count;

	ERR_clear_error();
	return step_of(filter, SSL_write_ex(filter->ssl, bytes, length, &count));
}

bool tls_filter_is_due(const struct tls_filter *filter, struct tls *tls, int64_t now_s)
{
	return SSL_get0_peer_certificate(filter->ssl) &&
	    (now_s >= filter->expires || tls_generation(tls) != filter->generation);
}

int tls_filter_check(struct tls_filter *filter, struct tls *tls)
{
	X509 *certificate = SSL_get0_peer_certificate(filter->ssl);
	SSL_CTX *context = tls_current(tls, &filter->generation);
	X509_STORE_CTX *verification = X509_STORE_CTX_new();
	int problem = TLS_FINE;

	mem_check(verification &&
	    X509_STORE_CTX_init(
	        verification, SSL_CTX_get_cert_store(context), certificate, SSL_get_peer_cert_chain(filter->ssl)) &&
	    X509_STORE_CTX_set_default(verification, filter->end == TLS_SERVER ? "ssl_client" : "ssl_server") &&
	    X509_VERIFY_PARAM_set1(X509_STORE_CTX_get0_param(verification), SSL_get0_param(filter->ssl)));
	if (X509_verify_cert(verification) == 1)
		filter->expires = earliest_end(X509_STORE_CTX_get0_chain(verification));
	else
		problem = tls_problem_of_verification(X509_STORE_CTX_get_error(verification));
	X509_STORE_CTX_free(verification);
	SSL_CTX_free(context);
	ERR_clear_error();
	return problem;
}
