#include "tests/faults/ledger.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { CANNOT_WRITE = 74 }; /* EX_IOERR */

static void give_up(const char *what)
{
	fprintf(stderr, "the ledger %s: %s\n", what, strerror(errno));
	_exit(CANNOT_WRITE);
}

int ledger_open(const char *folder, const char *name, const char *kind)
{
	char path[4096], safe[256];
	int fd;

	ledger_name(safe, sizeof safe, name);
	for (char *c = safe; *c; c++)
		if (*c == '/')
			*c = '_';
	snprintf(path, sizeof path, "%s/%s.%s", folder, safe, kind);
	fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
	if (fd < 0)
		give_up(path);
	return fd;
}

int64_t ledger_now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * INT64_C(1000000) + t.tv_nsec / 1000;
}

void ledger_write(int fd, const char *format, ...)
{
	char line[2048];
	va_list args;
	int length;

	va_start(args, format);
	length = vsnprintf(line, sizeof line - 1, format, args);
	va_end(args);
	if (length < 0 || length >= (int)sizeof line - 1)
		abort();
	line[length++] = '\n';
	if (write(fd, line, (size_t)length) != length)
		give_up("cannot be written");
}

const char *ledger_print(const char *text, char *to)
{
	uint64_t hash = 0xcbf29ce484222325u;

	for (const char *c = text; *c; c++)
		hash = (hash ^ (unsigned char)*c) * 0x100000001b3u;
	snprintf(to, LEDGER_PRINT, "%016" PRIx64 "/%zu", hash, strlen(text));
	return to;
}

void ledger_name(char *to, int size, const char *name)
{
	int length = 0;

	for (; *name && length < size - 1; name++)
		to[length++] = *name == '"' || *name == '\\' || (unsigned char)*name < ' ' ? '_' : *name;
	to[length] = '\0';
}
