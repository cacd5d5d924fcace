/* HTTP with a real server: requests in any pieces, its memory, and its parts. */
#include "manager/http/http.h"

#include "manager/http/http_internal.h"
#include "tests/unit/manager/http/fixture.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <reeve/v1/task.pb-c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static const char get_seven[] = "POST /reeve.v1.TaskService/Get HTTP/1.1\r\nHost: localhost\r\n"
                                "Content-Type: application/json\r\nReeve-Actor: ann\r\nAuthorization: bearer secret\r\n"
                                "Content-Length: 10\r\n\r\n{\"id\":\"7\"}";
static const char get_chunked[] =
    "POST /reeve.v1.TaskService/Get HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    "Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n4;x=y\r\n{\"id\r\n6\r\n\":\"8\"}\r\n0\r\nHost: trailer\r\n\r\n";

Test(http, takes_requests_in_any_pieces)
{
	struct fixture fixture = fixture_open(1 << 20, 0);

	for (size_t piece = 1; piece < 400; piece = piece * 2 + 1) {
		char both[1024];
		int fd = dial(&fixture);
		size_t length = (size_t)snprintf(both, sizeof both, "\r\n%s%s", get_seven, get_chunked);

		for (size_t at = 0; at < length; at += piece) {
			size_t part = length - at < piece ? length - at : piece;

			cr_assert_eq(send(fd, both + at, part, MSG_NOSIGNAL), (ssize_t)part);
		}
		const char *heard = read_until(fd, NULL);
		const char *first = strstr(heard, "{\"task\":{\"id\":\"7\"}}HTTP/1.1 200 OK\r\n");

		cr_assert(!strncmp(heard, "HTTP/1.1 200 OK\r\n", 17), "%s", heard);
		cr_assert(first, "%s", heard);
		cr_assert(strstr(first, "connection: close\r\n"), "%s", heard);
		cr_assert(strstr(first, "\r\n\r\n{\"task\":{\"id\":\"8\"}}"), "%s", heard);
		close(fd);
	}
	fixture_close(&fixture);
}

Test(http, passes_the_fields_of_the_envelope)
{
	struct fixture fixture = fixture_open(1 << 20, 0);
	char request[512];
	int fd = dial(&fixture);

	snprintf(request, sizeof request,
	    "POST /reeve.v1.TaskService/Get HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
	    "Reeve-Actor: ann\r\nAuthorization: bearer secret\r\nConnect-Timeout-Ms: 60000\r\n"
	    "Idempotency-Key: order 17\r\nContent-Length: 8\r\n\r\n{\"id\":7}");
	send_text(fd, request);
	read_until(fd, "\"7\"");
	cr_assert_str_eq(fixture.manager->actor, "ann");
	cr_assert_str_eq(fixture.manager->token, "secret");
	cr_assert(fixture.manager->remaining_ms > 50000 && fixture.manager->remaining_ms <= 60000);
	close(fd);
	fixture_close(&fixture);
}

static const char wait_for_nine[] =
    "POST /reeve.v1.TaskService/Wait HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    "Content-Length: 11\r\n\r\n{\"ids\":[9]}";

static void answer_all(struct fake_manager *manager, void *arg)
{
	(void)arg;
	for (int i = 0; i < manager->n_parked; i++)
		if (manager->parked[i].call)
			fake_answer(manager, &manager->parked[i]);
}

/* Whether a caller closes its connection or only its sending direction. */
static void withdraws(bool half)
{
	struct fixture fixture = fixture_open(1 << 20, 0);
	int fd = dial(&fixture);

	send_text(fd, wait_for_nine);
	fake_manager_await(fixture.manager, &fixture.manager->n_parked, 1);
	cr_assert_eq(shutdown(fd, half ? SHUT_WR : SHUT_RDWR), 0);
	fake_manager_await(fixture.manager, &fixture.manager->n_closed, 1);
	fake_manager_do(fixture.manager, answer_all, NULL);
	cr_assert_str_eq(read_until(fd, NULL), "");
	close(fd);
	fixture_close(&fixture);
}

Test(http, a_closed_connection_withdraws_the_call)
{
	withdraws(false);
}

Test(http, a_half_closed_connection_withdraws_the_call)
{
	withdraws(true);
}

Test(http, what_follows_an_open_call_waits)
{
	struct fixture fixture = fixture_open(1 << 20, 0);
	char flood[8192];
	int fd = dial(&fixture);

	send_text(fd, wait_for_nine);
	send_text(fd, get_seven);
	fake_manager_await(fixture.manager, &fixture.manager->n_parked, 1);
	/* More than the connection takes: it is not read any more, and the rest stays with the caller. */
	memset(flood, 'x', sizeof flood);
	fcntl(fd, F_SETFL, O_NONBLOCK);
	while (send(fd, flood, sizeof flood, MSG_NOSIGNAL) > 0)
		;
	pause_ms(200);
	cr_assert_eq(fake_manager_read(fixture.manager, &fixture.manager->gets), 0);
	fake_manager_do(fixture.manager, answer_all, NULL);
	read_until(fd, "{\"task\":{\"id\":\"7\"}}");
	close(fd);
	fixture_close(&fixture);
}

Test(http, a_call_is_answered_at_its_deadline)
{
	struct fixture fixture = fixture_open(1 << 20, 0);
	char request[512];
	int fd = dial(&fixture);

	const char *headers = strchr(wait_for_nine, '\n') + 1;
	snprintf(request, sizeof request, "%.*sConnect-Timeout-Ms: 300\r\n%s", (int)(headers - wait_for_nine),
	    wait_for_nine, headers);
	send_text(fd, request);
	read_until(fd, "deadline_exceeded");
	fake_manager_await(fixture.manager, &fixture.manager->n_closed, 1);
	send_text(fd, get_seven);
	read_until(fd, "{\"task\":{\"id\":\"7\"}}");
	fake_manager_do(fixture.manager, answer_all, NULL); /* late: dropped */
	send_text(fd, get_seven);
	cr_assert(!strncmp(read_until(fd, "{\"task\":{\"id\":\"7\"}}"), "HTTP/1.1 200", 12));
	close(fd);
	fixture_close(&fixture);
}

static void read_incoming(struct fake_manager *manager, void *arg)
{
	*(size_t *)arg = rpc_server_memory(manager->host.server).incoming;
}

Test(http, unfinished_contents_take_only_the_memory_for_messages, .timeout = 60)
{
	enum { CALLERS = 100, PART = 900000 };
	struct fixture fixture = fixture_open(1 << 20, 0);
	char *part = malloc(PART);
	size_t incoming, max = 0;
	int fds[CALLERS], late;

	memset(part, ' ', PART);
	for (int i = 0; i < CALLERS; i++) {
		fds[i] = dial(&fixture);
		send_text(fds[i],
		    "POST /reeve.v1.TaskService/Get HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
		    "Content-Length: 1000000\r\n\r\n");
		fcntl(fds[i], F_SETFL, O_NONBLOCK);
		cr_assert(send(fds[i], part, PART, MSG_NOSIGNAL) != 0);
		fake_manager_do(fixture.manager, read_incoming, &incoming);
		max = incoming > max ? incoming : max;
	}
	cr_assert_gt(max, 16 << 20);
	cr_assert_leq(max, (64 << 20) / 8 * 9);
	late = dial(&fixture);
	send_text(late, get_seven);
	read_until(late, "{\"task\":{\"id\":\"7\"}}");
	close(late);
	for (int i = 0; i < CALLERS; i++)
		close(fds[i]);
	for (int64_t until_ms = clock_monotonic_ms() + 30000; incoming > 0 && clock_monotonic_ms() < until_ms; pause_ms(20))
		fake_manager_do(fixture.manager, read_incoming, &incoming);
	cr_assert_eq(incoming, 0);
	free(part);
	fixture_close(&fixture);
}

Test(http, a_caller_that_is_turned_away_reads_why)
{
	struct fixture fixture = fixture_open(1 << 20, 2);
	int fds[8];

	for (int i = 0; i < 8; i++) {
		fds[i] = dial(&fixture);
		send_text(fds[i], wait_for_nine);
	}
	read_until(fds[7], "resource_exhausted");
	for (int i = 0; i < 8; i++)
		close(fds[i]);
	fixture_close(&fixture);
}

Test(http, a_wrong_request_ends_its_connection_after_the_answer)
{
	struct fixture fixture = fixture_open(65536, 0);
	char *flood = malloc(4 << 20);
	int fd = dial(&fixture);

	memset(flood, 'x', 4 << 20);
	send_text(fd,
	    "POST /reeve.v1.TaskService/Get HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
	    "Content-Length: 4194304\r\n\r\n");
	/* All of it is taken: otherwise TCP would reset the connection and the answer would be lost. */
	cr_assert_eq(send(fd, flood, 4 << 20, MSG_NOSIGNAL), 4 << 20);
	cr_assert(strstr(read_until(fd, NULL), "HTTP/1.1 413 Payload Too Large\r\n"));
	close(fd);
	free(flood);
	fixture_close(&fixture);
}

Test(http, a_caller_may_ask_before_it_sends_the_content)
{
	struct fixture fixture = fixture_open(1 << 20, 0);
	int fd = dial(&fixture);

	send_text(fd,
	    "POST /reeve.v1.TaskService/Get HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
	    "Expect: 100-Continue\r\nContent-Length: 10\r\n\r\n");
	cr_assert_str_eq(read_until(fd, "\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
	send_text(fd, "{\"id\":\"7\"}");
	read_until(fd, "{\"task\":{\"id\":\"7\"}}");
	close(fd);
	fixture_close(&fixture);
}

/* Returns the next of a sequence of numbers that is the same in each run. */
static uint32_t next_number(uint32_t *state)
{
	*state = *state * 1664525 + 1013904223;
	return *state >> 8;
}

/* Changes, removes and repeats some bytes of a request. */
static size_t mutate(char *bytes, size_t length, uint32_t *state)
{
	static const char interesting[] = "\r\n :;0fF%?&{}[]\"\\,\0\xff";

	for (uint32_t n = next_number(state) % 4 + 1; n > 0; n--) {
		size_t at = next_number(state) % length;

		switch (next_number(state) % 3) {
		case 0: bytes[at] = interesting[next_number(state) % (sizeof interesting - 1)]; break;
		case 1: memmove(bytes + at, bytes + at + 1, --length - at); break;
		default: memmove(bytes + at + 1, bytes + at, length++ - at); break;
		}
	}
	return length;
}

Test(http, spoiled_requests_harm_no_other, .timeout = 60)
{
	struct fixture fixture = fixture_open(1 << 20, 0);
	const char *requests[] = {get_seven, get_chunked, wait_for_nine,
	    "GET /reeve.v1.TaskService/Get?encoding=json&base64=1&message=eyJpZCI6N30 HTTP/1.1\r\nHost: [::1]\r\n\r\n",
	    "OPTIONS /proto/ HTTP/1.1\r\nHost: localhost\r\nOrigin: https://a.b\r\nAccess-Control-Request-Method: POST\r\n\r\n"};
	uint32_t state = 17;
	int innocent = dial(&fixture);

	for (int i = 0; i < 400; i++) {
		char bytes[1024];
		const char *request = requests[(size_t)i % (sizeof requests / sizeof *requests)];
		size_t length = strlen(request);
		int fd = dial(&fixture);

		memcpy(bytes, request, length);
		length = mutate(bytes, length, &state);
		cr_assert_eq(send(fd, bytes, length, MSG_NOSIGNAL), (ssize_t)length);
		if (i % 10 == 0) {
			send_text(innocent, get_seven);
			read_until(innocent, "{\"task\":{\"id\":\"7\"}}");
		}
		close(fd);
	}
	close(innocent);
	fixture_close(&fixture);
}

Test(http, spoiled_frames_harm_no_other, .timeout = 60)
{
	static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
	static const char list[] = {0, 0, 0, 0, 3, 7 << 3 | 2, 1, '*'}, seven[] = {0, 0, 0, 0, 2, 1 << 3, 7};
	struct fixture fixture = fixture_open(1 << 20, 0);
	char good[2048], bytes[2048];
	size_t first = sizeof preface - 1, length = first;
	uint32_t state = 23;
	int innocent = dial(&fixture);

	memcpy(good, preface, first);
	length = put_frame(good, length, 4, 0, 0, "", 0);
	length = put_call(good, length, 1, "/reeve.v1.TaskService/Get", "application/grpc", seven, sizeof seven);
	length = put_call(good, length, 3, HTTP_REFLECTION, "application/grpc", list, sizeof list);
	length = put_call(good, length, 5, "/reeve.v1.TaskService/Get", "application/json", "{\"id\":7}", 8);
	for (int i = 0; i < 400; i++) {
		size_t spoiled;
		int fd = dial(&fixture);

		memcpy(bytes, good, length);
		spoiled = first + mutate(bytes + first, length - first, &state);
		cr_assert_eq(send(fd, bytes, spoiled, MSG_NOSIGNAL), (ssize_t)spoiled);
		if (i % 10 == 0) {
			send_text(innocent, get_seven);
			read_until(innocent, "{\"task\":{\"id\":\"7\"}}");
		}
		close(fd);
	}
	close(innocent);
	fixture_close(&fixture);
}

Test(http, an_origin_must_be_written_as_browsers_do)
{
	struct http_options options = {.origins = "https://example.org,http://[::1]:80"};
	struct reeve_error error = {0};
	struct http_api *api = http_api_create(&options, &error);

	cr_assert(api, "%s", error.message);
	http_api_destroy(api);
	for (const char *const *wrong =
	         (const char *const[]){"example.org", "https://", "https://example.org/", "https://*.example.org", NULL};
	     *wrong; wrong++) {
		options.origins = *wrong;
		cr_assert_not(http_api_create(&options, &error), "%s", *wrong);
		cr_assert(strstr(error.message, "is not an origin"), "%s", error.message);
	}
}

Test(http, queries_are_decoded)
{
	static const char query[] = "a=1%2B+2&message=%7B%7d&b=%7&c&message=second&e=%00x#f=9";
	size_t length;
	char *value = http_query_value(query, "message", &length);

	cr_assert_str_eq(value, "{}");
	cr_assert_eq(length, 2);
	free(value);
	value = http_query_value(query, "a", &length);
	cr_assert_str_eq(value, "1+ 2");
	free(value);
	value = http_query_value(query, "e", &length);
	cr_assert_eq(length, 2);
	free(value);
	cr_assert_null(http_query_value(query, "b", &length));
	cr_assert_null(http_query_value(query, "c", &length));
	cr_assert_null(http_query_value(query, "f", &length));
	cr_assert_null(http_query_value("", "f", &length));
}

Test(http, gzip_is_bounded_and_whole)
{
	struct reeve_error error = {0};
	size_t length = 100000, packed, unpacked;
	uint8_t *bytes = calloc(1, length), *small = http_gzip(bytes, length, &packed), *back;

	cr_assert(small && packed < 1000);
	back = http_gunzip(small, packed, length, &unpacked, &error);
	cr_assert(back, "%s", error.message);
	cr_assert_eq(unpacked, length);
	free(back);
	cr_assert_null(http_gunzip(small, packed, length - 1, &unpacked, &error));
	cr_assert_eq(error.code, STATUS(RESOURCE_EXHAUSTED));
	cr_assert_null(http_gunzip(small, packed - 1, length, &unpacked, &error));
	cr_assert_eq(error.code, STATUS(INVALID_ARGUMENT));
	small = realloc(small, packed + 1);
	small[packed] = 0;
	cr_assert_null(http_gunzip(small, packed + 1, length, &unpacked, &error)); /* more behind it */
	cr_assert_null(http_gunzip(small, 0, length, &unpacked, &error));
	cr_assert_null(http_gzip((const uint8_t *)"abc", 3, &unpacked)); /* it would get longer */
	free(small);
	free(bytes);
}
