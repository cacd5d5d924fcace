/*
 * A private CA and the certificates of a fleet, in a folder of PEM files:
 *
 *     ca.pem ca.key crl.pem    the CA, its key, and what it has revoked
 *     NAME.pem NAME.key        a certificate and its key
 *     issued/SERIAL.pem        every certificate that was issued, by which those of a name are revoked
 *
 * Keys are ECDSA P-256, in files with mode 0600. Nothing is overwritten, except by a renewal and a revocation, which
 * replace files as a whole. Each function works with the folder's lock held, and sets *error on a failure.
 */
#ifndef REEVE_CLIENT_CMD_CA_H
#define REEVE_CLIENT_CMD_CA_H

#include "common/error.h"
#include "common/options.h"

#include <stdint.h>

/* Creates the folder, if it does not exist, and the CA. */
bool ca_init(const char *folder, const char *name, int64_t lifetime_ms, struct reeve_error *error);

struct ca_names {
	struct option_list dns, ip, uri; /* without a URI it gets reeve://NAME */
};

/* Issues NAME.pem with a new key. One with a DNS name or address is also good for a manager. */
bool ca_issue(
    const char *folder, const char *name, const struct ca_names *names, int64_t lifetime_ms, struct reeve_error *error);

/* Issues NAME.pem again, with the same names, and the same key unless `new_key`, unless it is valid for longer than
 * `within_ms` from now on (INT64_MAX: in any case). `lifetime_ms` 0: for as long as the old one. Sets *renewed. */
bool ca_renew(const char *folder, const char *name, int64_t lifetime_ms, int64_t within_ms, bool new_key, bool *renewed,
    struct reeve_error *error);

/* Adds all valid certificates of the name to the revocation list and removes NAME.pem and NAME.key. *left_out: files in
 * issued/ that cannot be read, whose certificates may have the name. */
bool ca_revoke(const char *folder, const char *name, int *left_out, struct reeve_error *error);

/* Returns the names of the certificates in the folder, sorted; NULL at the end. NULL with *error set on a failure. */
char **ca_list(const char *folder, struct reeve_error *error);

#endif
