/* Checks the request's fields by their names, fills in defaults, then runs the statement. */
#include "manager/service/method.h"

#include "common/field.h"
#include "common/limits.h"
#include "manager/service/check.h"
#include "manager/service/filter.h"

#include <stdio.h>
#include <string.h>

static bool rule_check(const struct rule *rule, const ProtobufCMessage *request, struct reeve_error *error)
{
	const ProtobufCFieldDescriptor *field = field_named(request->descriptor, rule->field);
	switch (rule->kind) {
	case RULE_NAME:
	case RULE_NAME_OR_NONE:
		return check_name(rule->field, field_text(request, field), rule->kind == RULE_NAME_OR_NONE, error);
	case RULE_PAGE: return check_page(field_text(request, field), error);
	case RULE_SINCE: return check_range(rule->field, field_number(request, field), 0, LIMIT_TIME_US, error);
	default: return check_range(rule->field, field_number(request, field), rule->min, rule->max, error);
	}
}

static void rule_fill(const struct rule *rule, ProtobufCMessage *request, const struct services *services)
{
	const ProtobufCFieldDescriptor *field = field_named(request->descriptor, rule->field);
	if (rule->kind == RULE_SINCE && !field_number(request, field))
		field_set_number(request, field, services_now_us(services) - rule->otherwise);
	if (rule->kind == RULE_NUMBER && rule->otherwise && !field_number(request, field))
		field_set_number(request, field, rule->otherwise);
	if (rule->kind == RULE_NUMBER && rule->cap && field_number(request, field) > rule->cap)
		field_set_number(request, field, rule->cap);
}

static const char *name_or_none(const ProtobufCMessage *request, const char *name)
{
	const ProtobufCFieldDescriptor *field = protobuf_c_message_descriptor_get_field_by_name(request->descriptor, name);
	return field ? field_text(request, field) : "";
}

static bool method_check(const struct method *m, const ProtobufCMessage *request, struct reeve_error *error)
{
	for (const struct rule *rule = m->rules; rule->kind; rule++)
		if (!rule_check(rule, request, error))
			return false;
	if (m->names &&
	    (!check_name("queue", name_or_none(request, "queue"), true, error) ||
	        !check_name("type", name_or_none(request, "type"), true, error)))
		return false;
	return !m->check || m->check(request, error);
}

/* --- the response ------------------------------------------------------------------------------------------------- */

/* Sets NOT_FOUND with the text, in which fields of the request replace {NAME}. */
static bool not_found(const char *text, const ProtobufCMessage *request, struct reeve_error *error)
{
	char message[512], name[64];
	size_t length = 0;
	while (*text && length < sizeof message - 1) {
		if (*text != '{') {
			message[length++] = *text++;
			continue;
		}
		snprintf(name, sizeof name, "%.*s", (int)strcspn(text + 1, "}"), text + 1);
		text += strlen(name) + 2;
		const ProtobufCFieldDescriptor *field = field_named(request->descriptor, name);
		if (field->type == PROTOBUF_C_TYPE_STRING)
			length += (size_t)snprintf(message + length, sizeof message - length, "%s", field_text(request, field));
		else
			length += (size_t)snprintf(
			    message + length, sizeof message - length, "%lld", (long long)field_number(request, field));
	}
	message[length < sizeof message ? length : sizeof message - 1] = '\0';
	return error_set(error, STATUS(NOT_FOUND), "%s", message);
}

/* Keeps up to `limit` messages that fit in an answer, or one if even that does not fit. Returns whether it freed any.
 */
static bool items_cut(ProtobufCMessage **items, size_t *count, size_t limit, size_t max_bytes)
{
	size_t all = *count, bytes = 0, kept = 0;
	for (; kept < all && kept < limit; kept++) {
		bytes += protobuf_c_message_get_packed_size(items[kept]) + 8;
		if (kept && bytes > max_bytes)
			break;
	}
	for (size_t i = kept; i < all; i++)
		protobuf_c_message_free_unpacked(items[i], NULL);
	*count = kept;
	return kept < all;
}

/* Cuts the response's first list to what fits in an answer, if the response has `more`, or a number as the position of
 * the next page (next_before_id), which then is the first field of the last item, or both. With `more`, the statement
 * may have returned more items than the request's `limit`. Statements of responses with another position limit the
 * bytes. */
static void page_cut(const struct reading *r)
{
	const ProtobufCMessageDescriptor *d = r->response->descriptor;
	const ProtobufCFieldDescriptor *items = field_items(d), *more = NULL, *next = NULL, *limit;
	for (unsigned i = 0; i < d->n_fields; i++) {
		const ProtobufCFieldDescriptor *field = &d->fields[i];
		if (!strcmp(field->name, "more"))
			more = field;
		else if (!strncmp(field->name, "next_", 5) && field->type == PROTOBUF_C_TYPE_INT64)
			next = field;
	}
	if (!items || (!more && !next))
		return;
	ProtobufCMessage **list = *(ProtobufCMessage ***)field_at(r->response, items);
	size_t *count = field_count(r->response, items);
	limit = protobuf_c_message_descriptor_get_field_by_name(r->request->descriptor, "limit");
	if (!items_cut(
	        list, count, more && limit ? (size_t)field_number(r->request, limit) : SIZE_MAX, (size_t)r->op.max_bytes))
		return;
	if (more)
		*(protobuf_c_boolean *)field_at(r->response, more) = true;
	if (next)
		field_set_number(r->response, next, field_number(list[*count - 1], &list[0]->descriptor->fields[0]));
}

void method_done(struct store_op *op, const struct reeve_error *error)
{
	struct reading *r = (struct reading *)op;
	const struct method *m = rpc_call_declared(r->call);
	struct reeve_error problem;
	if (!error)
		page_cut(r);
	if (!error &&
	    ((m->found && !field_is_set(r->response, field_named(r->response->descriptor, m->found)) &&
	         !not_found(m->missing, r->request, &problem)) ||
	        (m->complete && !m->complete(r, &problem))))
		error = &problem;
	reading_end(r, error);
}

/* --- the call ----------------------------------------------------------------------------------------------------- */

static reading_done_fn *done_of(const struct method *m)
{
	return m->done ? m->done : method_done;
}

/* The change is committed, even if this manager cannot read it now: a notification tells it. */
static void on_reloaded(void *arg, const struct reeve_error *error)
{
	struct reading *r = arg;
	(void)error;
	done_of(rpc_call_declared(r->call))(&r->op.op, NULL);
}

static void on_changed(struct store_op *op, const struct reeve_error *error)
{
	struct reading *r = (struct reading *)op;
	const struct method *m = rpc_call_declared(r->call);
	if (error)
		done_of(m)(op, error);
	else
		m->reload(r->services, op->deadline_ms, on_reloaded, r);
}

static struct reading *begin(
    const struct method *m, struct services *s, struct rpc_call *call, const ProtobufCMessage *request)
{
	struct reading *r =
	    reading_of(s, call, m->then ? m->then : m->statement, request, m->reload ? on_changed : done_of(m));
	r->op.statement = &sql_statements[m->statement];
	r->op.quick = m->quick;
	r->op.then = m->then ? &sql_statements[m->then] : NULL;
	for (const struct rule *rule = m->rules; rule->kind; rule++)
		rule_fill(rule, r->request, s);
	return r;
}

void read_method(void *service, struct rpc_call *call, const ProtobufCMessage *request)
{
	const struct method *m = rpc_call_declared(call);
	struct services *s = service;
	struct reeve_error error;
	char *change = NULL;
	if (!method_check(m, request, &error) || (m->allow && !m->allow(rpc_call_identity(call), request, &error)) ||
	    (m->ready && !m->ready(s, &error))) {
		rpc_call_fail_error(call, &error);
		return;
	}
	if (m->names &&
	    names_wait(s, call, request, read_method, name_or_none(request, "queue"), name_or_none(request, "type")))
		return;
	if (m->change && !(change = m->change(s, call, request, &error))) {
		rpc_call_fail_error(call, &error);
		return;
	}
	struct reading *r = begin(m, s, call, request);
	r->op.change = r->change = change;
	reading_send(r);
}

static bool needs_request_id(const struct method *m)
{
	return strstr(sql_statements[m->statement].takes, "@request_id") != NULL;
}

void write_method(void *service, struct rpc_call *call, const ProtobufCMessage *request)
{
	const struct method *m = rpc_call_declared(call);
	struct services *s = service;
	struct reeve_error error;
	char *change = NULL;
	if ((needs_request_id(m) && !service_has_request_id(s, call, &error)) ||
	    !check_source("actor", rpc_call_actor(call), &error) || !method_check(m, request, &error) ||
	    (m->allow && !m->allow(rpc_call_identity(call), request, &error)) ||
	    (m->change && !(change = m->change(s, call, request, &error)))) {
		rpc_call_fail_error(call, &error);
		return;
	}
	struct reading *r = begin(m, s, call, request);
	reading_change(r, change);
	reading_send(r);
}
