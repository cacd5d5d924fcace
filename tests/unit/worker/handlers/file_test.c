/* The handlers file. */
#include "worker/handler.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char path[] = "/tmp/reeve-handlers-XXXXXX";

/* Reads a file with this content. */
static bool read_text(struct handler **handlers, const char *text, size_t length, struct reeve_error *error)
{
	int fd;
	bool good;

	strcpy(path, "/tmp/reeve-handlers-XXXXXX");
	fd = mkstemp(path);
	cr_assert_geq(fd, 0);
	cr_assert_eq(write(fd, text, length), (ssize_t)length);
	close(fd);
	good = handlers_read_file(handlers, path, error);
	unlink(path);
	return good;
}

Test(handlers_file, is_read)
{
	static const char text[] = "\xEF\xBB\xBF# comment\n; comment\n\n[worker]\nconcurrency = 7\n"
	                           "[ handler  a type ; with [odd] things ]\r\nexec=/bin/echo \"a ; b\" # no comment\r\n"
	                           "timeout = 1m30s\nmax-output = 64KiB\n"
	                           "[handler second]\n  directory = /tmp\n  exec = true";
	struct handler *handlers = NULL, *handler;
	struct reeve_error error = {0};

	cr_assert(read_text(&handlers, text, sizeof text - 1, &error), "%s", error.message);
	cr_expect_eq(HASH_COUNT(handlers), 2);
	handler = handler_find(handlers, "a type ; with [odd] things");
	cr_assert(handler);
	cr_expect_eq(handler->timeout_ms, 90000);
	cr_expect(handler->processes);
	cr_expect(handler_find(handlers, "second"));
	cr_expect_null(handler_find(handlers, "worker"));
	handlers_free(&handlers);
}

Test(handlers_file, long_names_and_commands_are_whole)
{
	char text[3000], type[256];
	struct handler *handlers = NULL;
	struct reeve_error error = {0};
	int length;

	memset(type, 't', 255);
	type[255] = '\0';
	length = snprintf(text, sizeof text, "[handler %s]\nexec = echo %02000d\n", type, 1);
	cr_assert(read_text(&handlers, text, (size_t)length, &error), "%s", error.message);
	cr_expect(handler_find(handlers, type));
	handlers_free(&handlers);
}

static void refuse(const char *text, const char *says)
{
	struct handler *handlers = NULL;
	struct reeve_error error = {0};
	char expected[400];

	cr_expect_not(read_text(&handlers, text, strlen(text), &error), "%s", text);
	cr_expect_eq(error.code, STATUS(INVALID_ARGUMENT));
	snprintf(expected, sizeof expected, "%s%s", path, says);
	cr_expect_str_eq(error.message, expected, "%s", error.message);
	handlers_free(&handlers);
}

Test(handlers_file, errors_name_the_line)
{
	refuse("\n[hander a]\n", ":2: unknown section [hander a]; handlers are written [handler TYPE]");
	refuse("[handler]\nexec = true\n", ":1: the type of the section is empty");
	refuse("[handler a\nexec = true\n", ":1: a section without its ]");
	refuse("exec = true\n", ":1: exec stands before the first section");
	refuse("[handler a]\nfoo\n", ":2: [handler a]: neither [SECTION] nor NAME = VALUE: foo");
	refuse("[handler a]\nexec = true\ncommand = x\n",
	    ":3: [handler a]: unknown key command (known are exec, stdio, plugin, children, timeout, max-output, directory, env, user)");
	refuse("[handler a]\n\n[handler b]\nexec = true\n", ":1: [handler a]: has none of the keys exec, stdio, plugin");
	refuse("[handler a]\ntimeout = 5s\n", ":1: [handler a]: has none of the keys exec, stdio, plugin");
	refuse("[handler a]\nexec = true\nexec = false\n", ":3: [handler a]: exec is given twice");
	refuse("[handler a]\nexec = /no/such/program x\n",
	    ":1: [handler a]: exec: there is no program /no/such/program that can be run");
	refuse("[handler a]\nexec = no-such-program-in-path\n",
	    ":1: [handler a]: exec: there is no program no-such-program-in-path that can be run");
	refuse(
	    "[handler a]\nexec = /etc/passwd\n", ":1: [handler a]: exec: there is no program /etc/passwd that can be run");
	refuse("[handler a]\nexec = /tmp\n", ":1: [handler a]: exec: there is no program /tmp that can be run");
	refuse("[handler a]\nexec = 'x\n", ":1: [handler a]: exec: the command has a quote without its end");
	refuse("[handler a]\nexec =\n", ":1: [handler a]: exec: the command is empty");
	refuse("[handler a]\nexec = true\ntimeout = soon\n",
	    ":3: [handler a]: timeout: soon is not a duration (30s, 5m, 1h30m)");
	refuse("[handler a]\nexec = true\ntimeout = 0\n", ":3: [handler a]: timeout: 0 is not a duration (30s, 5m, 1h30m)");
	refuse("[handler a]\nexec = true\nmax-output = 0\n",
	    ":3: [handler a]: max-output: 0 is not a size from 1 byte to 256MiB (64KiB, 4MiB)");
	refuse("[handler a]\nexec = true\ndirectory = /no/such\n",
	    ":1: [handler a]: directory: /no/such does not exist or is not a directory");
	refuse(
	    "[handler a]\nexec = true\n[handler a]\nexec = true\n", ":3: [handler a]: type a has two handlers: remove one");
	refuse("[handler a]\nexec = \xff\n", ":2: [handler a]: the line is too long or not UTF-8 text");
}

Test(handlers_file, one_that_is_not_there)
{
	struct handler *handlers = NULL;
	struct reeve_error error = {0};

	cr_expect_not(handlers_read_file(&handlers, "/no/such/file", &error));
	cr_expect_str_eq(error.message, "cannot read the handlers file /no/such/file: No such file or directory");
}

Test(handlers_file, nul_bytes_are_refused)
{
	struct handler *handlers = NULL;
	struct reeve_error error = {0};

	cr_expect_not(read_text(&handlers, "[handler a]\nexec = true\0x\n", 26, &error));
	cr_expect(strstr(error.message, ":2: [handler a]: the line is too long or not UTF-8 text"));
}
