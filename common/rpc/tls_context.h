/* What a connection's filter needs of the settings. */
#ifndef REEVE_COMMON_RPC_TLS_CONTEXT_H
#define REEVE_COMMON_RPC_TLS_CONTEXT_H

#include "common/rpc/tls_problem.h"

#include <openssl/types.h>
#include <stdint.h>

struct tls;

/* Returns the context of the current files, with a reference for the caller, and the number of the files' changes. */
SSL_CTX *tls_current(struct tls *tls, unsigned *generation);

/* Returns a time in seconds since 1970. */
int64_t tls_time_s(const ASN1_TIME *time);

unsigned tls_generation(const struct tls *tls);
enum tls_end tls_end_of(const struct tls *tls);

#endif
