/* Splits the line in one pass; each word is a string of its own. */
#include "worker/handlers/words.h"

#include <stdlib.h>
#include <string.h>

void words_free(char **words)
{
	if (!words)
		return;
	for (size_t i = 0; words[i]; i++)
		free(words[i]);
	free(words);
}

static void *checked(void *memory)
{
	if (!memory)
		abort();
	return memory;
}

static void add(char ***words, size_t *count, const char *word, size_t length)
{
	*words = checked(realloc(*words, (*count + 2) * sizeof **words));
	(*words)[(*count)++] = checked(strndup(word, length));
	(*words)[*count] = NULL;
}

static const char *blanks(const char *at)
{
	return at + strspn(at, " \t");
}

/* Reads one word at *at into `word`. Returns what is wrong, or NULL. */
static const char *read_word(const char **at, char *word, size_t *length)
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
		word[(*length)++] = *c;
	}
	*at = c;
	return quote ? "has a quote without its end" : NULL;
}

char **words_split(const char *line, struct reeve_error *error)
{
	char *word = checked(malloc(strlen(line) + 1));
	const char *problem = NULL, *at;
	char **words = NULL;
	size_t count = 0, length;

	for (at = blanks(line); *at && !problem; at = blanks(at)) {
		problem = read_word(&at, word, &length);
		if (!problem)
			add(&words, &count, word, length);
	}
	free(word);
	if (!problem && !count)
		problem = "is empty";
	if (!problem)
		return words;
	words_free(words);
	error_set(error, STATUS(INVALID_ARGUMENT), "the command %s", problem);
	return NULL;
}
