/* `reeve certs init|issue|list|renew|revoke`: a private CA for tls+tcp://, without a manager. */
#include "client/cmd/certs.h"
#include "client/cmd/ca.h"
#include "client/cmd/command.h"
#include "common/clock.h"
#include "common/output.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DAY_MS (INT64_C(24) * 3600 * 1000)
#define LIFETIME_MAX_MS (36500 * DAY_MS)

struct certs_options {
	const char *folder, *name;
	int64_t lifetime_ms, within_ms;
	bool all, new_key;
	struct ca_names names;
};

#define AT(field) OPTION_AT(struct certs_options, field)
#define FOLDER_OPTION                                                                                                  \
	OPT_NAME(0, "dir", AT(folder), "DIR", "folder of the CA and the certificates", .default_value = "reeve-certs",     \
	    .environment = "REEVE_CERTS_DIR")
#define LIFETIME_OPTION(what, length)                                                                                  \
	OPT_SPAN(0, "lifetime", AT(lifetime_ms), 1000, LIFETIME_MAX_MS, what, .default_value = length)

static const struct option_spec init_specs[] = {
    FOLDER_OPTION,
    OPT_NAME(0, "name", AT(name), "NAME", "the CA's name", .default_value = "Reeve CA"),
    LIFETIME_OPTION("for how long the CA is valid", "3650d"),
    {0},
};

static const struct option_spec issue_specs[] = {
    FOLDER_OPTION,
    OPT_LIST(0, "dns", AT(names.dns), "HOST[,HOST]", "host names, which clients use in URLs; of a manager"),
    OPT_LIST(0, "ip", AT(names.ip), "ADDRESS[,ADDRESS]", "addresses, which clients use in URLs; of a manager"),
    OPT_LIST(0, "uri", AT(names.uri), "URI[,URI]", "identities; if not set, reeve://NAME"),
    LIFETIME_OPTION("for how long it is valid", "365d"),
    {0},
};

static const struct option_spec renew_specs[] = {
    FOLDER_OPTION,
    OPT_FLAG(0, "all", AT(all), "all certificates in the folder"),
    OPT_SPAN(0, "within", AT(within_ms), 0, LIFETIME_MAX_MS,
        "only those that expire within this time or have expired; if not set, in any case"),
    OPT_FLAG(0, "new-key", AT(new_key), "with a new key"),
    LIFETIME_OPTION("for how long it is valid; if not set, as long as the old one was", NULL),
    {0},
};

static const struct option_spec revoke_specs[] = {
    FOLDER_OPTION,
    {0},
};

static const struct option_spec list_specs[] = {
    FOLDER_OPTION,
    {0},
};

static const struct option_table list_table = {
    .program = "reeve certs list",
    .usage = "[--dir DIR] [--json]",
    .summary =
        "Lists all certificates that were issued: whether each is valid, expired or revoked, when it expires, its "
        "names and its serial number. A renewed certificate is valid until it expires, too.",
    .specs = list_specs,
};

static const struct option_table init_table = {
    .program = "reeve certs init",
    .usage = "[--dir DIR] [--name NAME] [--lifetime DURATION]",
    .summary = "Creates a private CA: ca.pem, its key ca.key, and an empty revocation list crl.pem. Anyone with ca.key "
               "can issue certificates for everything: keep it away from the hosts of managers and workers.",
    .epilogue = "Example: reeve certs init --dir /root/reeve-certs",
    .specs = init_specs,
};

static const struct option_table issue_table = {
    .program = "reeve certs issue",
    .usage = "NAME [--dns HOST[,HOST]] [--ip ADDRESS[,ADDRESS]] [OPTION]...",
    .summary = "Issues NAME.pem with a new key NAME.key. With --dns or --ip it is for a manager and for callers, "
               "otherwise only for callers.",
    .epilogue = "Examples: reeve certs issue manager-1 --dns manager-1.example.org --ip 10.0.0.5\n"
                "          reeve certs issue worker-7",
    .specs = issue_specs,
};

static const struct option_table renew_table = {
    .program = "reeve certs renew",
    .usage = "NAME|--all [--within DURATION] [OPTION]...",
    .summary = "Issues certificates again with the same names, and replaces their files. Programs read the changed "
               "files by themselves. The old certificates stay valid until they expire.",
    .epilogue = "Example: reeve certs renew --all --within 30d",
    .specs = renew_specs,
};

static const struct option_table revoke_table = {
    .program = "reeve certs revoke",
    .usage = "NAME [--dir DIR]",
    .summary =
        "Revokes all certificates of a name: writes them into crl.pem and removes NAME.pem and NAME.key. "
        "Managers and clients with --tls-crl must get the new crl.pem. If the name is an identity, `reeve token revoke "
        "NAME` ends that, too: also what running attempts of its worker may submit.",
    .specs = revoke_specs,
};

static int failed(const struct reeve_error *error)
{
	command_log("%s", error->message);
	return error->code == STATUS(INVALID_ARGUMENT) ? EXIT_USAGE : EXIT_REFUSED;
}

/* Parses the options and the only operand, a certificate's name. Returns NULL with *code set to exit. */
static const char *read_name(
    const struct option_table *table, struct certs_options *options, int argc, char **argv, int *code)
{
	struct shared_options shared = {0};
	int operands;

	if (!command_options(table, options, &shared, argc, argv, &operands, code))
		return NULL;
	if (operands == 1)
		return argv[1];
	*code = command_usage(table, operands ? "too many arguments: give one NAME" : "the certificate's NAME is missing");
	return NULL;
}

int certs_init(int argc, char **argv)
{
	struct certs_options options = {0};
	struct shared_options shared = {0};
	struct reeve_error error = {0};
	int code;

	if (!command_only_options(&init_table, &options, &shared, argc, argv, &code))
		return code;
	if (!ca_init(options.folder, options.name, options.lifetime_ms, &error))
		return failed(&error);
	printf("%s/ca.pem\n", options.folder);
	return EXIT_OK;
}

int certs_issue(int argc, char **argv)
{
	struct certs_options options = {0};
	struct reeve_error error = {0};
	int code;
	const char *name = read_name(&issue_table, &options, argc, argv, &code);

	if (!name)
		return code;
	if (!ca_issue(options.folder, name, &options.names, options.lifetime_ms, &error))
		return failed(&error);
	printf("%s/%s.pem\n", options.folder, name);
	return EXIT_OK;
}

/* Renews one certificate and prints its file. */
static bool renew(const struct certs_options *options, const char *name, struct reeve_error *error)
{
	bool renewed;

	if (!ca_renew(options->folder, name, options->lifetime_ms, options->within_ms, options->new_key, &renewed, error))
		return false;
	if (renewed)
		printf("%s/%s.pem\n", options->folder, name);
	return true;
}

static int renew_all(const struct certs_options *options)
{
	struct reeve_error error = {0};
	char **names = ca_list(options->folder, &error);
	int code = EXIT_OK;

	if (!names)
		return failed(&error);
	for (size_t i = 0; names[i]; i++) {
		if (!renew(options, names[i], &error))
			code = failed(&error);
		free(names[i]);
	}
	free(names);
	return code;
}

int certs_list(int argc, char **argv)
{
	struct certs_options options = {0};
	struct shared_options shared = {0};
	struct reeve_error error = {0};
	int code;

	if (!command_only_options(&list_table, &options, &shared, argc, argv, &code))
		return code;
	return certs_list_print(options.folder, shared.json, &error) ? EXIT_OK : failed(&error);
}

int certs_renew(int argc, char **argv)
{
	struct certs_options options = {.within_ms = INT64_MAX};
	struct shared_options shared = {0};
	struct reeve_error error = {0};
	int operands, code;

	if (!command_options(&renew_table, &options, &shared, argc, argv, &operands, &code))
		return code;
	if (operands != (options.all ? 0 : 1))
		return command_usage(&renew_table, "give either one NAME or --all");
	if (options.all)
		return renew_all(&options);
	return renew(&options, argv[1], &error) ? EXIT_OK : failed(&error);
}

int certs_revoke(int argc, char **argv)
{
	struct certs_options options = {0};
	struct reeve_error error = {0};
	int code;
	const char *name = read_name(&revoke_table, &options, argc, argv, &code);
	int left_out;

	if (!name)
		return code;
	if (!ca_revoke(options.folder, name, &left_out, &error))
		return failed(&error);
	printf("%s/crl.pem\n", options.folder);
	if (!left_out)
		return EXIT_OK;
	command_log("not sure that all certificates of %s are revoked, as files in %s/issued cannot be read: %d", name,
	    options.folder, left_out);
	return EXIT_REFUSED;
}
