/* The common part of all calls that one statement answers. */
#include "manager/service/reading.h"

#include "common/field.h"

#include <stdlib.h>
#include <string.h>

/* A task takes less in an answer without its details, result and stack trace. */
enum { TASK_OTHER_BYTES = 32 << 10 };

enum { PAGE_BYTES = 1 << 20 };

static ProtobufCMessage *copy_of(const ProtobufCMessage *request)
{
	ProtobufCMessage *copy = mem_malloc(request->descriptor->sizeof_message);
	memcpy(copy, request, request->descriptor->sizeof_message);
	return copy;
}

/* Returns the maximum size of a page. While the thread converts its rows, it does nothing else. */
static int64_t page_bytes(int64_t max_answer_bytes)
{
	return max_answer_bytes < PAGE_BYTES ? max_answer_bytes : PAGE_BYTES;
}

void reading_begin(struct reading *r, struct services *s, struct rpc_call *call, enum store_read_kind kind,
    const ProtobufCMessage *request, const ProtobufCMessageDescriptor *descriptor, reading_done_fn *done)
{
	int64_t sent_max = s->core->base.options.max_sent_bytes;
	r->call = call;
	r->services = s;
	r->request = request ? copy_of(request) : NULL;
	r->response = mem_malloc(descriptor->sizeof_message);
	descriptor->message_init(r->response);
	if (s->names_warning && *s->names_warning)
		reading_warn(r, s->names_warning);
	r->op = (struct store_read){
	    .op = service_op(s, call, done),
	    .kind = kind,
	    .request = r->request,
	    .lease_ms = s->core->base.options.lease_ms,
	    .max_bytes = page_bytes(s->core->base.options.max_answer_bytes),
	    .max_task = (int64_t)s->max_message_bytes - TASK_OTHER_BYTES,
	    .max_details = sent_max ? sent_max : INT64_MAX,
	    .response = r->response,
	};
}

void reading_warn(struct reading *r, const char *warning)
{
	const ProtobufCFieldDescriptor *field =
	    protobuf_c_message_descriptor_get_field_by_name(r->response->descriptor, "warning");
	char **text = field ? field_at(r->response, field) : NULL;
	if (!text)
		return;
	if (**text)
		free(*text);
	*text = *warning ? mem_strdup(warning) : (char *)field->default_value;
}

void reading_begin_of(struct reading *r, struct services *s, struct rpc_call *call, enum sql_id statement,
    const ProtobufCMessage *request, reading_done_fn *done)
{
	reading_begin(r, s, call, STORE_BOUND, request, sql_statements[statement].response, done);
	r->op.statement = &sql_statements[statement];
}

struct reading *reading_of(struct services *s, struct rpc_call *call, enum sql_id statement,
    const ProtobufCMessage *request, reading_done_fn *done)
{
	struct reading *r = mem_calloc(1, sizeof *r);
	reading_begin_of(r, s, call, statement, request, done);
	return r;
}

static void on_caller_gone(void *arg)
{
	store_read_drop(arg);
}

void reading_change(struct reading *r, char *change)
{
	r->op.kind = STORE_CHANGE;
	r->op.request_id = rpc_call_request_id(r->call);
	r->op.actor = rpc_call_actor(r->call);
	r->op.change = r->change = change;
}

void reading_send(struct reading *r)
{
	if (r->op.kind != STORE_CHANGE)
		rpc_call_on_closed(r->call, on_caller_gone, &r->op);
	store_read(r->services->core->base.store, &r->op);
}

void reading_free(struct reading *r)
{
	protobuf_c_message_free_unpacked(r->response, NULL);
	free(r->request);
	free(r->change);
	free(r);
}

void reading_end_with(struct reading *r, const ProtobufCMessage *answer, const struct reeve_error *error)
{
	if (error)
		rpc_call_fail_error(r->call, error);
	else
		rpc_call_reply(r->call, answer);
	reading_free(r);
}

void reading_end(struct reading *r, const struct reeve_error *error)
{
	reading_end_with(r, r->response, error);
}

void reading_done(struct store_op *op, const struct reeve_error *error)
{
	reading_end((struct reading *)op, error);
}
