/* Messages as JSON and back, and the errors for JSON that is not a valid message. */
#include "common/json.h"
#include "tests/unit/compare.h"

#include <criterion/criterion.h>
#include <reeve/v1/envelope.pb-c.h>
#include <reeve/v1/task.pb-c.h>
#include <stdlib.h>
#include <string.h>

Test(json, shows_every_field_but_unset_times)
{
	Reeve__V1__Task task = REEVE__V1__TASK__INIT;

	task.id = INT64_C(9007199254740993);
	task.queue = "caf\xc3\xa9";
	task.type = "bad \xff byte";
	task.status = REEVE__V1__TASK_STATUS__TASK_STATUS_EXECUTING;
	task.priority = -5;
	task.created_us = INT64_C(1768377600000000);
	json_t *object = json_from_message(&task.base);
	char *text = json_dumps(object, JSON_COMPACT);
	cr_assert(eq(str, text,
	    "{\"id\":9007199254740993,\"queue\":\"caf\xc3\xa9\",\"type\":\"bad \xef\xbf\xbd "
	    "byte\",\"status\":\"executing\","
	    "\"priority\":-5,\"attempt\":0,\"max_attempts\":0,\"timeout_ms\":0,\"key\":\"\",\"source\":\"\","
	    "\"details\":\"\",\"result\":\"\",\"last_error\":\"\",\"error_code\":\"\",\"worker\":\"\",\"token\":0,"
	    "\"created\":\"2026-01-14T08:00:00.000000Z\",\"cancel_requested\":false,\"remark\":\"\",\"stack_trace\":\"\",\"batch_id\":0,\"version\":0,"
	    "\"pipeline\":\"\",\"stage\":\"\",\"step\":0,\"error_count\":0,\"processing_ms\":0,\"traceparent\":\"\",\"parent_id\":0}"));
	free(text);
	json_decref(object);

	task.details = NULL; /* unknown */
	object = json_from_message(&task.base);
	cr_assert(json_object_get(object, "details") == NULL);
	cr_assert(json_object_get(object, "result") != NULL);
	json_decref(object);
}

/* As the library does. */
Test(json, is_written_in_the_fewest_bytes)
{
	char *long_text = malloc(10001), *text, *expected;
	char every[256];
	size_t length;
	json_t *value;

	for (int i = 0; i < 10000; i++)
		long_text[i] = (char)(i % 3 ? i % 127 + 1 : '"');
	long_text[10000] = '\0';
	for (int i = 0; i < 127; i++)
		every[i] = (char)i;
	value = json_pack("{s:s#, s:s, s:s, s:[i, n, b, [], {}, I], s:{s:f, s:[s]}}", "every", every, 127, "long",
	    long_text, "caf\xc3\xa9", "", "values", -1, 1, INT64_MIN, "nested", "real", 0.1, "list", "x");
	cr_assert(value != NULL);
	text = json_write(value, &length);
	expected = json_dumps(value, JSON_COMPACT);
	cr_expect(eq(str, text, expected));
	cr_expect(eq(sz, length, strlen(expected)));
	free(text);
	free(expected);
	free(long_text);
	json_decref(value);
}

/* Converts JSON to a message and back, again, and compares. */
static void comes_back(const char *text, const ProtobufCMessageDescriptor *descriptor)
{
	struct reeve_error error = {0};
	json_t *object = json_loads(text, 0, NULL);
	cr_assert(ne(ptr, object, NULL), "%s", text);
	ProtobufCMessage *message = json_to_message(object, descriptor, &error);

	cr_assert(ne(ptr, message, NULL), "%s", error.message);
	json_t *again = json_from_message(message);
	ProtobufCMessage *second = json_to_message(again, descriptor, &error);
	cr_assert(ne(ptr, second, NULL), "%s", error.message);

	uint8_t one[1024], two[1024];
	size_t length = protobuf_c_message_pack(message, one);
	cr_assert(eq(sz, protobuf_c_message_pack(second, two), length));
	cr_assert(eq(int, memcmp(one, two, length), 0), "%s", text);
	json_decref(object);
	json_decref(again);
	protobuf_c_message_free_unpacked(message, NULL);
	protobuf_c_message_free_unpacked(second, NULL);
}

Test(json, comes_back_as_it_went)
{
	comes_back("{\"tasks\":[{\"queue\":\"q\",\"type\":\"t\",\"details\":\"{}\",\"priority\":-1000000,\"delay_ms\":5,"
	           "\"retry\":{\"base_ms\":1,\"max_ms\":2},\"run_at\":\"2026-01-14T08:00:00.000001Z\"},{}]}",
	    &reeve__v1__submit_request__descriptor);
	comes_back("{\"ids\":[1,-2,9223372036854775807],\"priority\":{\"value\":-3},\"max_attempts\":4294967295}",
	    &reeve__v1__update_request__descriptor);
	comes_back("{\"code\":\"invalid_argument\",\"message\":\"m\",\"body\":\"00ff7f\"}", &reeve__v1__reply__descriptor);
	comes_back("{\"tasks\":[{\"id\":5,\"status\":\"dead\",\"changed\":true}],\"not_found\":[]}",
	    &reeve__v1__cancel_response__descriptor);
	comes_back("{}", &reeve__v1__task__descriptor);
	comes_back("{\"delay\":\"1m30s\",\"key\":null,\"retry\":{\"base_ms\":7,\"max\":\"1h\",\"delays\":[\"1s\",\"2s\"]}}",
	    &reeve__v1__task_spec__descriptor);
}

Test(json, takes_durations_and_null_from_people)
{
	struct reeve_error error = {0};
	json_t *object =
	    json_loads("{\"delay\":\"1m30s\",\"key\":null,\"retry\":{\"delays\":[\"1s\",\"250ms\"]}}", 0, NULL);
	Reeve__V1__TaskSpec *spec =
	    (Reeve__V1__TaskSpec *)json_to_message(object, &reeve__v1__task_spec__descriptor, &error);

	cr_assert(ne(ptr, spec, NULL), "%s", error.message);
	cr_assert(eq(i64, spec->delay_ms, 90000));
	cr_assert(eq(str, (char *)spec->key, ""));
	cr_assert(eq(sz, spec->retry->n_delays_ms, 2));
	cr_assert(eq(i64, spec->retry->delays_ms[1], 250));
	reeve__v1__task_spec__free_unpacked(spec, NULL);
	json_decref(object);
}

#define TASK_FIELDS                                                                                                     \
	"TaskSpec has queue, type, details, priority, delay_ms, run_at, key, key_ttl_ms, max_attempts, timeout_ms, retry, " \
	"source, version, batch_id, pipeline, traceparent, own_priority, stage"

static void refused(const char *text, const ProtobufCMessageDescriptor *descriptor, const char *message)
{
	struct reeve_error error = {0};
	json_t *object = json_loads(text, JSON_ALLOW_NUL | JSON_DECODE_ANY, NULL);

	cr_assert(ne(ptr, object, NULL), "%s", text);
	cr_assert(eq(ptr, json_to_message(object, descriptor, &error), NULL), "%s", text);
	cr_assert(eq(str, error.message, (char *)message));
	cr_assert(eq(int, error.code, STATUS(INVALID_ARGUMENT)));
	json_decref(object);
}

Test(json, names_the_field_that_is_wrong)
{
	const ProtobufCMessageDescriptor *submit = &reeve__v1__submit_request__descriptor;
	const ProtobufCMessageDescriptor *task = &reeve__v1__task__descriptor;

	refused("[]", submit, "the value must be an object");
	refused("{\"tasks\":{}}", submit, "tasks must be an array");
	refused("{\"tasks\":[{},5]}", submit, "tasks[1] must be an object");
	refused("{\"tasks\":[{},{},{\"details\":5}]}", submit, "tasks[2].details must be a string");
	refused("{\"tasks\":[{\"type\":\"a\",\"details\":\"a\\u0000b\"}]}", submit, "tasks[0].details holds a NUL byte");
	refused("{\"tasks\":[{\"retry\":{\"least\":1}}]}", submit,
	    "tasks[0].retry.least is not a known field: RetryPolicy has base_ms, max_ms, kind, step_ms, exponent, delays_ms, "
	    "jitter_percent");
	refused("{\"tasks\":[{\"retry\":{\"base\":1}}]}", submit,
	    "tasks[0].retry.base must be a duration like \"250ms\", \"5s\" or \"1m30s\"");
	refused("{\"tasks\":[{\"retry\":{\"delays\":[\"1s\",\"-1s\"]}}]}", submit, "tasks[0].retry.delays[1] is negative");
	refused("{\"tasks\":[{\"run_at_us\":1}]}", submit, "tasks[0].run_at_us is not a known field: " TASK_FIELDS);
	refused("{\"tasks\":[{\"run_at\":1}]}", submit,
	    "tasks[0].run_at must be a time like \"2026-01-14T08:00:00Z\" or \"+5m\"");
	refused("{\"tasks\":[{\"priority\":2147483648}]}", submit, "tasks[0].priority is out of range");
	refused("{\"tasks\":[{\"max_attempts\":-1}]}", submit, "tasks[0].max_attempts is negative");
	refused("{\"tasks\":[{\"max_attempts\":1.5}]}", submit, "tasks[0].max_attempts must be a whole number");
	refused("{\"tasks\":[{\"colour\":null}]}", submit, "tasks[0].colour is not a known field: " TASK_FIELDS);
	refused("{\"status\":\"asleep\"}", task,
	    "status must be one of: unspecified, queued, executing, failed, completed, dead, cancelled");
	refused("{\"cancel_requested\":1}", task, "cancel_requested must be true or false");
	refused("{\"body\":\"0g\"}", &reeve__v1__reply__descriptor, "body must be bytes in hexadecimal digits");
	refused("{\"body\":\"000\"}", &reeve__v1__reply__descriptor, "body must be bytes in hexadecimal digits");
}

/* --- protobuf's JSON mapping ---------------------------------------------------------------------------------------
 */

static ProtobufCMessage *mapped(
    const char *text, const ProtobufCMessageDescriptor *descriptor, struct reeve_error *error)
{
	json_t *object = json_read_text(text, strlen(text), 1 << 20, error);
	ProtobufCMessage *message = object ? json_to_message_in(JSON_MAPPING, object, descriptor, error) : NULL;

	json_decref(object);
	return message;
}

static void maps_to(const char *text, const ProtobufCMessageDescriptor *descriptor, const char *expected)
{
	struct reeve_error error = {0};
	ProtobufCMessage *message = mapped(text, descriptor, &error);
	json_t *object;
	char *again;

	cr_assert(ne(ptr, message, NULL), "%s: %s", text, error.message);
	object = json_from_message_in(JSON_MAPPING, message);
	again = json_dumps(object, JSON_COMPACT);
	cr_assert(eq(str, again, (char *)(uintptr_t)expected));
	free(again);
	json_decref(object);
	protobuf_c_message_free_unpacked(message, NULL);
}

Test(json, is_written_and_read_in_the_mapping_of_protobuf)
{
	maps_to("{\"ids\":[\"9007199254740993\",-2,\"1e3\",4.0],\"priority\":{\"value\":\"-3\"},\"max_attempts\":5}",
	    &reeve__v1__update_request__descriptor,
	    "{\"ids\":[\"9007199254740993\",\"-2\",\"1000\",\"4\"],\"priority\":{\"value\":-3},\"maxAttempts\":5}");
	maps_to("{\"tasks\":[{\"queue\":\"q\",\"runAtUs\":\"7\",\"delay_ms\":\"0\",\"key\":null},{}]}",
	    &reeve__v1__submit_request__descriptor, "{\"tasks\":[{\"queue\":\"q\",\"runAtUs\":\"7\"},{}]}");
	maps_to("{\"status\":\"TASK_STATUS_DEAD\"}", &reeve__v1__task__descriptor, "{\"status\":\"TASK_STATUS_DEAD\"}");
	maps_to("{\"status\":99}", &reeve__v1__task__descriptor, "{\"status\":99}");
	maps_to("{\"exponent\":\"Infinity\"}", &reeve__v1__retry_policy__descriptor, "{\"exponent\":\"Infinity\"}");
	maps_to("{\"exponent\":\"1.5\"}", &reeve__v1__retry_policy__descriptor, "{\"exponent\":1.5}");
	maps_to("{\"body\":\"AP9_\"}", &reeve__v1__reply__descriptor, "{\"body\":\"AP9/\"}");
	maps_to("{\"body\":\"AA==\"}", &reeve__v1__reply__descriptor, "{\"body\":\"AA==\"}");
	maps_to("{\"body\":\"AAE\"}", &reeve__v1__reply__descriptor, "{\"body\":\"AAE=\"}");
	maps_to("{\"body\":\"\"}", &reeve__v1__reply__descriptor, "{}");
}

static void is_not_mapped(const char *text, const ProtobufCMessageDescriptor *descriptor, const char *problem)
{
	struct reeve_error error = {0};

	cr_assert(eq(ptr, mapped(text, descriptor, &error), NULL), "%s", text);
	cr_assert(eq(int, error.code, STATUS(INVALID_ARGUMENT)));
	cr_assert(ne(ptr, strstr(error.message, problem), NULL), "%s: %s", text, error.message);
}

Test(json, names_what_is_wrong_in_the_mapping)
{
	const ProtobufCMessageDescriptor *update = &reeve__v1__update_request__descriptor;
	const ProtobufCMessageDescriptor *submit = &reeve__v1__submit_request__descriptor;
	const ProtobufCMessageDescriptor *task = &reeve__v1__task__descriptor, *reply = &reeve__v1__reply__descriptor;
	char deep[200] = "";

	is_not_mapped("{\"ids\":[1,\"2x\"]}", update, "ids[1] must be a whole number");
	is_not_mapped("{\"ids\":[1.5]}", update, "ids[0] must be a whole number");
	is_not_mapped("{\"ids\":[\"9223372036854775808\"]}", update, "ids[0] must be a whole number");
	is_not_mapped("{\"ids\":[\" 1\"]}", update, "ids[0] must be a whole number");
	is_not_mapped("{\"ids\":[null]}", update, "ids[0] must be a whole number");
	is_not_mapped("{\"ids\":5}", update, "ids must be an array");
	is_not_mapped("{\"maxAttempts\":-1}", update, "maxAttempts is negative");
	is_not_mapped("{\"maxAttempts\":4294967296}", update, "maxAttempts is out of range");
	is_not_mapped("{\"maxAttempts\":1,\"max_attempts\":1}", update, "is given twice");
	is_not_mapped("{\"maxAttempts\":1,\"maxAttempts\":1}", update, "duplicate object key");
	is_not_mapped("{\"tasks\":[{\"colour\":1}]}", submit, "tasks[0].colour is not a known field: TaskSpec has queue,");
	is_not_mapped("{\"tasks\":[{\"queue\":\"a\\u0000b\"}]}", submit, "tasks[0].queue holds a NUL byte");
	is_not_mapped("{\"tasks\":[{\"queue\":5}]}", submit, "tasks[0].queue must be a string");
	is_not_mapped("{\"status\":\"dead\"}", task, "status must be one of: TASK_STATUS_");
	is_not_mapped("{\"created\":\"2026-01-14T08:00:00Z\"}", task, "created is not a known field");
	is_not_mapped("{\"body\":\"A\"}", reply, "body must be bytes in base64");
	is_not_mapped("{\"body\":\"A===\"}", reply, "body must be bytes in base64");
	is_not_mapped("{\"body\":\"AA!=\"}", reply, "body must be bytes in base64");
	is_not_mapped("[]", update, "the value must be an object");
	is_not_mapped("5", update, "invalid JSON in line 1");
	is_not_mapped("", update, "invalid JSON in line 1");
	is_not_mapped("{\"ids\":[1]", update, "invalid JSON in line 1");
	is_not_mapped("{\"ids\":[1]}x", update, "invalid JSON in line 1");
	is_not_mapped("{\"queue\":\"\xff\"}", task, "invalid JSON in line 1");
	memset(deep, '[', JSON_DEPTH_MAX + 1);
	is_not_mapped(deep, update, "nested deeper than 40");
}

Test(json, takes_no_text_that_needs_much_memory)
{
	struct reeve_error error = {0};
	size_t length = 100000;
	char *text = malloc(length + 1);

	text[0] = '[';
	for (size_t i = 1; i < length; i++)
		text[i] = i % 2 ? '1' : ',';
	text[length - 1] = ']';
	text[length] = 0;
	cr_assert(eq(ptr, json_read_text(text, length, 1 << 20, &error), NULL));
	cr_assert(ne(ptr, strstr(error.message, "bytes of memory; the maximum is 1048576"), NULL), "%s", error.message);
	free(text);
	text = strdup("{\"queue\":\"[[[[[,,,,,\\\"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\"}");
	json_t *value = json_read_text(text, strlen(text), 1000, &error);
	cr_assert(ne(ptr, value, NULL), "%s", error.message);
	json_decref(value);
	free(text);
}

/* ---- Values that stay text ---- */

static const char *text_of(const char *text, const char *name, size_t flags)
{
	static char kept[256];
	json_error_t why;
	json_t *value = json_load_as_text(text, strlen(text), flags, name, &why);
	json_t *member = name ? json_object_get(value, name) : value;

	snprintf(kept, sizeof kept, "%s",
	    !value                     ? why.text
	        : !member              ? "none"
	        : json_is_null(member) ? "null"
	                               : json_string_value(member));
	json_decref(value);
	return kept;
}

Test(json, keeps_a_value_as_it_is_written)
{
	static const char *const members[][2] = {
	    {"{\"d\":19.99}", "19.99"},
	    {"{\"d\":12345678901234567890,\"e\":1}", "12345678901234567890"},
	    {" { \"e\" : 1 , \"d\" : -1e400 } ", "-1e400"},
	    {"{\"d\":{ \"n\" :\t[1.10, -0.0e-7,1E+999, 0 ], \"s\": \"a \\\\\\\" 1e400 ] \\u00e9\" },\r\n\"e\":1}",
	        "{\"n\":[1.10,-0.0e-7,1E+999,0],\"s\":\"a \\\\\\\" 1e400 ] \\u00e9\"}"},
	    {"{\"\\u0064\":1.10}", "1.10"},
	    {"{\"\\\\d\":1.10,\"\\\"d\":2,\"d\\\"\":3}", "none"},
	    {"{\"e\":{\"d\":1.10},\"f\":[\"d\"]}", "none"},
	    {"{\"e\":{\"d\":1.10},\"d\":2.20,\"f\":{\"d\":3.30}}", "2.20"},
	    {"{\"d\":1.10,\"e\":\"\\\"d\\\":2\",\"f\":\"d\"}", "1.10"},
	    {"{\"d\":1.10,\"d\":2.20}", "2.20"},
	    {"{\"d\":1.10,\"\\u0064\":{\"d\":3}}", "{\"d\":3}"},
	    {"{\"d\":\" t \\u00e9\"}", " t \xc3\xa9"},
	    {"{\"d\":null}", "null"},
	    {"{\"d\": [ true , false,null ] }", "[true,false,null]"},
	    {"{\"d\":{}}", "{}"},
	    {"{}", "none"},
	    {"[\"d\",1.10]", "none"},
	};
	static const char *const values[][2] = {{" 1.10 ", "1.10"}, {"1e400", "1e400"}, {"\"a b\"", "a b"},
	    {"[ 12345678901234567890 ]", "[12345678901234567890]"}, {"{\"a\": 1e400}", "{\"a\":1e400}"}, {"null", "null"}};

	for (size_t i = 0; i < sizeof members / sizeof *members; i++)
		cr_expect(eq(str, (char *)text_of(members[i][0], "d", 0), (char *)members[i][1]), "%s", members[i][0]);
	for (size_t i = 0; i < sizeof values / sizeof *values; i++)
		cr_expect(eq(str, (char *)text_of(values[i][0], NULL, JSON_DECODE_ANY), (char *)values[i][1]));
}

/* Also beside a number that is too large for a parser. */
Test(json, takes_nothing_invalid_as_text)
{
	static const char *const wrong[] = {"", "{", "{\"d\":}", "{\"d\":01}", "{\"d\":1e400", "{\"d\":1e400]", "{\"d\"",
	    "{\"d\":--1e400}", "{\"d\":+1e400}", "{\"d\":1e400.}", "{\"d\":1e400-5}", "{\"d\":[1e400 1]}",
	    "{\"d\":[1e400,01]}", "{\"d\":[1e400,1.]}", "{\"d\":[1e400,.5]}", "{\"d\":[1e400,1e]}", "{\"d\":[1e400,1e+]}",
	    "{\"d\":[1e400,-]}", "{\"d\":[1e400,--1]}", "{\"d\":[1e400,1-2]}", "{\"d\":[1e400,true1]}",
	    "{\"d\":[1e400,0x1]}", "{\"d\":[1e400,\"]}", "{\"d\":[1e400,\"\\\"]}", "{\"d\":[1e400,\"\\",
	    "{\"d\":[1e400,\"\xff\"]}", "{\"d\":[1e400,\"\n\"]}", "{\"d\":1e400}x", "{\"d\":1e400}{",
	    "{\"d\":12345678901234567890x}", "{\"d\":1e400,\"e\":1e400}", "{\"e\":1e400,\"f\":{\"d\":1}}",
	    "[{\"d\":1e400}]", "{\"d\":[1e400,\"\\u0000\"]}"};

	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		json_error_t why;

		cr_expect(eq(ptr, json_load_as_text(wrong[i], strlen(wrong[i]), 0, "d", &why), NULL), "%s", wrong[i]);
		cr_expect(ne(chr, why.text[0], 0), "%s", wrong[i]);
	}
	cr_expect(ne(ptr,
	    strstr(text_of("{\"d\":[1e400,{\"a\":1,\"a\":2}]}", "d", JSON_REJECT_DUPLICATES), "duplicate object key"),
	    NULL));
	cr_expect(eq(str, (char *)text_of("{\"d\":[1e400,\"\\u0000\"]}", "d", JSON_ALLOW_NUL), "[1e400,\"\\u0000\"]"));
}
