/* The reasons for which connections are refused. */
#ifndef REEVE_COMMON_RPC_TLS_PROBLEM_H
#define REEVE_COMMON_RPC_TLS_PROBLEM_H

#include <openssl/types.h>

enum tls_end { TLS_SERVER, TLS_CLIENT };

/* Why a connection is refused. With TLS_BY_PEER added: the other end has refused it. */
enum tls_problem {
	TLS_FINE,
	TLS_PEER_IS_PLAIN, /* the other end does not speak TLS */
	TLS_PEER_IS_TLS,   /* the other end speaks TLS, this one does not */
	TLS_OLD_VERSION,
	TLS_NO_CERTIFICATE,
	TLS_WRONG_NAME,
	TLS_WRONG_CA,
	TLS_EXPIRED,
	TLS_NOT_YET_VALID,
	TLS_REVOKED,
	TLS_WRONG_USE, /* the certificate's extended key usage */
	TLS_BAD_CERTIFICATE,
	TLS_NO_CRL, /* there is no valid revocation list of the certificate's CA */
	TLS_BROKEN, /* the bytes violate the protocol */
	TLS_PROBLEMS,
	TLS_BY_PEER = 32,
};

/* Returns a sentence about the other end, for people, which this end may log: "its certificate has expired". A constant
 * string. */
const char *tls_problem_text(int problem, enum tls_end end);

/* Returns the problem of a failed verification. */
int tls_problem_of_verification(int x509_error);

/* Returns the problem that an alert of the other end shows. `own`: this end's certificate, or NULL. */
int tls_problem_of_alert(int alert, enum tls_end end, X509 *own);

/* Returns what must stand as the error of a failed verification so that OpenSSL's alert shows the other end the reason.
 */
int tls_alert_error(int x509_error);

#endif
