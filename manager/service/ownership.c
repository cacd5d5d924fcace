/* A session remembers whose an incarnation is: that never changes. */
#include "manager/service/ownership.h"

#include "manager/access/scope.h"
#include "manager/core/sessions.h"

#include <stdlib.h>
#include <string.h>

struct owner_wait {
	struct store_poll op;
	struct services *services;
	struct rpc_call *call;
	const ProtobufCMessage *message;
	rpc_method *method;
};

static void on_polled(struct store_op *op, const struct reeve_error *error)
{
	struct owner_wait *w = (struct owner_wait *)op;
	struct services *s = w->services;
	if (error) {
		rpc_call_fail_error(w->call, error);
	} else if (rpc_call_gone(w->call)) {
		rpc_call_fail(w->call, STATUS(CANCELLED), "the caller has gone");
	} else {
		if (w->op.lost)
			s->ended_incarnation = w->op.incarnation;
		else
			sessions_live(s->core->sessions, w->op.incarnation)->identity = w->op.identity;
		w->method(s, w->call, w->message);
		s->ended_incarnation = 0;
	}
	free(w);
}

bool owner_wait(
    struct services *s, struct rpc_call *call, const ProtobufCMessage *message, rpc_method *method, int64_t incarnation)
{
	int64_t owner = scope_owner(rpc_call_identity(call));
	if (!owner || incarnation == s->ended_incarnation)
		return false;
	const struct session *session = sessions_find(s->core->sessions, incarnation);
	if (session && session->identity == owner)
		return false;
	/* Of a lost one every caller may learn that it is lost: its worker may have another identity by now. */
	if (session && session->identity >= 0 && session->state != SESSION_LOST) {
		rpc_call_fail(call, STATUS(PERMISSION_DENIED), "incarnation: %lld was not registered by \"%s\"",
		    (long long)incarnation, rpc_call_identity(call)->name);
		return true;
	}
	struct owner_wait *w = mem_calloc(1, sizeof *w);
	*w = (struct owner_wait){
	    {.op = service_op(s, call, on_polled), .incarnation = incarnation}, s, call, message, method};
	store_poll(s->core->base.store, &w->op);
	return true;
}

bool owner_differs(const struct services *s, const struct rpc_identity *identity, int64_t incarnation)
{
	const struct session *session = sessions_find(s->core->sessions, incarnation);
	if (scope_owner(identity))
		return false;
	return session && session->identity >= 0 ? session->identity > 0 : *identity->name != '\0';
}

struct foreign_wait {
	struct store_foreign op;
	struct services *services;
	struct rpc_call *call;
	const ProtobufCMessage *message;
	rpc_method *method;
	int64_t ids[];
};

static void on_found(struct store_op *op, const struct reeve_error *error)
{
	struct foreign_wait *w = (struct foreign_wait *)op;
	struct services *s = w->services;
	if (error) {
		rpc_call_fail_error(w->call, error);
	} else if (w->op.task) {
		rpc_call_fail(w->call, STATUS(NOT_FOUND), "there is no task %lld", (long long)w->op.task);
	} else if (rpc_call_gone(w->call)) {
		rpc_call_fail(w->call, STATUS(CANCELLED), "the caller has gone");
	} else if (w->op.batch) {
		rpc_call_fail(w->call, STATUS(NOT_FOUND), "there is no batch %lld", (long long)w->op.batch);
	} else {
		s->objects_own = true;
		w->method(s, w->call, w->message);
		s->objects_own = false;
	}
	free(w);
}

bool foreign_wait(struct services *s, struct rpc_call *call, const ProtobufCMessage *message, rpc_method *method,
    const int64_t *tasks, size_t task_count, const int64_t *batches, size_t batch_count)
{
	const struct rpc_identity *identity = rpc_call_identity(call);
	uint32_t for_all = batch_count ? MAY_OPERATE : MAY_READ; /* who sees a batch may not change it for that */
	if (s->objects_own || identity->roles & for_all || task_count + batch_count == 0)
		return false;
	struct foreign_wait *w = mem_calloc(1, sizeof *w + sizeof *w->ids * (task_count + batch_count));
	if (task_count)
		memcpy(w->ids, tasks, sizeof *tasks * task_count);
	if (batch_count)
		memcpy(w->ids + task_count, batches, sizeof *batches * batch_count);
	w->services = s;
	w->call = call;
	w->message = message;
	w->method = method;
	w->op = (struct store_foreign){
	    .op = service_op(s, call, on_found),
	    .owner = identity->name,
	    .task_count = (int)task_count,
	    .batch_count = (int)batch_count,
	    .tasks = w->ids,
	    .batches = w->ids + task_count,
	};
	store_foreign(s->core->base.store, &w->op);
	return true;
}
