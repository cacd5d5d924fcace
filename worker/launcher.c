/*
 * A table of processes, a lock, and a thread that reads the supervisor's messages. A request is a single packet, so any
 * thread can send one.
 */
#include "worker/launcher.h"

#include "worker/descendants.h"
#include "worker/spawn_message.h"
#include "worker/supervisor.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	SILENT_MS = 10 * 1000, /* a supervisor that does not read the lease for this long is considered hung */
	END_MS = 2000,         /* how long it may take to end */
};

enum entry_state { ENTRY_FREE, ENTRY_RUNNING, ENTRY_ENDED };

struct entry {
	enum entry_state state;
	int event_fd;
	uint64_t id;
	struct launch_end end;
};

struct launcher {
	int socket;
	pid_t supervisor;
	int pidfd; /* of the supervisor; −1: the kernel has none */
	struct spawn_shared *shared;
	pthread_t reader;
	bool watched;
	void (*died)(void *arg);
	void *died_arg;
	int64_t sent_lease_ms;         /* the watchdog_ms of which the supervisor was last notified */
	int64_t unseen_since_ms; /* the last renewal at which it had read it */

	pthread_mutex_t lock; /* guards the fields below */
	struct entry *entries;
	uint32_t *free_indices;
	uint32_t free_count;
	uint64_t last_id;
	bool closing; /* we are ending the supervisor */
	bool dead;
};

struct launcher *launcher_create(struct reeve_error *error)
{
	struct launcher *launcher = calloc(1, sizeof *launcher);

	if (!launcher)
		abort();
	launcher->shared =
	    mmap(NULL, sizeof *launcher->shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	launcher->supervisor = launcher->shared == MAP_FAILED ? -1 : supervisor_fork(&launcher->socket, launcher->shared);
	if (launcher->supervisor < 0) {
		error_set(error, STATUS(INTERNAL), "cannot fork the supervisor process: %s", strerror(errno));
		if (launcher->shared != MAP_FAILED)
			munmap(launcher->shared, sizeof *launcher->shared);
		free(launcher);
		return NULL;
	}
	launcher->pidfd = pidfd_open(launcher->supervisor, 0);
	pthread_mutex_init(&launcher->lock, NULL);
	launcher->entries = calloc(SPAWN_MAX, sizeof *launcher->entries);
	launcher->free_indices = calloc(SPAWN_MAX, sizeof *launcher->free_indices);
	if (!launcher->entries || !launcher->free_indices)
		abort();
	while (launcher->free_count < SPAWN_MAX) {
		launcher->free_indices[launcher->free_count] = SPAWN_MAX - 1 - launcher->free_count;
		launcher->free_count++;
	}
	return launcher;
}

/* Wakes the thread that waits for an entry's process. */
static void notify(const struct entry *entry)
{
	uint64_t one = 1;
	ssize_t written = write(entry->event_fd, &one, sizeof one);

	assert(written == sizeof one || errno == EAGAIN);
	(void)written;
}

static void note_exit(struct launcher *launcher, const struct spawn_exit *message)
{
	struct entry *entry;

	assert(message->index < SPAWN_MAX);
	pthread_mutex_lock(&launcher->lock);
	entry = &launcher->entries[message->index];
	assert(entry->state == ENTRY_RUNNING && entry->id == message->id);
	entry->state = ENTRY_ENDED;
	entry->end = (struct launch_end){.status = message->status,
	    .start_error = message->start_error,
	    .signalled = message->signalled != 0,
	    .lease = message->lease != 0};
	notify(entry);
	pthread_mutex_unlock(&launcher->lock);
}

/* Handles the end of the supervisor. Its children die with it, but not their descendants, so this kills the process
 * groups; their numbers cannot have been reused so soon. Returns true if the supervisor died unexpectedly. */
static bool note_death(struct launcher *launcher)
{
	siginfo_t info;
	bool closing;

	/* The supervisor closes the socket before the kernel signals its children: wait until it has ended completely. */
	while (waitid(P_PID, (id_t)launcher->supervisor, &info, WEXITED | WNOWAIT) < 0 && errno == EINTR)
		;
	pthread_mutex_lock(&launcher->lock);
	launcher->dead = true;
	for (uint32_t i = 0; i < SPAWN_MAX; i++) {
		struct entry *entry = &launcher->entries[i];
		pid_t pid;

		if (entry->state != ENTRY_RUNNING)
			continue;
		entry->state = ENTRY_ENDED;
		pid = atomic_load(&launcher->shared->processes[i].pid);
		if (pid > 1)
			kill(-pid, SIGKILL);
		entry->end = (struct launch_end){.lost = true, .begun = pid != 0};
		notify(entry);
	}
	closing = launcher->closing;
	pthread_mutex_unlock(&launcher->lock);
	return !closing;
}

static void *read_exits(void *arg)
{
	struct launcher *launcher = arg;
	struct spawn_exit message;
	ssize_t length;

	for (;;) {
		length = recv(launcher->socket, &message, sizeof message, 0);
		if (length == sizeof message)
			note_exit(launcher, &message);
		else if (length >= 0 || errno != EINTR)
			break;
	}
	if (note_death(launcher))
		launcher->died(launcher->died_arg);
	return NULL;
}

bool launcher_watch(struct launcher *launcher, void (*died)(void *arg), void *arg, struct reeve_error *error)
{
	sigset_t all, before;
	int problem;

	launcher->died = died;
	launcher->died_arg = arg;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	problem = pthread_create(&launcher->reader, NULL, read_exits, launcher);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (problem)
		return error_set(error, STATUS(INTERNAL), "cannot start a thread: %s", strerror(problem));
	launcher->watched = true;
	return true;
}

void launcher_destroy(struct launcher *launcher)
{
	if (!launcher)
		return;
	pthread_mutex_lock(&launcher->lock);
	launcher->closing = true;
	assert(launcher->free_count == SPAWN_MAX);
	pthread_mutex_unlock(&launcher->lock);
	shutdown(launcher->socket, SHUT_RDWR);
	if (launcher->pidfd >= 0) {
		struct pollfd gone = {.fd = launcher->pidfd, .events = POLLIN};

		while (poll(&gone, 1, END_MS) < 0 && errno == EINTR)
			;
		pidfd_send_signal(launcher->pidfd, SIGKILL, NULL, 0); /* unless it has ended */
		close(launcher->pidfd);
	}
	if (launcher->watched)
		pthread_join(launcher->reader, NULL);
	close(launcher->socket);
	while (waitpid(launcher->supervisor, NULL, 0) < 0 && errno == EINTR)
		;
	pthread_mutex_destroy(&launcher->lock);
	munmap(launcher->shared, sizeof *launcher->shared);
	free(launcher->entries);
	free(launcher->free_indices);
	free(launcher);
}

/* Sends one packet. Returns 0 or an errno. */
static int send_packet(struct launcher *launcher, const struct msghdr *message, int flags)
{
	while (sendmsg(launcher->socket, message, MSG_NOSIGNAL | flags) < 0)
		if (errno != EINTR)
			return errno;
	return 0;
}

/* Appends a string with its NUL. False: it does not fit. */
static bool append(char *text, size_t *used, const char *more)
{
	size_t length = strlen(more) + 1;

	if (length > SPAWN_TEXT_MAX - *used)
		return false;
	memcpy(text + *used, more, length);
	*used += length;
	return true;
}

/* Writes the strings of a spec to `text` (SPAWN_TEXT_MAX bytes). Returns the length, or 0 if they do not fit. */
static size_t write_texts(const struct launch_spec *spec, char *text, struct spawn_request *request)
{
	size_t used = 0;

	if (!append(text, &used, spec->path) || !append(text, &used, spec->directory ? spec->directory : ""))
		return 0;
	for (; spec->arguments[request->arguments]; request->arguments++)
		if (request->arguments == SPAWN_ARGUMENTS_MAX ||
		    !append(text, &used, spec->arguments[request->arguments]))
			return 0;
	for (; spec->environment[request->environment]; request->environment++)
		if (request->environment == SPAWN_ENVIRONMENT_MAX ||
		    !append(text, &used, spec->environment[request->environment]))
			return 0;
	for (; spec->names && spec->names[request->names]; request->names++)
		if (!append(text, &used, spec->names[request->names]))
			return 0;
	if (!spec->names)
		request->names = SPAWN_ALL_NAMES;
	return used;
}

/* Takes a free entry. False: the supervisor is dead, or no entry is free. */
static bool take_entry(struct launcher *launcher, int event_fd, struct launch *launch)
{
	bool taken = false;

	pthread_mutex_lock(&launcher->lock);
	if (launcher->free_count && !launcher->dead) {
		launch->index = launcher->free_indices[--launcher->free_count];
		launch->id = ++launcher->last_id;
		launcher->entries[launch->index] =
		    (struct entry){.state = ENTRY_RUNNING, .event_fd = event_fd, .id = launch->id};
		atomic_store(&launcher->shared->processes[launch->index].pid, 0);
		atomic_store(&launcher->shared->processes[launch->index].error, 0);
		taken = true;
	}
	pthread_mutex_unlock(&launcher->lock);
	return taken;
}

static void free_entry(struct launcher *launcher, const struct launch *launch)
{
	launcher->entries[launch->index].state = ENTRY_FREE;
	launcher->free_indices[launcher->free_count++] = launch->index;
}

bool launcher_start(
    struct launcher *launcher, const struct launch_spec *spec, struct launch *launch, struct reeve_error *error)
{
	struct spawn_request request = {.kind = SPAWN_START, .value = spec->latest_ms};
	union {
		char bytes[CMSG_SPACE(SPAWN_FDS * sizeof(int))];
		struct cmsghdr align;
	} control = {{0}};
	char *text = malloc(SPAWN_TEXT_MAX);
	struct iovec iov[2] = {{.iov_base = &request, .iov_len = sizeof request}, {.iov_base = text}};
	struct msghdr message = {
	    .msg_iov = iov, .msg_iovlen = 2, .msg_control = &control, .msg_controllen = sizeof control};
	int problem;

	if (!text)
		abort();
	iov[1].iov_len = write_texts(spec, text, &request);
	if (!iov[1].iov_len) {
		free(text);
		return error_set(
		    error, STATUS(INVALID_ARGUMENT), "cannot start %s: its arguments are too long", spec->path);
	}
	if (!take_entry(launcher, spec->event_fd, launch)) {
		free(text);
		return error_set(error, STATUS(UNAVAILABLE), "the worker's supervisor process has died");
	}
	request.index = launch->index;
	request.id = launch->id;
	control.align.cmsg_level = SOL_SOCKET;
	control.align.cmsg_type = SCM_RIGHTS;
	control.align.cmsg_len = CMSG_LEN(SPAWN_FDS * sizeof(int));
	memcpy(CMSG_DATA(&control.align), spec->fds, sizeof spec->fds);
	problem = send_packet(launcher, &message, 0);
	free(text);
	/* EPIPE: the supervisor has died; the reader thread ends this entry like all others. */
	if (problem && problem != EPIPE && problem != ECONNRESET) {
		pthread_mutex_lock(&launcher->lock);
		if (launcher->entries[launch->index].id == launch->id)
			free_entry(launcher, launch);
		pthread_mutex_unlock(&launcher->lock);
		return error_set(error, STATUS(INTERNAL), "cannot start %s: %s", spec->path, strerror(problem));
	}
	return true;
}

bool launcher_signal(struct launcher *launcher, const struct launch *launch, int signal_number)
{
	struct spawn_request request = {
	    .kind = SPAWN_SIGNAL, .index = launch->index, .id = launch->id, .value = signal_number};
	struct iovec iov = {.iov_base = &request, .iov_len = sizeof request};
	struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};
	bool dead;

	pthread_mutex_lock(&launcher->lock);
	dead = launcher->dead;
	pthread_mutex_unlock(&launcher->lock);
	return !dead && send_packet(launcher, &message, 0) == 0;
}

bool launcher_ended(struct launcher *launcher, const struct launch *launch, struct launch_end *end)
{
	struct entry *entry = &launcher->entries[launch->index];
	bool ended;

	pthread_mutex_lock(&launcher->lock);
	assert(entry->id == launch->id && entry->state != ENTRY_FREE);
	ended = entry->state == ENTRY_ENDED;
	if (ended) {
		*end = entry->end;
		free_entry(launcher, launch);
	}
	pthread_mutex_unlock(&launcher->lock);
	return ended;
}

struct lease *launcher_lease(struct launcher *launcher)
{
	return &launcher->shared->lease;
}

void launcher_kill(struct launcher *launcher)
{
	/* A stopped supervisor starts nothing more, and keeps its pid. */
	if (launcher->pidfd < 0 || pidfd_send_signal(launcher->pidfd, SIGSTOP, NULL, 0) < 0)
		return;
	descendants_kill(launcher->supervisor); /* they can be found as long as it exists */
	pidfd_send_signal(launcher->pidfd, SIGKILL, NULL, 0);
}

void launcher_renewed(struct launcher *launcher)
{
	struct lease *lease = &launcher->shared->lease;
	struct spawn_request request = {.kind = SPAWN_LEASE};
	struct iovec iov = {.iov_base = &request, .iov_len = sizeof request};
	struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};
	int64_t now_ms = clock_monotonic_ms();

	if (atomic_load(&lease->seen_ms) == launcher->sent_lease_ms)
		launcher->unseen_since_ms = now_ms;
	else if (now_ms - launcher->unseen_since_ms > SILENT_MS)
		launcher_kill(launcher);
	launcher->sent_lease_ms = atomic_load(&lease->watchdog_ms);
	/* A message that finds no room is not needed: a supervisor with that much to read wakes up anyway. */
	send_packet(launcher, &message, MSG_DONTWAIT);
}
