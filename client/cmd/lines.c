/* The lines of a file, with limited length: a file without newlines must not fill the memory. */
#include "client/cmd/lines.h"

#include "common/mem.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static bool file_error(const struct lines *lines, struct reeve_error *error)
{
	return error_set(error, STATUS(INVALID_ARGUMENT), "%s: %s", lines->name, strerror(errno));
}

/* Replaces the file by a copy. */
static bool spool(struct lines *lines, struct reeve_error *error)
{
	char buffer[64 * 1024];
	FILE *copy = tmpfile();
	size_t length;

	if (!copy)
		return error_set(error, STATUS(INTERNAL), "no temporary file for %s: %s", lines->name, strerror(errno));
	while ((length = fread(buffer, 1, sizeof buffer, lines->file)) > 0) {
		if (fwrite(buffer, 1, length, copy) != length)
			break;
	}
	if (ferror(lines->file) || fflush(copy) != 0 || ferror(copy)) {
		error_set(error, STATUS(INTERNAL), "%s cannot be copied to a temporary file: %s", lines->name, strerror(errno));
		fclose(copy);
		return false;
	}
	if (lines->file != stdin)
		fclose(lines->file);
	lines->file = copy;
	rewind(copy);
	return true;
}

bool lines_open(struct lines *lines, const char *path, struct reeve_error *error)
{
	bool input = strcmp(path, "-") == 0;
	struct stat status;

	*lines = (struct lines){.name = input ? "standard input" : path, .unit = "line"};
	lines->file = input ? stdin : fopen(path, "re");
	if (lines->file && fstat(fileno(lines->file), &status) == 0 && !S_ISDIR(status.st_mode))
		return true;
	if (lines->file && S_ISDIR(status.st_mode))
		errno = EISDIR;
	file_error(lines, error);
	lines_close(lines);
	return false;
}

bool lines_prepare(struct lines *lines, struct reeve_error *error)
{
	struct stat status;

	if (fstat(fileno(lines->file), &status) != 0)
		return file_error(lines, error);
	if ((lines->file == stdin || !S_ISREG(status.st_mode)) && !spool(lines, error))
		return false;
	if (fstat(fileno(lines->file), &status) == 0)
		lines->size = status.st_size;
	return true;
}

void lines_close(struct lines *lines)
{
	if (lines->file && lines->file != stdin)
		fclose(lines->file);
	free(lines->text);
	*lines = (struct lines){0};
}

static void make_space(struct lines *lines)
{
	if (lines->length + 1 < lines->capacity)
		return;
	lines->capacity = lines->capacity ? 2 * lines->capacity : 4096;
	lines->text = mem_realloc(lines->text, lines->capacity);
}

static bool append(struct lines *lines, int c, struct reeve_error *error)
{
	if (lines->length == LONGEST_LINE)
		return error_set(error, STATUS(INVALID_ARGUMENT), "%s:%lld: the %s is longer than 64 MiB", lines->name,
		    (long long)lines->number + 1, lines->unit);
	make_space(lines);
	lines->text[lines->length++] = (char)c;
	return true;
}

/* Reads one line. Returns false at the end or on an error. */
static bool read_line(struct lines *lines, struct reeve_error *error)
{
	int c;

	lines->length = 0;
	while ((c = getc_unlocked(lines->file)) != EOF) {
		lines->offset++;
		if (c == '\n')
			break;
		if (!append(lines, c, error))
			return false;
	}
	if (ferror(lines->file))
		return file_error(lines, error);
	if (c == EOF && lines->length == 0)
		return false;
	make_space(lines);
	lines->text[lines->length] = '\0';
	lines->number++;
	return true;
}

/* strspn ends at a NUL, so a text of blanks and NULs does not count as blank. */
static bool is_blank(const struct lines *lines)
{
	return strspn(lines->text, " \t\r\n") == lines->length;
}

/* Checks that nothing follows the array. Returns false. */
static bool end_array(struct lines *lines, struct reeve_error *error)
{
	int c;

	while ((c = getc_unlocked(lines->file)) != EOF)
		if (!strchr(" \t\r\n", c) || !c)
			return error_set(error, STATUS(INVALID_ARGUMENT), "%s: something follows the array", lines->name);
	return ferror(lines->file) ? file_error(lines, error) : false;
}

/* Reads one element. Returns false at the end or on an error. */
static bool read_element(struct lines *lines, struct reeve_error *error)
{
	bool in_string = false, escaped = false;
	int c, depth = 0;

	if (lines->array_ended)
		return end_array(lines, error);
	lines->length = 0;
	while ((c = getc_unlocked(lines->file)) != EOF) {
		lines->offset++;
		if (!in_string && !depth && (c == ',' || c == ']'))
			break;
		if (in_string) {
			in_string = escaped || c != '"';
			escaped = !escaped && c == '\\';
		} else {
			in_string = c == '"';
			depth += c == '{' || c == '[';
			depth -= depth && (c == '}' || c == ']');
		}
		if (!append(lines, c, error))
			return false;
	}
	if (ferror(lines->file))
		return file_error(lines, error);
	if (c == EOF)
		return error_set(error, STATUS(INVALID_ARGUMENT), "%s: the array has no end", lines->name);
	make_space(lines);
	lines->text[lines->length] = '\0';
	lines->array_ended = c == ']';
	if (lines->array_ended && lines->number == 0 && is_blank(lines))
		return end_array(lines, error);
	lines->number++;
	return true;
}

/* Finds out whether the file is an array: then its first character that is not blank is a bracket. */
static void begin(struct lines *lines)
{
	int c;

	do
		c = getc_unlocked(lines->file);
	while (c == ' ' || c == '\t' || c == '\r' || c == '\n');
	lines->is_array = c == '[';
	lines->unit = lines->is_array ? "element" : "line";
	if (!lines->is_array)
		rewind(lines->file);
}

bool lines_next(struct lines *lines, struct reeve_error *error)
{
	if (lines->offset == 0 && lines->number == 0)
		begin(lines);
	if (lines->is_array)
		return read_element(lines, error);
	while (read_line(lines, error)) {
		if (!is_blank(lines))
			return true;
	}
	return false;
}

void lines_rewind(struct lines *lines)
{
	rewind(lines->file);
	lines->number = 0;
	lines->offset = 0;
	lines->array_ended = false;
}
