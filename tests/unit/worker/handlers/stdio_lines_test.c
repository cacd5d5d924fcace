/* A line of a stdio handler's child that arrives from a pipe in pieces. */
#include "worker/handlers/stdio_lines.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool counting;
static size_t searched; /* bytes */

void *__real_memchr(const void *text, int byte, size_t length);
void *__wrap_memchr(const void *text, int byte, size_t length);

void *__wrap_memchr(const void *text, int byte, size_t length)
{
	if (counting)
		searched += length;
	return __real_memchr(text, byte, length);
}

Test(stdio_lines, a_long_line_is_searched_once)
{
	enum { PIECE = 4096, LENGTH = 256 * PIECE };
	static const char head[] = "{\"id\": \"1-2\", \"result\": \"", tail[] = "\"}\n";
	const struct handler_spec spec = {.max_output_bytes = LENGTH};
	struct stdio_lines lines = {
	    .run = {.spec = &spec, .input = -1, .error = {.fd = -1}, .messages = {.fd = -1}}, .id = "1-2"};
	char *text = malloc(LENGTH);
	int ends[2];

	cr_assert_eq(pipe2(ends, O_NONBLOCK), 0);
	lines.run.output = ends[0];
	memset(text, 'x', LENGTH);
	memcpy(text, head, strlen(head));
	memcpy(text + LENGTH - strlen(tail), tail, strlen(tail));
	counting = true;
	for (size_t at = 0; at < LENGTH; at += PIECE) {
		cr_assert_not(lines.run.answered);
		cr_assert_eq(write(ends[1], text + at, PIECE), PIECE);
		stdio_lines_read(&lines.run);
	}
	counting = false;
	cr_expect(lines.run.answered);
	cr_expect_eq(lines.run.result_length, LENGTH - strlen(head) - strlen(tail));
	cr_expect_lt(searched, (size_t)4 * LENGTH);
	run_clear(&lines.run);
	close(ends[1]);
	free(lines.text);
	free(text);
}
