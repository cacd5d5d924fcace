/* What all commands of `reeve` have in common: options, help, and what they say without a manager that answers. */
#include "client/cmd/command.h"
#include "common/error.h"
#include "tests/unit/client/cmd/run.h"
#include "tests/unit/compare.h"

#include <criterion/criterion.h>
#include <reeve/client.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(reeve, .init = run_begin, .fini = run_end);

static void shows_help(const char *usage)
{
	cr_assert(eq(int, strncmp(run_out, usage, strlen(usage)), 0), "%s", run_out);
	for (char *line = strtok(run_out, "\n"); line; line = strtok(NULL, "\n"))
		cr_assert(le(sz, strlen(line), 80), "%s", line);
}

Test(reeve, options_stand_anywhere_and_help_is_everywhere)
{
	static const char *const names[] = {"submit", "wait", "show", "list", "audit", "cancel", "discard", "retry",
	    "update", "fetch", "report", "extend", "stats", "errors", "check", "dev"};
	static const char *const verbs[][2] = {{"queue", "list"}, {"queue", "set"}, {"queue", "pause"}, {"queue", "stop"},
	    {"worker", "list"}, {"worker", "scale"}, {"worker", "drain"}, {"batch", "open"}, {"callback", "list"},
	    {"schedule", "add"}, {"schedule", "pause"}, {"pipeline", "define"}, {"metric", "put"}, {"certs", "init"},
	    {"certs", "issue"}, {"certs", "renew"}, {"certs", "revoke"}};
	static const char *const nouns[] = {
	    "task", "queue", "worker", "batch", "callback", "schedule", "pipeline", "metric", "certs"};
	char usage[64];

	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		snprintf(usage, sizeof usage, "Usage: reeve %s ", names[i]);
		RUN(EXIT_OK, (char *)names[i], "--help");
		shows_help(usage);
		RUN(EXIT_OK, "help", (char *)names[i]);
		shows_help(usage);
		RUN(EXIT_OK, (char *)names[i], "--version");
		cr_assert(eq(int, strncmp(run_out, "reeve ", 6), 0), "%s", run_out);
		/* `reeve check` has the exit codes of a plugin. */
		RUN(strcmp(names[i], "check") ? EXIT_USAGE : 3, (char *)names[i], "--no-such-option");
		ERR_HAS("unknown option --no-such-option");
	}
	for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++) {
		char *noun = (char *)verbs[i][0], *verb = (char *)verbs[i][1];

		snprintf(usage, sizeof usage, "Usage: reeve %s %s ", noun, verb);
		RUN(EXIT_OK, noun, verb, "--help");
		shows_help(usage);
		RUN(EXIT_OK, "help", noun, verb);
		shows_help(usage);
		RUN(EXIT_OK, "--json", noun, "--connect-timeout", "1s", verb, "-V");
		RUN(EXIT_USAGE, noun, verb, "--no-such-option");
		ERR_HAS("unknown option --no-such-option");
	}
	for (size_t i = 0; i < sizeof nouns / sizeof *nouns; i++) {
		snprintf(usage, sizeof usage, "Usage: reeve %s VERB ", nouns[i]);
		RUN(EXIT_OK, (char *)nouns[i], "--help");
		shows_help(usage);
		RUN(EXIT_OK, "help", (char *)nouns[i]);
		shows_help(usage);
		RUN(EXIT_USAGE, (char *)nouns[i]);
		ERR_HAS("the verb is missing");
		RUN(EXIT_USAGE, (char *)nouns[i], "juggle");
		ERR_HAS("unknown verb \"juggle\"");
		RUN(EXIT_USAGE, "help", (char *)nouns[i], "juggle");
	}
	RUN(EXIT_OK, "task", "submit", "--help");
	shows_help("Usage: reeve submit ");
	RUN(EXIT_OK, "--help");
	OUT_HAS("(`reeve task VERB` is the same):\n  submit ");
	RUN(EXIT_OK, "help");
	OUT_HAS("  queue     list, status, ");
	RUN(EXIT_OK, "-V");
	RUN(EXIT_USAGE, NULL);
	ERR_HAS("reeve: the command is missing; ");
	RUN(EXIT_USAGE, "list-everything");
	ERR("reeve: unknown command \"list-everything\"; `reeve --help` lists the commands\n");
	RUN(EXIT_USAGE, "help", "nothing");
	RUN(EXIT_USAGE, "--bogus", "list");
	setenv("REEVE_MANAGER", "tcp://127.0.0.1:1", 1);
	RUN(EXIT_OK, "--manager", (char *)fake_server_url(run_fake_server), "--json", "submit", "t");
	OUT("{\"id\":1,\"existing\":false,\"restarted\":false}\n");
	RUN(EXIT_OK, "submit", "t", "--manager", (char *)fake_server_url(run_fake_server));
	OUT("2\n");
}

Test(reeve, an_absent_manager_is_reported)
{
	static const char *const commands[] = {"list", "stats", "audit"};

	for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
		RUN(EXIT_UNREACHABLE, (char *)commands[i], "--manager=tcp://127.0.0.1:1", "--connect-timeout", "1s");
		ERR("reeve: no manager reachable at tcp://127.0.0.1:1 (tried for 1s): connection refused: nothing listens there\n");
		OUT("");
	}
	RUN(EXIT_UNREACHABLE, "submit", "t", "--manager=tcp://127.0.0.1:1", "--connect-timeout", "50ms");
	RUN(EXIT_UNREACHABLE, "wait", "1", "--manager=tcp://127.0.0.1:1", "--connect-timeout", "50ms");
	RUN(EXIT_USAGE, "list", "--manager", "nonsense");
	ERR_HAS("reeve: \"nonsense\" is not a manager's address");
	RUN(EXIT_UNREACHABLE, "stats", "--manager=tcp://127.0.0.1:1", "--connect-timeout", "2500ms");
	ERR("reeve: no manager reachable at tcp://127.0.0.1:1 (tried for 2.5s): connection refused: nothing listens there\n");
	/* A user at a terminal sees what the command waits for. */
	cr_assert(
	    eq(int, run_reeve_on_terminal(80, "stats", "--manager=tcp://127.0.0.1:1", "--connect-timeout", "2500ms", NULL),
	        EXIT_UNREACHABLE));
	OUT_HAS("reeve: no manager answers at tcp://127.0.0.1:1; still trying\n");
}

Test(reeve, shows_refusals_on_a_terminal)
{
	static const char notice[] = "reeve: the manager refuses for now: as the test wants it; still trying";
	const char *told;

	/* Nine refusals take more than two seconds. */
	fake_server_fail_submits(run_fake_server, 0, 9, STATUS(RESOURCE_EXHAUSTED));
	cr_assert(eq(int, run_reeve_on_terminal(80, "submit", "t", NULL), EXIT_OK));
	told = strstr(run_out, notice);
	cr_assert(told && !strstr(told + 1, notice), "%s", run_out);
	/* A short refusal is not reported, and nothing is reported to a file. */
	fake_server_fail_submits(run_fake_server, 0, 3, STATUS(ABORTED));
	cr_assert(eq(int, run_reeve_on_terminal(80, "submit", "t", NULL), EXIT_OK));
	cr_assert(strstr(run_out, "refuses") == NULL, "%s", run_out);
	fake_server_fail_submits(run_fake_server, 0, 9, STATUS(RESOURCE_EXHAUSTED));
	RUN(EXIT_OK, "submit", "t");
	cr_assert(strstr(run_err, "the manager refuses") == NULL, "%s", run_err); /* the manager in this process may log */
}

/* A manager that is alive but cannot answer: after a second this is reported once, also to a script. */
Test(reeve, shows_what_it_waits_for)
{
	static const char notice[] = "reeve: waiting for a manager that can answer: as the test wants it\n";

	/* Between two tries are 50 to 200 ms. */
	fake_server_fail_submits(run_fake_server, 0, 30, STATUS(UNAVAILABLE));
	RUN(EXIT_OK, "submit", "t");
	ERR(notice);
	OUT("1\n");
	fake_server_fail_submits(run_fake_server, 0, 2, STATUS(UNAVAILABLE));
	RUN(EXIT_OK, "submit", "t");
	ERR("");
}

Test(reeve, distinguishes_temporary_refusals_by_the_exit_code)
{
	static const struct {
		enum reeve_code code;
		int want;
	} cases[] = {{REEVE_UNAVAILABLE, 3}, {REEVE_DEADLINE_EXCEEDED, 3}, {REEVE_RESOURCE_EXHAUSTED, 3},
	    {REEVE_ABORTED, 3}, {REEVE_FAILED_PRECONDITION, 4}, {REEVE_INVALID_ARGUMENT, 4}, {REEVE_NOT_FOUND, 4},
	    {REEVE_CANCELLED, 130}};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		cr_assert(eq(int, command_exit_code(&(struct reeve_failure){.code = cases[i].code}), cases[i].want), "%s",
		    reeve_code_name(cases[i].code));
}
