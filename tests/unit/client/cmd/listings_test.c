/* The commands that show tasks, events and states, to programs and on terminals. */
#include "client/cmd/command.h"
#include "client/cmd/terminal.h"
#include "tests/unit/client/cmd/run.h"
#include "tests/unit/compare.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(listings, .init = run_begin, .fini = run_end);

Test(listings, show_prints_all)
{
	RUN(EXIT_OK, "submit", "mail", "{\"to\":\"ann\"}", "--key", "order-17", "--source", "shop", "--max-attempts", "3");
	fake_server_end(run_fake_server, 1, TASK(DEAD), "no\x1b such address\n");
	RUN(EXIT_OK, "show", "1");
	OUT_HAS("task         1\nstatus       dead\nqueue        default\ntype         mail\nkey          order-17\n"
	        "source       shop\nworker       fake/1\n");
	OUT_HAS("attempts     1 of 3, each up to 1m\nsubmitted    20");
	OUT_HAS("error code   exit:65\n\nerror:\nno\x1b such address\n\ndetails:\n{\"to\":\"ann\"}\n");
	cr_assert(eq(int, run_reeve_on_terminal(80, "show", "1", NULL), EXIT_OK));
	OUT_HAS("\x1b[31mdead\x1b[0m");
	OUT_HAS("no\\x1b such address\n");
	RUN(EXIT_REFUSED, "show", "2");
	ERR("reeve: there is no task 2\n");
	/* The error of an attempt that was followed by others is shown as earlier. */
	fake_server_end(run_fake_server, 1, TASK(COMPLETED), "done");
	RUN(EXIT_OK, "show", "1");
	OUT_HAS(
	    "earlier code exit:65\n\nearlier error:\nno\x1b such address\n\ndetails:\n{\"to\":\"ann\"}\n\nresult:\ndone\n");
}

Test(listings, list_filters_and_pages)
{
	char *ids[2500];
	int count = 0;

	RUN(EXIT_OK, "list");
	OUT("");
	ERR("no tasks\n");
	RUN(EXIT_OK, "submit", "--bulk",
	    run_file("{\"type\":\"a\"}\n{\"type\":\"b\",\"delay\":\"150m\"}\n{\"type\":\"a\"}\n"));
	fake_server_end(run_fake_server, 1, TASK(DEAD), "why");
	RUN(EXIT_OK, "list");
	OUT_HAS("ID  STATUS  QUEUE    TYPE  PRIO  TRIES  AGE  WORKER  NOTE\n"
	        " 3  queued  default  a        0    0/5   ");
	OUT_HAS(" 2  queued  default  b        0    0/5   ");
	OUT_HAS("due in 2h\n");
	OUT_HAS(" 1  dead    default  a        0    1/5   ");
	OUT_HAS("fake/1  exit:65: why\n");
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

	struct fake_server_submit submits[FAKE_SERVER_SUBMITS];
	size_t before = fake_server_submits(run_fake_server, submits);
	char *file = malloc(2500 * 16);
	for (int i = 0; i < 2500; i++)
		sprintf(file + 13 * i, "{\"type\":\"c\"}\n");
	RUN(EXIT_OK, "submit", "--bulk", run_file(file), "--json");
	free(file);
	cr_assert(eq(sz, fake_server_submits(run_fake_server, submits) - before, 3), "in chunks of 1,000");
	RUN(EXIT_OK, "list", "--type", "c");
	ERR("reeve: there are more tasks than the 100 shown; --limit and the filters choose\n");
	RUN(EXIT_OK, "list", "--type", "c", "--limit", "2200");
	for (char *line = strtok(run_out, "\n"); line; line = strtok(NULL, "\n"))
		ids[count++] = line;
	cr_assert(eq(int, count, 2201));
	cr_assert(eq(int, atoi(ids[1]), 2503));
	cr_assert(eq(int, atoi(ids[2200]), 304));
}

/* Characters that could control a terminal are escaped there; a program gets them as they were submitted. */
Test(listings, json_on_a_terminal_steers_nothing)
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

Test(listings, list_fits_the_terminal_and_is_coloured_there)
{
	char line[256];

	RUN(EXIT_OK, "submit", "a-type-with-a-rather-long-name-that-does-not-fit");
	fake_server_end(run_fake_server, 1, TASK(DEAD), "a long explanation of why this went so wrong that it is dead");
	cr_assert(eq(int, run_reeve_on_terminal(80, "list", NULL), EXIT_OK));
	cr_assert(strstr(run_out, "\x1b[31mdead\x1b[0m") && strstr(run_out, "\xe2\x80\xa6"), "%s", run_out);
	cr_assert(eq(int, run_reeve_on_terminal(80, "list", "--color", "never", NULL), EXIT_OK));
	cr_assert(strchr(run_out, '\x1b') == NULL);
	setenv("NO_COLOR", "1", 1);
	cr_assert(eq(int, run_reeve_on_terminal(80, "list", "--color=always", NULL), EXIT_OK));
	cr_assert(strstr(run_out, "\x1b[31mdead\x1b[0m") != NULL, "%s", run_out);
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

Test(listings, audit_shows_what_happened)
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

Test(listings, states_are_shown)
{
	RUN(EXIT_OK, "queue", "list");
	OUT("QUEUE    TYPE  QUEUED  DELAYED  EXECUTING  FAILED  OLDEST\n"
	    "default  mail       3        2          1       0      2h\n");
	RUN(EXIT_OK, "queue", "list", "--queue", "night", "--json");
	OUT_HAS("{\"queue\":\"night\",\"type\":\"mail\",\"queued\":3,\"delayed\":2,\"executing\":1,\"failed\":0,"
	        "\"oldest_due\":\"");
	RUN(EXIT_OK, "worker", "list");
	OUT("ID  NAME    STATE  MODE      SINCE  SLOTS  HOLDS  COMPLETED  FAILED  UP  HEARD  QUEUES      TYPES  OWNER         VERSION\n"
	    " 7  host/1  alive  draining     2h      4      2         12       3  2h     2h  mail,night  all    fleet/host/1  -\n");
	RUN(EXIT_OK, "worker", "list", "--all", "--json");
	OUT_HAS("\"incarnation\":6,");
	RUN(EXIT_OK, "stats");
	OUT_HAS("workers alive        1\n\nTHE MANAGER'S COUNTERS  SINCE ITS START\nclaims_won                         "
	        "  42\n");
	RUN(EXIT_OK, "stats", "--json");
	OUT_HAS("\"counters\":[{\"name\":\"claims_won\",\"value\":42}]}\n");
}
