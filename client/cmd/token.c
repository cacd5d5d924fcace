/* `reeve token create|list|rotate|revoke`: access tokens, users of the manager's machine, and certificates. */
#include "client/cmd/call.h"
#include "client/cmd/command.h"
#include "client/cmd/terminal.h"
#include "common/access_token.h"
#include "common/json_names.h"
#include "common/limits.h"
#include "common/mem.h"
#include "common/new_file.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <pwd.h>
#include <reeve/v1/admin.pb-c.h>
#include <reeve/v1/token_calls.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- create and rotate: the token is printed once ------------------------------------------------------------------
 */

struct create_options {
	struct option_message message;
	struct option_list roles;
	const char *user, *output;
	bool certificate;
};

#define AT(member) OPTION_AT(struct create_options, member)

static const struct option_spec create_specs[] = {
    OPT_LIST(0, "role", AT(roles), "ROLE[,ROLE]",
        "what it may do: reader, submitter, worker, manual_worker, metric_writer, operator, admin"),
    OPT_LIST(0, "queue", OPTION_FIELD("rights.queues"), "QUEUE[,QUEUE]", "the queues that it may use; if not set, all"),
    OPT_LIST(0, "type", OPTION_FIELD("rights.types"), "TYPE[,TYPE]", "the task types that it may use; if not set, all"),
    OPT_LIST(0, "metric", OPTION_FIELD("rights.metrics"), "CATEGORY[,CATEGORY]",
        "the categories of metrics that it may set; if not set, all"),
    OPT_LIST(0, "callback-hosts", OPTION_FIELD("rights.callback_hosts"), "HOST[,HOST]",
        "where its callbacks may go, as in the manager's --callback-hosts; if not set, anywhere"),
    OPT_SPAN(0, "expires", OPTION_FIELD("expires_in_ms"), 1000, DAYS_MS(LIMIT_DELAY_DAYS),
        "how long it is valid; if not set, until it is revoked", .default_value = NULL),
    OPT_NAME(0, "user", AT(user), "USER",
        "no token: the identity of this user of the manager's machine, who calls over an ipc socket"),
    OPT_FLAG(0, "certificate", AT(certificate),
        "no token: the identity of callers whose TLS certificate has the URI reeve://NAME (reeve certs issue NAME)"),
    OPT_NAME(0, "output", AT(output), "FILE", "write the token to a new file that only you can read"),
    {0},
};

static const struct option_table create_table = {
    .program = "reeve token create",
    .usage = "NAME --role ROLE[,ROLE] [OPTION]...",
    .summary = "Creates an access token and prints it. It is not shown again. The audit shows its NAME.",
    .epilogue = "Examples:\n"
                "  reeve token create shop --role submitter --queue mail --output shop.token\n"
                "  reeve token create fleet --role worker --expires 365d\n"
                "  reeve token create ann --role operator --user ann\n"
                "  reeve token create worker-7 --role worker --certificate",
    .specs = create_specs,
};

/* Sets the roles from their names. Returns false after an error message. */
static bool take_roles(const struct option_list *names, Reeve__V1__Role *roles, int *code)
{
	int value;

	if (!names->count || names->count > REEVE__V1__ROLE__ROLE_ADMIN) {
		*code = command_usage(&create_table, names->count ? "--role: too many roles" : "--role is missing");
		return false;
	}
	for (size_t i = 0; i < names->count; i++) {
		if (!json_enum_number(&reeve__v1__role__descriptor, names->items[i], &value) || !value) {
			*code = command_usage(&create_table,
			    "--role takes reader, submitter, worker, manual_worker, metric_writer, operator or admin, not \"%s\"",
			    names->items[i]);
			return false;
		}
		roles[i] = (Reeve__V1__Role)value;
	}
	return true;
}

/* Sets the number of a user, by name or number. Returns false after an error message. */
static bool take_user(const char *user, uint32_t *uid, int *code)
{
	const struct passwd *found = getpwnam(user);
	char *end;
	unsigned long number = strtoul(user, &end, 10);

	if (found)
		number = found->pw_uid;
	else if (*end || *user < '0' || *user > '9' || number >= UINT32_MAX) {
		*code = command_usage(&create_table, "--user: there is no user \"%s\" on this machine", user);
		return false;
	}
	*uid = (uint32_t)number;
	return true;
}

/* Opens the file for a token; standard output without one. Returns -1 after an error message. */
static int open_output(const char *path)
{
	int fd = path ? open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600) : STDOUT_FILENO;

	if (fd < 0)
		command_log("--output %s: %s", path, strerror(errno));
	return fd;
}

/* Writes a token, or with `json` an object with the id, and the token unless it goes to a file. Closes the file.
 * Returns the exit code. */
static int write_token(int fd, const char *path, int64_t id, const char *secret, bool json)
{
	char token[ACCESS_TOKEN_BYTES];
	size_t length;

	access_token_write(id, secret, token);
	if (json)
		command_print_object(json_pack("{sI ss*}", "id", (json_int_t)id, "access_token", path ? NULL : token));
	else if (!path)
		puts(token);
	if (!path)
		return EXIT_OK;
	length = strlen(token);
	token[length] = '\n';
	if (file_write_all(fd, token, length + 1) && fsync(fd) == 0 && close(fd) == 0)
		return EXIT_OK;
	command_log("--output %s: %s; rotate the token", path, strerror(errno));
	return EXIT_TASK_FAILED;
}

/* Removes the file that no token was written to. */
static void drop_output(int fd, const char *path)
{
	if (!path || fd < 0)
		return;
	close(fd);
	unlink(path);
}

static int create(const struct shared_options *shared, Reeve__V1__CreateTokenRequest *request, const char *output)
{
	bool has_token = !request->local_user && !request->certificate;
	char secret[ACCESS_SECRET_BYTES], hash[ACCESS_HASH_TEXT];
	struct reeve_failure failure = {0};
	int code = EXIT_TASK_FAILED, fd = has_token ? open_output(output) : STDOUT_FILENO;
	struct reeve_client *client = fd < 0 ? NULL : command_connect_to_change(shared, &code);
	Reeve__V1__CreateTokenResponse *answer = NULL;

	if (has_token) {
		access_secret_make(secret);
		access_hash_text(secret, hash);
		request->hash = hash;
	}
	if (client && !(answer = reeve_token_create(client, request, NULL, &failure)))
		code = command_change_failed(&failure);
	if (answer && shared->json && !has_token)
		command_print_json(answer);
	if (answer)
		code = has_token ? write_token(fd, output, answer->id, secret, shared->json) : EXIT_OK;
	else if (has_token)
		drop_output(fd, output);
	reeve_free(answer);
	command_disconnect(client);
	return code;
}

int token_create(int argc, char **argv)
{
	Reeve__V1__Role roles[REEVE__V1__ROLE__ROLE_ADMIN];
	Reeve__V1__Rights rights = REEVE__V1__RIGHTS__INIT;
	Reeve__V1__CreateTokenRequest request = REEVE__V1__CREATE_TOKEN_REQUEST__INIT;
	struct create_options options = {.message.message = &request.base};
	struct shared_options shared = {0};
	int code;

	request.rights = &rights;
	request.name = command_named(&create_table, &options, &shared, "token", argc, argv, &code);
	if (!request.name || !take_roles(&options.roles, roles, &code) ||
	    (options.user && !take_user(options.user, &request.uid, &code)))
		return code;
	if ((options.user != NULL) + options.certificate + (options.output != NULL) > 1)
		return command_usage(&create_table,
		    "--user, --certificate and --output cannot be combined: users and certificates have no token");
	rights.n_roles = options.roles.count;
	rights.roles = roles;
	request.local_user = options.user != NULL;
	request.certificate = options.certificate;
	return create(&shared, &request, options.output);
}

struct rotate_options {
	const char *output;
	int64_t grace_ms, expires_ms;
};

static const struct option_spec rotate_specs[] = {
    OPT_SPAN(0, "grace", OPTION_AT(struct rotate_options, grace_ms), 0, DAYS_MS(LIMIT_GRACE_DAYS),
        "how long the old token stays valid, too; 0s: it and those before it end at once", .default_value = "1h"),
    OPT_SPAN(0, "expires", OPTION_AT(struct rotate_options, expires_ms), 1000, DAYS_MS(LIMIT_DELAY_DAYS),
        "how long the new token is valid; if not set, as long as the old one was at first", .default_value = NULL),
    OPT_NAME(0, "output", OPTION_AT(struct rotate_options, output), "FILE",
        "write the token to a new file that only you can read"),
    {0},
};

static const struct option_table rotate_table = {
    .program = "reeve token rotate",
    .usage = "NAME [--grace DURATION] [--expires DURATION] [--output FILE]",
    .summary =
        "Replaces an access token by a new one with the same name and rights, and prints that, also if it has expired. The "
        "old one stays valid for --grace; then its connections end. Running programs read the files of their tokens again.",
    .epilogue = "Example: reeve token rotate fleet --grace 2d --output fleet.new",
    .specs = rotate_specs,
};

int token_rotate(int argc, char **argv)
{
	char secret[ACCESS_SECRET_BYTES], hash[ACCESS_HASH_TEXT];
	Reeve__V1__RotateTokenRequest request = {.hash = hash};
	Reeve__V1__RotateTokenResponse *answer = NULL;
	struct rotate_options options = {0};
	struct shared_options shared = {0};
	struct reeve_failure failure = {0};
	struct reeve_client *client;
	int code, fd;

	request.name = command_named(&rotate_table, &options, &shared, "token", argc, argv, &code);
	if (!request.name)
		return code;
	request.grace_ms = options.grace_ms;
	request.expires_in_ms = options.expires_ms > 0 ? options.expires_ms : 0;
	access_secret_make(secret);
	access_hash_text(secret, hash);
	if ((fd = open_output(options.output)) < 0)
		return EXIT_TASK_FAILED;
	client = command_connect_to_change(&shared, &code);
	if (client && !(answer = reeve_token_rotate(client, &request, NULL, &failure)))
		code = command_change_failed(&failure);
	if (answer)
		code = write_token(fd, options.output, answer->id, secret, shared.json);
	else
		drop_output(fd, options.output);
	reeve_free(answer);
	command_disconnect(client);
	return code;
}

/* --- list and revoke -----------------------------------------------------------------------------------------------
 */

static void write_roles(const Reeve__V1__Role *roles, size_t count, struct shown *out)
{
	char word[JSON_NAME_BYTES];
	size_t length = 0;

	for (size_t i = 0; i < count && length < sizeof out->text; i++)
		if (json_enum_word(&reeve__v1__role__descriptor, roles[i], word))
			length += (size_t)snprintf(out->text + length, sizeof out->text - length, "%s%s", i ? "," : "", word);
}

/* Writes the roles of an identity. */
static void show_roles(const void *message, int64_t now_us, struct shown *out)
{
	const Reeve__V1__Rights *rights = ((const Reeve__V1__Token *)message)->rights;

	(void)now_us;
	if (rights)
		write_roles(rights->roles, rights->n_roles, out);
}

static void show_user(const void *message, int64_t now_us, struct shown *out)
{
	const Reeve__V1__Token *token = message;
	const struct passwd *user = token->local_user ? getpwuid(token->uid) : NULL;

	(void)now_us;
	if (user)
		snprintf(out->text, sizeof out->text, "%s", user->pw_name);
	else if (token->local_user)
		snprintf(out->text, sizeof out->text, "%u", token->uid);
	else if (token->certificate)
		snprintf(out->text, sizeof out->text, "certificate");
}

static void show_expiry(const void *message, int64_t now_us, struct shown *out)
{
	int64_t expires_us = ((const Reeve__V1__Token *)message)->expires_us;
	char age[64];

	if (!expires_us)
		return;
	terminal_age(now_us, expires_us, age, sizeof age);
	snprintf(out->text, sizeof out->text, expires_us > now_us ? "%s" : "%s ago", age);
}

static const struct column columns[] = {
    COL_NUMBER("ID", "id"),
    COL_WORD("NAME", "name"),
    COL_WORD("ROLES", NULL, .show = show_roles),
    COL_WORD("USER", NULL, .show = show_user),
    COL_TEXT("QUEUES", "rights.queues"),
    COL_TEXT("TYPES", "rights.types"),
    COL_TEXT("METRICS", "rights.metrics"),
    COL_TEXT("CALLBACK HOSTS", "rights.callback_hosts"),
    COL_NUMBER("USED", "last_used_us", .as = AS_AGE),
    COL_NUMBER("EXPIRES", NULL, .show = show_expiry),
    COL_NUMBER("OLD TOKEN", "old_secret_until_us", .as = AS_AGE),
    COL_NUMBER("CREATED", "created_us", .as = AS_AGE),
    COL_TEXT("BY", "created_by"),
    {0},
};

const struct call token_list = {
    .options = {.program = "reeve token list",
        .usage = "[--json]",
        .summary =
            "Lists access tokens and users by name, with their roles, last use and expiry. The tokens themselves "
            "are not kept.",
        .epilogue = "Example: reeve token list"},
    .list = {.service = &reeve__v1__token_service__descriptor, .method = "List", .items = "tokens", .columns = columns},
};

static void print_revoked(const struct call *call, const void *request, const void *answer, int64_t now_us)
{
	(void)call;
	(void)answer;
	(void)now_us;
	printf("%s: revoked\n", ((const Reeve__V1__RevokeTokenRequest *)request)->name);
}

const struct call token_revoke = {
    .options = {.program = "reeve token revoke",
        .usage = "NAME [--json]",
        .summary =
            "Ends an access token, or the identity of a user or certificate: its connections are closed within a second, and it may not "
            "call any more.",
        .epilogue = "Example: reeve token revoke fleet"},
    .operand = "name",
    .noun = "token",
    .changes = true,
    .list = {.service = &reeve__v1__token_service__descriptor, .method = "Revoke"},
    .print = print_revoked,
};

/* --- who calls -----------------------------------------------------------------------------------------------------
 */

static void show_name(const void *message, int64_t now_us, struct shown *out)
{
	const char *name = ((const Reeve__V1__WhoAmIResponse *)message)->name;

	(void)now_us;
	out->value = *name ? name : "none: a caller on the manager's machine needs none";
}

static void show_own_roles(const void *message, int64_t now_us, struct shown *out)
{
	const Reeve__V1__WhoAmIResponse *answer = message;

	(void)now_us;
	write_roles(answer->roles, answer->n_roles, out);
}

static const struct column own_columns[] = {
    COL_TEXT("identity", NULL, .show = show_name),
    COL_TEXT("roles", NULL, .show = show_own_roles),
    COL_TEXT("manager", "manager"),
    COL_WORD("version", "version"),
    {0},
};

const struct call whoami = {
    .options = {.program = "reeve whoami",
        .usage = "[--json]",
        .summary =
            "Shows who calls: the name of the identity that the access token, user or certificate stands for, its roles, and "
            "the manager that answers.",
        .epilogue = "Example: reeve whoami"},
    .list = {.service = &reeve__v1__admin_service__descriptor, .method = "WhoAmI", .columns = own_columns},
    .width = 10,
};
