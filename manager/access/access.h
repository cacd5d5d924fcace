/* Who calls the manager: the guard of its server (rpc_guard). The tables of methods have the roles for each. */
#ifndef REEVE_MANAGER_ACCESS_ACCESS_H
#define REEVE_MANAGER_ACCESS_ACCESS_H

#include "common/rpc/server.h"

#include <reeve/v1/token.pb-c.h>

#define ROLE(name) (UINT32_C(1) << REEVE__V1__ROLE__ROLE_##name)

/* The roles that may call a method. An admin has them all. A submitter sees and closes only what is its own. */
#define MAY_READ (ROLE(READER) | ROLE(OPERATOR))
#define MAY_SUBMIT ROLE(SUBMITTER)
#define MAY_READ_OWN (MAY_READ | ROLE(SUBMITTER))
#define MAY_CLOSE (ROLE(SUBMITTER) | ROLE(OPERATOR))
#define MAY_WORK (ROLE(WORKER) | ROLE(MANUAL_WORKER))
#define MAY_HEARTBEAT ROLE(WORKER)
#define MAY_OPERATE ROLE(OPERATOR)
#define MAY_SET_METRICS ROLE(METRIC_WRITER)

struct access;

/* Sets the server's guard. */
struct access *access_create(struct rpc_server *server);

/* Call it after the server was destroyed. */
void access_destroy(struct access *access);

#endif
