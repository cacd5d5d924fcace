/* Starts handler processes: reads a request, forks, and executes the program. */
#include "worker/supervisor_internal.h"

#include "common/mem.h"

#include <errno.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

extern char **environ;

void supervisor_take_environment(struct supervisor *supervisor)
{
	/* Programs do not call managers as the worker. */
	static const char *const own[] = {"REEVE_ACCESS_TOKEN", "REEVE_ACCESS_TOKEN_FILE", "REEVE_ATTEMPT_ACCESS_TOKEN",
	    "REEVE_TLS_CERT", "REEVE_TLS_KEY"};

	for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
		char *value = getenv(own[i]);

		if (value)
			explicit_bzero(value, strlen(value)); /* /proc shows it */
		unsetenv(own[i]);
	}
	while (environ && environ[supervisor->inherited])
		supervisor->inherited++;
	supervisor->variables =
	    mem_calloc(supervisor->inherited + SPAWN_ENVIRONMENT_MAX + 1, sizeof *supervisor->variables);
}

/* Returns true if nothing may be started any more: the lease is over, or the attempt's time. The latter matters for a
 * worker that was frozen and has renewed its lease since: other workers may have its attempts now. */
static bool too_late(const struct supervisor *supervisor, int64_t latest_ms)
{
	return lease_watchdog_acts(&supervisor->shared->lease) || (latest_ms && clock_monotonic_ms() >= latest_ms);
}

/* Schedules the child as the worker is. The kernel has reset a child of a supervisor that has precedence. */
static void end_precedence(const struct supervisor *supervisor)
{
	struct sched_param none = {0};

	if (sched_getscheduler(0) != supervisor->policy)
		sched_setscheduler(0, supervisor->policy, &none);
	if (getpriority(PRIO_PROCESS, 0) != supervisor->niceness)
		setpriority(PRIO_PROCESS, 0, supervisor->niceness);
}

/* Ends this process with the supervisor. */
static void end_with(const struct supervisor *supervisor)
{
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != supervisor->pid)
		_exit(127);
}

/* Makes this process, which is root's, another user's, with its descriptors. Returns false if it cannot. */
static bool change_user(const struct supervisor *supervisor, char *user, int fds)
{
	uid_t uid = (uid_t)strtoul(user, &user, 10);
	gid_t groups[SPAWN_GROUPS_MAX];
	size_t count = 0;

	while (*user && count < SPAWN_GROUPS_MAX)
		groups[count++] = (gid_t)strtoul(user, &user, 10);
	if (count == 0)
		return false;
	for (int i = 0; i < fds; i++)
		if (fchown(i, uid, groups[0]) < 0)
			return false;
	if (setgroups(count, groups) < 0 || setgid(groups[0]) < 0 || setuid(uid) < 0)
		return false;
	end_with(supervisor); /* the kernel forgets that when the user changes */
	return true;
}

/* Runs in the child between fork and exec: sets up the process and executes its program. */
static void __attribute__((noreturn)) become(struct supervisor *supervisor, uint32_t index, const char *path,
    const char *directory, char *user, const int fds[SPAWN_FDS], int64_t latest_ms)
{
	sigset_t none;
	int count = 0;

	end_with(supervisor);
	end_precedence(supervisor);
	setsid();
	for (; count < SPAWN_FDS && fds[count] >= 0; count++)
		if (dup2(fds[count], count) < 0)
			goto failed;
	if (close_range((unsigned)count, ~0U, 0) < 0)
		goto failed;
	if (*user && !change_user(supervisor, user, count))
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
	execve(path, supervisor->arguments, supervisor->variables);
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

/* Returns true if the variable is among `count` variables of a process, or replaced: one of the first `added`, which
 * are not the worker's, has its name. */
static bool is_set(const struct supervisor *supervisor, size_t count, size_t added, const char *variable)
{
	for (size_t n = 0; n < count; n++) {
		const char *set = supervisor->variables[n];

		if (set == variable || (n < added && !strncmp(set, variable, strcspn(variable, "=") + 1)))
			return true;
	}
	return false;
}

/* Reads the variables of a process from the packet, and adds those of the worker's that it gets. Returns false if the
 * packet is invalid. */
static bool take_variables(
    struct supervisor *supervisor, const struct spawn_request *request, char **at, const char *end)
{
	bool all = request->names == SPAWN_ALL_NAMES;
	size_t count = 0;

	for (; count < request->environment; count++)
		if (!(supervisor->variables[count] = next_text(at, end)))
			return false;
	for (uint32_t i = 0; i < (all ? 1 : request->names); i++) {
		const char *name = all ? "*" : next_text(at, end);

		if (!name)
			return false;
		for (size_t n = 0; n < supervisor->inherited; n++)
			if (has_name(environ[n], name) && !is_set(supervisor, count, request->environment, environ[n]))
				supervisor->variables[count++] = environ[n];
	}
	supervisor->variables[count] = NULL;
	return true;
}

void supervisor_start(struct supervisor *supervisor, size_t length, const int fds[SPAWN_FDS])
{
	struct spawn_request request;
	char *at = supervisor->packet + sizeof request, *end = supervisor->packet + length;
	struct child *child;
	char *path, *directory, *user;
	pid_t pid;

	memcpy(&request, supervisor->packet, sizeof request);
	if (request.index >= SPAWN_MAX || request.arguments > SPAWN_ARGUMENTS_MAX ||
	    request.environment > SPAWN_ENVIRONMENT_MAX || request.fds < 1 || request.fds > SPAWN_FDS ||
	    supervisor->children[request.index].id)
		abort();
	path = next_text(&at, end);
	directory = path ? next_text(&at, end) : NULL;
	user = directory ? next_text(&at, end) : NULL;
	for (uint32_t i = 0; i < request.arguments; i++)
		supervisor->arguments[i] = user ? next_text(&at, end) : NULL;
	supervisor->arguments[request.arguments] = NULL;
	if (!user || !take_variables(supervisor, &request, &at, end) || at != end)
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
	if (fds[request.fds - 1] < 0) { /* the kernel drops descriptors that exceed this process's limit */
		child->start_error = EMFILE;
		supervisor_child_ended(supervisor, child, 0);
		return;
	}
	pid = fork();
	if (pid == 0)
		become(supervisor, request.index, path, directory, user, fds, request.value);
	child->pid = pid;
	if (pid < 0) {
		child->start_error = errno;
		supervisor_child_ended(supervisor, child, 0);
	}
}
