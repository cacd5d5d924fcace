/* What a caller may act for: workers that its identity has registered, tasks and batches that it has submitted; an admin for all. */
#ifndef REEVE_MANAGER_SERVICE_OWNERSHIP_H
#define REEVE_MANAGER_SERVICE_OWNERSHIP_H

#include "manager/service/services.h"

/* Returns false if the caller may act for the incarnation, which may have ended. Otherwise it fails the call, or reads whose the
 * incarnation is and calls `method` again. */
bool owner_wait(struct services *services, struct rpc_call *call, const ProtobufCMessage *message, rpc_method *method,
    int64_t incarnation);

/* Returns false if the caller may see these tasks and batches, of which some may not exist: it sees everything, or they are its own.
 * Otherwise it fails the call, or reads whose they are and calls `method` again. */
bool foreign_wait(struct services *services, struct rpc_call *call, const ProtobufCMessage *message, rpc_method *method,
    const int64_t *tasks, size_t task_count, const int64_t *batches, size_t batch_count);

#endif
