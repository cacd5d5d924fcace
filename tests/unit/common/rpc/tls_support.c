#include "tls_support.h"

#include <criterion/criterion.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static void add_extension(X509 *certificate, X509 *issuer, int kind, const char *value)
{
	X509V3_CTX context;
	X509_EXTENSION *extension;

	X509V3_set_ctx(&context, issuer, certificate, NULL, NULL, 0);
	extension = X509V3_EXT_conf_nid(NULL, &context, kind, value);
	cr_assert_not_null(extension, "%s", value);
	X509_add_ext(certificate, extension, -1);
	X509_EXTENSION_free(extension);
}

static X509 *make(EVP_PKEY *key, const char *name, long serial, int from_s, int until_s)
{
	X509 *certificate = X509_new();

	X509_set_version(certificate, X509_VERSION_3);
	ASN1_INTEGER_set(X509_get_serialNumber(certificate), serial);
	X509_gmtime_adj(X509_getm_notBefore(certificate), from_s);
	X509_gmtime_adj(X509_getm_notAfter(certificate), until_s);
	X509_NAME_add_entry_by_txt(
	    X509_get_subject_name(certificate), "CN", MBSTRING_UTF8, (const unsigned char *)name, -1, -1, 0);
	X509_set_pubkey(certificate, key);
	return certificate;
}

void test_ca_make(struct test_ca *ca)
{
	FILE *file;

	snprintf(ca->folder, sizeof ca->folder, "/tmp/reeve-tls-XXXXXX");
	cr_assert_not_null(mkdtemp(ca->folder));
	ca->serial = 0;
	ca->list_s = 86400;
	ca->key = EVP_EC_gen("P-256");
	ca->certificate = make(ca->key, "test CA", 1000, -86400, 86400);
	X509_set_issuer_name(ca->certificate, X509_get_subject_name(ca->certificate));
	add_extension(ca->certificate, ca->certificate, NID_basic_constraints, "critical,CA:TRUE");
	add_extension(ca->certificate, ca->certificate, NID_subject_key_identifier, "hash");
	cr_assert_gt(X509_sign(ca->certificate, ca->key, EVP_sha256()), 0);
	snprintf(ca->file, sizeof ca->file, "%s/ca.pem", ca->folder);
	file = fopen(ca->file, "w");
	PEM_write_X509(file, ca->certificate);
	fclose(file);
}

void test_ca_free(struct test_ca *ca)
{
	char command[128];

	EVP_PKEY_free(ca->key);
	X509_free(ca->certificate);
	snprintf(command, sizeof command, "rm -r %s", ca->folder);
	cr_assert_eq(system(command), 0);
}

const char *test_ca_issue(struct test_ca *ca, const char *name, const char *names, int from_s, int until_s)
{
	static char path[192];
	EVP_PKEY *key = EVP_EC_gen("P-256");
	X509 *certificate = make(key, name, ++ca->serial, from_s, until_s);
	FILE *file;

	X509_set_issuer_name(certificate, X509_get_subject_name(ca->certificate));
	if (names)
		add_extension(certificate, ca->certificate, NID_subject_alt_name, names);
	cr_assert_gt(X509_sign(certificate, ca->key, EVP_sha256()), 0);
	snprintf(path, sizeof path, "%s/%s.pem", ca->folder, name);
	file = fopen(path, "w");
	PEM_write_X509(file, certificate);
	PEM_write_PrivateKey(file, key, NULL, NULL, 0, NULL, NULL);
	fclose(file);
	X509_free(certificate);
	EVP_PKEY_free(key);
	return path;
}

const char *test_ca_revoke(struct test_ca *ca, const long *serials, int count)
{
	static char path[192];
	X509_CRL *list = X509_CRL_new();
	ASN1_TIME *now = X509_gmtime_adj(NULL, -2), *next = X509_gmtime_adj(NULL, ca->list_s);
	FILE *file;

	X509_CRL_set_version(list, X509_CRL_VERSION_2);
	X509_CRL_set_issuer_name(list, X509_get_subject_name(ca->certificate));
	X509_CRL_set1_lastUpdate(list, now);
	X509_CRL_set1_nextUpdate(list, next);
	for (int i = 0; i < count; i++) {
		X509_REVOKED *revoked = X509_REVOKED_new();
		ASN1_INTEGER *serial = ASN1_INTEGER_new();

		ASN1_INTEGER_set(serial, serials[i]);
		X509_REVOKED_set_serialNumber(revoked, serial);
		X509_REVOKED_set_revocationDate(revoked, now);
		X509_CRL_add0_revoked(list, revoked);
		ASN1_INTEGER_free(serial);
	}
	cr_assert_gt(X509_CRL_sign(list, ca->key, EVP_sha256()), 0);
	snprintf(path, sizeof path, "%s/crl.pem", ca->folder);
	file = fopen(path, "w");
	PEM_write_X509_CRL(file, list);
	fclose(file);
	ASN1_TIME_free(now);
	ASN1_TIME_free(next);
	X509_CRL_free(list);
	return path;
}
