/* The command `reeve`: what it prints, where, and its exit code. */
#include "client/cmd/command.h"
#include "client/cmd/terminal.h"
#include "common/error.h"
#include "tests/unit/client/cmd/run.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <reeve/client.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COMPLETED = TASK(COMPLETED), DEAD = TASK(DEAD) };

#define RUN(code, ...) cr_assert(eq(int, run_reeve(NULL, __VA_ARGS__, NULL), code), "%s%s", run_out, run_err)
#define OUT(text) cr_assert(eq(str, run_out, (char *)(text)))
#define ERR(text) cr_assert(eq(str, run_err, (char *)(text)))
#define OUT_HAS(text) cr_assert(strstr(run_out, text) != NULL, "%s", run_out)
#define OUT_HAS_NOT(text) cr_assert(strstr(run_out, text) == NULL, "%s", run_out)
#define ERR_HAS(text) cr_assert(strstr(run_err, text) != NULL, "%s", run_err)

TestSuite(reeve, .init = run_begin, .fini = run_end);

Test(reeve, submit_prints_the_id)
{
	RUN(EXIT_OK, "submit", "mail", "hello", "--priority", "-5", "-q", "night");
	OUT("1\n");
	ERR("");
	RUN(EXIT_OK, "--json", "submit", "mail");
	OUT("{\"id\":2,\"existing\":false,\"restarted\":false}\n");
	RUN(EXIT_OK, "submit", "mail", "--json", "--key=a");
	RUN(EXIT_OK, "submit", "mail", "--json", "--key=a");
	OUT("{\"id\":3,\"existing\":true,\"restarted\":false}\n");
	ERR("");
	RUN(EXIT_OK, "submit", "mail", "--key", "a");
	OUT("3\n");
	ERR("reeve: the key \"a\" was known already: task 3 is the earlier one\n");
	RUN(EXIT_OK, "show", "1", "--json");
	OUT_HAS("\"queue\":\"night\",\"type\":\"mail\",\"status\":\"queued\",\"priority\":-5");
	OUT_HAS("\"details\":\"hello\"");
}

Test(reeve, submit_reads_details_from_standard_input)
{
	cr_assert(eq(int, run_reeve("line one\nline two\n", "submit", "t", "-", NULL), EXIT_OK));
	cr_assert(eq(str, (char *)standin_details(run_standin, 1), "line one\nline two\n"));
	cr_assert(eq(int, run_reeve("", "submit", "t", "-", NULL), EXIT_OK));
	cr_assert(eq(str, (char *)standin_details(run_standin, 2), ""));
	cr_assert(eq(int, run_reeve_bytes("a\0b", 3, "submit", "t", "-", NULL), EXIT_REFUSED));
	ERR("reeve: details holds a NUL byte\n");
	cr_assert(eq(int, run_reeve("caf\xe9", "submit", "t", "-", NULL), EXIT_REFUSED));
	ERR("reeve: details is not UTF-8\n");

	char *text = malloc(200001);
	memset(text, 'x', 200000);
	text[200000] = '\0';
	cr_assert(eq(int, run_reeve(text, "submit", "t", "-", NULL), EXIT_REFUSED));
	ERR("reeve: details is longer than 2000 bytes, the manager's limit\n");
	text[STANDIN_MAX_DETAILS] = '\0';
	cr_assert(eq(int, run_reeve(text, "submit", "t", "-", NULL), EXIT_OK));
	free(text);
}

Test(reeve, submit_refuses_nonsense)
{
	RUN(EXIT_USAGE, "submit");
	ERR_HAS("reeve submit: the task's TYPE is missing\nUsage: reeve submit TYPE");
	RUN(EXIT_USAGE, "submit", "a", "b", "c");
	ERR_HAS("one TYPE and one DETAILS");
	RUN(EXIT_USAGE, "submit", "t", "--delay", "-5s");
	ERR_HAS("--delay: \"-5s\" is negative");
	RUN(EXIT_USAGE, "submit", "t", "--delay", "0", "--at", "now");
	ERR_HAS("--delay and --at cannot be combined");
	RUN(EXIT_USAGE, "submit", "t", "--at", "1969-01-01T00:00:00Z");
	ERR_HAS("--at lies before 1970");
	RUN(EXIT_USAGE, "submit", "t", "--priority", "1000001");
	ERR_HAS("--priority: \"1000001\" is out of range; it takes a whole number from -1000000 to 1000000");
	RUN(EXIT_USAGE, "submit", "t", "--max-attempts", "0");
	RUN(EXIT_USAGE, "submit", "t", "--timeout", "31d");
	ERR_HAS("--timeout: \"31d\" is out of range; it takes a duration like 250ms, 5s, 1m30s or 2h from 1ms to 30d");
	RUN(EXIT_USAGE, "submit", "t", "--key", "");
	ERR_HAS("--key is empty");
	RUN(EXIT_USAGE, "submit", "t", "--queue", "");
	ERR_HAS("--queue is empty");
	RUN(EXIT_USAGE, "submit", "t", "--source=");
	ERR_HAS("--source is empty");
	RUN(EXIT_USAGE, "submit", "t", "--key-ttl", "1h");
	RUN(EXIT_REFUSED, "submit", "");
	ERR("reeve: type is empty\n");
	RUN(EXIT_REFUSED, "submit", "a\nb");
	ERR("reeve: type holds a control character\n");
	RUN(EXIT_REFUSED, "submit", "t", "--queue", "\x1b[31m");
	ERR("reeve: queue holds a control character\n");
	standin_fail_submits(run_standin, 0, 1, STATUS(PERMISSION_DENIED));
	RUN(EXIT_REFUSED, "submit", "t");
	ERR("reeve: as the test wants it\n");
	cr_assert(eq(sz, standin_tasks(run_standin), 0));
}

Test(reeve, submit_waits_for_the_result)
{
	standin_end_tasks_as(run_standin, COMPLETED);
	RUN(EXIT_OK, "submit", "t", "the result", "--wait");
	OUT("the result");
	ERR("");
	RUN(EXIT_OK, "submit", "t", "the result", "--wait", "--json");
	OUT_HAS("\"id\":2,");
	OUT_HAS("\"result\":\"the result\"");
	standin_end_tasks_as(run_standin, DEAD);
	RUN(EXIT_TASK_FAILED, "submit", "t", "the error\nin lines", "-w");
	OUT("");
	ERR("reeve: task 3 (t) is dead after 1 attempt: exit:65: the error in lines\n");
}

Test(reeve, wait_shows_how_all_ended)
{
	for (int i = 0; i < 3; i++)
		RUN(EXIT_OK, "submit", "t");
	standin_end(run_standin, 1, COMPLETED, "fine");
	standin_end(run_standin, 2, COMPLETED, "");
	standin_end(run_standin, 3, DEAD, "broken");
	RUN(EXIT_OK, "wait", "2", "1");
	OUT("ID  TYPE  STATUS     ATTEMPTS  RAN  RESULT OR ERROR\n"
	    " 2  t     completed         1  1ms  -\n"
	    " 1  t     completed         1  1ms  fine\n");
	RUN(EXIT_TASK_FAILED, "wait", "3", "1");
	OUT_HAS(" 3  t     dead              1  1ms  exit:65: broken\n");
	cr_assert(eq(int, run_reeve("1 2\n", "wait", "--json", "-", NULL), EXIT_OK));
	OUT_HAS("\"id\":1,");
	OUT_HAS("}\n{\"id\":2,");
	RUN(EXIT_REFUSED, "wait", "1", "99");
	ERR("reeve: there is no task 99\n");
	RUN(EXIT_OK, "submit", "t");
	RUN(EXIT_TASK_FAILED, "wait", "1", "4", "--timeout", "50ms");
	OUT_HAS(" 1  t     completed");
	ERR("reeve: 1 task has not ended in time\n");
	RUN(EXIT_TASK_FAILED, "wait", "4", "--timeout", "0");
}

Test(reeve, ids_must_be_numbers)
{
	static const char *const commands[] = {"wait", "show", "cancel", "retry", "audit"};

	for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
		RUN(EXIT_USAGE, (char *)commands[i], "abc");
		ERR_HAS("\"abc\" is not a task id");
		RUN(EXIT_USAGE, (char *)commands[i], "0");
		RUN(EXIT_USAGE, (char *)commands[i], "-5");
		RUN(EXIT_USAGE, (char *)commands[i], "9223372036854775808");
		RUN(EXIT_USAGE, (char *)commands[i], "5x");
		if (strcmp(commands[i], "audit") != 0) {
			RUN(EXIT_USAGE, (char *)commands[i]);
			ERR_HAS(strcmp(commands[i], "show") == 0 ? "the task's id is missing" : "the tasks' ids are missing");
		}
	}
	RUN(EXIT_USAGE, "show", "1", "2");
	cr_assert(eq(int, run_reeve("1 x", "wait", "-", NULL), EXIT_USAGE));
	ERR_HAS("\"x\" is not a task id");
	cr_assert(eq(int, run_reeve(" \n", "retry", "-", NULL), EXIT_OK));
}

Test(reeve, show_tells_all)
{
	RUN(EXIT_OK, "submit", "mail", "{\"to\":\"ann\"}", "--key", "order-17", "--source", "shop", "--max-attempts",
	    "3");
	standin_end(run_standin, 1, DEAD, "no\x1b such address\n");
	RUN(EXIT_OK, "show", "1");
	OUT_HAS("task         1\nstatus       dead\nqueue        default\ntype         mail\nkey          order-17\n");
	OUT_HAS("attempts     1 of 3, each up to 1m\nsource       shop\nsubmitted    20");
	OUT_HAS("error code   exit:65\n\nerror:\nno\x1b such address\n\ndetails:\n{\"to\":\"ann\"}\n");
	cr_assert(eq(int, run_reeve_on_terminal(80, "show", "1", NULL), EXIT_OK));
	OUT_HAS("\x1b[31mdead\x1b[0m");
	OUT_HAS("no\\x1b such address\n");
	RUN(EXIT_REFUSED, "show", "2");
	ERR("reeve: there is no task 2\n");
	/* The error of an attempt that was followed by others is shown as earlier. */
	standin_end(run_standin, 1, COMPLETED, "done");
	RUN(EXIT_OK, "show", "1");
	OUT_HAS("earlier code exit:65\n\nearlier error:\nno\x1b such address\n\ndetails:\n{\"to\":\"ann\"}\n\nresult:\ndone\n");
}

Test(reeve, list_filters_and_pages)
{
	char *ids[2500];
	int count = 0;

	RUN(EXIT_OK, "list");
	OUT("");
	ERR("no tasks\n");
	RUN(EXIT_OK, "submit", "--bulk",
	    run_file("{\"type\":\"a\"}\n{\"type\":\"b\",\"delay\":\"2h\"}\n{\"type\":\"a\"}\n"));
	standin_end(run_standin, 1, DEAD, "why");
	RUN(EXIT_OK, "list");
	OUT_HAS("ID  STATUS  QUEUE    TYPE  PRIO  TRIES  AGE  WORKER     NOTE\n"
	        " 3  queued  default  a        0    0/5   ");
	OUT_HAS(" 2  queued  default  b        0    0/5   ");
	OUT_HAS("due in 2h\n");
	OUT_HAS(" 1  dead    default  a        0    1/5   ");
	OUT_HAS("standin/1  exit:65: why\n");
	RUN(EXIT_OK, "list", "--type", "a", "--status", "queued", "--json");
	cr_assert(eq(int, strncmp(run_out, "{\"id\":3,", 8), 0));
	cr_assert(eq(ptr, strchr(run_out, '\n')[1] ? run_out : NULL, NULL), "one line");
	RUN(EXIT_USAGE, "list", "--status", "asleep");
	ERR_HAS("--status: \"asleep\" is invalid; it takes queued, executing, failed, completed, dead or cancelled");
	RUN(EXIT_USAGE, "list", "x");
	RUN(EXIT_USAGE, "list", "--queue", "");
	ERR_HAS("--queue is empty");
	RUN(EXIT_USAGE, "list", "--type", "");
	ERR_HAS("--type is empty");
	RUN(EXIT_OK, "list", "--limit", "3");
	ERR("");
	RUN(EXIT_OK, "list", "--limit", "2", "--json");
	ERR("reeve: there are more tasks than the 2 shown; --limit and the filters choose\n");
	RUN(EXIT_OK, "list", "--limit", "1", "--type", "b");
	ERR("");

	struct standin_submit submits[STANDIN_SUBMITS];
	size_t before = standin_submits(run_standin, submits);
	char *file = malloc(2500 * 16);
	for (int i = 0; i < 2500; i++)
		sprintf(file + 13 * i, "{\"type\":\"c\"}\n");
	RUN(EXIT_OK, "submit", "--bulk", run_file(file), "--json");
	free(file);
	cr_assert(eq(sz, standin_submits(run_standin, submits) - before, 3), "in chunks of 1,000");
	RUN(EXIT_OK, "list", "--type", "c");
	ERR("reeve: there are more tasks than the 100 shown; --limit and the filters choose\n");
	RUN(EXIT_OK, "list", "--type", "c", "--limit", "2200");
	for (char *line = strtok(run_out, "\n"); line; line = strtok(NULL, "\n"))
		ids[count++] = line;
	cr_assert(eq(int, count, 2201));
	cr_assert(eq(int, atoi(ids[1]), 2503));
	cr_assert(eq(int, atoi(ids[2200]), 304));
}

/* A Fetch that does not wait may arrive before the manager has read what was committed before the Fetch was sent. */
Test(reeve, fetch_asks_again_until_the_manager_knows)
{
	RUN(EXIT_OK, "submit", "letter", "to ann");
	standin_know_later(run_standin, 2);
	RUN(EXIT_OK, "fetch");
	OUT_HAS("letter");
	OUT_HAS("to ann");
	RUN(EXIT_TASK_FAILED, "fetch");
	ERR("reeve: no task waits\n");
}

/* Characters that could control a terminal are escaped there; a program gets them as they were submitted. */
Test(reeve, json_on_a_terminal_steers_nothing)
{
	RUN(EXIT_OK, "submit", "t", "left \xe2\x80\xae right \xc2\x9b");
	RUN(EXIT_OK, "show", "1", "--json");
	OUT_HAS("left \xe2\x80\xae right \xc2\x9b");
	cr_assert(eq(int, run_reeve_on_terminal(80, "show", "1", "--json", NULL), EXIT_OK));
	OUT_HAS("left \\u202e right \\u009b");
	OUT_HAS_NOT("\xe2\x80\xae");
	OUT_HAS_NOT("\xc2\x9b");
}

static int widest_line(char *text)
{
	int widest = 0;

	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
		int width = terminal_width(line);

		widest = width > widest ? width : widest;
	}
	return widest;
}

Test(reeve, list_fits_the_terminal_and_is_coloured_there)
{
	char line[256];

	RUN(EXIT_OK, "submit", "a-type-with-a-rather-long-name-that-does-not-fit");
	standin_end(run_standin, 1, DEAD, "a long explanation of why this went so wrong that it is dead");
	cr_assert(eq(int, run_reeve_on_terminal(80, "list", NULL), EXIT_OK));
	cr_assert(strstr(run_out, "\x1b[31mdead\x1b[0m") && strstr(run_out, "\xe2\x80\xa6"), "%s", run_out);
	setenv("NO_COLOR", "1", 1);
	cr_assert(eq(int, run_reeve_on_terminal(80, "list", NULL), EXIT_OK));
	cr_assert(strchr(run_out, '\x1b') == NULL);
	char *second = strchr(run_out, '\n') + 1;
	snprintf(line, sizeof line, "%.*s", (int)strcspn(second, "\n"), second);
	cr_assert(le(sz, strlen(line), 80 + 2 * 2), "two cells end in a character of three bytes: %s", line);
	/* No table is wider than the terminal; COLUMNS overrides the terminal's width. */
	static const char *const tables[][2] = {{"list"}, {"queue", "list"}, {"worker", "list"}, {"audit"}, {"stats"}};
	static const int wide[] = {20, 40, 60, 80, 100};

	for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
		for (size_t w = 0; w < sizeof wide / sizeof *wide; w++) {
			cr_assert(eq(int, run_reeve_on_terminal(wide[w], tables[i][0], tables[i][1], NULL), EXIT_OK));
			cr_assert(le(int, widest_line(run_out), wide[w]), "%s at %d", tables[i][0], wide[w]);
		}
	}
	setenv("COLUMNS", "50", 1);
	cr_assert(eq(int, run_reeve_on_terminal(80, "list", NULL), EXIT_OK));
	cr_assert(eq(int, widest_line(run_out), 50), "%s", run_out);
	RUN(EXIT_OK, "list");
	OUT_HAS("a-type-with-a-rather-long-name-that-does-not-fit");
	OUT_HAS("so wrong that it is dead\n");
}

Test(reeve, changes_tell_what_they_did)
{
	RUN(EXIT_OK, "submit", "t");
	RUN(EXIT_OK, "submit", "t");
	standin_end(run_standin, 2, COMPLETED, "");
	RUN(EXIT_OK, "update", "1", "--priority", "-3", "--max-attempts", "9", "--delay", "1h");
	OUT("ID  STATUS  CHANGED  NOTE\n 1  queued  yes      -\n");
	RUN(EXIT_OK, "show", "1", "--json");
	OUT_HAS("\"priority\":-3");
	OUT_HAS("\"max_attempts\":9");
	RUN(EXIT_OK, "list", "--status", "queued");
	OUT_HAS("due in 60m\n");
	RUN(EXIT_OK, "update", "1", "--priority", "0", "--at", "2030-01-01T00:00:00Z");
	RUN(EXIT_OK, "show", "1", "--json");
	OUT_HAS("\"priority\":0,\"run_at\":\"2030-01-01T00:00:00.000000Z\"");
	RUN(EXIT_REFUSED, "update", "1", "2", "77", "--priority", "1");
	OUT("ID  STATUS     CHANGED  NOTE\n"
	    " 1  queued     yes      -\n"
	    " 2  completed  no       it has ended\n");
	ERR("reeve: there is no task 77\n");
	RUN(EXIT_USAGE, "update", "1");
	ERR_HAS("the change is missing");
	RUN(EXIT_USAGE, "update", "1", "--delay", "1s", "--at", "now");
	RUN(EXIT_USAGE, "update", "--priority", "1");
	RUN(EXIT_REFUSED, "update", "77", "--priority", "1", "--json");
	OUT("");
	RUN(EXIT_OK, "cancel", "1", "--reason", "a whim");
	cr_assert(eq(str, (char *)standin_reason(run_standin), "a whim"));
	OUT("ID  STATUS     CHANGED  NOTE\n 1  cancelled  yes      -\n");
	RUN(EXIT_OK, "cancel", "1");
	OUT("ID  STATUS     CHANGED  NOTE\n 1  cancelled  no       it has ended\n");
	RUN(EXIT_REFUSED, "cancel", "2");
	RUN(EXIT_REFUSED, "cancel", "1", "77", "--json");
	OUT("{\"id\":1,\"status\":\"cancelled\",\"changed\":false,\"note\":\"it has ended\"}\n"
	    "{\"id\":77,\"not_found\":true}\n");
	RUN(EXIT_OK, "retry", "1", "2");
	OUT("ID  STATUS  CHANGED  NOTE\n 1  queued  yes      -\n 2  queued  yes      -\n");
}

Test(reeve, audit_tells_what_happened)
{
	RUN(EXIT_OK, "audit");
	ERR("no events\n");
	for (int i = 0; i < 3; i++)
		RUN(EXIT_OK, "submit", "t");
	RUN(EXIT_OK, "audit", "2");
	OUT_HAS("TIME                      EVENT      ATTEMPT  WORKER  ACTOR");
	OUT_HAS("Z  submitted        -  -       ");
	OUT_HAS("by the test\n");
	RUN(EXIT_OK, "audit", "--limit", "2", "--json");
	OUT_HAS_NOT("\"task_id\":1,");
	OUT_HAS("\"task_id\":2,");
	OUT_HAS("\"task_id\":3,");
	OUT_HAS("\"event\":\"submitted\"");
	ERR("reeve: there are older events than these; --all shows them, --since, --until and --limit choose\n");
	RUN(EXIT_OK, "audit", "--limit", "3", "--json");
	ERR("");
	for (int i = 0; i < 5; i++)
		RUN(EXIT_OK, "submit", "t");
	RUN(EXIT_OK, "audit", "--all", "--json"); /* three pages */
	for (int i = 1; i <= 8; i++) {
		char id[24];

		snprintf(id, sizeof id, "\"task_id\":%d,", i);
		OUT_HAS(id);
	}
	ERR("");
	RUN(EXIT_USAGE, "audit", "--all", "--limit", "3");
	RUN(EXIT_OK, "audit", "--since", "+1m");
	ERR("no events\n");
	RUN(EXIT_OK, "audit", "--since", "5m ago");
	OUT_HAS("TIME                      TASK  EVENT      ATTEMPT  WORKER  ACTOR");
	OUT_HAS("Z     2  submitted        -  -       ");
	RUN(EXIT_OK, "audit", "--until", "5m ago");
	ERR("no events\n");
	RUN(EXIT_OK, "audit", "--since", "5m ago", "--until", "+1m");
	OUT_HAS("Z     2  submitted        -  -       ");
	RUN(EXIT_USAGE, "audit", "--since", "whenever");
	RUN(EXIT_USAGE, "audit", "--until", "whenever");
	RUN(EXIT_USAGE, "audit", "--since", "5m ago", "--until", "6m ago");
	ERR_HAS("--until is not after --since");
	RUN(EXIT_USAGE, "audit", "1", "2");
}

Test(reeve, states_are_shown)
{
	RUN(EXIT_OK, "queue", "list");
	OUT("QUEUE    TYPE  QUEUED  DELAYED  EXECUTING  FAILED  OLDEST\n"
	    "default  mail       3        2          1       0      2h\n");
	RUN(EXIT_OK, "queue", "list", "--queue", "night", "--json");
	OUT_HAS("{\"queue\":\"night\",\"type\":\"mail\",\"queued\":3,\"delayed\":2,\"executing\":1,\"failed\":0,"
	        "\"oldest_due\":\"");
	RUN(EXIT_OK, "worker", "list");
	OUT("ID  NAME    STATE  MODE      SINCE  SLOTS  HOLDS  SUCCEEDED  FAILED  UP  HEARD  QUEUES      TYPES  VERSION\n"
	    " 7  host/1  alive  draining     0s      4      2         12       3  0s     0s  mail,night  all    -\n");
	RUN(EXIT_OK, "worker", "list", "--all", "--json");
	OUT_HAS("\"incarnation\":6,");
	RUN(EXIT_OK, "stats");
	OUT_HAS("workers alive        1\n\nTHE MANAGER'S COUNTERS  SINCE ITS START\nclaims_won                         "
	        "  42\n");
	RUN(EXIT_OK, "stats", "--json");
	OUT_HAS("\"counters\":[{\"name\":\"claims_won\",\"value\":42}]}\n");
}

static void shows_help(const char *usage)
{
	cr_assert(eq(int, strncmp(run_out, usage, strlen(usage)), 0), "%s", run_out);
	for (char *line = strtok(run_out, "\n"); line; line = strtok(NULL, "\n"))
		cr_assert(le(sz, strlen(line), 80), "%s", line);
}

Test(reeve, options_stand_anywhere_and_help_is_everywhere)
{
	static const char *const names[] = {"submit", "wait", "show", "list", "audit", "cancel", "discard", "retry", "update",
	    "fetch", "report", "extend", "stats", "errors", "check", "dev"};
	static const char *const verbs[][2] = {{"queue", "list"}, {"queue", "set"}, {"queue", "pause"}, {"queue", "stop"},
	    {"worker", "list"}, {"worker", "scale"}, {"worker", "drain"}, {"batch", "open"}, {"callback", "list"},
	    {"schedule", "add"}, {"schedule", "pause"}, {"pipeline", "define"}, {"metric", "put"}};
	static const char *const nouns[] = {
	    "task", "queue", "worker", "batch", "callback", "schedule", "pipeline", "metric"};
	char usage[64];

	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		snprintf(usage, sizeof usage, "Usage: reeve %s ", names[i]);
		RUN(EXIT_OK, (char *)names[i], "--help");
		shows_help(usage);
		RUN(EXIT_OK, "help", (char *)names[i]);
		shows_help(usage);
		/* `reeve submit` has its own --version, with a value. */
		RUN(EXIT_OK, (char *)names[i], strcmp(names[i], "submit") ? "--version" : "-V");
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
	RUN(EXIT_OK, "--manager", (char *)standin_url(run_standin), "--json", "submit", "t");
	OUT("{\"id\":1,\"existing\":false,\"restarted\":false}\n");
	RUN(EXIT_OK, "submit", "t", "--manager", (char *)standin_url(run_standin));
	OUT("2\n");
}

Test(reeve, nobody_there_is_said)
{
	static const char *const commands[] = {"list", "stats", "audit"};

	for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
		RUN(EXIT_UNREACHABLE, (char *)commands[i], "--manager=tcp://127.0.0.1:1", "--connect-timeout", "200ms");
		ERR("reeve: no manager reachable at tcp://127.0.0.1:1 (tried for 200ms): connection refused: nothing listens there\n");
		OUT("");
	}
	RUN(EXIT_UNREACHABLE, "submit", "t", "--manager=tcp://127.0.0.1:1", "--connect-timeout", "50ms");
	RUN(EXIT_UNREACHABLE, "wait", "1", "--manager=tcp://127.0.0.1:1", "--connect-timeout", "50ms");
	RUN(EXIT_USAGE, "list", "--manager", "nonsense");
	ERR_HAS("reeve: --manager: ");
	RUN(EXIT_UNREACHABLE, "stats", "--manager=tcp://127.0.0.1:1", "--connect-timeout", "2500ms");
	ERR("reeve: no manager reachable at tcp://127.0.0.1:1 (tried for 2.5s): connection refused: nothing listens there\n");
	/* A user at a terminal sees what the command waits for. */
	cr_assert(eq(int,
	    run_reeve_on_terminal(80, "stats", "--manager=tcp://127.0.0.1:1", "--connect-timeout", "2500ms", NULL),
	    EXIT_UNREACHABLE));
	OUT_HAS("reeve: no manager answers at tcp://127.0.0.1:1; still trying\n");
}

Test(reeve, tells_on_a_terminal_that_the_manager_refuses)
{
	static const char notice[] = "reeve: the manager refuses for now: as the test wants it; still trying";
	const char *told;

	/* Nine refusals take more than two seconds. */
	standin_fail_submits(run_standin, 0, 9, STATUS(RESOURCE_EXHAUSTED));
	cr_assert(eq(int, run_reeve_on_terminal(80, "submit", "t", NULL), EXIT_OK));
	told = strstr(run_out, notice);
	cr_assert(told && !strstr(told + 1, notice), "%s", run_out);
	/* A short refusal is not reported, and nothing is reported to a file. */
	standin_fail_submits(run_standin, 0, 3, STATUS(ABORTED));
	cr_assert(eq(int, run_reeve_on_terminal(80, "submit", "t", NULL), EXIT_OK));
	cr_assert(strstr(run_out, "refuses") == NULL, "%s", run_out);
	standin_fail_submits(run_standin, 0, 9, STATUS(RESOURCE_EXHAUSTED));
	RUN(EXIT_OK, "submit", "t");
	ERR("");
}

/* A manager that is alive but cannot answer: after a second this is reported once, also to a script. */
Test(reeve, tells_what_it_waits_for)
{
	static const char notice[] = "reeve: waiting for a manager that can answer: as the test wants it\n";

	/* Between two tries are 50 to 200 ms. */
	standin_fail_submits(run_standin, 0, 30, STATUS(UNAVAILABLE));
	RUN(EXIT_OK, "submit", "t");
	ERR(notice);
	OUT("1\n");
	standin_fail_submits(run_standin, 0, 2, STATUS(UNAVAILABLE));
	RUN(EXIT_OK, "submit", "t");
	ERR("");
}

Test(reeve, tells_refusals_for_now_from_others_by_its_exit_code)
{
	static const struct {
		enum reeve_code code;
		int want;
	} cases[] = {{REEVE_UNAVAILABLE, 3}, {REEVE_DEADLINE_EXCEEDED, 3}, {REEVE_RESOURCE_EXHAUSTED, 3}, {REEVE_ABORTED, 3},
	    {REEVE_FAILED_PRECONDITION, 4}, {REEVE_INVALID_ARGUMENT, 4}, {REEVE_NOT_FOUND, 4}, {REEVE_CANCELLED, 130}};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		cr_assert(eq(int, command_exit_code(&(struct reeve_failure){.code = cases[i].code}), cases[i].want), "%s",
		    reeve_code_name(cases[i].code));
}
