#include "common/output.h"

#include "common/error.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static bool has_reader(void)
{
	struct pollfd out = {.fd = STDOUT_FILENO};

	return poll(&out, 1, 0) != 1 || !(out.revents & (POLLERR | POLLHUP));
}

bool output_lost(void)
{
	return ferror(stdout) || !has_reader();
}

/* Returns the errno of another write to standard output, or 0 if it succeeds. stdio does not keep the errno of the
 * earlier failure, and another write fails for the same reason. */
static int write_problem(void)
{
	return write(STDOUT_FILENO, "\n", 1) < 0 ? errno : 0;
}

int output_finish(const char *program, int code)
{
	int problem = 0;

	if (fflush(stdout) != 0)
		problem = errno;
	else if (!ferror(stdout))
		return code;
	if (!has_reader())
		return code;
	if (!problem)
		problem = write_problem();
	fprintf(stderr, "%s: cannot write to standard output%s%s\n", program, problem ? ": " : "",
	    problem ? strerror(problem) : "");
	return code ? code : EXIT_TASK_FAILED;
}
