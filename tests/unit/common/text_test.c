/* UTF-8 checks, names and repairs, at every position around the eight-byte steps. */
#include "common/result_text.h"
#include "common/text.h"
#include "tests/unit/compare.h"

#include <criterion/criterion.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* A reference implementation: decodes without shortcuts. */
static bool slowly_valid(const unsigned char *at, size_t length)
{
	static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};

	while (length > 0) {
		size_t count = *at < 0x80 ? 1 : *at >> 5 == 6 ? 2 : *at >> 4 == 14 ? 3 : *at >> 3 == 30 ? 4 : 0;
		if (count == 0 || count > length || *at == 0)
			return false;
		uint32_t point = count == 1 ? *at : *at & (0x7f >> count);
		for (size_t i = 1; i < count; i++) {
			if (at[i] >> 6 != 2)
				return false;
			point = point << 6 | (at[i] & 0x3f);
		}
		if (point < least[count] || point > 0x10ffff || (point >= 0xd800 && point < 0xe000))
			return false;
		at += count;
		length -= count;
	}
	return true;
}

Test(text, knows_every_character)
{
	for (unsigned first = 0; first < 256; first++) {
		for (unsigned second = 0; second < 256; second++) {
			unsigned char bytes[] = {first, second, 0x80, 0xbf, 'x'};

			for (size_t length = 1; length <= sizeof bytes; length++)
				cr_assert(eq(int, utf8_valid((char *)bytes, length), slowly_valid(bytes, length)),
				    "%02x %02x, %zu bytes", first, second, length);
		}
	}
}

Test(text, finds_a_bad_byte_anywhere)
{
	static const unsigned char bad[] = {0, 0x80, 0xc0, 0xff};
	char text[40];

	for (size_t length = 1; length <= sizeof text; length++) {
		memset(text, 'a', sizeof text);
		cr_assert(utf8_valid(text, length));
		for (size_t at = 0; at < length; at++) {
			for (size_t i = 0; i < sizeof bad; i++) {
				text[at] = (char)bad[i];
				cr_assert(not(utf8_valid(text, length)), "byte %zu of %zu", at, length);
			}
			text[at] = 'a';
		}
	}
	cr_assert(utf8_valid("", 0));
	cr_assert(utf8_valid("0123456\xc3\xa9"
	                     "89012345\xf0\x9f\x90\x84",
	    21));
}

Test(text, cuts_between_characters)
{
	cr_assert(eq(sz, utf8_cut("abc", 2), 2));
	cr_assert(eq(sz, utf8_cut("a\xc3\xa9", 2), 1));
	cr_assert(eq(sz, utf8_cut("a\xc3\xa9", 3), 3));
	cr_assert(eq(sz, utf8_cut("\xf0\x9f\x90\x84", 3), 0));
	cr_assert(eq(sz, utf8_cut("\xf0\x9f\x90\x84", 4), 4));
	cr_assert(eq(sz, utf8_cut("\xe2\x82\xac", 1), 0));
	cr_assert(eq(sz, utf8_cut("", 0), 0));
}

Test(text, judges_names)
{
	char name[258];

	cr_assert(eq(ptr, (void *)name_problem("mail", false), NULL));
	cr_assert(eq(ptr, (void *)name_problem("Übung 7", false), NULL));
	cr_assert(eq(ptr, (void *)name_problem("", true), NULL));
	cr_assert(eq(str, (char *)name_problem("", false), "is empty"));
	cr_assert(eq(str, (char *)name_problem("a\nb", false), "holds a control character"));
	cr_assert(eq(str, (char *)name_problem("a\x7f", false), "holds a control character"));
	cr_assert(eq(str, (char *)name_problem("a\xc2\x85", false), "holds a control character"));
	cr_assert(eq(str, (char *)name_problem("a\xff", false), "is not UTF-8"));
	memset(name, 'n', sizeof name);
	name[255] = '\0';
	cr_assert(eq(ptr, (void *)name_problem(name, false), NULL));
	name[255] = 'n';
	name[256] = '\0';
	cr_assert(eq(str, (char *)name_problem(name, false), "is longer than 255 bytes"));
}

Test(text, repairs_only_what_is_broken)
{
	static const char broken[] = "ok \xff\xc3\xa9\0\xe2\x82|";
	char *text = utf8_repair(broken, sizeof broken - 1);

	cr_assert(eq(str, text, "ok \xef\xbf\xbd\xc3\xa9\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd|"));
	cr_assert(utf8_valid(text, strlen(text)));
	free(text);
	text = utf8_repair("", 0);
	cr_assert(eq(str, text, ""));
	free(text);
}

/* What result_encode makes of a result stands for it alone; the others stand for themselves. */
Test(text, results_are_kept_exactly)
{
	static const struct {
		const char *result;
		size_t length;
		const char *text; /* NULL: the result itself */
	} cases[] = {
	    {"", 0, NULL},
	    {"caf\xc3\xa9\n", 6, NULL},
	    {"data:text/plain,x", 17, NULL},
	    {"\0", 1, RESULT_BINARY "AA=="},
	    {"a\0b", 3, RESULT_BINARY "YQBi"},
	    {"\xff\xfe", 2, RESULT_BINARY "//4="},
	    {RESULT_BINARY, sizeof RESULT_BINARY - 1, RESULT_BINARY "ZGF0YTphcHBsaWNhdGlvbi9vY3RldC1zdHJlYW07YmFzZTY0LA=="},
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char *text = result_encode(cases[i].result, cases[i].length);
		size_t length = 0;
		char *bytes = result_decode(text ? text : cases[i].result, &length);

		cr_assert(eq(int, text != NULL, cases[i].text != NULL), "case %zu", i);
		cr_assert(eq(int, bytes != NULL, text != NULL), "case %zu", i);
		if (text && bytes) {
			cr_assert(eq(str, text, (char *)cases[i].text));
			cr_assert(eq(sz, length, cases[i].length));
			cr_assert(eq(int, memcmp(bytes, cases[i].result, length), 0), "case %zu", i);
		}
		free(text);
		free(bytes);
	}
	cr_assert(eq(ptr, result_decode(RESULT_BINARY "A", &(size_t){0}), NULL));
	cr_assert(eq(ptr, result_decode(RESULT_BINARY "AA=A", &(size_t){0}), NULL));
}
