/*
 * The handlers file: an INI file with a section for each task type.
 *
 *     [handler sha256]
 *     exec = /usr/bin/sha256sum --tag
 *     timeout = 30s
 *
 * Sections with other names are errors, except those of the programs' configuration, so that one file can have both.
 */
#include "common/clock.h"
#include "common/ini.h"
#include "common/mem.h"
#include "common/options.h"
#include "common/programs.h"
#include "common/text.h"
#include "worker/handler.h"
#include "worker/handlers/arguments.h"
#include "worker/handlers/kinds.h"
#include "worker/spawn_message.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	OUTPUT_DEFAULT_BYTES = 1024 * 1024,
	OUTPUT_MAX_BYTES = 256 * 1024 * 1024,
};

static struct handler_kind plugins = {"plugin", false, plugin_handler_create, NULL};
static struct handler_kind stdios = {"stdio", true, stdio_handler_create, &plugins};
static struct handler_kind execs = {"exec", true, exec_handler_create, &stdios};
static struct handler_kind *const kinds = &execs;

void handler_kinds_add(struct handler_kind *kind)
{
	kind->next = plugins.next;
	plugins.next = kind;
}

struct reader {
	struct handler **handlers;
	const char *path;
	int line;
	int section_line;
	bool ignored;                    /* the section belongs to another program */
	char *type;                      /* of the current section; NULL: none */
	const struct handler_kind *kind; /* of its handler; NULL: not known yet */
	struct handler_spec spec;
	struct reeve_error *error;
};

/* Sets an error with file and line. Always returns false. */
static bool __attribute__((format(printf, 3, 4))) fail(struct reader *reader, int line, const char *format, ...)
{
	char text[300];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	if (reader->type)
		return error_set(reader->error, STATUS(INVALID_ARGUMENT), "%s:%d: [handler %.100s]: %s", reader->path, line,
		    reader->type, text);
	return error_set(reader->error, STATUS(INVALID_ARGUMENT), "%s:%d: %s", reader->path, line, text);
}

/* Returns the absolute path of the program that a command's first argument names, a path or a name in PATH; NULL: there
 * is none. Absolute, so that the process's directory does not matter. */
static char *find_program(const char *name, const char *directory)
{
	char *found, *here, *absolute;

	if (!strchr(name, '/'))
		found = program_in_path(name);
	else if (directory && name[0] != '/')
		found = mem_asprintf("%s/%s", directory, name);
	else
		found = mem_strdup(name);
	if (found && !program_exists(found)) {
		free(found);
		return NULL;
	}
	here = found && found[0] != '/' ? getcwd(NULL, 0) : NULL;
	if (!here)
		return found;
	absolute = mem_asprintf("%s/%s", strcmp(here, "/") == 0 ? "" : here, found);
	free(here);
	free(found);
	return absolute;
}

/* Writes the keys of all kinds into `names`: "exec, stdio". */
static const char *kind_names(char *names, size_t size)
{
	size_t used = 0;

	for (const struct handler_kind *kind = kinds; kind; kind = kind->next)
		used += (size_t)snprintf(names + used, size - used, "%s%s", used ? ", " : "", kind->key);
	return names;
}

static void clear_section(struct reader *reader)
{
	handler_spec_clear(&reader->spec);
	free(reader->type);
	reader->type = NULL;
	reader->kind = NULL;
	reader->spec = (struct handler_spec){.max_output_bytes = OUTPUT_DEFAULT_BYTES};
}

/* Finds the program of the section's command. */
static bool read_command(struct reader *reader)
{
	struct handler_spec *spec = &reader->spec;
	const char *key = reader->kind->key;
	struct reeve_error problem;
	struct stat status;

	if (spec->user && !spec->environment)
		return fail(
		    reader, reader->section_line, "user needs env: the worker's variables that the program gets, or none");
	spec->argv = arguments_split(spec->command, &problem);
	if (!spec->argv)
		return fail(reader, reader->section_line, "%s: %s", key, problem.message);
	if (spec->directory && (stat(spec->directory, &status) < 0 || !S_ISDIR(status.st_mode)))
		return fail(
		    reader, reader->section_line, "directory: %s does not exist or is not a directory", spec->directory);
	spec->path = find_program(spec->argv[0], spec->directory);
	return spec->path ||
	    fail(reader, reader->section_line, "%s: there is no program %s that can be run", key, spec->argv[0]);
}

/* Creates the handler of the section that has ended. */
static bool end_section(struct reader *reader)
{
	struct handler_spec *spec = &reader->spec;
	struct reeve_error problem;
	struct handler *handler;
	char names[100];

	if (!reader->type)
		return true;
	if (!reader->kind)
		return fail(reader, reader->section_line, "has none of the keys %s", kind_names(names, sizeof names));
	if (spec->children && reader->kind->create != stdio_handler_create)
		return fail(reader, reader->section_line, "only stdio handlers have children");
	if (!reader->kind->is_program && (spec->directory || spec->environment || spec->user))
		return fail(reader, reader->section_line, "%s handlers have no directory, env or user", reader->kind->key);
	if (reader->kind->is_program && !read_command(reader))
		return false;
	handler = reader->kind->create(reader->type, spec, &problem);
	if (!handler)
		return fail(reader, reader->section_line, "%s: %s", reader->kind->key, problem.message);
	handler->from_file = true;
	if (!handler_add(reader->handlers, handler, &problem)) {
		handler_free(handler);
		return fail(reader, reader->section_line, "%s", problem.message);
	}
	clear_section(reader);
	return true;
}

static bool begin_section(void *arg, int line, const char *name)
{
	struct reader *reader = arg;
	static const char *const others[] = {"worker", "manager", "reeve", "client", "dev"};
	const char *problem;

	reader->line = line;
	if (!end_section(reader))
		return false;
	reader->section_line = line;
	reader->ignored = false;
	for (size_t i = 0; i < sizeof others / sizeof *others; i++)
		if (!strcmp(name, others[i])) {
			reader->ignored = true;
			return true;
		}
	if (strncmp(name, "handler", 7) || (name[7] && name[7] != ' ' && name[7] != '\t'))
		return fail(reader, reader->line, "unknown section [%.100s]; handlers are written [handler TYPE]", name);
	name += 7;
	name += strspn(name, " \t");
	problem = name_problem(name, false);
	if (problem)
		return fail(reader, reader->line, "the type of the section %s", problem);
	reader->type = mem_strdup(name);
	return true;
}

/* Parses a list of variable names, which may be empty. */
static bool read_environment(struct reader *reader, const char *value)
{
	struct handler_spec *spec = &reader->spec;
	struct reeve_error problem;

	if (spec->environment)
		return fail(reader, reader->line, "env is given twice");
	/* An empty list becomes one name that no variable has. */
	spec->environment = arguments_split(*value ? value : "''", &problem);
	if (!spec->environment)
		return fail(reader, reader->line, "env: %s", problem.message);
	for (char **name = spec->environment; *value && *name; name++) {
		size_t length = strspn(*name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789");

		if (!length || ((*name)[length] && strcmp(*name + length, "*") != 0))
			return fail(
			    reader, reader->line, "env: %.100s is not the name of a variable (as in PATH HOME LC_*)", *name);
	}
	return true;
}

/* Looks up a user and its groups. */
static bool read_user(struct reader *reader, const char *name)
{
	struct handler_spec *spec = &reader->spec;
	char buffer[4096];
	struct passwd entry, *found = NULL;
	gid_t groups[SPAWN_GROUPS_MAX];
	int count = SPAWN_GROUPS_MAX, problem = getpwnam_r(name, &entry, buffer, sizeof buffer, &found);

	if (spec->user)
		return fail(reader, reader->line, "user is given twice");
	if (problem || !found)
		return fail(reader, reader->line, "user: there is no user %.100s", name);
	if (geteuid() != 0)
		return fail(reader, reader->line, "user: only a worker of root can run programs as another user");
	if (getgrouplist(name, found->pw_gid, groups, &count) < 0)
		return fail(reader, reader->line, "user: %.100s is in more than %d groups", name, SPAWN_GROUPS_MAX);
	spec->user_name = mem_strdup(found->pw_name);
	spec->home = mem_strdup(found->pw_dir);
	spec->user = mem_asprintf("%u %u", (unsigned)found->pw_uid, (unsigned)found->pw_gid);
	for (int i = 0; i < count; i++) {
		char *longer = groups[i] == found->pw_gid ? NULL : mem_asprintf("%s %u", spec->user, (unsigned)groups[i]);

		if (longer) {
			free(spec->user);
			spec->user = longer;
		}
	}
	return true;
}

static bool set_kind(struct reader *reader, const struct handler_kind *kind, const char *value)
{
	if (reader->kind == kind)
		return fail(reader, reader->line, "%s is given twice", kind->key);
	if (reader->kind)
		return fail(reader, reader->line, "has both %s and %s", reader->kind->key, kind->key);
	reader->kind = kind;
	reader->spec.command = mem_strdup(value);
	return true;
}

static bool set_value(void *arg, int line, const char *key, const char *value)
{
	struct reader *reader = arg;
	struct handler_spec *spec = &reader->spec;
	int64_t number;
	char names[100], *end;

	reader->line = line;
	if (!reader->type)
		return reader->ignored || fail(reader, reader->line, "%.100s stands before the first section", key);
	for (const struct handler_kind *kind = kinds; kind; kind = kind->next)
		if (!strcmp(key, kind->key))
			return set_kind(reader, kind, value);
	if (!strcmp(key, "timeout")) {
		if (!duration_parse(value, &spec->timeout_ms) || spec->timeout_ms <= 0)
			return fail(reader, reader->line, "timeout: %.100s is not a duration (30s, 5m, 1h30m)", value);
	} else if (!strcmp(key, "max-output")) {
		if (!size_parse(value, &number) || number < 1 || number > OUTPUT_MAX_BYTES)
			return fail(
			    reader, reader->line, "max-output: %.100s is not a size from 1 byte to 256MiB (64KiB, 4MiB)", value);
		spec->max_output_bytes = (size_t)number;
	} else if (!strcmp(key, "children")) {
		number = strtol(value, &end, 10);
		if (*end || number < 1 || number > LIMIT_CONCURRENCY)
			return fail(
			    reader, reader->line, "children: %.100s is not a number from 1 to %d", value, LIMIT_CONCURRENCY);
		spec->children = (int)number;
	} else if (!strcmp(key, "env")) {
		return read_environment(reader, value);
	} else if (!strcmp(key, "user")) {
		return read_user(reader, value);
	} else if (!strcmp(key, "directory")) {
		free(spec->directory);
		spec->directory = mem_strdup(value);
	} else {
		return fail(reader, reader->line,
		    "unknown key %.100s (known are %s, children, timeout, max-output, directory, env, user)", key,
		    kind_names(names, sizeof names));
	}
	return true;
}

static bool invalid(void *arg, int line, const char *problem)
{
	return fail(arg, line, "%s", problem);
}

bool handlers_read_file(struct handler **handlers, const char *path, struct reeve_error *error)
{
	struct reader reader = {.handlers = handlers, .path = path, .error = error};
	const struct ini_reader lines = {begin_section, set_value, invalid, &reader, .inline_comments = false};
	FILE *file = fopen(path, "re");
	bool valid;

	if (!file)
		return error_set(
		    error, STATUS(INVALID_ARGUMENT), "cannot read the handlers file %s: %s", path, strerror(errno));
	clear_section(&reader);
	valid = ini_read(file, &lines);
	if (valid && ferror(file))
		valid =
		    error_set(error, STATUS(INVALID_ARGUMENT), "cannot read the handlers file %s: %s", path, strerror(errno));
	valid = valid && end_section(&reader);
	clear_section(&reader);
	fclose(file);
	return valid;
}
