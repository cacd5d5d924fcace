#include "worker/result_store.h"

#include "common/mem.h"
#include "common/new_file.h"
#include "common/text.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

/* Readable for the group: readers can be other users. */
enum { FILE_MODE = 0640, SHA256_BYTES = 32, NAME_BYTES = 80 };

char *result_store_open(const char *directory, struct reeve_error *error)
{
	char *path = realpath(directory, NULL);
	struct stat found;

	if (path && stat(path, &found) == 0 && !S_ISDIR(found.st_mode))
		errno = ENOTDIR;
	else if (path && access(path, W_OK | X_OK) == 0)
		return path;
	error_set(error, STATUS(INVALID_ARGUMENT), "the result store %s: %s", directory, strerror(errno));
	free(path);
	return NULL;
}

/* Creates the file under its name. Returns false with errno set; then there is no file. */
static bool create_file(const char *directory, const char *name, const char *bytes, size_t length)
{
	int folder = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC), problem;
	char *draft = mem_asprintf(".%s", name);
	bool done = folder >= 0 && file_create(folder, draft, bytes, length, FILE_MODE) &&
	    renameat(folder, draft, folder, name) == 0 && fsync(folder) == 0;

	problem = errno;
	if (!done && folder >= 0) {
		unlinkat(folder, draft, 0);
		unlinkat(folder, name, 0);
	}
	if (folder >= 0)
		close(folder);
	free(draft);
	errno = problem;
	return done;
}

/* Returns the URL of a file: bytes other than letters, digits and "-._~/" are escaped. */
static char *file_url(const char *directory, const char *name)
{
	static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/";
	char *url = mem_malloc(sizeof "file:///" + 3 * strlen(directory) + strlen(name)), *at = stpcpy(url, "file://");

	for (; *directory; directory++)
		at += sprintf(at, strchr(plain, *directory) ? "%c" : "%%%02X", (unsigned char)*directory);
	sprintf(at, "%s%s", at[-1] == '/' ? "" : "/", name);
	return url;
}

char *result_store_put(
    const char *directory, int64_t task_id, int64_t token, const char *result, size_t length, struct reeve_error *error)
{
	char name[NAME_BYTES], digest[2 * SHA256_BYTES + 1], *url, *text;
	uint8_t hash[SHA256_BYTES];
	uint64_t random;

	mem_check(getrandom(&random, sizeof random, 0) == sizeof random);
	snprintf(name, sizeof name, "%" PRId64 "-%" PRId64 "-%016" PRIx64, task_id, token, random);
	if (!create_file(directory, name, result, length)) {
		error_set(error, STATUS(UNAVAILABLE), "the result of %zu bytes cannot be stored in %s: %s", length, directory,
		    strerror(errno));
		return NULL;
	}
	mem_check(EVP_Digest(result, length, hash, NULL, EVP_sha256(), NULL));
	url = file_url(directory, name);
	json_t *address = json_pack(
	    "{s:s, s:I, s:s}", "address", url, "bytes", (json_int_t)length, "sha256", text_hex(hash, sizeof hash, digest));
	mem_check(address != NULL);
	text = json_dumps(address, JSON_COMPACT);
	mem_check(text != NULL);
	json_decref(address);
	free(url);
	return text;
}
