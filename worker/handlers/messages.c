/* Lines gather in one buffer, which grows to the longest that is taken. */
#include "worker/handlers/messages.h"

#include "common/log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { READ_BYTES = 4096, READS_MAX = 64 };

void messages_complain(struct messages *messages, const char *what)
{
	if (!messages->complained)
		log_warn(messages->about, "%s on descriptor 3, ignored (said once)", what);
	messages->complained = true;
}

/* A line is complete. */
static void take_line(struct messages *messages, messages_take *take, void *arg)
{
	json_t *message;

	if (messages->skipping) {
		messages->skipping = false;
		return;
	}
	message = json_loadb(messages->line ? messages->line : "", messages->length, 0, NULL);
	if (json_is_object(message))
		take(arg, message);
	else
		messages_complain(messages, "a line that is no JSON object");
	json_decref(message);
	messages->length = 0;
}

/* Adds a piece of a line. */
static void gather(struct messages *messages, const char *piece, size_t length)
{
	if (messages->skipping || !length)
		return;
	if (messages->length + length > MESSAGE_MAX_BYTES) {
		messages_complain(messages, "a line that is too long");
		messages->skipping = true;
		messages->length = 0;
		return;
	}
	if (messages->length + length > messages->room) {
		messages->room = 2 * messages->room + length;
		messages->line = realloc(messages->line, messages->room);
		if (!messages->line)
			abort();
	}
	memcpy(messages->line + messages->length, piece, length);
	messages->length += length;
}

void messages_read(struct messages *messages, messages_take *take, void *arg)
{
	char bytes[READ_BYTES];

	for (int i = 0; i < READS_MAX && messages->fd >= 0; i++) {
		ssize_t length = read(messages->fd, bytes, sizeof bytes);
		const char *at = bytes, *end = bytes + length, *newline;

		if (length < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (length <= 0) {
			close(messages->fd);
			messages->fd = -1;
			return;
		}
		for (; at < end && (newline = memchr(at, '\n', (size_t)(end - at))); at = newline + 1) {
			gather(messages, at, (size_t)(newline - at));
			take_line(messages, take, arg);
		}
		if (at < end)
			gather(messages, at, (size_t)(end - at));
	}
}

void messages_finish(struct messages *messages, messages_take *take, void *arg)
{
	messages_read(messages, take, arg);
	if (messages->length)
		take_line(messages, take, arg);
}

void messages_clear(struct messages *messages)
{
	if (messages->fd >= 0)
		close(messages->fd);
	messages->fd = -1;
	free(messages->line);
	messages->line = NULL;
	messages->length = messages->room = 0;
}
