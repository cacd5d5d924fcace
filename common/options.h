/*
 * Options of programs. Each program declares its options in one table, which defines the command line's flags, the
 * environment variables, the settings of the configuration file, --help and docs/config.md.
 *
 * Precedence: command line, environment, file (INI, the program's section), default.
 */
#ifndef REEVE_COMMON_OPTIONS_H
#define REEVE_COMMON_OPTIONS_H

#include "common/error.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum option_type {
	OPTION_FLAG,     /* bool */
	OPTION_TEXT,     /* const char *; NULL if not set and without a default */
	OPTION_INTEGER,  /* int64_t, between min and max */
	OPTION_DURATION, /* int64_t milliseconds, between min and max */
	OPTION_SIZE,     /* int64_t bytes, "64KiB", "1MiB", between min and max */
	OPTION_TIME,     /* int64_t microseconds since 1970 */
	OPTION_LIST,     /* struct option_list: names separated by commas; the option may be repeated */
};

struct option_list {
	size_t count;
	const char **items; /* kept until exit */
};

struct option_spec {
	const char *name;        /* "max-details" for --max-details */
	enum option_type type;
	size_t offset;           /* of the field in the program's struct */
	const char *default_value;    /* the default, as a user would type it; NULL: none */
	int64_t min, max;        /* limits of a number; both 0: none */
	const char *environment; /* "REEVE_MANAGER", or NULL */
	const char *argument;    /* the metavar of --help, "URL[,URL]"; NULL: "VALUE" */
	const char *help;    /* the help, for --help and the docs; NULL: they omit the option */
	char letter;             /* short form, or 0 */
	bool in_file;            /* allowed in the configuration file */
};

struct option_table {
	const char *program;              /* "reeve-manager" or "reeve submit" */
	const char *usage;                /* the usage line after the program's name */
	const char *summary;              /* a paragraph for --help */
	const char *epilogue;             /* examples and exit codes; may be NULL */
	const struct option_spec *specs;  /* ends with a NULL name */
};

/* Sets `target` from the defaults, section `section` of the file (`file` may be NULL), the environment and argv[1..].
 * `extra` (may be NULL) is a second table of options, with its own target.
 *
 * "--name=value" and "--name value" both work; "--" ends the options. Arguments that are not options move to the front
 * of argv, in order, as argv[1] … argv[*operands]. Strings point into argv, the environment, the tables' defaults, or
 * memory that is kept until exit.
 *
 * --help and --version set *wants to 'h' or 'V' (else it is 0), and the caller answers them. Returns false with *error,
 * which names the option, what is wrong with it and what it accepts. */
bool options_parse(const struct option_table *table, void *target, const struct option_table *extra, void *extra_target,
    const char *file, const char *section, int argc, char **argv, int *operands, char *wants,
    struct reeve_error *error);

/* Writes the output of --help. */
void options_help(const struct option_table *table, const struct option_table *extra, FILE *out);

/* Writes a Markdown table of the options, for docs/config.md. */
void options_markdown(const struct option_table *table, FILE *out);

/* Parses "yes", "no", "true", "off", "1" and the like, in any case. Returns false for another string. */
bool flag_parse(const char *text, bool *value);

/* Parses "1MiB", "64KiB" or "512" (bytes). Returns false if the string is not a size. */
bool size_parse(const char *text, int64_t *bytes);

#endif
