/* The log's lines, read back through a pipe in place of standard error. */
#include "common/log.h"
#include "tests/unit/compare.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int reader = -1;
static int standard_error = -1;

static void capture(void)
{
	int ends[2];

	cr_assert(eq(int, pipe2(ends, O_NONBLOCK), 0));
	standard_error = dup(STDERR_FILENO);
	dup2(ends[1], STDERR_FILENO);
	close(ends[1]);
	reader = ends[0];
}

static const char *captured(void)
{
	static char text[16384];
	ssize_t length = read(reader, text, sizeof text - 1);

	text[length > 0 ? length : 0] = '\0';
	return text;
}

static void restore(void)
{
	dup2(standard_error, STDERR_FILENO);
	close(standard_error);
	close(reader);
}

Test(log, writes_one_line_an_event, .init = capture, .fini = restore)
{
	unsetenv("JOURNAL_STREAM");
	log_setup("tester", LOG_LEVEL_INFO);
	log_info("task 5", "%s is %d", "answer", 42);
	const char *line = captured();
	cr_assert(
	    eq(sz, strlen(line), strlen("2026-01-02T03:04:05.678Z info  tester: task 5: answer is 42\n")), "%s", line);
	cr_assert(eq(str, (char *)line + 24, " info  tester: task 5: answer is 42\n"));
	cr_assert(line[10] == 'T' && line[19] == '.' && line[23] == 'Z');
	log_error(NULL, "no object");
	cr_assert(eq(str, (char *)captured() + 24, " error tester: no object\n"));
}

Test(log, leaves_out_what_is_less_urgent, .init = capture, .fini = restore)
{
	log_setup("tester", LOG_LEVEL_WARN);
	log_info(NULL, "not this");
	log_debug(NULL, "nor this");
	cr_assert(eq(str, (char *)captured(), ""));
	log_warn(NULL, "but this");
	cr_assert(ne(ptr, strstr(captured(), "but this\n"), NULL));
}

Test(log, input_cannot_forge_lines, .init = capture, .fini = restore)
{
	unsetenv("JOURNAL_STREAM");
	log_setup("tester", LOG_LEVEL_INFO);
	log_info("a\nb", "\x1b[31mred\r\n%s", "caf\xc3\xa9 \xff \xc2\x85");
	cr_assert(eq(
	    str, (char *)captured() + 24, " info  tester: a\\x0ab: \\x1b[31mred\\x0d\\x0acaf\xc3\xa9 \\xff \\xc2\\x85\n"));
}

Test(log, cuts_long_lines, .init = capture, .fini = restore)
{
	char text[9000];

	memset(text, '\n', sizeof text);
	text[sizeof text - 1] = '\0';
	log_setup("tester", LOG_LEVEL_INFO);
	log_info(NULL, "%s", text);
	const char *line = captured();
	cr_assert(lt(sz, strlen(line), 4097));
	cr_assert(eq(sz, strcspn(line, "\n"), strlen(line) - 1));
}

Test(log, speaks_to_the_journal, .init = capture, .fini = restore)
{
	setenv("JOURNAL_STREAM", "8:1", 1);
	log_setup("tester", LOG_LEVEL_INFO);
	log_warn("worker 3", "late");
	cr_assert(eq(str, (char *)captured(), "<4>tester: worker 3: late\n"));
}

Test(log, other_formats_have_fields, .init = capture, .fini = restore)
{
	unsetenv("JOURNAL_STREAM");
	log_setup("tester", LOG_LEVEL_INFO);
	log_set_format("json");
	log_warn("a \"b\"", "1\\2\n3 \xff caf\xc3\xa9");
	const char *line = captured();
	cr_assert(eq(int, strncmp(line, "{\"time\":\"20", 11), 0), "%s", line);
	cr_assert(eq(str, (char *)strchr(line, ',') + 1,
	    "\"level\":\"warn\",\"program\":\"tester\",\"object\":\"a \\\"b\\\"\","
	    "\"message\":\"1\\\\2\\\\x0a3 \\\\xff caf\xc3\xa9\"}\n"));
	log_info(NULL, "no object");
	cr_assert(ne(ptr, strstr(captured(), "\"tester\",\"message\":\"no object\"}\n"), NULL));
	log_set_format("logfmt");
	log_info("worker 3", "late = \"yes\"");
	line = captured();
	cr_assert(eq(int, strncmp(line, "time=20", 7), 0), "%s", line);
	cr_assert(eq(str, (char *)strchr(line, ' '),
	    " level=info program=tester object=\"worker 3\" message=\"late = \\\"yes\\\"\"\n"));
}

/* Whatever is cut, the line is complete. */
Test(log, long_lines_of_fields_are_complete, .init = capture, .fini = restore)
{
	char object[3000], text[9000];

	memset(object, '"', sizeof object - 1);
	memset(text, '\n', sizeof text - 1);
	object[sizeof object - 1] = text[sizeof text - 1] = '\0';
	setenv("JOURNAL_STREAM", "8:1", 1);
	log_setup("tester", LOG_LEVEL_INFO);
	log_set_format("json");
	log_info(object, "%s", text);
	const char *line = captured();
	cr_assert(eq(int, strncmp(line, "<6>{\"time\":\"", 12), 0), "%s", line);
	cr_assert(le(sz, strlen(line), 4096));
	cr_assert(gt(sz, strlen(line), 4080));
	cr_assert(eq(str, (char *)line + strlen(line) - 8, "\\\\x0a\"}\n"), "%s", line);
	cr_assert(ne(ptr, strstr(line, "\\\"\",\"message\":\"\\\\x0a"), NULL), "%s", line);
}

/* The writing end blocks, as standard error does: without the check the test would hang. */
Test(log, a_log_that_is_not_read_blocks_no_program, .init = capture, .fini = restore, .timeout = 20)
{
	static char all[1 << 20];
	size_t length = 0, count = 0;
	const char *text;
	unsigned lost;

	fcntl(STDERR_FILENO, F_SETFL, 0);
	log_setup("tester", LOG_LEVEL_INFO);
	for (int i = 0; i < 5000; i++)
		log_info(NULL, "line %d", i);
	while (*(text = captured()) && length + strlen(text) < sizeof all)
		length += (size_t)sprintf(all + length, "%s", text);
	for (const char *at = all; (at = strchr(at, '\n')); at++)
		count++;
	cr_assert(count > 100 && count < 5000, "%zu", count);
	log_info(NULL, "the next one");
	text = strstr(captured(), "tester: ");
	cr_assert(
	    text && sscanf(text, "tester: %u lines are missing here, because nobody read the log in time", &lost) == 1,
	    "%s", text ? text : "");
	cr_assert(eq(sz, lost + count, 5000));
	cr_assert(strstr(text, "tester: the next one\n") != NULL, "%s", text);
}

Test(log, logs_again_after_ten_seconds)
{
	int64_t logged_ms = 0;

	cr_assert(log_again(&logged_ms, 5000));
	cr_assert(not(log_again(&logged_ms, 14999)));
	cr_assert(log_again(&logged_ms, 15000));
	cr_assert(not(log_again(&logged_ms, 15001)));
}
