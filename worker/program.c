/* The table of options, and their translation to the library's options. */
#include "worker/program.h"

#include "common/log.h"
#include "common/output.h"
#include "worker/state.h"

#include <stdlib.h>
#include <string.h>

#define AT(field) offsetof(struct program_options, field)

/* name, type, field, default, min, max, environment, metavar, help, letter, in the file */
static const struct option_spec specs[] = {
    {"manager", OPTION_TEXT, AT(managers), "tcp://127.0.0.1:7171", 0, 0, "REEVE_MANAGER", "URL[,URL]",
        "managers of the same database; the worker moves to another when one is gone", 0, true},
    {"handlers", OPTION_TEXT, AT(handlers), NULL, 0, 0, NULL, "FILE",
        "the handlers file: a section [handler TYPE] for each task type it runs", 0, true},
    {"concurrency", OPTION_INTEGER, AT(concurrency), "0", 0, WORKER_CONCURRENCY_MAX, NULL, "N",
        "how many tasks run at once; 0: one for each processor", 'c', true},
    {"prefetch", OPTION_INTEGER, AT(prefetch), "0", 0, WORKER_PREFETCH_MAX, NULL, "N",
        "how many tasks may wait here beyond the running ones; worth while for very short tasks", 0, true},
    {"name", OPTION_TEXT, AT(name), NULL, 0, 0, NULL, "NAME", "what the worker is called; HOST/PID unless given", 'n',
        true},
    {"queue", OPTION_TEXT, AT(queues), NULL, 0, 0, NULL, "Q[,Q]", "serve these queues alone; all unless given", 'q',
        true},
    {"type", OPTION_TEXT, AT(types), NULL, 0, 0, NULL, "T[,T]",
        "run these types alone; all that have a handler unless given", 't', true},
    {"drain-timeout", OPTION_DURATION, AT(drain_timeout_ms), "30s", 1, 24 * 3600 * 1000, NULL, "D",
        "how long running tasks may take to finish at a stop; then they are stopped and given back", 0, true},
    {"kill-grace", OPTION_DURATION, AT(kill_grace_ms), "5s", 1, 3600 * 1000, NULL, "D",
        "how long a program may take to end after SIGTERM; then it gets SIGKILL", 0, true},
    {"once", OPTION_FLAG, AT(once), NULL, 0, 0, NULL, NULL,
        "do one task, waiting for it if need be, and exit; the exit code tells what came of it", 0, false},
    {"until-empty", OPTION_FLAG, AT(until_empty), NULL, 0, 0, NULL, NULL,
        "do all tasks that wait and are due, and exit", 0, false},
    {"config", OPTION_TEXT, AT(config), NULL, 0, 0, "REEVE_WORKER_CONFIG", "FILE",
        "an INI file whose section [worker] has any of these options", 0, false},
    {"log-level", OPTION_TEXT, AT(log_level), "info", 0, 0, "REEVE_LOG_LEVEL", "LEVEL", "error, warn, info or debug", 0,
        true},
    {"check", OPTION_FLAG, AT(check), NULL, 0, 0, NULL, NULL,
        "read the options and the handlers file, say what is wrong with them, and exit", 0, false},
    {"print-options", OPTION_FLAG, AT(print_options), NULL, 0, 0, NULL, NULL,
        "print the table of these options, in Markdown, and exit", 0, false},
    {0},
};

const struct option_table program_options_table = {
    .program = "reeve-worker",
    .usage = "[OPTION...] --handlers FILE",
    .summary = "Takes tasks from a Reeve manager and runs them by programs. A task's details are a program's "
               "standard input, its standard output is the result. Exit status 0 completes the task, 65 fails it for "
               "good, anything else fails it to be tried again.",
    .epilogue = "The handlers file:\n"
                "  [handler sha256]\n"
                "  exec = /usr/bin/sha256sum --tag\n"
                "  timeout = 30s\n"
                "\n"
                "SIGTERM and SIGINT: take no more tasks, let running ones finish, stop. A second\n"
                "one stops them at once. SIGHUP: read the handlers file and the log level again.\n"
                "\n"
                "Exit status: 0 stopped in good order; 1 a failure while running; 2 wrong options\n"
                "or handlers; 3 stopped with results that no manager had taken; 4 refused by the\n"
                "manager. With --once and --until-empty, 1 also if an attempt did not complete;\n"
                "with --once, 5 if it was stopped before it had done a task.\n",
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
	char **words = calloc((size_t)argc + 1, sizeof *words);
	int operands = 0;
	bool good;

	if (!words)
		abort();
	memcpy(words, argv, (size_t)argc * sizeof *words); /* parsing reorders them */
	good =
	    options_parse(&program_options_table, options, NULL, NULL, NULL, NULL, argc, words, &operands, wants, error);
	if (good && options->config && !*wants) {
		memcpy(words, argv, (size_t)argc * sizeof *words);
		good = options_parse(&program_options_table, options, NULL, NULL, options->config, "worker", argc,
		    words, &operands, wants, error);
	}
	if (good && operands)
		good = error_set(
		    error, STATUS(INVALID_ARGUMENT), "takes no argument, but was given \"%.100s\"", words[1]);
	free(words);
	return good;
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
		return wrong_usage("--once and --until-empty do not go together", code);
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
