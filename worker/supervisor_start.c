/* Starts handler processes: reads a request, forks, and executes the program. */
#include "worker/supervisor_internal.h"

#include "common/mem.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

extern char **environ;

void supervisor_take_environment(struct supervisor *supervisor)
{
	static const char *const own[] = {"REEVE_TASK_ID=", "REEVE_TASK_TYPE=", "REEVE_QUEUE=", "REEVE_KEY=",
	    "REEVE_ATTEMPT=", "REEVE_TOKEN=", "REEVE_STAGE=", "REEVE_MANAGER="};
	size_t count = 0;

	while (environ && environ[count])
		count++;
	supervisor->environment = mem_calloc(count + SPAWN_ENVIRONMENT_MAX + 1, sizeof *supervisor->environment);
	supervisor->chosen = mem_calloc(count + SPAWN_ENVIRONMENT_MAX + 1, sizeof *supervisor->chosen);
	for (size_t i = 0; i < count; i++) {
		bool replaced = false;

		for (size_t n = 0; n < sizeof own / sizeof *own; n++)
			replaced = replaced || !strncmp(environ[i], own[n], strlen(own[n]));
		if (!replaced)
			supervisor->environment[supervisor->inherited++] = environ[i];
	}
}

/* Returns true if nothing may be started any more: the lease is over, or the attempt's time. The latter matters for a
 * worker that was frozen and has renewed its lease since: other workers may have its attempts now. */
static bool too_late(const struct supervisor *supervisor, int64_t latest_ms)
{
	return lease_watchdog_acts(&supervisor->shared->lease) || (latest_ms && clock_monotonic_ms() >= latest_ms);
}

/* Runs in the child between fork and exec: sets up the process and executes its program. */
static void __attribute__((noreturn)) become(struct supervisor *supervisor, uint32_t index, const char *path,
    const char *directory, char **environment, const int fds[SPAWN_FDS], int64_t latest_ms)
{
	sigset_t none;

	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != supervisor->pid)
		_exit(127);
	setsid();
	for (int i = 0; i < SPAWN_FDS; i++)
		if (dup2(fds[i], i) < 0)
			goto failed;
	if (close_range(SPAWN_FDS, ~0U, 0) < 0)
		goto failed;
	if (*directory && chdir(directory) < 0)
		goto failed;
	for (int i = 1; i < NSIG; i++)
		signal(i, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	errno = SPAWN_LEASE_OVER;
	if (too_late(supervisor, latest_ms)) /* this process or its parent was delayed */
		goto failed;
	atomic_store(&supervisor->shared->processes[index].pid, getpid());
	execve(path, supervisor->arguments, environment);
failed:
	atomic_store(&supervisor->shared->processes[index].error, errno);
	_exit(127);
}

/* Returns the next string of the packet, or NULL if its NUL is missing. */
static char *next_text(char **at, const char *end)
{
	char *text = *at, *nul = memchr(text, '\0', (size_t)(end - text));

	if (!nul)
		return NULL;
	*at = nul + 1;
	return text;
}

/* Returns true if a variable ("NAME=value") has that name, or begins with the prefix NAME*. */
static bool has_name(const char *variable, const char *name)
{
	size_t length = strcspn(name, "*");

	return !strncmp(variable, name, length) && (name[length] || variable[length] == '=');
}

/* Adds those of the worker's variables that match `name` to the chosen ones, of which there are `count`; the first
 * `added` of these are not the worker's. Returns the new count. */
static size_t choose(struct supervisor *supervisor, size_t count, size_t added, const char *name)
{
	for (size_t i = 0; name && i < supervisor->inherited; i++) {
		bool chosen = false;

		for (size_t n = added; n < count; n++)
			chosen = chosen || supervisor->chosen[n] == supervisor->environment[i];
		if (!chosen && has_name(supervisor->environment[i], name))
			supervisor->chosen[count++] = supervisor->environment[i];
	}
	return count;
}

/* Returns the variables of a process, read from the packet. */
static char **take_variables(
    struct supervisor *supervisor, const struct spawn_request *request, char **at, const char *end)
{
	bool all = request->names == SPAWN_ALL_NAMES;
	char **variables = all ? supervisor->environment : supervisor->chosen;
	size_t count = all ? supervisor->inherited : 0;

	for (uint32_t i = 0; i < request->environment; i++)
		variables[count++] = next_text(at, end);
	for (uint32_t i = 0; !all && i < request->names; i++)
		count = choose(supervisor, count, request->environment, next_text(at, end));
	variables[count] = NULL;
	return variables;
}

void supervisor_start(struct supervisor *supervisor, size_t length, const int fds[SPAWN_FDS])
{
	struct spawn_request request;
	char *at = supervisor->packet + sizeof request, *end = supervisor->packet + length;
	struct child *child;
	char *path, *directory, **environment;
	pid_t pid;

	memcpy(&request, supervisor->packet, sizeof request);
	if (request.index >= SPAWN_MAX || request.arguments > SPAWN_ARGUMENTS_MAX ||
	    request.environment > SPAWN_ENVIRONMENT_MAX || supervisor->children[request.index].id)
		abort();
	path = next_text(&at, end);
	directory = path ? next_text(&at, end) : NULL;
	for (uint32_t i = 0; i < request.arguments; i++)
		supervisor->arguments[i] = directory ? next_text(&at, end) : NULL;
	supervisor->arguments[request.arguments] = NULL;
	environment = directory ? take_variables(supervisor, &request, &at, end) : NULL;
	if (!directory || at != end)
		abort();
	child = &supervisor->children[request.index];
	*child = (struct child){.id = request.id};
	supervisor->running++;
	if (request.index >= supervisor->used)
		supervisor->used = request.index + 1;
	if (too_late(supervisor, request.value)) {
		child->lease = true;
		supervisor_child_ended(supervisor, child, 0);
		return;
	}
	if (fds[SPAWN_FDS - 1] < 0) { /* the kernel drops descriptors that exceed this process's limit */
		child->start_error = EMFILE;
		supervisor_child_ended(supervisor, child, 0);
		return;
	}
	pid = fork();
	if (pid == 0)
		become(supervisor, request.index, path, directory, environment, fds, request.value);
	child->pid = pid;
	if (pid < 0) {
		child->start_error = errno;
		supervisor_child_ended(supervisor, child, 0);
	}
}
