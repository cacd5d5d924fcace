#include "manager/archive/file.h"

#include "common/new_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { COMPARE_BYTES = 64 * 1024, NAMES_MAX = 1000 };

static bool failed(struct reeve_error *error, const char *path, const char *doing)
{
	return error_set(error, STATUS(UNAVAILABLE), "%s %s: %s", doing, path, strerror(errno));
}

/* Returns true if the path still leads to the open file: another writer may have renamed it just before our lock. */
static bool still_there(const struct archive_file *file)
{
	struct stat open, named;
	return fstat(file->fd, &open) == 0 && stat(file->part, &named) == 0 && open.st_ino == named.st_ino &&
	    open.st_dev == named.st_dev;
}

static void close_file(struct archive_file *file)
{
	close(file->fd);
	file->fd = -1;
}

bool archive_file_open(struct archive_file *file, const char *directory, const char *name, struct reeve_error *error)
{
	snprintf(file->directory, sizeof file->directory, "%s", directory);
	snprintf(file->name, sizeof file->name, "%s", name);
	if (snprintf(file->part, sizeof file->part, "%s/%s.jsonl.part", directory, name) >= (int)sizeof file->part) {
		errno = ENAMETOOLONG;
		return failed(error, directory, "opening");
	}
	file->fd = open(file->part, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0640);
	if (file->fd < 0)
		return failed(error, file->part, "opening");
	if (flock(file->fd, LOCK_EX | LOCK_NB) < 0 || !still_there(file)) {
		close_file(file);
		return error_set(error, STATUS(ABORTED), "%s is being written by another manager", file->part);
	}
	if (ftruncate(file->fd, 0) < 0) {
		failed(error, file->part, "emptying");
		close_file(file);
		return false;
	}
	return true;
}

bool archive_file_write(struct archive_file *file, const char *text, size_t length, struct reeve_error *error)
{
	return file_write_all(file->fd, text, length) || failed(error, file->part, "writing");
}

/* Returns true if a file has the same content as ours, and false if it cannot be read. */
static bool same_content(const struct archive_file *file, const char *path)
{
	char ours[COMPARE_BYTES], theirs[COMPARE_BYTES];
	off_t at = 0;
	bool same = true;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	while (same) {
		ssize_t n = pread(file->fd, ours, sizeof ours, at), m = pread(fd, theirs, sizeof theirs, at);
		same = n >= 0 && n == m && memcmp(ours, theirs, (size_t)n) == 0;
		if (n <= 0)
			break;
		at += n;
	}
	close(fd);
	return same;
}

/* Renames the file to a name that does not exist. On file systems that cannot check and rename atomically, the lock
 * excludes a second writer. */
static bool rename_to(const struct archive_file *file, const char *path)
{
	if (renameat2(AT_FDCWD, file->part, AT_FDCWD, path, RENAME_NOREPLACE) == 0)
		return true;
	if (errno != EINVAL && errno != ENOSYS)
		return false;
	if (access(path, F_OK) == 0) {
		errno = EEXIST;
		return false;
	}
	return rename(file->part, path) == 0;
}

static bool take_name(struct archive_file *file, struct reeve_error *error)
{
	for (int i = 1; i <= NAMES_MAX; i++) {
		char number[16] = "";
		if (i > 1)
			snprintf(number, sizeof number, ".%d", i);
		if (snprintf(file->path, sizeof file->path, "%s/%s%s.jsonl", file->directory, file->name, number) >=
		    (int)sizeof file->path)
			break;
		if (rename_to(file, file->path))
			return true;
		if (errno != EEXIST)
			return failed(error, file->path, "naming");
		if (same_content(file, file->path)) {
			unlink(file->part);
			return true;
		}
	}
	return error_set(error, STATUS(UNAVAILABLE),
	    "--archive: all %d names for %s are taken; move some of its files elsewhere", NAMES_MAX, file->part);
}

static bool sync_directory(const struct archive_file *file, struct reeve_error *error)
{
	int fd = open(file->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	bool good = fd >= 0 && fsync(fd) == 0;
	if (!good)
		failed(error, file->directory, "flushing");
	if (fd >= 0)
		close(fd);
	return good;
}

bool archive_file_finish(struct archive_file *file, struct reeve_error *error)
{
	if (fsync(file->fd) < 0)
		return failed(error, file->part, "flushing");
	if (!take_name(file, error))
		return false;
	close_file(file);
	return sync_directory(file, error);
}

void archive_file_abandon(struct archive_file *file)
{
	if (file->fd < 0)
		return;
	unlink(file->part);
	close_file(file);
}
