/*
 * The folder of an embedded PostgreSQL. If root starts it, the cluster belongs to an unprivileged user, and the folder
 * around it to root. No file in the folder is opened, changed or given to that user through a symbolic link.
 */
#include "manager/embedded/home.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LOG_BYTES = 16 << 20 };

static const char socket_name[] = "/.s.PGSQL.5432";
static const char short_prefix[] = "/tmp/reeve-";

static bool failed(struct reeve_error *error, const char *what, const char *path)
{
	reeve_status code = errno == EACCES || errno == EPERM ? STATUS(PERMISSION_DENIED) : STATUS(INTERNAL);
	return error_set(error, code, "cannot %s %s: %s", what, path, strerror(errno));
}

/* Creates folders like mkdir -p. All users may pass through those that root creates, whatever its umask, since the
 * cluster's user must. */
static bool make_folders(const char *path, struct reeve_error *error)
{
	char prefix[PATH_MAX];

	for (size_t i = 1; i <= strlen(path); i++) {
		if (path[i] != '/' && path[i] != '\0')
			continue;
		memcpy(prefix, path, i);
		prefix[i] = '\0';
		if (mkdir(prefix, 0755) == 0) {
			if (chmod(prefix, geteuid() == 0 ? 0755 : 0700) != 0)
				return failed(error, "chmod", prefix);
		} else if (errno != EEXIST) {
			return failed(error, "make the folder", prefix);
		}
	}
	return true;
}

static bool find_folder(struct home *home, const char *folder, struct reeve_error *error)
{
	char path[PATH_MAX], here[PATH_MAX];

	if (folder[0] == '/')
		here[0] = '\0';
	else if (!getcwd(here, sizeof here))
		return failed(error, "find", "the working directory");
	/* Leave room for the names inside, and for the lines in the cluster's files. */
	int length = snprintf(path, sizeof path, "%s%s%s", here, here[0] && here[1] ? "/" : "", folder);
	if (folder[0] == '\0' || length >= (int)sizeof path - 64)
		return error_set(error, STATUS(INVALID_ARGUMENT), "the data folder's name is empty or too long");
	if (!make_folders(path, error))
		return false;
	if (!realpath(path, home->folder))
		return failed(error, "open the folder", path);
	snprintf(home->cluster, sizeof home->cluster, "%s/postgres", home->folder);
	snprintf(home->log, sizeof home->log, "%s/postgres.log", home->folder);
	return true;
}

static bool lock_folder(struct home *home, struct reeve_error *error)
{
	char path[PATH_MAX + 16], text[32] = "";

	snprintf(path, sizeof path, "%s/lock", home->folder);
	home->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (home->lock < 0)
		return failed(error, "open", path);
	fchmod(home->lock, 0600); /* who can open it can hold its lock */
	if (flock(home->lock, LOCK_EX | LOCK_NB) != 0) {
		if (errno != EWOULDBLOCK)
			return failed(error, "lock", path);
		ssize_t got = pread(home->lock, text, sizeof text - 1, 0);
		text[got > 0 ? got : 0] = '\0';
		return error_set(error, STATUS(FAILED_PRECONDITION),
		    "%s is in use by process %d: stop that one, or choose another folder", home->folder, atoi(text));
	}
	int length = snprintf(text, sizeof text, "%d\n", (int)getpid());
	if (ftruncate(home->lock, 0) != 0 || pwrite(home->lock, text, (size_t)length, 0) != length)
		return failed(error, "write", path);
	return true;
}

/* Chooses the cluster's user: the owner of an existing cluster; else the current user, or an unprivileged one instead
 * of root. */
static bool choose_user(struct home *home, struct reeve_error *error)
{
	struct stat folder, cluster;
	const struct passwd *user = NULL;

	home->exists = lstat(home->cluster, &cluster) == 0;
	if (!home->exists && errno != ENOENT)
		return failed(error, "look at", home->cluster);
	if (home->exists && !S_ISDIR(cluster.st_mode))
		return error_set(error, STATUS(FAILED_PRECONDITION), "%s is not a folder", home->cluster);
	if (geteuid() != 0) {
		home->uid = geteuid();
		home->gid = getegid();
		if (home->exists && cluster.st_uid != home->uid)
			return error_set(error, STATUS(PERMISSION_DENIED),
			    "%s belongs to the user %d: run as that user or as root, or choose another folder", home->cluster,
			    (int)cluster.st_uid);
		return true;
	}
	if (home->exists) {
		user = getpwuid(cluster.st_uid);
		if (cluster.st_uid == 0)
			return error_set(error, STATUS(PERMISSION_DENIED),
			    "%s belongs to root, whom PostgreSQL refuses to run as: give it to another user", home->cluster);
	} else {
		user = getpwnam("postgres");
		if (!user)
			user = getpwnam("nobody");
		if (!user)
			return error_set(error, STATUS(PERMISSION_DENIED),
			    "PostgreSQL refuses to run as root, and there is neither a user postgres nor a user "
			    "nobody");
	}
	home->change_user = true;
	home->uid = user ? user->pw_uid : cluster.st_uid;
	home->gid = user ? user->pw_gid : cluster.st_gid;
	if (stat(home->folder, &folder) != 0)
		return failed(error, "look at", home->folder);
	if (folder.st_uid != 0 && folder.st_uid != home->uid)
		return error_set(error, STATUS(PERMISSION_DENIED),
		    "%s belongs to the user %d, who is neither root nor the cluster's user: choose another folder",
		    home->folder, (int)folder.st_uid);
	return true;
}

/* Forks a child that runs as the cluster's user. */
static pid_t fork_as_user(const struct home *home)
{
	pid_t pid = fork();

	if (pid == 0 && home->change_user &&
	    (setgroups(1, &home->gid) != 0 || setresgid(home->gid, home->gid, home->gid) != 0 ||
	        setresuid(home->uid, home->uid, home->uid) != 0))
		_exit(1);
	return pid;
}

/* Returns the first folder on the path that the cluster's user may not enter, as the length of its path, or 0 if there
 * is none or the check fails. */
static size_t barred_at(const struct home *home)
{
	int ends[2];
	size_t length = 0;

	if (pipe2(ends, O_CLOEXEC) != 0)
		return 0;
	pid_t pid = fork_as_user(home);
	if (pid == 0) {
		char prefix[PATH_MAX];
		for (length = 1; length <= strlen(home->folder); length++) {
			if (home->folder[length] != '/' && home->folder[length] != '\0')
				continue;
			memcpy(prefix, home->folder, length);
			prefix[length] = '\0';
			if (access(prefix, X_OK) != 0)
				_exit(write(ends[1], &length, sizeof length) != sizeof length);
		}
		_exit(0);
	}
	close(ends[1]);
	if (pid < 0 || read(ends[0], &length, sizeof length) != sizeof length)
		length = 0;
	close(ends[0]);
	if (pid > 0)
		waitpid(pid, NULL, 0);
	return length;
}

static bool check_reach(const struct home *home, struct reeve_error *error)
{
	size_t length = home->change_user ? barred_at(home) : 0;

	if (length == 0)
		return true;
	const struct passwd *user = getpwuid(home->uid);
	return error_set(error, STATUS(PERMISSION_DENIED),
	    "PostgreSQL runs as the user %s, who may not enter %.*s: choose a folder that this user can reach",
	    user ? user->pw_name : "who owns the cluster", (int)length, home->folder);
}

static bool read_version(struct home *home, struct reeve_error *error)
{
	char path[PATH_MAX + 32];

	if (!home->exists)
		return true;
	snprintf(path, sizeof path, "%s/PG_VERSION", home->cluster);
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	char text[16] = "";
	ssize_t got = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
	if (fd >= 0)
		close(fd);
	home->major = got > 0 ? atoi(text) : 0;
	if (home->major <= 0)
		return error_set(error, STATUS(FAILED_PRECONDITION),
		    "%s holds no PostgreSQL cluster: move it away, or choose another folder", home->cluster);
	return true;
}

bool home_make_private(const struct home *home, const char *path, struct reeve_error *error)
{
	if (mkdir(path, 0700) != 0)
		return failed(error, "make the folder", path);
	if (home->change_user && lchown(path, home->uid, home->gid) != 0)
		return failed(error, "give away", path);
	return true;
}

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *position)
{
	(void)status, (void)type, (void)position;
	return remove(path);
}

void home_remove(const struct home *home, const char *path)
{
	pid_t pid = fork_as_user(home);

	if (pid == 0) {
		nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
		_exit(0);
	}
	if (pid > 0)
		waitpid(pid, NULL, 0);
	rmdir(path); /* if root owns the folder around it, the child could not remove it */
}

/* Returns true if a folder can hold the socket: a socket's address has up to 107 bytes, and the name must need no
 * quotes in settings and connection strings. */
static bool fit_for_socket(const char *folder)
{
	size_t room = sizeof((struct sockaddr_un *)NULL)->sun_path - 1;
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-";

	return strlen(folder) + strlen(socket_name) <= room && folder[strspn(folder, plain)] == '\0';
}

/* Removes a socket's folder, and what a killed server has left in it. */
static void remove_socket_folder(const char *folder)
{
	char path[PATH_MAX + 64];

	snprintf(path, sizeof path, "%s%s", folder, socket_name);
	unlink(path);
	snprintf(path, sizeof path, "%s%s.lock", folder, socket_name);
	unlink(path);
	rmdir(folder);
}

/* Removes the DIR/socket of this or an earlier run: a folder, or a link to one that we created under /tmp. */
static void remove_old_socket(const struct home *home, const char *path)
{
	char target[PATH_MAX];
	struct stat status;

	ssize_t length = readlink(path, target, sizeof target - 1);
	if (length < 0) {
		remove_socket_folder(path);
		return;
	}
	target[length] = '\0';
	if (strncmp(target, short_prefix, strlen(short_prefix)) == 0 && !strchr(target + strlen(short_prefix), '/') &&
	    lstat(target, &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == home->uid)
		remove_socket_folder(target);
	unlink(path);
}

static bool make_socket_folder(struct home *home, struct reeve_error *error)
{
	char path[PATH_MAX + 16];

	snprintf(path, sizeof path, "%s/socket", home->folder);
	remove_old_socket(home, path);
	if (fit_for_socket(path)) {
		strcpy(home->socket, path);
		return home_make_private(home, path, error);
	}
	snprintf(home->socket, sizeof home->socket, "%sXXXXXX", short_prefix);
	if (!mkdtemp(home->socket)) {
		failed(error, "make a folder like", home->socket);
		home->socket[0] = '\0';
		return false;
	}
	if (home->change_user && lchown(home->socket, home->uid, home->gid) != 0)
		return failed(error, "give away", home->socket);
	if (symlink(home->socket, path) != 0)
		return failed(error, "make the link", path);
	return true;
}

bool home_open(struct home *home, const char *folder, struct reeve_error *error)
{
	*home = (struct home){.lock = -1};
	if (find_folder(home, folder, error) && lock_folder(home, error) && choose_user(home, error) &&
	    check_reach(home, error) && read_version(home, error) && make_socket_folder(home, error))
		return true;
	home_close(home);
	return false;
}

int home_open_log(const struct home *home, struct reeve_error *error)
{
	struct stat status;
	int fd = open(home->log, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

	if (fd < 0 || fstat(fd, &status) != 0) {
		failed(error, "open", home->log);
	} else if (!S_ISREG(status.st_mode) || status.st_nlink != 1) {
		error_set(error, STATUS(PERMISSION_DENIED), "%s is not a file of its own", home->log);
	} else if (status.st_size > LOG_BYTES && ftruncate(fd, 0) != 0) {
		failed(error, "empty", home->log);
	} else {
		return fd;
	}
	if (fd >= 0)
		close(fd);
	return -1;
}

/* Returns true if /proc/NAME is a process called postgres whose working directory is the cluster. */
static bool works_in(const struct home *home, const char *name)
{
	char path[300], text[PATH_MAX + 16];

	snprintf(path, sizeof path, "/proc/%s/cwd", name);
	ssize_t length = readlink(path, text, sizeof text - 1);
	if (length < 0)
		return false;
	text[length] = '\0';
	if (strcmp(text, home->cluster) != 0)
		return false;
	snprintf(path, sizeof path, "/proc/%s/comm", name);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	length = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
	if (fd >= 0)
		close(fd);
	return length == (ssize_t)strlen("postgres\n") && memcmp(text, "postgres\n", (size_t)length) == 0;
}

bool home_in_use(const struct home *home)
{
	DIR *all = opendir("/proc");
	bool found = false;

	for (struct dirent *entry; all && !found && (entry = readdir(all));)
		found = entry->d_name[0] >= '1' && entry->d_name[0] <= '9' && works_in(home, entry->d_name);
	if (all)
		closedir(all);
	return found;
}

void home_close(struct home *home)
{
	char path[PATH_MAX + 16];

	snprintf(path, sizeof path, "%s/socket", home->folder);
	if (home->socket[0] && !home_in_use(home))
		remove_old_socket(home, path);
	if (home->lock >= 0)
		close(home->lock);
	home->lock = -1;
}
