/* Inside the fake manager: its state, and its methods, which run on its thread. */
#ifndef REEVE_TESTS_CLIENT_FAKE_SERVER_INTERNAL_H
#define REEVE_TESTS_CLIENT_FAKE_SERVER_INTERNAL_H

#include "tests/unit/client/fake_server.h"
#include "tests/unit/fake_host.h"

#include <reeve/v1/task.pb-c.h>

enum { MAX_HELD = 16 };

#define ENDED_FIRST REEVE__V1__TASK_STATUS__TASK_STATUS_COMPLETED

/* A Wait without an answer yet. */
struct waiting {
	struct rpc_call *call;
	const Reeve__V1__WaitRequest *request;
	int64_t end_ms;
	struct waiting *prev, *next;
};

struct held {
	struct rpc_call *call;
	const Reeve__V1__SubmitRequest *request;
};

struct fake_server {
	struct fake_host host;
	/* Guarded by the host's lock. */
	Reeve__V1__Task **tasks; /* by id − 1 */
	size_t n_tasks, capacity;
	struct waiting *waits;
	size_t n_waits, max_ids, cut;
	struct fake_server_submit submits[FAKE_SERVER_SUBMITS];
	size_t n_submits;
	struct held held[MAX_HELD];
	int n_held, hold;
	int fail_after, fail_count;
	reeve_status fail_code;
	int end_as;
	int unsure;
	char poison[32];
	char reason[256];
};

/* Returns a task, or NULL if there is none. Needs the lock. */
Reeve__V1__Task *fake_server_find_task(struct fake_server *fake_server, int64_t id);

/* Ends a task, as fake_server_end does. Needs the lock. */
void fake_server_end_task(Reeve__V1__Task *task, int status, const char *text);

/* Answers the Waits of the fake server `arg` that are due. Takes the lock. */
void fake_server_answer_waits(void *arg);

/* The methods: those of TaskService, and those of the other services. */
void fake_server_serve_submit(void *service, struct rpc_call *call, const ProtobufCMessage *message);
void fake_server_serve_submit_and_wait(void *service, struct rpc_call *call, const ProtobufCMessage *message);
void fake_server_serve_get(void *service, struct rpc_call *call, const ProtobufCMessage *message);
void fake_server_serve_list(void *service, struct rpc_call *call, const ProtobufCMessage *message);
void fake_server_serve_wait(void *service, struct rpc_call *call, const ProtobufCMessage *message);
void fake_server_serve_cancel(void *service, struct rpc_call *call, const ProtobufCMessage *message);
void fake_server_serve_retry(void *service, struct rpc_call *call, const ProtobufCMessage *message);
void fake_server_serve_update(void *service, struct rpc_call *call, const ProtobufCMessage *message);
void fake_server_serve_audit(void *service, struct rpc_call *call, const ProtobufCMessage *message);

extern const struct rpc_entry fake_server_admin_methods[], fake_server_worker_methods[];

#endif
