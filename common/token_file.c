#include "common/token_file.h"

#include "common/mem.h"
#include "common/text.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
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
		return error_set(error, STATUS(INVALID_ARGUMENT), "%s: there is no access token", from);
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
		good = error_set(error, STATUS(INVALID_ARGUMENT), "the access token's file %s is not this user's alone", path);
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

char *token_file_of(const char *urls)
{
	char *at = home(), *path;
	size_t length = strcspn(urls, ",");

	if (!at)
		return NULL;
	path = mem_asprintf("%s/.local/state/reeve/tokens/%.*s", at, (int)length, urls);
	for (char *mark = path + strlen(path) - length; *mark; mark++)
		if (*mark == '/')
			*mark = '_';
	free(at);
	return path;
}

static bool from_text(const char *text, const char *from, struct found_token *token, struct reeve_error *error)
{
	token->text = mem_strdup(text);
	if (take_text(token->text, from, error))
		return true;
	free(token->text);
	token->text = NULL;
	return false;
}

static bool from_file(const char *path, const char *urls, struct found_token *token, struct reeve_error *error)
{
	token->text = token_read(path, urls, error);
	token->path = token->text ? mem_strdup(path) : NULL;
	return token->text != NULL;
}

char *token_read(const char *path, const char *urls, struct reeve_error *error)
{
	char *own = token_file_of(urls), *text = read_file(path, own && !strcmp(path, own), error);

	free(own);
	return text;
}

bool token_find(
    const char *option, const char *file, const char *urls, struct found_token *token, struct reeve_error *error)
{
	const char *set = getenv("REEVE_ACCESS_TOKEN"), *set_file = getenv("REEVE_ACCESS_TOKEN_FILE");
	const char *attempt = getenv("REEVE_ATTEMPT_ACCESS_TOKEN");
	char *own;
	bool good;

	*token = (struct found_token){0};
	if (text_given(option))
		return from_text(option, "token", token, error);
	if (text_given(file))
		return from_file(file, urls, token, error);
	if (text_given(set))
		return from_text(set, "REEVE_ACCESS_TOKEN", token, error);
	if (text_given(set_file))
		return from_file(set_file, urls, token, error);
	if (text_given(attempt))
		return from_text(attempt, "REEVE_ATTEMPT_ACCESS_TOKEN", token, error);
	own = token_file_of(urls);
	good = !own || access(own, F_OK) != 0 || from_file(own, urls, token, error);
	free(own);
	return good;
}
