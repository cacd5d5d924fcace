#include "client/cmd/ca_files.h"

#include "client/cmd/command.h"
#include "common/mem.h"
#include "common/new_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/pem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

char *ca_path(const char *folder, const char *name, const char *end)
{
	return mem_asprintf("%s/%s%s", folder, name, end);
}

bool ca_failed(const char *path, struct reeve_error *error)
{
	return error_set(error, errno == EEXIST ? STATUS(ALREADY_EXISTS) : STATUS(INVALID_ARGUMENT), "%s: %s%s", path,
	    strerror(errno), errno == EEXIST ? "; it is not overwritten" : "");
}

int ca_lock(const char *folder, bool create, struct reeve_error *error)
{
	int fd;

	if (create && mkdir(folder, 0700) != 0 && errno != EEXIST) {
		ca_failed(folder, error);
		return -1;
	}
	fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT)
		error_set(error, STATUS(NOT_FOUND), "%s: there is no such folder; `reeve certs init` creates a CA", folder);
	else if (fd < 0)
		ca_failed(folder, error);
	if (fd >= 0 && flock(fd, LOCK_EX) != 0) {
		ca_failed(folder, error);
		close(fd);
		fd = -1;
	}
	return fd;
}

/* An encrypted key is refused, and no password is asked for. */
static int no_password(char *buffer, int size, int for_writing, void *arg)
{
	(void)buffer, (void)size, (void)for_writing, (void)arg;
	return -1;
}

/* Reads a file with one of OpenSSL's functions. */
static void *read_pem(const char *path, void *(*read)(FILE *file), struct reeve_error *error)
{
	FILE *file = fopen(path, "re");
	void *object = NULL;

	if (!file) {
		ca_failed(path, error);
		return NULL;
	}
	object = read(file);
	if (!object)
		error_set(error, STATUS(INVALID_ARGUMENT), "%s: not a PEM file as expected", path);
	fclose(file);
	return object;
}

static void *read_certificate(FILE *file)
{
	return PEM_read_X509(file, NULL, no_password, NULL);
}

static void *read_key(FILE *file)
{
	return PEM_read_PrivateKey(file, NULL, no_password, NULL);
}

static void *read_list(FILE *file)
{
	return PEM_read_X509_CRL(file, NULL, no_password, NULL);
}

X509 *ca_read_certificate(const char *path, struct reeve_error *error)
{
	return read_pem(path, read_certificate, error);
}

EVP_PKEY *ca_read_key(const char *path, struct reeve_error *error)
{
	return read_pem(path, read_key, error);
}

X509_CRL *ca_read_list(const char *path, struct reeve_error *error)
{
	return read_pem(path, read_list, error);
}

/* Writes and flushes a file that must not exist. */
static bool write_new(const char *path, BIO *text, mode_t mode, struct reeve_error *error)
{
	char *bytes;
	long length = BIO_get_mem_data(text, &bytes);

	return file_create(AT_FDCWD, path, bytes, (size_t)length, mode) || ca_failed(path, error);
}

static bool write_pem(const char *path, BIO *text, mode_t mode, bool replace, struct reeve_error *error)
{
	char *temporary;
	bool good;

	if (!replace)
		return write_new(path, text, mode, error);
	temporary = mem_asprintf("%s.new", path);
	unlink(temporary);
	good = write_new(temporary, text, mode, error);
	if (good && rename(temporary, path) != 0)
		good = ca_failed(path, error);
	free(temporary);
	return good;
}

bool ca_write_certificate(const char *path, const X509 *certificate, bool replace, struct reeve_error *error)
{
	BIO *text = BIO_new(BIO_s_mem());
	bool good;

	mem_check(text && PEM_write_bio_X509(text, (X509 *)(uintptr_t)certificate) == 1);
	good = write_pem(path, text, 0644, replace, error);
	BIO_free(text);
	return good;
}

bool ca_write_key(const char *path, const EVP_PKEY *key, bool replace, struct reeve_error *error)
{
	BIO *text = BIO_new(BIO_s_secmem());
	bool good;

	mem_check(text && PEM_write_bio_PrivateKey(text, (EVP_PKEY *)(uintptr_t)key, NULL, NULL, 0, NULL, NULL) == 1);
	good = write_pem(path, text, 0600, replace, error);
	BIO_free(text);
	return good;
}

bool ca_write_list(const char *path, const X509_CRL *list, bool replace, struct reeve_error *error)
{
	BIO *text = BIO_new(BIO_s_mem());
	bool good;

	mem_check(text && PEM_write_bio_X509_CRL(text, (X509_CRL *)(uintptr_t)list) == 1);
	good = write_pem(path, text, 0644, replace, error);
	BIO_free(text);
	return good;
}

bool ca_is_pem(const char *name)
{
	size_t length = strlen(name);

	return length > 4 && strcmp(name + length - 4, ".pem") == 0;
}

int ca_each_issued(
    const char *folder, void (*visit)(void *arg, const X509 *certificate), void *arg, struct reeve_error *error)
{
	char *issued = ca_path(folder, "issued", "");
	DIR *entries = opendir(issued);
	struct dirent *entry;
	int left_out = entries ? 0 : -1;

	if (!entries)
		ca_failed(issued, error);
	while (entries && (entry = readdir(entries))) {
		char *path = ca_is_pem(entry->d_name) ? ca_path(issued, entry->d_name, "") : NULL;
		struct reeve_error unreadable;
		X509 *certificate = path ? ca_read_certificate(path, &unreadable) : NULL;

		if (certificate)
			visit(arg, certificate);
		else if (path && ++left_out)
			command_log("%s; it is left out", unreadable.message);
		X509_free(certificate);
		free(path);
	}
	if (entries)
		closedir(entries);
	free(issued);
	return left_out;
}
