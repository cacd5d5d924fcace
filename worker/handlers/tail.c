/* One buffer, which grows to twice what is kept. When it is full, its second half replaces the first. */
#include "worker/handlers/tail.h"

#include "common/mem.h"
#include "common/text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FIRST_BYTES = 8 * 1024 };

static void make_space(struct tail *tail)
{
	if (tail->length < tail->size)
		return;
	if (tail->size == 2 * TAIL_BYTES) {
		memmove(tail->bytes, tail->bytes + TAIL_BYTES, TAIL_BYTES);
		tail->length = TAIL_BYTES;
		tail->cut = true;
		return;
	}
	tail->size = tail->size ? 2 * tail->size : FIRST_BYTES;
	tail->bytes = mem_realloc(tail->bytes, tail->size);
}

bool tail_read(struct tail *tail)
{
	ssize_t length;

	if (tail->fd < 0)
		return false;
	make_space(tail);
	length = read(tail->fd, tail->bytes + tail->length, tail->size - tail->length);
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

void tail_append(struct tail *tail, const char *bytes, size_t length)
{
	while (length) {
		size_t space;

		make_space(tail);
		space = tail->size - tail->length;
		if (space > length)
			space = length;
		memcpy(tail->bytes + tail->length, bytes, space);
		tail->length += space;
		bytes += space;
		length -= space;
	}
}

/* Advances *start to the beginning of a character. */
static void skip_rest(const char **start, size_t *length)
{
	for (; *length && ((unsigned char)**start & 0xC0) == 0x80; (*start)++)
		(*length)--;
}

char *tail_text(const struct tail *tail, size_t max)
{
	size_t length = tail->length < max ? tail->length : max;
	const char *start = tail->bytes ? tail->bytes + tail->length - length : "";
	char *text;

	if (tail->cut || length < tail->length)
		skip_rest(&start, &length);
	while (length && (start[length - 1] == '\n' || start[length - 1] == '\r'))
		length--;
	text = utf8_repair(start, length);
	length = strlen(text);
	if (length > max) { /* the repair has made it longer */
		start = text + length - max;
		length = max;
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
