/*
 * The scope of an identity: the queues, types, categories of metrics and hosts of callbacks that it may use, and its
 * own tasks. Functions return true, or false with PERMISSION_DENIED in *error, which names the field.
 */
#ifndef REEVE_MANAGER_ACCESS_SCOPE_H
#define REEVE_MANAGER_ACCESS_SCOPE_H

#include "manager/access/identities.h"

bool scope_queue(const struct rpc_identity *identity, const char *field, const char *queue, struct reeve_error *error);
bool scope_type(const struct rpc_identity *identity, const char *field, const char *type, struct reeve_error *error);
bool scope_metric(
    const struct rpc_identity *identity, const char *field, const char *category, struct reeve_error *error);

/* Returns whether the identity is limited to some queues or types. */
bool scope_is_limited(const struct rpc_identity *identity);

/* Check the names of queues or types that a worker accepts. An empty list stands for all, and becomes the list of those
 * that the identity may use. */
bool scope_accept_queues(
    const struct rpc_identity *identity, const char ***queues, size_t *count, struct reeve_error *error);
bool scope_accept_types(
    const struct rpc_identity *identity, const char ***types, size_t *count, struct reeve_error *error);

/* Returns the hosts of callbacks as in --callback-hosts, which the caller must free; NULL: any. */
char *scope_callback_hosts(const struct rpc_identity *identity);

/* Returns the identity's number in the table; 0: it is not there. */
int64_t scope_identity(const struct rpc_identity *identity);

/* Returns the identity that owns the workers that this caller registers, or, of an attempt, its worker. It may act only
 * for workers of that one. 0: an admin, who may act for all. */
int64_t scope_owner(const struct rpc_identity *identity);

/* Returns the task whose handler is the caller; 0: the caller is no handler. */
int64_t scope_parent(const struct rpc_identity *identity);

/* Checks whether the identity may report the progress of an attempt: as a worker, whose attempt that must be, or as its
 * handler. */
bool scope_attempt(
    const struct rpc_identity *identity, const char *field, int64_t task, int64_t token, struct reeve_error *error);

/* Returns whether the identity may see everything. scope_owns returns whether it may see tasks with this source. */
bool scope_sees_all(const struct rpc_identity *identity);
bool scope_owns(const struct rpc_identity *identity, const char *source);

#endif
