/* Programs as handlers: real processes, started by the real supervisor. */
#include "../process.h"
#include "../program.h"
#include "../stage.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/wait.h>

static struct stage stage;
static char file[160]; /* the handlers file; the tests' other files are in the same directory */

/* Opens the fixture with a handlers file. */
static void open_stage(struct reeve_worker_options options, const char *handlers)
{
	FILE *out;

	stage_open(&stage, options);
	snprintf(file, sizeof file, "%s/handlers.ini", stage.script.directory);
	out = fopen(file, "w");
	fputs(handlers, out);
	fclose(out);
	cr_assert(reeve_worker_handle_file(stage.worker, file), "%s", reeve_worker_error(stage.worker));
	stage.script.heartbeat_ms = 30;
}

/* Returns the path of one of the test's own files. */
static const char *own(const char *name)
{
	static char path[256];

	snprintf(path, sizeof path, "%s/%s", stage.script.directory, name);
	return path;
}

/* Returns a process id that a handler wrote to one of the test's own files. */
static pid_t read_pid(const char *name)
{
	return process_read(own(name));
}

static bool is_gone(pid_t pid)
{
	return process_gone(pid);
}

static bool gone_soon(pid_t pid)
{
	return process_gone_by(pid, clock_monotonic_ms() + SCRIPT_PATIENCE_MS);
}

static int close_stage(void)
{
	DIR *directory = opendir(stage.script.directory);
	struct dirent *entry;

	while (directory && (entry = readdir(directory)))
		if (entry->d_name[0] != '.' && strcmp(entry->d_name, "manager"))
			unlink(own(entry->d_name));
	closedir(directory);
	return stage_close(&stage);
}

/* Runs one task of type t and returns it with its result. */
static const struct script_task *run_one(const char *details)
{
	int64_t id = script_add(&stage.script, "t", details);

	if (!stage.running)
		stage_go(&stage);
	stage_await(&stage, id);
	return &stage.script.tasks[id];
}

static void expect(const struct script_task *task, Reeve__V1__Outcome outcome, const char *code, const char *text)
{
	cr_expect_eq(task->outcome, outcome, "outcome %d (%s)", task->outcome, task->error);
	cr_expect_str_eq(task->code, code);
	cr_expect_str_eq(
	    outcome == OUTCOME(COMPLETED) ? task->result : task->error, text, "%s%s", task->result, task->error);
}

/* ---- Input and output ---- */

Test(exec, details_go_in_and_the_output_is_the_result)
{
	open_stage((struct reeve_worker_options){0}, "[handler t]\nexec = /usr/bin/sha256sum --tag\n");
	expect(run_one("abc"), OUTCOME(COMPLETED), "",
	    "SHA256 (-) = ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\n");
	expect(run_one(""), OUTCOME(COMPLETED), "",
	    "SHA256 (-) = e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\n");
	cr_expect_eq(close_stage(), 0);
}

Test(exec, environment_names_the_task)
{
	int64_t id;

	setenv("FROM_THE_WORKER", "kept", 1);
	setenv("REEVE_KEY", "of the worker", 1);
	open_stage((struct reeve_worker_options){0},
	    "[handler t]\nexec = sh -c 'echo \"$FROM_THE_WORKER $REEVE_TASK_ID $REEVE_TASK_TYPE $REEVE_QUEUE "
	    "[$REEVE_KEY] $REEVE_ATTEMPT $REEVE_TOKEN\"; env | grep -c ^REEVE_KEY='\n");
	id = script_add(&stage.script, "t", "");
	snprintf(stage.script.tasks[id].key, sizeof stage.script.tasks[id].key, "a key");
	stage_go(&stage);
	stage_await(&stage, id);
	expect(&stage.script.tasks[id], OUTCOME(COMPLETED), "", "kept 1 t default [a key] 1 1000001\n1\n");
	cr_expect_eq(close_stage(), 0);
}

Test(exec, there_is_no_shell)
{
	open_stage((struct reeve_worker_options){0},
	    "[handler t]\n# a comment\nexec = printf '%s|' \"$HOME\" a\\ b '' *.c ; true\n");
	expect(run_one("; rm -rf nothing"), OUTCOME(COMPLETED), "", "$HOME|a b||*.c|;|true|");
	cr_expect_eq(close_stage(), 0);
}

Test(exec, runs_in_a_directory_in_a_session_of_its_own_with_nothing_else_open)
{
	const struct script_task *task;
	int session = 0, group = 0, pid = 0;

	open_stage((struct reeve_worker_options){0}, "[handler t]\ndirectory = /usr\n"
	                                             "exec = sh -c 'pwd; ls /proc/self/fd | tr \"\\n\" \" \"; grep "
	                                             "Sig[BI] /proc/self/status | cut -f2 | tr \"\\n\" \" \"; "
	                                             "exec cut -d\" \" -f1,5,6 /proc/self/stat'\n");
	task = run_one("");
	cr_expect_eq(task->outcome, OUTCOME(COMPLETED), "%s", task->error);
	/* ls itself has the directory open, as 4. No signal is blocked or ignored. */
	cr_expect_eq(
	    strncmp(task->result, "/usr\n0 1 2 3 4 0000000000000000 0000000000000000 ", 48), 0, "%s", task->result);
	cr_expect_eq(sscanf(task->result + 49, "%d %d %d", &pid, &group, &session), 3, "%s", task->result);
	cr_expect_eq(pid, group);
	cr_expect_eq(pid, session);
	cr_expect_neq(session, getsid(0));
	cr_expect_eq(close_stage(), 0);
}

Test(exec, standard_input_need_not_be_read)
{
	char *details = malloc(1000001);

	memset(details, 'x', 1000000);
	details[1000000] = '\0';
	open_stage((struct reeve_worker_options){0}, "[handler t]\nexec = echo done\n");
	expect(run_one(details), OUTCOME(COMPLETED), "", "done\n");
	free(details);
	cr_expect_eq(close_stage(), 0);
}

Test(exec, much_goes_both_ways_at_once)
{
	char *details = malloc(1000001);
	const struct script_task *task;

	memset(details, 'x', 1000000);
	details[1000000] = '\0';
	open_stage((struct reeve_worker_options){0}, "[handler t]\nexec = cat\n");
	task = run_one(details);
	cr_expect_eq(task->outcome, OUTCOME(COMPLETED), "%s", task->error);
	cr_expect_str_eq(task->result, details);
	free(details);
	cr_expect_eq(close_stage(), 0);
}

/* ---- Exit codes and signals ---- */

Test(exec, exit_codes)
{
	open_stage((struct reeve_worker_options){0}, "[handler t]\nexec = sh -c 'read line; eval \"$line\"'\n");
	expect(run_one("exit 0\n"), OUTCOME(COMPLETED), "", "");
	expect(run_one("echo bad data >&2; exit 65\n"), OUTCOME(FATAL), "exit:65", "bad data");
	expect(run_one("echo no luck >&2; exit 3\n"), OUTCOME(FAILED), "exit:3", "no luck");
	expect(run_one("exit 3\n"), OUTCOME(FAILED), "exit:3", "exit status 3");
	expect(run_one("kill -9 $$\n"), OUTCOME(FAILED), "signal:9", "ended by signal 9 (Killed)");
	expect(run_one("echo out; echo err >&2; exit 0\n"), OUTCOME(COMPLETED), "", "out\n");
	cr_expect_eq(close_stage(), 0);
}

Test(exec, the_end_of_standard_error_is_the_error)
{
	const struct script_task *task;

	open_stage((struct reeve_worker_options){0}, "[handler t]\nexec = sh -c 'i=0; while [ $i -lt 20000 ]; do echo "
	                                             "\"ä line $i\"; i=$((i+1)); done >&2; printf "
	                                             "\"last \\\\377\" >&2; exit 1'\n");
	task = run_one("");
	cr_expect_eq(task->outcome, OUTCOME(FAILED));
	cr_expect_leq(strlen(task->error), 4096 + 2);
	cr_expect_geq(strlen(task->error), 4000);
	cr_expect(strstr(task->error, "line 19999\nlast \xEF\xBF\xBD"), "%s", task->error);
	cr_expect_eq(close_stage(), 0);
}

Test(exec, output_that_is_too_long_ends_it)
{
	open_stage((struct reeve_worker_options){0}, "[handler t]\nexec = yes\nmax-output = 100KiB\n");
	expect(run_one(""), OUTCOME(FATAL), "output-too-long", "the output is longer than 102400 bytes (max-output)");
	cr_expect_eq(close_stage(), 0);
}

Test(exec, output_of_just_the_length_is_taken)
{
	open_stage((struct reeve_worker_options){0}, "[handler t]\nexec = cat\nmax-output = 5\n");
	expect(run_one("12345"), OUTCOME(COMPLETED), "", "12345");
	expect(run_one("123456"), OUTCOME(FATAL), "output-too-long", "the output is longer than 5 bytes (max-output)");
	cr_expect_eq(close_stage(), 0);
}

Test(exec, output_must_be_text)
{
	open_stage((struct reeve_worker_options){0}, "[handler t]\nexec = sh -c 'read line; printf \"$line\"'\n");
	expect(run_one("a\\\\303b\n"), OUTCOME(FATAL), "result-not-utf8",
	    "the output of 3 bytes is not UTF-8 text without NUL bytes");
	expect(run_one("a\\\\000b\n"), OUTCOME(FATAL), "result-not-utf8",
	    "the output of 3 bytes is not UTF-8 text without NUL bytes");
	expect(run_one("a\\\\303\\\\244b\n"), OUTCOME(COMPLETED), "", "aäb");
	cr_expect_eq(close_stage(), 0);
}

/* The path of the program is relative to the directory in which the worker was started, which is the root here. */
Test(exec, a_program_that_went_away_is_a_failure)
{
	char handlers[400];

	cr_assert_eq(chdir("/"), 0);
	stage_open(&stage, (struct reeve_worker_options){0});
	snprintf(handlers, sizeof handlers, "%s", own("program"));
	cr_assert_eq(symlink("/bin/true", handlers), 0);
	snprintf(handlers, sizeof handlers, "[handler t]\nexec = %s\n", own("program") + 1);
	snprintf(file, sizeof file, "%s", own("handlers.ini"));
	FILE *out = fopen(file, "w");
	fputs(handlers, out);
	fclose(out);
	cr_assert(reeve_worker_handle_file(stage.worker, file));
	expect(run_one(""), OUTCOME(COMPLETED), "", "");
	unlink(own("program"));
	snprintf(handlers, sizeof handlers, "cannot start %s: No such file or directory", own("program"));
	expect(run_one(""), OUTCOME(FAILED), "exec", handlers);
	cr_expect_eq(close_stage(), 0);
}

/* ---- Timeouts and process groups ---- */

/* Writes its own process id and its child's, ignores SIGTERM, and never ends. */
static const char stubborn[] =
    "[handler t]\ndirectory = %s\n"
    "exec = sh -c 'trap \"\" TERM; echo $$ > leader; sleep 1000 & echo $! > child; wait; wait'\n";

static void open_stubborn(struct reeve_worker_options options)
{
	char handlers[600];

	stage_open(&stage, options);
	snprintf(handlers, sizeof handlers, stubborn, stage.script.directory);
	snprintf(file, sizeof file, "%s", own("handlers.ini"));
	FILE *out = fopen(file, "w");
	fputs(handlers, out);
	fclose(out);
	cr_assert(reeve_worker_handle_file(stage.worker, file), "%s", reeve_worker_error(stage.worker));
	stage.script.heartbeat_ms = 30;
}

Test(exec, a_timeout_ends_the_whole_group)
{
	const struct script_task *task;
	pid_t leader, child;
	int64_t id;

	open_stubborn((struct reeve_worker_options){.kill_grace_ms = 150});
	id = script_add(&stage.script, "t", "");
	stage.script.tasks[id].timeout_ms = 300;
	stage_go(&stage);
	leader = read_pid("leader");
	child = read_pid("child");
	stage_await(&stage, id);
	task = &stage.script.tasks[id];
	expect(task, OUTCOME(FAILED), "timeout", "not done after 300 ms");
	cr_expect_geq(task->run_ms, 450);
	cr_expect(gone_soon(leader));
	cr_expect(gone_soon(child));
	cr_expect_eq(close_stage(), 0);
}

Test(exec, sigterm_comes_first)
{
	int64_t id;

	open_stage((struct reeve_worker_options){.kill_grace_ms = 3600 * 1000},
	    "[handler t]\ntimeout = 200ms\nexec = sh -c 'trap \"echo cleaned up >&2; exit 0\" TERM; sleep 1000 & "
	    "wait'\n");
	id = script_add(&stage.script, "t", "");
	stage_go(&stage);
	stage_await(&stage, id);
	/* It exited with 0, but only after SIGTERM. */
	expect(&stage.script.tasks[id], OUTCOME(FAILED), "timeout", "not done after 200 ms: cleaned up");
	cr_expect_eq(close_stage(), 0);
}

Test(exec, the_grace_ends_before_the_attempt_does)
{
	int64_t id;

	open_stubborn((struct reeve_worker_options){.kill_grace_ms = 3600 * 1000});
	id = script_add(&stage.script, "t", "");
	stage.script.tasks[id].timeout_ms = 200;
	stage.script.tasks[id].expires_in_ms = 2000;
	stage_go(&stage);
	stage_await(&stage, id);
	cr_expect_str_eq(stage.script.tasks[id].code, "timeout");
	cr_expect_lt(stage.script.tasks[id].reported_ms - stage.script.tasks[id].given_ms, 2000);
	cr_expect_eq(close_stage(), 0);
}

Test(exec, a_grandchild_that_keeps_the_output_open_does_not_hang_the_slot)
{
	const struct script_task *task;
	pid_t child;

	open_stage((struct reeve_worker_options){0}, "[handler t]\nexec = sh -c 'sleep 1000 & echo $!; exit 0'\n");
	task = run_one("");
	cr_assert_eq(task->outcome, OUTCOME(COMPLETED), "%s", task->error);
	child = atoi(task->result);
	cr_assert_gt(child, 1);
	cr_expect(gone_soon(child));
	cr_expect_lt(task->run_ms, 5000);
	cr_expect_eq(close_stage(), 0);
}

Test(exec, cancel_stops_it)
{
	pid_t leader, child;
	int64_t id;

	open_stubborn((struct reeve_worker_options){.kill_grace_ms = 50});
	id = script_add(&stage.script, "t", "");
	stage_go(&stage);
	leader = read_pid("leader");
	child = read_pid("child");
	script_command(&stage.script, COMMAND(CANCEL), id, 0);
	stage_await(&stage, id);
	expect(&stage.script.tasks[id], OUTCOME(CANCELLED), "cancelled", "cancelled");
	cr_expect(gone_soon(leader));
	cr_expect(gone_soon(child));
	cr_expect_eq(close_stage(), 0);
}

Test(exec, abandon_and_lost_know_no_grace)
{
	pid_t leader, child;
	int64_t id;

	open_stubborn((struct reeve_worker_options){.kill_grace_ms = 3600 * 1000});
	id = script_add(&stage.script, "t", "");
	stage_go(&stage);
	leader = read_pid("leader");
	child = read_pid("child");
	script_command(&stage.script, COMMAND(ABANDON), id, 0);
	cr_assert(script_wait(&stage.script, stage.script.beat.held == 0));
	cr_expect(gone_soon(leader));
	cr_expect(gone_soon(child));
	cr_expect_eq(stage.script.tasks[id].reports, 0);
	unlink(own("leader"));
	id = script_add(&stage.script, "t", "");
	leader = read_pid("leader");
	stage.script.lost = true;
	stage_await(&stage, id);
	cr_expect_eq(stage.script.tasks[id].outcome, OUTCOME(LEASE_ENDED));
	cr_expect(gone_soon(leader));
	cr_assert(script_wait(&stage.script, stage.script.registers == 2));
	cr_expect_eq(close_stage(), 0);
}

Test(exec, a_drain_lets_it_finish_or_returns_it)
{
	pid_t leader, child;

	open_stubborn((struct reeve_worker_options){.kill_grace_ms = 50, .drain_timeout_ms = 200});
	script_add(&stage.script, "t", "");
	stage_go(&stage);
	leader = read_pid("leader");
	child = read_pid("child");
	reeve_worker_stop(stage.worker);
	usleep(100 * 1000);
	cr_expect_not(is_gone(leader));
	cr_expect_eq(stage_join(&stage), 0);
	cr_expect_eq(stage.script.tasks[1].outcome, OUTCOME(RETURNED));
	cr_expect(gone_soon(leader));
	cr_expect(gone_soon(child));
	cr_expect_eq(close_stage(), 0);
}

Test(exec, many_at_once, .timeout = 120)
{
	enum { COUNT = 300 };

	open_stage((struct reeve_worker_options){.concurrency = 30, .prefetch = 30}, "[handler t]\nexec = cat\n");
	for (int i = 0; i < COUNT; i++) {
		char details[32];

		snprintf(details, sizeof details, "task %d", i + 1);
		script_add(&stage.script, "t", details);
	}
	stage_go(&stage);
	cr_assert(script_wait(&stage.script, stage.script.n_done == COUNT));
	for (int id = 1; id <= COUNT; id++)
		cr_assert_str_eq(stage.script.tasks[id].result, stage.script.tasks[id].details);
	cr_expect_eq(close_stage(), 0);
}

/* ---- Descriptor 3 ---- */

Test(exec, it_may_ask_for_more_time)
{
	const struct script_task *task;

	open_stage((struct reeve_worker_options){0}, "[handler t]\ntimeout = 500ms\nexec = sh -c 'for i in 1 2 3 4; do "
	                                             "echo \"{\\\"extend\\\": \\\"600ms\\\"}\" >&3; "
	                                             "sleep 0.3; done; echo done'\n");
	stage.script.extend_max_ms = 60 * 1000;
	task = run_one("");
	expect(task, OUTCOME(COMPLETED), "", "done\n");
	cr_expect_geq(task->run_ms, 1200);
	cr_expect_eq(stage.script.extends, 4);
	cr_expect_eq(close_stage(), 0);
}

Test(exec, more_time_is_no_more_than_was_granted)
{
	const struct script_task *task;

	open_stage((struct reeve_worker_options){0},
	    "[handler t]\ntimeout = 300ms\nexec = sh -c 'echo \"{\\\"extend\\\": 3600}\" >&3; exec sleep 1000'\n");
	stage.script.extend_max_ms = 700;
	task = run_one("");
	cr_expect_eq(task->outcome, OUTCOME(FAILED));
	cr_expect_str_eq(task->code, "timeout");
	cr_expect_geq(task->run_ms, 700);
	cr_expect_lt(task->run_ms, 3000);
	/* The error has the total time. */
	cr_expect(atoi(task->error + strlen("not done after ")) >= 700, "%s", task->error);
	cr_expect_eq(close_stage(), 0);
}

Test(exec, while_it_asks_for_more_its_time_is_not_over)
{
	open_stage((struct reeve_worker_options){0},
	    "[handler t]\ntimeout = 300ms\nexec = sh -c 'echo \"{\\\"extend\\\": 5}\" >&3; sleep 1; echo done'\n");
	stage.script.extend_max_ms = 5000;
	stage.script.extend_delay_ms = 600;
	expect(run_one(""), OUTCOME(COMPLETED), "", "done\n");
	cr_expect_eq(close_stage(), 0);
}

Test(exec, when_more_time_is_refused_its_own_is_left)
{
	open_stage((struct reeve_worker_options){0}, "[handler t]\ntimeout = 400ms\nexec = sh -c 'echo "
	                                             "\"{\\\"extend\\\": \\\"1h\\\"}\" >&3; exec sleep 1000'\n");
	stage.script.extend_max_ms = 0;
	expect(run_one(""), OUTCOME(FAILED), "timeout", "not done after 400 ms");
	cr_expect_eq(stage.script.extends, 1);
	cr_expect_eq(close_stage(), 0);
}

/* Opens a fixture in which the details are a script. Its function `say` sends an object, written with ' for ". */
static void open_shell(void)
{
	open_stage((struct reeve_worker_options){0}, "[handler t]\nexec = bash\n");
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

Test(exec, a_directive_goes_before_the_exit_code)
{
	static const struct {
		const char *script;
		Reeve__V1__Outcome outcome;
		const char *code, *text;
	} cases[] = {
	    {"say \"{'directive': 'SUCCESS'}\"; echo done; exit 1", OUTCOME(COMPLETED), "", "done\n"},
	    {"say \"{'directive': 'SUCCESS'}\"; exit 65", OUTCOME(COMPLETED), "", ""},
	    {"say \"{'directive': 'RETRY'}\"", OUTCOME(FAILED), "directive:RETRY", "the program says RETRY"},
	    {"say \"{'directive': 'RETRY'}\"; echo why >&2; exit 65", OUTCOME(FAILED), "exit:65", "why"},
	    {"say \"{'directive': 'NO_RETRY'}\"", OUTCOME(FATAL), "directive:NO_RETRY", "the program says NO_RETRY"},
	    {"say \"{'directive': 'NO_RETRY'}\"; exit 3", OUTCOME(FATAL), "exit:3", "exit status 3"},
	    {"say \"{'directive': 'NO_RETRY'}\"; kill -9 $$", OUTCOME(FATAL), "signal:9", "ended by signal 9 (Killed)"},
	    /* It was killed after it had sent SUCCESS. */
	    {"say \"{'directive': 'SUCCESS'}\"; kill -9 $$", OUTCOME(FAILED), "signal:9", "ended by signal 9 (Killed)"},
	    /* The last directive counts; a null directive and a message without a directive do not change it. */
	    {"say \"{'directive': 'NO_RETRY'}\"; say \"{'directive': 'SUCCESS'}\"; say \"{'directive': null, 'new': [1]}\"; "
	     "exit 1",
	        OUTCOME(COMPLETED), "", ""},
	};

	open_shell();
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		expect(run_script(cases[i].script), cases[i].outcome, cases[i].code, cases[i].text);
	cr_expect_eq(close_stage(), 0);
}

Test(exec, it_says_more_of_a_failure)
{
	const struct script_task *task;

	open_shell();
	task = run_script("echo noise >&2; say \"{'remark': 'page 3', 'error': 'busy', 'error_code': '503', "
	                  "'stack': 'at x\\nat y', 'retry_in': '10m'}\"; exit 3");
	expect(task, OUTCOME(FAILED), "503", "busy");
	expect_beside(task, "page 3", "at x\nat y", 600000);
	/* In several messages. The stack is the standard error. */
	task = run_script("echo one >&2; echo two >&2; say \"{'remark': 'a', 'retry_in': 1.5}\"; say \"{'remark': 'b'}\"; exit 3");
	expect(task, OUTCOME(FAILED), "exit:3", "one\ntwo");
	expect_beside(task, "b", "one\ntwo", 1500);
	/* 0 means a retry at once, which is sent as 1 ms because 0 would mean that it is not set. A fatal failure is not
	 * retried. */
	expect_beside(run_script("say \"{'retry_in': 0}\"; exit 3"), "", "", 1);
	task = run_script("say \"{'retry_in': 7}\"; exit 65");
	expect(task, OUTCOME(FATAL), "exit:65", "exit status 65");
	expect_beside(task, "", "", 0);
	/* A task that completes keeps only its remark. */
	task = run_script("echo noise >&2; say \"{'remark': 'well', 'error': 'x', 'stack': 'y', 'retry_in': 5}\"; echo done");
	expect(task, OUTCOME(COMPLETED), "", "done\n");
	expect_beside(task, "well", "", 0);
	cr_expect_eq(close_stage(), 0);
}

Test(exec, the_stack_is_the_end_of_standard_error)
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
	cr_expect_eq(close_stage(), 0);
}

Test(exec, what_was_said_before_a_timeout_is_kept)
{
	const struct script_task *task;

	open_stage((struct reeve_worker_options){0}, "[handler t]\nexec = bash\ntimeout = 400ms\n");
	task = run_script("say \"{'remark': 'so far', 'directive': 'SUCCESS'}\"; echo slow >&2; exec sleep 1000");
	expect(task, OUTCOME(FAILED), "timeout", "not done after 400 ms: slow");
	expect_beside(task, "so far", "slow", 0);
	cr_expect_eq(close_stage(), 0);
}

Test(exec, what_is_wrong_on_descriptor_3_is_no_success)
{
	static const struct {
		const char *said, *problem;
	} cases[] = {
	    {"all is well", "descriptor 3: not a JSON object: all is well"},
	    {"{", "descriptor 3: a JSON object without its end: { "},
	    {"{'directive': 'RETRI'}",
	        "descriptor 3: directive must be SUCCESS, RETRY or NO_RETRY: {\"directive\": \"RETRI\"}"},
	    {"{'directive': 1}", "descriptor 3: directive must be SUCCESS, RETRY or NO_RETRY: {\"directive\": 1}"},
	    {"{'remark': 1}", "descriptor 3: remark must be a string: {\"remark\": 1}"},
	    {"{'error_code': 'a\\tb'}",
	        "descriptor 3: error_code holds a control character: {\"error_code\": \"a\\tb\"}"},
	    {"{'retry_in': 'soon'}", "descriptor 3: retry_in must be a duration (\"90s\", \"10m\", or a number of seconds) of at "
	                             "most 365 days: {\"retry_in\": \"soon\"}"},
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
	expect(run_script("say \"{'directive': 'NO'}\"; echo why >&2; exit 3"), OUTCOME(FAILED), "exit:3",
	    "why (and descriptor 3: directive must be SUCCESS, RETRY or NO_RETRY: {\"directive\": \"NO\"})");
	/* The valid fields of an invalid message count. */
	expect(run_script("say \"{'directive': 'NO_RETRY', 'remark': 1, 'error': 'e'}\""), OUTCOME(FATAL), "directive:NO_RETRY",
	    "e (and descriptor 3: remark must be a string: {\"directive\": \"NO_RETRY\", \"remark\": 1, \"error\": \"e\"})");
	cr_expect_eq(close_stage(), 0);
}

Test(exec, whatever_it_writes_to_descriptor_3_the_worker_does_not_suffer)
{
	open_stage((struct reeve_worker_options){0},
	    "[handler t]\nexec = sh -c 'head -c 3000000 /dev/zero >&3; yes no JSON | head -n 100000 >&3; "
	    "yes { | head -n 100000 >&3; echo \"{\\\"extend\\\": \\\"soon\\\", \\\"new\\\": 1}\" >&3; exec 3>&-; echo done'\n"
	    "[handler child]\nexec = sh -c 'setsid sleep 1000 <&- >&- 2>&- & echo $!'\n");
	cr_expect_str_eq(run_one("")->code, "bad_message");
	cr_expect_eq(stage.script.extends, 0);
	/* A child that keeps the descriptor open does not delay the result. */
	int64_t id = script_add(&stage.script, "child", "");
	stage_await(&stage, id);
	cr_expect_eq(stage.script.tasks[id].outcome, OUTCOME(COMPLETED));
	kill(atoi(stage.script.tasks[id].result), SIGKILL);
	cr_expect_eq(close_stage(), 0);
}

/* ---- Death of the supervisor ---- */

/* Returns the process id of the supervisor, which is the parent of a handler. */
static pid_t parent_of(pid_t pid)
{
	return process_parent(pid);
}

Test(exec, the_supervisors_death_is_the_workers_end)
{
	pid_t leader, child, supervisor;

	/* One task runs and one waits. */
	open_stubborn((struct reeve_worker_options){.concurrency = 1, .prefetch = 1});
	script_add(&stage.script, "t", "");
	script_add(&stage.script, "t", "");
	stage_go(&stage);
	leader = read_pid("leader");
	child = read_pid("child");
	cr_assert(script_wait(&stage.script, stage.script.beat.held == 2));
	supervisor = parent_of(leader);
	cr_assert_neq(supervisor, getpid());
	kill(supervisor, SIGKILL);
	cr_expect_eq(stage_join(&stage), 1);
	cr_expect(gone_soon(leader));
	cr_expect(gone_soon(child));
	/* The handler may have caused it, so the attempt has failed. */
	expect(&stage.script.tasks[1], OUTCOME(FAILED), "supervisor",
	    "the worker's supervisor process has died, and this with it");
	cr_expect_eq(stage.script.tasks[2].outcome, OUTCOME(RETURNED)); /* it had not begun */
	cr_expect_str_eq(
	    reeve_worker_error(stage.worker), "the supervisor process has died, and every exec handler with it");
	close_stage();
}

Test(exec, a_program_that_kills_the_supervisor_has_failed)
{
	open_stage((struct reeve_worker_options){0}, "[handler t]\nexec = sh -c 'kill -9 $PPID; sleep 1000'\n");
	script_add(&stage.script, "t", "");
	stage_go(&stage);
	cr_expect_eq(stage_join(&stage), 1);
	expect(&stage.script.tasks[1], OUTCOME(FAILED), "supervisor",
	    "the worker's supervisor process has died, and this with it");
	close_stage();
}

Test(exec, the_workers_death_is_the_handlers_end)
{
	char handlers[600];
	pid_t worker, leader, child;

	script_init(&stage.script);
	snprintf(handlers, sizeof handlers, stubborn, stage.script.directory);
	snprintf(file, sizeof file, "%s", own("handlers.ini"));
	FILE *out = fopen(file, "w");
	fputs(handlers, out);
	fclose(out);
	worker = start_program((const char *[]){"--manager", stage.script.url, "--handlers", file, NULL}, NULL);
	script_start(&stage.script);
	script_add(&stage.script, "t", "");
	leader = read_pid("leader");
	child = read_pid("child");
	kill(worker, SIGKILL);
	cr_expect(gone_soon(leader));
	cr_expect(gone_soon(child));
	waitpid(worker, NULL, 0);
	unlink(own("leader"));
	unlink(own("child"));
	unlink(file);
	script_free(&stage.script);
}

Test(exec, a_worker_without_a_supervisor_refuses_programs)
{
	struct reeve_worker *worker = reeve_worker_create(&(struct reeve_worker_options){.no_supervisor = true});
	char path[] = "/tmp/reeve-handlers-XXXXXX";
	int fd = mkstemp(path);

	cr_assert_eq(write(fd, "[handler t]\nexec = true\n", 24), 24);
	close(fd);
	cr_assert(reeve_worker_handle_file(worker, path));
	cr_expect_eq(reeve_worker_run(worker), 2);
	cr_expect_str_eq(
	    reeve_worker_error(worker), "the handler of type t starts processes, but the worker has no supervisor");
	reeve_worker_destroy(worker);
	unlink(path);
}
