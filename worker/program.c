/* The table of options, and their translation to the library's options. */
#include "worker/program.h"

#include "common/limits.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/output.h"
#include "worker/slots.h"

#include <stdlib.h>
#include <string.h>

#define AT(field)                                                                                                      \
	{                                                                                                                  \
		.offset = offsetof(struct program_options, field)                                                              \
	}

/* name, type, field, default, min, max, environment, metavar, help, letter, in the file */
static const struct option_spec specs[] = {
    {"manager", OPTION_TEXT, AT(managers), "tcp://127.0.0.1:7171", 0, 0, "REEVE_MANAGER", "URL[,URL]",
        "managers of the same database; the worker moves to another when one is gone", 0, true},
    {"handlers", OPTION_TEXT, AT(handlers), NULL, 0, 0, NULL, "FILE",
        "the handlers file: a section [handler TYPE] for each task type it runs", 0, true},
    {"concurrency", OPTION_INTEGER, AT(concurrency), "0", 0, LIMIT_CONCURRENCY, NULL, "N",
        "maximum number of tasks that run at the same time; 0: one for each processor", 'c', true},
    {"prefetch", OPTION_INTEGER, AT(prefetch), "0", 0, PREFETCH_MAX, NULL, "N",
        "maximum number of tasks that wait in the worker, in addition to the running ones; for very short tasks", 0,
        true},
    {"name", OPTION_TEXT, AT(name), NULL, 0, 0, NULL, "NAME", "the worker's name; if not set, HOST/PID", 'n', true},
    {"queue", OPTION_TEXT, AT(queues), NULL, 0, 0, NULL, "Q[,Q]", "serve only these queues; if not set, all", 'q',
        true},
    {"type", OPTION_TEXT, AT(types), NULL, 0, 0, NULL, "T[,T]",
        "run only these types; if not set, all that have a handler", 't', true},
    {"drain-timeout", OPTION_DURATION, AT(drain_timeout_ms), "30s", 1, 24 * 3600 * 1000, NULL, "D",
        "time that running tasks have to finish when the worker stops; then they are stopped and returned", 0, true},
    {"kill-grace", OPTION_DURATION, AT(kill_grace_ms), "5s", 1, 3600 * 1000, NULL, "D",
        "time from SIGTERM to SIGKILL for a program", 0, true},
    {"once", OPTION_FLAG, AT(once), NULL, 0, 0, NULL, NULL,
        "run one task, wait for it if necessary, and exit with its outcome", 0, false},
    {"until-empty", OPTION_FLAG, AT(until_empty), NULL, 0, 0, NULL, NULL, "run all due tasks, and exit", 0, false},
    {"config", OPTION_TEXT, AT(config), NULL, 0, 0, "REEVE_WORKER_CONFIG", "FILE",
        "INI file; its section [worker] can set any of these options", 0, false},
    {"log-level", OPTION_TEXT, AT(log_level), "info", 0, 0, "REEVE_LOG_LEVEL", "LEVEL", "error, warn, info or debug", 0,
        true},
    {"check", OPTION_FLAG, AT(check), NULL, 0, 0, NULL, NULL,
        "check the options and the handlers file, report errors, and exit", 0, false},
    {"print-options", OPTION_FLAG, AT(print_options), NULL, 0, 0, NULL, NULL,
        "print the table of these options, in Markdown, and exit", 0, false},
    {0},
};

const struct option_table program_options_table = {
    .program = "reeve-worker",
    .usage = "[OPTION...] --handlers FILE",
    .summary = "Fetches tasks from a Reeve manager and runs programs for them. A task's details are the program's "
               "standard input, its standard output is the result. Exit status 0 completes the task, 65 fails it "
               "permanently, any other fails it and lets it be retried.",
    .epilogue = "The handlers file:\n"
                "  [handler sha256]\n"
                "  exec = /usr/bin/sha256sum --tag\n"
                "  timeout = 30s\n"
                "\n"
                "SIGTERM and SIGINT: take no more tasks, let running ones finish, stop. A second\n"
                "one stops them at once. SIGHUP: read the handlers file and the log level again.\n"
                "\n"
                "Exit status: 0 stopped normally; 1 a failure while running; 2 wrong options or\n"
                "handlers; 3 stopped with results that no manager has acknowledged; 4 refused by\n"
                "the manager. With --once and --until-empty, 1 also if an attempt did not\n"
                "complete; with --once, 5 if it was stopped before it had run a task.\n",
    .specs = specs,
};

static bool wrong_usage(const char *message, int *code)
{
	fprintf(stderr, "reeve-worker: %s\nTry 'reeve-worker --help'.\n", message);
	*code = EXIT_USAGE;
	return true;
}

/* Reads the options from all sources. The other sources name the configuration file, so if there is one they are read
 * twice. */
static bool read_sources(
    struct program_options *options, int argc, char *const *argv, char *wants, struct reeve_error *error)
{
	char **arguments = mem_calloc((size_t)argc + 1, sizeof *arguments);
	int operands = 0;
	bool valid;

	memcpy(arguments, argv, (size_t)argc * sizeof *arguments); /* parsing reorders them */
	valid = options_parse(
	    &program_options_table, options, NULL, NULL, NULL, NULL, argc, arguments, &operands, wants, error);
	if (valid && options->config && !*wants) {
		memcpy(arguments, argv, (size_t)argc * sizeof *arguments);
		valid = options_parse(&program_options_table, options, NULL, NULL, options->config, "worker", argc, arguments,
		    &operands, wants, error);
	}
	if (valid && operands)
		valid = error_set(error, STATUS(INVALID_ARGUMENT), "takes no argument, but was given \"%.100s\"", arguments[1]);
	free(arguments);
	return valid;
}

/* Prints the help, the version or the table of options if requested. False: none was. */
static bool print_wanted(const struct program_options *options, char wants)
{
	if (wants == 'h')
		options_help(&program_options_table, NULL, stdout);
	else if (wants == 'V')
		printf("reeve-worker %s\n", REEVE_VERSION);
	else if (options->print_options)
		options_markdown(&program_options_table, stdout);
	else
		return false;
	return true;
}

static bool read_level(const struct program_options *options, enum log_level *level, struct reeve_error *error)
{
	return log_level_parse(options->log_level, level) ||
	    error_set(error, STATUS(INVALID_ARGUMENT), "--log-level takes " LOG_LEVELS);
}

bool program_level_read(int argc, char *const *argv, enum log_level *level, struct reeve_error *error)
{
	struct program_options options = {0};
	char wants = 0;

	return read_sources(&options, argc, argv, &wants, error) && read_level(&options, level, error);
}

bool program_options_read(struct program_options *options, int argc, char **argv, int *code)
{
	struct reeve_error error = {0};
	char wants = 0;

	memset(options, 0, sizeof *options);
	if (!read_sources(options, argc, argv, &wants, &error))
		return wrong_usage(error.message, code);
	*code = EXIT_OK;
	if (print_wanted(options, wants)) {
		*code = output_finish("reeve-worker", EXIT_OK);
		return true;
	}
	if (!options->handlers)
		return wrong_usage("--handlers FILE is missing", code);
	if (options->once && options->until_empty)
		return wrong_usage("--once and --until-empty cannot be combined", code);
	if (!read_level(options, &options->level, &error))
		return wrong_usage(error.message, code);
	options->worker = (struct reeve_worker_options){
	    .managers = options->managers,
	    .name = options->name,
	    .queues = options->queues,
	    .types = options->types,
	    .concurrency = (int)options->concurrency,
	    .prefetch = (int)options->prefetch,
	    .drain_timeout_ms = options->drain_timeout_ms,
	    .kill_grace_ms = options->kill_grace_ms,
	    .once = options->once,
	    .until_empty = options->until_empty,
	};
	return false;
}
