/* What all calls that only read have in common. */
#include "manager/service/reading.h"

#include <stdlib.h>

void reading_begin(struct reading *r, struct services *s, struct rpc_call *call, enum store_read_kind kind,
    const ProtobufCMessageDescriptor *descriptor, void (*done)(struct store_op *op, const struct reeve_error *error))
{
	r->call = call;
	r->services = s;
	r->response = malloc(descriptor->sizeof_message);
	descriptor->message_init(r->response);
	r->op = (struct store_read){
	    .op.done = done,
	    .op.deadline_ms = service_deadline(s, call),
	    .op.origin = rpc_call_origin(call),
	    .kind = kind,
	    .lease_ms = s->core->options.lease_ms,
	    .most_bytes = s->core->options.max_answer_bytes,
	    .response = r->response,
	};
}

static void on_caller_gone(void *arg)
{
	store_read_drop(arg);
}

void reading_send_op(struct services *s, struct rpc_call *call, struct store_read *op)
{
	rpc_call_on_closed(call, on_caller_gone, op);
	store_read(s->core->store, op);
}

void reading_send(struct reading *r)
{
	reading_send_op(r->services, r->call, &r->op);
}

void reading_end(struct reading *r, const struct reeve_error *error)
{
	if (error)
		rpc_call_fail_error(r->call, error);
	else
		rpc_call_reply(r->call, r->response);
	protobuf_c_message_free_unpacked(r->response, NULL);
	free(r);
}

void reading_done(struct store_op *op, const struct reeve_error *error)
{
	reading_end((struct reading *)op, error);
}
