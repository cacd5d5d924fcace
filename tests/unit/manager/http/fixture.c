#include "tests/unit/manager/http/fixture.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

static int64_t now_us(void *arg)
{
	(void)arg;
	return clock_wall_us();
}

static const char *no_problem(void *arg)
{
	(void)arg;
	return NULL;
}

struct fixture fixture_open(size_t max_message, int max_connections)
{
	const struct rpc_server_options server = {.max_message_bytes = max_message, .max_connections = max_connections};
	struct fixture fixture = {.manager = fake_manager_make(LOOPBACK, &server)};
	const struct http_options options = {
	    .base = fixture.manager->host.base,
	    .max_message_bytes = max_message,
	    .now_us = now_us,
	    .problem = no_problem,
	};
	struct reeve_error error = {0};

	fixture.api = http_api_create(&options, &error);
	cr_assert(fixture.api, "%s", error.message);
	cr_assert(
	    http_api_listen(fixture.api, fixture.manager->host.server, "http://127.0.0.1:0", &error), "%s", error.message);
	fixture.port = atoi(strrchr(rpc_server_url(fixture.manager->host.server), ':') + 1);
	fake_manager_run(fixture.manager);
	return fixture;
}

void fixture_close(struct fixture *fixture)
{
	fake_manager_free(fixture->manager);
	http_api_destroy(fixture->api);
}

int dial(const struct fixture *fixture)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)fixture->port)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
	cr_assert_eq(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
	return fd;
}

void send_text(int fd, const char *text)
{
	cr_assert_eq(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
}

const char *read_until(int fd, const char *awaited)
{
	static char heard[1 << 16];
	size_t length = 0;

	heard[0] = 0;
	while (length < sizeof heard - 1 && !(awaited && strstr(heard, awaited))) {
		struct pollfd readable = {.fd = fd, .events = POLLIN};
		ssize_t count;

		cr_assert_eq(poll(&readable, 1, 10000), 1, "heard only: %s", heard);
		count = recv(fd, heard + length, sizeof heard - 1 - length, 0);
		if (count <= 0)
			break;
		length += (size_t)count;
		heard[length] = 0;
	}
	cr_assert(!awaited || strstr(heard, awaited), "heard only: %s", heard);
	return heard;
}

size_t put_frame(char *out, size_t at, uint8_t type, uint8_t flags, uint8_t stream, const char *payload, size_t length)
{
	const char head[] = {0, (char)(length >> 8), (char)length, (char)type, (char)flags, 0, 0, 0, (char)stream};

	memcpy(out + at, head, sizeof head);
	memcpy(out + at + sizeof head, payload, length);
	return at + sizeof head + length;
}

size_t put_head(char *out, size_t at, uint8_t stream, const char *path, const char *type)
{
	const char *headers[] = {":method", "POST", ":scheme", "http", ":path", path, ":authority", "localhost",
	    "content-type", type, "grpc-timeout", "5S", NULL};
	char block[512];
	size_t used = 0;

	for (const char **text = headers; *text; text++) {
		if ((text - headers) % 2 == 0)
			block[used++] = 0;
		block[used++] = (char)strlen(*text);
		memcpy(block + used, *text, strlen(*text));
		used += strlen(*text);
	}
	return put_frame(out, at, 1, 4, stream, block, used);
}

size_t put_call(
    char *out, size_t at, uint8_t stream, const char *path, const char *type, const char *content, size_t length)
{
	at = put_head(out, at, stream, path, type);
	return put_frame(out, at, 0, 1, stream, content, length);
}
