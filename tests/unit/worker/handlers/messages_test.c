/* Lines of JSON that arrive from a pipe in pieces of any size. */
#include "worker/handlers/messages.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct messages messages;
static int theirs;
static char taken[256]; /* the numbers n of the messages {"n": …}, each followed by a comma */

static void take(void *arg, const json_t *message)
{
	size_t used = strlen(taken);

	cr_expect_eq(arg, taken);
	snprintf(taken + used, sizeof taken - used, "%d,", (int)json_integer_value(json_object_get(message, "n")));
}

static void open_pipe(void)
{
	int ends[2];

	cr_assert_eq(pipe2(ends, O_NONBLOCK), 0);
	fcntl(ends[1], F_SETPIPE_SZ, 1 << 20);
	messages = (struct messages){.fd = ends[0], .about = "task 1/1", .source = "descriptor 3"};
	theirs = ends[1];
	taken[0] = '\0';
}

static void say(const char *text)
{
	cr_assert_eq(write(theirs, text, strlen(text)), (ssize_t)strlen(text));
	messages_read(&messages, take, taken);
}

/* `problem`: a part of the expected problem; NULL: no problem. */
static void finish(const char *want, const char *problem)
{
	messages_finish(&messages, take, taken);
	cr_expect_str_eq(taken, want);
	if (problem)
		cr_expect(strstr(messages.problem, problem), "%s", messages.problem);
	else
		cr_expect_str_eq(messages.problem, "");
	messages_clear(&messages);
	close(theirs);
}

Test(messages, lines_in_pieces)
{
	open_pipe();
	messages_read(&messages, take, taken); /* the pipe is empty: messages_read does not wait */
	say("{\"n\"");
	say(": 1}\n{\"n\": 2}\n{\"n\"");
	cr_expect_str_eq(taken, "1,2,");
	say(":3, \"other\": [{}]}\n");
	cr_expect_str_eq(taken, "1,2,3,");
	finish("1,2,3,", NULL);
}

Test(messages, the_last_needs_no_end)
{
	open_pipe();
	say("{\"n\": 1}\n{\"n\": 2}");
	cr_expect_str_eq(taken, "1,");
	finish("1,2,", NULL);
}

Test(messages, an_object_may_take_several_lines)
{
	open_pipe();
	say("{\n  \"n\": 1,\n  \"text\": \"} \\\" {\",\n  \"list\": [\n    {\n    }\n");
	say("  ]\n}\n\n{\"n\":\n2}\n{\n\"n\": 3\n}");
	finish("1,2,3,", NULL);
}

Test(messages, blank_lines_are_none)
{
	open_pipe();
	say("\n \t\r\n{\"n\": 1}\r\n\n\n");
	finish("1,", NULL);
}

Test(messages, what_is_none_is_passed_over_and_complained_of)
{
	static const char *const wrong[] = {"hello", "[1]", "1", "{\"n\": 1} x", "\"x\"", "\xff\xfe", "]", "{]", "{\"n"};

	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		open_pipe();
		say(wrong[i]);
		say("\n{\"n\": 7}\n");
		finish("7,", "descriptor 3: not a JSON object: ");
	}
	open_pipe();
	cr_assert_eq(write(theirs, "{\"n\": 1}\0\n{\"n\": 2}\n", 20), 20);
	finish("2,", "not a JSON object: {\"n\": 1}");
}

Test(messages, the_complaint_is_of_the_first_and_quotes_it)
{
	char line[1001];

	open_pipe();
	say("hel\tlo \xff\nand more\n");
	finish("", "descriptor 3: not a JSON object: hel lo \xEF\xBF\xBD");
	cr_expect_null(strstr(messages.problem, "more"));
	memset(line, 'x', sizeof line - 1);
	line[sizeof line - 1] = '\0';
	open_pipe();
	say(line);
	finish("", "xxx…");
	cr_expect_lt(strlen(messages.problem), 200);
}

Test(messages, an_object_without_its_end)
{
	open_pipe();
	say("{\"n\": 1\n");
	say("{\"n\": 2}\n");
	finish("2,", "a JSON object without its end: {\"n\": 1");
	open_pipe();
	say("{\"n\": 1}\n{\"n\": 2\n  \n");
	finish("1,", "a JSON object without its end: {\"n\": 2");
}

Test(messages, a_line_that_is_too_long_is_passed_over)
{
	size_t longest = MESSAGE_MAX_BYTES;
	char *line = malloc(longest + 3);

	/* A line of the maximum length, and one that is one byte longer. */
	for (int more = 0; more < 2; more++) {
		open_pipe();
		memset(line, ' ', longest + 2);
		memcpy(line, "{\"n\": 1}", 8);
		line[longest + (size_t)more] = '\n';
		cr_assert_eq(write(theirs, line, longest + (size_t)more + 1), (ssize_t)longest + more + 1);
		messages_read(&messages, take, taken);
		say("{\"n\": 2}\n");
		finish(more ? "2," : "1,2,", more ? "longer than 64 KiB" : NULL);
	}
	free(line);
}

Test(messages, much_that_never_ends_takes_no_memory)
{
	char *piece = malloc(60000);

	memset(piece, 'x', 60000);
	open_pipe();
	for (int i = 0; i < 100; i++) {
		cr_assert_eq(write(theirs, piece, 60000), 60000);
		messages_read(&messages, take, taken);
	}
	cr_expect_leq(messages.size, 3 * MESSAGE_MAX_BYTES);
	say("\n{\"n\": 1}\n");
	free(piece);
	finish("1,", "longer than 64 KiB: xxx");
}

Test(messages, when_everybody_has_closed_it)
{
	open_pipe();
	say("{\"n\": 1}\n{\"n\": 2}");
	close(theirs);
	messages_read(&messages, take, taken);
	cr_expect_eq(messages.fd, -1);
	theirs = open("/dev/null", O_RDONLY);
	finish("1,2,", NULL);
}

/* A program may make its pipe larger, and end before the worker has read what is left in it. */
Test(messages, what_a_large_pipe_holds_is_read_to_its_end)
{
	static char blanks[900 * 1024];

	open_pipe();
	memset(blanks, '\n', sizeof blanks);
	cr_assert_eq(write(theirs, blanks, sizeof blanks), (ssize_t)sizeof blanks);
	cr_assert_eq(write(theirs, "{\"n\": 1}", 8), 8);
	finish("1,", NULL);
}
