/*
 * gRPC's standard services: health, and reflection, by which tools such as grpcurl find out what can be called. Their
 * few messages are read and written field by field (proto/grpc). The answers to reflection are parts of the contract's
 * descriptors, which protoc has written.
 */
#include "common/mem.h"
#include "common/rpc/server.h"
#include "common/rpc/varint.h"
#include "manager/http/http_internal.h"
#include "manager/http/http_v2.h"

#include <http_parser.h>
#include <reeve/v1/descriptors.h>
#include <stdlib.h>
#include <string.h>

enum {
	/* Fields of google.protobuf.FileDescriptorProto, and of what it has. */
	FILE_NAME = 1,
	FILE_PACKAGE = 2,
	FILE_SERVICE = 6,
	ANY_NAME = 1,
};

enum standard { CHECK, WATCH, REFLECT };

/* A field of a message: a number, or bytes. */
struct field {
	uint32_t number;
	uint64_t value; /* of bytes: their length */
	const uint8_t *bytes;
};

/* Reads the next field. Returns false at the end, or if the bytes are no message. */
static bool next_field(struct envelope_view *rest, struct field *field)
{
	const uint8_t *at = rest->bytes, *end = rest->bytes + rest->length;
	uint64_t tag;
	size_t size = varint_read(at, end, VARINT_MAX_BYTES, &tag), more;

	if (!size || tag >> 3 == 0 || tag >> 3 > UINT32_MAX)
		return false;
	at += size;
	*field = (struct field){.number = (uint32_t)(tag >> 3)};
	if ((tag & 7) != WIRE_VARINT && (tag & 7) != WIRE_LENGTH)
		return false;
	more = varint_read(at, end, VARINT_MAX_BYTES, &field->value);
	if (!more)
		return false;
	at += more;
	if ((tag & 7) == WIRE_LENGTH) {
		if (field->value > (uint64_t)(end - at))
			return false;
		field->bytes = at;
		at += field->value;
	}
	*rest = (struct envelope_view){at, (size_t)(end - at)};
	return true;
}

/* Returns the text of a field, or an empty one. */
static struct envelope_view text_of(struct envelope_view message, uint32_t number)
{
	struct field field;

	while (next_field(&message, &field))
		if (field.number == number && field.bytes)
			return (struct envelope_view){field.bytes, (size_t)field.value};
	return (struct envelope_view){(const uint8_t *)"", 0};
}

static bool is_same(struct envelope_view a, struct envelope_view b)
{
	return a.length == b.length && !memcmp(a.bytes, b.bytes, a.length);
}

/* Returns the next of the contract's files. */
static bool next_file(struct envelope_view *rest, struct envelope_view *file)
{
	struct field field;

	if (!next_field(rest, &field))
		return false;
	*file = (struct envelope_view){field.bytes, (size_t)field.value};
	return true;
}

static struct envelope_view all_files(void)
{
	return (struct envelope_view){proto_descriptors, sizeof proto_descriptors};
}

/* Removes a name from the beginning of another: "Service" from "Service.Method". Returns false if it is not there. */
static bool take_name(struct envelope_view *symbol, struct envelope_view name)
{
	if (!name.length || symbol->length < name.length || memcmp(symbol->bytes, name.bytes, name.length) != 0 ||
	    (symbol->length > name.length && symbol->bytes[name.length] != '.'))
		return false;
	symbol->bytes += name.length;
	symbol->length -= name.length;
	symbol->bytes += symbol->length > 0;
	symbol->length -= symbol->length > 0;
	return true;
}

/* Returns whether a part of a file declares a symbol, or what it contains does. The numbers of the fields with parts:
 * of a file 4 to 6 (messages, enumerations, services), of those 2 to 4 (fields, methods or values; nested ones). */
static bool declares(struct envelope_view part, struct envelope_view symbol, uint32_t from, uint32_t to)
{
	struct field field;

	while (next_field(&part, &field)) {
		struct envelope_view inner = {field.bytes, (size_t)field.value}, rest = symbol;

		if (field.number < from || field.number > to || !field.bytes || !take_name(&rest, text_of(inner, ANY_NAME)))
			continue;
		return !rest.length || declares(inner, rest, 2, 4);
	}
	return false;
}

/* Finds the file of a name, or the one that declares a symbol. */
static bool find_file(struct envelope_view wanted, bool by_symbol, struct envelope_view *file)
{
	struct envelope_view rest = all_files();

	while (next_file(&rest, file)) {
		struct envelope_view symbol = wanted;

		if (!by_symbol && is_same(text_of(*file, FILE_NAME), wanted))
			return true;
		if (by_symbol && take_name(&symbol, text_of(*file, FILE_PACKAGE)) && declares(*file, symbol, 4, FILE_SERVICE))
			return true;
	}
	return false;
}

static void put_number(FILE *out, uint64_t number)
{
	uint8_t bytes[VARINT_MAX_BYTES];

	fwrite(bytes, 1, (size_t)(varint_write(bytes, number) - bytes), out);
}

static void put(FILE *out, uint32_t number, struct envelope_view bytes)
{
	put_number(out, number << 3 | WIRE_LENGTH);
	put_number(out, bytes.length);
	fwrite(bytes.bytes, 1, bytes.length, out);
}

static struct envelope_view view(const char *text)
{
	return (struct envelope_view){(const uint8_t *)text, strlen(text)};
}

/* Writes the names of the services. */
static void put_services(FILE *out)
{
	struct envelope_view rest = all_files(), file;

	while (next_file(&rest, &file)) {
		struct envelope_view package = text_of(file, FILE_PACKAGE);
		struct field field;

		while (next_field(&file, &field)) {
			struct envelope_view service = text_of((struct envelope_view){field.bytes, (size_t)field.value}, ANY_NAME);
			char *name, *entry = NULL;
			size_t length;
			FILE *inner;

			if (field.number != FILE_SERVICE)
				continue;
			name = mem_asprintf("%.*s.%.*s", (int)package.length, (const char *)package.bytes, (int)service.length,
			    (const char *)service.bytes);
			inner = mem_stream(&entry, &length);
			put(inner, 1, view(name));
			fclose(inner);
			put(out, 1, (struct envelope_view){(uint8_t *)entry, length});
			free(entry);
			free(name);
		}
	}
}

/* Writes the part of the answer that a question needs. Returns its field. */
static uint32_t answer_question(FILE *out, const struct field *question)
{
	struct envelope_view wanted = {question->bytes, (size_t)question->value}, file;

	if (question->number == 7) {
		put_services(out);
		return 6;
	}
	if ((question->number == 3 || question->number == 4) && find_file(wanted, question->number == 4, &file)) {
		put(out, 1, file);
		return 4;
	}
	put_number(out, 1 << 3 | WIRE_VARINT);
	put_number(out, question->number ? STATUS(NOT_FOUND) : STATUS(INVALID_ARGUMENT));
	put(out, 2, view(question->number ? "there is no such file, symbol or extension" : "the request asks for nothing"));
	return 7;
}

/* Answers one question of reflection. */
static struct frame *reflect(uint32_t form, struct envelope_view request)
{
	struct envelope_view rest = request;
	struct field field, question = {0};
	char *answer = NULL, *part = NULL;
	size_t length, part_length;
	struct frame *frame;
	FILE *out, *inner;
	uint32_t number;

	while (next_field(&rest, &field))
		if (field.number >= 3 && field.number <= 7 && field.bytes)
			question = field;
	inner = mem_stream(&part, &part_length);
	number = answer_question(inner, &question);
	fclose(inner);
	out = mem_stream(&answer, &length);
	put(out, 1, text_of(request, 1));
	put(out, 2, request);
	put(out, number, (struct envelope_view){(uint8_t *)part, part_length});
	fclose(out);
	frame = http_grpc_respond(form, answer, length, true);
	free(answer);
	free(part);
	return frame;
}

enum http_health http_health_of(const struct http_api *api)
{
	return api->options.problem(api->options.arg) ? HTTP_NOT_SERVING : HTTP_SERVING;
}

struct frame *http_health_answer(uint32_t form, enum http_health health, bool more)
{
	const uint8_t answer[] = {1 << 3 | WIRE_VARINT, (uint8_t)health};
	struct frame *frame = http_grpc_respond(form, answer, sizeof answer, more);

	http2_answer_of(frame)->watched = more ? health : 0;
	return frame;
}

/* Answers a health check. */
static struct frame *check(const struct http_api *api, uint32_t form, struct envelope_view request, bool watch)
{
	struct envelope_view service = text_of(request, 1), file;

	if (!service.length || find_file(service, true, &file))
		return http_health_answer(form, http_health_of(api), watch);
	return watch ? http_health_answer(form, HTTP_SERVICE_UNKNOWN, true)
	             : http_grpc_refuse(form, STATUS(NOT_FOUND), "there is no such service");
}

/* Serves a call whose message is complete. */
static struct frame *serve(
    const struct http_api *api, const struct http_message *message, uint32_t form, enum standard method)
{
	struct envelope_view body = {(const uint8_t *)message + message->content_at, message->content_length};
	struct reeve_error error;
	struct frame *answer;
	uint8_t *made = NULL;
	uint32_t ms = 0;

	if (message->ended)
		return http_grpc_end(form);
	if (!http_grpc_read(message, &form, &ms, &error) || !http_grpc_unwrap(&body, &form, &error))
		return http_grpc_refuse(form, error.code, error.message);
	if (form & FORM_GZIPPED) {
		made = http_gunzip(body.bytes, body.length, RPC_STRANGER_BYTES, &body.length, &error);
		if (!made)
			return http_grpc_refuse(form, error.code, error.message);
		body.bytes = made;
	}
	if (form & FORM_JSON)
		answer = http_grpc_refuse(form, STATUS(UNIMPLEMENTED), "this service takes protobuf's bytes only");
	else
		answer = method == REFLECT ? reflect(form, body) : check(api, form, body, method == WATCH);
	free(made);
	return answer;
}

struct frame *http_serve_standard(const struct http_api *api, const struct http_message *message, uint32_t form)
{
	const char *path = http_field(message, HTTP_TARGET);
	enum standard method = REFLECT;

	if (!strcmp(path, "/grpc.health.v1.Health/Check"))
		method = CHECK;
	else if (!strcmp(path, "/grpc.health.v1.Health/Watch"))
		method = WATCH;
	else if (!http_grpc_is_stream(message))
		return http_grpc_refuse(form, STATUS(UNIMPLEMENTED), "there is no such method");
	if (message->method != HTTP_POST)
		return http_grpc_refuse(form, STATUS(UNIMPLEMENTED), "calls are made by POST");
	return serve(api, message, form, method);
}
