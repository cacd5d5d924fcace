#include "client/cmd/stored.h"

#include "client/cmd/command.h"
#include "common/mem.h"
#include "common/text.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SHA256_BYTES = 32 };

/* What a worker reports in place of the result. */
struct address {
	json_t *json;
	const char *name, *sha256; /* of the file; the name is its last part */
	int64_t bytes;
};

/* Parses an address. Returns false if the result is not an address for this task. The caller always frees `json`. */
static bool parse(struct address *address, int64_t task, const char *result)
{
	const char *url = "", *dash;
	json_int_t bytes = -1;
	char *end;

	*address = (struct address){.json = json_loads(result, JSON_REJECT_DUPLICATES, NULL)};
	if (json_unpack(address->json, "{s:s, s:I, s:s!}", "address", &url, "bytes", &bytes, "sha256", &address->sha256) !=
	        0 ||
	    strncmp(url, "file:///", strlen("file:///")) != 0 || bytes < 0)
		return false;
	address->bytes = bytes;
	address->name = strrchr(url, '/') + 1;
	if (!(*address->name >= '1' && *address->name <= '9') || strtoll(address->name, &end, 10) != task || *end != '-')
		return false;
	dash = end + 1 + strspn(end + 1, "0123456789");
	return *dash == '-' && strspn(dash + 1, "0123456789abcdef") == strlen(dash + 1);
}

bool stored_is(int64_t task, const char *result)
{
	struct address address;
	bool is = parse(&address, task, result);

	json_decref(address.json);
	return is;
}

/* Reads a regular file of just that length. Returns NULL with errno set; 0: it has another length. */
static char *read_file(const char *path, size_t length)
{
	int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat found;
	char *bytes = NULL;
	size_t have = 0;
	ssize_t more = 1;

	if (fd < 0)
		return NULL;
	if (fstat(fd, &found) == 0 && S_ISREG(found.st_mode) && (size_t)found.st_size == length)
		bytes = mem_malloc(length + 1);
	errno = 0;
	while (bytes && have < length && more > 0 && (more = read(fd, bytes + have, length - have)) > 0)
		have += (size_t)more;
	if (bytes && have < length) {
		free(bytes);
		bytes = NULL;
	}
	int problem = errno;
	close(fd);
	errno = problem;
	return bytes;
}

static bool has_hash(const char *bytes, size_t length, const char *sha256)
{
	char digest[2 * SHA256_BYTES + 1];
	uint8_t hash[SHA256_BYTES];

	mem_check(EVP_Digest(bytes, length, hash, NULL, EVP_sha256(), NULL));
	return strcmp(text_hex(hash, sizeof hash, digest), sha256) == 0;
}

char *stored_read(const char *directory, int64_t task, const char *result, size_t *length)
{
	struct address address;
	const char *problem = NULL;
	char *path, *bytes = NULL;

	mem_check(parse(&address, task, result));
	path = mem_asprintf("%s/%s", directory, address.name);
	*length = (size_t)address.bytes;
	bytes = read_file(path, *length);
	if (!bytes)
		problem = errno ? strerror(errno) : "it has another length than reported";
	else if (!has_hash(bytes, *length, address.sha256))
		problem = "it has another content than reported";
	if (problem) {
		command_log("task %" PRId64 ": its stored result %s cannot be read: %s", task, path, problem);
		free(bytes);
		bytes = NULL;
	}
	free(path);
	json_decref(address.json);
	return bytes;
}
