/* Splitting commands into words. */
#include "worker/handlers/words.h"

#include <criterion/criterion.h>
#include <string.h>

static void expect(const char *line, const char *joined)
{
	struct reeve_error error = {0};
	char **words = words_split(line, &error), text[400] = "";

	cr_assert(words, "%s: %s", line, error.message);
	for (int i = 0; words[i]; i++) {
		strcat(text, words[i]);
		strcat(text, "|");
	}
	cr_expect_str_eq(text, joined, "%s: %s", line, text);
	words_free(words);
}

Test(words, are_split_at_blanks)
{
	expect("/bin/true", "/bin/true|");
	expect("  a \t b  ", "a|b|");
	expect("a b=c -d --e", "a|b=c|-d|--e|");
	words_free(NULL);
}

Test(words, quotes_and_backslashes)
{
	expect("a 'b c' \"d e\"", "a|b c|d e|");
	expect("a'b'\"c\"d", "abcd|");
	expect("'' \"\" x", "||x|");
	expect("a\\ b \\' \\\\ \\x", "a b|'|\\|x|");
	expect("'a\\' \"b\\n\" \"c\\\"d\" \"e\\\\\"", "a\\|b\\n|c\"d|e\\|");
	expect("\"it's\" 'say \"x\"'", "it's|say \"x\"|");
	expect("sh -c 'a | b; c > $d'", "sh|-c|a | b; c > $d|");
}

static void refuse(const char *line, const char *says)
{
	struct reeve_error error = {0};

	cr_expect_null(words_split(line, &error), "%s", line);
	cr_expect_eq(error.code, STATUS(INVALID_ARGUMENT));
	cr_expect_str_eq(error.message, says, "%s", error.message);
}

Test(words, what_has_no_end_is_refused)
{
	refuse("", "the command is empty");
	refuse("  \t", "the command is empty");
	refuse("a 'b", "the command has a quote without its end");
	refuse("a \"b\\\"", "the command has a quote without its end");
	refuse("a b\\", "the command ends with a backslash");
}
