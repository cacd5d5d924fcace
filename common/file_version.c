#include "common/file_version.h"

struct file_version file_version_of(const char *path)
{
	struct stat file;

	if (stat(path, &file) != 0)
		return (struct file_version){0};
	return (struct file_version){file.st_ino, file.st_size, file.st_mtim};
}

bool file_version_same(const struct file_version *a, const struct file_version *b)
{
	return a->inode == b->inode && a->size == b->size && a->modified.tv_sec == b->modified.tv_sec &&
	    a->modified.tv_nsec == b->modified.tv_nsec;
}
