/* Splits lists of names at commas. Blanks around a name are not part of it. */
#include "worker/names.h"

#include "common/mem.h"
#include "common/text.h"

#include <stdlib.h>
#include <string.h>

void names_add(struct names *names, const char *name, size_t length)
{
	names->list = mem_realloc(names->list, (names->count + 1) * sizeof *names->list);
	names->list[names->count++] = mem_strndup(name, length);
}

bool names_parse(const char *text, const char *what, struct names *names, struct reeve_error *error)
{
	const char *at = text;

	if (!text || !*text)
		return true;
	for (;;) {
		size_t length = strcspn(at, ","), blanks = strspn(at, " \t");
		const char *next = at + length, *problem;

		blanks = blanks < length ? blanks : length;
		at += blanks;
		length -= blanks;
		while (length && (at[length - 1] == ' ' || at[length - 1] == '\t'))
			length--;
		names_add(names, at, length);
		problem = name_problem(names->list[names->count - 1], false);
		if (problem)
			return error_set(error, STATUS(INVALID_ARGUMENT), "%s: name %zu %s", what, names->count, problem);
		if (!*next)
			return true;
		at = next + 1;
	}
}

void names_free(struct names *names)
{
	for (size_t i = 0; i < names->count; i++)
		free((char *)names->list[i]);
	free(names->list);
	*names = (struct names){0};
}
