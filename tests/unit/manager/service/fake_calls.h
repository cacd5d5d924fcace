/* The functions of the RPC server that the services call, and callbacks_counters. */
#ifndef REEVE_TESTS_UNIT_MANAGER_SERVICE_FAKE_CALLS_H
#define REEVE_TESTS_UNIT_MANAGER_SERVICE_FAKE_CALLS_H

#include "common/rpc/server.h"
#include "common/uuid.h"

enum { ORIGIN = 77 };

struct rpc_call {
	const struct rpc_entry *entry;
	uint8_t request_id[UUID_BYTES];
	int answers;
	reeve_status code;
	char problem[512];
};

#endif
