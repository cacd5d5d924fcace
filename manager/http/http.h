/*
 * The HTTP door: the manager's calls by the Connect protocol and gRPC, over HTTP/1.1 and HTTP/2, and a few pages. docs/http.md describes it for
 * callers. It is a transport of the RPC server, which does everything else.
 *
 * Everything runs on the loop's thread.
 */
#ifndef REEVE_MANAGER_HTTP_HTTP_H
#define REEVE_MANAGER_HTTP_HTTP_H

#include "common/rpc/server.h"

struct http_door;

struct http_options {
	const char *origins; /* of web pages that may call, separated by commas; "*": all; NULL: none */
	bool metrics_open;   /* /metrics needs no access token, whatever name the host has */
	size_t max_message_bytes;
	/* Returns the database's time in microseconds, for request ids. */
	int64_t (*now_us)(void *arg);
	/* Returns NULL if the manager can serve calls, or what prevents it. */
	const char *(*problem)(void *arg);
	void *arg;
};

/* Returns NULL with *error if the options are invalid. */
struct http_door *http_door_create(const struct http_options *options, struct reeve_error *error);

/* Listens on http://HOST:PORT. Returns false with *error set if it cannot. */
bool http_door_listen(struct http_door *door, struct rpc_server *server, const char *url, struct reeve_error *error);

/* Call it after rpc_server_destroy. */
void http_door_destroy(struct http_door *door);

#endif
