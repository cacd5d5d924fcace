/* What this process, and processes that it starts from now on, write to standard error. */
#ifndef REEVE_TESTS_SAID_H
#define REEVE_TESTS_SAID_H

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

static int said_file;

static inline void said_begin(void)
{
	char path[] = "/tmp/reeve-said-XXXXXX";

	said_file = mkostemp(path, O_APPEND | O_CLOEXEC);
	cr_assert(said_file >= 0);
	unlink(path);
	dup2(said_file, STDERR_FILENO);
}

/* Returns all of it so far. The string lives until the next call. */
static inline const char *said_so_far(void)
{
	static char text[1 << 16];
	ssize_t length = pread(said_file, text, sizeof text - 1, 0);

	text[length > 0 ? length : 0] = '\0';
	return text;
}

#endif
