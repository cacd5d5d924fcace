/* BatchService: tasks that are counted together, and what is told of them. */
#include "manager/service/services.h"

#include <reeve/v1/batch.pb-c.h>

/* In the contract, and not built yet. */
static void unbuilt(void *service, struct rpc_call *call, const ProtobufCMessage *message)
{
	(void)service;
	(void)message;
	rpc_call_fail(call, STATUS(UNIMPLEMENTED), "not built yet");
}

rpc_method *const batch_methods[] = {unbuilt, unbuilt, unbuilt, unbuilt, unbuilt};
