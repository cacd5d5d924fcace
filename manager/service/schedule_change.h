/* The definitions in requests, as the JSON that the function schedule_changed takes. */
#ifndef REEVE_MANAGER_SERVICE_SCHEDULE_CHANGE_H
#define REEVE_MANAGER_SERVICE_SCHEDULE_CHANGE_H

#include "manager/service/services.h"

#include <reeve/v1/schedule.pb-c.h>

/* Check the request and return all its fields, or the named fields, as JSON; free it. Return NULL with the problem in
 * *error. */
char *schedule_addition(const struct services *services, const struct rpc_call *call, const ProtobufCMessage *request,
    struct reeve_error *error);
char *schedule_change(const struct services *services, const struct rpc_call *call, const ProtobufCMessage *request,
    struct reeve_error *error);

#endif
