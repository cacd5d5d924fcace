/* Reads the parent and the session of every process from /proc and marks those to kill, in up to ROUNDS_MAX rounds
 * until none is alive. */
#include "worker/descendants.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROUNDS_MAX = 10, ROUND_DELAY_US = 1000 };

struct process {
	pid_t pid, parent, session;
	bool ours; /* is to be killed */
	bool dead; /* a zombie */
};

/* Reads the parent, session and state of a process. False: the process no longer exists. */
static bool read_process(const char *pid, struct process *process)
{
	char path[64], text[512], *name_end, state;
	ssize_t length;
	int fd, parent, session;

	snprintf(path, sizeof path, "/proc/%.20s/stat", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	length = read(fd, text, sizeof text - 1);
	close(fd);
	if (length <= 0)
		return false;
	text[length] = '\0';
	name_end = strrchr(text, ')'); /* the name may contain anything */
	if (!name_end || sscanf(name_end + 1, " %c %d %*d %d", &state, &parent, &session) != 3)
		return false;
	*process =
	    (struct process){.pid = atoi(pid), .parent = parent, .session = session, .dead = state == 'Z' || state == 'X'};
	return true;
}

/* Lists all processes. The caller must free() the list. */
static struct process *list(size_t *count)
{
	DIR *proc = opendir("/proc");
	struct process *all = NULL, *more;
	struct dirent *entry;
	size_t size = 0;

	*count = 0;
	while (proc && (entry = readdir(proc))) {
		if (entry->d_name[0] < '1' || entry->d_name[0] > '9')
			continue;
		if (*count == size) {
			size = 2 * size + 256;
			more = realloc(all, size * sizeof *all);
			if (!more) /* better to kill those found so far than none */
				break;
			all = more;
		}
		*count += read_process(entry->d_name, &all[*count]);
	}
	if (proc)
		closedir(proc);
	return all;
}

static int by_pid(const void *a, const void *b)
{
	pid_t left = ((const struct process *)a)->pid, right = ((const struct process *)b)->pid;

	return left < right ? -1 : left > right;
}

/* Marks the ancestor's descendants. */
static void mark(struct process *all, size_t count, pid_t ancestor)
{
	bool changed = true;

	qsort(all, count, sizeof *all, by_pid);
	while (changed) {
		changed = false;
		for (size_t i = 0; i < count; i++) {
			struct process key = {.pid = all[i].parent}, *parent;

			if (all[i].ours)
				continue;
			parent = bsearch(&key, all, count, sizeof *all, by_pid);
			all[i].ours = all[i].parent == ancestor || (parent && parent->ours);
			changed = changed || all[i].ours;
		}
	}
}

/* Marks the processes of the sessions. */
static void mark_sessions(struct process *all, size_t count, const pid_t *sessions, size_t session_count)
{
	for (size_t i = 0; i < count; i++)
		for (size_t n = 0; n < session_count && !all[i].ours; n++)
			all[i].ours = all[i].session == sessions[n];
}

/* Kills the ancestor's descendants, if there is an ancestor, or the processes of the sessions. */
static void kill_all(pid_t ancestor, const pid_t *sessions, size_t session_count)
{
	size_t alive = 1;

	for (int round = 0; round < ROUNDS_MAX && alive; round++) {
		struct process *all;
		size_t count;

		if (round) /* killed processes need a moment to end */
			usleep(ROUND_DELAY_US);
		all = list(&count);
		if (count && ancestor)
			mark(all, count, ancestor);
		mark_sessions(all, count, sessions, session_count);
		alive = 0;
		for (size_t i = 0; i < count; i++) {
			if (!all[i].ours || all[i].dead)
				continue;
			alive++;
			kill(all[i].pid, SIGKILL);
		}
		free(all);
	}
}

void descendants_kill(pid_t ancestor)
{
	kill_all(ancestor, NULL, 0);
}

void sessions_kill(const pid_t *sessions, size_t count)
{
	if (count)
		kill_all(0, sessions, count);
}
