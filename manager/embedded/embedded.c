/*
 * Creates and runs an embedded PostgreSQL. A new cluster is created under another name and renamed when it is complete,
 * so that an interrupted initdb never leaves a partial cluster. The server runs as a child; its postmaster.pid shows
 * when it is ready, as for pg_ctl.
 */
#include "manager/embedded/embedded.h"

#include "common/clock.h"
#include "common/mem.h"
#include "manager/embedded/child.h"
#include "manager/embedded/home.h"
#include "manager/embedded/locate.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	ORPHAN_WAIT_MS = 60000, /* for the server of a killed process to shut down */
	FAST_STOP_MS = 60000,   /* a fast shutdown writes a checkpoint */
	IMMEDIATE_STOP_MS = 10000,
	LOG_TAIL_BYTES = 16384,  /* the end of the log that is searched for the last message */
	WAL_SEGMENT_KIB = 16384, /* PostgreSQL cannot continue with less free space */
};

struct embedded {
	struct home home;
	struct locate_programs programs;
	char conninfo[PATH_MAX + 64];
	int log;
	off_t log_begin; /* where this process's part of the log begins */
	char ending[PATH_MAX + 600];
	pid_t server;
	bool ended;
	int status; /* of the server, once it has ended */
};

/* The cluster's settings, set at every start; all others are PostgreSQL's defaults. */
static const char *const settings[] = {
    "listen_addresses=",
    "unix_socket_permissions=0700",
    "port=5432",
    "fsync=on",
    "full_page_writes=on",
    "synchronous_commit=on",
    "shared_buffers=256MB",
    "max_wal_size=4GB",
    "checkpoint_timeout=15min",
    "idle_in_transaction_session_timeout=10min",
    "jit=off",
    "log_line_prefix=%m [%p] ",
    "log_checkpoints=off",
    "logging_collector=off",
    "log_destination=stderr",
};

enum { SETTINGS = sizeof settings / sizeof settings[0] };

/* Returns the message that best explains why a program ended: the last one with the highest mark. A full disk is the
 * highest, since other errors may follow from it. The result points into `text`, which is cut into lines; NULL: there
 * is none. */
static const char *first_message(char *text)
{
	static const char *const marks[] = {"FATAL:  ", "error: ", "PANIC:  ", "No space left on device"};
	const char *best = NULL;
	size_t best_mark = 0;
	char *rest = text, *line;

	while ((line = strsep(&rest, "\n")))
		for (size_t mark = best_mark; mark < sizeof marks / sizeof *marks; mark++)
			if (strstr(line, marks[mark])) {
				best = line;
				best_mark = mark;
			}
	return best;
}

/* Returns a message of the server without the time and the process id before it. */
static const char *without_prefix(const char *line)
{
	const char *end = strstr(line, "] ");

	return end ? end + 2 : line;
}

/* Writes the log's last message that explains an end, as " (message)", into `out`, or "" if there is none. */
static void read_last_message(const struct embedded *embedded, char *out, size_t size)
{
	char text[LOG_TAIL_BYTES + 1];
	struct stat status;
	const char *message;
	ssize_t length;
	off_t from;
	int fd = open(embedded->home.log, O_RDONLY | O_CLOEXEC);

	*out = '\0';
	if (fd < 0 || fstat(fd, &status) != 0)
		goto out;
	from =
	    status.st_size - LOG_TAIL_BYTES > embedded->log_begin ? status.st_size - LOG_TAIL_BYTES : embedded->log_begin;
	length = pread(fd, text, LOG_TAIL_BYTES, from);
	text[length > 0 ? length : 0] = '\0';
	message = first_message(text);
	if (message)
		snprintf(out, size, " (%.200s)", without_prefix(message));
out:
	if (fd >= 0)
		close(fd);
}

/* Writes into `out` that the disk is full, or "" if it is not: the server may have been unable to log that. */
static void check_disk(const struct embedded *embedded, char *out, size_t size)
{
	struct statvfs disk;
	long long free_kib;

	*out = '\0';
	if (statvfs(embedded->home.folder, &disk) != 0)
		return;
	free_kib = (long long)disk.f_bavail * (long long)disk.f_frsize / 1024;
	if (free_kib < WAL_SEGMENT_KIB)
		snprintf(out, size, "; its disk is full, with %lld KiB left", free_kib);
}

/* Describes how a program that writes to the log has ended. Valid until the next call. */
static const char *describe_end(struct embedded *embedded, int status)
{
	char ending[64], message[320], disk[80];

	read_last_message(embedded, message, sizeof message);
	check_disk(embedded, disk, sizeof disk);
	snprintf(embedded->ending, sizeof embedded->ending, "%s%s%s; its messages are in %s",
	    child_ending(status, ending, sizeof ending), message, disk, embedded->home.log);
	return embedded->ending;
}

static bool cancelled(int stop_fd, struct reeve_error *error)
{
	struct pollfd stop = {.fd = stop_fd, .events = POLLIN};

	if (stop_fd < 0 || poll(&stop, 1, 0) <= 0)
		return false;
	error_set(error, STATUS(CANCELLED), "stopped while PostgreSQL was starting");
	return true;
}

static pid_t start_program(
    struct embedded *embedded, const char *const *argv, int input, int death_signal, struct reeve_error *error)
{
	struct child_spec spec = {
	    .argv = argv,
	    .folder = "/",
	    .change_user = embedded->home.change_user,
	    .uid = embedded->home.uid,
	    .gid = embedded->home.gid,
	    .input = input,
	    .output = embedded->log,
	    .death_signal = death_signal,
	};
	return child_start(&spec, error);
}

/* Runs a program of PostgreSQL and waits for its end. Returns false with *error if it fails or `stop_fd` stops it. */
static bool run_program(
    struct embedded *embedded, const char *const *argv, int input, int stop_fd, struct reeve_error *error)
{
	int status;
	pid_t pid = start_program(embedded, argv, input, SIGTERM, error);

	if (pid < 0)
		return false;
	if (!child_wait(pid, -1, stop_fd, &status)) {
		kill(pid, SIGTERM);
		child_wait(pid, -1, -1, &status);
		return !cancelled(stop_fd, error) && error_set(error, STATUS(CANCELLED), "%s was stopped", argv[0]);
	}
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return true;
	return error_set(error, STATUS(INTERNAL), "%s %s", argv[0], describe_end(embedded, status));
}

/* Creates the role and the database with a single-user server, which needs no socket. */
static bool create_database(struct embedded *embedded, const char *cluster, int stop_fd, struct reeve_error *error)
{
	static const char commands[] = "create role reeve login;\n"
	                               "grant pg_read_all_stats to reeve;\n"
	                               "create database reeve owner reeve;\n";
	char program[PATH_MAX + 16];
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) != 0)
		return error_set(error, STATUS(INTERNAL), "pipe: %s", strerror(errno));
	bool written = write(ends[1], commands, sizeof commands - 1) == sizeof commands - 1;
	close(ends[1]);
	snprintf(program, sizeof program, "%s/postgres", embedded->programs.folder);
	const char *argv[] = {program, "--single", "-c", "exit_on_error=on", "-D", cluster, "postgres", NULL};
	bool done = written && run_program(embedded, argv, ends[0], stop_fd, error);
	close(ends[0]);
	return done;
}

static bool make_cluster(struct embedded *embedded, int stop_fd, struct reeve_error *error)
{
	const struct home *home = &embedded->home;
	char program[PATH_MAX + 16], fresh[PATH_MAX + 32];

	snprintf(program, sizeof program, "%s/initdb", embedded->programs.folder);
	snprintf(fresh, sizeof fresh, "%s/postgres.new", home->folder);
	home_remove(home, fresh);
	if (!home_make_private(home, fresh, error))
		return false;
	const char *argv[] = {program, "-D", fresh, "-U", "postgres", "-E", "UTF8", "--locale=C", "-A", "trust", NULL};
	if (!run_program(embedded, argv, -1, stop_fd, error) || !create_database(embedded, fresh, stop_fd, error))
		return false;
	if (rename(fresh, home->cluster) != 0)
		return error_set(error, STATUS(INTERNAL), "cannot rename %s to %s: %s", fresh, home->cluster, strerror(errno));
	return true;
}

/* Waits for the server of an earlier process that was killed: the kernel has sent it a signal to shut down, which may
 * take a while. When no process works in the cluster, its pid file is stale, even if another process has that id now,
 * and is removed. */
static bool await_orphans(struct embedded *embedded, int stop_fd, struct reeve_error *error)
{
	char path[PATH_MAX + 64];
	int64_t end = clock_monotonic_ms() + ORPHAN_WAIT_MS;

	while (home_in_use(&embedded->home)) {
		if (cancelled(stop_fd, error))
			return false;
		if (clock_monotonic_ms() > end)
			return error_set(error, STATUS(FAILED_PRECONDITION),
			    "another PostgreSQL runs in %s (its process id is in postmaster.pid there): stop it",
			    embedded->home.cluster);
		poll(NULL, 0, 50);
	}
	snprintf(path, sizeof path, "%s/postmaster.pid", embedded->home.cluster);
	home_remove(&embedded->home, path);
	if (access(path, F_OK) == 0)
		return error_set(error, STATUS(PERMISSION_DENIED), "cannot remove %s", path);
	return true;
}

/* Returns true if the pid file is our server's (line 1 is its process id) and shows that it accepts connections (line 8
 * is its state). */
static bool is_ready(const struct embedded *embedded)
{
	char path[PATH_MAX + 64], line[PATH_MAX + 64];
	bool ours = false, ready = false;

	snprintf(path, sizeof path, "%s/postmaster.pid", embedded->home.cluster);
	FILE *file = fopen(path, "re");
	for (int number = 1; file && number <= 8 && fgets(line, sizeof line, file); number++) {
		if (number == 1)
			ours = atoi(line) == embedded->server;
		ready = number == 8 && strncmp(line, "ready", 5) == 0;
	}
	if (file)
		fclose(file);
	return ours && ready;
}

static bool start_server(struct embedded *embedded, struct reeve_error *error)
{
	char program[PATH_MAX + 16];
	const char *argv[6 + 2 * SETTINGS] = {program, "-D", embedded->home.cluster, "-k", embedded->home.socket};
	int count = 5;

	snprintf(program, sizeof program, "%s/postgres", embedded->programs.folder);
	for (int i = 0; i < SETTINGS; i++) {
		argv[count++] = "-c";
		argv[count++] = settings[i];
	}
	argv[count] = NULL;
	embedded->server = start_program(embedded, argv, -1, SIGINT, error);
	return embedded->server > 0;
}

static bool await_server(struct embedded *embedded, int stop_fd, struct reeve_error *error)
{
	while (!is_ready(embedded)) {
		if (cancelled(stop_fd, error))
			return false;
		if (!embedded_alive(embedded))
			return error_set(
			    error, STATUS(INTERNAL), "while starting PostgreSQL %s", describe_end(embedded, embedded->status));
		poll(NULL, 0, 10);
	}
	return true;
}

struct embedded *embedded_start(const char *folder, int stop_fd, struct reeve_error *error)
{
	struct embedded *embedded = mem_calloc(1, sizeof *embedded);

	embedded->log = -1;
	if (!home_open(&embedded->home, folder, error)) {
		free(embedded);
		return NULL;
	}
	snprintf(embedded->conninfo, sizeof embedded->conninfo, "host=%s port=5432 user=reeve dbname=reeve",
	    embedded->home.socket);
	embedded->log = home_open_log(&embedded->home, error);
	embedded->log_begin = embedded->log >= 0 ? lseek(embedded->log, 0, SEEK_END) : 0;
	if (embedded->log >= 0 && locate_postgres(embedded->home.major, &embedded->programs, error) &&
	    (embedded->home.exists || make_cluster(embedded, stop_fd, error)) && await_orphans(embedded, stop_fd, error) &&
	    start_server(embedded, error) && await_server(embedded, stop_fd, error))
		return embedded;
	embedded_stop(embedded, NULL);
	return NULL;
}

const char *embedded_conninfo(const struct embedded *embedded)
{
	return embedded->conninfo;
}

const char *embedded_ending(struct embedded *embedded)
{
	return embedded_alive(embedded) ? "runs" : describe_end(embedded, embedded->status);
}

pid_t embedded_pid(const struct embedded *embedded)
{
	return embedded->server;
}

bool embedded_alive(struct embedded *embedded)
{
	if (!embedded->ended)
		embedded->ended = child_wait(embedded->server, 0, -1, &embedded->status);
	return !embedded->ended;
}

/* Sends the server a signal and waits for its end. Returns false if it still runs after `timeout_ms` (−1: no limit). */
static bool end_server(struct embedded *embedded, int number, int64_t timeout_ms)
{
	if (!embedded_alive(embedded))
		return true;
	kill(embedded->server, number);
	embedded->ended = child_wait(embedded->server, timeout_ms, -1, &embedded->status);
	return embedded->ended;
}

bool embedded_stop(struct embedded *embedded, struct reeve_error *error)
{
	bool clean = true;

	if (embedded->server > 0) {
		if (!end_server(embedded, SIGINT, FAST_STOP_MS) && !end_server(embedded, SIGQUIT, IMMEDIATE_STOP_MS))
			end_server(embedded, SIGKILL, -1);
		clean = WIFEXITED(embedded->status) && WEXITSTATUS(embedded->status) == 0;
		if (!clean)
			error_set(error, STATUS(INTERNAL), "PostgreSQL %s", describe_end(embedded, embedded->status));
	}
	if (embedded->log >= 0)
		close(embedded->log);
	home_close(&embedded->home);
	free(embedded);
	return clean;
}
