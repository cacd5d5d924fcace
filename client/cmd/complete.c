/*
 * Completion of command lines. A shell's script passes the words so far, and this program answers with what can follow:
 * the scripts know nothing of commands and options. Names and ids come from the manager.
 */
#include "client/cmd/complete.h"

#include "client/cmd/command.h"
#include "client/cmd/complete_values.h"

#include <stdio.h>
#include <string.h>

enum { SHARED_MAX = 16 };

/* The words before the current one. */
struct line {
	int argc; /* of the shared options among them */
	char *argv[SHARED_MAX + 1];
	const char *noun;
	const struct command *command;
	int operands; /* operands after the command */
	bool only_operands;
	bool unknown;               /* there is no such command */
	struct option_spec pending; /* the option whose value is next; its name is NULL: none */
};

/* The search for an option by its name, of this length, or by its letter. */
struct search {
	const char *name;
	size_t length;
	char letter;
	struct option_spec found;
};

static bool has_prefix(const char *text, const char *prefix)
{
	return !strncmp(text, prefix, strlen(prefix));
}

static void find_in(const struct option_table *table, struct search *search)
{
	for (const struct option_spec *spec = table ? table->specs : NULL; spec && spec->name && !search->found.name;
	     spec++)
		if (search->letter ? spec->letter == search->letter
		                   : strlen(spec->name) == search->length && !strncmp(spec->name, search->name, search->length))
			search->found = *spec;
}

static void on_tables_find(const struct option_table *table, const struct option_table *extra, void *arg)
{
	find_in(table, arg);
	find_in(extra, arg);
}

/* Finds the option that a word names. */
static struct option_spec option_of(const struct line *line, const char *word)
{
	bool is_long = word[1] == '-';
	struct search search = {
	    .name = word + 2, .length = is_long ? strcspn(word + 2, "=") : 0, .letter = is_long ? '\0' : word[1]};

	if (line->command)
		command_tables(line->command, on_tables_find, &search);
	else
		find_in(&shared_options_table, &search);
	return search.found;
}

static void take_option(struct line *line, char *word)
{
	const struct option_spec spec = option_of(line, word);
	struct search shared = {.name = spec.name, .length = spec.name ? strlen(spec.name) : 0};
	bool has_value = strchr(word, '=') != NULL;

	if (spec.name && spec.type != OPTION_FLAG && !has_value)
		line->pending = spec;
	find_in(&shared_options_table, &shared);
	if (shared.found.name && spec.type != OPTION_FLAG && line->argc + 2 <= SHARED_MAX)
		line->argv[line->argc++] = word;
}

static void take_word(struct line *line, char *word)
{
	if (line->pending.name && !strcmp(word, "=")) { /* bash makes a word of it */
		return;
	} else if (line->pending.name) {
		if (line->argc && line->argc < SHARED_MAX && has_prefix(line->argv[line->argc - 1], "--") &&
		    !strcmp(line->argv[line->argc - 1] + 2, line->pending.name))
			line->argv[line->argc++] = word;
		line->pending.name = NULL;
	} else if (!line->only_operands && !strcmp(word, "--")) {
		line->only_operands = true;
	} else if (!line->only_operands && word[0] == '-' && word[1]) {
		take_option(line, word);
	} else if (line->command) {
		line->operands++;
	} else if (line->noun || !command_is_noun(word)) {
		line->command = command_find(line->noun, word);
		line->unknown |= !line->command;
	} else {
		line->noun = word;
	}
}

/* --- what can follow ------------------------------------------------------------------------------------------------
 */

struct offer {
	const char *current; /* the beginning of the current word */
	const char *before;  /* stands before each offered word: "--queue=" */
};

static void put(const struct offer *offer, const char *word, const char *about)
{
	if (has_prefix(word, offer->current))
		printf("%s%s\t%s\n", offer->before, word, about);
}

static void put_value(void *arg, const char *word, const char *about)
{
	put(arg, word, about);
}

static void put_options_of(const struct option_table *table, const struct offer *offer)
{
	char word[64];

	for (const struct option_spec *spec = table ? table->specs : NULL; spec && spec->name; spec++) {
		snprintf(word, sizeof word, "--%s", spec->name);
		if (spec->help)
			put(offer, word, spec->help);
	}
}

static void on_tables_put(const struct option_table *table, const struct option_table *extra, void *arg)
{
	put_options_of(table, arg);
	put_options_of(extra, arg);
}

static void put_options(const struct line *line, const struct offer *offer)
{
	if (line->command)
		command_tables(line->command, on_tables_put, (void *)(uintptr_t)offer);
	else
		put_options_of(&shared_options_table, offer);
	put(offer, "--help", "show the help and exit");
}

static void put_commands(const struct line *line, const struct offer *offer)
{
	for (const struct command *command = command_rows; command->verb; command++) {
		bool of_task = command->noun && !strcmp(command->noun, "task");

		if (line->noun ? command->noun && !strcmp(command->noun, line->noun) : !command->noun || of_task)
			put(offer, command->verb, command->summary);
	}
	if (!line->noun)
		command_nouns(put_value, (void *)(uintptr_t)offer);
}

/* Offers the words of a choice, "text|code". */
static void put_choices(const char *choices, const struct offer *offer)
{
	char word[64];

	while (*choices) {
		snprintf(word, sizeof word, "%.*s", (int)strcspn(choices, "|"), choices);
		put(offer, word, "");
		choices += strcspn(choices, "|");
		choices += *choices == '|';
	}
}

static struct reeve_client *client_for(struct line *line)
{
	struct shared_options shared = {0};
	struct reeve_error error;
	int operands, code;
	char wants;

	line->argv[line->argc] = NULL;
	if (!options_parse(
	        &shared_options_table, &shared, NULL, NULL, NULL, NULL, line->argc, line->argv, &operands, &wants, &error))
		return NULL;
	shared.connect_timeout_ms = shared.call_timeout_ms = COMPLETE_MS;
	command_notices(false);
	return command_connect(&shared, &code);
}

static void put_values(struct line *line, const char *kind, const struct offer *offer)
{
	struct reeve_client *client = complete_known(kind) ? client_for(line) : NULL;

	if (client)
		complete_values(client, kind, put_value, (void *)(uintptr_t)offer);
	reeve_client_destroy(client);
}

static void put_value_of(struct line *line, const struct option_spec *spec, const struct offer *offer)
{
	if (spec->type == OPTION_CHOICE && strchr(spec->argument, '|'))
		put_choices(spec->argument, offer);
	else
		put_values(line, spec->name, offer);
}

/* Offers operands of the command. */
static void put_operands(struct line *line, const struct offer *offer)
{
	const char *verb = line->command->verb, *noun = line->command->noun;
	struct line none = {0};

	if (!strcmp(verb, "help")) {
		put_commands(&none, offer);
	} else if (!strcmp(verb, "completion") && !line->operands) {
		put_choices("bash|zsh|fish", offer);
	} else if (!strcmp(verb, "audit")) {
		put_values(line, "task", offer);
	} else if (!strcmp(verb, "submit")) {
		if (!line->operands)
			put_values(line, "type", offer);
	} else if (noun && (!line->operands || !strcmp(noun, "task"))) {
		put_values(line, noun, offer);
	}
}

void complete_line(int count, char **words)
{
	static char program[] = "reeve", nothing[] = "";
	struct line line = {.argc = 1, .argv = {program}};
	char *current = count ? words[count - 1] : nothing, *value;
	struct offer offer = {current, ""};
	struct option_spec spec = {0};

	for (int i = 0; i + 1 < count; i++)
		take_word(&line, words[i]);
	if (line.unknown)
		return;
	if (line.pending.name) {
		offer.current = strcmp(current, "=") != 0 ? current : "";
		put_value_of(&line, &line.pending, &offer);
	} else if (!line.only_operands && current[0] == '-' && (value = strchr(current, '='))) {
		spec = option_of(&line, current);
		offer.current = value + 1;
		*value = '\0';
		char before[80];
		snprintf(before, sizeof before, "%s=", current);
		offer.before = before;
		if (spec.name)
			put_value_of(&line, &spec, &offer);
	} else if (!line.only_operands && current[0] == '-') {
		put_options(&line, &offer);
	} else if (line.command) {
		put_operands(&line, &offer);
	} else {
		put_commands(&line, &offer);
	}
}
