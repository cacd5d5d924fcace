/* New files are complete, or not there. */
#include "common/new_file.h"
#include "tests/unit/compare.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[] = "/tmp/reeve-new-file.XXXXXX";
static int directory = -1;

static void begin(void)
{
	cr_assert(mkdtemp(folder) != NULL);
	directory = open(folder, O_RDONLY | O_DIRECTORY);
	cr_assert(directory >= 0);
}

static void end(void)
{
	unlinkat(directory, "file", 0);
	close(directory);
	rmdir(folder);
}

TestSuite(new_file, .init = begin, .fini = end);

Test(new_file, has_its_bytes_and_its_mode_and_is_never_overwritten)
{
	struct stat found;
	char bytes[10];
	int fd;

	umask(077);
	cr_assert(file_create(directory, "file", "a\0b", 3, 0640));
	cr_assert(fstatat(directory, "file", &found, 0) == 0);
	cr_assert(eq(int, (int)(found.st_mode & 07777), 0640));
	cr_assert(not(file_create(directory, "file", "other", 5, 0640)));
	cr_assert(eq(int, errno, EEXIST));
	fd = openat(directory, "file", O_RDONLY);
	cr_assert(eq(int, (int)read(fd, bytes, sizeof bytes), 3));
	cr_assert(memcmp(bytes, "a\0b", 3) == 0);
	close(fd);
}

/* The first write is short, and the next one fails. */
Test(new_file, is_not_there_if_it_cannot_be_complete)
{
	static char bytes[20000];

	signal(SIGXFSZ, SIG_IGN);
	setrlimit(RLIMIT_FSIZE, &(struct rlimit){10000, 10000});
	cr_assert(not(file_create(directory, "file", bytes, sizeof bytes, 0600)));
	cr_assert(eq(int, errno, EFBIG));
	cr_assert(faccessat(directory, "file", F_OK, 0) != 0);
}
