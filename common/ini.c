#include "common/ini.h"

#include "common/utf8.h"

#include <stdlib.h>
#include <string.h>

enum { LINE_MAX_BYTES = 64 * 1024, QUOTED_BYTES = 60 };

/* Trims white space from both ends, in place. */
static char *trim(char *text)
{
	char *end;

	text += strspn(text, " \t\r\n");
	for (end = text + strlen(text); end > text && strchr(" \t\r\n", end[-1]); end--)
		;
	*end = '\0';
	return text;
}

/* Ends the text before a semicolon that follows white space. */
static void cut_comment(char *text)
{
	for (char *at = text; (at = strchr(at, ';')); at++)
		if (at > text && strchr(" \t", at[-1])) {
			*at = '\0';
			return;
		}
}

static bool read_line(const struct ini_reader *reader, int line, char *text)
{
	char problem[QUOTED_BYTES + 64], *equals;
	size_t length;

	if (reader->inline_comments)
		cut_comment(text);
	length = strlen(text = trim(text));
	if (!length || *text == '#' || *text == ';')
		return true;
	if (*text == '[') {
		if (text[length - 1] != ']')
			return reader->invalid(reader->arg, line, "a section without its ]");
		text[length - 1] = '\0';
		return reader->section(reader->arg, line, trim(text + 1));
	}
	equals = strchr(text, '=');
	if (!equals) {
		snprintf(problem, sizeof problem, "neither [SECTION] nor NAME = VALUE: %.*s", QUOTED_BYTES, text);
		return reader->invalid(reader->arg, line, problem);
	}
	*equals = '\0';
	return reader->setting(reader->arg, line, trim(text), trim(equals + 1));
}

bool ini_read(FILE *file, const struct ini_reader *reader)
{
	char *text = NULL;
	size_t size = 0;
	ssize_t length;
	bool valid = true;

	for (int line = 1; valid && (length = getline(&text, &size, file)) >= 0; line++) {
		bool marked = line == 1 && !strncmp(text, "\xEF\xBB\xBF", 3); /* a byte order mark */

		if (length > LINE_MAX_BYTES || !utf8_valid(text, (size_t)length))
			valid = reader->invalid(reader->arg, line, "the line is too long or not UTF-8 text");
		else
			valid = read_line(reader, line, marked ? text + 3 : text);
	}
	free(text);
	return valid;
}
