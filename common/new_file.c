#include "common/new_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

bool file_write_all(int fd, const void *bytes, size_t length)
{
	const char *at = bytes;

	while (length) {
		ssize_t written = write(fd, at, length);

		if (written < 0 && errno != EINTR)
			return false;
		if (written > 0) {
			at += written;
			length -= (size_t)written;
		}
	}
	return true;
}

bool file_create(int folder, const char *name, const void *bytes, size_t length, mode_t mode)
{
	int fd = openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode), problem = 0;

	if (fd < 0)
		return false;
	if (fchmod(fd, mode) != 0 || !file_write_all(fd, bytes, length) || fsync(fd) != 0)
		problem = errno;
	if (close(fd) != 0 && !problem)
		problem = errno;
	if (problem)
		unlinkat(folder, name, 0);
	errno = problem;
	return !problem;
}
