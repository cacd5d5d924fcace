/* TokenService: identities, that is access tokens, local users and certificates. */
#include "common/access_token.h"
#include "common/json.h"
#include "common/limits.h"
#include "manager/service/check.h"
#include "manager/service/method.h"

#include <jansson.h>
#include <reeve/v1/token.pb-c.h>
#include <string.h>
#include <unistd.h>

/* The characters that separate an identity's name from what a caller says of itself are not part of names. */
static bool check_identity_name(const char *name, struct reeve_error *error)
{
	if (!check_name("name", name, false, error) || !check_source("name", name, error))
		return false;
	if (strlen(name) > LIMIT_IDENTITY_BYTES)
		return error_set(error, STATUS(INVALID_ARGUMENT), "name is longer than %d bytes", LIMIT_IDENTITY_BYTES);
	return !strpbrk(name, "/@") ||
	    error_set(error, STATUS(INVALID_ARGUMENT), "name has a \"%c\", which is not allowed", *strpbrk(name, "/@"));
}

static bool check_hash(const char *hash, struct reeve_error *error)
{
	return (strlen(hash) == ACCESS_HASH_TEXT - 1 && strspn(hash, "0123456789abcdef") == ACCESS_HASH_TEXT - 1) ||
	    error_set(error, STATUS(INVALID_ARGUMENT), "hash is not a SHA-256: %d hexadecimal digits in lower case",
	        ACCESS_HASH_TEXT - 1);
}

/* A limit that has no effect would be taken for one that has. */
static bool check_limits(const Reeve__V1__Rights *r, struct reeve_error *error)
{
	static const uint32_t unlimited = 1 << REEVE__V1__ROLE__ROLE_READER | 1 << REEVE__V1__ROLE__ROLE_OPERATOR |
	    1 << REEVE__V1__ROLE__ROLE_ADMIN,
	                      submits = 1 << REEVE__V1__ROLE__ROLE_SUBMITTER,
	                      works = 1 << REEVE__V1__ROLE__ROLE_WORKER | 1 << REEVE__V1__ROLE__ROLE_MANUAL_WORKER,
	                      measures = 1 << REEVE__V1__ROLE__ROLE_METRIC_WRITER;
	const struct {
		const char *field, *of;
		size_t count;
		uint32_t roles;
	} limits[] = {
	    {"queues", "submitter, worker or manual_worker", r->n_queues, submits | works},
	    {"types", "submitter, worker or manual_worker", r->n_types, submits | works},
	    {"metrics", "metric_writer", r->n_metrics, measures},
	    {"callback_hosts", "submitter", r->n_callback_hosts, submits},
	};
	uint32_t roles = 0;
	for (size_t i = 0; i < r->n_roles; i++)
		roles |= UINT32_C(1) << r->roles[i];
	for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
		if (limits[i].count && roles & unlimited)
			return error_set(error, STATUS(INVALID_ARGUMENT),
			    "rights.%s cannot be combined with the roles reader, operator and admin, which have no limits",
			    limits[i].field);
		if (limits[i].count && !(roles & limits[i].roles))
			return error_set(
			    error, STATUS(INVALID_ARGUMENT), "rights.%s limits only the role %s", limits[i].field, limits[i].of);
	}
	return true;
}

static bool check_rights(const Reeve__V1__Rights *r, struct reeve_error *error)
{
	if (!r || !r->n_roles)
		return error_set(error, STATUS(INVALID_ARGUMENT), "rights.roles is empty");
	if (!check_range("the number of rights.roles", (int64_t)r->n_roles, 1, REEVE__V1__ROLE__ROLE_ADMIN, error))
		return false;
	for (size_t i = 0; i < r->n_roles; i++)
		if (!check_range("rights.roles", r->roles[i], 1, REEVE__V1__ROLE__ROLE_ADMIN, error))
			return false;
	if (!check_limits(r, error))
		return false;
	return check_names("rights.queues", r->queues, r->n_queues, error) &&
	    check_names("rights.types", r->types, r->n_types, error) &&
	    check_names("rights.metrics", r->metrics, r->n_metrics, error) &&
	    check_names("rights.callback_hosts", r->callback_hosts, r->n_callback_hosts, error);
}

static bool check_create(const ProtobufCMessage *message, struct reeve_error *error)
{
	const Reeve__V1__CreateTokenRequest *r = (const Reeve__V1__CreateTokenRequest *)message;
	if (!check_identity_name(r->name, error) || !check_rights(r->rights, error))
		return false;
	if (r->local_user + r->certificate + (*r->hash != '\0') > 1)
		return error_set(error, STATUS(INVALID_ARGUMENT), "hash, local_user and certificate cannot be combined");
	if (r->local_user && (r->uid == 0 || r->uid == geteuid()))
		return error_set(error, STATUS(INVALID_ARGUMENT),
		    "uid %u, root or the manager's own user, is an admin without an identity", r->uid);
	return r->local_user || r->certificate || check_hash(r->hash, error);
}

static bool check_rotate(const ProtobufCMessage *message, struct reeve_error *error)
{
	return check_hash(((const Reeve__V1__RotateTokenRequest *)message)->hash, error);
}

/* Returns the rights as they are stored. */
static char *rights_json(const struct services *services, const struct rpc_call *call, const ProtobufCMessage *request,
    struct reeve_error *error)
{
	json_t *rights = json_from_message(&((const Reeve__V1__CreateTokenRequest *)request)->rights->base);
	char *text = json_dumps(rights, JSON_COMPACT);
	(void)services;
	(void)call;
	(void)error;
	json_decref(rights);
	mem_check(text != NULL);
	return text;
}

static void reload(struct services *s, int64_t deadline_ms, method_reloaded *done, void *arg)
{
	access_reload(s->access, deadline_ms, done, arg);
}

const struct rpc_entry token_methods[] = {
    {"Create", write_method, RPC_OPERATOR, MAY_ADMINISTER,
        METHOD(SQL_TOKEN_CREATE, .rules = {{"expires_in_ms", RULE_NUMBER, .max = DAYS_MS(LIMIT_DELAY_DAYS)}},
            .check = check_create, .change = rights_json, .reload = reload)},
    {"List", read_method, RPC_OPERATOR, MAY_ADMINISTER,
        METHOD(SQL_TOKEN_LIST,
            .rules = {{"after_name", RULE_NAME_OR_NONE},
                {"limit", RULE_NUMBER, .max = LIMIT_LIST, .otherwise = DEFAULT_LIST}})},
    {"Rotate", write_method, RPC_OPERATOR, MAY_ADMINISTER,
        METHOD(SQL_TOKEN_ROTATE,
            .rules = {{"name", RULE_NAME}, {"grace_ms", RULE_NUMBER, .max = DAYS_MS(LIMIT_GRACE_DAYS)},
                {"expires_in_ms", RULE_NUMBER, .max = DAYS_MS(LIMIT_DELAY_DAYS)}},
            .check = check_rotate, .reload = reload, .found = "id", .missing = "there is no access token \"{name}\"")},
    {"Revoke", write_method, RPC_OPERATOR, MAY_ADMINISTER,
        METHOD(SQL_TOKEN_REVOKE, .rules = {{"name", RULE_NAME}}, .reload = reload, .found = "id",
            .missing = "there is no identity \"{name}\"")},
    {0},
};
