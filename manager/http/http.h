/*
 * The calls of the contract by HTTP, and a few pages: the Connect protocol and gRPC, over HTTP/1.1 and HTTP/2.
 * docs/http.md describes them for callers. This is a transport of the RPC server, which does everything else.
 *
 * Everything runs on the loop's thread.
 */
#ifndef REEVE_MANAGER_HTTP_HTTP_H
#define REEVE_MANAGER_HTTP_HTTP_H

#include "common/rpc/server.h"

struct http_api;

struct http_options {
	struct event_base *base; /* the server's loop */
	const char *origins;     /* of web pages that may call, separated by commas; "*": all; NULL: none */
	bool metrics_open;       /* /metrics needs no access token, whatever name the host has */
	size_t max_message_bytes;
	/* Returns the database's time in microseconds, for request ids. */
	int64_t (*now_us)(void *arg);
	/* Returns NULL if the manager can serve calls, or the reason why it cannot. */
	const char *(*problem)(void *arg);
	void *arg;
};

/* Returns NULL with *error if the options are invalid. */
struct http_api *http_api_create(const struct http_options *options, struct reeve_error *error);

/* Listens on http://HOST:PORT, always with the same server. Returns false with *error set if it cannot. */
bool http_api_listen(struct http_api *api, struct rpc_server *server, const char *url, struct reeve_error *error);

/* Call it after rpc_server_destroy. */
void http_api_destroy(struct http_api *api);

#endif
