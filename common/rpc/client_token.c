/*
 * The client's access token. One that was read from a file is read again when the file has changed: before a call, at most once
 * a second. So a token can be rotated without a restart of its programs.
 */
#include "common/rpc/client_internal.h"

#include "common/clock.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/token_file.h"

#include <stdlib.h>
#include <string.h>

enum { CHECK_MS = 1000 };

/* A former token may be in use by another thread: all are kept. */
struct former_token {
	char *text;
	struct former_token *next;
};

static void use_token(struct client_token *token, char *text)
{
	struct former_token *one = mem_malloc(sizeof *one);

	*one = (struct former_token){text, token->all};
	token->all = one;
	atomic_store(&token->text, text);
}

void client_token_open(struct client_token *token, const char *text, const char *path, const char *urls)
{
	pthread_mutex_init(&token->lock, NULL);
	if (path) {
		token->path = mem_strdup(path);
		token->urls = mem_strdup(urls);
		token->version = file_version_of(path); /* the text was read before: a change since then is read in a second */
		token->version.modified.tv_nsec ^= 1;
	}
	use_token(token, mem_strdup(text ? text : ""));
}

void client_token_close(struct client_token *token)
{
	struct former_token *one;

	while ((one = token->all)) {
		token->all = one->next;
		free(one->text);
		free(one);
	}
	free(token->path);
	free(token->urls);
	pthread_mutex_destroy(&token->lock);
}

/* Reads the file again. A file that cannot be used is logged once for each change. */
static void reread(struct client_token *token)
{
	struct reeve_error error;
	char *text;

	text = token_read(token->path, token->urls, &error);
	if (!text) {
		log_error(NULL, "%s; the access token stays as it was", error.message);
	} else if (!strcmp(text, atomic_load(&token->text))) {
		free(text);
	} else {
		use_token(token, text);
		log_info(NULL, "read the access token's changed file %s again", token->path);
	}
}

const char *client_token_check(struct client_token *token)
{
	int64_t now_ms = clock_monotonic_ms();
	struct file_version now;

	if (token->path) {
		pthread_mutex_lock(&token->lock);
		if (now_ms - token->checked_ms >= CHECK_MS) {
			token->checked_ms = now_ms;
			now = file_version_of(token->path);
			if (now.inode && !file_version_same(&now, &token->version)) {
				token->version = now;
				reread(token);
			}
		}
		pthread_mutex_unlock(&token->lock);
	}
	return atomic_load(&token->text);
}
