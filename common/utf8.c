/*
 * UTF-8 as defined by RFC 3629. utf8_character alone decides which byte sequences are characters. Runs of ASCII are
 * skipped eight bytes at a time.
 */
#include "common/utf8.h"

#include <stdint.h>
#include <string.h>

#define EACH_BYTE(value) (UINT64_C(0x0101010101010101) * (value))

/* Returns true if eight bytes are all ASCII and none is NUL. */
static bool eight_plain(const unsigned char *at)
{
	uint64_t word;

	memcpy(&word, at, sizeof word);
	/* Without high bits no addition carries, and adding 0x7f sets the high bit of every byte except NUL. */
	return (word & EACH_BYTE(0x80)) == 0 && ((word + EACH_BYTE(0x7f)) & EACH_BYTE(0x80)) == EACH_BYTE(0x80);
}

static bool is_tail(unsigned char c)
{
	return (c & 0xc0) == 0x80;
}

size_t utf8_character(const unsigned char *at, const unsigned char *end)
{
	size_t left = end - at;
	unsigned char first = at[0];

	if (first < 0x80)
		return first != 0;
	if (first < 0xc2 || first > 0xf4 || left < 2 || !is_tail(at[1]))
		return 0;
	if (first < 0xe0)
		return 2;
	if (left < 3 || !is_tail(at[2]))
		return 0;
	if (first < 0xf0) {
		bool overlong = first == 0xe0 && at[1] < 0xa0;
		bool surrogate = first == 0xed && at[1] >= 0xa0;

		return overlong || surrogate ? 0 : 3;
	}
	if (left < 4 || !is_tail(at[3]))
		return 0;
	return (first == 0xf0 && at[1] < 0x90) || (first == 0xf4 && at[1] >= 0x90) ? 0 : 4;
}

bool utf8_valid(const char *text, size_t length)
{
	const unsigned char *at = (const unsigned char *)text;
	const unsigned char *end = at + length;

	while (at < end) {
		while (end - at >= 8 && eight_plain(at))
			at += 8;
		if (at == end)
			break;

		size_t step = utf8_character(at, end);
		if (step == 0)
			return false;
		at += step;
	}
	return true;
}

size_t utf8_cut(const char *text, size_t length)
{
	const unsigned char *bytes = (const unsigned char *)text;

	/* Only one of the last three bytes can begin an incomplete character. */
	for (size_t back = 1; back <= 3 && back <= length; back++) {
		unsigned char c = bytes[length - back];

		if (is_tail(c))
			continue;
		size_t needed = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc0 ? 2 : 1;
		return needed > back ? length - back : length;
	}
	return length;
}
