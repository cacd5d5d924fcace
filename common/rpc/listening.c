#include "common/rpc/listening.h"

#include "common/clock.h"
#include "common/lookup.h"
#include "common/mem.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <nng/nng.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum {
	LOCK_MS = 2000, /* maximum wait for a path's lock, whose holder may be frozen */
	LOCK_TRY_MS = 5,
};

/* Sets the error from an errno: "tcp://…:7171: address in use". Always returns false. */
static bool failed(struct reeve_error *error, const char *url, int problem)
{
	char text[128];

	if (problem == EADDRINUSE)
		return error_set(error, STATUS(UNAVAILABLE), "%s: address in use", url);
	if (problem == EADDRNOTAVAIL || problem == EAFNOSUPPORT)
		return error_set(
		    error, STATUS(INVALID_ARGUMENT), "cannot listen on \"%s\": it is not an address of this machine", url);
	snprintf(text, sizeof text, "%s", strerror(problem));
	text[0] = (char)tolower((unsigned char)text[0]);
	return error_set(error, problem == EACCES || problem == EPERM ? STATUS(PERMISSION_DENIED) : STATUS(UNAVAILABLE),
	    "%s: %s", url, text);
}

/* Creates the socket and listens. Returns 0 or an errno. An ipc socket's file never has more permissions than
 * `mode`. */
static int listen_at(struct listening *listening, const struct sockaddr *address, socklen_t length, mode_t mode)
{
	int yes = 1;

	listening->fd = socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (listening->fd < 0)
		return errno;
	if (address->sa_family == AF_UNIX)
		fchmod(listening->fd, mode);
	else
		setsockopt(listening->fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
	if (bind(listening->fd, address, length) != 0 || listen(listening->fd, SOMAXCONN) != 0) {
		int problem = errno;

		close(listening->fd);
		listening->fd = -1;
		return problem;
	}
	return 0;
}

/* Returns true if the process of a socket's file is gone. A process too busy to accept, or frozen, is not gone. */
static bool left_over(const struct sockaddr_un *address)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	bool refused =
	    fd >= 0 && connect(fd, (const struct sockaddr *)address, sizeof *address) != 0 && errno == ECONNREFUSED;

	if (fd >= 0)
		close(fd);
	return refused;
}

/* Returns true if only this user can open, and so lock, the file. */
static bool is_ours_alone(const struct stat *file)
{
	return S_ISREG(file->st_mode) && file->st_uid == geteuid() && !(file->st_mode & (S_IRWXG | S_IRWXO));
}

/* Returns true if the path names that file. */
static bool names(const char *path, dev_t device, ino_t inode)
{
	struct stat file;

	return lstat(path, &file) == 0 && file.st_dev == device && file.st_ino == inode;
}

/* Waits for the lock of an open file. Returns 0 or an errno. */
static int await_lock(int fd, int64_t until_ms)
{
	while (flock(fd, LOCK_EX | LOCK_NB) != 0) {
		if ((errno != EWOULDBLOCK && errno != EINTR) || clock_monotonic_ms() >= until_ms)
			return errno;
		usleep(LOCK_TRY_MS * 1000);
	}
	return 0;
}

/* Creates a file if it does not exist, opens and locks it. Returns the descriptor that holds the lock, or -1 with an
 * errno in *problem: EEXIST if other users may open the file. The holder removes the file before it releases the lock;
 * a process that waited for it then locks a new file. */
static int lock_file(const char *path, int *problem)
{
	int64_t until_ms = clock_monotonic_ms() + LOCK_MS;
	struct stat file;

	for (;;) {
		int fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);

		if (fd < 0) {
			*problem = errno;
			if (lstat(path, &file) == 0 && !is_ours_alone(&file))
				*problem = EEXIST;
			return -1;
		}
		if (fstat(fd, &file) != 0)
			*problem = errno;
		else
			*problem = is_ours_alone(&file) ? await_lock(fd, until_ms) : EEXIST;
		if (!*problem && names(path, file.st_dev, file.st_ino))
			return fd;
		close(fd);
		if (*problem)
			return -1;
	}
}

/* Listens on a path, with its lock held. */
static bool take_path(struct listening *listening, const struct sockaddr_un *address, mode_t mode, const char *url,
    struct reeve_error *error)
{
	int problem = listen_at(listening, (const struct sockaddr *)address, sizeof *address, mode);
	struct stat file;

	if (problem == EADDRINUSE && lstat(address->sun_path, &file) == 0 && !S_ISSOCK(file.st_mode))
		return error_set(error, STATUS(INVALID_ARGUMENT), "%s: there is a file that is not a socket", url);
	if (problem == EADDRINUSE && left_over(address) && unlink(address->sun_path) == 0)
		problem = listen_at(listening, (const struct sockaddr *)address, sizeof *address, mode);
	if (!problem && chmod(address->sun_path, mode) != 0) { /* the umask has removed some */
		problem = errno;
		unlink(address->sun_path);
		close(listening->fd);
		listening->fd = -1;
	}
	if (problem)
		return failed(error, url, problem);
	if (lstat(address->sun_path, &file) == 0) {
		listening->device = file.st_dev;
		listening->inode = file.st_ino;
		listening->path = mem_strdup(address->sun_path);
	}
	return true;
}

static bool listen_on_path(
    struct listening *listening, const char *path, mode_t mode, const char *url, struct reeve_error *error)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	char name[sizeof address.sun_path + sizeof ".lock"];
	bool good;
	int lock, problem;

	if (strlen(path) >= sizeof address.sun_path)
		return error_set(error, STATUS(INVALID_ARGUMENT), "%s: the path has %zu bytes; a socket's may have %zu", url,
		    strlen(path), sizeof address.sun_path - 1);
	strcpy(address.sun_path, path);
	snprintf(name, sizeof name, "%s.lock", path);
	lock = lock_file(name, &problem);
	if (lock < 0 && problem == EEXIST)
		return error_set(error, STATUS(PERMISSION_DENIED), "%s: %s is not a file of this user alone", url, name);
	if (lock < 0 && problem == EWOULDBLOCK)
		return error_set(error, STATUS(UNAVAILABLE), "%s: another process holds the lock %s", url, name);
	if (lock < 0)
		return failed(error, url, problem);
	good = take_path(listening, &address, mode, url, error);
	unlink(name);
	close(lock);
	return good;
}

static bool listen_on_port(
    struct listening *listening, const char *host, const char *port, const char *url, struct reeve_error *error)
{
	struct lookup_addresses found;
	struct reeve_error why;
	int problem;

	if (!lookup_now(host, port, &found, &why))
		return error_set(error, why.code, "%s: %s", url, why.message);
	problem = listen_at(listening, (struct sockaddr *)&found.list[0].socket, found.list[0].length, 0);
	return !problem || failed(error, url, problem);
}

/* Returns the socket's URL, with the real port instead of 0. */
static char *real_url(const struct listening *listening, const nng_url *url)
{
	struct sockaddr_storage bound = {0};
	socklen_t length = sizeof bound;
	const char *host;
	int port;

	if (listening->path)
		return mem_strdup(url->u_rawurl);
	host = *url->u_hostname ? url->u_hostname : "0.0.0.0";
	getsockname(listening->fd, (struct sockaddr *)&bound, &length);
	/* The analyzer does not know that all of `bound` has a value. NOLINTNEXTLINE(clang-analyzer-core.CallAndMessage) */
	port = ntohs(bound.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&bound)->sin6_port
	                                         : ((struct sockaddr_in *)&bound)->sin_port);
	/* nng has removed the brackets of an IPv6 address. */
	return mem_asprintf(strchr(host, ':') ? "%s://[%s]:%d" : "%s://%s:%d", url->u_scheme, host, port);
}

/* Returns whether a URL has the scheme, with TLS or without. */
static bool has_scheme(const nng_url *url, const char *scheme)
{
	const char *given = url->u_scheme;

	return !strcmp(strncmp(given, "tls+", 4) ? given : given + 4, scheme);
}

bool listening_open(
    struct listening *listening, const char *text, const char *scheme, mode_t mode, struct reeve_error *error)
{
	bool ipc = !strcmp(scheme, "tcp"), good;
	nng_url *url = NULL;

	*listening = (struct listening){.fd = -1};
	if (nng_url_parse(&url, text) == 0 && has_scheme(url, scheme) && *url->u_port)
		good = listen_on_port(listening, url->u_hostname, url->u_port, text, error);
	else if (ipc && url && !strcmp(url->u_scheme, "ipc") && *url->u_path)
		good = listen_on_path(listening, url->u_path, mode, text, error);
	else
		good = error_set(error, STATUS(INVALID_ARGUMENT),
		    "cannot listen on \"%s\": it is not written as %s://HOST:PORT, tls+%s://HOST:PORT%s", text, scheme, scheme,
		    ipc ? " or ipc:///PATH" : "");
	if (good && url)
		listening->url = real_url(listening, url);
	if (url)
		nng_url_free(url);
	return good;
}

void listening_close(struct listening *listening)
{
	/* While the socket is open, no other process replaces its path, and no other file has its inode. */
	if (listening->path && names(listening->path, listening->device, listening->inode))
		unlink(listening->path);
	if (listening->fd >= 0)
		close(listening->fd);
	free(listening->path);
	free(listening->url);
	*listening = (struct listening){.fd = -1};
}
