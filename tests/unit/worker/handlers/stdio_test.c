/* Children that run one task after another: real processes, started by the real supervisor. */
#include "exec_fixture.h"

#include <signal.h>
#include <sys/stat.h>

/* A child in Python that executes a task's details. `say` writes a line with the task's id. */
static const char program[] = "import json, os, sys, time\n"
                              "def write(text):\n"
                              "    sys.stdout.write(text)\n"
                              "    sys.stdout.flush()\n"
                              "for line in sys.stdin:\n"
                              "    task = json.loads(line)\n"
                              "    def say(**members):\n"
                              "        write(json.dumps({'id': task['id'], **members}) + '\\n')\n"
                              "    exec(task['details'])\n"
                              "open('ended', 'a').write('x')\n";

static void write_file(const char *name, const char *text)
{
	FILE *out = fopen(own(name), "w");

	cr_assert(out);
	fputs(text, out);
	fclose(out);
}

static void write_handlers(const char *more)
{
	char handlers[600];

	snprintf(handlers, sizeof handlers, "[handler t]\nstdio = /usr/bin/python3 -I -S child.py\ndirectory = %s\n%s",
	    fixture.script.directory, more);
	write_file("handlers.ini", handlers);
}

static void open_children(struct reeve_worker_options options, const char *more)
{
	fixture_open(&fixture, options);
	write_file("child.py", program);
	write_handlers(more);
	snprintf(file, sizeof file, "%s", own("handlers.ini"));
	cr_assert(reeve_worker_handle_file(fixture.worker, file), "%s", reeve_worker_error(fixture.worker));
	fixture.script.heartbeat_ms = 30;
}

/* Runs a task that returns the child's process id. */
static pid_t child_of_next(void)
{
	const struct script_task *task = run_one("say(result=os.getpid())");

	cr_assert_eq(task->outcome, OUTCOME(COMPLETED), "%s", task->error);
	return (pid_t)atoi(task->result);
}

/* Runs a task with a timeout. */
static const struct script_task *run_limited(const char *details, int64_t timeout_ms)
{
	int64_t id;

	script_lock(&fixture.script);
	fixture.script.paused = true;
	script_unlock(&fixture.script);
	id = script_add(&fixture.script, "t", details);
	script_lock(&fixture.script);
	fixture.script.tasks[id].timeout_ms = timeout_ms;
	fixture.script.paused = false;
	script_unlock(&fixture.script);
	fixture_await(&fixture, id);
	return &fixture.script.tasks[id];
}

/* Expects that the child has been ended, and that another one does the next task. */
static void expect_replaced(pid_t child)
{
	cr_expect(gone_soon(child));
	cr_expect_neq(child_of_next(), child);
}

#define ONE ((struct reeve_worker_options){.concurrency = 1})

/* ---- Answers ---- */

Test(stdio, a_child_runs_one_task_after_another)
{
	pid_t child;

	open_children(ONE, "");
	expect(run_one("say(result=task['type'] + ' ' + task['queue'])"), OUTCOME(COMPLETED), "", "t default");
	child = child_of_next();
	cr_expect_eq(child_of_next(), child);
	expect(run_one("say(result={'a': [1, None]})"), OUTCOME(COMPLETED), "", "{\"a\":[1,null]}");
	expect(run_one("say(result=0.1)"), OUTCOME(COMPLETED), "", "0.1");
	expect(run_one("say(result=[19.99, 10 ** 20], log='x')"), OUTCOME(COMPLETED), "", "[19.99,100000000000000000000]");
	expect(run_one("say(result=None)"), OUTCOME(COMPLETED), "", "");
	expect(run_one("say(directive='SUCCESS')"), OUTCOME(COMPLETED), "", "");
	expect(run_one("say(result='\\u00e4 \\\\ \" \\n')"), OUTCOME(COMPLETED), "", "\xC3\xA4 \\ \" \n");
	expect(run_one("write('\\n \\n'); say(result=1); write('\\n')"), OUTCOME(COMPLETED), "", "1");
	cr_expect_eq(child_of_next(), child);
	cr_expect_eq(exec_close(), 0);
	cr_expect(gone_soon(child));
}

Test(stdio, the_line_has_the_task)
{
	const struct script_task *task;
	int64_t id;

	open_children(ONE, "");
	id = script_add(&fixture.script, "t",
	    "say(result=[task['task_id'], task['key'], task['attempt'], task['token'], task['id'], task['stage'], "
	    "sorted(os.listdir('/proc/self/fd'))[:3], [k for k in os.environ if 'TOKEN' in k or 'TASK' in k or k == 'REEVE_MANAGER'], len(task)])");
	snprintf(fixture.script.tasks[id].key, sizeof fixture.script.tasks[id].key, "a \"key\"");
	setenv("REEVE_ACCESS_TOKEN", "secret", 1);
	fixture_go(&fixture);
	fixture_await(&fixture, id);
	task = &fixture.script.tasks[id];
	expect(task, OUTCOME(COMPLETED), "",
	    "[1,\"a \\\"key\\\"\",1,1000001,\"1-1000001\",\"\",[\"0\",\"1\",\"2\"],[\"REEVE_MANAGER\"],12]");
	cr_expect_eq(exec_close(), 0);
}

Test(stdio, much_goes_both_ways)
{
	char *details = malloc(900001);
	const struct script_task *task;

	strcpy(details, "say(result=task['details'])#");
	memset(details + strlen(details), 'x', 900000 - strlen(details));
	details[900000] = '\0';
	open_children(ONE, "");
	task = run_one(details);
	cr_expect_eq(task->outcome, OUTCOME(COMPLETED), "%s", task->error);
	cr_expect_str_eq(task->result, details);
	free(details);
	cr_expect_eq(exec_close(), 0);
}

Test(stdio, errors)
{
	const struct script_task *task;
	pid_t child;

	open_children(ONE, "");
	child = child_of_next();
	expect(run_one("say(error='busy')"), OUTCOME(FAILED), "error", "busy");
	task = run_one("say(error='busy', error_code='503', retry_in='10m', stack_trace='at main', remark='soon')");
	expect(task, OUTCOME(FAILED), "503", "busy");
	cr_expect_eq(task->retry_in_ms, 600000);
	cr_expect_str_eq(task->stack, "at main");
	cr_expect_str_eq(task->remark, "soon");
	expect(run_one("say(error='no such page', directive='NO_RETRY')"), OUTCOME(FATAL), "error", "no such page");
	expect(run_one("say(directive='NO_RETRY | no such page')"), OUTCOME(FATAL), "directive:NO_RETRY", "no such page");
	cr_expect_eq(run_one("say(directive='SKIP | no printer')")->outcome, OUTCOME(RETURNED));
	cr_expect_eq(child_of_next(), child);
	cr_expect_eq(exec_close(), 0);
}

Test(stdio, progress_and_log_lines)
{
	const struct script_task *task;
	char goes_on[] = "/tmp/reeve-stdio-XXXXXX", details[300];
	int64_t id;
	int fd = mkstemp(goes_on); /* the handler ends when it is gone */

	cr_assert_geq(fd, 0);
	close(fd);
	open_children(ONE, "");
	snprintf(details, sizeof details,
	    "say(progress=40, message='page 2 of 5'); say(log='opened')\n"
	    "while os.path.exists('%s'): time.sleep(0.01)\n"
	    "say(progress=99.5); say(log='closed'); say(error='lost')",
	    goes_on);
	id = script_add(&fixture.script, "t", details);
	fixture_go(&fixture);
	cr_expect(script_wait(
	    &fixture.script, fixture.script.tasks[id].seen && !strcmp(fixture.script.tasks[id].seen, "page 2 of 5")));
	unlink(goes_on);
	fixture_await(&fixture, id);
	task = &fixture.script.tasks[id];
	expect(task, OUTCOME(FAILED), "error", "lost");
	cr_expect_str_eq(task->remark, "page 2 of 5");
	cr_expect_eq(task->progress, 99.5);
	cr_expect_str_eq(task->logged, "opened\nclosed\n");
	cr_expect_str_eq(task->stack, "");
	/* The next task begins without what is left of this one. */
	task = run_one("print('noise', file=sys.stderr, flush=True); say(log='x' * 100000); say(error='lost')");
	cr_expect_str_eq(task->remark, "");
	cr_expect_eq(strlen(task->logged), 4097, "cut, with the newline");
	cr_expect_eq(exec_close(), 0);
}

/* ---- What is no answer ---- */

static void expect_broken(const char *details, const char *error)
{
	pid_t child = child_of_next();

	expect(run_one(details), OUTCOME(FAILED), "bad_message", error);
	expect_replaced(child);
}

Test(stdio, what_is_not_the_tasks_line)
{
	open_children(ONE, "");
	expect_broken("write('hello\\n'); time.sleep(60)", "standard output: not a JSON object in one line: hello");
	expect_broken("write('\\0\\xff\\n'); time.sleep(60)", "standard output: not a JSON object in one line: \uFFFDÿ");
	expect_broken("write('[1]\\n'); time.sleep(60)", "standard output: not a JSON object in one line: [1]");
	expect_broken("write('{\\n'); say(result=1); time.sleep(60)", "standard output: not a JSON object in one line: {");
	expect_broken("write('{\"result\": 1}\\n'); time.sleep(60)",
	    "standard output: a line without the id of its task: {\"result\": 1}");
	expect_broken(
	    "write('{\"id\": 7}\\n'); time.sleep(60)", "standard output: a line without the id of its task: {\"id\": 7}");
	expect_broken("task['id'] = '1-2'; say(result=1); time.sleep(60)",
	    "standard output: a line with the id of another task: {\"id\": \"1-2\", \"result\": 1}");
	expect_broken("write('[\"\\\\u0000\"]\\n'); time.sleep(60)",
	    "standard output: a text with a NUL (use result_base64): [\"\\u0000\"]");
	expect_broken("write('[99999999999999999999]\\n'); time.sleep(60)",
	    "standard output: a number that is too large (use a string): [99999999999999999999]");
	expect_broken("os.close(1); time.sleep(60)", "the child closed its standard output before its answer");
	cr_expect_eq(exec_close(), 0);
}

/* The line is the task's, but what it reports is unknown: as for exec, a person must look. */
Test(stdio, answers_that_are_invalid_are_not_retried)
{
	pid_t child;

	open_children(ONE, "");
	child = child_of_next();
	cr_expect_eq(run_one("say(result=1, error='x')")->outcome, OUTCOME(FATAL));
	expect(run_one("say(result=1, directive='RETRY')"), OUTCOME(FATAL), "bad_message",
	    "standard output: an answer cannot have both a result and an error: "
	    "{\"id\": \"3-1000003\", \"result\": 1, \"directive\": \"RETRY\"}");
	cr_expect_str_eq(run_one("say(directive='STOP')")->code, "bad_message");
	cr_expect_str_eq(run_one("say(progress=101); say(result=1)")->code, "bad_message");
	cr_expect_str_eq(run_one("say(log=1); say(result=1)")->code, "bad_message");
	cr_expect_eq(child_of_next(), child);
	cr_expect_eq(exec_close(), 0);
}

Test(stdio, a_line_without_an_end_is_bounded)
{
	pid_t child;

	open_children(ONE, "max-output = 100KiB\n");
	child = child_of_next();
	expect(run_one("while True: write('x' * 65536)"), OUTCOME(FATAL), "output-too-long",
	    "the output is longer than 102400 bytes (max-output)");
	expect_replaced(child);
	expect(run_one("say(result='x' * 102400)"), OUTCOME(FATAL), "output-too-long",
	    "the output is longer than 102400 bytes (max-output)");
	/* Short lines may be many. */
	expect(run_one("for i in range(10000): say(progress=i / 100)\nsay(result='done')"), OUTCOME(COMPLETED), "", "done");
	cr_expect_eq(exec_close(), 0);
}

Test(stdio, half_a_line)
{
	open_children(ONE, "");
	expect(run_one("write('{\"id\": '); os._exit(0)"), OUTCOME(FAILED), "exit:0",
	    "the child ended before its answer: exit status 0 (and standard output: a line without its end: {\"id\": )");
	child_of_next();
	expect(run_limited("write('{\"id\": '); time.sleep(60)", 2000), OUTCOME(FAILED), "timeout",
	    "not done after 2000 ms: standard output: a line without its end: {\"id\": ");
	cr_expect_eq(exec_close(), 0);
}

Test(stdio, a_child_that_says_nothing_is_killed_with_its_own_children)
{
	const struct script_task *task;
	pid_t child, grandchild;

	open_children((struct reeve_worker_options){.concurrency = 1, .kill_grace_ms = 100}, "");
	run_one("import signal, subprocess; signal.signal(signal.SIGTERM, signal.SIG_IGN); say(result=1)");
	task = run_limited(
	    "open('child', 'w').write(f'{os.getpid()}\\n');"
	    "open('grandchild', 'w').write(f'{subprocess.Popen([\"sleep\", \"1000\"]).pid}\\n'); time.sleep(60)",
	    500);
	child = read_pid("child");
	grandchild = read_pid("grandchild");
	expect(task, OUTCOME(FAILED), "timeout", "not done after 500 ms");
	cr_expect(is_gone(child));
	cr_expect(gone_soon(grandchild));
	expect_replaced(child);
	cr_expect_eq(exec_close(), 0);
}

/* What comes without a task harms none: not the one before, and not the next. */
Test(stdio, output_without_a_task_ends_the_child)
{
	pid_t child;

	open_children(ONE, "");
	child = child_of_next();
	expect(run_one("write(json.dumps({'id': task['id'], 'result': 1}) + '\\n{\"id\"')"), OUTCOME(COMPLETED), "", "1");
	expect_replaced(child);
	child = child_of_next();
	expect(run_one("say(result=1)\nwhile not os.path.exists('now'): time.sleep(0.01)\n"
	               "write('late\\n'); open('late', 'w').write('1\\n')"),
	    OUTCOME(COMPLETED), "", "1");
	write_file("now", "");
	read_pid("late");
	cr_expect_neq(child_of_next(), child); /* this finds the line */
	cr_expect(gone_soon(child));
	cr_expect_eq(exec_close(), 0);
}

/* ---- Death ---- */

Test(stdio, a_child_that_dies_fails_its_task)
{
	const struct script_task *task;

	open_children(ONE, "");
	expect(run_one("os._exit(3)"), OUTCOME(FAILED), "exit:3", "the child ended before its answer: exit status 3");
	task = run_one("print('no luck', file=sys.stderr, flush=True); os.kill(os.getpid(), 9)");
	expect(task, OUTCOME(FAILED), "signal:9", "the child ended before its answer: signal 9 (Killed)\nno luck");
	cr_expect_str_eq(task->stack, "no luck");
	cr_expect_gt(child_of_next(), 1);
	/* An answer before its death counts. */
	expect(run_one("say(result=1); os._exit(3)"), OUTCOME(COMPLETED), "", "1");
	cr_expect_gt(child_of_next(), 1);
	cr_expect_eq(exec_close(), 0);
}

Test(stdio, a_child_may_end_after_an_answer)
{
	open_children(ONE, "");
	for (int i = 0; i < 20; i++)
		expect(run_one(i % 2 ? "say(result=1); os._exit(0)" : "say(result=1); os.close(0); os.close(1)"),
		    OUTCOME(COMPLETED), "", "1");
	cr_expect_eq(exec_close(), 0);
}

Test(stdio, children_that_keep_dying_are_started_less_often)
{
	int64_t began_ms;

	open_children(ONE, "");
	for (int i = 0; i < 5; i++)
		script_add(&fixture.script, "t", "os._exit(1)");
	began_ms = clock_monotonic_ms();
	fixture_go(&fixture);
	fixture_await(&fixture, 5);
	/* Pauses of 100, 200 and 400 ms, less up to a quarter: after the second, third and fourth death. */
	cr_expect_geq(clock_monotonic_ms() - began_ms, 75 + 150 + 300);
	cr_expect_gt(child_of_next(), 1); /* after another pause */
	began_ms = clock_monotonic_ms();
	cr_expect_gt(child_of_next(), 1);
	cr_expect_lt(clock_monotonic_ms() - began_ms, 600);
	cr_expect_eq(exec_close(), 0);
}

Test(stdio, a_program_that_cannot_do_its_work)
{
	const struct script_task *task;

	open_children(ONE, "");
	unlink(own("child.py"));
	task = run_one("");
	cr_expect_str_eq(task->code, "exit:2");
	cr_expect(
	    strstr(task->error, "the child ended before its answer: exit status 2\n/usr/bin/python3: can't open file"),
	    "%s", task->error);
	cr_expect_eq(exec_close(), 0);
}

/* ---- Several children, and their end ---- */

Test(stdio, each_slot_can_have_a_child)
{
	int64_t ids[2];

	open_children((struct reeve_worker_options){.concurrency = 2}, "");
	for (int i = 0; i < 2; i++)
		ids[i] = script_add(&fixture.script, "t",
		    "open(f'begun{task[\"task_id\"]}', 'w');\n"
		    "while not (os.path.exists('begun1') and os.path.exists('begun2')): time.sleep(0.01)\n"
		    "say(result=os.getpid())");
	fixture_go(&fixture);
	fixture_await(&fixture, ids[0]);
	fixture_await(&fixture, ids[1]);
	cr_expect_str_neq(fixture.script.tasks[ids[0]].result, fixture.script.tasks[ids[1]].result);
	cr_expect_eq(exec_close(), 0);
}

Test(stdio, fewer_children_than_slots)
{
	open_children((struct reeve_worker_options){.concurrency = 4}, "children = 1\n");
	for (int i = 0; i < 6; i++)
		script_add(&fixture.script, "t", "time.sleep(0.05); say(result=os.getpid())");
	fixture_go(&fixture);
	cr_assert(script_wait(&fixture.script, fixture.script.n_done == 6));
	for (int id = 2; id <= 6; id++)
		cr_expect_str_eq(fixture.script.tasks[id].result, fixture.script.tasks[1].result);
	cr_expect_eq(exec_close(), 0);
}

Test(stdio, a_reload_ends_old_children_when_they_are_idle)
{
	pid_t child;
	int64_t id;

	open_children(ONE, "");
	child = child_of_next();
	id = script_add(&fixture.script, "t",
	    "open('running', 'w').write('1\\n')\nwhile not os.path.exists('go'): time.sleep(0.01)\n"
	    "say(result=os.getpid())");
	read_pid("running");
	write_handlers("timeout = 1h\n");
	reeve_worker_reload(fixture.worker);
	usleep(100 * 1000);
	write_file("go", "");
	fixture_await(&fixture, id);
	cr_expect_eq(atoi(fixture.script.tasks[id].result), child);
	expect_replaced(child);
	cr_expect_eq(access(own("ended"), F_OK), 0, "it had no time to end");
	cr_expect_eq(exec_close(), 0);
}

Test(stdio, a_child_that_does_not_end_is_killed)
{
	pid_t child;

	open_children((struct reeve_worker_options){.concurrency = 1, .kill_grace_ms = 300}, "");
	child = child_of_next();
	expect(run_one("say(result=1); time.sleep(1000)"), OUTCOME(COMPLETED), "", "1");
	reeve_worker_stop(fixture.worker);
	cr_expect_eq(fixture_join(&fixture), 0);
	cr_expect_not(is_gone(child));
	cr_expect_eq(exec_close(), 0);
	cr_expect(is_gone(child));
}

Test(stdio, cancel_kills_the_child)
{
	pid_t child;
	int64_t id;

	open_children(ONE, "");
	id = script_add(&fixture.script, "t", "open('child', 'w').write(f'{os.getpid()}\\n'); time.sleep(60)");
	fixture_go(&fixture);
	child = read_pid("child");
	script_command(&fixture.script, COMMAND(CANCEL), id, 0);
	fixture_await(&fixture, id);
	expect(&fixture.script.tasks[id], OUTCOME(CANCELLED), "cancelled", "cancelled");
	cr_expect(is_gone(child));
	expect_replaced(child);
	cr_expect_eq(exec_close(), 0);
}

/* An answer that comes after the order to stop counts for nothing. */
Test(stdio, an_answer_after_the_timeout_does_not_count)
{
	open_children(ONE, "");
	child_of_next();
	expect(run_limited("import signal\ndef late(*_):\n    say(result=1)\n    os._exit(0)\n"
	                   "signal.signal(signal.SIGTERM, late)\ntime.sleep(60)",
	           300),
	    OUTCOME(FAILED), "timeout", "not done after 300 ms");
	cr_expect_eq(exec_close(), 0);
}

Test(stdio, the_supervisors_death_is_the_workers_end)
{
	pid_t child, supervisor;
	int64_t id;

	open_children((struct reeve_worker_options){.concurrency = 2}, "");
	child = child_of_next();
	supervisor = process_parent(child);
	id = script_add(&fixture.script, "t", "open('begun', 'w').write('1\\n'); time.sleep(60)");
	read_pid("begun");
	kill(supervisor, SIGKILL);
	cr_expect_eq(fixture_join(&fixture), 1);
	expect(&fixture.script.tasks[id], OUTCOME(FAILED), "supervisor",
	    "the worker's supervisor process has died, and this with it");
	cr_expect(gone_soon(child));
	exec_close();
}
