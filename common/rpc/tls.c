/*
 * The files become an SSL_CTX. A change of the files makes a new one; the objects of existing connections keep the old
 * one until they are freed.
 */
#include "common/rpc/tls.h"

#include "common/clock.h"
#include "common/file_version.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/rpc/tls_context.h"
#include "common/text.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
	REFRESH_MS = 5000,
	CHAIN_BYTES_MAX = 32768, /* of the other end's certificates */
	WARN_S = 7 * 24 * 3600,  /* before the end of a certificate or list */
	WARN_PART = 5,           /* but at most this part of its lifetime */
	WARN_AGAIN_MS = 24 * 3600 * 1000,
};

/* When what a file contains expires, in seconds since 1970, and from how long before that on a warning is due. */
struct end {
	int64_t at_s, warn_s;
};

struct tls {
	enum tls_end end;
	char *paths[TLS_FILES]; /* certificate, key, CA, revocation lists; NULL: not set */
	pthread_mutex_t lock;
	SSL_CTX *context;
	atomic_uint generation;
	struct file_version versions[TLS_FILES];
	int64_t checked_ms;
	bool failed; /* the files of these versions could not all be used; the reason: */
	struct reeve_error reason;
	struct end ends[TLS_FILES];
	int64_t warn_ms; /* no warning before */
};

enum { CERTIFICATE, KEY, CA, CRL };

static const char *const options[TLS_FILES] = {"--tls-cert", "--tls-key", "--tls-ca", "--tls-crl"};

/* Sets the error from OpenSSL's last one, or an errno. Always returns false. */
static bool failed(const struct tls *tls, int file, const char *what, struct reeve_error *error)
{
	unsigned long code = ERR_peek_error();
	const char *reason = ERR_SYSTEM_ERROR(code) ? strerror(ERR_GET_REASON(code)) : ERR_reason_error_string(code);

	ERR_clear_error();
	return error_set(error, STATUS(INVALID_ARGUMENT), "%s %s: %s%s%s", options[file], tls->paths[file], what,
	    reason ? ": " : "", reason ? reason : "");
}

/* Without it OpenSSL would ask on the terminal for the password of an encrypted key. */
static int no_password(char *buffer, int size, int for_writing, void *arg)
{
	(void)buffer, (void)size, (void)for_writing, (void)arg;
	return -1;
}

/* Uses the certificate and key that were read before. */
static void keep_own(const struct tls *tls, SSL_CTX *context)
{
	STACK_OF(X509) *chain = NULL;

	SSL_CTX_get0_chain_certs(tls->context, &chain);
	mem_check(SSL_CTX_use_cert_and_key(context, SSL_CTX_get0_certificate(tls->context),
	              SSL_CTX_get0_privatekey(tls->context), chain, 1) == 1);
}

static bool load_own(const struct tls *tls, SSL_CTX *context, struct reeve_error *error)
{
	if (!tls->paths[CERTIFICATE])
		return true;
	if (SSL_CTX_use_certificate_chain_file(context, tls->paths[CERTIFICATE]) != 1)
		return failed(tls, CERTIFICATE, "no certificate can be read", error);
	if (SSL_CTX_use_PrivateKey_file(context, tls->paths[KEY], SSL_FILETYPE_PEM) != 1 ||
	    SSL_CTX_check_private_key(context) != 1)
		return failed(tls, KEY, "no key of the certificate can be read", error);
	return true;
}

static bool load_trusted(const struct tls *tls, SSL_CTX *context, struct reeve_error *error)
{
	X509_STORE *store = SSL_CTX_get_cert_store(context);
	X509_LOOKUP *lookup;

	if (!tls->paths[CA]) {
		if (tls->end == TLS_CLIENT)
			SSL_CTX_set_default_verify_paths(context);
		return true;
	}
	if (SSL_CTX_load_verify_file(context, tls->paths[CA]) != 1)
		return failed(tls, CA, "no certificate can be read", error);
	if (!tls->paths[CRL])
		return true;
	lookup = X509_STORE_add_lookup(store, X509_LOOKUP_file());
	mem_check(lookup != NULL);
	if (X509_load_crl_file(lookup, tls->paths[CRL], X509_FILETYPE_PEM) < 1)
		return failed(tls, CRL, "no revocation list can be read", error);
	X509_STORE_set_flags(store, X509_V_FLAG_CRL_CHECK);
	return true;
}

/* Tells callers by HTTP that a manager knows both versions. It finds out from the first bytes which one they speak. */
static int choose_protocol(SSL *ssl, const unsigned char **chosen, unsigned char *length, const unsigned char *offered,
    unsigned int offered_length, void *arg)
{
	static const unsigned char known[] = "\x02h2\x08http/1.1";
	unsigned char *found;

	(void)ssl, (void)arg;
	if (SSL_select_next_proto(&found, length, known, sizeof known - 1, offered, offered_length) !=
	    OPENSSL_NPN_NEGOTIATED)
		return SSL_TLSEXT_ERR_NOACK;
	*chosen = found;
	return SSL_TLSEXT_ERR_OK;
}

/* Creates a context of the files. If those of the certificate and key do not fit, *kept is set with *error, and it uses
 * what was read before, if it can: then a new revocation list counts nevertheless. NULL with *error set: it cannot. */
static SSL_CTX *load(const struct tls *tls, bool *kept, struct reeve_error *error)
{
	SSL_CTX *context = SSL_CTX_new(tls->end == TLS_SERVER ? TLS_server_method() : TLS_client_method());

	mem_check(context != NULL);
	SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION);
	SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);
	SSL_CTX_set_max_cert_list(context, CHAIN_BYTES_MAX);
	SSL_CTX_set_default_passwd_cb(context, no_password);
	/* A resumed session would skip the check of the certificate. */
	SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_num_tickets(context, 0);
	if (tls->end == TLS_SERVER)
		SSL_CTX_set_alpn_select_cb(context, choose_protocol, NULL);
	ERR_clear_error();
	*kept = !load_own(tls, context, error);
	if (*kept && tls->context)
		keep_own(tls, context);
	if ((*kept && !tls->context) || !load_trusted(tls, context, error)) {
		SSL_CTX_free(context);
		return NULL;
	}
	if (tls->end == TLS_CLIENT || tls->paths[CA])
		SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
	return context;
}

/* Notes the files' versions. Returns whether some have changed. */
static bool files_changed(struct tls *tls)
{
	bool changed = false;

	for (int i = 0; i < TLS_FILES; i++) {
		struct file_version version = {0};

		if (tls->paths[i])
			version = file_version_of(tls->paths[i]);
		changed |= !file_version_same(&version, &tls->versions[i]);
		tls->versions[i] = version;
	}
	return changed;
}

int64_t tls_time_s(const ASN1_TIME *time)
{
	struct tm parts;

	return ASN1_TIME_to_tm(time, &parts) == 1 ? timegm(&parts) : INT64_MAX;
}

/* Notes when a part of a file expires, if that is before the others. */
static void note_end(struct end *end, const ASN1_TIME *from, const ASN1_TIME *to)
{
	int64_t at_s = to ? tls_time_s(to) : INT64_MAX, part_s;

	if (at_s >= end->at_s)
		return;
	part_s = (at_s - tls_time_s(from)) / WARN_PART;
	*end = (struct end){at_s, part_s < WARN_S ? part_s : WARN_S};
}

static void note_ends(struct tls *tls)
{
	const STACK_OF(X509_OBJECT) *objects = X509_STORE_get0_objects(SSL_CTX_get_cert_store(tls->context));
	const X509 *own = SSL_CTX_get0_certificate(tls->context);

	for (int i = 0; i < TLS_FILES; i++)
		tls->ends[i] = (struct end){INT64_MAX, 0};
	if (own)
		note_end(&tls->ends[CERTIFICATE], X509_get0_notBefore(own), X509_get0_notAfter(own));
	for (int i = 0; i < sk_X509_OBJECT_num(objects); i++) {
		const X509_OBJECT *object = sk_X509_OBJECT_value(objects, i);
		const X509 *ca = X509_OBJECT_get0_X509(object);
		X509_CRL *list = X509_OBJECT_get0_X509_CRL((X509_OBJECT *)(uintptr_t)object);

		if (ca && tls->paths[CA]) /* the system's are not ours to renew */
			note_end(&tls->ends[CA], X509_get0_notBefore(ca), X509_get0_notAfter(ca));
		if (list)
			note_end(&tls->ends[CRL], X509_CRL_get0_lastUpdate(list), X509_CRL_get0_nextUpdate(list));
	}
}

/* Reads the files, with the lock held, after files_changed, so that a change while it reads is found later. Returns
 * false with *error set if some do not fit. `changed`: they have changed, or may have; otherwise they are read again
 * after a failure, which may have had another reason than their content, and only count if all fit. */
static bool reload(struct tls *tls, bool changed, struct reeve_error *error)
{
	SSL_CTX *context;
	bool kept;

	context = load(tls, &kept, error);
	tls->failed = !context || kept;
	if (context && kept && !changed) {
		SSL_CTX_free(context);
		context = NULL;
	}
	if (!context)
		return false;
	SSL_CTX_free(tls->context);
	tls->context = context;
	tls->warn_ms = 0;
	note_ends(tls);
	atomic_fetch_add(&tls->generation, 1);
	return !kept;
}

static char *path_of(const char *path)
{
	return text_given(path) ? mem_strdup(path) : NULL;
}

struct tls_files tls_files_copy(const struct tls_files *files)
{
	return (struct tls_files){
	    path_of(files->certificate), path_of(files->key), path_of(files->ca), path_of(files->crl)};
}

void tls_files_free(struct tls_files *copy)
{
	const char *const paths[] = {copy->certificate, copy->key, copy->ca, copy->crl};

	for (int i = 0; i < TLS_FILES; i++)
		free((void *)(uintptr_t)paths[i]);
}

static bool check_files(const struct tls *tls, const struct tls_files *files, struct reeve_error *error)
{
	if (tls->end == TLS_SERVER && !tls->paths[CERTIFICATE])
		return error_set(
		    error, STATUS(INVALID_ARGUMENT), "tls+tcp:// needs a certificate and its key (--tls-cert, --tls-key)");
	if (text_given(files->key) && !tls->paths[CERTIFICATE])
		return error_set(error, STATUS(INVALID_ARGUMENT), "--tls-key needs --tls-cert");
	if (tls->paths[CRL] && !tls->paths[CA])
		return error_set(error, STATUS(INVALID_ARGUMENT), "--tls-crl needs --tls-ca");
	return true;
}

struct tls *tls_create(enum tls_end end, const struct tls_files *files, struct reeve_error *error)
{
	struct tls *tls = mem_calloc(1, sizeof *tls);

	/* At exit, threads of nng may still be using it. */
	OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, NULL);
	tls->end = end;
	tls->paths[CERTIFICATE] = path_of(files->certificate);
	tls->paths[KEY] = path_of(text_given(files->key) ? files->key : files->certificate);
	tls->paths[CA] = path_of(files->ca);
	tls->paths[CRL] = path_of(files->crl);
	tls->checked_ms = clock_monotonic_ms();
	pthread_mutex_init(&tls->lock, NULL);
	files_changed(tls);
	if (check_files(tls, files, error) && reload(tls, true, error))
		return tls;
	tls_destroy(tls);
	return NULL;
}

void tls_destroy(struct tls *tls)
{
	if (!tls)
		return;
	SSL_CTX_free(tls->context);
	for (int i = 0; i < TLS_FILES; i++)
		free(tls->paths[i]);
	pthread_mutex_destroy(&tls->lock);
	free(tls);
}

bool tls_reload(struct tls *tls, struct reeve_error *error)
{
	bool good;

	pthread_mutex_lock(&tls->lock);
	files_changed(tls);
	good = reload(tls, true, error);
	pthread_mutex_unlock(&tls->lock);
	return good;
}

int tls_endings(struct tls *tls, struct tls_ending out[TLS_FILES])
{
	static const char *const contents[TLS_FILES] = {"certificate", NULL, "certificate of a CA", "revocation list"};
	int64_t now_s = time(NULL);
	int count = 0;

	pthread_mutex_lock(&tls->lock);
	for (int i = 0; i < TLS_FILES; i++)
		if (tls->ends[i].at_s - now_s <= tls->ends[i].warn_s)
			out[count++] = (struct tls_ending){options[i], tls->paths[i], contents[i], tls->ends[i].at_s - now_s};
	pthread_mutex_unlock(&tls->lock);
	return count;
}

const char *tls_ending_text(const struct tls_ending *ending, char out[TLS_ENDING_TEXT])
{
	char left[32];

	if (ending->left_s <= 0)
		snprintf(out, TLS_ENDING_TEXT, "the %s has expired", ending->content);
	else
		snprintf(out, TLS_ENDING_TEXT, "the %s expires in %s", ending->content,
		    duration_format(ending->left_s * 1000, left, sizeof left));
	return out;
}

/* Warns of what has expired or will soon, once a day. */
static void warn_of_ends(struct tls *tls, int64_t now_ms)
{
	struct tls_ending endings[TLS_FILES];
	int count = tls_endings(tls, endings);
	char text[TLS_ENDING_TEXT];
	bool due;

	pthread_mutex_lock(&tls->lock);
	due = count > 0 && now_ms >= tls->warn_ms;
	if (due)
		tls->warn_ms = now_ms + WARN_AGAIN_MS;
	pthread_mutex_unlock(&tls->lock);
	for (int i = 0; due && i < count; i++)
		log_warn("tls", "%s %s: %s", endings[i].option, endings[i].path, tls_ending_text(&endings[i], text));
}

void tls_refresh(struct tls *tls)
{
	int64_t now_ms = clock_monotonic_ms();
	struct reeve_error error = {0};
	bool changed, good = false, bad = false;

	pthread_mutex_lock(&tls->lock);
	if (now_ms - tls->checked_ms >= REFRESH_MS) {
		tls->checked_ms = now_ms;
		changed = files_changed(tls);
		good = (changed || tls->failed) && reload(tls, changed, &error);
		bad = tls->failed && (changed || strcmp(error.message, tls->reason.message) != 0); /* else the log has it */
		if (bad)
			tls->reason = error;
	}
	pthread_mutex_unlock(&tls->lock);
	if (good)
		log_info("tls", "read the changed files of certificates again");
	else if (bad)
		log_error("tls",
		    "some changed files of certificates do not fit; of these, what was read before stays in use: %s",
		    error.message);
	warn_of_ends(tls, now_ms);
}

SSL_CTX *tls_current(struct tls *tls, unsigned *generation)
{
	SSL_CTX *context;

	pthread_mutex_lock(&tls->lock);
	context = tls->context;
	SSL_CTX_up_ref(context);
	*generation = atomic_load(&tls->generation);
	pthread_mutex_unlock(&tls->lock);
	return context;
}

unsigned tls_generation(const struct tls *tls)
{
	return atomic_load(&tls->generation);
}

enum tls_end tls_end_of(const struct tls *tls)
{
	return tls->end;
}
