/* What this process, and processes that it starts from now on, write to standard error. */
#ifndef REEVE_TESTS_CAPTURED_STDERR_H
#define REEVE_TESTS_CAPTURED_STDERR_H

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

static int stderr_file;

static inline void stderr_capture(void)
{
	char path[] = "/tmp/reeve-stderr-XXXXXX";

	stderr_file = mkostemp(path, O_APPEND | O_CLOEXEC);
	cr_assert(stderr_file >= 0);
	unlink(path);
	dup2(stderr_file, STDERR_FILENO);
}

/* Returns all of it so far. The string lives until the next call. */
static inline const char *stderr_text(void)
{
	static char text[1 << 16];
	ssize_t length = pread(stderr_file, text, sizeof text - 1, 0);

	text[length > 0 ? length : 0] = '\0';
	return text;
}

#endif
