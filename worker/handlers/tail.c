/* One buffer, which grows to twice what is kept. When it is full, its second half replaces the first. */
#include "worker/handlers/tail.h"

#include "common/text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROOM_FIRST = 8 * 1024 };

static void make_room(struct tail *tail)
{
	if (tail->length < tail->room)
		return;
	if (tail->room == 2 * TAIL_BYTES) {
		memmove(tail->bytes, tail->bytes + TAIL_BYTES, TAIL_BYTES);
		tail->length = TAIL_BYTES;
		tail->cut = true;
		return;
	}
	tail->room = tail->room ? 2 * tail->room : ROOM_FIRST;
	tail->bytes = realloc(tail->bytes, tail->room);
	if (!tail->bytes)
		abort();
}

bool tail_read(struct tail *tail)
{
	ssize_t length;

	if (tail->fd < 0)
		return false;
	make_room(tail);
	length = read(tail->fd, tail->bytes + tail->length, tail->room - tail->length);
	if (length < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	if (length > 0) {
		tail->length += (size_t)length;
	} else {
		close(tail->fd);
		tail->fd = -1;
	}
	return tail->fd >= 0;
}

/* Advances *start to the beginning of a character. */
static void skip_rest(const char **start, size_t *length)
{
	for (; *length && ((unsigned char)**start & 0xC0) == 0x80; (*start)++)
		(*length)--;
}

char *tail_text(const struct tail *tail, size_t most)
{
	size_t length = tail->length < most ? tail->length : most;
	const char *start = tail->bytes ? tail->bytes + tail->length - length : "";
	char *text;

	if (tail->cut || length < tail->length)
		skip_rest(&start, &length);
	while (length && (start[length - 1] == '\n' || start[length - 1] == '\r'))
		length--;
	text = utf8_repair(start, length);
	length = strlen(text);
	if (length > most) { /* the repair has made it longer */
		start = text + length - most;
		length = most;
		skip_rest(&start, &length);
		memmove(text, start, length + 1);
	}
	return text;
}

void tail_clear(struct tail *tail)
{
	if (tail->fd >= 0)
		close(tail->fd);
	free(tail->bytes);
	*tail = (struct tail){.fd = -1};
}
