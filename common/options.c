/*
 * Reads options. Each source (default, file, environment, command line) passes its strings to option_set
 * (options_values.c), which checks them by the option's type and stores them. Sources are read in order of precedence,
 * lowest first, and each overwrites the one before. options_help.c has help and documentation.
 */
#include "common/options.h"

#include "common/clock.h"
#include "common/ini.h"
#include "common/options_internal.h"
#include "common/text.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* The two tables, targets and the error of one call. */
struct reading {
	const struct option_table *tables[2];
	void *targets[2];
	struct reeve_error *error;
};

/* Finds an option by name[0..length), or by its letter if `name` is NULL, and sets *target. Returns NULL if there is
 * none. */
static const struct option_spec *find(
    const struct reading *reading, const char *name, size_t length, char letter, void **target)
{
	for (int i = 0; i < 2; i++) {
		if (!reading->tables[i])
			continue;
		for (const struct option_spec *spec = reading->tables[i]->specs; spec && spec->name; spec++) {
			bool same =
			    name ? strlen(spec->name) == length && memcmp(spec->name, name, length) == 0 : spec->letter == letter;
			if (same) {
				*target = reading->targets[i];
				return spec;
			}
		}
	}
	return NULL;
}

static bool read_defaults_and_environment(const struct reading *reading, bool environment)
{
	for (int i = 0; i < 2; i++) {
		if (!reading->tables[i])
			continue;
		for (const struct option_spec *spec = reading->tables[i]->specs; spec && spec->name; spec++) {
			const char *where = environment ? spec->environment : spec->name;
			const char *text = spec->default_value;

			if (environment)
				text = where ? getenv(where) : NULL;
			/* An empty variable counts as unset, since that is how shells unset one for a single command. */
			if (!text || (environment && !*text))
				continue;
			if (!option_set(spec, reading->targets[i], where, text, !environment, reading->error))
				return false;
		}
	}
	return true;
}

/* The state of reading a file. */
struct file_source {
	const struct reading *reading;
	const char *path;
	const char *section;
	bool current; /* the section being read is ours */
};

static bool file_invalid(void *arg, int line, const char *problem)
{
	const struct file_source *source = arg;

	return error_set(source->reading->error, STATUS(INVALID_ARGUMENT), "%s:%d: %s", source->path, line, problem);
}

static bool file_section(void *arg, int line, const char *name)
{
	struct file_source *source = arg;

	(void)line;
	source->current = strcmp(name, source->section) == 0;
	return true;
}

static bool file_setting(void *arg, int line, const char *name, const char *value)
{
	struct file_source *source = arg;
	const struct option_spec *spec;
	char where[512];
	void *target;

	if (!source->current)
		return true;
	spec = find(source->reading, name, strlen(name), 0, &target);
	if (!spec || !spec->in_file)
		return error_set(source->reading->error, STATUS(INVALID_ARGUMENT), "%s:%d: %s is not a setting of this section",
		    source->path, line, name);
	snprintf(where, sizeof where, "%s:%d: %s", source->path, line, name);
	return option_set(spec, target, where, option_keep(value, strlen(value)), false, source->reading->error);
}

static bool read_file(const struct reading *reading, const char *path, const char *section)
{
	struct file_source source = {.reading = reading, .path = path, .section = section};
	const struct ini_reader reader = {file_section, file_setting, file_invalid, &source, .inline_comments = true};
	FILE *file = fopen(path, "re");
	bool valid;

	if (!file)
		return error_set(reading->error, STATUS(INVALID_ARGUMENT), "%s: %s", path, strerror(errno));
	valid = ini_read(file, &reader);
	if (valid && ferror(file))
		valid = error_set(reading->error, STATUS(INVALID_ARGUMENT), "%s: cannot be read: %s", path, strerror(errno));
	fclose(file);
	return valid;
}

/* The state of reading the command line: once only to find --help, --version and the configuration file (`store`
 * false), then to store values. */
struct command_line {
	const struct reading *reading;
	const struct option_spec *config; /* the option that names the file; NULL: there is none */
	const char *file;                 /* its value */
	int argc;
	char **argv;
	bool store;
	char wants;
};

static bool unknown(const struct command_line *line, const char *text, int length)
{
	bool number = text[0] == '-' && text[1] >= '0' && text[1] <= '9';

	return error_set(line->reading->error, STATUS(INVALID_ARGUMENT), "unknown option %.*s (%s --help lists them%s)",
	    length, text, line->reading->tables[0]->program, number ? "; put -- before a negative number" : "");
}

/* Reads the option's value: `attached`, or the next argument, to which it then moves *at. */
static bool take_value(struct command_line *line, const struct option_spec *spec, void *target, const char *where,
    const char *attached, int *at)
{
	if (spec->type == OPTION_FLAG && !attached) {
		attached = "yes";
	} else if (!attached) {
		if (*at + 1 >= line->argc) {
			char wants[256];

			return error_set(line->reading->error, STATUS(INVALID_ARGUMENT), "%s needs a value; %s", where,
			    option_takes(spec, NULL, wants, sizeof wants));
		}
		attached = line->argv[++*at];
	}
	if (spec == line->config)
		line->file = attached;
	return !line->store || option_set(spec, target, where, attached, false, line->reading->error);
}

/* Reads "--name" or "--name=value". */
static bool take_long(struct command_line *line, int *at)
{
	const char *name = line->argv[*at] + 2;
	const char *equals = strchr(name, '=');
	size_t length = equals ? (size_t)(equals - name) : strlen(name);
	const struct option_spec *spec;
	char where[128];
	void *target;

	spec = find(line->reading, name, length, 0, &target);
	if (!spec && (strcmp(name, "help") == 0 || strcmp(name, "version") == 0)) {
		line->wants = *name == 'h' ? 'h' : 'V';
		return true;
	}
	if (!spec)
		return unknown(line, name - 2, (int)length + 2);
	snprintf(where, sizeof where, "--%s", spec->name);
	return take_value(line, spec, target, where, equals ? equals + 1 : NULL, at);
}

/* Reads "-a", "-ab" (flags), "-n5" or "-n 5". */
static bool take_letters(struct command_line *line, int *at)
{
	for (const char *letter = line->argv[*at] + 1; *letter; letter++) {
		char where[] = {'-', *letter, '\0'};
		const struct option_spec *spec;
		void *target;

		spec = find(line->reading, NULL, 0, *letter, &target);
		if (!spec && (*letter == 'h' || *letter == 'V')) {
			line->wants = *letter;
			return true;
		}
		if (!spec)
			return unknown(line, line->argv[*at], (int)strlen(line->argv[*at]));
		if (spec->type != OPTION_FLAG)
			return take_value(line, spec, target, where, letter[1] ? letter + 1 : NULL, at);
		if (!take_value(line, spec, target, where, NULL, at))
			return false;
	}
	return true;
}

/* Moves argv[from] to argv[to], and the arguments between them up by one. */
static void move_down(char **argv, int from, int to)
{
	char *moved = argv[from];

	memmove(&argv[to + 1], &argv[to], (size_t)(from - to) * sizeof *argv);
	argv[to] = moved;
}

static bool read_command_line(struct command_line *line, int *operands)
{
	bool only_operands = false;

	*operands = 0;
	for (int at = 1; at < line->argc && !line->wants; at++) {
		char *argument = line->argv[at];

		if (only_operands || argument[0] != '-' || argument[1] == '\0') {
			++*operands;
			if (line->store)
				move_down(line->argv, at, *operands);
		} else if (strcmp(argument, "--") == 0) {
			only_operands = true;
		} else if (!(argument[1] == '-' ? take_long(line, &at) : take_letters(line, &at))) {
			return false;
		}
	}
	return true;
}

bool options_parse(const struct option_table *table, void *target, const struct option_table *extra, void *extra_target,
    const char *config, const char *section, int argc, char **argv, int *operands, char *wants,
    struct reeve_error *error)
{
	struct reading reading = {.tables = {table, extra}, .targets = {target, extra_target}, .error = error};
	struct command_line line = {.reading = &reading, .argc = argc, .argv = argv};
	void *ignored;

	*wants = 0;
	line.config = config ? find(&reading, config, strlen(config), 0, &ignored) : NULL;
	if (line.config && line.config->environment)
		line.file = getenv(line.config->environment);
	if (line.file && !*line.file)
		line.file = NULL;
	/* Find --help and --version first, so that they work whatever is wrong after them. */
	if (!read_command_line(&line, operands))
		return false;
	*wants = line.wants;
	if (line.wants)
		return true;
	line.store = true;
	return read_defaults_and_environment(&reading, false) && (!line.file || read_file(&reading, line.file, section)) &&
	    read_defaults_and_environment(&reading, true) && read_command_line(&line, operands);
}
