/* A fake manager with an HTTP interface, and its callers. */
#ifndef REEVE_TESTS_UNIT_MANAGER_HTTP_FIXTURE_H
#define REEVE_TESTS_UNIT_MANAGER_HTTP_FIXTURE_H

#include "manager/http/http.h"
#include "tests/unit/common/rpc/fake_manager.h"

struct fixture {
	struct fake_manager *manager;
	struct http_api *api;
	int port;
};

struct fixture fixture_open(size_t max_message, int max_connections);
void fixture_close(struct fixture *fixture);

/* Returns a new connection. */
int dial(const struct fixture *fixture);

/* Sends all of a text. */
void send_text(int fd, const char *text);

/* Reads until the text has come, or the end of the connection if it is NULL. Fails after ten seconds. */
const char *read_until(int fd, const char *awaited);

/* Append a frame of HTTP/2 to a text; the headers of a call, without compression; and all of a call. Return the end. */
size_t put_frame(char *out, size_t at, uint8_t type, uint8_t flags, uint8_t stream, const char *payload, size_t length);
size_t put_head(char *out, size_t at, uint8_t stream, const char *path, const char *type);
size_t put_call(
    char *out, size_t at, uint8_t stream, const char *path, const char *type, const char *content, size_t length);

#endif
