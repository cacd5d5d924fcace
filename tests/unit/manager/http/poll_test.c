/* The dashboard's long poll. */
#include "tests/unit/manager/http/fixture.h"

#include "common/rpc/server_internal.h"
#include "common/utf8.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define STATS "{\"method\":\"AdminService/Stats\",\"request\":\"{}\"}"
#define GET "{\"method\":\"TaskService/Get\",\"request\":\"{\\\"id\\\":7}\"}"

static int poll_with(const struct fixture *fixture, const char *body)
{
	char request[4096];
	int fd = dial(fixture);

	snprintf(request, sizeof request,
	    "POST /reeve.v1.WebService/Poll HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
	    "Content-Length: %zu\r\n\r\n%s",
	    strlen(body), body);
	send_text(fd, request);
	return fd;
}

static void expect(const struct fixture *fixture, const char *body, const char *answer)
{
	int fd = poll_with(fixture, body);

	read_until(fd, answer);
	close(fd);
}

static void finish(struct fake_manager *manager, void *arg)
{
	struct fake_parked *parked = arg;

	(void)manager;
	rpc_call_fail(parked->call, STATUS(ABORTED), "as the test wants it");
	parked->call = NULL;
}

static void read_calls(struct fake_manager *manager, void *arg)
{
	*(int64_t *)arg = rpc_server_calls(manager->host.server);
}

/* Waits for polls and reads. */
static void await_calls(struct fake_manager *manager, int64_t number)
{
	int64_t calls = 0;

	while (calls < number)
		fake_manager_do(manager, read_calls, &calls);
}

Test(http_poll, all_reads_have_one_answer_and_equal_ones_are_made_once)
{
	struct fixture fixture = fixture_open(1 << 20, 0);
	struct fake_manager *manager = fixture.manager;
	const char *body = "{\"maxAgeMs\":60000,\"everyMs\":1,\"reads\":[" STATS "," GET "]}";
	int one = poll_with(&fixture, body), two = poll_with(&fixture, body);

	await_calls(manager, 2 + 4);
	expect(&fixture, "{\"reads\":[" GET "]}", "{\"answers\":[{\"answer\":\"{\\\"task\\\":{\\\"id\\\":\\\"7\\\"}}\"}]}");
	fake_manager_do(manager, finish, &manager->parked[0]);
	for (int i = 0; i < 2; i++)
		read_until(i ? one : two,
		    "{\"answers\":[{\"code\":\"aborted\",\"message\":\"as the test wants it\"},{\"answer\":\"{\\\"task\\\":{\\\"id\\\":\\\"7\\\"}}\"}]}");
	cr_expect_eq(fake_manager_read(manager, &manager->n_parked), 1);
	close(one);
	close(two);
	fixture_close(&fixture);
}

Test(http_poll, what_is_no_read_is_refused)
{
	struct fixture fixture = fixture_open(64 << 10, 0);
	static const char *const methods[] = {"TaskService/Submit", "TaskService/Wait", "TaskService/None",
	    "WebService/Poll", "", "../healthz", "AdminService/Stats?x", NULL};
	char body[4096] = "{\"reads\":[";

	for (size_t i = 0; methods[i]; i++) {
		snprintf(body, sizeof body, "{\"everyMs\":60000,\"reads\":[" GET ",{\"method\":\"%s\",\"request\":\"{}\"}]}",
		    methods[i]);
		expect(&fixture, body, "is no method that changes nothing");
	}
	expect(&fixture, "{}", "reads must be 1 to 32");
	expect(&fixture, "{\"everyMs\":-1,\"reads\":[" GET "]}", "every_ms must be 0 to 3600000");
	expect(&fixture, "{\"everyMs\":\"9223372036854775807\",\"reads\":[" GET "]}", "every_ms must be 0 to 3600000");
	expect(&fixture,
	    "{\"reads\":[{\"method\":\"TaskService/Get\",\"request\":\"{\"},{\"method\":\"TaskService/Get\"}]}",
	    "{\"answers\":[{\"code\":\"invalid_argument\",\"message\":");
	strcpy(body, "{\"reads\":[" GET);
	for (int i = 0; i < 32; i++)
		strcat(body, "," GET);
	strcat(body, "]}");
	expect(&fixture, body, "reads must be 1 to 32, not 33");
	fixture.manager->get_bytes = 40 << 10;
	expect(&fixture, "{\"reads\":[" GET "," GET "]}", "{\"code\":\"out_of_range\",\"message\":\"the answers together");
	fixture_close(&fixture);
}

Test(http_poll, a_caller_that_leaves_gives_its_reads_up)
{
	struct fixture fixture = fixture_open(1 << 20, 0);
	struct fake_manager *manager = fixture.manager;
	int waits = poll_with(&fixture, "{\"everyMs\":3600000,\"reads\":[" STATS "]}");
	int reads = poll_with(&fixture, "{\"reads\":[" STATS "," GET "," STATS "]}");

	fake_manager_await(manager, &manager->n_parked, 2);
	close(waits);
	close(reads);
	fake_manager_await(manager, &manager->n_closed, 2);
	fake_manager_do(manager, finish, &manager->parked[1]);
	fake_manager_do(manager, finish, &manager->parked[0]);
	expect(&fixture, "{\"reads\":[" GET "]}", "{\"answers\":[");
	fixture_close(&fixture);
}

/* One waits for its moment, one for its reads, two for the same read. */
Test(http_poll, a_manager_that_stops_answers_at_once)
{
	struct fixture fixture = fixture_open(1 << 20, 0);
	struct fake_manager *manager = fixture.manager;
	const char *same = "{\"maxAgeMs\":60000,\"reads\":[" STATS "]}";
	int fds[] = {
	    poll_with(&fixture, "{\"everyMs\":3600000,\"reads\":[" STATS "]}"),
	    poll_with(&fixture, "{\"reads\":[" STATS "," GET "]}"),
	    poll_with(&fixture, same),
	    poll_with(&fixture, same),
	};

	await_calls(manager, 4 + 4);
	fake_manager_stop(manager);
	for (size_t i = 0; i < sizeof fds / sizeof *fds; i++) {
		read_until(fds[i], "\"unavailable\"");
		close(fds[i]);
	}
	fixture_close(&fixture);
}

/* The limit is for the text of a poll's answer with all that is around the answers. */
Test(http_poll, answers_up_to_the_limit_fit)
{
	struct fixture fixture = fixture_open(64 << 10, 0);

	for (int less = 0; less < 100; less++) {
		fixture.manager->get_bytes = (size_t)(64 << 10) - (size_t)less;
		expect(&fixture, "{\"reads\":[" GET "]}", "{\"answers\":[");
	}
	fixture_close(&fixture);
}

/* A message that ends within a character, in protobuf's bytes: strict readers refuse the whole answer. */
Test(http_poll, errors_are_utf8)
{
	struct fixture fixture = fixture_open(64 << 10, 0);
	static const char head[] = "POST /reeve.v1.WebService/Poll HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
	                           "Content-Type: application/proto\r\nContent-Length: ";
	char name[2 * 150 + 1] = "", read[1024], out[2048];

	for (int odd = 0; odd < 2; odd++) {
		int fd = dial(&fixture), length;

		strcpy(name, odd ? "x" : "");
		while (strlen(name) < sizeof name - 2)
			strcat(name, "\xc3\xa9");
		/* reads: {method, request}; both lengths as varints */
		length = snprintf(read, sizeof read, "\x0a\x0fTaskService/Get\x12%c%c{\"%s\":1}",
		    (int)((strlen(name) + 6) & 127) | 128, (int)((strlen(name) + 6) >> 7), name);
		length = snprintf(out, sizeof out, "%s%d\r\n\r\n\x0a%c%c", head, length + 3, (length & 127) | 128, length >> 7);
		memcpy(out + length, read, strlen(read));
		length += (int)strlen(read);
		cr_assert_eq(send(fd, out, (size_t)length, MSG_NOSIGNAL), (ssize_t)length);
		const char *heard = strstr(read_until(fd, "\xc3\xa9"), "\xc3\xa9");
		cr_assert(heard, "no answer with the name");
		cr_expect(utf8_valid(heard, strlen(heard)), "%s", heard);
		close(fd);
	}
	fixture_close(&fixture);
}
