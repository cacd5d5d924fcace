#include "common/text.h"

#include "common/limits.h"
#include "common/mem.h"

#include <string.h>

const char *name_problem(const char *name, bool may_be_empty)
{
	size_t length = strlen(name);

	if (length == 0)
		return may_be_empty ? NULL : "is empty";
	if (length > LIMIT_NAME_BYTES)
		return "is longer than " LIMIT_TEXT(LIMIT_NAME_BYTES) " bytes";
	if (!utf8_valid(name, length))
		return "is not UTF-8";
	for (size_t i = 0; i < length; i++) {
		unsigned char c = name[i];
		/* U+0080 to U+009F are control characters too. */
		bool c1 = c == 0xc2 && (unsigned char)name[i + 1] < 0xa0;

		if (c < 0x20 || c == 0x7f || c1)
			return "holds a control character";
	}
	return NULL;
}

char *text_hex(const uint8_t *bytes, size_t length, char *out)
{
	static const char digits[] = "0123456789abcdef";

	for (size_t i = 0; i < length; i++) {
		out[2 * i] = digits[bytes[i] >> 4];
		out[2 * i + 1] = digits[bytes[i] & 15];
	}
	out[2 * length] = '\0';
	return out;
}

char *utf8_repair(const char *bytes, size_t length)
{
	static const char replacement[] = "\xef\xbf\xbd";
	const unsigned char *at = (const unsigned char *)bytes;
	const unsigned char *end = at + length;
	char *text = mem_malloc(3 * length + 1);
	char *to = text;

	while (at < end) {
		size_t step = utf8_character(at, end);

		memcpy(to, step ? (const char *)at : replacement, step ? step : 3);
		to += step ? step : 3;
		at += step ? step : 1;
	}
	*to++ = '\0';
	return mem_realloc(text, to - text);
}
