/* `reeve certs list`: the certificates that the CA has issued. */
#include "client/cmd/ca_files.h"
#include "client/cmd/certs.h"
#include "client/cmd/command.h"
#include "client/cmd/table.h"
#include "client/cmd/terminal.h"
#include "common/clock.h"
#include "common/mem.h"

#include <jansson.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { NAME_BYTES = 65 };

struct issued {
	char name[NAME_BYTES], *serial, *names;
	const char *state;
	int64_t until_us;
};

struct list {
	X509_CRL *revoked;
	struct issued *items;
	size_t count;
};

/* Returns the alternative names: "DNS:m1.example.org, URI:reeve://m1". */
static char *names_of(const X509 *certificate)
{
	X509_EXTENSION *names = X509_get_ext(certificate, X509_get_ext_by_NID(certificate, NID_subject_alt_name, -1));
	BIO *out = BIO_new(BIO_s_mem());
	char *bytes, *text;
	long length;

	mem_check(out != NULL);
	if (names)
		X509V3_EXT_print(out, names, 0, 0);
	length = BIO_get_mem_data(out, &bytes);
	text = mem_asprintf("%.*s", (int)length, bytes);
	BIO_free(out);
	return text;
}

static void add(void *arg, const X509 *certificate)
{
	struct list *list = arg;
	BIGNUM *number = ASN1_INTEGER_to_BN(X509_get0_serialNumber(certificate), NULL);
	X509_REVOKED *revoked;
	struct issued *item;
	struct tm until = {0};

	list->items = mem_realloc(list->items, (list->count + 1) * sizeof *list->items);
	item = &list->items[list->count++];
	*item = (struct issued){.names = names_of(certificate), .serial = BN_bn2hex(number)};
	X509_NAME_get_text_by_NID(X509_get_subject_name(certificate), NID_commonName, item->name, sizeof item->name);
	ASN1_TIME_to_tm(X509_get0_notAfter(certificate), &until);
	item->until_us = (int64_t)timegm(&until) * 1000000;
	item->state = X509_CRL_get0_by_cert(list->revoked, &revoked, (X509 *)(uintptr_t)certificate) == 1 ? "revoked"
	    : item->until_us <= clock_wall_us()                                                           ? "expired"
	                                                                                                  : "valid";
	BN_free(number);
}

static int by_name(const void *a, const void *b)
{
	const struct issued *x = a, *y = b;
	int order = strcmp(x->name, y->name);

	return order ? order : (x->until_us > y->until_us) - (x->until_us < y->until_us);
}

static void print_json(const struct list *list)
{
	for (size_t i = 0; i < list->count; i++) {
		const struct issued *item = &list->items[i];
		char expires[40];
		time_t until = (time_t)(item->until_us / 1000000);

		strftime(expires, sizeof expires, "%FT%TZ", gmtime(&until));
		command_print_object(json_pack("{ss ss ss ss ss}", "name", item->name, "state", item->state, "expires", expires,
		    "serial", item->serial, "names", item->names));
	}
}

static void print_table(const struct list *list)
{
	static const struct column columns[] = {COL_TEXT("NAME", NULL), COL_WORD("STATE", NULL),
	    COL_NUMBER("EXPIRES", NULL), COL_TEXT("NAMES", NULL), COL_WORD("SERIAL", NULL), {0}};
	struct table *table = table_create(columns);

	for (size_t i = 0; i < list->count; i++) {
		char age[32];

		table_text(table, list->items[i].name);
		table_text(table, list->items[i].state);
		table_text(table, terminal_age(clock_wall_us(), list->items[i].until_us, age, sizeof age));
		table_text(table, list->items[i].names);
		table_text(table, list->items[i].serial);
	}
	table_print(table);
	table_destroy(table);
}

bool certs_list_print(const char *folder, bool json, struct reeve_error *error)
{
	char *path = ca_path(folder, "crl", ".pem");
	struct list list = {0};
	int lock = ca_lock(folder, false, error);
	bool good;

	list.revoked = lock >= 0 ? ca_read_list(path, error) : NULL;
	good = list.revoked && ca_each_issued(folder, add, &list, error) >= 0;
	if (list.count > 1)
		qsort(list.items, list.count, sizeof *list.items, by_name);
	if (good && json)
		print_json(&list);
	else if (good)
		print_table(&list);
	for (size_t i = 0; i < list.count; i++) {
		free(list.items[i].names);
		OPENSSL_free(list.items[i].serial);
	}
	free(list.items);
	X509_CRL_free(list.revoked);
	if (lock >= 0)
		close(lock);
	free(path);
	return good;
}
