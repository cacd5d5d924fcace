/* The token is a new one at each start, so that none is lost or belongs to another database. */
#include "client/cmd/dev_token.h"

#include "common/log.h"
#include "common/token_file.h"
#include "manager/embedded/child.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
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

/* Runs the manager program, which writes the token. */
static bool make(const char *manager_path, const char *conninfo, const char *path)
{
	const char *argv[] = {manager_path, "--database", conninfo, "--create-admin-token", "--admin-token-file", path,
	    "--log-level", "warn", NULL};
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
		log_error("manager", "while it made an access token, it %s", child_ending(status, ending, sizeof ending));
	return status == 0;
}

char *dev_token_make(const char *manager_path, const char *conninfo, const char *url)
{
	char *path = token_file_of(url);

	unsetenv("REEVE_ACCESS_TOKEN");
	unsetenv("REEVE_ACCESS_TOKEN_FILE");
	if (!path)
		log_error(NULL, "there is no home folder for the access token");
	else if (make_folders(path) && make(manager_path, conninfo, path))
		return path;
	free(path);
	return NULL;
}

void dev_token_drop(char *path)
{
	if (path)
		unlink(path);
	free(path);
}
