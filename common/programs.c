#include "common/programs.h"

#include "common/mem.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool program_exists(const char *path)
{
	struct stat status;

	return access(path, X_OK) == 0 && stat(path, &status) == 0 && S_ISREG(status.st_mode);
}

char *program_in_path(const char *name)
{
	const char *path = getenv("PATH"), *at, *end;
	char *found;

	for (at = path ? path : "/usr/local/bin:/usr/bin:/bin"; *at; at = *end ? end + 1 : end) {
		end = strchrnul(at, ':');
		if (end == at)
			continue;
		found = mem_asprintf("%.*s/%s", (int)(end - at), at, name);
		if (program_exists(found))
			return found;
		free(found);
	}
	return NULL;
}
