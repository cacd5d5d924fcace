/* Runs the commands that make one call. */
#include "client/cmd/call.h"

#include "client/cmd/command.h"
#include "client/cmd/fields.h"
#include "common/mem.h"

#include <stdlib.h>
#include <string.h>

/* Reads an operand that is an id. Returns false with *code set after an error message. */
static bool take_id(const struct call *call, int operands, char **argv, int64_t *id, int *code)
{
	if (operands == 0) {
		*code = command_usage(
		    &call->options, "the %s's id is missing; `reeve %s list` lists the ids", call->noun, call->noun);
		return false;
	}
	if (operands > 1) {
		*code = command_usage(&call->options, "too many arguments: give one %s", call->noun);
		return false;
	}
	if (command_number(argv[1], id))
		return true;
	*code = command_usage(&call->options, "\"%s\" is not a %s id; ids are whole numbers from 1", argv[1], call->noun);
	return false;
}

static bool take_operand(const struct call *call, ProtobufCMessage *request, int operands, char **argv, int *code)
{
	const ProtobufCFieldDescriptor *field;
	const char *name;
	void *at;

	if (!call->operand) {
		if (operands > 0)
			*code = command_usage(&call->options, "unexpected argument \"%s\"", argv[1]);
		return operands == 0;
	}
	if (call->optional && operands == 0)
		return true;
	at = fields_at(request, call->operand, &field);
	if (field->type != PROTOBUF_C_TYPE_STRING)
		return take_id(call, operands, argv, at, code);
	name = command_operand(&call->options, call->noun, operands, argv, code);
	*(const char **)at = name;
	return name != NULL;
}

/* Sets the request from the command line. Returns false with *code set to exit. */
static bool take_request(const struct call *call, struct call_options *options, struct shared_options *shared, int argc,
    char **argv, int *code)
{
	ProtobufCMessage *request = options->request.message;
	const ProtobufCFieldDescriptor *field;
	const char *problem;
	int operands;

	if (!command_options(&call->options, options, shared, argc, argv, &operands, code) ||
	    !take_operand(call, request, operands, argv, code))
		return false;
	if (call->preset)
		*(int *)fields_at(request, call->preset, &field) = call->value;
	problem = call->complete ? call->complete(request) : NULL;
	if (problem)
		*code = command_usage(&call->options, "%s", problem);
	return !problem;
}

void call_print(
    const struct call *call, struct reeve_client *client, const void *request, const void *answer, bool json)
{
	int64_t now_us = reeve_client_now_us(client);

	command_warn(answer);
	if (json && call->print_json)
		call->print_json(call, request, answer);
	else if (json)
		command_print_json(answer);
	else if (call->print)
		call->print(call, request, answer, now_us);
	else
		fields_lines(call->width, call->list.columns, answer, now_us);
}

/* Makes the call and prints the answer. Returns the exit code. */
static int make(const struct call *call, struct reeve_client *client, void *request, bool json)
{
	struct reeve_failure failure = {0};
	const ProtobufCFieldDescriptor *field;
	void *answer = reeve_call(client, call->list.service, call->list.method, request, NULL, &failure);
	const void *shown = answer && call->part ? *(void **)fields_at(answer, call->part, &field) : answer;
	int code = EXIT_OK;

	if (!answer) {
		code = call->changes ? command_change_failed(&failure) : command_failed(&failure);
	} else if (!shown) {
		command_log("the manager answered without the %s", call->part);
		code = EXIT_REFUSED;
	} else {
		call_print(call, client, request, shown, json);
	}
	reeve_free(answer);
	return code;
}

static int list(const struct call *call, struct reeve_client *client, void *request, int64_t limit, bool json)
{
	int64_t listed = 0;
	int code = list_print(&call->list, client, request, limit, json, call->empty ? &listed : NULL);

	if (code != EXIT_OK || !call->empty || listed > 0)
		return code;
	code = call->empty(client, request);
	if (code == EXIT_OK && !json)
		fprintf(stderr, "no %s\n", call->list.items);
	return code;
}

int call_run(const struct call *call, int argc, char **argv)
{
	const ProtobufCMessageDescriptor *descriptor =
	    protobuf_c_service_descriptor_get_method_by_name(call->list.service, call->list.method)->input;
	struct call_options options = {.request.message = mem_malloc(descriptor->sizeof_message), .limit = INT64_MAX};
	struct shared_options shared = {0};
	struct reeve_client *client = NULL;
	int code;

	protobuf_c_message_init(descriptor, options.request.message);
	if (take_request(call, &options, &shared, argc, argv, &code))
		client = call->changes ? command_connect_to_change(&shared, &code) : command_connect(&shared, &code);
	if (client && call->list.items)
		code = list(call, client, options.request.message, options.limit, shared.json);
	else if (client)
		code = make(call, client, options.request.message, shared.json);
	command_disconnect(client);
	free(options.request.message);
	return code;
}
