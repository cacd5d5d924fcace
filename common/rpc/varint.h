/* Protobuf's variable-length numbers: seven bits per byte, lowest first; a set high bit means that more bytes
 * follow. */
#ifndef REEVE_COMMON_RPC_VARINT_H
#define REEVE_COMMON_RPC_VARINT_H

#include <stddef.h>
#include <stdint.h>

enum { VARINT_MAX_BYTES = 10 };

/* The encoding of a field's value: the lowest three bits of its tag. */
enum wire_type { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_LENGTH = 2, WIRE_32 = 5 };

/* Reads a number of up to `max_bytes` bytes at `at`, before `end`. Returns its length in bytes, or 0 if it is
 * truncated, longer, or exceeds 64 bits. */
static inline size_t varint_read(const uint8_t *at, const uint8_t *end, size_t max_bytes, uint64_t *value)
{
	uint64_t result = 0;

	if (at < end && *at < 0x80) {
		*value = *at;
		return 1;
	}
	for (size_t i = 0; i < max_bytes && at + i < end; i++) {
		if (i == VARINT_MAX_BYTES - 1 && at[i] > 1)
			return 0;
		result |= (uint64_t)(at[i] & 0x7f) << (7 * i);
		if (at[i] < 0x80) {
			*value = result;
			return i + 1;
		}
	}
	return 0;
}

/* Returns the encoded length of a number in bytes. */
static inline size_t varint_size(uint64_t value)
{
	size_t size = 1;

	while (value >= 0x80) {
		value >>= 7;
		size++;
	}
	return size;
}

/* Writes a number and returns the position after it. */
static inline uint8_t *varint_write(uint8_t *out, uint64_t value)
{
	while (value >= 0x80) {
		*out++ = (uint8_t)(value | 0x80);
		value >>= 7;
	}
	*out++ = (uint8_t)value;
	return out;
}

#endif
