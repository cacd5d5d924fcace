/*
 * `reeve dev`: the full system on one machine, in the foreground, with one command. It starts PostgreSQL, then the
 * manager and, once that answers, the workers; it stops them in the reverse order. All are children that the kernel
 * kills when this process ends, so that none remains even if this process is killed.
 */
#include "client/cmd/command.h"
#include "client/cmd/dev_members.h"
#include "client/cmd/dev_token.h"
#include "common/clock.h"
#include "common/limits.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/programs.h"
#include "manager/embedded/child.h"
#include "manager/embedded/embedded.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	MAX_WORKERS = 256,
	ANSWER_MS = 60000,       /* maximum time until the manager's first answer */
	WORKERS_STOP_MS = 60000, /* a worker gives its handlers 30 s, and needs some more */
	MANAGER_STOP_MS = 15000,
};

struct dev_options {
	const char *data;
	int64_t workers;
	int64_t concurrency;
	const char *handlers;
	const char *listen;
	const char *http;
};

static const char usual_url[] = "tcp://127.0.0.1:7171", usual_http[] = "http://127.0.0.1:7172";

#define AT(member) OPTION_AT(struct dev_options, member)

static const struct option_spec specs[] = {
    OPT_TEXT(0, "data", AT(data), "DIR",
        "folder for the data; created if necessary. Default: $XDG_DATA_HOME/reeve/dev, ~/.local/share/reeve/dev, as root "
        "/var/lib/reeve/dev"),
    OPT_INTEGER(0, "workers", AT(workers), 0, MAX_WORKERS, "N", "number of worker processes", .default_value = "1"),
    OPT_INTEGER(0, "concurrency", AT(concurrency), 1, LIMIT_CONCURRENCY, "N",
        "maximum number of tasks that each worker runs at the same time", .default_value = "4"),
    OPT_TEXT(0, "handlers", AT(handlers), "FILE",
        "handlers file, as for reeve-worker. Default: DIR/handlers.ini, which is created with examples"),
    OPT_TEXT(0, "listen", AT(listen), "URL", "address on which the manager listens", .default_value = usual_url),
    OPT_TEXT(0, "http", AT(http), "URL",
        "address of the dashboard, and of calls by HTTP. Default: http://127.0.0.1:7172; none with another --listen"),
    {0},
};

static const struct option_table table = {
    .program = "reeve dev",
    .usage = "[--data DIR] [--workers N] [--concurrency N] [--handlers FILE] [--listen URL] [--http URL]",
    .summary = "Runs a complete Reeve in the foreground: a private PostgreSQL in DIR, a manager and workers. Ctrl-C "
               "stops everything in order; a second one does not wait for running tasks. The next start with the same "
               "DIR continues with the same tasks. SIGHUP makes the workers read their handlers file again.",
    .specs = specs,
};

static const char sample_handlers[] =
    "# Which program runs a task, by the task's type. The task's details are its standard\n"
    "# input; what it writes to standard output is the result. `reeve dev` reads this\n"
    "# file when it starts, and again after SIGHUP.\n"
    "\n"
    "[handler echo]\n"
    "exec = /bin/cat\n"
    "\n"
    "[handler sha256]\n"
    "exec = /usr/bin/sha256sum\n";

struct dev {
	struct dev_options options;
	char data[PATH_MAX];
	char handlers[PATH_MAX + 16];
	char url[256];       /* at which clients and workers reach the manager */
	char *token_path;    /* of the file with the access token for that */
	char self[PATH_MAX]; /* the path of this program */
	char manager_path[PATH_MAX];
	char worker_path[PATH_MAX];
	char concurrency[24];
	int stop_fd;   /* readable on a signal to stop */
	int child_fd;  /* readable when a child has ended */
	int hangup_fd; /* readable after SIGHUP */
	bool terminal; /* it began on a terminal, and ends with it */
	struct embedded *postgres;
	struct member manager;
	struct member workers[MAX_WORKERS];
};

/* Finds a program in this program's directory, or in PATH. */
static bool find_program(const struct dev *dev, const char *name, char path[PATH_MAX], struct reeve_error *error)
{
	const char *slash = strrchr(dev->self, '/');
	int folder = slash ? (int)(slash - dev->self) : 0;
	char *found;

	if (snprintf(path, PATH_MAX, "%.*s/%s", folder, dev->self, name) < PATH_MAX && program_exists(path))
		return true;
	found = program_in_path(name);
	if (found && snprintf(path, PATH_MAX, "%s", found) < PATH_MAX) {
		free(found);
		return true;
	}
	free(found);
	return error_set(error, STATUS(NOT_FOUND),
	    "%s was found neither next to %s nor in PATH: install it, or add its folder to PATH", name, dev->self);
}

/* Sets the data directory. If root starts PostgreSQL, it runs as another user, who cannot enter root's home. */
static bool choose_data(struct dev *dev, struct reeve_error *error)
{
	const char *given = dev->options.data, *xdg = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
	int length;

	if (given)
		length = snprintf(dev->data, sizeof dev->data, "%s", given);
	else if (xdg && xdg[0] == '/')
		length = snprintf(dev->data, sizeof dev->data, "%s/reeve/dev", xdg);
	else if (geteuid() == 0)
		length = snprintf(dev->data, sizeof dev->data, "/var/lib/reeve/dev");
	else if (home && home[0] == '/')
		length = snprintf(dev->data, sizeof dev->data, "%s/.local/share/reeve/dev", home);
	else
		return error_set(error, STATUS(INVALID_ARGUMENT), "HOME is not set: say with --data where to keep the data");
	if (length == 0 || (size_t)length >= sizeof dev->data)
		return error_set(error, STATUS(INVALID_ARGUMENT), "--data is empty or too long");
	if (dev->options.handlers)
		snprintf(dev->handlers, sizeof dev->handlers, "%s", dev->options.handlers);
	else
		snprintf(dev->handlers, sizeof dev->handlers, "%s/handlers.ini", dev->data);
	return true;
}

/* Sets the URL for clients and workers: the first one to listen on, with 127.0.0.1 for `*` (all addresses). */
static bool choose_url(struct dev *dev, struct reeve_error *error)
{
	size_t length = strcspn(dev->options.listen, ",");
	const char *star = memchr(dev->options.listen, '*', length);
	size_t head = star ? (size_t)(star - dev->options.listen) : length;

	if (length == 0 || length > sizeof dev->url - 16)
		return error_set(error, STATUS(INVALID_ARGUMENT), "--listen is empty or too long");
	snprintf(dev->url, sizeof dev->url, "%.*s%s%.*s", (int)head, dev->options.listen, star ? "127.0.0.1" : "",
	    star ? (int)(length - head - 1) : 0, star ? star + 1 : "");
	return true;
}

static bool prepare(struct dev *dev, struct reeve_error *error)
{
	ssize_t length = readlink("/proc/self/exe", dev->self, sizeof dev->self - 1);

	dev->self[length > 0 ? length : 0] = '\0';
	snprintf(dev->concurrency, sizeof dev->concurrency, "%lld", (long long)dev->options.concurrency);
	if (!dev->options.http && strcmp(dev->options.listen, usual_url) == 0)
		dev->options.http = usual_http;
	return choose_data(dev, error) && choose_url(dev, error) &&
	    find_program(dev, "reeve-manager", dev->manager_path, error) &&
	    find_program(dev, "reeve-worker", dev->worker_path, error);
}

/* Returns true if this process has a terminal. When that is closed, the kernel sends SIGHUP and takes it away. */
static bool on_terminal(void)
{
	int fd = open("/dev/tty", O_RDONLY | O_NOCTTY | O_CLOEXEC);

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

/* Blocks the signals and returns a descriptor that is readable when one of them arrives. */
static int catch (const sigset_t *signals)
{
	sigprocmask(SIG_BLOCK, signals, NULL);
	return signalfd(-1, signals, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* Turns the signals for ended children, stop and reload into readable file descriptors. */
static bool catch_signals(struct dev *dev, struct reeve_error *error)
{
	sigset_t stop, child, hangup;
	struct sigaction before;

	sigemptyset(&stop);
	sigaddset(&stop, SIGINT);
	sigaddset(&stop, SIGTERM);
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	sigemptyset(&hangup);
	sigaddset(&hangup, SIGHUP);
	/* Under nohup, which ignores SIGHUP, the program outlives its terminal. */
	dev->terminal = on_terminal() && sigaction(SIGHUP, NULL, &before) == 0 && before.sa_handler != SIG_IGN;
	signal(SIGPIPE, SIG_IGN);
	dev->stop_fd = catch (&stop);
	dev->child_fd = catch (&child);
	dev->hangup_fd = catch (&hangup);
	signal(SIGHUP, SIG_DFL); /* an ignored signal would not arrive at the descriptor */
	if (dev->stop_fd < 0 || dev->child_fd < 0 || dev->hangup_fd < 0)
		return error_set(error, STATUS(INTERNAL), "signalfd: %s", strerror(errno));
	return true;
}

static bool stop_wanted(const struct dev *dev)
{
	struct pollfd stop = {.fd = dev->stop_fd, .events = POLLIN};

	return poll(&stop, 1, 0) > 0;
}

/* Reads pending signals, so that the descriptor becomes readable only for later ones. */
static void take_signals(int fd)
{
	struct signalfd_siginfo info;

	while (read(fd, &info, sizeof info) == sizeof info)
		continue;
}

/* Creates the example handlers file, unless there is a file already. */
static bool make_handlers(struct dev *dev, struct reeve_error *error)
{
	if (dev->options.handlers)
		return true;
	int fd = open(dev->handlers, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	if (fd < 0 && errno == EEXIST)
		return true;
	bool written = fd >= 0 && write(fd, sample_handlers, sizeof sample_handlers - 1) == sizeof sample_handlers - 1;
	if (!written)
		error_set(error, STATUS(PERMISSION_DENIED), "cannot write %s: %s", dev->handlers, strerror(errno));
	if (fd >= 0)
		close(fd);
	return written;
}

/* Lets a worker check the handlers file, if that exists; the worker reports what is invalid. Returns the exit code. */
static int check_handlers(const struct dev *dev)
{
	const char *argv[] = {dev->worker_path, "--check", "--handlers", dev->handlers, NULL};
	struct child_spec spec = {.argv = argv, .input = -1, .output = -1, .death_signal = SIGKILL};
	struct reeve_error error = {0};
	int status;
	pid_t pid;

	if (!dev->options.handlers && access(dev->handlers, F_OK) != 0)
		return EXIT_OK;
	pid = child_start(&spec, &error);
	if (pid < 0) {
		log_error(NULL, "%s", error.message);
		return EXIT_TASK_FAILED;
	}
	child_wait(pid, -1, -1, &status);
	return WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_TASK_FAILED;
}

/* Logs that a member ended during the start, and returns the exit code: a restart would not help. */
static int early_end(const struct member *member)
{
	char ending[64];

	log_error(member->name, "%s", child_ending(member->status, ending, sizeof ending));
	return WIFEXITED(member->status) && WEXITSTATUS(member->status) ? WEXITSTATUS(member->status) : EXIT_TASK_FAILED;
}

/* Starts a child process that checks whether a manager answers at our URL. Returns its pid, or −1. */
static pid_t begin_to_ask(const struct dev *dev, const char *timeout)
{
	const char *argv[] = {dev->self, "stats", "--manager", dev->url, "--connect-timeout", timeout, NULL};
	int quiet = open("/dev/null", O_RDWR | O_CLOEXEC);
	struct child_spec spec = {.argv = argv, .input = quiet, .output = quiet, .death_signal = SIGKILL};
	pid_t pid = child_start(&spec, NULL);

	if (quiet >= 0)
		close(quiet);
	return pid;
}

static bool was_answered(const struct dev *dev, pid_t pid)
{
	int status = -1;

	if (pid > 0 && !child_wait(pid, 10000, dev->stop_fd, &status)) {
		kill(pid, SIGKILL);
		child_wait(pid, -1, -1, &status);
	}
	return status == 0;
}

static int start_manager(struct dev *dev)
{
	int64_t end = clock_monotonic_ms() + ANSWER_MS;

	dev->token_path = dev_token_make(dev->manager_path, embedded_conninfo(dev->postgres), dev->url);
	if (!dev->token_path)
		return EXIT_TASK_FAILED;
	dev->manager = (struct member){
	    .name = "manager",
	    /* A short lease: no network can fail for long here, and after a kill of all processes the next start waits
	     * until the old workers' leases have ended. */
	    .argv = {dev->manager_path, "--database", embedded_conninfo(dev->postgres), "--listen", dev->options.listen,
	        "--auth", "required", "--callback-private", "--lease", "5s", "--heartbeat", "1s",
	        dev->options.http ? "--http" : NULL, dev->options.http},
	};
	if (!member_start(&dev->manager))
		return EXIT_TASK_FAILED;
	while (!was_answered(dev, begin_to_ask(dev, "2s"))) {
		if (stop_wanted(dev))
			return EXIT_OK;
		if (member_ended(&dev->manager))
			return early_end(&dev->manager);
		if (clock_monotonic_ms() > end) {
			log_error("manager", "it does not answer on %s", dev->url);
			return EXIT_UNREACHABLE;
		}
		poll(NULL, 0, 50);
	}
	return EXIT_OK;
}

static int start_workers(struct dev *dev)
{
	for (int64_t i = 0; i < dev->options.workers; i++) {
		struct member *worker = &dev->workers[i];
		snprintf(worker->name, sizeof worker->name, "dev-%d", (int)i + 1);
		const char *argv[] = {dev->worker_path, "--manager", dev->url, "--handlers", dev->handlers, "--concurrency",
		    dev->concurrency, "--name", worker->name, NULL};
		memcpy(worker->argv, argv, sizeof argv);
		if (!member_start(worker))
			return EXIT_TASK_FAILED;
	}
	return EXIT_OK;
}

static void print_how_to_use(const struct dev *dev)
{
	bool usual = strcmp(dev->url, usual_url) == 0;

	printf("\nReeve is up: a manager at %s, %lld worker%s, data in %s\n"
	       "The workers run the handlers in %s\n"
	       "Its access token, for this user, is in %s\n",
	    dev->url, (long long)dev->options.workers, dev->options.workers == 1 ? "" : "s", dev->data, dev->handlers,
	    dev->token_path);
	dev_token_print_code(dev->self, dev->url, dev->token_path, dev->options.http);
	printf("\nIn another terminal:\n");
	if (!usual)
		printf("    export REEVE_MANAGER=%s\n", dev->url);
	printf("    reeve submit %s 'some text' --wait\n"
	       "    reeve list\n"
	       "    reeve audit\n\n"
	       "Ctrl-C ends it all.\n",
	    dev->options.handlers ? "TYPE" : "sha256");
	fflush(stdout);
}

/* Makes the workers reload their handlers file. Returns false if the signal came from the end of the terminal. */
static bool reload(struct dev *dev)
{
	take_signals(dev->hangup_fd);
	if (dev->terminal && !on_terminal())
		return false;
	log_info(NULL, "the workers read %s again", dev->handlers);
	for (int64_t i = 0; i < dev->options.workers; i++)
		if (dev->workers[i].pid > 0)
			kill(dev->workers[i].pid, SIGHUP);
	return true;
}

/* Supervises the children until this process must stop or cannot continue. Returns the exit code. */
static int run(struct dev *dev)
{
	struct pollfd wake[] = {{.fd = dev->stop_fd, .events = POLLIN}, {.fd = dev->child_fd, .events = POLLIN},
	    {.fd = dev->hangup_fd, .events = POLLIN}};

	for (;;) {
		int64_t manager_ms = members_supervise(&dev->manager, 1);
		int64_t workers_ms = members_supervise(dev->workers, (size_t)dev->options.workers);
		if (!embedded_alive(dev->postgres)) {
			log_error("postgres", "by itself it %s", embedded_ending(dev->postgres));
			return EXIT_TASK_FAILED;
		}
		int code = members_hopeless(&dev->manager, 1);
		if (code == EXIT_OK)
			code = members_hopeless(dev->workers, dev->options.workers);
		if (code != EXIT_OK)
			return code;
		/* As an unsigned number, −1 (never) is the maximum. */
		int64_t next = (uint64_t)manager_ms < (uint64_t)workers_ms ? manager_ms : workers_ms;
		poll(wake, 3, (int)next);
		if (wake[0].revents || (wake[2].revents && !reload(dev)))
			return EXIT_OK;
		take_signals(dev->child_fd);
	}
}

/* Stops all that was started, in reverse order. */
static int stop(struct dev *dev, int code)
{
	struct reeve_error error = {0};

	if (dev->manager.pid > 0)
		log_info(NULL, "stopping");
	take_signals(dev->stop_fd);
	members_stop(dev->workers, (size_t)dev->options.workers, WORKERS_STOP_MS, dev->stop_fd);
	members_stop(&dev->manager, 1, MANAGER_STOP_MS, -1);
	dev_token_drop(dev->token_path);
	if (!embedded_stop(dev->postgres, &error)) {
		log_error("postgres", "%s", error.message);
		code = code == EXIT_OK ? EXIT_TASK_FAILED : code;
	}
	return code;
}

/* Returns the exit code for a failed start of PostgreSQL. */
static int exit_code_of(reeve_status code)
{
	switch (code) {
	case STATUS(CANCELLED): /* requested */ return EXIT_OK;
	case STATUS(INVALID_ARGUMENT): return EXIT_USAGE;
	case STATUS(PERMISSION_DENIED):
	case STATUS(FAILED_PRECONDITION): return EXIT_REFUSED;
	default: return EXIT_UNREACHABLE;
	}
}

static int start_and_run(struct dev *dev, struct reeve_error *error)
{
	int code = check_handlers(dev);

	if (code != EXIT_OK)
		return code;
	/* Another manager at this URL must not be mistaken for ours. */
	pid_t ask = begin_to_ask(dev, "200ms");
	log_info(NULL, "starting PostgreSQL in %s", dev->data);
	dev->postgres = embedded_start(dev->data, dev->stop_fd, error);
	bool other = was_answered(dev, ask);
	if (!dev->postgres) {
		log_error("postgres", "%s", error->message);
		return exit_code_of(error->code);
	}
	if (other) {
		log_error(NULL, "another manager answers at %s already: choose another --listen", dev->url);
		code = EXIT_REFUSED;
	} else if (!make_handlers(dev, error)) {
		log_error(NULL, "%s", error->message);
		code = EXIT_REFUSED;
	}
	if (code == EXIT_OK)
		code = start_manager(dev);
	if (code == EXIT_OK && !stop_wanted(dev))
		code = start_workers(dev);
	if (code == EXIT_OK && !stop_wanted(dev)) {
		print_how_to_use(dev);
		code = run(dev);
	}
	return stop(dev, code);
}

int command_dev(int argc, char **argv)
{
	struct reeve_error error = {0};
	struct shared_options shared = {0};
	struct dev *dev = mem_calloc(1, sizeof *dev);
	int operands, code;

	dev->stop_fd = dev->child_fd = dev->hangup_fd = -1;
	if (!command_options(&table, &dev->options, &shared, argc, argv, &operands, &code)) {
		free(dev);
		return code;
	}
	log_setup("reeve", LOG_LEVEL_INFO);
	if (operands > 0)
		code = command_usage(&table, "unexpected argument \"%s\"", argv[1]);
	else if (!prepare(dev, &error) || !catch_signals(dev, &error))
		code = command_usage(&table, "%s", error.message);
	else
		code = start_and_run(dev, &error);
	if (dev->stop_fd >= 0)
		close(dev->stop_fd);
	if (dev->child_fd >= 0)
		close(dev->child_fd);
	if (dev->hangup_fd >= 0)
		close(dev->hangup_fd);
	free(dev);
	return code;
}
