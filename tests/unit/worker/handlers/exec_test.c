/* Programs as handlers: real processes, started by the real supervisor. */
#include "../program.h"
#include "exec_fixture.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/wait.h>

/* ---- Input and output ---- */

Test(exec, details_go_in_and_the_output_is_the_result)
{
	exec_open((struct reeve_worker_options){0}, "[handler t]\nexec = /usr/bin/sha256sum --tag\n");
	expect(run_one("abc"), OUTCOME(COMPLETED), "",
	    "SHA256 (-) = ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\n");
	expect(run_one(""), OUTCOME(COMPLETED), "",
	    "SHA256 (-) = e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\n");
	cr_expect_eq(exec_close(), 0);
}

Test(exec, environment_names_the_task)
{
	int64_t id;

	setenv("FROM_THE_WORKER", "kept", 1);
	setenv("REEVE_KEY", "of the worker", 1);
	exec_open((struct reeve_worker_options){0},
	    "[handler t]\nexec = sh -c 'echo \"$FROM_THE_WORKER $REEVE_TASK_ID $REEVE_TASK_TYPE $REEVE_QUEUE "
	    "[$REEVE_KEY] $REEVE_ATTEMPT $REEVE_TOKEN\"; env | grep -c ^REEVE_KEY='\n");
	id = script_add(&fixture.script, "t", "");
	snprintf(fixture.script.tasks[id].key, sizeof fixture.script.tasks[id].key, "a key");
	fixture_go(&fixture);
	fixture_await(&fixture, id);
	expect(&fixture.script.tasks[id], OUTCOME(COMPLETED), "", "kept 1 t default [a key] 1 1000001\n1\n");
	cr_expect_eq(exec_close(), 0);
}

Test(exec, there_is_no_shell)
{
	exec_open((struct reeve_worker_options){0},
	    "[handler t]\n# a comment\nexec = printf '%s|' \"$HOME\" a\\ b '' *.c ; true\n");
	expect(run_one("; rm -rf nothing"), OUTCOME(COMPLETED), "", "$HOME|a b||*.c|;|true|");
	cr_expect_eq(exec_close(), 0);
}

Test(exec, runs_in_a_directory_in_a_session_of_its_own_with_nothing_else_open)
{
	const struct script_task *task;
	int session = 0, group = 0, pid = 0;

	exec_open((struct reeve_worker_options){0},
	    "[handler t]\ndirectory = /usr\n"
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
	cr_expect_eq(exec_close(), 0);
}

Test(exec, standard_input_need_not_be_read)
{
	char *details = malloc(1000001);

	memset(details, 'x', 1000000);
	details[1000000] = '\0';
	exec_open((struct reeve_worker_options){0}, "[handler t]\nexec = echo done\n");
	expect(run_one(details), OUTCOME(COMPLETED), "", "done\n");
	free(details);
	cr_expect_eq(exec_close(), 0);
}

Test(exec, much_goes_both_ways_at_once)
{
	char *details = malloc(1000001);
	const struct script_task *task;

	memset(details, 'x', 1000000);
	details[1000000] = '\0';
	exec_open((struct reeve_worker_options){0}, "[handler t]\nexec = cat\n");
	task = run_one(details);
	cr_expect_eq(task->outcome, OUTCOME(COMPLETED), "%s", task->error);
	cr_expect_str_eq(task->result, details);
	free(details);
	cr_expect_eq(exec_close(), 0);
}

/* ---- Exit codes and signals ---- */

Test(exec, exit_codes)
{
	exec_open((struct reeve_worker_options){0}, "[handler t]\nexec = sh -c 'read line; eval \"$line\"'\n");
	expect(run_one("exit 0\n"), OUTCOME(COMPLETED), "", "");
	expect(run_one("echo bad data >&2; exit 65\n"), OUTCOME(FATAL), "exit:65", "bad data");
	expect(run_one("echo no luck >&2; exit 3\n"), OUTCOME(FAILED), "exit:3", "no luck");
	expect(run_one("exit 3\n"), OUTCOME(FAILED), "exit:3", "exit status 3");
	expect(run_one("kill -9 $$\n"), OUTCOME(FAILED), "signal:9", "ended by signal 9 (Killed)");
	expect(run_one("echo out; echo err >&2; exit 0\n"), OUTCOME(COMPLETED), "", "out\n");
	cr_expect_eq(exec_close(), 0);
}

Test(exec, the_end_of_standard_error_is_the_error)
{
	const struct script_task *task;

	exec_open((struct reeve_worker_options){0},
	    "[handler t]\nexec = sh -c 'i=0; while [ $i -lt 20000 ]; do echo "
	    "\"ä line $i\"; i=$((i+1)); done >&2; printf "
	    "\"last \\\\377\" >&2; exit 1'\n");
	task = run_one("");
	cr_expect_eq(task->outcome, OUTCOME(FAILED));
	cr_expect_leq(strlen(task->error), 4096 + 2);
	cr_expect_geq(strlen(task->error), 4000);
	cr_expect(strstr(task->error, "line 19999\nlast \xEF\xBF\xBD"), "%s", task->error);
	cr_expect_eq(exec_close(), 0);
}

Test(exec, output_that_is_too_long_ends_it)
{
	exec_open((struct reeve_worker_options){0}, "[handler t]\nexec = yes\nmax-output = 100KiB\n");
	expect(run_one(""), OUTCOME(FATAL), "output-too-long", "the output is longer than 102400 bytes (max-output)");
	cr_expect_eq(exec_close(), 0);
}

Test(exec, output_of_just_the_length_is_taken)
{
	exec_open((struct reeve_worker_options){0}, "[handler t]\nexec = cat\nmax-output = 5\n");
	expect(run_one("12345"), OUTCOME(COMPLETED), "", "12345");
	expect(run_one("123456"), OUTCOME(FATAL), "output-too-long", "the output is longer than 5 bytes (max-output)");
	cr_expect_eq(exec_close(), 0);
}

Test(exec, output_may_be_binary)
{
	exec_open((struct reeve_worker_options){0}, "[handler t]\nexec = sh -c 'read line; printf \"$line\"'\n");
	expect(run_one("a\\\\303b\n"), OUTCOME(COMPLETED), "", "data:application/octet-stream;base64,YcNi");
	expect(run_one("a\\\\000b\n"), OUTCOME(COMPLETED), "", "data:application/octet-stream;base64,YQBi");
	expect(run_one("a\\\\303\\\\244b\n"), OUTCOME(COMPLETED), "", "aäb");
	cr_expect_eq(exec_close(), 0);
}

/* The path of the program is relative to the directory in which the worker was started, which is the root here. */
Test(exec, a_program_that_went_away_is_a_failure)
{
	char handlers[400];

	cr_assert_eq(chdir("/"), 0);
	fixture_open(&fixture, (struct reeve_worker_options){0});
	snprintf(handlers, sizeof handlers, "%s", own("program"));
	cr_assert_eq(symlink("/bin/true", handlers), 0);
	snprintf(handlers, sizeof handlers, "[handler t]\nexec = %s\n", own("program") + 1);
	snprintf(file, sizeof file, "%s", own("handlers.ini"));
	FILE *out = fopen(file, "w");
	fputs(handlers, out);
	fclose(out);
	cr_assert(reeve_worker_handle_file(fixture.worker, file));
	expect(run_one(""), OUTCOME(COMPLETED), "", "");
	unlink(own("program"));
	snprintf(handlers, sizeof handlers, "cannot start %s: No such file or directory", own("program"));
	expect(run_one(""), OUTCOME(FAILED), "exec", handlers);
	cr_expect_eq(exec_close(), 0);
}

/* ---- Timeouts and process groups ---- */

/* Writes its own process id and its child's, ignores SIGTERM, and never ends. */
static const char stubborn[] =
    "[handler t]\ndirectory = %s\n"
    "exec = sh -c 'trap \"\" TERM; echo $$ > leader; sleep 1000 & echo $! > child; wait; wait'\n";

static void open_stubborn(struct reeve_worker_options options)
{
	char handlers[600];

	fixture_open(&fixture, options);
	snprintf(handlers, sizeof handlers, stubborn, fixture.script.directory);
	snprintf(file, sizeof file, "%s", own("handlers.ini"));
	FILE *out = fopen(file, "w");
	fputs(handlers, out);
	fclose(out);
	cr_assert(reeve_worker_handle_file(fixture.worker, file), "%s", reeve_worker_error(fixture.worker));
	fixture.script.heartbeat_ms = 30;
}

Test(exec, a_timeout_ends_the_whole_group)
{
	const struct script_task *task;
	pid_t leader, child;
	int64_t id;

	open_stubborn((struct reeve_worker_options){.kill_grace_ms = 150});
	id = script_add(&fixture.script, "t", "");
	fixture.script.tasks[id].timeout_ms = 2000;
	fixture_go(&fixture);
	leader = read_pid("leader");
	child = read_pid("child");
	fixture_await(&fixture, id);
	task = &fixture.script.tasks[id];
	expect(task, OUTCOME(FAILED), "timeout", "not done after 2000 ms");
	cr_expect_geq(task->run_ms, 2150);
	cr_expect(gone_soon(leader));
	cr_expect(gone_soon(child));
	cr_expect_eq(exec_close(), 0);
}

Test(exec, sigterm_comes_first)
{
	int64_t id;

	exec_open((struct reeve_worker_options){.kill_grace_ms = 3600 * 1000},
	    "[handler t]\ntimeout = 2s\nexec = sh -c 'trap \"echo cleaned up >&2; exit 0\" TERM; sleep 1000 & "
	    "wait'\n");
	id = script_add(&fixture.script, "t", "");
	fixture_go(&fixture);
	fixture_await(&fixture, id);
	/* It exited with 0, but only after SIGTERM. */
	expect(&fixture.script.tasks[id], OUTCOME(FAILED), "timeout", "not done after 2000 ms: cleaned up");
	cr_expect_eq(exec_close(), 0);
}

Test(exec, the_grace_ends_before_the_attempt_does)
{
	int64_t id;

	open_stubborn((struct reeve_worker_options){.kill_grace_ms = 3600 * 1000});
	id = script_add(&fixture.script, "t", "");
	fixture.script.tasks[id].timeout_ms = 200;
	fixture.script.tasks[id].expires_in_ms = 2000;
	fixture_go(&fixture);
	fixture_await(&fixture, id);
	cr_expect_str_eq(fixture.script.tasks[id].code, "timeout");
	cr_expect_lt(fixture.script.tasks[id].reported_ms - fixture.script.tasks[id].assigned_ms, 2000);
	cr_expect_eq(exec_close(), 0);
}

Test(exec, a_grandchild_that_keeps_the_output_open_does_not_hang_the_slot)
{
	const struct script_task *task;
	pid_t child;

	exec_open((struct reeve_worker_options){0}, "[handler t]\nexec = sh -c 'sleep 1000 & echo $!; exit 0'\n");
	task = run_one("");
	cr_assert_eq(task->outcome, OUTCOME(COMPLETED), "%s", task->error);
	child = atoi(task->result);
	cr_assert_gt(child, 1);
	cr_expect(gone_soon(child));
	cr_expect_lt(task->run_ms, 5000);
	cr_expect_eq(exec_close(), 0);
}

Test(exec, cancel_stops_it)
{
	pid_t leader, child;
	int64_t id;

	open_stubborn((struct reeve_worker_options){.kill_grace_ms = 50});
	id = script_add(&fixture.script, "t", "");
	fixture_go(&fixture);
	leader = read_pid("leader");
	child = read_pid("child");
	script_command(&fixture.script, COMMAND(CANCEL), id, 0);
	fixture_await(&fixture, id);
	expect(&fixture.script.tasks[id], OUTCOME(CANCELLED), "cancelled", "cancelled");
	cr_expect(gone_soon(leader));
	cr_expect(gone_soon(child));
	cr_expect_eq(exec_close(), 0);
}

Test(exec, abandon_and_lost_know_no_grace)
{
	pid_t leader, child;
	int64_t id;

	open_stubborn((struct reeve_worker_options){.kill_grace_ms = 3600 * 1000});
	id = script_add(&fixture.script, "t", "");
	fixture_go(&fixture);
	leader = read_pid("leader");
	child = read_pid("child");
	script_command(&fixture.script, COMMAND(ABANDON), id, 0);
	cr_assert(script_wait(&fixture.script, fixture.script.beat.held == 0));
	cr_expect(gone_soon(leader));
	cr_expect(gone_soon(child));
	cr_expect_eq(fixture.script.tasks[id].reports, 0);
	unlink(own("leader"));
	id = script_add(&fixture.script, "t", "");
	leader = read_pid("leader");
	fixture.script.lost = true;
	fixture_await(&fixture, id);
	cr_expect_eq(fixture.script.tasks[id].outcome, OUTCOME(LEASE_ENDED));
	cr_expect(gone_soon(leader));
	cr_assert(script_wait(&fixture.script, fixture.script.registers == 2));
	cr_expect_eq(exec_close(), 0);
}

Test(exec, a_drain_lets_it_finish_or_returns_it)
{
	pid_t leader, child;
	int64_t stop_ms;

	open_stubborn((struct reeve_worker_options){.kill_grace_ms = 50, .drain_timeout_ms = 200});
	script_add(&fixture.script, "t", "");
	fixture_go(&fixture);
	leader = read_pid("leader");
	child = read_pid("child");
	stop_ms = clock_monotonic_ms();
	reeve_worker_stop(fixture.worker);
	usleep(100 * 1000);
	cr_expect(!is_gone(leader) || clock_monotonic_ms() - stop_ms >= 200);
	cr_expect_eq(fixture_join(&fixture), 0);
	cr_expect_eq(fixture.script.tasks[1].outcome, OUTCOME(RETURNED));
	cr_expect(gone_soon(leader));
	cr_expect(gone_soon(child));
	cr_expect_eq(exec_close(), 0);
}

Test(exec, many_at_once)
{
	enum { COUNT = 300 };

	exec_open((struct reeve_worker_options){.concurrency = 30, .prefetch = 30}, "[handler t]\nexec = cat\n");
	for (int i = 0; i < COUNT; i++) {
		char details[32];

		snprintf(details, sizeof details, "task %d", i + 1);
		script_add(&fixture.script, "t", details);
	}
	fixture_go(&fixture);
	fixture_await_all(&fixture, COUNT);
	for (int id = 1; id <= COUNT; id++)
		cr_assert_str_eq(fixture.script.tasks[id].result, fixture.script.tasks[id].details);
	cr_expect_eq(exec_close(), 0);
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
	script_add(&fixture.script, "t", "");
	script_add(&fixture.script, "t", "");
	fixture_go(&fixture);
	leader = read_pid("leader");
	child = read_pid("child");
	cr_assert(script_wait(&fixture.script, fixture.script.beat.held == 2));
	supervisor = parent_of(leader);
	cr_assert_neq(supervisor, getpid());
	kill(supervisor, SIGKILL);
	cr_expect_eq(fixture_join(&fixture), 1);
	cr_expect(gone_soon(leader));
	cr_expect(gone_soon(child));
	/* The handler may have caused it, so the attempt has failed. */
	expect(&fixture.script.tasks[1], OUTCOME(FAILED), "supervisor",
	    "the worker's supervisor process has died, and this with it");
	cr_expect_eq(fixture.script.tasks[2].outcome, OUTCOME(RETURNED)); /* it had not begun */
	cr_expect_str_eq(
	    reeve_worker_error(fixture.worker), "the supervisor process has died, and every exec handler with it");
	exec_close();
}

Test(exec, a_program_that_kills_the_supervisor_has_failed)
{
	exec_open((struct reeve_worker_options){0}, "[handler t]\nexec = sh -c 'kill -9 $PPID; sleep 1000'\n");
	script_add(&fixture.script, "t", "");
	fixture_go(&fixture);
	cr_expect_eq(fixture_join(&fixture), 1);
	expect(&fixture.script.tasks[1], OUTCOME(FAILED), "supervisor",
	    "the worker's supervisor process has died, and this with it");
	exec_close();
}

Test(exec, the_workers_death_is_the_handlers_end)
{
	char handlers[600];
	pid_t worker, leader, child;

	script_init(&fixture.script);
	snprintf(handlers, sizeof handlers, stubborn, fixture.script.directory);
	snprintf(file, sizeof file, "%s", own("handlers.ini"));
	FILE *out = fopen(file, "w");
	fputs(handlers, out);
	fclose(out);
	worker = start_program((const char *[]){"--manager", fixture.script.url, "--handlers", file, NULL}, NULL);
	script_start(&fixture.script);
	script_add(&fixture.script, "t", "");
	leader = read_pid("leader");
	child = read_pid("child");
	kill(worker, SIGKILL);
	cr_expect(gone_soon(leader));
	cr_expect(gone_soon(child));
	waitpid(worker, NULL, 0);
	unlink(own("leader"));
	unlink(own("child"));
	unlink(file);
	script_free(&fixture.script);
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
