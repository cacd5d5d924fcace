/*
 * A table of processes, a lock, and a thread that reads the supervisor's messages. A request is a single packet, so any
 * thread can send one.
 */
#include "worker/supervisor_client.h"

#include "common/mem.h"
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

enum entry_state {
	ENTRY_FREE,
	ENTRY_RUNNING,
	ENTRY_RETIRED, /* runs, and no thread follows it */
	ENTRY_ENDED,
};

struct entry {
	enum entry_state state;
	int event_fd;
	uint64_t id;
	int64_t end_ms; /* of a retired process: when it is killed, if the supervisor is still to hear that; or 0 */
	struct spawn_end end;
};

struct supervisor_client {
	int socket;
	pid_t supervisor;
	int pidfd; /* of the supervisor; −1: the kernel has none */
	struct spawn_shared *shared;
	pthread_t reader;
	bool watched;
	void (*died)(void *arg);
	void *died_arg;
	int64_t sent_lease_ms;   /* the watchdog_ms of which the supervisor was last notified */
	int64_t unseen_since_ms; /* the last renewal at which it had read it */

	pthread_mutex_t lock; /* guards the fields below */
	pthread_cond_t freed; /* a retired process has ended */
	struct entry *entries;
	uint32_t *free_indices;
	uint32_t free_count;
	uint64_t last_id;
	int64_t retired_ms; /* when the last retired process is killed; 0: none was retired */
	uint32_t unsent;    /* entries with an end_ms */
	bool closing;       /* we are ending the supervisor */
	bool dead;
};

struct supervisor_client *supervisor_client_create(struct reeve_error *error)
{
	struct supervisor_client *client = mem_calloc(1, sizeof *client);
	pthread_condattr_t monotonic;

	client->shared = mmap(NULL, sizeof *client->shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	client->supervisor = client->shared == MAP_FAILED ? -1 : supervisor_fork(&client->socket, client->shared);
	if (client->supervisor < 0) {
		error_set(error, STATUS(INTERNAL), "cannot fork the supervisor process: %s", strerror(errno));
		if (client->shared != MAP_FAILED)
			munmap(client->shared, sizeof *client->shared);
		free(client);
		return NULL;
	}
	client->pidfd = pidfd_open(client->supervisor, 0);
	pthread_mutex_init(&client->lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&client->freed, &monotonic);
	pthread_condattr_destroy(&monotonic);
	client->entries = mem_calloc(SPAWN_MAX, sizeof *client->entries);
	client->free_indices = mem_calloc(SPAWN_MAX, sizeof *client->free_indices);
	while (client->free_count < SPAWN_MAX) {
		client->free_indices[client->free_count] = SPAWN_MAX - 1 - client->free_count;
		client->free_count++;
	}
	return client;
}

/* Wakes the thread that waits for an entry's process. */
static void notify(const struct entry *entry)
{
	uint64_t one = 1;
	ssize_t written = entry->event_fd < 0 ? (ssize_t)sizeof one : write(entry->event_fd, &one, sizeof one);

	assert(written == sizeof one || errno == EAGAIN);
	(void)written;
}

static void free_entry(struct supervisor_client *client, uint32_t index)
{
	client->unsent -= client->entries[index].end_ms != 0;
	client->entries[index].end_ms = 0;
	client->entries[index].state = ENTRY_FREE;
	client->free_indices[client->free_count++] = index;
}

/* Sends one packet. Returns 0 or an errno. */
static int send_packet(struct supervisor_client *client, const struct msghdr *message, int flags)
{
	while (sendmsg(client->socket, message, MSG_NOSIGNAL | flags) < 0)
		if (errno != EINTR)
			return errno;
	return 0;
}

/* Tells the supervisor when retired processes are killed, as far as the socket takes the messages: a burst of starts
 * fills it. Never blocks. Called with the lock. */
static void send_ends(struct supervisor_client *client)
{
	for (uint32_t i = 0; i < SPAWN_MAX && client->unsent; i++) {
		struct entry *entry = &client->entries[i];
		struct spawn_request request = {.kind = SPAWN_END, .index = i, .id = entry->id, .value = entry->end_ms};
		struct iovec iov = {.iov_base = &request, .iov_len = sizeof request};
		struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};

		if (!entry->end_ms)
			continue;
		if (send_packet(client, &message, MSG_DONTWAIT) != 0)
			return;
		entry->end_ms = 0;
		client->unsent--;
	}
}

static void on_exit_message(struct supervisor_client *client, const struct spawn_exit *message)
{
	struct entry *entry;

	assert(message->index < SPAWN_MAX);
	pthread_mutex_lock(&client->lock);
	entry = &client->entries[message->index];
	assert((entry->state == ENTRY_RUNNING || entry->state == ENTRY_RETIRED) && entry->id == message->id);
	send_ends(client); /* it reads again */
	if (entry->state == ENTRY_RETIRED) {
		free_entry(client, message->index);
		pthread_cond_signal(&client->freed);
		pthread_mutex_unlock(&client->lock);
		return;
	}
	entry->state = ENTRY_ENDED;
	entry->end = (struct spawn_end){.status = message->status,
	    .start_error = message->start_error,
	    .signalled = message->signalled != 0,
	    .lease = message->lease != 0};
	notify(entry);
	pthread_mutex_unlock(&client->lock);
}

/* Kills the sessions of the processes that ran when the supervisor died. They die with it, but not their descendants.
 * Their numbers cannot have been reused so soon. Called with the lock. */
static void kill_sessions(struct supervisor_client *client)
{
	pid_t *sessions = mem_calloc(SPAWN_MAX, sizeof *sessions);
	size_t count = 0;

	for (uint32_t i = 0; i < SPAWN_MAX; i++) {
		enum entry_state state = client->entries[i].state;
		pid_t pid =
		    state == ENTRY_RUNNING || state == ENTRY_RETIRED ? atomic_load(&client->shared->processes[i].pid) : 0;

		if (pid > 1) {
			kill(-pid, SIGKILL);
			sessions[count++] = pid;
		}
	}
	sessions_kill(sessions, count);
	free(sessions);
}

/* Handles the end of the supervisor. The worker hears of an unexpected one before the attempts do: it must not fetch
 * one of them again. */
static void on_death(struct supervisor_client *client)
{
	siginfo_t info;
	bool closing;

	/* The supervisor closes the socket before the kernel signals its children: wait until it has ended completely. */
	while (waitid(P_PID, (id_t)client->supervisor, &info, WEXITED | WNOWAIT) < 0 && errno == EINTR)
		;
	pthread_mutex_lock(&client->lock);
	client->dead = true;
	kill_sessions(client);
	for (uint32_t i = 0; i < SPAWN_MAX; i++) {
		struct entry *entry = &client->entries[i];

		if (entry->state != ENTRY_RUNNING && entry->state != ENTRY_RETIRED)
			continue;
		if (entry->state == ENTRY_RETIRED) {
			free_entry(client, i);
			continue;
		}
		entry->state = ENTRY_ENDED;
		entry->end = (struct spawn_end){.lost = true, .begun = atomic_load(&client->shared->processes[i].pid) != 0};
	}
	closing = client->closing;
	pthread_cond_signal(&client->freed);
	pthread_mutex_unlock(&client->lock);
	if (!closing)
		client->died(client->died_arg);
	pthread_mutex_lock(&client->lock);
	for (uint32_t i = 0; i < SPAWN_MAX; i++)
		if (client->entries[i].state == ENTRY_ENDED)
			notify(&client->entries[i]);
	pthread_mutex_unlock(&client->lock);
}

static void *read_exits(void *arg)
{
	struct supervisor_client *client = arg;
	struct spawn_exit message;
	ssize_t length;

	for (;;) {
		length = recv(client->socket, &message, sizeof message, 0);
		if (length == sizeof message)
			on_exit_message(client, &message);
		else if (length >= 0 || errno != EINTR)
			break;
	}
	on_death(client);
	return NULL;
}

bool supervisor_client_watch(
    struct supervisor_client *client, void (*died)(void *arg), void *arg, struct reeve_error *error)
{
	sigset_t all, before;
	int problem;

	client->died = died;
	client->died_arg = arg;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	problem = pthread_create(&client->reader, NULL, read_exits, client);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (problem)
		return error_set(error, STATUS(INTERNAL), "cannot start a thread: %s", strerror(problem));
	client->watched = true;
	return true;
}

/* Waits until the retired processes have ended; the supervisor, unless it hangs, kills those that do not. Called with
 * the lock. */
static void await_retired(struct supervisor_client *client)
{
	int64_t until_ms = client->retired_ms + END_MS;
	struct timespec until = {.tv_sec = until_ms / 1000, .tv_nsec = until_ms % 1000 * 1000000};

	while (client->retired_ms && client->free_count < SPAWN_MAX)
		if (pthread_cond_timedwait(&client->freed, &client->lock, &until) != 0)
			return;
	assert(client->free_count == SPAWN_MAX);
}

void supervisor_client_destroy(struct supervisor_client *client)
{
	if (!client)
		return;
	pthread_mutex_lock(&client->lock);
	await_retired(client);
	client->closing = true;
	pthread_mutex_unlock(&client->lock);
	shutdown(client->socket, SHUT_RDWR);
	if (client->pidfd >= 0) {
		struct pollfd gone = {.fd = client->pidfd, .events = POLLIN};

		while (poll(&gone, 1, END_MS) < 0 && errno == EINTR)
			;
		pidfd_send_signal(client->pidfd, SIGKILL, NULL, 0); /* unless it has ended */
		close(client->pidfd);
	}
	if (client->watched)
		pthread_join(client->reader, NULL);
	close(client->socket);
	while (waitpid(client->supervisor, NULL, 0) < 0 && errno == EINTR)
		;
	pthread_cond_destroy(&client->freed);
	pthread_mutex_destroy(&client->lock);
	munmap(client->shared, sizeof *client->shared);
	free(client->entries);
	free(client->free_indices);
	free(client);
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
static size_t write_strings(const struct spawn_spec *spec, char *text, struct spawn_request *request)
{
	size_t used = 0;

	if (!append(text, &used, spec->path) || !append(text, &used, spec->directory ? spec->directory : "") ||
	    !append(text, &used, spec->user ? spec->user : ""))
		return 0;
	for (; spec->arguments[request->arguments]; request->arguments++)
		if (request->arguments == SPAWN_ARGUMENTS_MAX || !append(text, &used, spec->arguments[request->arguments]))
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
static bool take_entry(struct supervisor_client *client, int event_fd, struct spawned *spawned)
{
	bool taken = false;

	pthread_mutex_lock(&client->lock);
	if (client->free_count && !client->dead) {
		spawned->index = client->free_indices[--client->free_count];
		spawned->id = ++client->last_id;
		client->entries[spawned->index] =
		    (struct entry){.state = ENTRY_RUNNING, .event_fd = event_fd, .id = spawned->id};
		atomic_store(&client->shared->processes[spawned->index].pid, 0);
		atomic_store(&client->shared->processes[spawned->index].error, 0);
		taken = true;
	}
	pthread_mutex_unlock(&client->lock);
	return taken;
}

bool supervisor_client_start(
    struct supervisor_client *client, const struct spawn_spec *spec, struct spawned *spawned, struct reeve_error *error)
{
	struct spawn_request request = {.kind = SPAWN_START, .value = spec->latest_ms};
	union {
		char bytes[CMSG_SPACE(SPAWN_FDS * sizeof(int))];
		struct cmsghdr align;
	} control = {{0}};
	char *text = mem_malloc(SPAWN_TEXT_MAX);
	struct iovec iov[2] = {{.iov_base = &request, .iov_len = sizeof request}, {.iov_base = text}};
	struct msghdr message = {
	    .msg_iov = iov, .msg_iovlen = 2, .msg_control = &control, .msg_controllen = sizeof control};
	int problem;

	iov[1].iov_len = write_strings(spec, text, &request);
	if (!iov[1].iov_len) {
		free(text);
		return error_set(error, STATUS(INVALID_ARGUMENT), "cannot start %s: its arguments are too long", spec->path);
	}
	if (!take_entry(client, spec->event_fd, spawned)) {
		free(text);
		return error_set(error, STATUS(UNAVAILABLE), "the worker's supervisor process has died");
	}
	request.index = spawned->index;
	request.id = spawned->id;
	while (request.fds < SPAWN_FDS && spec->fds[request.fds] >= 0)
		request.fds++;
	control.align.cmsg_level = SOL_SOCKET;
	control.align.cmsg_type = SCM_RIGHTS;
	control.align.cmsg_len = CMSG_LEN(request.fds * sizeof(int));
	memcpy(CMSG_DATA(&control.align), spec->fds, request.fds * sizeof(int));
	message.msg_controllen = CMSG_SPACE(request.fds * sizeof(int));
	problem = send_packet(client, &message, 0);
	free(text);
	/* EPIPE: the supervisor has died; the reader thread ends this entry like all others. */
	if (problem && problem != EPIPE && problem != ECONNRESET) {
		pthread_mutex_lock(&client->lock);
		if (client->entries[spawned->index].id == spawned->id)
			free_entry(client, spawned->index);
		pthread_mutex_unlock(&client->lock);
		return error_set(error, STATUS(INTERNAL), "cannot start %s: %s", spec->path, strerror(problem));
	}
	return true;
}

bool supervisor_client_signal(struct supervisor_client *client, const struct spawned *spawned, int signal_number)
{
	struct spawn_request request = {
	    .kind = SPAWN_SIGNAL, .index = spawned->index, .id = spawned->id, .value = signal_number};
	struct iovec iov = {.iov_base = &request, .iov_len = sizeof request};
	struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};
	bool dead;

	pthread_mutex_lock(&client->lock);
	dead = client->dead;
	pthread_mutex_unlock(&client->lock);
	return !dead && send_packet(client, &message, 0) == 0;
}

void supervisor_client_follow(struct supervisor_client *client, const struct spawned *spawned, int event_fd)
{
	struct entry *entry = &client->entries[spawned->index];

	pthread_mutex_lock(&client->lock);
	assert(entry->id == spawned->id && entry->state != ENTRY_FREE);
	entry->event_fd = event_fd;
	pthread_mutex_unlock(&client->lock);
}

void supervisor_client_retire(struct supervisor_client *client, const struct spawned *spawned, int64_t grace_ms)
{
	struct entry *entry = &client->entries[spawned->index];

	pthread_mutex_lock(&client->lock);
	assert(entry->id == spawned->id && (entry->state == ENTRY_RUNNING || entry->state == ENTRY_ENDED));
	if (entry->state == ENTRY_RUNNING) {
		entry->state = ENTRY_RETIRED;
		entry->end_ms = clock_monotonic_ms() + grace_ms;
		client->unsent++;
		if (entry->end_ms > client->retired_ms)
			client->retired_ms = entry->end_ms;
		send_ends(client);
	} else {
		free_entry(client, spawned->index);
	}
	pthread_mutex_unlock(&client->lock);
}

bool supervisor_client_ended(struct supervisor_client *client, const struct spawned *spawned, struct spawn_end *end)
{
	struct entry *entry = &client->entries[spawned->index];
	bool ended;

	pthread_mutex_lock(&client->lock);
	assert(entry->id == spawned->id && entry->state != ENTRY_FREE);
	ended = entry->state == ENTRY_ENDED;
	if (ended) {
		*end = entry->end;
		free_entry(client, spawned->index);
	}
	pthread_mutex_unlock(&client->lock);
	return ended;
}

struct lease *supervisor_client_lease(struct supervisor_client *client)
{
	return &client->shared->lease;
}

void supervisor_client_kill(struct supervisor_client *client)
{
	/* A stopped supervisor starts nothing more, and keeps its pid. */
	if (client->pidfd < 0 || pidfd_send_signal(client->pidfd, SIGSTOP, NULL, 0) < 0)
		return;
	descendants_kill(client->supervisor); /* they can be found as long as it exists */
	pidfd_send_signal(client->pidfd, SIGKILL, NULL, 0);
}

void supervisor_client_renewed(struct supervisor_client *client)
{
	struct lease *lease = &client->shared->lease;
	struct spawn_request request = {.kind = SPAWN_LEASE};
	struct iovec iov = {.iov_base = &request, .iov_len = sizeof request};
	struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};
	int64_t now_ms = clock_monotonic_ms(), renewed_ms = atomic_load(&lease->watchdog_ms);
	int64_t seen_ms = atomic_load(&lease->seen_ms);

	/* It may have read this renewal already: it reads the lease for every event. */
	if (seen_ms == client->sent_lease_ms || seen_ms == renewed_ms)
		client->unseen_since_ms = now_ms;
	else if (now_ms - client->unseen_since_ms > SILENT_MS)
		supervisor_client_kill(client);
	client->sent_lease_ms = renewed_ms;
	/* A message that finds no space is not needed: a supervisor with that much to read wakes up anyway. */
	send_packet(client, &message, MSG_DONTWAIT);
	pthread_mutex_lock(&client->lock);
	send_ends(client);
	pthread_mutex_unlock(&client->lock);
}
