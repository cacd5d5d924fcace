/* HTTP/2 with a real server, and a caller that is slow and breaks the protocol. */
#include "common/rpc/conn_internal.h" /* first: it has its own IOV_MAX */

#include "common/rpc/server_internal.h"
#include "manager/http/http_internal.h"
#include "tests/unit/manager/http/fixture.h"

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
