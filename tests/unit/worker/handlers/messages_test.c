/* Lines of JSON from a pipe, in whatever pieces they come. */
#include "worker/handlers/messages.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct messages messages;
static int theirs;
static char taken[256]; /* the numbers n of the messages {"n": …}, each with a comma */

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
	messages = (struct messages){.fd = ends[0], .about = "task 1/1"};
	theirs = ends[1];
	taken[0] = '\0';
}

static void say(const char *text)
{
	cr_assert_eq(write(theirs, text, strlen(text)), (ssize_t)strlen(text));
	messages_read(&messages, take, taken);
}

static void finish(const char *want, bool complained)
{
	messages_finish(&messages, take, taken);
	cr_expect_str_eq(taken, want);
	cr_expect_eq(messages.complained, complained);
	messages_clear(&messages);
	close(theirs);
}

Test(messages, lines_in_pieces)
{
	open_pipe();
	messages_read(&messages, take, taken); /* nothing is there: it does not wait */
	say("{\"n\"");
	say(": 1}\n{\"n\": 2}\n{\"n\"");
	cr_expect_str_eq(taken, "1,2,");
	say(":3, \"other\": [{}]}\n");
	cr_expect_str_eq(taken, "1,2,3,");
	finish("1,2,3,", false);
}

Test(messages, the_last_needs_no_end)
{
	open_pipe();
	say("{\"n\": 1}\n{\"n\": 2}");
	cr_expect_str_eq(taken, "1,");
	finish("1,2,", false);
}

Test(messages, what_is_none_is_ignored)
{
	static const char *const wrong[] = {"hello", "[1]", "1", "", "{\"n\": 1} x", "{\"n\": 1", "\"x\"", "\xff\xfe"};

	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		open_pipe();
		say(wrong[i]);
		say("\n{\"n\": 7}\n");
		finish("7,", true);
	}
	open_pipe();
	cr_assert_eq(write(theirs, "{\"n\": 1}\0\n{\"n\": 2}\n", 20), 20);
	finish("2,", true);
}

Test(messages, a_line_that_is_too_long_is_ignored)
{
	size_t longest = MESSAGE_MAX_BYTES;
	char *line = malloc(longest + 3);

	/* Just as long as may be, and one more. */
	for (int more = 0; more < 2; more++) {
		open_pipe();
		memset(line, ' ', longest + 2);
		memcpy(line, "{\"n\": 1}", 8);
		line[longest + (size_t)more] = '\n';
		cr_assert_eq(write(theirs, line, longest + (size_t)more + 1), (ssize_t)longest + more + 1);
		messages_read(&messages, take, taken);
		say("{\"n\": 2}\n");
		finish(more ? "2," : "1,2,", more);
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
	cr_expect_leq(messages.room, 3 * MESSAGE_MAX_BYTES);
	say("\n{\"n\": 1}\n");
	free(piece);
	finish("1,", true);
}

Test(messages, when_everybody_has_closed_it)
{
	open_pipe();
	say("{\"n\": 1}\n{\"n\": 2}");
	close(theirs);
	messages_read(&messages, take, taken);
	cr_expect_eq(messages.fd, -1);
	theirs = open("/dev/null", O_RDONLY);
	finish("1,2,", false);
}
