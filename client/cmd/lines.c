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

	*lines = (struct lines){.name = input ? "standard input" : path};
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

/* Reads one line. Returns false at the end or on an error. */
static bool read_line(struct lines *lines, struct reeve_error *error)
{
	int c;

	lines->length = 0;
	while ((c = getc_unlocked(lines->file)) != EOF) {
		lines->offset++;
		if (c == '\n')
			break;
		if (lines->length == LONGEST_LINE)
			return error_set(error, STATUS(INVALID_ARGUMENT), "%s:%lld: the line is longer than 64 MiB", lines->name,
			    (long long)lines->number + 1);
		make_space(lines);
		lines->text[lines->length++] = (char)c;
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

bool lines_next(struct lines *lines, struct reeve_error *error)
{
	while (read_line(lines, error)) {
		/* strspn ends at a NUL, so a line of blanks and NULs does not count as blank. */
		if (strspn(lines->text, " \t\r") != lines->length)
			return true;
	}
	return false;
}

void lines_rewind(struct lines *lines)
{
	rewind(lines->file);
	lines->number = 0;
	lines->offset = 0;
}
