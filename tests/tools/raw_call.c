/*
 * A client that does not use Reeve's own RPC client: nng's req0 socket with contexts, and protobuf-c for the envelope.
 * It shows that an ordinary socket can call a manager, and sends what Reeve's client would never send.
 *
 *	raw-call URL METHOD[,METHOD]… <BODY   calls each of these methods at once
 *	raw-call URL METHOD [COUNT] <BODY     sends COUNT calls at once, each with its own context and request id, of the
 *	                                      version RAW_CALL_CONTRACT of the contract, if that is set, and with the access
 *	                                      token REEVE_ACCESS_TOKEN
 *	raw-call URL - [COUNT] <MESSAGE       the same with the entire message, including its envelope, as it is
 *
 * Each answer is a line: the number of the status code, a blank and the message. For a successful call the line has its
 * response instead: in hexadecimal, or for a Submit the ids. Exit code 1 if an answer did not arrive within 10 s or was
 * invalid.
 */
#include "common/uuid.h"

#include <nng/nng.h>
#include <nng/protocol/reqrep0/req.h>

#include <inttypes.h>
#include <reeve/v1/envelope.pb-c.h>
#include <reeve/v1/task.pb-c.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LIMIT_MS = 10000, CALLS_MAX = 1000, INPUT_MAX = 16 * 1024 * 1024 };

struct call {
	const char *method;
	nng_ctx context;
	nng_aio *aio;
};

static void must(int code, const char *doing)
{
	if (!code)
		return;
	fprintf(stderr, "raw-call: %s: %s\n", doing, nng_strerror(code));
	exit(1);
}

/* Returns the message: the input itself, or an envelope around it. */
static nng_msg *message_of(const char *method, const uint8_t *input, size_t length)
{
	uint8_t id[UUID_BYTES];
	Reeve__V1__Request request = REEVE__V1__REQUEST__INIT;
	const char *version = getenv("RAW_CALL_CONTRACT"), *token = getenv("REEVE_ACCESS_TOKEN");
	nng_msg *message;

	if (!strcmp(method, "-")) {
		must(nng_msg_alloc(&message, length), "memory");
		memcpy(nng_msg_body(message), input, length);
		return message;
	}
	uuid7_make(time(NULL) * INT64_C(1000), id);
	request.method = (char *)method;
	if (token)
		request.token = token;
	request.request_id = (ProtobufCBinaryData){.len = sizeof id, .data = id};
	request.body = (ProtobufCBinaryData){.len = length, .data = (uint8_t *)input};
	request.contract = version ? (uint32_t)strtoul(version, NULL, 10) : REEVE__V1__CONTRACT__CONTRACT_CURRENT;
	must(nng_msg_alloc(&message, reeve__v1__request__get_packed_size(&request)), "memory");
	reeve__v1__request__pack(&request, nng_msg_body(message));
	return message;
}

static bool print_ids(const ProtobufCBinaryData *body)
{
	Reeve__V1__SubmitResponse *response = reeve__v1__submit_response__unpack(NULL, body->len, body->data);

	if (!response)
		return false;
	printf("0");
	for (size_t i = 0; i < response->n_tasks; i++)
		printf(" %" PRId64, response->tasks[i]->id);
	printf("\n");
	reeve__v1__submit_response__free_unpacked(response, NULL);
	return true;
}

static void print_bytes(const ProtobufCBinaryData *body)
{
	printf("0 ");
	for (size_t i = 0; i < body->len; i++)
		printf("%02x", body->data[i]);
	printf("\n");
}

static bool print_answer(const char *method, nng_msg *message)
{
	Reeve__V1__Reply *reply = reeve__v1__reply__unpack(NULL, nng_msg_len(message), nng_msg_body(message));
	const char *name = strrchr(method, '/');
	bool good = true;

	if (!reply) {
		fprintf(stderr, "raw-call: the answer is no Reply\n");
		return false;
	}
	if (reply->code == 0 && name && !strcmp(name, "/Submit"))
		good = print_ids(&reply->body);
	else if (reply->code == 0)
		print_bytes(&reply->body);
	else
		printf("%d %s\n", (int)reply->code, reply->message);
	reeve__v1__reply__free_unpacked(reply, NULL);
	return good;
}

int main(int argc, char **argv)
{
	static uint8_t input[INPUT_MAX];
	static struct call calls[CALLS_MAX];
	int count = argc > 3 ? atoi(argv[3]) : 1, code = 0, methods = 0;
	size_t length;
	nng_socket socket;

	if (argc < 3 || argc > 4 || count < 1 || count > CALLS_MAX) {
		fprintf(stderr, "Usage: raw-call URL METHOD|- [COUNT] <BODY\n");
		return 2;
	}
	for (char *name = strtok(argv[2], ","); name && methods < CALLS_MAX; name = strtok(NULL, ","))
		calls[methods++].method = name;
	for (int i = methods; i < count; i++)
		calls[i].method = argv[2];
	if (methods > 1)
		count = methods;
	length = fread(input, 1, sizeof input, stdin);
	must(nng_req0_open(&socket), "socket");
	must(nng_dial(socket, argv[1], NULL, 0), argv[1]);
	for (int i = 0; i < count; i++) {
		must(nng_ctx_open(&calls[i].context, socket), "context");
		must(nng_aio_alloc(&calls[i].aio, NULL, NULL), "aio");
		nng_aio_set_timeout(calls[i].aio, LIMIT_MS);
		nng_aio_set_msg(calls[i].aio, message_of(calls[i].method, input, length));
		nng_ctx_send(calls[i].context, calls[i].aio);
	}
	for (int i = 0; i < count; i++) {
		nng_aio_wait(calls[i].aio);
		must(nng_aio_result(calls[i].aio), "sending");
		nng_ctx_recv(calls[i].context, calls[i].aio);
	}
	for (int i = 0; i < count; i++) {
		nng_aio_wait(calls[i].aio);
		must(nng_aio_result(calls[i].aio), "answer");
		code |= !print_answer(calls[i].method, nng_aio_get_msg(calls[i].aio));
		nng_msg_free(nng_aio_get_msg(calls[i].aio));
		nng_ctx_close(calls[i].context);
		nng_aio_free(calls[i].aio);
	}
	nng_close(socket);
	return code;
}
