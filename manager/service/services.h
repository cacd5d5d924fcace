/*
 * The services: each method checks its request, turns it into the core's terms, and the core's answer into a response.
 * Nothing is decided here.
 */
#ifndef REEVE_MANAGER_SERVICE_SERVICES_H
#define REEVE_MANAGER_SERVICE_SERVICES_H

#include "common/rpc/server.h"
#include "manager/callbacks/callbacks.h"
#include "manager/core/core.h"

struct services {
	struct core *core;
	const struct callbacks *callbacks;
	struct rpc_server *server;
	const char *manager_name;
	size_t max_message_bytes;
	bool names_fresh; /* a call is taken up again for which the names were read: see names_wait */
};

/* Adds all services to the server. `services` must outlive it. */
void services_add(struct services *services);

/* The methods of each. */
extern const struct rpc_entry task_methods[], worker_methods[], admin_methods[], batch_methods[], queue_methods[],
    schedule_methods[], pipeline_methods[], metric_methods[];

/* When an operation made for this call is to be given up: monotonic, a little before the caller gives up. */
int64_t service_deadline(const struct services *services, const struct rpc_call *call);

/* Changing calls must be repeatable: they need a request id that is one, and not too old. */
bool service_has_request_id(const struct services *services, const struct rpc_call *call, struct reeve_error *error);

#endif
