/*
 * reeve-worker: runs tasks with the programs of a handlers file.
 */
#include "common/log.h"
#include "worker/accepts.h"
#include "worker/handler.h"
#include "worker/program.h"
#include "worker/result_store.h"

#include <pthread.h>
#include <reeve/worker.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

/* Raises the limit of open files, because each running program takes some descriptors here. Call it after the
 * supervisor was forked, so that programs keep the usual limit. */
static void raise_file_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
}

/* Removes the access token from this process's environment, where programs of its user could read it in /proc. Call it
 * when the worker has the token. */
static void forget_token(void)
{
	char *token = getenv("REEVE_ACCESS_TOKEN");

	if (token)
		explicit_bzero(token, strlen(token));
}

/* The thread that receives SIGHUP; all others block it. */
struct reloader {
	struct reeve_worker *worker;
	int argc;
	char **argv;
	sigset_t hangup;
	atomic_bool end;
	pthread_t thread;
};

static void *reload_main(void *arg)
{
	struct reloader *reloader = arg;
	struct reeve_error error;
	enum log_level level;
	int number;

	while (sigwait(&reloader->hangup, &number) == 0 && !atomic_load(&reloader->end)) {
		if (program_level_read(reloader->argc, reloader->argv, &level, &error))
			log_set_level(level);
		else
			log_error(NULL, "reloading on SIGHUP: %s; the log level stays as it was", error.message);
		reeve_worker_reload(reloader->worker);
	}
	return NULL;
}

static void reloader_start(struct reloader *reloader)
{
	if (pthread_create(&reloader->thread, NULL, reload_main, reloader) != 0)
		abort();
}

static void reloader_stop(struct reloader *reloader)
{
	atomic_store(&reloader->end, true);
	pthread_kill(reloader->thread, SIGHUP);
	pthread_join(reloader->thread, NULL);
}

/* Reads the certificates if a manager's URL needs them, and prints what expires soon. */
static bool check_tls(const struct program_options *options, struct reeve_error *error)
{
	struct tls_ending endings[TLS_FILES];
	char text[TLS_ENDING_TEXT];
	struct tls *tls;
	bool valid;
	int count;

	if (!strstr(options->managers, "tls+tcp://"))
		return true;
	tls = tls_create(TLS_CLIENT, &options->tls, error);
	if (!tls)
		return false;
	valid = true;
	count = tls_endings(tls, endings);
	for (int i = 0; i < count; i++) {
		tls_ending_text(&endings[i], text);
		if (endings[i].left_s <= 0)
			valid = error_set(error, STATUS(INVALID_ARGUMENT), "%s %s: %s", endings[i].option, endings[i].path, text);
		else
			fprintf(stderr, "reeve-worker: %s %s: %s\n", endings[i].option, endings[i].path, text);
	}
	tls_destroy(tls);
	return valid;
}

static bool check_store(const struct program_options *options, struct reeve_error *error)
{
	char *path = options->result_store ? result_store_open(options->result_store, error) : NULL;
	bool valid = path || !options->result_store;

	free(path);
	return valid;
}

/* Checks the options, the handlers file and the certificates for --check, and prints the first error. */
static int check(const struct program_options *options)
{
	struct handler *handlers = NULL;
	struct accepts *accepts = NULL;
	struct names requested = {0};
	struct reeve_error error;
	bool valid;

	if (check_tls(options, &error) && check_store(options, &error) &&
	    handlers_read_file(&handlers, options->handlers, &error) &&
	    names_parse(options->types, "types", &requested, &error))
		accepts = accepts_create(&requested, handlers, true, &error);
	valid = accepts != NULL;
	if (!valid)
		fprintf(stderr, "reeve-worker: %s\n", error.message);
	handlers_free(&handlers);
	names_free(&requested);
	accepts_drop(accepts);
	return valid ? EXIT_OK : EXIT_USAGE;
}

int main(int argc, char **argv)
{
	struct reloader reloader = {.argc = argc, .argv = argv};
	struct program_options options;
	struct reeve_worker *worker;
	int code;

	if (program_options_read(&options, argc, argv, &code))
		return code;
	http_handlers_enable();
	if (options.check)
		return check(&options);
	log_setup("reeve-worker", options.level);
	log_set_format(options.log_format);
	/* If the reader of the log goes away, a write fails; no signal must end the worker. Programs can get it again. */
	signal(SIGPIPE, SIG_IGN);
	/* Block SIGHUP before any threads start. The supervisor has its own mask, and programs start with an empty one. */
	sigemptyset(&reloader.hangup);
	sigaddset(&reloader.hangup, SIGHUP);
	pthread_sigmask(SIG_BLOCK, &reloader.hangup, NULL);
	reloader.worker = worker = reeve_worker_create(&options.worker);
	forget_token();
	raise_file_limit();
	reeve_worker_stop_on_signals(worker);
	reeve_worker_handle_file(worker, options.handlers);
	reloader_start(&reloader);
	code = reeve_worker_run(worker);
	reloader_stop(&reloader);
	reeve_worker_destroy(worker);
	return code;
}
