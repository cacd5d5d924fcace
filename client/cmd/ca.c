#include "client/cmd/ca.h"

#include "client/cmd/ca_files.h"
#include "common/clock.h"
#include "common/mem.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	NAME_MAX_BYTES = 64, /* X.509's maximum for a common name */
	EARLY_S = 300,       /* certificates are valid from so long ago, for hosts whose clock is slow */
	SERIAL_BYTES = 16,
};

/* The folder's CA. */
struct ca {
	const char *folder;
	int lock;
	X509 *certificate;
	EVP_PKEY *key;
};

static void close_ca(struct ca *ca)
{
	X509_free(ca->certificate);
	EVP_PKEY_free(ca->key);
	if (ca->lock >= 0)
		close(ca->lock);
}

static bool open_ca(struct ca *ca, const char *folder, struct reeve_error *error)
{
	char *certificate = ca_path(folder, "ca", ".pem"), *key = ca_path(folder, "ca", ".key");

	*ca = (struct ca){.folder = folder, .lock = ca_lock(folder, false, error)};
	if (ca->lock >= 0)
		ca->certificate = ca_read_certificate(certificate, error);
	if (ca->certificate)
		ca->key = ca_read_key(key, error);
	if (ca->key && X509_check_private_key(ca->certificate, ca->key) != 1) {
		error_set(error, STATUS(INVALID_ARGUMENT), "%s is not the key of %s", key, certificate);
		EVP_PKEY_free(ca->key);
		ca->key = NULL;
	}
	free(certificate);
	free(key);
	if (!ca->key)
		close_ca(ca);
	return ca->key;
}

/* A name is a file's name. */
static bool check_name(const char *name, struct reeve_error *error)
{
	bool good = *name && *name != '.' && *name != '-' && strlen(name) <= NAME_MAX_BYTES;

	for (const char *at = name; *at; at++)
		good &= isalnum((unsigned char)*at) || strchr("._-", *at);
	good &= strcmp(name, "ca") != 0 && strcmp(name, "crl") != 0;
	return good ||
	    error_set(error, STATUS(INVALID_ARGUMENT),
	        "\"%s\" cannot be a certificate's name: 1 to %d letters, digits and ._- (not first), and not ca or crl",
	        name, NAME_MAX_BYTES);
}

static void add_extension(X509 *certificate, X509 *issuer, int kind, const char *value)
{
	X509V3_CTX context;
	X509_EXTENSION *extension;

	X509V3_set_ctx(&context, issuer, certificate, NULL, NULL, 0);
	extension = X509V3_EXT_conf_nid(NULL, &context, kind, value);
	mem_check(extension && X509_add_ext(certificate, extension, -1));
	X509_EXTENSION_free(extension);
}

/* Creates a certificate with a random serial number that is not signed yet. */
static X509 *create(EVP_PKEY *key, const char *name, int64_t lifetime_ms)
{
	X509 *certificate = X509_new();
	unsigned char serial[SERIAL_BYTES] = {0};
	int64_t lifetime_s = lifetime_ms / 1000, days = lifetime_s / 86400;
	BIGNUM *number;

	mem_check(certificate && RAND_bytes(serial, sizeof serial) == 1);
	serial[0] = (serial[0] & 0x7f) | 0x40; /* positive, and always as long */
	number = BN_bin2bn(serial, sizeof serial, NULL);
	mem_check(number && BN_to_ASN1_INTEGER(number, X509_get_serialNumber(certificate)));
	BN_free(number);
	mem_check(X509_set_version(certificate, X509_VERSION_3) && X509_set_pubkey(certificate, key) &&
	    X509_gmtime_adj(X509_getm_notBefore(certificate), -EARLY_S) &&
	    X509_time_adj_ex(X509_getm_notAfter(certificate), (int)days, (long)(lifetime_s % 86400), NULL) &&
	    X509_NAME_add_entry_by_NID(
	        X509_get_subject_name(certificate), NID_commonName, MBSTRING_UTF8, (const unsigned char *)name, -1, -1, 0));
	return certificate;
}

/* Writes the revocation list. `list` is signed again. */
static bool write_list(const struct ca *ca, X509_CRL *list, int64_t number, bool replace, struct reeve_error *error)
{
	char *path = ca_path(ca->folder, "crl", ".pem");
	ASN1_INTEGER *shown = ASN1_INTEGER_new();
	ASN1_TIME *now = X509_gmtime_adj(NULL, 0);
	bool good;

	/* It is distributed as a file: a list that ends before the CA would only stop everything one day. */
	mem_check(shown && now && ASN1_INTEGER_set_int64(shown, number) && X509_CRL_set1_lastUpdate(list, now) &&
	    X509_CRL_set1_nextUpdate(list, X509_get0_notAfter(ca->certificate)) &&
	    X509_CRL_add1_ext_i2d(list, NID_crl_number, shown, 0, X509V3_ADD_REPLACE) && X509_CRL_sort(list) &&
	    X509_CRL_sign(list, ca->key, EVP_sha256()) > 0);
	good = ca_write_list(path, list, replace, error);
	ASN1_INTEGER_free(shown);
	ASN1_TIME_free(now);
	free(path);
	return good;
}

static bool write_first_list(const struct ca *ca, struct reeve_error *error)
{
	X509_CRL *list = X509_CRL_new();
	bool good;

	mem_check(list && X509_CRL_set_version(list, X509_CRL_VERSION_2) &&
	    X509_CRL_set_issuer_name(list, X509_get_subject_name(ca->certificate)));
	good = write_list(ca, list, 1, false, error);
	X509_CRL_free(list);
	return good;
}

bool ca_init(const char *folder, const char *name, int64_t lifetime_ms, struct reeve_error *error)
{
	char *certificate = ca_path(folder, "ca", ".pem"), *key = ca_path(folder, "ca", ".key");
	char *issued = ca_path(folder, "issued", "");
	struct ca ca = {.folder = folder, .lock = ca_lock(folder, true, error)};
	bool good = ca.lock >= 0;

	if (good && access(certificate, F_OK) == 0)
		good = error_set(error, STATUS(ALREADY_EXISTS), "%s exists; it is not overwritten", certificate);
	if (good) {
		ca.key = EVP_EC_gen("P-256");
		mem_check(ca.key != NULL);
		ca.certificate = create(ca.key, name, lifetime_ms);
		mem_check(X509_set_issuer_name(ca.certificate, X509_get_subject_name(ca.certificate)));
		add_extension(ca.certificate, ca.certificate, NID_basic_constraints, "critical,CA:TRUE,pathlen:0");
		add_extension(ca.certificate, ca.certificate, NID_key_usage, "critical,keyCertSign,cRLSign");
		add_extension(ca.certificate, ca.certificate, NID_subject_key_identifier, "hash");
		mem_check(X509_sign(ca.certificate, ca.key, EVP_sha256()) > 0);
		if (mkdir(issued, 0700) != 0 && errno != EEXIST)
			good = ca_failed(issued, error);
		/* The certificate is last: with it the CA exists. */
		good = good && ca_write_key(key, ca.key, false, error) && write_first_list(&ca, error) &&
		    ca_write_certificate(certificate, ca.certificate, false, error);
	}
	close_ca(&ca);
	free(certificate);
	free(key);
	free(issued);
	return good;
}

/* Signs a certificate, with the extensions that all have and no longer valid than the CA, and writes it to issued/. */
static bool sign(const struct ca *ca, X509 *certificate, struct reeve_error *error)
{
	BIGNUM *number = ASN1_INTEGER_to_BN(X509_get0_serialNumber(certificate), NULL);
	char *serial = BN_bn2hex(number), *issued = ca_path(ca->folder, "issued/", serial);
	char *path = mem_asprintf("%s.pem", issued);
	bool good;

	if (ASN1_TIME_compare(X509_get0_notAfter(certificate), X509_get0_notAfter(ca->certificate)) > 0)
		mem_check(X509_set1_notAfter(certificate, X509_get0_notAfter(ca->certificate)) == 1);
	add_extension(certificate, ca->certificate, NID_basic_constraints, "critical,CA:FALSE");
	add_extension(certificate, ca->certificate, NID_key_usage, "critical,digitalSignature");
	add_extension(certificate, ca->certificate, NID_subject_key_identifier, "hash");
	add_extension(certificate, ca->certificate, NID_authority_key_identifier, "keyid:always");
	mem_check(X509_set_issuer_name(certificate, X509_get_subject_name(ca->certificate)) &&
	    X509_sign(certificate, ca->key, EVP_sha256()) > 0);
	/* Before it is used anywhere, so that it can always be revoked; as a whole. */
	good = ca_write_certificate(path, certificate, true, error);
	BN_free(number);
	OPENSSL_free(serial);
	free(issued);
	free(path);
	return good;
}

/* Adds an alternative name. The value is checked, and not parsed as OpenSSL's configuration. */
static bool add_name(GENERAL_NAMES *names, int kind, const char *value, struct reeve_error *error)
{
	GENERAL_NAME *name = GENERAL_NAME_new();
	ASN1_STRING *text;
	bool good = *value;

	mem_check(name != NULL);
	for (const char *at = value; *at; at++)
		good &= kind == GEN_DNS ? isalnum((unsigned char)*at) || strchr("*.-_", *at) : *at > ' ' && *at < 0x7f;
	good &= kind != GEN_URI || strchr(value, ':');
	text = kind == GEN_IPADD ? a2i_IPADDRESS(value) : ASN1_IA5STRING_new();
	good &= text && (kind == GEN_IPADD || ASN1_STRING_set(text, value, -1));
	if (!good) {
		ASN1_STRING_free(text);
		GENERAL_NAME_free(name);
		return error_set(error, STATUS(INVALID_ARGUMENT), "--%s: \"%s\" is not %s",
		    kind == GEN_DNS       ? "dns"
		        : kind == GEN_URI ? "uri"
		                          : "ip",
		    value,
		    kind == GEN_DNS       ? "a host's name"
		        : kind == GEN_URI ? "a URI"
		                          : "an address");
	}
	GENERAL_NAME_set0_value(name, kind, text);
	mem_check(sk_GENERAL_NAME_push(names, name));
	return true;
}

/* Adds the alternative names, and what the certificate is for. */
static bool add_names(X509 *certificate, const char *name, const struct ca_names *wanted, struct reeve_error *error)
{
	const struct {
		int kind;
		const struct option_list *list;
	} kinds[] = {{GEN_DNS, &wanted->dns}, {GEN_IPADD, &wanted->ip}, {GEN_URI, &wanted->uri}};
	GENERAL_NAMES *names = sk_GENERAL_NAME_new_null();
	char *uri = mem_asprintf("reeve://%s", name);
	bool good = wanted->uri.count > 0 || add_name(names, GEN_URI, uri, error);

	for (int i = 0; i < 3; i++)
		for (size_t j = 0; good && j < kinds[i].list->count; j++)
			good = add_name(names, kinds[i].kind, kinds[i].list->items[j], error);
	if (good)
		mem_check(X509_add1_ext_i2d(certificate, NID_subject_alt_name, names, 0, X509V3_ADD_DEFAULT) == 1);
	if (good)
		add_extension(certificate, certificate, NID_ext_key_usage,
		    wanted->dns.count || wanted->ip.count ? "serverAuth,clientAuth" : "clientAuth");
	GENERAL_NAMES_free(names);
	free(uri);
	return good;
}

bool ca_issue(
    const char *folder, const char *name, const struct ca_names *names, int64_t lifetime_ms, struct reeve_error *error)
{
	char *path = ca_path(folder, name, ".pem"), *key_path = ca_path(folder, name, ".key");
	EVP_PKEY *key = EVP_EC_gen("P-256");
	X509 *certificate = NULL;
	struct ca ca;
	bool good = check_name(name, error) && open_ca(&ca, folder, error);

	if (good) {
		mem_check(key != NULL);
		certificate = create(key, name, lifetime_ms);
		if (access(path, F_OK) == 0)
			good = error_set(error, STATUS(ALREADY_EXISTS), "%s exists; `reeve certs renew %s` renews it", path, name);
		good = good && add_names(certificate, name, names, error) && sign(&ca, certificate, error) &&
		    ca_write_key(key_path, key, false, error) && ca_write_certificate(path, certificate, false, error);
		close_ca(&ca);
	}
	X509_free(certificate);
	EVP_PKEY_free(key);
	free(path);
	free(key_path);
	return good;
}

/* Returns true if the certificate expires within this time. */
static bool expires_within(const X509 *certificate, int64_t ms)
{
	int64_t max_ms = INT64_C(1) << 45; /* a thousand years */
	time_t then = time(NULL) + (time_t)((ms < max_ms ? ms : max_ms) / 1000);

	return X509_cmp_time(X509_get0_notAfter(certificate), &then) < 0;
}

/* Returns for how long a certificate is valid, as it was given when it was issued. */
static int64_t lifetime_of(const X509 *certificate)
{
	int days = 0, seconds = 0;

	mem_check(ASN1_TIME_diff(&days, &seconds, X509_get0_notBefore(certificate), X509_get0_notAfter(certificate)) == 1);
	return (days * INT64_C(86400) + seconds - EARLY_S) * 1000;
}

static void copy_extension(const X509 *from, X509 *to, int kind)
{
	X509_EXTENSION *extension = X509_get_ext(from, X509_get_ext_by_NID(from, kind, -1));

	if (extension)
		mem_check(X509_add_ext(to, extension, -1));
}

bool ca_renew(const char *folder, const char *name, int64_t lifetime_ms, int64_t within_ms, bool new_key, bool *renewed,
    struct reeve_error *error)
{
	char *path = ca_path(folder, name, ".pem"), *key_path = ca_path(folder, name, ".key");
	X509 *old = NULL, *certificate = NULL;
	EVP_PKEY *key = NULL;
	struct ca ca;
	bool good = check_name(name, error) && open_ca(&ca, folder, error);

	*renewed = false;
	if (good) {
		if (access(path, F_OK) != 0 && errno == ENOENT)
			error_set(error, STATUS(NOT_FOUND), "there is no certificate \"%s\" in %s", name, folder);
		else
			old = ca_read_certificate(path, error);
		good = old && X509_check_issued(ca.certificate, (X509 *)old) == X509_V_OK;
		if (old && !good)
			error_set(error, STATUS(FAILED_PRECONDITION), "%s was issued by another CA", path);
		if (good && (within_ms == INT64_MAX || expires_within(old, within_ms))) {
			key = new_key ? EVP_EC_gen("P-256") : ca_read_key(key_path, error);
			good = key;
		}
		if (key) {
			certificate = create(key, name, lifetime_ms ? lifetime_ms : lifetime_of(old));
			copy_extension(old, certificate, NID_subject_alt_name);
			copy_extension(old, certificate, NID_ext_key_usage);
			good = sign(&ca, certificate, error) && (!new_key || ca_write_key(key_path, key, true, error)) &&
			    ca_write_certificate(path, certificate, true, error);
			*renewed = good;
		}
		close_ca(&ca);
	}
	X509_free(old);
	X509_free(certificate);
	EVP_PKEY_free(key);
	free(path);
	free(key_path);
	return good;
}

/* The certificates of a name that are revoked now. */
struct revocation {
	const char *name;
	X509_CRL *list;
	ASN1_TIME *now;
	int count;
};

/* Adds a certificate to the list if it has the name and is valid. */
static void revoke_one(void *arg, const X509 *certificate)
{
	struct revocation *r = arg;
	char its[NAME_MAX_BYTES + 1];
	X509_REVOKED *revoked;

	if (X509_NAME_get_text_by_NID(X509_get_subject_name(certificate), NID_commonName, its, sizeof its) <= 0 ||
	    strcmp(its, r->name) != 0 || expires_within(certificate, 0) ||
	    X509_CRL_get0_by_cert(r->list, &revoked, (X509 *)(uintptr_t)certificate) != 0)
		return;
	revoked = X509_REVOKED_new();
	mem_check(revoked &&
	    X509_REVOKED_set_serialNumber(revoked, (ASN1_INTEGER *)(uintptr_t)X509_get0_serialNumber(certificate)) &&
	    X509_REVOKED_set_revocationDate(revoked, r->now) && X509_CRL_add0_revoked(r->list, revoked));
	r->count++;
}

/* Adds all valid certificates of the name to the list. Returns their number; -1 with *error set on a failure. */
static int revoke_all(const char *folder, const char *name, X509_CRL *list, int *left_out, struct reeve_error *error)
{
	struct revocation r = {.name = name, .list = list, .now = X509_gmtime_adj(NULL, 0)};
	*left_out = ca_each_issued(folder, revoke_one, &r, error);
	ASN1_TIME_free(r.now);
	return *left_out >= 0 ? r.count : -1;
}

bool ca_revoke(const char *folder, const char *name, int *left_out, struct reeve_error *error)
{
	char *path = ca_path(folder, name, ".pem"), *key_path = ca_path(folder, name, ".key");
	char *list_path = ca_path(folder, "crl", ".pem");
	X509_CRL *list = NULL;
	ASN1_INTEGER *number;
	int64_t last = 0;
	struct ca ca;
	bool good = check_name(name, error) && open_ca(&ca, folder, error);

	if (good) {
		int count;

		list = ca_read_list(list_path, error);
		count = list ? revoke_all(folder, name, list, left_out, error) : -1;
		good = count > 0;
		if (count == 0)
			error_set(error, STATUS(NOT_FOUND), "there is no valid certificate \"%s\" that is not revoked", name);
		number = list ? X509_CRL_get_ext_d2i(list, NID_crl_number, NULL, NULL) : NULL;
		if (number)
			ASN1_INTEGER_get_int64(&last, number);
		ASN1_INTEGER_free(number);
		good = good && write_list(&ca, list, last + 1, true, error);
		if (good) {
			unlink(path);
			unlink(key_path);
		}
		close_ca(&ca);
	}
	X509_CRL_free(list);
	free(path);
	free(key_path);
	free(list_path);
	return good;
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static int is_certificate(const struct dirent *entry)
{
	return ca_is_pem(entry->d_name) && strcmp(entry->d_name, "ca.pem") != 0 && strcmp(entry->d_name, "crl.pem") != 0;
}

char **ca_list(const char *folder, struct reeve_error *error)
{
	struct dirent **entries;
	int count = scandir(folder, &entries, is_certificate, by_name);
	char **names;

	if (count < 0) {
		ca_failed(folder, error);
		return NULL;
	}
	names = mem_calloc((size_t)count + 1, sizeof *names);
	for (int i = 0; i < count; i++) {
		names[i] = mem_asprintf("%.*s", (int)strlen(entries[i]->d_name) - 4, entries[i]->d_name);
		free(entries[i]);
	}
	free(entries);
	return names;
}
