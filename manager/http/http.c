#include "manager/http/http.h"

#include "common/mem.h"
#include "manager/http/http_internal.h"

#include <manager/http/poll.pb-c.h>
#include <stdlib.h>
#include <string.h>

static const struct rpc_transport transport = {
    .scheme = "http",
    .expires = true,
    .protocol = &http_protocol,
    .serve = http_serve,
    .read = http_read,
    .decode = http_decode,
    .respond = http_respond,
    .refuse = http_refuse,
    .send = http_send,
    .wants_answer = http_wants_answer,
    .maintain = http_maintain,
};

enum { ORIGIN_MAX_BYTES = 255 };

/* Reads the list of origins. */
static bool read_origins(struct http_api *api, struct reeve_error *error)
{
	char *rest = NULL;
	size_t count = 0;

	for (char *origin = strtok_r(api->origins, ", ", &rest); origin; origin = strtok_r(NULL, ", ", &rest)) {
		const char *host = strstr(origin, "://");

		if (!strcmp(origin, "*")) {
			api->any_origin = true;
			continue;
		}
		if (!host || !host[3] || strpbrk(host + 3, "/\"\\*?#") || strlen(origin) > ORIGIN_MAX_BYTES)
			return error_set(error, STATUS(INVALID_ARGUMENT),
			    "--http-origins: \"%s\" is not an origin such as https://example.org:8443", origin);
		if (count == ORIGINS_MAX - 1)
			return error_set(error, STATUS(INVALID_ARGUMENT), "--http-origins takes up to %d origins", ORIGINS_MAX - 1);
		api->origin[count++] = origin;
	}
	return true;
}

struct http_api *http_api_create(const struct http_options *options, struct reeve_error *error)
{
	struct http_api *api = mem_calloc(1, sizeof *api);

	api->options = *options;
	api->origins = mem_strdup(options->origins ? options->origins : "");
	if (read_origins(api, error))
		return api;
	http_api_destroy(api);
	return NULL;
}

bool http_api_listen(struct http_api *api, struct rpc_server *server, const char *url, struct reeve_error *error)
{
	static const char https[] = "https://";
	bool secure = strncmp(url, https, strlen(https)) == 0;
	char *given = mem_asprintf("%s%s", secure ? "tls+http://" : "", url + (secure ? strlen(https) : 0));
	bool good;

	if (!api->server)
		rpc_server_add(server, &reeve__v1__web_service__descriptor, http_poll_methods, api);
	api->server = server;
	good = rpc_server_listen_for(server, &transport, api, given, error);
	free(given);
	return good;
}

void http_api_destroy(struct http_api *api)
{
	if (!api)
		return;
	free(api->origins);
	free(api);
}
