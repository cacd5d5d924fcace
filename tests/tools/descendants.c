/*
 * descendants DIR: prints the ids of a test's processes, a line each: those with REEVE_TEST_DIR=DIR in their
 * environment, and those that work in DIR or below (PostgreSQL's). A process that has ended and waits for its parent is
 * none.
 */
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool works_in(int process, const char *dir)
{
	char path[PATH_MAX];
	ssize_t length = readlinkat(process, "cwd", path, sizeof path - 1);
	size_t of_dir = strlen(dir);

	if (length < (ssize_t)of_dir)
		return false;
	path[length] = '\0';
	return strncmp(path, dir, of_dir) == 0 && (path[of_dir] == '\0' || path[of_dir] == '/');
}

/* `entry` is a whole entry: NAME=VALUE. */
static bool has_variable(int process, const char *entry)
{
	static char environment[4 << 20];
	size_t length = 0;
	ssize_t got = 0;
	int fd = openat(process, "environ", O_RDONLY | O_CLOEXEC);

	while (fd >= 0 && length < sizeof environment - 1 &&
	    (got = read(fd, environment + length, sizeof environment - 1 - length)) > 0)
		length += (size_t)got;
	if (fd >= 0)
		close(fd);
	environment[length] = '\0';
	for (size_t at = 0; at < length; at += strlen(environment + at) + 1)
		if (strcmp(environment + at, entry) == 0)
			return true;
	return false;
}

int main(int argc, char **argv)
{
	DIR *processes = opendir("/proc");
	struct dirent *item;
	char entry[PATH_MAX + sizeof "REEVE_TEST_DIR="];

	if (argc != 2 || !processes || snprintf(entry, sizeof entry, "REEVE_TEST_DIR=%s", argv[1]) >= (int)sizeof entry) {
		fputs("usage: descendants DIR\n", stderr);
		return 2;
	}
	while ((item = readdir(processes))) {
		int process = isdigit((unsigned char)*item->d_name)
		    ? openat(dirfd(processes), item->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
		    : -1;

		if (process < 0)
			continue;
		if (works_in(process, argv[1]) || has_variable(process, entry))
			puts(item->d_name);
		close(process);
	}
	closedir(processes);
	return 0;
}
