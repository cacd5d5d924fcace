/* Standard streams are saved, replaced by files or a terminal, and restored. */
#include "tests/unit/client/cmd/run.h"

#include "client/cmd/command.h"

#include <criterion/criterion.h>
#include <locale.h>
#include <pty.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

enum { MAX_ARGUMENTS = 32 };

char run_out[1 << 20];
char run_err[1 << 20];
struct fake_server *run_fake_server;

static char path[64];

void run_begin(void)
{
	setlocale(LC_CTYPE, "C.UTF-8");
	unsetenv("NO_COLOR");
	unsetenv("COLUMNS");
	setenv("TERM", "xterm", 1);
	run_fake_server = fake_server_start();
	setenv("REEVE_MANAGER", fake_server_url(run_fake_server), 1);
}

void run_end(void)
{
	fake_server_stop(run_fake_server);
	if (*path)
		unlink(path);
}

static int unnamed_file(const char *bytes, size_t length)
{
	char name[] = "/tmp/reeve-run-XXXXXX";
	int file = mkstemp(name);

	cr_assert(file >= 0);
	unlink(name);
	cr_assert(write(file, bytes, length) == (ssize_t)length);
	lseek(file, 0, SEEK_SET);
	return file;
}

static void take_text(int file, char *text, size_t size)
{
	ssize_t length = pread(file, text, size - 1, 0);

	text[length > 0 ? length : 0] = '\0';
}

static int run_with(int input, int output, int error, va_list list)
{
	int wanted[] = {input, output, error};
	int kept[3];
	char *arguments[MAX_ARGUMENTS + 1] = {(char *)"reeve"};
	int count = 1;

	while (count < MAX_ARGUMENTS && (arguments[count] = va_arg(list, char *)))
		count++;
	fflush(stdout);
	for (int i = 0; i < 3; i++) {
		kept[i] = dup(i);
		dup2(wanted[i], i);
	}
	rewind(stdin);
	int code = command_main(count, arguments);
	fflush(stdout);
	clearerr(stdout);
	for (int i = 0; i < 3; i++) {
		dup2(kept[i], i);
		close(kept[i]);
	}
	return code;
}

static int run_in_files(const char *bytes, size_t length, va_list list)
{
	int input = unnamed_file(bytes, length), output = unnamed_file("", 0), error = unnamed_file("", 0);
	int code = run_with(input, output, error, list);

	take_text(output, run_out, sizeof run_out);
	take_text(error, run_err, sizeof run_err);
	close(input);
	close(output);
	close(error);
	return code;
}

int run_reeve(const char *input, ...)
{
	va_list list;

	va_start(list, input);
	int code = run_in_files(input ? input : "", input ? strlen(input) : 0, list);
	va_end(list);
	return code;
}

int run_reeve_bytes(const char *input, size_t length, ...)
{
	va_list list;

	va_start(list, length);
	int code = run_in_files(input, length, list);
	va_end(list);
	return code;
}

int run_reeve_on_terminal(int columns, ...)
{
	struct winsize size = {.ws_row = 24, .ws_col = (unsigned short)columns};
	struct termios plain;
	int master, terminal, input = unnamed_file("", 0);
	size_t used = 0;
	ssize_t length;
	va_list list;

	cr_assert(openpty(&master, &terminal, NULL, NULL, &size) == 0);
	tcgetattr(terminal, &plain);
	cfmakeraw(&plain);
	tcsetattr(terminal, TCSANOW, &plain);
	va_start(list, columns);
	int code = run_with(input, terminal, terminal, list);
	va_end(list);
	/* When the other side is closed, reads return the remaining output, then an error. */
	close(terminal);
	while (used < sizeof run_out - 1 && (length = read(master, run_out + used, sizeof run_out - 1 - used)) > 0)
		used += (size_t)length;
	run_out[used] = '\0';
	close(master);
	close(input);
	return code;
}

const char *run_file(const char *text)
{
	int file;

	if (*path)
		unlink(path);
	strcpy(path, "/tmp/reeve-file-XXXXXX");
	file = mkstemp(path);
	cr_assert(file >= 0);
	cr_assert(write(file, text, strlen(text)) == (ssize_t)strlen(text));
	close(file);
	return path;
}
