/*
 * TLS of one end of connections: certificate, key, CA and revocation lists from PEM files, read again when they
 * change. TLS 1.3 only. A server with a CA requires certificates of its clients: it ends the handshake with a client
 * that shows another one, and notes that a client shows none (rpc_conn_uncertified). A client verifies the server's
 * certificate and that it is for the host of the URL.
 *
 * All functions are thread-safe.
 */
#ifndef REEVE_COMMON_RPC_TLS_H
#define REEVE_COMMON_RPC_TLS_H

#include "common/error.h"
#include "common/rpc/tls_problem.h"

#include <stdbool.h>
#include <stdint.h>

struct tls;

enum { TLS_FILES = 4, TLS_ENDING_TEXT = 96 };

/* Paths; NULL or empty: not set. */
struct tls_files {
	const char *certificate; /* with its chain; a server needs one */
	const char *key;         /* if not set, in the file of the certificate */
	const char *ca;          /* a client without one trusts the system's */
	const char *crl;         /* needs `ca` */
};

/* Copy the paths, and free a copy. */
struct tls_files tls_files_copy(const struct tls_files *files);
void tls_files_free(struct tls_files *copy);

/* Reads the files. Returns NULL with *error set if it cannot ("--tls-cert /etc/a.pem: …"). */
struct tls *tls_create(enum tls_end end, const struct tls_files *files, struct reeve_error *error);

/* Call it after the end of all connections. */
void tls_destroy(struct tls *tls);

/* Reads the files again, for new connections. If those of the own certificate and key do not fit, what was read of them
 * before stays; if the CA's or its list's do not, everything stays. */
bool tls_reload(struct tls *tls, struct reeve_error *error);

/* A file with a certificate or list that expires within a week, or a fifth of its lifetime, or has expired. */
struct tls_ending {
	const char *option, *path, *content; /* "--tls-cert", "/etc/a.pem", "certificate" */
	int64_t left_s;                      /* until then; negative: since then */
};

/* Lists those files, and returns their number. The strings live as long as `tls`. */
int tls_endings(struct tls *tls, struct tls_ending out[TLS_FILES]);

/* Writes what to say of it, and returns `out`: "the certificate expires in 3d". */
const char *tls_ending_text(const struct tls_ending *ending, char out[TLS_ENDING_TEXT]);

/* Reads the files again if one of them has changed; looks at them at most every few seconds. Logs what it did, and
 * once a day what expires soon. */
void tls_refresh(struct tls *tls);

#endif
