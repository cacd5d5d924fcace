/* The access token of a client. If it is in a file, it changes with that, so that a rotated token needs no restart. */
#include "common/rpc/client_internal.h"

#include "common/clock.h"
#include "common/log.h"
#include "common/mem.h"

#include <stdlib.h>
#include <string.h>

enum { CHECK_MS = 1000 };

/* Makes a token the current one, unless it is already. Returns whether it is a new one. */
static bool use(struct rpc_client *client, const char *text)
{
	const struct client_token *current = atomic_load(&client->token);
	struct client_token *token;

	if (current && strcmp(current->text, text) == 0)
		return false;
	token = mem_malloc(sizeof *token + strlen(text) + 1);
	token->previous = current;
	token->length = strlen(text);
	strcpy(token->text, text);
	atomic_store(&client->token, token);
	return true;
}

bool client_token_open(struct rpc_client *client, const struct rpc_client_options *options, struct reeve_error *error)
{
	const struct token_source *source = options->token_source;
	char *text;

	if (!source) {
		use(client, options->token ? options->token : "");
		return true;
	}
	text = token_read(source, error);
	if (!text)
		return false;
	use(client, text);
	free(text);
	if (source->path)
		client->token_source = (struct token_source){.path = mem_strdup(source->path), .own = source->own};
	client->token_checked_ms = clock_monotonic_ms();
	return true;
}

void client_token_free(struct rpc_client *client)
{
	const struct client_token *token, *next = atomic_load(&client->token);

	while ((token = next)) {
		next = token->previous;
		free((void *)(uintptr_t)token);
	}
	token_source_free(&client->token_source);
}

void rpc_client_reload(struct rpc_client *client)
{
	const char *path = client->token_source.path;
	struct reeve_error error;
	bool changed, failed;
	char *text;

	if (!path)
		return;
	text = token_read(&client->token_source, &error);
	client_lock(client);
	changed = text && use(client, text);
	failed = !text && !client->token_failed;
	client->token_failed = !text;
	client->token_checked_ms = clock_monotonic_ms();
	client_unlock(client);
	if (changed)
		log_info("rpc", "read the changed access token %s again", path);
	if (failed)
		log_warn("rpc", "%s; the access token that was read before stays in use", error.message);
	free(text);
}

void client_token_check(struct rpc_client *client, int64_t now_ms)
{
	if (!client->token_source.path || now_ms - client->token_checked_ms < CHECK_MS)
		return;
	client_unlock(client);
	rpc_client_reload(client);
	client_lock(client);
}

const char *rpc_client_token_file(const struct rpc_client *client)
{
	return client->token_source.path;
}
