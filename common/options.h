/*
 * Options of programs. Each program declares its options in one table, which defines the command line's flags, the
 * environment variables, the settings of the configuration file, --help and docs/config.md.
 *
 * Precedence: command line, environment, file (INI, the program's section), default.
 */
#ifndef REEVE_COMMON_OPTIONS_H
#define REEVE_COMMON_OPTIONS_H

#include "common/error.h"

#include <protobuf-c/protobuf-c.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum option_type {
	OPTION_FLAG,     /* bool */
	OPTION_TEXT,     /* const char *; NULL if not set and without a default */
	OPTION_JOINED,   /* the same; the values of a repeated option are joined with spaces */
	OPTION_NAME,     /* the same, not empty */
	OPTION_CHOICE,   /* the same, one of the words of `argument`, "text|code" */
	OPTION_INTEGER,  /* int64_t, between min and max */
	OPTION_DURATION, /* int64_t milliseconds, between min and max */
	OPTION_SIZE,     /* int64_t bytes, "64KiB", "1MiB", between min and max */
	OPTION_TIME,     /* int64_t microseconds since 1970, not before */
	OPTION_VERSION,  /* int64_t: an integer between min and max, or a date with a time, as microseconds since 1970 */
	OPTION_LIST,     /* struct option_list: names separated by commas; the option may be repeated */
};

struct option_list {
	size_t count;
	const char **items; /* kept until exit */
};

enum { OPTION_FIELDS = 32 };

/* The message that options with a `field` fill in; the first member of such a program's struct. */
struct option_message {
	ProtobufCMessage *message; /* initialized */
	size_t n_set;
	const char *set[OPTION_FIELDS]; /* the fields that the command line or the environment has set */
};

/* Where the value of an option goes: to a member of the program's struct, or to a field of its option_message. The path
 * of a field is "queue", or "task.queue" of a message inside, which is created. There a value is stored as the field's
 * type. For an enumeration, OPTION_CHOICE takes the words of `argument` or, if that is a single word, all of the
 * enumeration's; for a bool, yes or no. */
struct option_place {
	size_t offset;
	const char *field; /* NULL: a member */
};

struct option_spec {
	const char *name; /* "max-details" for --max-details */
	enum option_type type;
	struct option_place place;
	const char *default_value; /* the default, as a user would type it; NULL: none */
	int64_t min, max;          /* limits of a number; both 0: none */
	const char *environment;   /* "REEVE_MANAGER", or NULL */
	const char *argument;      /* the metavar of --help, "URL[,URL]"; NULL: "VALUE" */
	const char *help;          /* the help, for --help and the docs; NULL: they omit the option */
	char letter;               /* short form, or 0 */
	bool in_file;              /* allowed in the configuration file */
};

/* An option in one line: OPT_INTEGER('n', "limit", OPTION_AT(struct mine, limit), 1, 100, "N", "maximum number of
 * lines", .default_value = "10"). The letter may be 0; the place is OPTION_AT or OPTION_FIELD. */
#define OPTION_AT(target, member)                                                                                      \
	{                                                                                                                  \
		.offset = offsetof(target, member)                                                                             \
	}
#define OPTION_FIELD(path)                                                                                             \
	{                                                                                                                  \
		.field = (path)                                                                                                \
	}
#define OPTION(type_, letter_, name_, place_, argument_, ...)                                                          \
	{                                                                                                                  \
		.name = (name_), .type = (type_), .place = place_, .letter = (letter_), .argument = (argument_),               \
		.help = __VA_ARGS__                                                                                            \
	}
#define OPTION_IN_FILE .in_file = true /* the last argument of an option that the configuration file may set */
#define OPT_FLAG(letter, name, place, ...) OPTION(OPTION_FLAG, letter, name, place, NULL, __VA_ARGS__)
#define OPT_TEXT(letter, name, place, argument, ...) OPTION(OPTION_TEXT, letter, name, place, argument, __VA_ARGS__)
#define OPT_JOINED(letter, name, place, argument, ...) OPTION(OPTION_JOINED, letter, name, place, argument, __VA_ARGS__)
#define OPT_NAME(letter, name, place, argument, ...) OPTION(OPTION_NAME, letter, name, place, argument, __VA_ARGS__)
#define OPT_CHOICE(letter, name, place, argument, ...) OPTION(OPTION_CHOICE, letter, name, place, argument, __VA_ARGS__)
#define OPT_LIST(letter, name, place, argument, ...) OPTION(OPTION_LIST, letter, name, place, argument, __VA_ARGS__)
#define OPT_TIME(letter, name, place, ...) OPTION(OPTION_TIME, letter, name, place, "TIME", __VA_ARGS__)
#define OPT_INTEGER(letter, name, place, low, high, argument, ...)                                                     \
	OPTION(OPTION_INTEGER, letter, name, place, argument, __VA_ARGS__, .min = (low), .max = (high))
#define OPT_SPAN(letter, name, place, low, high, ...)                                                                  \
	OPTION(OPTION_DURATION, letter, name, place, "DURATION", __VA_ARGS__, .min = (low), .max = (high))
#define OPT_SIZE(letter, name, place, low, high, ...)                                                                  \
	OPTION(OPTION_SIZE, letter, name, place, "SIZE", __VA_ARGS__, .min = (low), .max = (high))

struct option_table {
	const char *program;             /* "reeve-manager" or "reeve submit" */
	const char *usage;               /* the usage line after the program's name */
	const char *summary;             /* a paragraph for --help */
	const char *epilogue;            /* examples and exit codes; may be NULL */
	const struct option_spec *specs; /* ends with a NULL name; NULL: none */
};

/* Sets `target` from the defaults, the configuration file, the environment and argv[1..]. The option `config` of the
 * table names the file, of which the section `section` counts; NULL: there is none. `extra` (may be NULL) is a second
 * table of options, with its own target.
 *
 * "--name=value" and "--name value" both work; "--" ends the options. Arguments that are not options move to the front
 * of argv, in order, as argv[1] … argv[*operands]. Strings point into argv, the environment, the tables' defaults, or
 * memory that is kept until exit.
 *
 * --help and --version set *wants to 'h' or 'V' (else it is 0), and the caller answers them. Returns false with *error,
 * which names the option, what is wrong with it and what it accepts. */
bool options_parse(const struct option_table *table, void *target, const struct option_table *extra, void *extra_target,
    const char *config, const char *section, int argc, char **argv, int *operands, char *wants,
    struct reeve_error *error);

/* Writes the output of --help. */
void options_help(const struct option_table *table, const struct option_table *extra, FILE *out);

/* Lets options_help pass its tables to a function instead of writing them; NULL: it writes them again. So all commands
 * show their tables, for completion and man pages. */
typedef void options_see(const struct option_table *table, const struct option_table *extra, void *arg);
void options_observe(options_see *see, void *arg);

/* Writes a man page. `phrase`: what the program does, in a line. */
void options_man(const struct option_table *table, const struct option_table *extra, const char *phrase, FILE *out);

/* Writes a Markdown table of the options, for docs/config.md. */
void options_markdown(const struct option_table *table, FILE *out);

/* Returns true if the command line or the environment has set the message's field. */
bool option_is_set(const struct option_message *message, const char *field);

/* Adds a field to those that are set. The name must outlive the message. */
void option_note(struct option_message *message, const char *field);

/* Parses "yes", "no", "true", "off", "1" and the like, in any case. Returns false for another string. */
bool flag_parse(const char *text, bool *value);

/* Parses "17", or "2026-01-14T08:00:00Z" as microseconds since 1970. Returns false if the string is neither. */
bool version_parse(const char *text, int64_t *version);

/* Parses "1MiB", "64KiB" or "512" (bytes). Returns false if the string is not a size. */
bool size_parse(const char *text, int64_t *bytes);

#endif
