/* The methods of the scripted manager (scripted_methods.c). They are called on its thread. */
#ifndef REEVE_TESTS_SCRIPTED_INTERNAL_H
#define REEVE_TESTS_SCRIPTED_INTERNAL_H

#include "scripted_manager.h"

/* An answer to a Fetch, and its memory. */
struct script_answer {
	Reeve__V1__FetchResponse response;
	Reeve__V1__Assignment *assignments;
	Reeve__V1__Assignment **pointers;
	Reeve__V1__WorkerCommand commands[SCRIPT_COMMANDS_MAX], *command_pointers[SCRIPT_COMMANDS_MAX];
};

void script_ping(void *arg, struct rpc_call *call, const ProtobufCMessage *request);
void script_admin(void *arg, struct rpc_call *call, const ProtobufCMessage *request);
void script_register(void *arg, struct rpc_call *call, const ProtobufCMessage *message);
void script_fetch(void *arg, struct rpc_call *call, const ProtobufCMessage *message);
void script_report(void *arg, struct rpc_call *call, const ProtobufCMessage *message);
void script_heartbeat(void *arg, struct rpc_call *call, const ProtobufCMessage *message);
void script_leave(void *arg, struct rpc_call *call, const ProtobufCMessage *request);
void script_extend(void *arg, struct rpc_call *call, const ProtobufCMessage *message);
void script_progress(void *arg, struct rpc_call *call, const ProtobufCMessage *message);

/* Composes the answer to a Fetch: for a repeated Fetch the tasks that it got before, if any; otherwise tasks that are
 * queued. Needs the lock. */
void script_answer_fetch(struct script *script, int64_t incarnation, int64_t fetch_id, uint32_t slots, bool again,
    struct script_answer *answer);
void script_answer_free(struct script_answer *answer);

#endif
