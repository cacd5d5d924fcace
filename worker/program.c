/* The options, in one table, and how they become the library's. */
#include "worker/program.h"

#include "worker/state.h"

#include <stdlib.h>
#include <string.h>

#define FIELD(name) offsetof(struct program_options, name)

static const struct option_spec specs[] = {
    {.name = "manager",
        .type = OPTION_TEXT,
        .offset = FIELD(managers),
        .fallback = "tcp://127.0.0.1:7171",
        .environment = "REEVE_MANAGER",
        .argument = "URL[,URL]",
        .sentence = "Managers of the same database; the worker moves to another when one is gone.",
        .in_file = true},
    {.name = "handlers",
        .type = OPTION_TEXT,
        .offset = FIELD(handlers),
        .argument = "FILE",
        .sentence = "The handlers file: a section [handler TYPE] for each task type it runs.",
        .in_file = true},
    {.name = "concurrency",
        .type = OPTION_INTEGER,
        .offset = FIELD(concurrency),
        .fallback = "0",
        .min = 0,
        .max = WORKER_CONCURRENCY_MAX,
        .argument = "N",
        .sentence = "Tasks that run at once; 0: one for each processor.",
        .letter = 'c',
        .in_file = true},
    {.name = "prefetch",
        .type = OPTION_INTEGER,
        .offset = FIELD(prefetch),
        .fallback = "0",
        .min = 0,
        .max = WORKER_PREFETCH_MAX,
        .argument = "N",
        .sentence = "Tasks that may wait here beyond the running ones; worth while for very short tasks.",
        .in_file = true},
    {.name = "name",
        .type = OPTION_TEXT,
        .offset = FIELD(name),
        .argument = "NAME",
        .sentence = "What the worker is called; HOST/PID if not given.",
        .letter = 'n',
        .in_file = true},
    {.name = "queue",
        .type = OPTION_TEXT,
        .offset = FIELD(queues),
        .argument = "Q[,Q]",
        .sentence = "Serve these queues alone; all if not given.",
        .letter = 'q',
        .in_file = true},
    {.name = "type",
        .type = OPTION_TEXT,
        .offset = FIELD(types),
        .argument = "T[,T]",
        .sentence = "Run these types alone; all that have a handler if not given.",
        .letter = 't',
        .in_file = true},
    {.name = "drain-timeout",
        .type = OPTION_DURATION,
        .offset = FIELD(drain_timeout_ms),
        .fallback = "30s",
        .min = 1,
        .max = 24 * 3600 * 1000,
        .argument = "D",
        .sentence = "How long running tasks may take to finish at a stop; then they are stopped and given back.",
        .in_file = true},
    {.name = "kill-grace",
        .type = OPTION_DURATION,
        .offset = FIELD(kill_grace_ms),
        .fallback = "5s",
        .min = 1,
        .max = 3600 * 1000,
        .argument = "D",
        .sentence = "How long a program may take to end after SIGTERM; then it gets SIGKILL.",
        .in_file = true},
    {.name = "config",
        .type = OPTION_TEXT,
        .offset = FIELD(config),
        .argument = "FILE",
        .sentence = "Read these options from the file's section [worker]."},
    {.name = "verbose",
        .type = OPTION_FLAG,
        .offset = FIELD(verbose),
        .sentence = "Write debugging lines to the log.",
        .letter = 'v',
        .in_file = true},
    {0},
};

const struct option_table program_options_table = {
    .program = "reeve-worker",
    .usage = "[OPTION...] --handlers FILE",
    .summary = "Takes tasks from a Reeve manager and runs them by programs. A task's details are a program's standard "
               "input, its standard output is the result. Exit status 0 completes the task, 65 fails it for good, "
               "anything else fails it to be tried again.",
    .epilogue =
        "The handlers file:\n"
        "  [handler sha256]\n"
        "  exec = /usr/bin/sha256sum --tag\n"
        "  timeout = 30s\n"
        "\n"
        "SIGTERM and SIGINT: take no more tasks, let running ones finish, stop. A second one stops at once.\n"
        "\n"
        "Exit status: 0 stopped in good order; 1 a failure while running; 2 wrong options or handlers; 3 stopped\n"
        "with results that no manager had taken; 4 refused by the manager.\n",
    .specs = specs,
};

static bool wrong_usage(const char *message, int *code)
{
	fprintf(stderr, "reeve-worker: %s\nTry 'reeve-worker --help'.\n", message);
	*code = EXIT_USAGE;
	return true;
}

/* Reads all sources. The configuration file is named by the others, so they are read twice if there is one. True: the
 * program ends here. */
static bool read_sources(struct program_options *options, int argc, char **argv, int *code)
{
	char **words = calloc((size_t)argc + 1, sizeof *words);
	struct reeve_error error = {0};
	int operands = 0;
	char wants = 0;
	bool good;

	if (!words)
		abort();
	memcpy(words, argv, (size_t)argc * sizeof *words); /* reading moves them about */
	good = options_parse(
	    &program_options_table, options, NULL, NULL, NULL, NULL, argc, words, &operands, &wants, &error);
	if (good && options->config && !wants) {
		memcpy(words, argv, (size_t)argc * sizeof *words);
		good = options_parse(&program_options_table, options, NULL, NULL, options->config, "worker", argc,
		    words, &operands, &wants, &error);
	}
	if (good && operands)
		good = error_set(
		    &error, STATUS(INVALID_ARGUMENT), "takes no argument, but was given \"%.100s\"", words[1]);
	free(words);
	if (!good)
		return wrong_usage(error.message, code);
	if (wants == 'h')
		options_help(&program_options_table, NULL, stdout);
	if (wants == 'V')
		printf("reeve-worker %s\n", REEVE_VERSION);
	*code = EXIT_OK;
	return wants != 0;
}

bool program_options_read(struct program_options *options, int argc, char **argv, int *code)
{
	memset(options, 0, sizeof *options);
	if (read_sources(options, argc, argv, code))
		return true;
	if (!options->handlers)
		return wrong_usage("--handlers FILE is missing", code);
	options->worker = (struct reeve_worker_options){
	    .managers = options->managers,
	    .name = options->name,
	    .queues = options->queues,
	    .types = options->types,
	    .concurrency = (int)options->concurrency,
	    .prefetch = (int)options->prefetch,
	    .drain_timeout_ms = options->drain_timeout_ms,
	    .kill_grace_ms = options->kill_grace_ms,
	};
	return false;
}
