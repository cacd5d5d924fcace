/* Certificates for the tests of TLS, made by OpenSSL's library in a folder of the test. */
#ifndef REEVE_TESTS_TLS_SUPPORT_H
#define REEVE_TESTS_TLS_SUPPORT_H

#include "common/rpc/tls.h"

#include <openssl/x509.h>

struct test_ca {
	EVP_PKEY *key;
	X509 *certificate;
	char folder[64];
	char file[128]; /* its certificate */
	long serial;
	long list_s; /* for how long a revocation list is valid */
};

/* Creates a CA with a folder of its own. */
void test_ca_make(struct test_ca *ca);
void test_ca_free(struct test_ca *ca);

/* Writes FOLDER/NAME.pem, a certificate and its key. `names`: as in OpenSSL's configuration ("DNS:a,URI:reeve://b"), or
 * NULL. It is valid from and until these seconds from now on. Returns the path, which lives until the next call. */
const char *test_ca_issue(struct test_ca *ca, const char *name, const char *names, int from_s, int until_s);

/* Writes FOLDER/crl.pem, which revokes the certificates with these serial numbers (the first one issued has 1). Returns
 * the path. */
const char *test_ca_revoke(struct test_ca *ca, const long *serials, int count);

#endif
