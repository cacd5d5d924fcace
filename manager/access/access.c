/* The rules by which callers are identified. */
#include "manager/access/access.h"

#include "common/clock.h"
#include "common/json_names.h"
#include "common/log.h"

#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	ATTEMPT_READ_MS = 10000, /* how long a call of an attempt waits for the database */
	MAY_APPEAR_MS = 300,     /* how long a caller without an identity waits for the database; then to the next second */
	SUSPECT_MS = 1200,       /* … one for which nothing is read out of turn */
	DENIED_AGAIN_MS = 600000, /* between two lines of the log about refused calls of an identity */
};

struct access {
	struct rpc_server *server;
	struct store *store;
	bool required;
	struct identities *identities;
	struct identity *local; /* of callers on this machine without an identity */
	struct identity *own, *root;
	uid_t uid; /* this process's */
};

static struct rpc_identity *use(struct identity *identity)
{
	identity->rpc.references++;
	return &identity->rpc;
}

static struct rpc_identity *by_token(struct access *access, const struct rpc_caller *caller, struct reeve_error *error)
{
	struct identity *found = identities_by_token(access->identities, caller->token, caller->token_length);
	if (found)
		return use(found);
	error_set(
	    error, STATUS(UNAUTHENTICATED), "the access token is not valid: it is unknown, has expired or was revoked");
	return NULL;
}

/* Identifies a caller by its connection alone. Whose certificate names an identity is that, or nobody: the end of an
 * identity must not make its callers admins. */
static struct rpc_identity *by_origin(struct access *access, const struct rpc_caller *caller, struct reeve_error *error)
{
	struct identity *found = NULL;
	if (caller->certificate)
		found = identities_by_certificate(access->identities, caller->certificate);
	else if (caller->by_ipc)
		found = caller->uid == access->uid ? access->own
		    : caller->uid == 0             ? access->root
		                                   : identities_by_user(access->identities, caller->uid);
	if (!found && caller->local && !access->required && !identities_names(caller->certificate))
		found = access->local;
	if (found)
		return use(found);
	if (caller->by_ipc)
		error_set(error, STATUS(UNAUTHENTICATED),
		    "the user %u of this machine has no identity, and the call no access token: set REEVE_ACCESS_TOKEN_FILE",
		    (unsigned)caller->uid);
	else if (caller->certificate && !identities_names(caller->certificate))
		error_set(error, STATUS(UNAUTHENTICATED),
		    "the certificate of %.100s names no identity (only reeve://NAME does), and the call has no access token",
		    caller->certificate);
	else if (caller->certificate)
		error_set(error, STATUS(UNAUTHENTICATED),
		    "the certificate of %.100s has no identity, or that has ended, and the call has no access token: `reeve token create "
		    "NAME --certificate` creates the identity",
		    caller->certificate);
	else
		error_set(error, STATUS(UNAUTHENTICATED), "the call has no access token: set REEVE_ACCESS_TOKEN_FILE");
	return NULL;
}

/* Identifies the handler of an attempt. If its worker has no access token, it has the rights of its user: its
 * credential only says which attempt it is. But one without a certificate where others need one has them as long as the
 * attempt runs. */
static struct rpc_identity *by_credential(
    struct access *access, const struct rpc_caller *caller, struct reeve_error *error)
{
	struct credential attempt;
	bool valid = identities_read_credential(access->identities, caller->token, caller->token_length, &attempt);
	struct identity *of = valid && attempt.identity > 0 ? identities_by_id(access->identities, attempt.identity) : NULL;
	if (valid && attempt.identity == 0) {
		struct rpc_identity *origin = by_origin(access, caller, error);
		if (!origin)
			return NULL;
		of = identity_create_attempt(access->identities, (struct identity *)origin, &attempt, origin->roles);
		of->bound = caller->uncertified;
		identity_release((struct identity *)origin);
		return &of->rpc;
	}
	if (of)
		return &identity_create_attempt(access->identities, of, &attempt, ROLE(SUBMITTER))->rpc;
	error_set(error, STATUS(UNAUTHENTICATED), "the access token of the attempt is not valid");
	return NULL;
}

static bool needs_table(const struct access *access, const struct rpc_caller *caller)
{
	return caller->token_length || caller->certificate ||
	    (caller->by_ipc && caller->uid != access->uid && caller->uid != 0);
}

static struct rpc_identity *identify(void *arg, const struct rpc_caller *caller, struct reeve_error *error)
{
	struct access *access = arg;
	if (needs_table(access, caller) && !identities_loaded(access->identities)) {
		error_set(error, STATUS(UNAVAILABLE), "the manager has not read the identities from its database yet");
		return NULL;
	}
	if (credential_is(caller->token, caller->token_length))
		return by_credential(access, caller, error);
	return caller->token_length ? by_token(access, caller, error) : by_origin(access, caller, error);
}

/* Another manager, or `reeve-manager --create-admin-token`, may have created the identity a moment ago. An address with
 * many wrong tokens causes no read: it waits for the one of each second. */
static bool may_appear(void *arg, const struct rpc_caller *caller, struct reeve_error *error)
{
	struct access *access = arg;
	if (!needs_table(access, caller) || identities_read_since(access->identities, caller->arrived_ms))
		return false;
	if (!caller->suspect)
		identities_read_soon(access->identities);
	if (clock_monotonic_ms() - caller->arrived_ms < (caller->suspect ? SUSPECT_MS : MAY_APPEAR_MS))
		return true;
	error_set(error, STATUS(UNAVAILABLE),
	    "the manager does not know the caller, and cannot read the identities from its database now");
	return false;
}

/* Writes the names of roles: "submitter, operator or admin". */
static void roles_write(uint32_t roles, char *out, size_t size)
{
	const ProtobufCEnumDescriptor *e = &reeve__v1__role__descriptor;
	char word[JSON_NAME_BYTES];
	size_t length = 0;
	for (unsigned i = 0; i < e->n_values && length < size; i++) {
		uint32_t bit = UINT32_C(1) << e->values[i].value;
		if (!(roles & bit) || !json_enum_word(e, e->values[i].value, word))
			continue;
		roles &= ~bit;
		length += (size_t)snprintf(out + length, size - length, "%s%s", word,
		    !roles                    ? ""
		        : roles & (roles - 1) ? ", "
		                              : " or ");
	}
}

static void denied(
    void *arg, struct rpc_identity *identity, const char *method, uint32_t roles, struct reeve_error *error)
{
	struct identity *i = (struct identity *)identity, *logged = i->of ? i->of : i; /* not each attempt of a worker */
	struct reeve_error refusal;
	char needed[200] = "";
	int64_t now_ms = clock_monotonic_ms();
	(void)arg;
	roles_write(roles | ROLE(ADMIN), needed, sizeof needed);
	error_set(&refusal, STATUS(PERMISSION_DENIED), "\"%s\" may not call %s: that takes the role %s", identity->name,
	    method, needed);
	if (!logged->denied_ms || now_ms - logged->denied_ms >= DENIED_AGAIN_MS) {
		logged->denied_ms = now_ms;
		log_warn("access", "refusing a call (logged at most every 10 min for an identity): %s", refusal.message);
	}
	*error = refusal;
}

/* A call of an attempt. */
struct checked_call {
	struct store_own op;
	struct rpc_call *call;
	const ProtobufCMessage *request;
	bool own;
};

static void on_attempt_read(struct store_op *op, const struct reeve_error *error)
{
	struct checked_call *checked = (struct checked_call *)op;
	if (error)
		rpc_call_fail_error(checked->call, error);
	else if (!checked->own)
		rpc_call_fail(checked->call, STATUS(PERMISSION_DENIED),
		    "the attempt of task %lld has ended, and with it its access token", (long long)*checked->op.ids);
	else
		rpc_call_serve(checked->call, checked->request);
	free(checked);
}

/* Serves an attempt's calls as long as it runs, and always those that its caller may make without it. */
static void check_call(void *arg, struct rpc_call *call, const ProtobufCMessage *request)
{
	struct access *access = arg;
	const struct identity *i = (const struct identity *)rpc_call_identity(call);
	if (!i->attempt.identity && !i->bound && rpc_call_roles(call) != MAY_SUBMIT) {
		rpc_call_serve(call, request);
		return;
	}
	struct checked_call *checked = mem_calloc(1, sizeof *checked);
	checked->call = call;
	checked->request = request;
	checked->op = (struct store_own){
	    .op = {.done = on_attempt_read,
	        .deadline_ms = clock_monotonic_ms() + ATTEMPT_READ_MS,
	        .origin = rpc_call_origin(call)},
	    .identity = i->of->rpc.roles & MAY_ADMINISTER ? 0 : i->of->id, /* as scope_owner */
	    .count = 1,
	    .ids = &i->attempt.task_id,
	    .tokens = &i->attempt.token,
	    .own = &checked->own,
	};
	store_own(access->store, &checked->op);
}

static void on_ended(void *arg)
{
	struct access *access = arg;
	rpc_server_close_ended(access->server);
}

static void on_read(void *arg)
{
	struct access *access = arg;
	rpc_server_identify_again(access->server);
}

static struct identity *admin_of(uid_t uid)
{
	const struct passwd *user = getpwuid(uid);
	char name[32];
	snprintf(name, sizeof name, "user %u", (unsigned)uid);
	return identity_create_admin(user ? user->pw_name : name);
}

struct access *access_create(
    struct rpc_server *server, struct store *store, struct jobs *jobs, const struct access_options *options)
{
	struct access *access = mem_calloc(1, sizeof *access);
	const struct identities_host host = {options->database_us, options->arg, on_ended, on_read, access};
	const struct rpc_guard guard = {
	    .identify = identify, .may_appear = may_appear, .denied = denied, .check_call = check_call, .arg = access};
	access->server = server;
	access->store = store;
	access->required = options->required;
	access->identities = identities_create(store, jobs, &host);
	access->local = identity_create_admin("");
	access->uid = geteuid();
	access->own = admin_of(access->uid);
	access->root = admin_of(0);
	rpc_server_guard(server, &guard);
	return access;
}

void access_reload(struct access *access, int64_t deadline_ms, identities_done *done, void *arg)
{
	identities_reload(access->identities, deadline_ms, done, arg);
}

void access_destroy(struct access *access)
{
	if (!access)
		return;
	identities_destroy(access->identities);
	identity_release(access->local);
	identity_release(access->own);
	identity_release(access->root);
	free(access);
}
