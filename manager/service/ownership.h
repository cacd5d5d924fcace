/* Ownership: a caller may act for the workers that its identity has registered and for the tasks and batches that it
 * has submitted; an admin for all. */
#ifndef REEVE_MANAGER_SERVICE_OWNERSHIP_H
#define REEVE_MANAGER_SERVICE_OWNERSHIP_H

#include "manager/service/services.h"

/* Returns false if the caller may act for the incarnation, which may have ended. Otherwise fails the call, or reads the
 * incarnation's owner and calls `method` again. */
bool owner_wait(struct services *services, struct rpc_call *call, const ProtobufCMessage *message, rpc_method *method,
    int64_t incarnation);

/* Returns whether an admin acts for a worker that another caller has registered: the incarnation's owner is an
 * identity, or is not known here and the caller has a name. */
bool owner_differs(const struct services *services, const struct rpc_identity *identity, int64_t incarnation);

/* Returns false if the caller may see these tasks, and may fill and close these batches, which need not exist.
 * Otherwise fails the call, or reads their owners and calls `method` again. */
bool foreign_wait(struct services *services, struct rpc_call *call, const ProtobufCMessage *message, rpc_method *method,
    const int64_t *tasks, size_t task_count, const int64_t *batches, size_t batch_count);

#endif
