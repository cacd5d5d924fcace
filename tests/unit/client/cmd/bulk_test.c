/* `reeve submit --bulk`: submits an entire file or, if a line is invalid, nothing of it. */
#include "client/cmd/command.h"
#include "common/error.h"
#include "tests/unit/client/cmd/run.h"
#include "tests/unit/compare.h"

#include <criterion/criterion.h>
#include <reeve/client.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(bulk, .init = run_begin, .fini = run_end);

Test(bulk, submits_line_by_line)
{
	const char *file = run_file("{\"type\":\"a\",\"details\":{\"n\":1}}\n"
	                            "\n"
	                            "  \t\r\n"
	                            "{\"type\":\"b\",\"key\":\"k\"}\r\n"
	                            "{\"details\":\"last, without a newline\",\"queue\":\"own\"}");

	cr_assert(
	    eq(int, run_reeve(NULL, "submit", "--bulk", file, "default-type", "--queue", "night", NULL), 0), "%s", run_err);
	cr_assert(eq(str, run_out, "1\n2\n3\n"));
	cr_assert(eq(str, run_err, ""));
	cr_assert(eq(str, (char *)fake_server_details(run_fake_server, 1), "{\"n\":1}"));
	cr_assert(eq(str, (char *)fake_server_details(run_fake_server, 3), "last, without a newline"));
	cr_assert(eq(int, run_reeve(NULL, "list", NULL), 0));
	cr_assert(strstr(run_out, " 3  queued  own    default-type ") != NULL, "%s", run_out);
	cr_assert(strstr(run_out, " 2  queued  night  b            ") != NULL, "%s", run_out);

	cr_assert(eq(int, run_reeve("{\"type\":\"a\"}\n{\"type\":\"b\",\"key\":\"k\"}", "submit", "--bulk", "-", NULL), 0));
	cr_assert(eq(str, run_out, "4\n2\n"));
	cr_assert(eq(str, run_err, "reeve: 1 of the keys was known already: its task is the earlier one\n"));
	cr_assert(eq(int, run_reeve("{\"type\":\"b\",\"key\":\"k\"}", "submit", "--bulk=-", "--json", NULL), 0));
	cr_assert(eq(str, run_out, "{\"id\":2,\"existing\":true,\"restarted\":false}\n"));
	cr_assert(eq(int, run_reeve("", "submit", "--bulk=-", NULL), 0));
	cr_assert(eq(str, run_out, ""));
}

Test(bulk, submits_the_elements_of_an_array)
{
	cr_assert(eq(int,
	    run_reeve(" \n [{\"type\": \"a\", \"details\": {\"n\": [1, \"],\\\"\"]}},\n{\"type\":\"b\"} ] \n", "submit",
	        "--bulk", "-", NULL),
	    0));
	cr_assert(eq(str, run_out, "1\n2\n"));
	cr_assert(eq(str, (char *)fake_server_details(run_fake_server, 1), "{\"n\":[1,\"],\\\"\"]}"));
	cr_assert(eq(int, run_reeve("[{\"to\":\"ann\"}, \"bob\"]", "submit", "--bulk", "-", "--type", "mail", NULL), 0));
	cr_assert(eq(str, (char *)fake_server_details(run_fake_server, 3), "{\"to\":\"ann\"}"));
	cr_assert(eq(str, (char *)fake_server_details(run_fake_server, 4), "bob"));
	cr_assert(eq(int, run_reeve("{\"to\":\"ann\"}\n\"bob\"\n", "submit", "--bulk", "-", "--type", "mail", NULL), 0));
	cr_assert(eq(str, (char *)fake_server_details(run_fake_server, 6), "bob"));
	cr_assert(eq(int, run_reeve("[]", "submit", "--bulk", "-", NULL), 0));
	cr_assert(eq(str, run_out, ""));

	static const char *const wrong[][2] = {
	    {"[{\"type\":\"a\"}", "reeve: standard input: the array has no end\n"},
	    {"[{\"type\":\"a\"}] 1", "reeve: standard input: something follows the array\n"},
	    {"[{\"type\":\"a\"},\n\n17]",
	        "reeve: standard input:2: must be a JSON object\nreeve: standard input: 1 element cannot be submitted; nothing was\n"},
	};
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		cr_assert(eq(int, run_reeve(wrong[i][0], "submit", "--bulk", "-", NULL), EXIT_REFUSED));
		cr_assert(eq(str, run_err, (char *)wrong[i][1]));
	}
	cr_assert(eq(int, run_reeve("[{\"type\":\"a\"},]", "submit", "--bulk", "-", NULL), EXIT_REFUSED));
	cr_assert(eq(int, run_reeve(NULL, "submit", "a", "--type", "b", NULL), EXIT_USAGE));
	cr_assert(eq(int, run_reeve("", "submit", "--bulk", "-", "a", "--type", "b", NULL), EXIT_USAGE));
}

Test(bulk, one_bad_line_and_nothing_is_sent)
{
	struct fake_server_submit submits[FAKE_SERVER_SUBMITS];
	char *text = malloc(3000 * 32), *to = text, expected[256];

	/* Many valid chunks come before the invalid line. */
	for (int i = 1; i <= 2500; i++)
		to += sprintf(to, i == 2400 ? "{\"type\":\"\"}\n" : "{\"type\":\"t\"}\n");
	const char *file = run_file(text);
	cr_assert(eq(int, run_reeve(NULL, "submit", "--bulk", file, NULL), EXIT_REFUSED));
	snprintf(expected, sizeof expected,
	    "reeve: %s:2400: type is empty\nreeve: %s: 1 line cannot be submitted; nothing was\n", file, file);
	cr_assert(eq(str, run_err, expected));
	cr_assert(eq(str, run_out, ""));
	cr_assert(eq(sz, fake_server_submits(run_fake_server, submits), 0));
	free(text);

	cr_assert(eq(int,
	    run_reeve("{\"type\":\"t\"}\n\n{\"type\":\"t\",\"delay\":\"-5s\"}\nnonsense\n{\"typ\":1}\n", "submit", "--bulk",
	        "-", NULL),
	    EXIT_REFUSED));
	cr_assert(strstr(run_err, "reeve: standard input:3: delay is negative\n") != NULL, "%s", run_err);
	cr_assert(strstr(run_err, "reeve: standard input:4: is not JSON: ") != NULL, "%s", run_err);
	cr_assert(strstr(run_err, "reeve: standard input:5: typ is not a known field: TaskSpec has queue, type, ") != NULL,
	    "%s", run_err);
	cr_assert(strstr(run_err, "3 lines cannot be submitted; nothing was\n") != NULL, "%s", run_err);
	cr_assert(eq(int, run_reeve_bytes("{\"type\":\"t\"}\n \0\n", 16, "submit", "--bulk", "-", NULL), EXIT_REFUSED));
	cr_assert(strstr(run_err, "reeve: standard input:2: is not JSON: ") != NULL, "%s", run_err);
	cr_assert(eq(int, run_reeve("{\"type\":\"caf\xe9\"}\n", "submit", "--bulk", "-", NULL), EXIT_REFUSED));

	char *long_line = malloc(FAKE_SERVER_MAX_DETAILS + 64);
	sprintf(long_line, "{\"type\":\"t\",\"details\":\"%0*d\"}", FAKE_SERVER_MAX_DETAILS + 1, 7);
	cr_assert(eq(int, run_reeve(long_line, "submit", "--bulk", "-", NULL), EXIT_REFUSED));
	cr_assert(strstr(run_err, ":1: details is longer than 2000 bytes, the manager's limit\n") != NULL, "%s", run_err);
	free(long_line);
	cr_assert(eq(sz, fake_server_tasks(run_fake_server), 0));

	char many[1024] = "";
	for (int i = 0; i < 11; i++)
		strcat(many, "{\"type\":\"\"}\n");
	cr_assert(eq(int, run_reeve(many, "submit", "--bulk", "-", NULL), EXIT_REFUSED));
	cr_assert(strstr(run_err, "reeve: standard input:10: type is empty\n") != NULL, "%s", run_err);
	cr_assert(strstr(run_err, ":11:") == NULL, "%s", run_err);
	cr_assert(
	    strstr(run_err, "11 lines cannot be submitted, the first 10 are shown; nothing was\n") != NULL, "%s", run_err);
}

Test(bulk, says_which_lines_became_tasks)
{
	char *text = malloc(6000 * 32), *to = text, expected[64];
	size_t n_lines = 0;

	/* A blank line first, so that line numbers differ from task numbers. */
	to += sprintf(to, "\n");
	for (int i = 1; i <= 6000; i++)
		to += sprintf(to, "{\"type\":\"%s\"}\n", i == 2500 ? "bad" : "t");
	const char *file = run_file(text);
	free(text);
	fake_server_refuse_type(run_fake_server, "bad");
	cr_assert(eq(int, run_reeve(NULL, "submit", "--bulk", file, NULL), EXIT_REFUSED));
	cr_assert(strstr(run_err, "reeve: as the test wants it\n") != NULL, "%s", run_err);
	cr_assert(strstr(run_err, ": the tasks of lines 2002 to 3001 were not stored\n") != NULL, "%s", run_err);
	/* How many chunks were already in flight by then depends on timing. */
	cr_assert(fake_server_tasks(run_fake_server) >= 2000 && fake_server_tasks(run_fake_server) <= 5000);
	snprintf(expected, sizeof expected, "reeve: %zu of 6000 tasks were stored\n", fake_server_tasks(run_fake_server));
	cr_assert(strstr(run_err, expected) != NULL, "%s", run_err);
	if (fake_server_tasks(run_fake_server) < 5000) {
		snprintf(expected, sizeof expected, ": the tasks from line %zu on were not sent\n",
		    fake_server_tasks(run_fake_server) + 1000 + 2);
		cr_assert(strstr(run_err, expected) != NULL, "%s", run_err);
	}
	for (const char *at = run_out; *at; at++)
		n_lines += *at == '\n';
	cr_assert(eq(sz, n_lines, fake_server_tasks(run_fake_server)));
}

Test(bulk, says_how_many_tasks_may_be_stored)
{
	fake_server_hold_submits(run_fake_server, 1000);
	cr_assert(ne(int, run_reeve("{\"type\":\"a\"}\n", "submit", "--bulk", "-", "--call-timeout", "1s", NULL), 0));
	cr_assert(strstr(run_err, ": the tasks of lines 1 to 1 may or may not have been stored\n") != NULL, "%s", run_err);
	cr_assert(strstr(run_err, "reeve: 0 of 1 tasks are known to be stored, and up to 1 more may be\n") != NULL, "%s",
	    run_err);
}

Test(bulk, its_wait_needs_no_other_call)
{
	struct fake_server_submit submits[FAKE_SERVER_SUBMITS];
	size_t max_ids;

	fake_server_end_tasks_as(run_fake_server, REEVE__V1__TASK_STATUS__TASK_STATUS_COMPLETED);
	cr_assert(eq(int,
	              run_reeve("{\"type\":\"a\",\"retry\":{\"base_ms\":3000}}\n{\"type\":\"b\"}\n", "submit", "--bulk",
	                  "-", "--wait", NULL),
	              0),
	    "%s", run_err);
	cr_assert(eq(str, run_out, "1\n2\n"));
	cr_assert(strstr(run_err, "2 completed, 0 dead") != NULL, "%s", run_err);
	cr_assert(eq(sz, fake_server_submits(run_fake_server, submits), 0), "only SubmitAndWait was called");
	cr_assert(eq(sz, fake_server_waits(run_fake_server, &max_ids), 0));
}

Test(bulk, wrong_usage)
{
	cr_assert(eq(int, run_reeve(NULL, "submit", "--bulk", "/no/such/file", NULL), EXIT_USAGE));
	cr_assert(eq(str, run_err, "reeve: --bulk: /no/such/file: No such file or directory\n"));
	cr_assert(eq(int, run_reeve(NULL, "submit", "--bulk", "/tmp", NULL), EXIT_USAGE), "a folder");
	cr_assert(eq(int, run_reeve(NULL, "submit", "--bulk", "-", "--key", "k", NULL), EXIT_USAGE));
	cr_assert(eq(int, run_reeve(NULL, "submit", "--bulk", "-", "t", "details", NULL), EXIT_USAGE));
}

Test(bulk, draws_a_bar_on_a_terminal_alone)
{
	const char *file = run_file("{\"type\":\"a\"}\n{\"type\":\"a\"}\n");

	cr_assert(eq(int, run_reeve_on_terminal(80, "submit", "--bulk", file, NULL), 0));
	cr_assert(strstr(run_out, "submitting [########################] 2/2") != NULL, "%s", run_out);
	cr_assert(strstr(run_out, "1\n2\n") != NULL, "%s", run_out);
}
