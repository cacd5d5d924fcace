/* The token is a new one at each start, so that none is lost or belongs to another database. */
#include "client/cmd/dev_token.h"

#include "common/log.h"
#include "common/mem.h"
#include "common/token_file.h"
#include "manager/embedded/child.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Creates the folders of a path, for this user alone. */
static bool make_folders(char *path)
{
	for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		bool made = mkdir(path, 0700) == 0 || errno == EEXIST;
		if (!made)
			log_error(NULL, "the access token: cannot create the folder %s: %s", path, strerror(errno));
		*slash = '/';
		if (!made)
			return false;
	}
	return true;
}

/* Runs a program, which writes a token. */
static bool make(const char *const *argv)
{
	struct child_spec spec = {.argv = argv, .input = -1, .output = -1, .death_signal = SIGKILL};
	struct reeve_error error;
	pid_t pid = child_start(&spec, &error);
	char ending[64];
	int status;

	if (pid < 0) {
		log_error(NULL, "%s", error.message);
		return false;
	}
	child_wait(pid, -1, -1, &status);
	if (status != 0)
		log_error(NULL, "while it made an access token, %s %s", argv[0], child_ending(status, ending, sizeof ending));
	return status == 0;
}

char *dev_token_make(const char *manager_path, const char *conninfo, const char *url)
{
	char *path = token_file_of(url);
	const char *argv[] = {manager_path, "--database", conninfo, "--create-admin-token", "--admin-token-file", path,
	    "--log-level", "warn", NULL};

	unsetenv("REEVE_ACCESS_TOKEN");
	unsetenv("REEVE_ACCESS_TOKEN_FILE");
	if (!path)
		log_error(NULL, "there is no home folder for the access token");
	else if (make_folders(path) && make(argv))
		return path;
	free(path);
	return NULL;
}

/* Returns the access token of a new identity for a browser, to be freed, or NULL after an error message. */
static char *make_code(const char *self, const char *url, const char *token_path)
{
	char *path = mem_asprintf("%s.code", token_path), *name = mem_asprintf("browser-%lld", (long long)time(NULL));
	const char *argv[] = {
	    self, "token", "create", name, "--role", "admin", "--expires", "1h", "--output", path, "--manager", url, NULL};
	struct reeve_error error;
	char *code = NULL;

	unlink(path); /* of a process that was killed */
	if (make(argv) && !(code = token_read(&(struct token_source){.path = path}, &error)))
		log_error(NULL, "%s", error.message);
	unlink(path);
	free(path);
	free(name);
	return code;
}

void dev_token_print_code(const char *self, const char *url, const char *token_path, const char *http)
{
	char *code = http ? make_code(self, url, token_path) : NULL;

	if (code)
		printf("Dashboard: %s/#code=%s\n", http, code);
	free(code);
}

void dev_token_drop(char *path)
{
	if (path)
		unlink(path);
	free(path);
}
