/*
 * The guard of the manager's server (rpc_guard): it identifies callers. The tables of methods have the roles for each.
 *
 * A caller has the identity of its access token. Without a token it has the identity that its certificate names, or on
 * an ipc socket the one of its user; root and the manager's own user are admins. All other callers on this machine are
 * admins, unless `required`. Other machines' callers without an identity are refused.
 */
#ifndef REEVE_MANAGER_ACCESS_ACCESS_H
#define REEVE_MANAGER_ACCESS_ACCESS_H

#include "manager/access/identities.h"

#define ROLE(name) (UINT32_C(1) << REEVE__V1__ROLE__ROLE_##name)

/* The roles that may call a method. An admin has all roles. A submitter sees and closes only its own tasks and batches.
 */
#define MAY_READ (ROLE(READER) | ROLE(OPERATOR))
#define MAY_SUBMIT ROLE(SUBMITTER)
#define MAY_READ_OWN (MAY_READ | ROLE(SUBMITTER))
#define MAY_CLOSE (ROLE(SUBMITTER) | ROLE(OPERATOR))
#define MAY_WORK (ROLE(WORKER) | ROLE(MANUAL_WORKER))
#define MAY_REPORT (MAY_WORK | ROLE(SUBMITTER)) /* a handler has that one, for its own attempt: scope_attempt */
#define MAY_HEARTBEAT ROLE(WORKER)
#define MAY_OPERATE ROLE(OPERATOR)
#define MAY_SET_METRICS ROLE(METRIC_WRITER)
#define MAY_ADMINISTER ROLE(ADMIN)
#define MAY_ANY_IDENTITY (RPC_ANYONE - 1)

struct access_options {
	bool required;                     /* callers on this machine need an identity, too */
	int64_t (*database_us)(void *arg); /* returns the database's time; 0: it is not known yet */
	void *arg;
};

struct access;

/* Sets the server's guard, and binds the jobs of identities. */
struct access *access_create(
    struct rpc_server *server, struct store *store, struct jobs *jobs, const struct access_options *options);

/* Reads the identities of now, then calls `done`. */
void access_reload(struct access *access, int64_t deadline_ms, identities_done *done, void *arg);

/* Call it after the server was destroyed. */
void access_destroy(struct access *access);

#endif
