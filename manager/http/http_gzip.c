/* gzip, by zlib. */
#include "manager/http/http_internal.h"

#include "common/mem.h"

#include <stdlib.h>
#include <zlib.h>

enum {
	GZIP_BITS = 15 + 16, /* the largest window, with gzip's head */
	ROOM_MIN = 16 << 10,
};

static void *take_memory(void *arg, unsigned count, unsigned size)
{
	(void)arg;
	return mem_calloc(count, size);
}

static void free_memory(void *arg, void *memory)
{
	(void)arg;
	free(memory);
}

/* Inflates into memory that grows up to `max`. Returns NULL with *error set if it cannot. */
static uint8_t *inflate_all(z_stream *stream, size_t max, size_t *out, struct reeve_error *error)
{
	size_t bound = max + 1,
	       room = ROOM_MIN < bound ? ROOM_MIN : bound; /* one byte more shows that there are too many */
	uint8_t *bytes = mem_malloc(room);
	int result;

	for (;;) {
		stream->next_out = bytes + stream->total_out;
		stream->avail_out = (unsigned)(room - stream->total_out);
		result = inflate(stream, Z_NO_FLUSH);
		if (result != Z_OK || stream->avail_out > 0 || room == bound)
			break;
		room = 2 * room < bound ? 2 * room : bound;
		bytes = mem_realloc(bytes, room);
	}
	*out = stream->total_out;
	if (result == Z_STREAM_END && stream->avail_in == 0 && stream->total_out <= max)
		return bytes;
	free(bytes);
	if (stream->total_out > max)
		error_set(error, STATUS(RESOURCE_EXHAUSTED), "the content has more than %zu bytes when decompressed", max);
	else
		error_set(error, STATUS(INVALID_ARGUMENT), "the content is not one stream of gzip");
	return NULL;
}

uint8_t *http_gunzip(const uint8_t *bytes, size_t length, size_t max, size_t *out, struct reeve_error *error)
{
	z_stream stream = {.zalloc = take_memory, .zfree = free_memory, .next_in = (Bytef *)(uintptr_t)bytes};
	uint8_t *inflated;

	stream.avail_in = (unsigned)length;
	mem_check(inflateInit2(&stream, GZIP_BITS) == Z_OK);
	inflated = inflate_all(&stream, max, out, error);
	inflateEnd(&stream);
	return inflated;
}

uint8_t *http_gzip(const uint8_t *bytes, size_t length, size_t *out)
{
	z_stream stream = {.zalloc = take_memory, .zfree = free_memory, .next_in = (Bytef *)(uintptr_t)bytes};
	uint8_t *deflated = mem_malloc(length);
	int result;

	stream.avail_in = (unsigned)length;
	stream.next_out = deflated;
	stream.avail_out = (unsigned)length;
	mem_check(deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, GZIP_BITS, 8, Z_DEFAULT_STRATEGY) == Z_OK);
	result = deflate(&stream, Z_FINISH);
	*out = stream.total_out;
	deflateEnd(&stream);
	if (result == Z_STREAM_END)
		return deflated;
	free(deflated);
	return NULL;
}
