/* The server's own transport: envelopes in nng's request/reply protocol. */
#include "common/rpc/server_internal.h"

static bool read_envelope(void *arg, struct frame *frame, struct rpc_message *message, struct reeve_error *error)
{
	struct reeve_error problem;

	(void)arg;
	message->id = frame_id(frame);
	if (envelope_read_request(frame_body(frame), frame->length, &message->envelope, &problem))
		return true;
	return error_set(error, problem.code, "call envelope: %s", problem.message);
}

static struct frame *respond(
    void *arg, uint32_t id, uint32_t form, const ProtobufCMessage *response, size_t max, struct reeve_error *error)
{
	struct frame *reply = envelope_write_response(response, max, error);

	(void)arg, (void)form;
	if (reply)
		frame_seal(reply, id);
	return reply;
}

static struct frame *refuse(void *arg, uint32_t id, uint32_t form, reeve_status code, const char *message)
{
	struct frame *reply = envelope_write_error(code, message);

	(void)arg, (void)form;
	frame_seal(reply, id);
	return reply;
}

const struct rpc_transport server_nng = {
    .scheme = "tcp",
    .read = read_envelope,
    .respond = respond,
    .refuse = refuse,
};
