#include "manager/access/scope.h"

#include "common/mem.h"
#include "manager/access/access.h"

#include <stdlib.h>
#include <string.h>

/* A list of Rights; empty: there is no limit. */
struct names {
	const char **items;
	size_t count;
};

static const Reeve__V1__Rights *rights_of(const struct rpc_identity *identity)
{
	static const Reeve__V1__Rights all = REEVE__V1__RIGHTS__INIT;
	const Reeve__V1__Rights *rights = ((const struct identity *)identity)->rights;
	return rights ? rights : &all;
}

static struct names queues_of(const struct rpc_identity *identity)
{
	const Reeve__V1__Rights *r = rights_of(identity);
	return (struct names){r->queues, r->n_queues};
}

static struct names types_of(const struct rpc_identity *identity)
{
	const Reeve__V1__Rights *r = rights_of(identity);
	return (struct names){r->types, r->n_types};
}

static bool check(const struct rpc_identity *identity, struct names limit, const char *what, const char *field,
    const char *name, struct reeve_error *error)
{
	for (size_t i = 0; i < limit.count; i++)
		if (!strcmp(limit.items[i], name))
			return true;
	return !limit.count ||
	    error_set(error, STATUS(PERMISSION_DENIED), "%s: \"%s\" may not use the %s \"%s\"", field, identity->name, what,
	        name);
}

bool scope_queue(const struct rpc_identity *identity, const char *field, const char *queue, struct reeve_error *error)
{
	return check(identity, queues_of(identity), "queue", field, queue, error);
}

bool scope_type(const struct rpc_identity *identity, const char *field, const char *type, struct reeve_error *error)
{
	return check(identity, types_of(identity), "type", field, type, error);
}

bool scope_metric(
    const struct rpc_identity *identity, const char *field, const char *category, struct reeve_error *error)
{
	const Reeve__V1__Rights *r = rights_of(identity);
	return check(identity, (struct names){r->metrics, r->n_metrics}, "category", field, category, error);
}

bool scope_is_limited(const struct rpc_identity *identity)
{
	return types_of(identity).count > 0 || queues_of(identity).count > 0;
}

static bool accept_names(const struct rpc_identity *identity, struct names limit, const char *what, const char *field,
    const char ***names, size_t *count, struct reeve_error *error)
{
	for (size_t i = 0; i < *count; i++)
		if (!check(identity, limit, what, field, (*names)[i], error))
			return false;
	if (!*count) {
		*names = limit.items;
		*count = limit.count;
	}
	return true;
}

bool scope_accept_queues(
    const struct rpc_identity *identity, const char ***queues, size_t *count, struct reeve_error *error)
{
	return accept_names(identity, queues_of(identity), "queue", "queues", queues, count, error);
}

bool scope_accept_types(
    const struct rpc_identity *identity, const char ***types, size_t *count, struct reeve_error *error)
{
	return accept_names(identity, types_of(identity), "type", "types", types, count, error);
}

char *scope_callback_hosts(const struct rpc_identity *identity)
{
	const Reeve__V1__Rights *r = rights_of(identity);
	char *list = r->n_callback_hosts ? mem_strdup(r->callback_hosts[0]) : NULL;
	for (size_t i = 1; i < r->n_callback_hosts; i++) {
		char *longer = mem_asprintf("%s,%s", list, r->callback_hosts[i]);
		free(list);
		list = longer;
	}
	return list;
}

int64_t scope_identity(const struct rpc_identity *identity)
{
	return ((const struct identity *)identity)->id;
}

int64_t scope_owner(const struct rpc_identity *identity)
{
	const struct identity *i = (const struct identity *)identity;
	return (i->of ? i->of->rpc.roles : identity->roles) & MAY_ADMINISTER ? 0 : i->id;
}

int64_t scope_parent(const struct rpc_identity *identity)
{
	return ((const struct identity *)identity)->attempt.task_id;
}

bool scope_attempt(
    const struct rpc_identity *identity, const char *field, int64_t task, int64_t token, struct reeve_error *error)
{
	const struct credential *attempt = &((const struct identity *)identity)->attempt;
	return identity->roles & MAY_WORK || (attempt->task_id == task && attempt->token == token && task) ||
	    error_set(error, STATUS(PERMISSION_DENIED),
	        "%s: \"%s\" is no worker, and may report only with the access token of the attempt", field, identity->name);
}

bool scope_sees_all(const struct rpc_identity *identity)
{
	return identity->roles & MAY_READ;
}

bool scope_owns(const struct rpc_identity *identity, const char *source)
{
	return scope_sees_all(identity) || rpc_identity_owns(identity, source);
}
