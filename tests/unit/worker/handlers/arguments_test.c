/* Splitting commands into arguments. */
#include "worker/handlers/arguments.h"

#include <criterion/criterion.h>
#include <string.h>

static void expect(const char *line, const char *joined)
{
	struct reeve_error error = {0};
	char **arguments = arguments_split(line, &error), text[400] = "";

	cr_assert(arguments, "%s: %s", line, error.message);
	for (int i = 0; arguments[i]; i++) {
		strcat(text, arguments[i]);
		strcat(text, "|");
	}
	cr_expect_str_eq(text, joined, "%s: %s", line, text);
	arguments_free(arguments);
}

Test(arguments, are_split_at_blanks)
{
	expect("/bin/true", "/bin/true|");
	expect("  a \t b  ", "a|b|");
	expect("a b=c -d --e", "a|b=c|-d|--e|");
	arguments_free(NULL);
}

Test(arguments, quotes_and_backslashes)
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

	cr_expect_null(arguments_split(line, &error), "%s", line);
	cr_expect_eq(error.code, STATUS(INVALID_ARGUMENT));
	cr_expect_str_eq(error.message, says, "%s", error.message);
}

Test(arguments, what_has_no_end_is_refused)
{
	refuse("", "the command is empty");
	refuse("  \t", "the command is empty");
	refuse("a 'b", "the command has a quote without its end");
	refuse("a \"b\\\"", "the command has a quote without its end");
	refuse("a b\\", "the command ends with a backslash");
}
