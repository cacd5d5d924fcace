/* The commands that submit, change, fetch and await tasks: what they print, where, and their exit codes. */
#include "client/cmd/command.h"
#include "common/error.h"
#include "tests/unit/client/cmd/run.h"
#include "tests/unit/compare.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

TestSuite(task_commands, .init = run_begin, .fini = run_end);

Test(task_commands, submit_prints_the_id)
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

Test(task_commands, submit_reads_details_from_standard_input)
{
	cr_assert(eq(int, run_reeve("line one\nline two\n", "submit", "t", "-", NULL), EXIT_OK));
	cr_assert(eq(str, (char *)fake_server_details(run_fake_server, 1), "line one\nline two\n"));
	cr_assert(eq(int, run_reeve("", "submit", "t", "-", NULL), EXIT_OK));
	cr_assert(eq(str, (char *)fake_server_details(run_fake_server, 2), ""));
	cr_assert(eq(int, run_reeve_bytes("a\0b", 3, "submit", "t", "-", NULL), EXIT_REFUSED));
	ERR("reeve: details holds a NUL byte\n");
	cr_assert(eq(int, run_reeve("caf\xe9", "submit", "t", "-", NULL), EXIT_REFUSED));
	ERR("reeve: details is not UTF-8\n");

	char *text = malloc(200001);
	memset(text, 'x', 200000);
	text[200000] = '\0';
	cr_assert(eq(int, run_reeve(text, "submit", "t", "-", NULL), EXIT_REFUSED));
	ERR("reeve: details is longer than 2000 bytes, the manager's limit\n");
	text[FAKE_SERVER_MAX_DETAILS] = '\0';
	cr_assert(eq(int, run_reeve(text, "submit", "t", "-", NULL), EXIT_OK));
	free(text);
}

Test(task_commands, submit_refuses_nonsense)
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
	ERR("reeve: --queue holds a control character\n");
	fake_server_fail_submits(run_fake_server, 0, 1, STATUS(PERMISSION_DENIED));
	RUN(EXIT_REFUSED, "submit", "t");
	ERR("reeve: as the test wants it\n");
	cr_assert(eq(sz, fake_server_tasks(run_fake_server), 0));
}

Test(task_commands, ids_must_be_numbers)
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

/* A Fetch that does not wait may arrive before the manager has read what was committed before the Fetch was sent. */
Test(task_commands, fetch_asks_again_until_the_manager_knows)
{
	RUN(EXIT_OK, "submit", "letter", "to ann");
	fake_server_know_later(run_fake_server, 2);
	RUN(EXIT_OK, "fetch");
	OUT_HAS("letter");
	OUT_HAS("to ann");
	RUN(EXIT_TASK_FAILED, "fetch");
	ERR("reeve: no task waits\n");
	RUN(EXIT_OK, "submit", "letter", "to bob");
	RUN(EXIT_OK, "submit", "letter", "to eve");
	fake_server_know_later(run_fake_server, 1);
	RUN(EXIT_OK, "fetch", "-n", "2", "--max-wait", "5s"); /* one that parks would get one */
	OUT_HAS("to bob");
	OUT_HAS("to eve");
}

Test(task_commands, changes_report_what_they_did)
{
	RUN(EXIT_OK, "submit", "t");
	RUN(EXIT_OK, "submit", "t");
	fake_server_end(run_fake_server, 2, TASK(COMPLETED), "");
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
	cr_assert(eq(str, (char *)fake_server_reason(run_fake_server), "a whim"));
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
