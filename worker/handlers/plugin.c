/*
 * Handlers that are functions of a shared object.
 *
 * An object stays loaded, since it may have threads. The loader takes a file that was put in its place for the same
 * object, and would go on with the old one; so a file that has changed is refused.
 */
#include "common/mem.h"
#include "worker/handlers/kinds.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* An object that this process has loaded. */
struct loaded {
	struct loaded *next;
	char *path;
	struct stat file; /* at that time */
	const struct reeve_plugin *plugin;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct loaded *all; /* guarded by it; a process has few, and keeps them */

/* Returns what is wrong with a plugin, after the file's name; NULL: nothing. */
static char *problem_of(const struct reeve_plugin *plugin)
{
	if (!plugin)
		return mem_strdup("is no plugin: it does not export reeve_plugin");
	if (plugin->abi != REEVE_PLUGIN_ABI)
		return mem_asprintf("was built for version %d of plugins, and this worker has version %d: build it again",
		    plugin->abi, REEVE_PLUGIN_ABI);
	return plugin->handler ? NULL : mem_strdup("has no handler in reeve_plugin");
}

/* Loads the object. NULL: *error has the reason. */
static const struct reeve_plugin *load(const char *path, struct reeve_error *error)
{
	void *object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	const struct reeve_plugin *plugin = object ? dlsym(object, "reeve_plugin") : NULL;
	char *problem = object ? problem_of(plugin) : NULL;

	if (!object)
		error_set(error, STATUS(INVALID_ARGUMENT), "%s", dlerror());
	if (!problem)
		return plugin;
	error_set(error, STATUS(INVALID_ARGUMENT), "%.200s %s", path, problem);
	free(problem);
	dlclose(object);
	return NULL;
}

static bool is_changed(const struct stat *file, const struct stat *since)
{
	return file->st_dev != since->st_dev || file->st_ino != since->st_ino ||
	    file->st_mtim.tv_sec != since->st_mtim.tv_sec || file->st_mtim.tv_nsec != since->st_mtim.tv_nsec;
}

/* Returns the plugin in a file, which is loaded only once. NULL: *error has the reason. Called with the lock. */
static const struct reeve_plugin *find(const char *path, struct reeve_error *error)
{
	struct loaded *loaded;
	struct stat file;

	if (stat(path, &file) < 0) {
		error_set(error, STATUS(INVALID_ARGUMENT), "%.200s: %s", path, strerror(errno));
		return NULL;
	}
	for (loaded = all; loaded && strcmp(loaded->path, path); loaded = loaded->next)
		;
	if (loaded && !is_changed(&file, &loaded->file))
		return loaded->plugin;
	if (loaded) {
		error_set(error, STATUS(INVALID_ARGUMENT),
		    "%.200s has changed since this worker loaded it: restart the worker, or give the file another name", path);
		return NULL;
	}
	loaded = mem_calloc(1, sizeof *loaded);
	loaded->plugin = load(path, error);
	if (!loaded->plugin) {
		free(loaded);
		return NULL;
	}
	loaded->path = mem_strdup(path);
	loaded->file = file;
	loaded->next = all;
	all = loaded;
	return loaded->plugin;
}

struct handler *plugin_handler_create(const char *type, struct handler_spec *spec, struct reeve_error *error)
{
	const struct reeve_plugin *plugin;
	struct handler *handler;

	if (!strchr(spec->command, '/')) {
		error_set(error, STATUS(INVALID_ARGUMENT), "%.200s is not a path: it has no /", spec->command);
		return NULL;
	}
	pthread_mutex_lock(&lock);
	plugin = find(spec->command, error);
	pthread_mutex_unlock(&lock);
	if (!plugin)
		return NULL;
	handler = function_handler_create(type, plugin->handler, NULL);
	handler->timeout_ms = spec->timeout_ms;
	handler_spec_clear(spec);
	return handler;
}
