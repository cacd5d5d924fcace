/* Idempotency keys of calls. */
#ifndef REEVE_MANAGER_SERVICE_CALL_KEYS_H
#define REEVE_MANAGER_SERVICE_CALL_KEYS_H

#include "manager/service/services.h"

/* Finds the request id of a call, for rpc_server_keys; `arg` are the services. */
rpc_find_key call_key_find;

#endif
