/* Reads a secret: the first line of a file. */
#include "client/cmd/secret.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

bool secret_read(const char *path, char secret[SECRET_BYTES], struct reeve_error *error)
{
	FILE *file = fopen(path, "re");
	const char *problem = NULL;

	if (!file)
		return error_set(error, STATUS(INVALID_ARGUMENT), "--callback-secret-file: %s: %s", path, strerror(errno));
	if (!fgets(secret, SECRET_BYTES, file))
		problem = ferror(file) ? "cannot be read" : "is empty";
	else if (strlen(secret) == SECRET_BYTES - 1)
		problem = "has a first line that is too long";
	fclose(file);
	if (!problem) {
		secret[strcspn(secret, "\r\n")] = '\0';
		problem = *secret ? NULL : "begins with an empty line";
	}
	return !problem || error_set(error, STATUS(INVALID_ARGUMENT), "--callback-secret-file: %s %s", path, problem);
}
