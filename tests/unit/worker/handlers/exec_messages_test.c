/* Messages of programs on descriptor 3. */
#include "exec_fixture.h"

#include <signal.h>

Test(exec_messages, it_may_ask_for_more_time)
{
	const struct script_task *task;

	exec_open((struct reeve_worker_options){0},
	    "[handler t]\ntimeout = 2s\nexec = sh -c 'for i in 1 2 3 4; do "
	    "echo \"{\\\"extend\\\": \\\"5s\\\"}\" >&3; "
	    "sleep 1; done; echo done'\n");
	fixture.script.extend_max_ms = 60 * 1000;
	task = run_one("");
	expect(task, OUTCOME(COMPLETED), "", "done\n");
	cr_expect_geq(task->run_ms, 4000);
	cr_expect_eq(fixture.script.extends, 4);
	cr_expect_eq(exec_close(), 0);
}

Test(exec_messages, more_time_is_no_more_than_was_granted)
{
	const struct script_task *task;

	exec_open((struct reeve_worker_options){0},
	    "[handler t]\ntimeout = 2s\nexec = sh -c 'echo \"{\\\"extend\\\": 3600}\" >&3; exec sleep 1000'\n");
	fixture.script.extend_max_ms = 2500;
	task = run_one("");
	cr_expect_eq(task->outcome, OUTCOME(FAILED));
	cr_expect_str_eq(task->code, "timeout");
	cr_expect_geq(task->run_ms, 2500);
	cr_expect_lt(task->run_ms, 3600 * 1000);
	/* The error has the total time. */
	cr_expect(atoi(task->error + strlen("not done after ")) >= 2500, "%s", task->error);
	cr_expect_eq(exec_close(), 0);
}

Test(exec_messages, while_it_asks_for_more_its_time_is_not_over)
{
	exec_open((struct reeve_worker_options){0},
	    "[handler t]\ntimeout = 1s\nexec = sh -c 'echo \"{\\\"extend\\\": 5}\" >&3; sleep 2; echo done'\n");
	fixture.script.extend_max_ms = 5000;
	fixture.script.extend_delay_ms = 1200;
	expect(run_one(""), OUTCOME(COMPLETED), "", "done\n");
	cr_expect_eq(exec_close(), 0);
}

Test(exec_messages, when_more_time_is_refused_its_own_is_left)
{
	exec_open((struct reeve_worker_options){0},
	    "[handler t]\ntimeout = 2s\nexec = sh -c 'echo "
	    "\"{\\\"extend\\\": \\\"1h\\\"}\" >&3; exec sleep 1000'\n");
	fixture.script.extend_max_ms = 0;
	expect(run_one(""), OUTCOME(FAILED), "timeout", "not done after 2000 ms");
	cr_expect_eq(fixture.script.extends, 1);
	cr_expect_eq(exec_close(), 0);
}

/* There is always a new wish before a manager has answered the last one. */
Test(exec_messages, asking_without_end_does_not_end_the_timeout)
{
	exec_open((struct reeve_worker_options){0},
	    "[handler t]\ntimeout = 1s\nexec = sh -c 'while sleep 0.01; do echo \"{\\\"extend\\\": 60}\" >&3; done'\n");
	fixture.script.extend_max_ms = 0;
	fixture.script.extend_delay_ms = 300;
	expect(run_one(""), OUTCOME(FAILED), "timeout", "not done after 1000 ms");
	cr_expect_eq(exec_close(), 0);
}

/* Opens a fixture in which the details are a script. Its function `say` sends an object, written with ' for ". */
static void open_shell(void)
{
	exec_open((struct reeve_worker_options){0}, "[handler t]\nexec = bash\n");
}

static const struct script_task *run_script(const char *script)
{
	char details[1024];

	snprintf(details, sizeof details, "say() { echo \"${1//\\'/\\\"}\" >&3; }\n%s\n", script);
	return run_one(details);
}

static void expect_beside(const struct script_task *task, const char *remark, const char *stack, int64_t retry_in_ms)
{
	cr_expect_str_eq(task->remark, remark);
	cr_expect_str_eq(task->stack, stack);
	cr_expect_eq(task->retry_in_ms, retry_in_ms);
}

Test(exec_messages, a_directive_goes_before_the_exit_code)
{
	static const struct {
		const char *script;
		Reeve__V1__Outcome outcome;
		const char *code, *text;
	} cases[] = {
	    {"say \"{'directive': 'SUCCESS'}\"; echo done; exit 1", OUTCOME(COMPLETED), "", "done\n"},
	    {"say \"{'directive': 'SUCCESS'}\"; exit 65", OUTCOME(COMPLETED), "", ""},
	    {"say \"{'directive': 'RETRY'}\"", OUTCOME(FAILED), "directive:RETRY", "the program reports RETRY"},
	    {"say \"{'directive': 'RETRY'}\"; echo why >&2; exit 65", OUTCOME(FAILED), "exit:65", "why"},
	    {"say \"{'directive': 'NO_RETRY'}\"", OUTCOME(FATAL), "directive:NO_RETRY", "the program reports NO_RETRY"},
	    {"say \"{'directive': 'NO_RETRY'}\"; exit 3", OUTCOME(FATAL), "exit:3", "exit status 3"},
	    {"say \"{'directive': 'NO_RETRY'}\"; kill -9 $$", OUTCOME(FATAL), "signal:9", "ended by signal 9 (Killed)"},
	    {"printf 'NO_RETRY | no caf\\351\\n' >&3; exit 3", OUTCOME(FATAL), "exit:3", "no caf\xef\xbf\xbd"},
	    /* It was killed after it had sent SUCCESS. */
	    {"say \"{'directive': 'SUCCESS'}\"; kill -9 $$", OUTCOME(FAILED), "signal:9", "ended by signal 9 (Killed)"},
	    /* The last directive counts; a null directive and a message without a directive do not change it. */
	    {"say \"{'directive': 'NO_RETRY'}\"; say \"{'directive': 'SUCCESS'}\"; say \"{'directive': null, 'new': "
	     "[1]}\"; "
	     "exit 1",
	        OUTCOME(COMPLETED), "", ""},
	};

	open_shell();
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		expect(run_script(cases[i].script), cases[i].outcome, cases[i].code, cases[i].text);
	cr_expect_eq(exec_close(), 0);
}

Test(exec_messages, it_says_more_of_a_failure)
{
	const struct script_task *task;

	open_shell();
	task = run_script("echo noise >&2; say \"{'remark': 'page 3', 'error': 'busy', 'error_code': '503', "
	                  "'stack_trace': 'at x\\nat y', 'retry_in': '10m'}\"; exit 3");
	expect(task, OUTCOME(FAILED), "503", "busy");
	expect_beside(task, "page 3", "at x\nat y", 600000);
	/* In several messages. The stack is the standard error. */
	task = run_script(
	    "echo one >&2; echo two >&2; say \"{'remark': 'a', 'retry_in': 1.5}\"; say \"{'remark': 'b'}\"; exit 3");
	expect(task, OUTCOME(FAILED), "exit:3", "one\ntwo");
	expect_beside(task, "b", "one\ntwo", 1500);
	/* 0 means a retry at once, which is sent as 1 ms because 0 would mean that it is not set. A fatal failure is not
	 * retried. */
	expect_beside(run_script("say \"{'retry_in': 0}\"; exit 3"), "", "", 1);
	task = run_script("say \"{'retry_in': 7}\"; exit 65");
	expect(task, OUTCOME(FATAL), "exit:65", "exit status 65");
	expect_beside(task, "", "", 0);
	/* A task that completes keeps only its remark. */
	task = run_script(
	    "echo noise >&2; say \"{'remark': 'well', 'error': 'x', 'stack_trace': 'y', 'retry_in': 5}\"; echo done");
	expect(task, OUTCOME(COMPLETED), "", "done\n");
	expect_beside(task, "well", "", 0);
	cr_expect_eq(exec_close(), 0);
}

Test(exec_messages, the_stack_is_the_end_of_standard_error)
{
	const struct script_task *task;

	open_shell();
	task = run_script("head -c 300000 /dev/zero | tr '\\0' x >&2; echo the end >&2; exit 3");
	cr_expect_eq(task->outcome, OUTCOME(FAILED));
	cr_expect_leq(strlen(task->error), 4096);
	cr_expect_eq(strlen(task->stack), 65535); /* the newline at the end is the 65,536th byte */
	cr_expect_str_eq(task->stack + strlen(task->stack) - 7, "the end");
	/* Invalid UTF-8 becomes longer when it is repaired; the end is kept nevertheless. */
	task = run_script("head -c 300000 /dev/zero | tr '\\0' '\\377' >&2; echo the end >&2; exit 3");
	cr_expect_gt(strlen(task->stack), 65000);
	cr_expect_leq(strlen(task->stack), 65536);
	cr_expect_str_eq(task->stack + strlen(task->stack) - 7, "the end");
	cr_expect_eq(exec_close(), 0);
}

Test(exec_messages, output_before_a_timeout_is_kept)
{
	const struct script_task *task;

	exec_open((struct reeve_worker_options){0}, "[handler t]\nexec = bash\ntimeout = 2s\n");
	task = run_script("say \"{'remark': 'so far', 'directive': 'SUCCESS'}\"; echo slow >&2; exec sleep 1000");
	expect(task, OUTCOME(FAILED), "timeout", "not done after 2000 ms: slow");
	expect_beside(task, "so far", "slow", 0);
	cr_expect_eq(exec_close(), 0);
}

Test(exec_messages, invalid_output_on_descriptor_3_is_no_success)
{
	static const struct {
		const char *said, *problem;
	} cases[] = {
	    {"all is well", "descriptor 3: not a JSON object: all is well"},
	    {"{", "descriptor 3: a JSON object without its end: { "},
	    {"{'directive': 'RETRI'}",
	        "descriptor 3: directive must be SUCCESS, RETRY, NO_RETRY or SKIP, or one of these with a text, as in \"RETRY | text\": {\"directive\": \"RETRI\"}"},
	    {"{'directive': 1}", NULL},
	    {"RETRI | why",
	        "descriptor 3: directive must be SUCCESS, RETRY, NO_RETRY or SKIP, or one of these with a text, as in \"RETRY | text\": RETRI | why"},
	    {"{'remark': 1}", "descriptor 3: remark must be a string: {\"remark\": 1}"},
	    {"{'error_code': 'a\\tb'}", "descriptor 3: error_code holds a control character: {\"error_code\": \"a\\tb\"}"},
	    {"{'retry_in': 'soon'}",
	        "descriptor 3: retry_in must be a duration (\"90s\", \"10m\", or a number of seconds) of up to "
	        "365 days: {\"retry_in\": \"soon\"}"},
	    {"{'retry_in': -1}", NULL},
	    {"{'retry_in': 1e300}", NULL},
	    {"{'retry_in': '366d'}", NULL},
	    {"{'retry_in': 99999999999999999999}", NULL},
	    {"{'extend': 'soon'}", NULL},
	};
	char script[256];

	open_shell();
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		const struct script_task *task;

		snprintf(script, sizeof script, "echo err >&2; echo out; say \"%s\"", cases[i].said);
		task = run_script(script);
		cr_expect_eq(task->outcome, OUTCOME(FATAL), "%s", cases[i].said);
		cr_expect_str_eq(task->code, "bad_message");
		if (cases[i].problem)
			cr_expect_str_eq(task->error, cases[i].problem);
		expect_beside(task, "", "err\nstandard output:\nout\n", 0);
	}
	/* An attempt that failed for another reason is retried, and its error has the problem with the message. */
	expect(run_script("say \"{'remark': 1}\"; echo why >&2; exit 3"), OUTCOME(FAILED), "exit:3",
	    "why (and descriptor 3: remark must be a string: {\"remark\": 1})");
	/* Except after an unknown directive. */
	cr_expect_eq(run_script("say \"{'directive': 'NO'}\"; echo why >&2; exit 3")->outcome, OUTCOME(FATAL));
	/* The valid fields of an invalid message count. */
	expect(run_script("say \"{'directive': 'NO_RETRY', 'remark': 1, 'error': 'e'}\""), OUTCOME(FATAL),
	    "directive:NO_RETRY",
	    "e (and descriptor 3: remark must be a string: {\"directive\": \"NO_RETRY\", \"remark\": 1, \"error\": "
	    "\"e\"})");
	cr_expect_eq(exec_close(), 0);
}

Test(exec_messages, whatever_it_writes_to_descriptor_3_the_worker_does_not_suffer)
{
	exec_open((struct reeve_worker_options){0},
	    "[handler t]\nexec = sh -c 'head -c 3000000 /dev/zero >&3; yes no JSON | head -n 100000 >&3; "
	    "yes { | head -n 100000 >&3; echo \"{\\\"extend\\\": \\\"soon\\\", \\\"new\\\": 1}\" >&3; exec 3>&-; echo "
	    "done'\n"
	    "[handler child]\nexec = sh -c 'setsid sleep 1000 <&- >&- 2>&- & echo $!'\n");
	cr_expect_str_eq(run_one("")->code, "bad_message");
	cr_expect_eq(fixture.script.extends, 0);
	/* A child that keeps the descriptor open does not delay the result. */
	int64_t id = script_add(&fixture.script, "child", "");
	fixture_await(&fixture, id);
	cr_expect_eq(fixture.script.tasks[id].outcome, OUTCOME(COMPLETED));
	kill(atoi(fixture.script.tasks[id].result), SIGKILL);
	cr_expect_eq(exec_close(), 0);
}
