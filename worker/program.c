/* The table of options, and their translation to the library's options. */
#include "worker/program.h"

#include "common/limits.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/output.h"

#include <stdlib.h>
#include <string.h>

#define AT(field) OPTION_AT(struct program_options, field)

static const struct option_spec specs[] = {
    OPT_TEXT(0, "manager", AT(managers), "URL[,URL]",
        "managers of the same database; the worker moves to another when one is gone",
        .default_value = "tcp://127.0.0.1:7171", .environment = "REEVE_MANAGER", OPTION_IN_FILE),
    OPT_TEXT(0, "access-token-file", AT(token_file), "FILE",
        "file with the access token; if not set, $REEVE_ACCESS_TOKEN has the token, or $REEVE_ACCESS_TOKEN_FILE names the file",
        OPTION_IN_FILE),
    OPT_TEXT(0, "tls-cert", AT(tls.certificate), "FILE",
        "PEM file of the worker's certificate for tls+tcp:// managers, with its chain", .environment = "REEVE_TLS_CERT",
        OPTION_IN_FILE),
    OPT_TEXT(0, "tls-key", AT(tls.key), "FILE", "PEM file of its key; if not set, the file of the certificate",
        .environment = "REEVE_TLS_KEY", OPTION_IN_FILE),
    OPT_TEXT(0, "tls-ca", AT(tls.ca), "FILE",
        "PEM file of the CA that must have issued the managers' certificates; if not set, the system's CAs",
        .environment = "REEVE_TLS_CA", OPTION_IN_FILE),
    OPT_TEXT(0, "tls-crl", AT(tls.crl), "FILE", "PEM file of the revocation lists of that CA",
        .environment = "REEVE_TLS_CRL", OPTION_IN_FILE),
    OPT_TEXT(0, "handlers", AT(handlers), "FILE",
        "the handlers file: a section [handler TYPE] for each task type it runs", OPTION_IN_FILE),
    OPT_INTEGER('c', "concurrency", AT(concurrency), 0, LIMIT_CONCURRENCY, "N",
        "maximum number of tasks that run at the same time; 0: one for each processor", .default_value = "0",
        OPTION_IN_FILE),
    OPT_INTEGER(0, "prefetch", AT(prefetch), 0, LIMIT_PREFETCH, "N",
        "maximum number of tasks that wait in the worker, in addition to the running ones; for very short tasks",
        .default_value = "0", OPTION_IN_FILE),
    OPT_TEXT(0, "name", AT(name), "NAME", "the worker's name; if not set, HOST/PID", OPTION_IN_FILE),
    OPT_TEXT('q', "queue", AT(queues), "Q[,Q]", "serve only these queues; if not set, all", OPTION_IN_FILE),
    OPT_TEXT(
        't', "type", AT(types), "T[,T]", "run only these types; if not set, all that have a handler", OPTION_IN_FILE),
    OPT_SPAN(0, "drain-timeout", AT(drain_timeout_ms), 1, 24 * 3600 * 1000,
        "time that running tasks have to finish when the worker stops; then they are stopped and returned",
        .default_value = "30s", OPTION_IN_FILE),
    OPT_SPAN(0, "kill-grace", AT(kill_grace_ms), 1, 3600 * 1000, "time from SIGTERM to SIGKILL for a program",
        .default_value = "5s", OPTION_IN_FILE),
    OPT_TEXT(0, "result-store", AT(result_store), "DIR",
        "directory for results that are longer than the managers take (--max-result); if not set, these are errors",
        OPTION_IN_FILE),
    OPT_FLAG(0, "once", AT(once), "run one task, wait for it if necessary, and exit with its outcome"),
    OPT_FLAG(0, "until-empty", AT(until_empty), "run all due tasks, and exit"),
    OPT_FLAG(0, "wait-retries", AT(wait_retries), "with --until-empty: also wait for the retries of failed tasks"),
    OPT_SPAN(0, "manager-timeout", AT(manager_timeout_ms), 0, 24 * 3600 * 1000,
        "stop if no manager has answered for this long, with exit status 6; 0: never", .default_value = "0",
        OPTION_IN_FILE),
    OPT_TEXT(0, "config", AT(config), "FILE", "INI file; its section [worker] can set any of these options",
        .environment = "REEVE_WORKER_CONFIG"),
    OPT_CHOICE(0, "log-level", AT(log_level), LOG_LEVELS, "the least urgent messages that it logs",
        .default_value = "info", .environment = "REEVE_LOG_LEVEL", OPTION_IN_FILE),
    OPT_CHOICE(0, "log-format", AT(log_format), LOG_FORMATS,
        "the format of its log: text, or fields as logfmt or as JSON, an object on each line", .default_value = "text",
        .environment = "REEVE_LOG_FORMAT", OPTION_IN_FILE),
    OPT_FLAG(
        0, "check", AT(check), "check the options, the handlers file and the certificates, report errors, and exit"),
    OPT_FLAG(0, "print-options", AT(print_options), "print the table of these options, in Markdown, and exit"),
    OPT_FLAG(0, "print-man", AT(print_man), "print the man page, and exit"),
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
                "In place of exec: stdio, whose processes stay and run one task after another, a\n"
                "line of JSON in, an answer out; http, the URL of a service; plugin, a shared\n"
                "object with a C function (docs/worker.md).\n"
                "\n"
                "SIGTERM and SIGINT: take no more tasks, let running ones finish, stop. A second\n"
                "one stops them at once. SIGHUP: read the handlers file and the log level again.\n"
                "\n"
                "Exit status: 0 stopped normally; 1 a failure while running; 2 wrong options or\n"
                "handlers; 3 stopped with results that no manager has acknowledged; 4 refused by\n"
                "the manager. With --once and --until-empty, 1 also if an attempt did not\n"
                "complete; with --once, 5 if it was stopped before it had run a task. 6: no\n"
                "manager answered for --manager-timeout.\n",
    .specs = specs,
};

static bool wrong_usage(const char *message, int *code)
{
	fprintf(stderr, "reeve-worker: %s\nTry 'reeve-worker --help'.\n", message);
	*code = EXIT_USAGE;
	return true;
}

/* Reads the options from all sources. */
static bool read_sources(
    struct program_options *options, int argc, char *const *argv, char *wants, struct reeve_error *error)
{
	char **arguments = mem_calloc((size_t)argc + 1, sizeof *arguments);
	int operands = 0;
	bool valid;

	memcpy(arguments, argv, (size_t)argc * sizeof *arguments); /* parsing reorders them */
	valid = options_parse(
	    &program_options_table, options, NULL, NULL, "config", "worker", argc, arguments, &operands, wants, error);
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
	else if (options->print_man)
		options_man(&program_options_table, NULL, "runs the handlers of Reeve's tasks", stdout);
	else
		return false;
	return true;
}

bool program_level_read(int argc, char *const *argv, enum log_level *level, struct reeve_error *error)
{
	struct program_options options = {0};
	char wants = 0;

	if (!read_sources(&options, argc, argv, &wants, error))
		return false;
	*level = log_level_named(options.log_level);
	return true;
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
	if (options->wait_retries && !options->until_empty)
		return wrong_usage("--wait-retries needs --until-empty", code);
	options->level = log_level_named(options->log_level);
	options->worker = (struct reeve_worker_options){
	    .managers = options->managers,
	    .token_file = options->token_file,
	    .result_store = options->result_store,
	    .tls_cert = options->tls.certificate,
	    .tls_key = options->tls.key,
	    .tls_ca = options->tls.ca,
	    .tls_crl = options->tls.crl,
	    .name = options->name,
	    .queues = options->queues,
	    .types = options->types,
	    .concurrency = (int)options->concurrency,
	    .prefetch = (int)options->prefetch,
	    .drain_timeout_ms = options->drain_timeout_ms,
	    .kill_grace_ms = options->kill_grace_ms,
	    .once = options->once,
	    .until_empty = options->until_empty,
	    .wait_retries = options->wait_retries,
	    .manager_timeout_ms = options->manager_timeout_ms,
	};
	return false;
}
