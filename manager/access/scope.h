/*
 * What an identity may use: queues, types, categories of metrics, hosts of callbacks, and what is its own. Functions return
 * true, or false with PERMISSION_DENIED in *error, which names the field.
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

/* Checks the names of queues or types that a worker accepts. No names stand for all: then they become those that the identity is
 * limited to. */
bool scope_accept_queues(
    const struct rpc_identity *identity, const char ***queues, size_t *count, struct reeve_error *error);
bool scope_accept_types(
    const struct rpc_identity *identity, const char ***types, size_t *count, struct reeve_error *error);

/* Returns the hosts of callbacks as in --callback-hosts, which the caller must free; NULL: any. */
char *scope_callback_hosts(const struct rpc_identity *identity);

/* Returns the identity's number in the table; 0: it is not there. */
int64_t scope_identity(const struct rpc_identity *identity);

/* Returns the identity to which workers belong that this caller registers, and which alone it may act for; 0: an admin, who may
 * act for all. */
int64_t scope_owner(const struct rpc_identity *identity);

/* Returns the task whose handler calls; 0: no handler. */
int64_t scope_parent(const struct rpc_identity *identity);

/* Return whether the identity may see everything; whether it may see what has this source, its own. */
bool scope_sees_all(const struct rpc_identity *identity);
bool scope_owns(const struct rpc_identity *identity, const char *source);

#endif
