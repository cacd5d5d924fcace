/* Messages of nng and of PostgreSQL: cutting them out of the bytes, and applying rules to them. See proxy.h. */
#include "tests/tools/proxy.h"

#include <arpa/inet.h>
#include <endian.h>
#include <reeve/v1/admin.pb-c.h>
#include <reeve/v1/envelope.pb-c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

enum { SP_GREETING = 8, SP_HEAD = 8, SP_CALL_ID = 4 };

static struct evbuffer *bytes_of(const void *data, size_t length)
{
	struct evbuffer *bytes = evbuffer_new();

	if (!bytes || evbuffer_add(bytes, data, length))
		abort();
	return bytes;
}

static struct rule *rule_for(bool answer, const uint8_t *message, size_t length, bool whole)
{
	struct rule *rule;

	DL_FOREACH (proxy.rules, rule) {
		size_t n = strlen(rule->word);

		if (rule->answer == answer && rule->left > 0 &&
		    (whole ? n == length && !memcmp(message, rule->word, n) : memmem(message, length, rule->word, n) != NULL)) {
			if (--rule->left == 0) { /* answers may still refer to it */
				DL_DELETE(proxy.rules, rule);
				DL_APPEND(proxy.spent, rule);
			}
			return rule;
		}
	}
	return NULL;
}

/* Writes to another file and then renames it, so that a reader always sees the complete body. */
static void write_body(const char *path, const uint8_t *frame, size_t length)
{
	size_t head = SP_HEAD + SP_CALL_ID;
	char apart[600];
	FILE *file;

	snprintf(apart, sizeof apart, "%s.part", path);
	file = fopen(apart, "w");
	if (!file || fwrite(frame + head, 1, length - head, file) != length - head || fclose(file) || rename(apart, path))
		die(path);
}

/* Sends a packed message with the call id of `frame`. */
static void send_packed(struct way *way, const uint8_t *frame, const ProtobufCMessage *message)
{
	size_t size = protobuf_c_message_get_packed_size(message);
	uint64_t length = htobe64(SP_CALL_ID + size);
	struct evbuffer *bytes = bytes_of(&length, sizeof length);
	uint8_t *packed = malloc(size + 1);

	protobuf_c_message_pack(message, packed);
	if (evbuffer_add(bytes, frame + SP_HEAD, SP_CALL_ID) || evbuffer_add(bytes, packed, size))
		abort();
	free(packed);
	way_send(way, bytes, false);
}

/* Sends a request with another version of the contract. */
static void request_contract(struct way *way, const uint8_t *frame, size_t length, uint32_t contract)
{
	size_t head = SP_HEAD + SP_CALL_ID;
	Reeve__V1__Request *request = reeve__v1__request__unpack(NULL, length - head, frame + head);

	request->contract = contract;
	send_packed(way, frame, &request->base);
	reeve__v1__request__free_unpacked(request, NULL);
}

/* Sends a ping's answer with another version of the contract. */
static void answer_contract(struct way *way, const uint8_t *frame, size_t length, uint32_t contract)
{
	size_t head = SP_HEAD + SP_CALL_ID;
	Reeve__V1__Reply *reply = reeve__v1__reply__unpack(NULL, length - head, frame + head);
	Reeve__V1__PingResponse *ping = reeve__v1__ping_response__unpack(NULL, reply->body.len, reply->body.data);

	ping->contract = contract;
	free(reply->body.data);
	reply->body.len = reeve__v1__ping_response__get_packed_size(ping);
	reply->body.data = malloc(reply->body.len + 1);
	reeve__v1__ping_response__pack(ping, reply->body.data);
	send_packed(way, frame, &reply->base);
	reeve__v1__ping_response__free_unpacked(ping, NULL);
	reeve__v1__reply__free_unpacked(reply, NULL);
}

/* Applies a rule to one sp message. */
static void rule_apply(const struct rule *rule, struct way *way, const uint8_t *frame, size_t length)
{
	proxy.applied++;
	switch (rule->action) {
	case LOSE: break;
	case TAKE: write_body(rule->file, frame, length); break;
	case COPY:
		write_body(rule->file, frame, length);
		way_send(way, bytes_of(frame, length), false);
		break;
	case DOUBLE:
		way_send(way, bytes_of(frame, length), false);
		way_send(way, bytes_of(frame, length), false);
		break;
	case LATE: way_send_late(way, bytes_of(frame, length), rule->ms); break;
	case CONTRACT:
		if (rule->answer)
			answer_contract(way, frame, length, rule->contract);
		else
			request_contract(way, frame, length, rule->contract);
		break;
	}
}

static uint32_t call_id_of(const uint8_t *frame, size_t length)
{
	uint32_t id = 0;

	if (length >= SP_HEAD + SP_CALL_ID)
		memcpy(&id, frame + SP_HEAD, sizeof id);
	return id;
}

static void sp_request(struct way *way, const uint8_t *frame, size_t length)
{
	struct rule *rule = rule_for(true, frame, length, false);

	if (rule) {
		struct spoken_for *one = calloc(1, sizeof *one);

		if (!one)
			abort();
		one->call_id = call_id_of(frame, length);
		one->rule = rule;
		DL_APPEND(way->link->spoken_for, one);
	}
	rule = rule_for(false, frame, length, false);
	if (rule)
		rule_apply(rule, way, frame, length);
	else
		way_send(way, bytes_of(frame, length), false);
}

static void sp_reply(struct way *way, const uint8_t *frame, size_t length)
{
	struct spoken_for *one;

	DL_FOREACH (way->link->spoken_for, one) {
		if (one->call_id == call_id_of(frame, length)) {
			DL_DELETE(way->link->spoken_for, one);
			rule_apply(one->rule, way, frame, length);
			free(one);
			return;
		}
	}
	way_send(way, bytes_of(frame, length), false);
}

/* Returns the length of the message at the start of the input, or 0 if it is incomplete. */
static size_t sp_length(struct way *way, struct evbuffer *input)
{
	size_t there = evbuffer_get_length(input);
	uint8_t head[SP_HEAD];
	uint64_t length = 0;

	if (!way->greeted)
		return there < SP_GREETING ? 0 : SP_GREETING;
	if (there < SP_HEAD)
		return 0;
	evbuffer_copyout(input, head, sizeof head);
	for (size_t i = 0; i < sizeof head; i++)
		length = length << 8 | head[i];
	return there < SP_HEAD + length ? 0 : SP_HEAD + (size_t)length;
}

static size_t postgres_length(struct way *way, struct evbuffer *input)
{
	bool startup = way->direction == UP && !way->greeted; /* the only message without a type */
	size_t there = evbuffer_get_length(input), type = startup ? 0 : 1;
	uint8_t head[5];
	uint32_t length;

	if (there < type + 4)
		return 0;
	evbuffer_copyout(input, head, (ev_ssize_t)(type + 4));
	memcpy(&length, head + type, sizeof length);
	length = ntohl(length);
	return there < type + length ? 0 : type + length;
}

/* A Bind names its portal and then its statement. */
static struct rule *postgres_rule(bool answer, const uint8_t *message, size_t length)
{
	const uint8_t *name, *end;

	if (message[0] != 'B' || !(name = memchr(message + 5, 0, length - 5)))
		return NULL;
	name++;
	end = memchr(name, 0, length - (size_t)(name - message));
	return end ? rule_for(answer, name, (size_t)(end - name), true) : NULL;
}

static void postgres_message(struct way *way, const uint8_t *message, size_t length)
{
	struct way *back = &way->link->way[DOWN];

	if (way->direction == UP && way->greeted) {
		if (postgres_rule(false, message, length)) {
			proxy.applied++;
			link_reset(way->link);
			return;
		}
		if (postgres_rule(true, message, length))
			back->losing = true;
	}
	if (!way->losing) {
		way_send(way, bytes_of(message, length), false);
	} else if (message[0] == 'Z') { /* ReadyForQuery: the answer is complete */
		proxy.applied++;
		link_reset(way->link);
	}
}

void on_read(struct bufferevent *bev, void *arg)
{
	struct evbuffer *input = bufferevent_get_input(bev);
	struct way *way = arg;
	size_t length;

	while (!way->link->dying && (length = evbuffer_get_length(input)) > 0) {
		if (proxy.speech == SP)
			length = sp_length(way, input);
		else if (proxy.speech == POSTGRES)
			length = postgres_length(way, input);
		if (!length)
			return;
		const uint8_t *message = evbuffer_pullup(input, (ev_ssize_t)length);

		if (proxy.speech == POSTGRES)
			postgres_message(way, message, length);
		else if (proxy.speech == BYTES || !way->greeted)
			way_send(way, bytes_of(message, length), false);
		else if (way->direction == UP)
			sp_request(way, message, length);
		else
			sp_reply(way, message, length);
		way->greeted = true;
		evbuffer_drain(input, length);
	}
}
