/* A hash by the number in the table, and a list of all. Each object has one reference from here while it is valid. */
#include "manager/access/identities.h"

#include "common/clock.h"
#include "common/hash.h"
#include "common/json.h"
#include "common/log.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

/* The valid identities of a row of the table: those of its secret and of the one before, or that of its user. */
struct row {
	int64_t id;
	char *rights; /* as they stand in the table */
	struct identity *identities;
	UT_hash_handle hh;
};

struct identities {
	struct store *store;
	struct jobs *jobs;
	struct identities_host host;
	struct row *rows;
	int64_t read_ms; /* when the last read began that has succeeded; 0: none has */
	char *fingerprint;
	uint8_t *key; /* of credentials */
	size_t key_bytes;
	struct identity *attempts;
	struct store_identity_uses uses;
	int64_t *used_ids; /* of the write in flight */
};

static void identity_free(struct rpc_identity *base)
{
	struct identity *i = (struct identity *)base;
	if (i->of) {
		DL_DELETE(i->all->attempts, i);
		identity_release(i->of);
	} else if (i->rights)
		reeve__v1__rights__free_unpacked(i->rights, NULL);
	free(i->name);
	free(i);
}

void identity_release(struct identity *i)
{
	if (--i->rpc.references == 0)
		identity_free(&i->rpc);
}

static struct identity *identity_create(const char *name, uint32_t roles)
{
	struct identity *i = mem_calloc(1, sizeof *i);
	i->name = mem_strdup(name);
	i->rpc = (struct rpc_identity){.name = i->name, .roles = roles, .references = 1, .free = identity_free};
	i->uid = -1;
	i->until_us = STORE_TIME_NEVER;
	return i;
}

struct identity *identity_create_admin(const char *name)
{
	return identity_create(name, RPC_ANYONE - 1);
}

struct identity *identity_create_attempt(
    struct identities *all, struct identity *of, const struct credential *attempt, uint32_t roles)
{
	struct identity *i = identity_create(of->name, roles);
	i->id = of->id;
	i->rights = of->rights;
	i->all = all;
	i->of = of;
	i->attempt = *attempt;
	i->rpc.check_calls = true;
	of->rpc.references++;
	of->rpc.used = true;
	DL_APPEND(all->attempts, i);
	return i;
}

bool identities_loaded(const struct identities *all)
{
	return all->read_ms != 0;
}

bool identities_read_since(const struct identities *all, int64_t at_ms)
{
	return all->read_ms > at_ms;
}

void identities_read_soon(struct identities *all)
{
	jobs_ask(all->jobs, JOB_IDENTITIES);
}

static bool is_valid(const struct identities *all, const struct identity *i)
{
	return i->until_us > all->host.database_us(all->host.clock);
}

struct identity *identities_by_token(struct identities *all, const char *token, size_t length)
{
	uint8_t hash[ACCESS_HASH_BYTES];
	struct row *row = NULL;
	struct identity *i, *found = NULL;
	const char *secret;
	int64_t id;
	if (!access_token_read(token, length, &id, &secret))
		return NULL;
	access_hash(secret, length - (size_t)(secret - token), hash);
	HASH_FIND(hh, all->rows, &id, sizeof id, row);
	if (!row)
		return NULL;
	LL_FOREACH (row->identities, i)
		if (i->uid < 0 && !i->certificate && access_hash_equal(hash, i->hash) && is_valid(all, i))
			found = i;
	return found;
}

struct identity *identities_by_id(struct identities *all, int64_t id)
{
	struct row *row;
	struct identity *i;
	HASH_FIND(hh, all->rows, &id, sizeof id, row);
	if (row)
		LL_FOREACH (row->identities, i)
			if (is_valid(all, i))
				return i;
	return NULL;
}

bool identities_read_credential(
    const struct identities *all, const char *text, size_t length, struct credential *credential)
{
	credential->identity = -1;
	return credential_read(text, length, all->key, all->key_bytes, credential);
}

struct identity *identities_by_user(struct identities *all, uid_t uid)
{
	for (struct row *row = all->rows; row; row = row->hh.next)
		if (row->identities->uid == (int64_t)uid && is_valid(all, row->identities))
			return row->identities;
	return NULL;
}

static const char scheme[] = "reeve://";

bool identities_names(const char *uri)
{
	return uri && strncmp(uri, scheme, strlen(scheme)) == 0;
}

struct identity *identities_by_certificate(struct identities *all, const char *uri)
{
	if (!identities_names(uri))
		return NULL;
	for (struct row *row = all->rows; row; row = row->hh.next)
		if (row->identities->certificate && !strcmp(row->identities->name, uri + strlen(scheme)) &&
		    is_valid(all, row->identities))
			return row->identities;
	return NULL;
}

static void row_free(struct identities *all, struct row *row)
{
	HASH_DEL(all->rows, row);
	free(row->rights);
	free(row);
}

/* Ends those identities of a row that are not listed or whose time is over, and the row itself with the last one. */
static bool row_trim(struct identities *all, struct row *row, bool unlisted)
{
	struct identity *i, *next;
	bool ended = false;
	LL_FOREACH_SAFE (row->identities, i, next) {
		bool valid = is_valid(all, i);
		if (valid && (!unlisted || i->listed))
			continue;
		if (!valid)
			*all->fingerprint = '\0'; /* it is valid again if the clock is set back: it must be read */
		LL_DELETE(row->identities, i);
		i->rpc.ended = true;
		identity_release(i);
		ended = true;
	}
	if (!row->identities)
		row_free(all, row);
	return ended;
}

static void trim(struct identities *all, bool unlisted)
{
	struct row *row, *next;
	struct identity *i;
	bool ended = false;
	HASH_ITER (hh, all->rows, row, next)
		ended |= row_trim(all, row, unlisted);
	DL_FOREACH (all->attempts, i)
		i->rpc.ended = i->of->rpc.ended;
	if (ended)
		all->host.ended(all->host.arg);
}

/* Returns the row of an identity. If its rights have changed, its former identities are over: none of them is listed.
 */
static struct row *row_take(struct identities *all, const struct store_identity *from)
{
	struct row *row;
	struct identity *i;
	HASH_FIND(hh, all->rows, &from->id, sizeof from->id, row);
	if (!row) {
		row = mem_calloc(1, sizeof *row);
		row->id = from->id;
		HASH_ADD(hh, all->rows, id, sizeof row->id, row);
	} else if (strcmp(row->rights, from->rights) != 0) {
		LL_FOREACH (row->identities, i)
			i->until_us = STORE_TIME_BEGIN;
	}
	free(row->rights);
	row->rights = mem_strdup(from->rights);
	return row;
}

static uint32_t roles_of(const Reeve__V1__Rights *rights)
{
	uint32_t roles = 0;
	for (size_t i = 0; i < rights->n_roles; i++)
		roles |= rights->roles[i] == REEVE__V1__ROLE__ROLE_ADMIN ? RPC_ANYONE - 1 : UINT32_C(1) << rights->roles[i];
	return roles;
}

/* Lists an identity: finds that of the same secret or user, or creates it. */
static void identity_take(struct row *row, const struct store_identity *from, struct reeve_error *error)
{
	const uint8_t *hash = from->hash;
	struct identity *i;
	LL_FOREACH (row->identities, i)
		if (i->uid == from->uid && (!hash || !memcmp(i->hash, hash, sizeof i->hash)) && !strcmp(i->name, from->name) &&
		    i->until_us != STORE_TIME_BEGIN)
			break;
	if (!i) {
		json_t *json = json_loads(from->rights, 0, NULL);
		ProtobufCMessage *rights = json ? json_to_message(json, &reeve__v1__rights__descriptor, error)
		                                : (error_set(error, STATUS(INTERNAL), "they are not a JSON object"), NULL);
		json_decref(json);
		if (!rights)
			return;
		i = identity_create(from->name, roles_of((Reeve__V1__Rights *)rights));
		i->rights = (Reeve__V1__Rights *)rights;
		i->id = from->id;
		i->uid = from->uid;
		i->certificate = from->uid < 0 && !hash;
		if (hash)
			memcpy(i->hash, hash, sizeof i->hash);
		LL_PREPEND(row->identities, i);
	}
	i->until_us = from->until_us;
	i->listed = true;
}

static void take(struct identities *all, const struct store_identity *from)
{
	struct reeve_error error = {0};
	struct row *row = row_take(all, from);
	if (from->uid >= 0 || from->hash || from->certificate)
		identity_take(row, from, &error);
	if (error.code != STATUS(OK))
		log_error(NULL, "the rights of \"%s\" in the table identities cannot be read, so it has none: %s", from->name,
		    error.message);
}

static void take_all(struct identities *all, const struct store_identities *read)
{
	struct identity *i;
	free(all->key);
	all->key = memcpy(mem_malloc((size_t)read->key_bytes + 1), read->key, (size_t)read->key_bytes);
	all->key_bytes = (size_t)read->key_bytes;
	for (struct row *row = all->rows; row; row = row->hh.next)
		LL_FOREACH (row->identities, i)
			i->listed = false;
	for (int n = 0; n < read->count; n++)
		take(all, &read->identities[n]);
	free(all->fingerprint);
	all->fingerprint = mem_strdup(read->fingerprint);
	trim(all, true);
}

struct load {
	struct store_identities op;
	struct identities *all;
	char *known; /* the fingerprint when it began: another load may end before it */
	int64_t begun_ms;
	identities_done *done;
	void *arg;
};

static void on_loaded(struct store_op *op, const struct reeve_error *error)
{
	struct load *l = (struct load *)op;
	struct identities *all = l->all;
	bool newer = l->begun_ms >= all->read_ms; /* one that has waited for a lock may be passed by the next one */
	if (!error && newer) {
		all->read_ms = l->begun_ms;
		if (l->op.changed)
			take_all(all, &l->op);
		all->host.read(all->host.arg);
	}
	l->done(l->arg, error);
	free(l->known);
	free(l);
}

void identities_reload(struct identities *all, int64_t deadline_ms, identities_done *done, void *arg)
{
	struct load *l = mem_calloc(1, sizeof *l);
	trim(all, false);
	l->all = all;
	l->known = mem_strdup(all->fingerprint);
	l->begun_ms = clock_monotonic_ms();
	l->done = done;
	l->arg = arg;
	l->op = (struct store_identities){.op.done = on_loaded, .op.deadline_ms = deadline_ms, .known = l->known};
	store_identities(all->store, &l->op);
}

static void on_job_loaded(void *arg, const struct reeve_error *error)
{
	struct identities *all = arg;
	jobs_done(all->jobs, JOB_IDENTITIES, error, false);
}

static bool load(void *arg)
{
	identities_reload(arg, 0, on_job_loaded, arg);
	return true;
}

static void on_uses(struct store_op *op, const struct reeve_error *error)
{
	struct identities *all = (struct identities *)((char *)op - offsetof(struct identities, uses));
	free(all->used_ids);
	all->used_ids = NULL;
	jobs_done(all->jobs, JOB_IDENTITY_USES, error, false);
}

/* Records the uses of the last minute. A failed write loses them. */
static bool write_uses(void *arg)
{
	struct identities *all = arg;
	struct identity *i;
	int count = 0;
	all->used_ids = mem_calloc(HASH_COUNT(all->rows) + 1, sizeof *all->used_ids);
	for (struct row *row = all->rows; row; row = row->hh.next) {
		bool used = false;
		LL_FOREACH (row->identities, i) {
			used |= i->rpc.used;
			i->rpc.used = false;
		}
		if (used)
			all->used_ids[count++] = row->id;
	}
	all->uses = (struct store_identity_uses){
	    .op.done = on_uses,
	    .count = count,
	    .ids = all->used_ids,
	    .time_us = all->host.database_us(all->host.clock),
	};
	if (count)
		store_identity_uses(all->store, &all->uses);
	else
		on_uses(&all->uses.op, NULL);
	return true;
}

struct identities *identities_create(struct store *store, struct jobs *jobs, const struct identities_host *host)
{
	struct identities *all = mem_calloc(1, sizeof *all);
	all->store = store;
	all->jobs = jobs;
	all->host = *host;
	all->fingerprint = mem_strdup("");
	jobs_bind(jobs, JOB_IDENTITIES, load, all);
	jobs_bind(jobs, JOB_IDENTITY_USES, write_uses, all);
	return all;
}

void identities_destroy(struct identities *all)
{
	struct row *row, *next;
	struct identity *i, *next_identity;
	if (!all)
		return;
	HASH_ITER (hh, all->rows, row, next) {
		LL_FOREACH_SAFE (row->identities, i, next_identity)
			identity_release(i);
		row_free(all, row);
	}
	free(all->fingerprint);
	free(all->key);
	free(all);
}
