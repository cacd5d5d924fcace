/* Checks the request's fields by their names, fills in defaults, then reads. */
#include "manager/service/read_method.h"

#include "manager/service/check.h"
#include "manager/service/filter.h"

#include <assert.h>

static void *at(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
	return (char *)message + field->offset;
}

static const char *text_of(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
	assert(field->type == PROTOBUF_C_TYPE_STRING);
	return *(char **)at(message, field);
}

static int64_t number_of(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
	switch (field->type) {
	case PROTOBUF_C_TYPE_UINT32:
		return *(uint32_t *)at(message, field);
	case PROTOBUF_C_TYPE_ENUM:
		return *(int *)at(message, field);
	default:
		assert(field->type == PROTOBUF_C_TYPE_INT64);
		return *(int64_t *)at(message, field);
	}
}

static void number_set(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field, int64_t value)
{
	if (field->type == PROTOBUF_C_TYPE_INT64)
		*(int64_t *)at(message, field) = value;
	else
		*(uint32_t *)at(message, field) = (uint32_t)value;
}

static const ProtobufCFieldDescriptor *field_of(const ProtobufCMessage *message, const struct rule *rule)
{
	const ProtobufCFieldDescriptor *field = protobuf_c_message_descriptor_get_field_by_name(message->descriptor, rule->field);
	assert(field);
	return field;
}

static bool rule_check(const struct rule *rule, const ProtobufCMessage *request, struct reeve_error *error)
{
	static const int64_t year_10000_us = INT64_C(253402300799000000);
	const ProtobufCFieldDescriptor *field = field_of(request, rule);
	switch (rule->kind) {
	case RULE_NAME:
	case RULE_NAME_OR_NONE:
		return check_name(rule->field, text_of(request, field), rule->kind == RULE_NAME_OR_NONE, error);
	case RULE_PAGE:
		return check_page(text_of(request, field), error);
	case RULE_SINCE:
		return check_range(rule->field, number_of(request, field), 0, year_10000_us, error);
	default:
		return check_range(rule->field, number_of(request, field), rule->min, rule->max, error);
	}
}

static void rule_fill(const struct rule *rule, ProtobufCMessage *request, const struct services *services)
{
	const ProtobufCFieldDescriptor *field = field_of(request, rule);
	if (rule->kind == RULE_SINCE && !number_of(request, field))
		number_set(request, field, core_clock_us(services->core) - rule->otherwise);
	if (rule->kind == RULE_NUMBER && rule->otherwise && !number_of(request, field))
		number_set(request, field, rule->otherwise);
	if (rule->kind == RULE_NUMBER && rule->cap && number_of(request, field) > rule->cap)
		number_set(request, field, rule->cap);
}

static const char *name_or_none(const ProtobufCMessage *request, const char *name)
{
	const ProtobufCFieldDescriptor *field = protobuf_c_message_descriptor_get_field_by_name(request->descriptor, name);
	return field ? text_of(request, field) : "";
}

static bool method_check(const struct read_method *m, const struct services *s, const ProtobufCMessage *request, struct reeve_error *error)
{
	for (const struct rule *rule = m->rules; rule->kind; rule++)
		if (!rule_check(rule, request, error))
			return false;
	if (m->names == NAMES_KNOWN &&
	    !check_known_names(s, "", name_or_none(request, "queue"), name_or_none(request, "type"), error))
		return false;
	return !m->check || m->check(request, error);
}

void read_method(void *service, struct rpc_call *call, const ProtobufCMessage *request)
{
	const struct read_method *m = rpc_call_declared(call);
	struct services *s = service;
	struct reeve_error error;
	if (m->names &&
	    names_wait(s, call, request, read_method, name_or_none(request, "queue"), name_or_none(request, "type")))
		return;
	if (!method_check(m, s, request, &error)) {
		rpc_call_fail_error(call, &error);
		return;
	}
	struct reading *r = reading_of(s, call, m->statement, request, m->done ? m->done : reading_done);
	for (const struct rule *rule = m->rules; rule->kind; rule++)
		rule_fill(rule, r->request, s);
	reading_send(r);
}
