/*
 * The services. Each method checks its request, converts it for the core, and converts the core's answer to a response.
 * Decisions are made in the core.
 */
#ifndef REEVE_MANAGER_SERVICE_SERVICES_H
#define REEVE_MANAGER_SERVICE_SERVICES_H

#include "common/rpc/server.h"
#include "manager/access/access.h"
#include "manager/callbacks/callbacks.h"
#include "manager/core/core.h"

struct scrape;
struct traces;

struct services {
	struct core *core;
	const struct callbacks *callbacks;
	struct rpc_server *server;
	struct access *access;
	struct tls *tls; /* NULL: no certificate */
	const char *manager_name;
	size_t max_message_bytes;
	int64_t started_us; /* when the manager started, by its own clock */
	struct scrape *scrape;
	struct traces *traces; /* NULL: there are none */
	/* While a method is called again after names were looked up (names_wait): the warning, or "". Otherwise NULL. */
	const char *names_warning;
	/* While a method is called again after its worker was found to have ended (owner_wait): the incarnation. Otherwise
	 * 0. */
	int64_t ended_incarnation;
	/* While a method is called again after its objects were found to be the caller's (foreign_wait). */
	bool objects_own;
};

/* Adds all services to the server. `services` must outlive it. */
void services_add(struct services *services);

/* Returns the time of the database's clock, or of this machine's until a heartbeat has read the other. */
int64_t services_now_us(const struct services *services);

/* The methods of each service. */
extern const struct rpc_entry task_methods[], worker_methods[], admin_methods[], batch_methods[], queue_methods[],
    schedule_methods[], pipeline_methods[], metric_methods[], token_methods[];

/* Returns the deadline of the call's operations: monotonic, a little before the caller's deadline. */
int64_t service_deadline(const struct services *services, const struct rpc_call *call);

/* Returns the common part of an operation for the call, which calls `done`. */
struct store_op service_op(const struct services *services, const struct rpc_call *call,
    void (*done)(struct store_op *op, const struct reeve_error *error));

/* Checks that the call has a valid request id that is not too old. Changing calls need one, so that they can be
 * repeated. */
bool service_has_request_id(const struct services *services, const struct rpc_call *call, struct reeve_error *error);

#endif
