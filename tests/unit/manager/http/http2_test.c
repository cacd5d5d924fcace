/* HTTP/2 with a real server, and a caller that is slow and breaks the protocol. */
#include "common/rpc/conn_internal.h" /* first: it has its own IOV_MAX */

#include "common/rpc/server_internal.h"
#include "manager/http/http_internal.h"
#include "tests/unit/manager/http/fixture.h"

#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { QUEUED = 128 << 10, ANSWER = 6 << 20, SMALL = 4096 }; /* QUEUED: see http_v2_send.c */

static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

static struct rpc_conn *conn_of(const struct fake_manager *manager)
{
	return manager->host.server->peers->conn;
}

static void shrink(struct fake_manager *manager, void *arg)
{
	(void)arg;
	setsockopt(conn_of(manager)->fd, SOL_SOCKET, SO_SNDBUF, &(int){SMALL}, sizeof(int));
}

struct slow {
	bool full, answered, nested;
};

/* Answers the first call when the connection again takes something, but has not sent all that was queued. */
static void answer_first(struct fake_manager *manager, void *arg)
{
	struct slow *slow = arg;
	struct pollfd writable = {.fd = conn_of(manager)->fd, .events = POLLOUT};
	size_t queued = conn_of(manager)->backlog - conn_of(manager)->held;
	int closed = manager->n_closed;

	slow->full |= queued >= QUEUED && poll(&writable, 1, 0) == 0;
	if (!slow->full || queued >= QUEUED || queued == 0)
		return;
	fake_answer(manager, &manager->parked[0]);
	slow->answered = true;
	slow->nested = manager->n_closed != closed;
}

static void answer_others(struct fake_manager *manager, void *arg)
{
	(void)arg;
	for (int i = 1; i < manager->n_parked; i++)
		fake_answer(manager, &manager->parked[i]);
}

/* The server resets the stream of a caller that breaks its rules when it next writes, which may be the answer to
 * another call, of the same batch of the store. */
Test(http2, a_call_is_not_given_up_while_another_is_answered, .timeout = 60)
{
	static const char window[] = {0, 4, 0x7F, -1, -1, -1};
	static const char type[] = "application/json", wait[] = "/reeve.v1.TaskService/Wait";
	struct fixture fixture = fixture_open(8 << 20, 0);
	struct fake_manager *manager = fixture.manager;
	struct slow slow = {0};
	char out[4096], in[SMALL];
	size_t length = sizeof preface - 1;
	int fd = dial(&fixture);

	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &(int){SMALL}, sizeof(int));
	manager->get_bytes = ANSWER;
	memcpy(out, preface, length);
	length = put_frame(out, length, 4, 0, 0, window, sizeof window);
	length = put_frame(out, length, 8, 0, 0, (const char[]){0x7F, 0, 0, 0}, 4);
	length = put_call(out, length, 1, wait, type, "{\"ids\":[1]}", 11);
	length = put_call(out, length, 3, wait, type, "{\"ids\":[3]}", 11);
	cr_assert_eq(send(fd, out, length, MSG_NOSIGNAL), (ssize_t)length);
	fake_manager_await(manager, &manager->n_parked, 2);
	fake_manager_do(manager, shrink, NULL);
	length = put_call(out, 0, 5, "/reeve.v1.TaskService/Get", type, "{\"id\":5}", 8);
	cr_assert_eq(send(fd, out, length, MSG_NOSIGNAL), (ssize_t)length);
	fake_manager_await(manager, &manager->gets, 1);
	while (!slow.full) {
		length = put_frame(out, 0, 6, 0, 0, "a ping..", 8); /* lets it queue more */
		cr_assert_eq(send(fd, out, length, MSG_NOSIGNAL), (ssize_t)length);
		fake_manager_do(manager, answer_first, &slow);
	}
	length = put_frame(out, 0, 8, 0, 3, (const char[]){0x7F, -1, -1, -1}, 4); /* the window overflows */
	length = put_call(out, length, 7, wait, type, "{\"ids\":[7]}", 11);
	cr_assert_eq(send(fd, out, length, MSG_NOSIGNAL), (ssize_t)length);
	fake_manager_await(manager, &manager->n_parked, 3);
	while (!slow.answered) {
		cr_assert_gt(recv(fd, in, sizeof in, 0), 0);
		fake_manager_do(manager, answer_first, &slow);
	}
	cr_expect_not(slow.nested);
	fake_manager_await(manager, &manager->n_closed, 1);
	cr_expect(manager->parked[1].closed);
	fake_manager_do(manager, answer_others, NULL);
	close(fd);
	fixture_close(&fixture);
}

static void read_all(int fd, uint8_t *bytes, size_t length)
{
	while (length > 0) {
		struct pollfd readable = {.fd = fd, .events = POLLIN};
		ssize_t count;

		cr_assert_eq(poll(&readable, 1, 10000), 1);
		count = recv(fd, bytes, length, 0);
		cr_assert_gt(count, 0);
		bytes += count;
		length -= (size_t)count;
	}
}

/* Reads frames until one resets the stream. Returns its code. */
static uint8_t read_reset(int fd, uint8_t stream)
{
	static uint8_t payload[UINT16_MAX];
	uint8_t head[9];

	do {
		read_all(fd, head, sizeof head);
		read_all(fd, payload, (size_t)head[1] << 8 | head[2]);
	} while (head[3] != 3 || head[8] != stream);
	return payload[3];
}

/* Each message of a stream has a copy of the headers. */
Test(http2, few_bytes_do_not_become_many_long_messages)
{
	enum { TOKEN = 8000, MESSAGES = 1000, CALM = 11 };
	static const char name[] = "\0\15authorization\x7F\xC1\x3D"; /* and the length of the value */
	static char out[2 * TOKEN + MESSAGES * 5], head[TOKEN + 1000], nothing[MESSAGES * 5];
	struct fixture fixture = fixture_open(1 << 20, 0);
	size_t length = sizeof preface - 1, used = put_head(head, 0, 1, HTTP_REFLECTION, "application/grpc");
	int fd = dial(&fixture);

	memcpy(head + used, name, sizeof name - 1);
	used += sizeof name - 1;
	memset(head + used, 'x', TOKEN);
	used += TOKEN;
	memcpy(out, preface, length);
	length = put_frame(out, length, 4, 0, 0, "", 0);
	length = put_frame(out, length, 1, 4, 1, head + 9, used - 9);
	cr_assert_eq(send(fd, out, length, MSG_NOSIGNAL), (ssize_t)length);
	length = put_frame(out, 0, 0, 1, 1, nothing, sizeof nothing);
	cr_assert_eq(send(fd, out, length, MSG_NOSIGNAL), (ssize_t)length);
	cr_assert_eq(read_reset(fd, 1), CALM);
	close(fd);
	fixture_close(&fixture);
}

enum { BUDGET = 64 << 20, LONG = 700000, PIECE = 16000, REFUSED = 7 };

/* Sends a long call on a stream, or without its end. */
static void send_long(int fd, uint8_t stream, const char *path, const char *type, size_t bytes, bool whole)
{
	static const char prefix[] = {0, 0, 0x0F, 0, 0};
	static char piece[PIECE], out[1000 + 2 * PIECE];
	size_t length = put_head(out, 0, stream, path, type);

	length = whole ? put_frame(out, length, 0, 0, stream, "{\"id\":7}", 8)
	               : put_frame(out, length, 0, 0, stream, prefix, sizeof prefix);
	memset(piece, ' ', sizeof piece);
	for (size_t sent = 0; sent < bytes; sent += sizeof piece) {
		bool end = whole && sent + sizeof piece >= bytes;

		length = put_frame(out, length, 0, end, stream, piece, sizeof piece);
		cr_assert_eq(send(fd, out, length, MSG_NOSIGNAL), (ssize_t)length);
		length = 0;
	}
}

static int dial_http2(const struct fixture *fixture)
{
	static const char settings[9] = {0, 0, 0, 4};
	int fd = dial(fixture);

	send_text(fd, preface);
	cr_assert_eq(send(fd, settings, sizeof settings, MSG_NOSIGNAL), (ssize_t)sizeof settings);
	return fd;
}

static void read_incoming(struct fake_manager *manager, void *arg)
{
	*(size_t *)arg = rpc_server_memory(manager->host.server).incoming;
}

/* Returns a connection whose unfinished messages hold nearly all memory for messages. */
static int dial_hoarder(const struct fixture *fixture, const char *path, const char *type)
{
	int fd = dial_http2(fixture);
	size_t incoming = 0;

	for (uint8_t stream = 1; incoming < BUDGET - LONG; stream += 2) { /* nothing is refused yet */
		size_t bytes = BUDGET - incoming > 3 * LONG ? LONG : LONG / 4, goal = incoming + bytes;

		for (send_long(fd, stream, path, type, bytes, false); incoming < goal; pause_ms(1))
			fake_manager_do(fixture->manager, read_incoming, &incoming);
	}
	return fd;
}

/* A caller needs memory that another one holds. `busy`: that one makes complete calls, too. */
static void gets_memory(const char *path, const char *type, bool busy)
{
	static char text[LONG + 1000];
	struct fixture fixture = fixture_open(1 << 20, 0);
	int hoarder = dial_hoarder(&fixture, path, type), fd = dial(&fixture);
	struct pollfd readable = {.fd = fd, .events = POLLIN};
	int head = snprintf(text, sizeof text,
	    "POST /reeve.v1.TaskService/Get HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
	    "Content-Length: %d\r\n\r\n{\"id\":7}",
	    LONG);
	size_t length = (size_t)head + LONG - 8, sent = 0;

	memset(text + head, ' ', LONG - 8);
	fcntl(fd, F_SETFL, O_NONBLOCK);
	for (int stream = 191; poll(&readable, 1, 500) == 0; stream += 2) {
		ssize_t count = send(fd, text + sent, length - sent, MSG_NOSIGNAL);
		char out[1000];

		sent += count > 0 ? (size_t)count : 0;
		cr_assert_leq(stream, UINT8_MAX, "it has no memory yet");
		if (busy) /* the connection may have ended */
			(void)!send(hoarder, out, put_call(out, 0, (uint8_t)stream, "/healthz", "text/plain", "", 0), MSG_NOSIGNAL);
	}
	read_until(fd, "{\"task\":{\"id\":\"7\"}}");
	close(fd);
	close(hoarder);
	fixture_close(&fixture);
}

Test(http2, a_stream_of_messages_holds_no_memory_that_others_need, .timeout = 60)
{
	gets_memory(HTTP_REFLECTION, "application/grpc", false);
}

Test(http2, unfinished_calls_beside_others_hold_no_memory_that_others_need, .timeout = 60)
{
	gets_memory("/reeve.v1.TaskService/Get", "application/json", true);
}

Test(http2, a_refused_call_finds_memory_later, .timeout = 60)
{
	struct fixture fixture = fixture_open(1 << 20, 0);
	int hoarder = dial_hoarder(&fixture, "/reeve.v1.TaskService/Get", "application/json"), fd = dial_http2(&fixture);

	send_long(fd, 1, "/reeve.v1.TaskService/Get", "application/json", LONG, true);
	cr_assert_eq(read_reset(fd, 1), REFUSED);
	for (uint8_t stream = 3; !fake_manager_read(fixture.manager, &fixture.manager->gets); stream += 2) {
		send_long(fd, stream, "/reeve.v1.TaskService/Get", "application/json", LONG, true);
		pause_ms(500);
	}
	close(fd);
	close(hoarder);
	fixture_close(&fixture);
}
