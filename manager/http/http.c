#include "manager/http/http.h"

#include "common/mem.h"
#include "manager/http/http_internal.h"

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
    .awaits = http_awaits,
    .tend = http_tend,
};

enum { ORIGIN_MAX_BYTES = 255 };

/* Reads the list of origins. */
static bool read_origins(struct http_door *door, struct reeve_error *error)
{
	char *rest = NULL;
	size_t count = 0;

	for (char *origin = strtok_r(door->origins, ", ", &rest); origin; origin = strtok_r(NULL, ", ", &rest)) {
		const char *host = strstr(origin, "://");

		if (!strcmp(origin, "*")) {
			door->any_origin = true;
			continue;
		}
		if (!host || !host[3] || strpbrk(host + 3, "/\"\\*?#") || strlen(origin) > ORIGIN_MAX_BYTES)
			return error_set(error, STATUS(INVALID_ARGUMENT),
			    "--http-origins: \"%s\" is not an origin such as https://example.org:8443", origin);
		if (count == ORIGINS_MAX - 1)
			return error_set(error, STATUS(INVALID_ARGUMENT), "--http-origins takes up to %d origins", ORIGINS_MAX - 1);
		door->origin[count++] = origin;
	}
	return true;
}

struct http_door *http_door_create(const struct http_options *options, struct reeve_error *error)
{
	struct http_door *door = mem_calloc(1, sizeof *door);

	door->options = *options;
	door->origins = mem_strdup(options->origins ? options->origins : "");
	if (read_origins(door, error))
		return door;
	http_door_destroy(door);
	return NULL;
}

bool http_door_listen(struct http_door *door, struct rpc_server *server, const char *url, struct reeve_error *error)
{
	static const char https[] = "https://";
	bool secure = strncmp(url, https, strlen(https)) == 0;
	char *given = mem_asprintf("%s%s", secure ? "tls+http://" : "", url + (secure ? strlen(https) : 0));
	bool good = rpc_server_listen_for(server, &transport, door, given, error);

	free(given);
	return good;
}

void http_door_destroy(struct http_door *door)
{
	if (!door)
		return;
	free(door->origins);
	free(door);
}
