#include "common/token_file.h"

#include "common/mem.h"
#include "common/text.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TOKEN_MAX_BYTES = 4096 };

/* Checks a token, and removes white space from its end. */
static bool take_text(char *token, const char *from, struct reeve_error *error)
{
	size_t length = strlen(token);

	while (length > 0 && strchr(" \t\r\n", token[length - 1]))
		token[--length] = '\0';
	if (!length)
		return error_set(error, STATUS(INVALID_ARGUMENT), "%s has no access token", from);
	for (size_t i = 0; i < length; i++)
		if (token[i] <= ' ' || token[i] == 0x7f)
			return error_set(error, STATUS(INVALID_ARGUMENT), "%s: this is not an access token", from);
	return length <= TOKEN_MAX_BYTES ||
	    error_set(error, STATUS(INVALID_ARGUMENT), "%s: an access token has up to %d bytes", from, TOKEN_MAX_BYTES);
}

/* Reads the token of a file; of one that is `ours` only if no other user could have written or read it. */
static char *read_file(const char *path, bool ours, struct reeve_error *error)
{
	char *token = mem_calloc(1, TOKEN_MAX_BYTES + 64);
	int fd = open(path, O_RDONLY | O_CLOEXEC | (ours ? O_NOFOLLOW : 0));
	struct stat file;
	bool good = fd >= 0 && fstat(fd, &file) == 0 && read(fd, token, TOKEN_MAX_BYTES + 63) >= 0;

	if (!good)
		error_set(error, STATUS(INVALID_ARGUMENT), "the access token's file %s: %s", path, strerror(errno));
	else if (ours && (file.st_uid != geteuid() || file.st_mode & (S_IRWXG | S_IRWXO)))
		good =
		    error_set(error, STATUS(INVALID_ARGUMENT), "the access token's file %s is accessible to other users", path);
	if (fd >= 0)
		close(fd);
	if (good && take_text(token, path, error))
		return token;
	free(token);
	return NULL;
}

static char *home(void)
{
	const char *set = getenv("HOME");
	char buffer[4096];
	struct passwd entry, *found = NULL;

	if (set && *set == '/')
		return mem_strdup(set);
	return getpwuid_r(geteuid(), &entry, buffer, sizeof buffer, &found) == 0 && found ? mem_strdup(found->pw_dir)
	                                                                                  : NULL;
}

/* Returns a URL in the form that names its file; the caller must free it. */
static char *normal_url(const char *url, size_t length)
{
	static const char local[] = "tcp://localhost:";

	while (length > 0 && url[length - 1] == '/')
		length--;
	if (length > strlen(local) && strncasecmp(url, local, strlen(local)) == 0)
		return mem_asprintf("tcp://127.0.0.1:%.*s", (int)(length - strlen(local)), url + strlen(local));
	return mem_strndup(url, length);
}

static char *path_of(const char *url, size_t length)
{
	char *at = home(), *name, *path;

	if (!at)
		return NULL;
	name = normal_url(url, length);
	for (char *mark = name; *mark; mark++)
		if (*mark == '/')
			*mark = '_';
	path = mem_asprintf("%s/.local/state/reeve/tokens/%s", at, name);
	free(name);
	free(at);
	return path;
}

char *token_file_of(const char *url)
{
	return path_of(url, strlen(url));
}

/* Returns the file of `reeve dev` for the first manager that has one, or NULL. */
static char *find_own(const char *urls)
{
	for (;;) {
		urls += strspn(urls, ", ");
		if (!*urls)
			return NULL;
		size_t length = strcspn(urls, ", ");
		char *path = path_of(urls, length);

		if (path && access(path, F_OK) == 0)
			return path;
		free(path);
		urls += length;
	}
}

struct token_source token_source_find(const char *option, const char *file, const char *urls)
{
	const struct {
		const char *text, *path, *from;
	} places[] = {
	    {option, file, "the option token"},
	    {getenv("REEVE_ACCESS_TOKEN"), getenv("REEVE_ACCESS_TOKEN_FILE"), "REEVE_ACCESS_TOKEN"},
	    {getenv("REEVE_ATTEMPT_ACCESS_TOKEN"), NULL, "REEVE_ATTEMPT_ACCESS_TOKEN"},
	};

	for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
		if (text_given(places[i].text))
			return (struct token_source){.text = mem_strdup(places[i].text), .from = places[i].from};
		if (text_given(places[i].path))
			return (struct token_source){.path = mem_strdup(places[i].path)};
	}
	return (struct token_source){.path = find_own(urls), .own = true};
}

void token_source_free(struct token_source *source)
{
	free(source->text);
	free(source->path);
	*source = (struct token_source){0};
}

char *token_read(const struct token_source *source, struct reeve_error *error)
{
	char *token;

	if (source->path)
		return read_file(source->path, source->own, error);
	token = mem_strdup(source->text ? source->text : "");
	if (!*token || take_text(token, source->from ? source->from : "the access token", error))
		return token;
	free(token);
	return NULL;
}
