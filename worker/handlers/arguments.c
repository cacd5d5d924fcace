/* Splits the line in one pass. */
#include "worker/handlers/arguments.h"

#include "common/mem.h"

#include <stdlib.h>
#include <string.h>

void arguments_free(char **arguments)
{
	for (size_t i = 0; arguments && arguments[i]; i++)
		free(arguments[i]);
	free(arguments);
}

static void add(char ***arguments, size_t *count, const char *argument, size_t length)
{
	*arguments = mem_realloc(*arguments, (*count + 2) * sizeof **arguments);
	(*arguments)[(*count)++] = mem_strndup(argument, length);
	(*arguments)[*count] = NULL;
}

static const char *skip_blanks(const char *at)
{
	return at + strspn(at, " \t");
}

/* Reads one argument at *at into `argument`. Returns what is wrong, or NULL. */
static const char *read_argument(const char **at, char *argument, size_t *length)
{
	const char *c = *at;
	char quote = '\0';

	for (*length = 0; *c && (quote || (*c != ' ' && *c != '\t')); c++) {
		if (quote == *c) {
			quote = '\0';
			continue;
		}
		if (!quote && (*c == '\'' || *c == '"')) {
			quote = *c;
			continue;
		}
		if (*c == '\\' && (!quote || (quote == '"' && (c[1] == '"' || c[1] == '\\')))) {
			if (!*++c)
				return "ends with a backslash";
		}
		argument[(*length)++] = *c;
	}
	*at = c;
	return quote ? "has a quote without its end" : NULL;
}

char **arguments_split(const char *line, struct reeve_error *error)
{
	char *argument = mem_malloc(strlen(line) + 1);
	const char *problem = NULL, *at;
	char **arguments = NULL;
	size_t count = 0, length;

	for (at = skip_blanks(line); *at && !problem; at = skip_blanks(at)) {
		problem = read_argument(&at, argument, &length);
		if (!problem)
			add(&arguments, &count, argument, length);
	}
	free(argument);
	if (!problem && !count)
		problem = "is empty";
	if (!problem)
		return arguments;
	arguments_free(arguments);
	error_set(error, STATUS(INVALID_ARGUMENT), "the command %s", problem);
	return NULL;
}
