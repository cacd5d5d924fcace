/* Lines of a bulk file: every field, in every form, and the errors for invalid ones. */
#include "client/cmd/bulk_line.h"
#include "common/clock.h"
#include "tests/unit/compare.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static const Reeve__V1__TaskSpec no_defaults;

static struct bulk_task task;
static struct reeve_error error;

static bool read_line(const char *line, const Reeve__V1__TaskSpec *defaults)
{
	return bulk_task_read(&task, line, strlen(line), false, defaults, &error);
}

Test(bulk_line, reads_every_field)
{
	cr_assert(
	    read_line(
	        "{\"queue\":\"q\",\"type\":\"t\",\"details\":\"d\",\"priority\":-3,\"delay\":\"1m30s\",\"key\":\"k\","
	        "\"key_ttl\":\"1h\",\"max_attempts\":7,\"timeout\":\"2s\",\"retry\":{\"base\":\"250ms\",\"max\":\"5m\"}"
	        ","
	        "\"source\":\"s\"}",
	        &no_defaults),
	    "%s", error.message);
	cr_assert(eq(str, (char *)task.spec.queue, "q"));
	cr_assert(eq(str, (char *)task.spec.type, "t"));
	cr_assert(eq(str, (char *)task.spec.details, "d"));
	cr_assert(eq(str, (char *)task.spec.key, "k"));
	cr_assert(eq(str, (char *)task.spec.source, "s"));
	cr_assert(eq(int, task.spec.priority, -3));
	cr_assert(eq(i64, task.spec.delay_ms, 90000));
	cr_assert(eq(i64, task.spec.key_ttl_ms, 3600000));
	cr_assert(eq(i64, task.spec.timeout_ms, 2000));
	cr_assert(eq(i64, task.spec.retry->base_ms, 250));
	cr_assert(eq(i64, task.spec.retry->max_ms, 300000));
	cr_assert(eq(u32, task.spec.max_attempts, 7));
	bulk_task_free(&task);

	cr_assert(read_line("{\"type\":\"t\",\"run_at\":\"2026-01-14T08:00:00Z\",\"key_ttl_ms\":5,\"timeout_ms\":6,"
	                    "\"retry\":{\"base_ms\":7,\"max_ms\":8}}",
	              &no_defaults),
	    "%s", error.message);
	cr_assert(eq(i64, task.spec.run_at_us, INT64_C(1768377600000000)));
	cr_assert(eq(i64, task.spec.key_ttl_ms, 5));
	cr_assert(eq(i64, task.spec.timeout_ms, 6));
	cr_assert(eq(i64, task.spec.retry->base_ms, 7));
	cr_assert(eq(i64, task.spec.retry->max_ms, 8));
	bulk_task_free(&task);
}

static const char *details_of(const char *line)
{
	bulk_task_free(&task);
	cr_assert(read_line(line, &no_defaults), "%s", error.message);
	return task.spec.details ? task.spec.details : "none";
}

Test(bulk_line, details_may_be_any_json)
{
	cr_assert(eq(str, (char *)details_of("{\"details\":\"plain \\u00e9\"}"), "plain \xc3\xa9"));
	cr_assert(eq(str, (char *)details_of("{\"details\": { \"b\" : [1, 2.5, null, true], \"a\" : \"\xc3\xa9\" } }"),
	    "{\"b\":[1,2.5,null,true],\"a\":\"\xc3\xa9\"}"));
	cr_assert(eq(str, (char *)details_of("{\"details\": [ ]}"), "[]"));
	cr_assert(eq(str, (char *)details_of("{\"details\": 9007199254740993}"), "9007199254740993"));
	cr_assert(eq(str, (char *)details_of("{\"details\": 19.99}"), "19.99"));
	cr_assert(eq(str, (char *)details_of("{\"priority\": 1, \"details\": [12345678901234567890, 1e400]}"),
	    "[12345678901234567890,1e400]"));
	cr_assert(eq(str, (char *)details_of("{\"details\": false}"), "false"));
	cr_assert(eq(str, (char *)details_of("{\"details\": null}"), "none"));
	cr_assert(eq(str, (char *)details_of("{}"), "none"));
	bulk_task_free(&task);
}

Test(bulk_line, may_be_only_the_details)
{
	const Reeve__V1__TaskSpec mail = {.type = "mail", .queue = "q"};
	static const char *const lines[][2] = {{"{\"to\": \"ann\"}", "{\"to\":\"ann\"}"}, {"\"text\"", "text"},
	    {"[1, 2]", "[1,2]"}, {"17", "17"}, {"0.1", "0.1"}, {"{\"n\": 1e400}", "{\"n\":1e400}"},
	    {"{\"type\": \"other\"}", "{\"type\":\"other\"}"}};

	for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
		cr_assert(bulk_task_read(&task, lines[i][0], strlen(lines[i][0]), true, &mail, &error), "%s", error.message);
		cr_assert(eq(str, (char *)task.spec.details, (char *)lines[i][1]));
		cr_assert(eq(str, (char *)task.spec.type, "mail"));
		cr_assert(eq(str, (char *)task.spec.queue, "q"));
		bulk_task_free(&task);
	}
	cr_assert(not(bulk_task_read(&task, "text", 4, true, &mail, &error)));
	bulk_task_free(&task);
}

Test(bulk_line, leaves_to_the_defaults_what_it_does_not_say)
{
	const Reeve__V1__TaskSpec delayed = {.type = "d", .queue = "night", .priority = 5, .delay_ms = 60000};
	const Reeve__V1__TaskSpec timed = {.type = "d", .run_at_us = 77};

	cr_assert(read_line("{\"priority\":null}", &delayed));
	cr_assert(eq(str, (char *)task.spec.type, "d"));
	cr_assert(eq(str, (char *)task.spec.queue, "night"));
	cr_assert(eq(int, task.spec.priority, 5));
	cr_assert(eq(i64, task.spec.delay_ms, 60000));
	bulk_task_free(&task);
	cr_assert(read_line("{\"type\":\"own\",\"run_at\":\"2026-01-14T08:00:00Z\"}", &delayed));
	cr_assert(eq(str, (char *)task.spec.type, "own"));
	cr_assert(eq(i64, task.spec.delay_ms, 0), "its own time excludes the default delay");
	bulk_task_free(&task);
	cr_assert(read_line("{\"delay_ms\":5}", &timed));
	cr_assert(eq(i64, task.spec.run_at_us, 0));
	bulk_task_free(&task);
}

static void refused(const char *line, const char *message)
{
	cr_assert(not(read_line(line, &no_defaults)), "%s", line);
	cr_assert(eq(str, error.message, (char *)message));
	bulk_task_free(&task);
}

Test(bulk_line, names_the_error)
{
	refused("[]", "must be a JSON object");
	refused("{\"typ\":\"t\"}",
	    "typ is not a known field: TaskSpec has queue, type, details, priority, delay_ms, "
	    "run_at, key, key_ttl_ms, max_attempts, timeout_ms, retry, source, version, batch_id, pipeline, traceparent, "
	    "own_priority, stage");
	refused("{\"type\":5}", "type must be a string");
	refused("{\"queue\":\"\"}", "queue is empty");
	refused("{\"key\":\"\"}", "key is empty");
	refused("{\"type\":\"a\\u0000b\"}", "type holds a NUL byte");
	refused("{\"details\":\"a\\u0000b\"}", "details holds a NUL byte");
	refused("{\"priority\":\"5\"}", "priority must be a whole number");
	refused("{\"priority\":1.5}", "priority must be a whole number");
	refused("{\"priority\":2147483648}", "priority is out of range");
	refused("{\"max_attempts\":-1}", "max_attempts is negative");
	refused("{\"delay\":\"-5s\"}", "delay is negative");
	refused("{\"delay\":5}", "delay must be a duration like \"250ms\", \"5s\" or \"1m30s\"");
	refused("{\"delay_ms\":-5}", "delay_ms is negative");
	refused("{\"delay_ms\":\"5s\"}", "delay_ms must be a whole number");
	refused("{\"run_at\":5}", "run_at must be a time like \"2026-01-14T08:00:00Z\" or \"+5m\"");
	refused("{\"retry\":\"5s\"}", "retry must be an object");
	refused("{\"retry\":{\"least\":1}}",
	    "retry.least is not a known field: RetryPolicy has base_ms, max_ms, kind, step_ms, "
	    "exponent, delays_ms, jitter_percent");
	refused("{\"retry\":{\"base\":\"x\"}}", "retry.base must be a duration like \"250ms\", \"5s\" or \"1m30s\"");

	cr_assert(not(read_line("{\"type\":\"a\",\"type\":\"b\"}", &no_defaults)));
	cr_assert(strstr(error.message, "is not JSON: duplicate object key") != NULL, "%s", error.message);
	bulk_task_free(&task);
	cr_assert(not(read_line("{\"type\":\"caf\xe9\"}", &no_defaults)));
	cr_assert(strstr(error.message, "is not JSON: unable to decode byte 0xe9") != NULL, "%s", error.message);
	bulk_task_free(&task);
	cr_assert(not(read_line("{\"type\":\"t\"} x", &no_defaults)));
	bulk_task_free(&task);
	cr_assert(not(read_line("", &no_defaults)));
	bulk_task_free(&task);
}

/* Returns the policy as "KIND base max step exponent jitter: delays". */
static char *shown(const Reeve__V1__TaskSpec *spec)
{
	static char text[256];
	const Reeve__V1__RetryPolicy *p = spec->retry;
	int n;

	if (!p)
		return "none";
	n = snprintf(text, sizeof text, "%d %d %d %d %g %d:", (int)p->kind, (int)p->base_ms, (int)p->max_ms,
	    (int)p->step_ms, p->exponent, (int)p->jitter_percent);
	for (size_t i = 0; i < p->n_delays_ms; i++)
		n += snprintf(text + n, sizeof text - (size_t)n, " %d", (int)p->delays_ms[i]);
	return text;
}

static char *growth_of(const char *line, const Reeve__V1__TaskSpec *defaults)
{
	bulk_task_free(&task);
	return read_line(line, defaults) ? shown(&task.spec) : error.message;
}

#define RETRY(inside) "{\"type\":\"t\",\"retry\":{" inside "}}"

Test(bulk_line, a_backoff_and_its_jitter)
{
	static int64_t delays[] = {3000};
	Reeve__V1__RetryPolicy list = {
	    .kind = REEVE__V1__RETRY_KIND__RETRY_KIND_LIST, .delays_ms = delays, .n_delays_ms = 1, .jitter_percent = 5};
	Reeve__V1__RetryPolicy doubled = {.base_ms = 1, .max_ms = 2, .jitter_percent = 7};
	Reeve__V1__RetryPolicy limited = {.base_ms = 3, .max_ms = 4};
	const Reeve__V1__TaskSpec plain = {.retry = &limited};
	const Reeve__V1__TaskSpec listed = {.retry = &list};
	const Reeve__V1__TaskSpec capped = {.retry = &doubled};
	const struct {
		const char *line;
		const Reeve__V1__TaskSpec *defaults;
		const char *shown;
	} cases[] = {
	    {RETRY(""), &no_defaults, "none"},
	    {RETRY("\"jitter\":0"), &no_defaults, "0 0 0 0 0 -1:"},
	    {RETRY("\"jitter\":100,\"base\":\"2s\""), &no_defaults, "0 2000 0 0 0 100:"},
	    {RETRY("\"jitter\":9,\"base\":\"2s\""), &plain, "0 2000 4 0 0 9:"},
	    {RETRY("\"backoff\":\"fixed:5s\""), &no_defaults, "2 5000 0 0 0 0:"},
	    {RETRY("\"backoff\":\"linear:5s\""), &no_defaults, "3 0 0 5000 0 0:"},
	    {RETRY("\"backoff\":\"linear:3s:2s\",\"max\":\"9s\""), &no_defaults, "3 2000 9000 3000 0 0:"},
	    {RETRY("\"backoff\":\"exp:1s:1m\""), &no_defaults, "1 1000 60000 0 0 0:"},
	    {RETRY("\"backoff\":\"exp:1s\""), &plain, "1 1000 4 0 0 0:"},
	    {RETRY("\"backoff\":\"poly:1s:1.5\",\"jitter\":30"), &no_defaults, "4 1000 0 0 1.5 30:"},
	    {RETRY("\"backoff\":\"list:1m,0,2h\""), &no_defaults, "5 0 0 0 0 0: 60000 0 7200000"},
	    {RETRY(""), &listed, "5 0 0 0 0 5: 3000"},
	    {RETRY("\"jitter\":0"), &listed, "5 0 0 0 0 -1: 3000"},
	    {RETRY("\"max_ms\":9"), &capped, "0 1 9 0 0 7:"},
	    {RETRY("\"base_ms\":9"), &capped, "0 9 2 0 0 7:"},
	    {RETRY("\"backoff\":\"fixed:5s\""), &listed, "2 5000 0 0 0 5:"},
	    {RETRY("\"backoff\":\"fixed:5s\""), &capped, "2 5000 2 0 0 7:"},
	    {RETRY("\"jitter\":101"), &no_defaults, "retry.jitter must be a whole number from 0 to 100"},
	    {RETRY("\"jitter\":-1"), &no_defaults, "retry.jitter must be a whole number from 0 to 100"},
	    {RETRY("\"backoff\":5"), &no_defaults, "retry.backoff must be a string"},
	    {RETRY("\"backoff\":\"list:1m,,2m\""), &no_defaults,
	        "retry.backoff: \"\" is not a duration like 250ms, 5s, 1m30s or 2h"},
	    {RETRY("\"backoff\":\"fixed:5s\",\"base\":\"1s\""), &no_defaults,
	        "retry.backoff and retry.base cannot be combined"},
	    {RETRY("\"backoff\":\"exp:5s:1m\",\"max_ms\":1"), &no_defaults,
	        "the cap of retry.backoff and retry.max cannot be combined"},
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		cr_assert(eq(str, growth_of(cases[i].line, cases[i].defaults), (char *)cases[i].shown), "%s", cases[i].line);
	bulk_task_free(&task);
}

Test(bulk_line, a_version_and_a_limit_of_retries)
{
	cr_assert(read_line("{\"type\":\"t\",\"key\":\"k\",\"version\":9007199254740993,\"retry_limit\":0}", &no_defaults),
	    "%s", error.message);
	cr_assert(eq(i64, task.spec.version, INT64_C(9007199254740993)));
	cr_assert(eq(u32, task.spec.max_attempts, 1));
	bulk_task_free(&task);
	cr_assert(not(read_line("{\"type\":\"t\",\"max_attempts\":3,\"retry_limit\":2}", &no_defaults)));
	cr_assert(eq(str, error.message, "max_attempts and retry_limit cannot be combined"));
	bulk_task_free(&task);
	cr_assert(not(read_line("{\"type\":\"t\",\"version\":-1}", &no_defaults)));
	cr_assert(eq(str, error.message, "version is negative"));
	bulk_task_free(&task);
}
