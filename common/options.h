/*
 * Options, declared once: a program lists them in one table, and from it come the command line's flags, the
 * environment's variables, the configuration file's settings, --help and docs/config.md.
 *
 * Precedence: command line, environment, file (INI, section [PROGRAM's section]), default.
 */
#ifndef REEVE_COMMON_OPTIONS_H
#define REEVE_COMMON_OPTIONS_H

#include "common/error.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum option_type {
	OPTION_FLAG,     /* bool */
	OPTION_TEXT,     /* const char *; NULL when not given and without default */
	OPTION_INTEGER,  /* int64_t, between min and max */
	OPTION_DURATION, /* int64_t milliseconds, between min and max */
	OPTION_SIZE,     /* int64_t bytes, "64KiB", "1MiB", between min and max */
	OPTION_TIME,     /* int64_t microseconds since 1970 */
	OPTION_LIST,     /* struct option_list: names separated by commas, and the option may be given several times */
};

struct option_list {
	size_t count;
	const char **items; /* kept until exit */
};

struct option_spec {
	const char *name;        /* "max-details", given as --max-details */
	enum option_type type;
	size_t offset;           /* of the field in the program's struct */
	const char *fallback;    /* the default, as it would be typed; NULL: none */
	int64_t min, max;        /* of numbers; both 0: no bounds */
	const char *environment; /* "REEVE_MANAGER", or NULL */
	const char *argument;    /* "URL[,URL]": what --help calls the value */
	const char *sentence;    /* what it does, for --help and the docs; NULL: they pass it over */
	char letter;             /* short form, or 0 */
	bool in_file;            /* may stand in the configuration file */
};

struct option_table {
	const char *program;              /* "reeve-manager" or "reeve submit" */
	const char *usage;                /* what follows the program's name in the usage line */
	const char *summary;              /* a paragraph for --help */
	const char *epilogue;             /* examples and exit codes, may be NULL */
	const struct option_spec *specs;  /* ends with a NULL name */
};

/* Fills `target` from defaults, file (may be NULL; its section is `section`), environment and argv[1..]. What is not an
 * option is moved to the front of argv, in order, and its number left in *operands (argv[1] … argv[*operands]); "--"
 * ends the options. "--name=value" and "--name value" both work. `extra` (may be NULL) is a second table's specs that
 * are taken as well, with their own target. Texts point into argv, the environment or memory kept until exit.
 * False: *error says which option, what is wrong with it and what it takes.
 * --help and --version are answered by the caller: they set *wants ('h' or 'V', else 0). */
bool options_parse(const struct option_table *table, void *target, const struct option_table *extra, void *extra_target,
    const char *file, const char *section, int argc, char **argv, int *operands, char *wants,
    struct reeve_error *error);

/* Writes --help's text. */
void options_help(const struct option_table *table, const struct option_table *extra, FILE *out);

/* Writes a Markdown table of the options, for docs/config.md. */
void options_markdown(const struct option_table *table, FILE *out);

/* Reads "yes", "no", "true", "off", "1", …. */
bool flag_parse(const char *text, bool *value);

/* Reads "1MiB", "64KiB", "512" (bytes). */
bool size_parse(const char *text, int64_t *bytes);

#endif
