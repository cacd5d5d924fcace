/* The program reeve-manager: reads its options, upgrades the schema, and runs the loop until it must stop. */
#include "common/log.h"
#include "common/output.h"
#include "manager/core/states.h"
#include "manager/manager.h"
#include "manager/memory.h"
#include "manager/options.h"
#include "manager/store/admin_token.h"
#include "manager/store/migrate.h"
#include "manager/store/schema_print.h"

#include <signal.h>
#include <stdio.h>

static int exit_code_of(reeve_status code)
{
	switch (code) {
	case STATUS(UNAVAILABLE): return EXIT_UNREACHABLE;
	case STATUS(PERMISSION_DENIED):
	case STATUS(FAILED_PRECONDITION): return EXIT_REFUSED;
	case STATUS(INVALID_ARGUMENT): return EXIT_USAGE;
	default: return EXIT_TASK_FAILED;
	}
}

/* Returns the exit code after output to standard output. */
static int printed(void)
{
	return output_finish("reeve-manager", EXIT_OK);
}

/* Creates the admin's access token, or replaces it, and returns the exit code. */
static int admin_token_new(const struct manager_options *options)
{
	struct reeve_error error;
	bool created;

	if (admin_token_create(options->database, false, options->admin_token_file, &created, &error))
		return printed();
	log_error(NULL, "%s", error.message);
	return exit_code_of(error.code);
}

int main(int argc, char **argv)
{
	struct manager_options options = {0};
	struct reeve_error error;
	struct manager manager = {.argc = argc, .argv = argv};
	char wants = 0;

	memory_setup();
	if (!manager_options_read(&options, argc, argv, &wants, &error)) {
		fprintf(stderr, "reeve-manager: %s\nSee reeve-manager --help.\n", error.message);
		return EXIT_USAGE;
	}
	if (wants == 'h') {
		options_help(&manager_option_table, NULL, stdout);
		return printed();
	}
	if (wants == 'V') {
		printf("reeve-manager %s\n", REEVE_VERSION);
		return printed();
	}
	if (options.print_states || options.print_options || options.print_man) {
		if (options.print_states)
			states_print(stdout);
		if (options.print_options)
			options_markdown(&manager_option_table, stdout);
		if (options.print_man)
			options_man(
			    &manager_option_table, NULL, "keeps Reeve's tasks in PostgreSQL and assigns them to workers", stdout);
		return printed();
	}
	if (options.print_schema)
		return schema_print((int)options.schema_from, stdout) ? printed() : EXIT_USAGE;
	manager_options_hide(&options, argc, argv);
	signal(SIGHUP, SIG_IGN); /* before the loop runs there is nothing to reload */
	log_setup("reeve-manager", log_level_named(options.log_level));
	log_set_format(options.log_format);
	if (!migrate(options.database, options.no_migrate, (int)options.history_days, &error)) {
		log_error(NULL, "%s", error.message);
		return exit_code_of(error.code);
	}
	if (options.create_admin_token)
		return admin_token_new(&options);
	if (!manager_open(&manager, &options, &error)) { /* for example, an address is invalid or in use */
		log_error(NULL, "%s", error.message);
		manager_close(&manager);
		return error.code == STATUS(INVALID_ARGUMENT)   ? EXIT_USAGE
		    : error.code == STATUS(FAILED_PRECONDITION) ? EXIT_REFUSED
		                                                : EXIT_TASK_FAILED;
	}
	bool asked = manager_run(&manager);
	manager_close(&manager);
	return asked ? EXIT_OK : EXIT_REFUSED;
}
