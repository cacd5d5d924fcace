/* A fixture for tests of programs: a worker with a handlers file, whose programs may write files next to it. */
#ifndef REEVE_TESTS_EXEC_FIXTURE_H
#define REEVE_TESTS_EXEC_FIXTURE_H

#include "../own_files.h"
#include "../process.h"

static char file[160]; /* the handlers file; the tests' other files are in the same directory */

/* Opens the fixture with a handlers file. */
static inline void exec_open(struct reeve_worker_options options, const char *handlers)
{
	FILE *out;

	fixture_open(&fixture, options);
	snprintf(file, sizeof file, "%s/handlers.ini", fixture.script.directory);
	out = fopen(file, "w");
	fputs(handlers, out);
	fclose(out);
	cr_assert(reeve_worker_handle_file(fixture.worker, file), "%s", reeve_worker_error(fixture.worker));
	fixture.script.heartbeat_ms = 30;
}

/* Returns a process id that a handler wrote to one of the test's own files. */
static inline pid_t read_pid(const char *name)
{
	return process_read(own(name));
}

static inline bool is_gone(pid_t pid)
{
	return process_gone(pid);
}

static inline bool gone_soon(pid_t pid)
{
	return process_gone_by(pid, clock_monotonic_ms() + SCRIPT_TIMEOUT_MS);
}

static inline int exec_close(void)
{
	unlink_all();
	return fixture_close(&fixture);
}

/* Runs one task of type t and returns it with its result. */
static inline const struct script_task *run_one(const char *details)
{
	int64_t id = script_add(&fixture.script, "t", details);

	if (!fixture.running)
		fixture_go(&fixture);
	fixture_await(&fixture, id);
	return &fixture.script.tasks[id];
}

static inline void expect(
    const struct script_task *task, Reeve__V1__Outcome outcome, const char *code, const char *text)
{
	cr_expect_eq(task->outcome, outcome, "outcome %d (%s)", task->outcome, task->error);
	cr_expect_str_eq(task->code, code);
	cr_expect_str_eq(
	    outcome == OUTCOME(COMPLETED) ? task->result : task->error, text, "%s%s", task->result, task->error);
}

#endif
