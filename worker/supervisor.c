/*
 * The supervisor. It has one thread and one loop over the socket to the worker, a signalfd for SIGCHLD, the worker's
 * pidfd, and the end of the lease. It reads the lease from memory shared with the worker whenever a decision depends on
 * it; the message that it has changed only wakes this process.
 *
 * Each handler leads a session and a process group of its own. Before the supervisor reaps an ended handler, it kills
 * the handler's group: while the handler is a zombie, its pid, and so the group's number, cannot be reused. Then it
 * kills the session's other groups, and reports the end when no process of the session is left; until then the session
 * keeps its number. All signals are blocked here. A handler also blocks them until just before it executes its program,
 * so that an early signal is not lost.
 */
#include "worker/supervisor.h"

#include "common/log.h"
#include "common/mem.h"
#include "worker/descendants.h"
#include "worker/supervisor_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* Each end of a handler takes time that grows with the number of the others. The supervisor must not be late for the
 * end of the lease, nor appear to hang, because thousands end at once. So it reaps this many before it does anything
 * else. */
enum { REAPS_MAX = 8 };

/* Signals the entire group. A child that has not yet created its session has no group, and no children either. */
static void signal_group(pid_t pid, int signal_number)
{
	if (pid <= 1) /* would signal every process */
		abort();
	if (kill(-pid, signal_number) < 0 && errno == ESRCH)
		kill(pid, signal_number);
}

/* Returns true if a child that has not been reaped has ended. */
static bool has_ended(const struct child *child)
{
	siginfo_t info = {.si_pid = 0};

	return waitid(P_PID, (id_t)child->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0;
}

/* Kills the group of every child that runs, then all descendants that have left these groups: it is unknown which
 * attempts they belong to. Returns true if a child was running. A child that has just ended on its own must not appear
 * to be killed for the lease. */
static bool kill_all(struct supervisor *supervisor)
{
	bool any = false;

	for (uint32_t i = 0; i < supervisor->used; i++) {
		struct child *child = &supervisor->children[i];

		if (!child->id || child->ended || child->lingers || child->lease || has_ended(child))
			continue;
		any = child->lease = true;
		signal_group(child->pid, SIGKILL);
	}
	descendants_kill(supervisor->pid);
	return any;
}

/* Exits because the worker has died or closed the socket. Kills everything first, unless the worker is alive and no
 * child runs: then processes left behind by earlier attempts may continue. */
static void __attribute__((noreturn)) finish(struct supervisor *supervisor)
{
	struct pollfd worker = {.fd = supervisor->worker, .events = POLLIN};

	if (poll(&worker, 1, 0) != 0 || supervisor->worker < 0 || supervisor->running)
		kill_all(supervisor);
	_exit(0);
}

void supervisor_child_ended(struct supervisor *supervisor, struct child *child, int status)
{
	child->status = status;
	child->ended = true;
	supervisor->running--;
	supervisor->unreported++;
}

/* Reports ended children to the worker, as far as the socket takes the messages. A worker that does not read must not
 * block the supervisor. */
static void report_ended(struct supervisor *supervisor)
{
	for (uint32_t i = 0; i < supervisor->used && supervisor->unreported; i++) {
		struct child *child = &supervisor->children[i];
		struct spawn_exit message = {.index = i,
		    .id = child->id,
		    .status = child->status,
		    .start_error = child->start_error,
		    .signalled = child->signalled,
		    .lease = child->lease};

		if (!child->id || !child->ended)
			continue;
		if (send(supervisor->socket, &message, sizeof message, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
			if (errno == EAGAIN || errno == EINTR)
				return;
			finish(supervisor);
		}
		child->id = 0;
		supervisor->unreported--;
	}
}

/* Kills the other processes of an ended handler's session, in any process group. The handler's children have become
 * children of this process; when these end, so do their own children. Returns true if a process has yet to end, or to
 * be reaped. One of another user, which this process may not kill, does not count. Without CONFIG_PROC_CHILDREN it does
 * nothing. */
static bool kill_session(pid_t session)
{
	FILE *children = fopen("/proc/thread-self/children", "re");
	bool left = false;
	pid_t pid, group;

	while (children && fscanf(children, "%d", &pid) == 1) {
		if (pid == session || getsid(pid) != session)
			continue;
		group = getpgid(pid);
		if (group > 1)
			kill(-group, SIGKILL);
		left |= kill(pid, SIGKILL) == 0;
	}
	if (children)
		fclose(children);
	return left;
}

/* Kills the session of a child that has ended, and reaps the child. Returns false if no child has ended. */
static bool reap_one(struct supervisor *supervisor)
{
	struct child *child = NULL;
	siginfo_t info = {.si_pid = 0};
	int status;

	if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0 || info.si_pid == 0)
		return false;
	for (uint32_t i = 0; i < supervisor->used && !child; i++)
		if (supervisor->children[i].pid == info.si_pid && supervisor->children[i].id && !supervisor->children[i].ended)
			child = &supervisor->children[i];
	if (child) {
		kill(-info.si_pid, SIGKILL);
		child->lingers = kill_session(info.si_pid);
	}
	if (waitpid(info.si_pid, &status, 0) != info.si_pid || !child)
		return true;
	child->start_error = atomic_load(&supervisor->shared->processes[child - supervisor->children].error);
	if (child->start_error == SPAWN_LEASE_OVER) {
		child->start_error = 0;
		child->lease = true;
	}
	child->status = status;
	if (child->lingers)
		supervisor->lingering++;
	else
		supervisor_child_ended(supervisor, child, status);
	return true;
}

/* Reaps children that have ended, up to REAPS_MAX. After the last it looks again at each session that still has
 * processes: the children of one that has ended must be killed, too. */
static void reap(struct supervisor *supervisor)
{
	supervisor->unreaped = true;
	for (int i = 0; i < REAPS_MAX && supervisor->unreaped; i++)
		supervisor->unreaped = reap_one(supervisor);
	if (supervisor->unreaped)
		return;
	for (uint32_t i = 0; i < supervisor->used && supervisor->lingering; i++) {
		struct child *child = &supervisor->children[i];

		if (!child->lingers || kill_session(child->pid))
			continue;
		child->lingers = false;
		supervisor->lingering--;
		supervisor_child_ended(supervisor, child, child->status);
	}
}

/* Kills the worker, because a C function runs in it although the lease is over. */
static void kill_worker(struct supervisor *supervisor)
{
	if (supervisor->worker_killed)
		return;
	supervisor->worker_killed = true;
	log_error("watchdog", "the lease is over and a function still runs: killing the worker, process %d",
	    (int)supervisor->parent);
	if (supervisor->worker >= 0)
		pidfd_send_signal(supervisor->worker, SIGKILL, NULL, 0);
	else if (getppid() == supervisor->parent)
		kill(supervisor->parent, SIGKILL);
}

/* Kills what must not outlive the lease, if it is over. Returns the timeout for poll. */
static int watchdog(struct supervisor *supervisor)
{
	struct lease *lease = &supervisor->shared->lease;
	int64_t end_ms = atomic_load(&lease->watchdog_ms), left_ms = end_ms - clock_monotonic_ms();

	atomic_store(&lease->seen_ms, end_ms);
	if (left_ms > 0)
		return left_ms < 3600 * 1000 ? (int)left_ms : 3600 * 1000;
	if (end_ms != supervisor->over_ms) {
		supervisor->over_ms = end_ms;
		if (kill_all(supervisor))
			log_warn("watchdog", "the lease is over: killed what ran");
	}
	/* A function that has started since then runs under a new lease, which was set before it started. */
	if (atomic_load(&lease->functions) && lease_watchdog_acts(lease))
		kill_worker(supervisor);
	return -1; /* nothing starts before there is a new lease, and that comes with a message */
}

/* Signals the group of a process that has not ended. */
static void signal_child(struct supervisor *supervisor, const struct spawn_request *request)
{
	struct child *child;

	if (request->index >= SPAWN_MAX)
		abort();
	child = &supervisor->children[request->index];
	/* A child that has just ended on its own must not appear to be ended by the signal. */
	if (child->id != request->id || child->ended || child->lingers || has_ended(child))
		return;
	child->signalled = true;
	signal_group(child->pid, (int)request->value);
}

/* Sets when a process's group is killed. */
static void set_end(struct supervisor *supervisor, const struct spawn_request *request)
{
	struct child *child;

	if (request->index >= SPAWN_MAX)
		abort();
	child = &supervisor->children[request->index];
	if (child->id != request->id || child->ended)
		return;
	child->end_ms = request->value;
	if (request->value < supervisor->next_end_ms)
		supervisor->next_end_ms = request->value;
}

/* Kills the groups whose time has come. Returns the timeout for poll, up to `left_ms` (−1: no limit). */
static int kill_due(struct supervisor *supervisor, int left_ms)
{
	int64_t now_ms = clock_monotonic_ms(), until_ms;

	if (supervisor->next_end_ms <= now_ms) {
		supervisor->next_end_ms = INT64_MAX;
		for (uint32_t i = 0; i < supervisor->used; i++) {
			struct child *child = &supervisor->children[i];

			if (!child->id || child->ended || !child->end_ms)
				continue;
			if (child->end_ms <= now_ms) {
				child->end_ms = 0;
				signal_group(child->pid, SIGKILL);
			} else if (child->end_ms < supervisor->next_end_ms) {
				supervisor->next_end_ms = child->end_ms;
			}
		}
	}
	until_ms = supervisor->next_end_ms - now_ms;
	return left_ms >= 0 && left_ms <= until_ms ? left_ms : until_ms < 3600 * 1000 ? (int)until_ms : left_ms;
}

/* Executes the request of one packet. */
static void execute(struct supervisor *supervisor, size_t length, const int fds[SPAWN_FDS])
{
	struct spawn_request request;

	if (length < sizeof request)
		abort();
	memcpy(&request, supervisor->packet, sizeof request);
	switch (request.kind) {
	case SPAWN_START: supervisor_start(supervisor, length, fds); break;
	case SPAWN_SIGNAL: signal_child(supervisor, &request); break;
	case SPAWN_END: set_end(supervisor, &request); break;
	case SPAWN_LEASE: /* the watchdog reads it */ break;
	default: abort();
	}
}

/* Reads one packet if there is one, executes its request, and closes the descriptors that came with it. */
static void read_packet(struct supervisor *supervisor)
{
	union {
		char bytes[CMSG_SPACE(SPAWN_FDS * sizeof(int))];
		struct cmsghdr align;
	} control;
	struct iovec iov = {.iov_base = supervisor->packet, .iov_len = sizeof supervisor->packet};
	struct msghdr message = {
	    .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
	struct cmsghdr *header;
	int fds[SPAWN_FDS] = {-1, -1, -1, -1};
	ssize_t length = recvmsg(supervisor->socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);

	if (length < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (length <= 0)
		finish(supervisor);
	header = CMSG_FIRSTHDR(&message);
	if (header && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS)
		memcpy(fds, CMSG_DATA(header), header->cmsg_len - CMSG_LEN(0));
	execute(supervisor, (size_t)length, fds);
	for (int i = 0; i < SPAWN_FDS; i++)
		if (fds[i] >= 0)
			close(fds[i]);
}

/* Closes everything but the socket (moved to descriptor 3) and standard error, and opens the worker's pidfd.
 * Descriptors 0 and 1 become /dev/null. */
static void close_others(struct supervisor *supervisor)
{
	int null = open("/dev/null", O_RDWR);
	int moved = fcntl(supervisor->socket, F_DUPFD_CLOEXEC, 64);

	if (null < 0 || moved < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 ||
	    (fcntl(2, F_GETFD) < 0 && dup2(null, 2) < 0) || dup3(moved, 3, O_CLOEXEC) < 0 || close_range(4, ~0U, 0) < 0)
		_exit(1);
	supervisor->socket = 3;
	supervisor->worker = pidfd_open(supervisor->parent, 0);
	if (getppid() != supervisor->parent) /* the worker has died, and its pid may have been reused */
		_exit(1);
}

/* Blocks every signal that another process can send, and routes SIGCHLD to a descriptor. */
static void block_signals(struct supervisor *supervisor)
{
	static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS};
	sigset_t blocked, children;

	sigfillset(&blocked);
	for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
		sigdelset(&blocked, faults[i]);
	sigprocmask(SIG_SETMASK, &blocked, NULL);
	/* A blocked signal stays pending unless it is ignored, as SIGCHLD may be in the worker. */
	for (int i = 1; i < NSIG; i++)
		if (sigismember(&blocked, i) == 1)
			signal(i, SIG_DFL);
	sigemptyset(&children);
	sigaddset(&children, SIGCHLD);
	supervisor->signals = signalfd(-1, &children, SFD_CLOEXEC | SFD_NONBLOCK);
	if (supervisor->signals < 0)
		_exit(1);
}

static void drain_signals(struct supervisor *supervisor)
{
	struct signalfd_siginfo ignored[16];

	while (read(supervisor->signals, ignored, sizeof ignored) > 0)
		;
}

/* Sets the name that `ps` shows, to distinguish this process from the worker. `ps` also shows the worker's arguments,
 * of which this replaces the first, but only in the memory where the kernel put it: a program may have pointed to a
 * name of its own that cannot be written. */
static void show_name(const char *name)
{
	enum { ARGUMENTS_MAX = 6 << 20 }; /* the kernel's limit of arguments and environment together */
	uintptr_t at = (uintptr_t)program_invocation_name, end = getauxval(AT_EXECFN);

	prctl(PR_SET_NAME, name);
	for (char *to = program_invocation_name; at < end && end - at < ARGUMENTS_MAX && *to; to++)
		*to = *name ? *name++ : '\0';
}

/* Puts this process before all ordinary ones, so that the watchdog acts in time on a host without free CPU. That needs
 * root, CAP_SYS_NICE or RLIMIT_RTPRIO; without them it is scheduled as the worker is. The programs do not inherit it.
 */
static void take_precedence(struct supervisor *supervisor)
{
	struct sched_param lowest = {.sched_priority = sched_get_priority_min(SCHED_RR)};

	supervisor->policy = sched_getscheduler(0);
	supervisor->niceness = getpriority(PRIO_PROCESS, 0);
	if (supervisor->policy == SCHED_OTHER || supervisor->policy == SCHED_BATCH || supervisor->policy == SCHED_IDLE)
		sched_setscheduler(0, SCHED_RR | SCHED_RESET_ON_FORK, &lowest);
}

static void __attribute__((noreturn)) serve(int socket, struct spawn_shared *shared, pid_t parent)
{
	static struct supervisor supervisor;
	struct pollfd ready[3];
	int left_ms;

	setsid(); /* Ctrl-C in a terminal is for the worker */
	show_name("reeve-supervisor");
	prctl(PR_SET_CHILD_SUBREAPER, 1); /* descendants that lose their parent stay ours */
	supervisor.socket = socket;
	supervisor.shared = shared;
	supervisor.parent = parent;
	supervisor.pid = getpid();
	supervisor.next_end_ms = INT64_MAX;
	take_precedence(&supervisor);
	close_others(&supervisor);
	block_signals(&supervisor);
	supervisor_take_environment(&supervisor);
	supervisor.children = mem_calloc(SPAWN_MAX, sizeof *supervisor.children);
	for (;;) {
		left_ms = kill_due(&supervisor, watchdog(&supervisor));
		ready[0] = (struct pollfd){.fd = supervisor.socket, .events = POLLIN | (supervisor.unreported ? POLLOUT : 0)};
		ready[1] = (struct pollfd){.fd = supervisor.signals, .events = POLLIN};
		ready[2] = (struct pollfd){.fd = supervisor.worker, .events = POLLIN};
		if (poll(ready, 3, supervisor.unreaped ? 0 : left_ms) < 0)
			continue;
		if (ready[2].revents)
			finish(&supervisor);
		if (ready[1].revents)
			drain_signals(&supervisor);
		if (ready[1].revents || supervisor.unreaped)
			reap(&supervisor);
		if (ready[0].revents & (POLLIN | POLLHUP | POLLERR))
			read_packet(&supervisor);
		report_ended(&supervisor);
	}
}

pid_t supervisor_fork(int *socket, struct spawn_shared *shared)
{
	pid_t pid, parent = getpid();
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -1;
	pid = fork();
	if (pid == 0) {
		close(pair[0]);
		serve(pair[1], shared, parent);
	}
	close(pair[1]);
	if (pid < 0) {
		int saved = errno;

		close(pair[0]);
		errno = saved;
		return -1;
	}
	*socket = pair[0];
	return pid;
}
