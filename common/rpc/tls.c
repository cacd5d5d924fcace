/*
 * The files become an SSL_CTX. A change of the files makes a new one; the objects of existing connections keep the old
 * one until they are freed.
 */
#include "common/rpc/tls.h"

#include "common/clock.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/rpc/tls_context.h"
#include "common/text.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum {
	REFRESH_MS = 5000,
	FILES = 4,
	CHAIN_BYTES_MAX = 32768, /* of the other end's certificates */
	WARN_S = 7 * 24 * 3600,  /* before the end of this end's certificate … */
	WARN_PART = 5,           /* … or this part of its lifetime, if that is less */
	WARN_AGAIN_MS = 24 * 3600 * 1000,
};

/* What shows that a file has changed. */
struct version {
	ino_t inode;
	off_t size;
	struct timespec modified;
};

struct tls {
	enum tls_end end;
	char *paths[FILES]; /* certificate, key, CA, revocation lists; NULL: not set */
	pthread_mutex_t lock;
	SSL_CTX *context;
	atomic_uint generation;
	struct version versions[FILES];
	int64_t checked_ms;
	int64_t warned_ms; /* of the end of this end's certificate; 0: not yet */
};

enum { CERTIFICATE, KEY, CA, CRL };

static const char *const options[FILES] = {"--tls-cert", "--tls-key", "--tls-ca", "--tls-crl"};

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

static SSL_CTX *load(const struct tls *tls, struct reeve_error *error)
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
	ERR_clear_error();
	if (!load_own(tls, context, error) || !load_trusted(tls, context, error)) {
		SSL_CTX_free(context);
		return NULL;
	}
	if (tls->end == TLS_CLIENT || tls->paths[CA])
		SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
	return context;
}

static void look(const struct tls *tls, struct version versions[FILES])
{
	memset(versions, 0, FILES * sizeof *versions);
	for (int i = 0; i < FILES; i++) {
		struct stat file;

		if (tls->paths[i] && stat(tls->paths[i], &file) == 0)
			versions[i] = (struct version){file.st_ino, file.st_size, file.st_mtim};
	}
}

static bool is_same(const struct version *a, const struct version *b)
{
	return a->inode == b->inode && a->size == b->size && a->modified.tv_sec == b->modified.tv_sec &&
	    a->modified.tv_nsec == b->modified.tv_nsec;
}

/* Reads the files, with the lock held. They are looked at before: a change during that shows the next time. */
static bool reload(struct tls *tls, struct reeve_error *error)
{
	SSL_CTX *context;

	look(tls, tls->versions);
	context = load(tls, error);
	if (!context)
		return false;
	SSL_CTX_free(tls->context);
	tls->context = context;
	tls->warned_ms = 0;
	atomic_fetch_add(&tls->generation, 1);
	return true;
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

	for (int i = 0; i < FILES; i++)
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
	if (check_files(tls, files, error) && reload(tls, error))
		return tls;
	tls_destroy(tls);
	return NULL;
}

void tls_destroy(struct tls *tls)
{
	if (!tls)
		return;
	SSL_CTX_free(tls->context);
	for (int i = 0; i < FILES; i++)
		free(tls->paths[i]);
	pthread_mutex_destroy(&tls->lock);
	free(tls);
}

bool tls_reload(struct tls *tls, struct reeve_error *error)
{
	bool good;

	pthread_mutex_lock(&tls->lock);
	good = reload(tls, error);
	pthread_mutex_unlock(&tls->lock);
	return good;
}

/* Returns the seconds between two times; NULL: now. */
static int64_t seconds_between(const ASN1_TIME *from, const ASN1_TIME *to)
{
	int days = 0, seconds = 0;

	ASN1_TIME_diff(&days, &seconds, from, to);
	return days * INT64_C(86400) + seconds;
}

/* Returns true, and writes for how long this end's certificate is still valid, if a warning is due. Call it with the lock
 * held. */
static bool ends_soon(struct tls *tls, int64_t now_ms, int64_t *left_s)
{
	const X509 *certificate = SSL_CTX_get0_certificate(tls->context);
	int64_t lifetime_s;

	if (!certificate || (tls->warned_ms && now_ms - tls->warned_ms < WARN_AGAIN_MS))
		return false;
	lifetime_s = seconds_between(X509_get0_notBefore(certificate), X509_get0_notAfter(certificate));
	*left_s = seconds_between(NULL, X509_get0_notAfter(certificate));
	if (*left_s > (lifetime_s / WARN_PART < WARN_S ? lifetime_s / WARN_PART : WARN_S))
		return false;
	tls->warned_ms = now_ms;
	return true;
}

static void warn_of_end(const struct tls *tls, int64_t left_s)
{
	char text[32];

	if (left_s <= 0)
		log_warn("tls", "--tls-cert %s: the certificate has expired", tls->paths[CERTIFICATE]);
	else
		log_warn("tls", "--tls-cert %s: the certificate expires in %s", tls->paths[CERTIFICATE],
		    duration_format(left_s * 1000, text, sizeof text));
}

void tls_refresh(struct tls *tls)
{
	int64_t now_ms = clock_monotonic_ms();
	struct version versions[FILES];
	struct reeve_error error;
	bool changed = false, good = false, ends;
	int64_t left_s;

	pthread_mutex_lock(&tls->lock);
	if (now_ms - tls->checked_ms >= REFRESH_MS) {
		tls->checked_ms = now_ms;
		look(tls, versions);
		for (int i = 0; i < FILES; i++)
			changed |= !is_same(&versions[i], &tls->versions[i]);
		good = changed && reload(tls, &error);
	}
	ends = ends_soon(tls, now_ms, &left_s);
	pthread_mutex_unlock(&tls->lock);
	if (good)
		log_info("tls", "read the changed files of certificates again");
	else if (changed)
		log_error("tls", "the changed files of certificates do not fit; what was read before stays in use: %s",
		    error.message);
	if (ends)
		warn_of_end(tls, left_s);
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
