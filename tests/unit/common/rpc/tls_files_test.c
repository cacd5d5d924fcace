/* The files of certificates: what is wrong with them, and when they expire. */
#include "common/rpc/tls_context.h"
#include "tls_support.h"

#include "common/clock.h"
#include "common/rpc/tls.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static struct test_ca ca;

static void make_ca(void)
{
	test_ca_make(&ca);
}

static void free_ca(void)
{
	test_ca_free(&ca);
}

TestSuite(tls_files, .init = make_ca, .fini = free_ca, .timeout = 60);

/* What expires within a week, or a fifth of its lifetime. */
Test(tls_files, what_expires_soon_is_listed)
{
	static const struct {
		int from_s, until_s;
		bool soon;
	} cases[] = {{-60, 3600, false}, {-3600, 600, true}, {-60, 10 * 86400, false}, {-300 * 86400, 5 * 86400, true},
	    {-60, -10, true}};
	struct tls_ending endings[TLS_FILES];
	struct reeve_error error;

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		const char *own = test_ca_issue(&ca, "own", NULL, cases[i].from_s, cases[i].until_s);
		struct tls *tls = tls_create(TLS_SERVER, &(struct tls_files){.certificate = own}, &error);

		cr_assert_eq(tls_endings(tls, endings), cases[i].soon, "%zu", i);
		if (cases[i].soon) {
			cr_assert_str_eq(endings[0].path, own);
			cr_assert_leq(endings[0].left_s, cases[i].until_s);
			cr_assert_geq(endings[0].left_s, cases[i].until_s - 30);
		}
		tls_destroy(tls);
	}
}

/* A revocation list that could not be read for want of a descriptor is read a little later, although it has not changed
 * again. */
Test(tls_files, files_are_read_again_after_a_passing_failure)
{
	const char *own = test_ca_issue(&ca, "own", NULL, -60, 3600);
	char file[192];
	struct tls_files files = {.certificate = strcpy(file, own), .ca = ca.file, .crl = test_ca_revoke(&ca, NULL, 0)};
	struct reeve_error error;
	struct tls *tls = tls_create(TLS_SERVER, &files, &error);
	struct rlimit limit, none;
	unsigned before;
	int64_t until_ms = clock_monotonic_ms() + 20000;

	cr_assert_not_null(tls, "%s", error.message);
	before = tls_generation(tls);
	test_ca_revoke(&ca, &(long){1}, 1);
	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	none = (struct rlimit){0, limit.rlim_max};
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
	cr_expect(!tls_reload(tls, &error));
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	while (tls_generation(tls) == before && clock_monotonic_ms() < until_ms) {
		tls_refresh(tls);
		usleep(20000);
	}
	cr_assert_neq(tls_generation(tls), before);
	tls_destroy(tls);
}

static void *reload(void *tls)
{
	struct reeve_error error;

	cr_assert(tls_reload(tls, &error), "%s", error.message);
	return NULL;
}

/* The list is a pipe, which is read until it is closed. Before that another list takes its place. */
Test(tls_files, a_list_that_is_replaced_while_it_is_read_is_found)
{
	char own[192], list[192], old[192];
	struct tls_files files = {.certificate = strcpy(own, test_ca_issue(&ca, "own", NULL, -60, 3600)), .ca = ca.file};
	struct reeve_error error;
	int64_t until_ms = clock_monotonic_ms() + 20000;
	pthread_t reader;
	unsigned before;
	struct tls *tls;
	char bytes[4096];
	size_t length;
	FILE *file;

	files.crl = strcpy(list, test_ca_revoke(&ca, NULL, 0));
	tls = tls_create(TLS_SERVER, &files, &error);
	cr_assert_not_null(tls, "%s", error.message);
	snprintf(old, sizeof old, "%s.old", list);
	cr_assert_eq(rename(list, old), 0);
	cr_assert_eq(mkfifo(list, 0600), 0);
	cr_assert_eq(pthread_create(&reader, NULL, reload, tls), 0);
	file = fopen(old, "r");
	length = fread(bytes, 1, sizeof bytes, file);
	fclose(file);
	file = fopen(list, "w"); /* waits for the reader */
	fwrite(bytes, 1, length, file);
	cr_assert_eq(unlink(list), 0);
	test_ca_revoke(&ca, &(long){1}, 1);
	fclose(file);
	pthread_join(reader, NULL);
	before = tls_generation(tls);
	while (tls_generation(tls) == before && clock_monotonic_ms() < until_ms) {
		tls_refresh(tls);
		usleep(20000);
	}
	cr_assert_neq(tls_generation(tls), before);
	unlink(old);
	tls_destroy(tls);
}

/* The system's CAs are not the program's to renew. */
Test(tls_files, the_ends_of_the_systems_cas_are_not_listed)
{
	struct tls_ending endings[TLS_FILES];
	struct reeve_error error;
	struct tls *tls;

	setenv("SSL_CERT_FILE", test_ca_issue(&ca, "old", NULL, -60, -10), 1);
	tls = tls_create(TLS_CLIENT, &(struct tls_files){0}, &error);
	cr_assert_eq(tls_endings(tls, endings), 0);
	tls_destroy(tls);
}

/* What is wrong with the files. A reload of a certificate or a CA that does not fit leaves that as it was. */
Test(tls_files, files_that_do_not_fit_are_refused)
{
	struct reeve_error error;
	char own[192], other[192];
	struct tls_files files = {.certificate = own, .ca = ca.file};
	struct tls *tls;
	FILE *file;

	strcpy(own, test_ca_issue(&ca, "server", "DNS:manager", -60, 3600));
	strcpy(other, test_ca_issue(&ca, "other", NULL, -60, 3600));
	cr_assert_null(tls_create(TLS_SERVER, &(struct tls_files){.ca = ca.file}, &error));
	cr_assert_str_eq(error.message, "tls+tcp:// needs a certificate and its key (--tls-cert, --tls-key)");
	cr_assert_null(tls_create(TLS_CLIENT, &(struct tls_files){.crl = own}, &error));
	cr_assert_str_eq(error.message, "--tls-crl needs --tls-ca");
	cr_assert_null(tls_create(TLS_CLIENT, &(struct tls_files){.key = own}, &error));
	cr_assert_null(tls_create(TLS_SERVER, &(struct tls_files){.certificate = "/nowhere"}, &error));
	cr_assert_str_eq(error.message, "--tls-cert /nowhere: no certificate can be read: No such file or directory");
	files.key = other;
	cr_assert_null(tls_create(TLS_SERVER, &files, &error));
	cr_assert(strstr(error.message, "--tls-key"), "%s", error.message);
	files.key = NULL;
	files.crl = own;
	cr_assert_null(tls_create(TLS_SERVER, &files, &error));
	cr_assert(strstr(error.message, "no revocation list can be read"), "%s", error.message);
	files.crl = NULL;
	tls = tls_create(TLS_SERVER, &files, &error);
	cr_assert_not_null(tls);
	file = fopen(own, "w");
	fputs("-----BEGIN CERTIFICATE-----\n", file);
	fclose(file);
	cr_assert_eq(tls_generation(tls), 1);
	cr_assert_not(tls_reload(tls, &error));
	cr_assert(strstr(error.message, own), "%s", error.message);
	cr_assert_eq(tls_generation(tls), 2, "the CA was read again");
	file = fopen(ca.file, "w");
	fclose(file);
	cr_assert_not(tls_reload(tls, &error));
	cr_assert(strstr(error.message, ca.file), "%s", error.message);
	cr_assert_eq(tls_generation(tls), 2);
	tls_destroy(tls);
}
