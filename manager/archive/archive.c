/*
 * The job "archive". A run does one step at a time: an operation of the store, or work on a thread, which signals its
 * end by an eventfd.
 */
#include "manager/archive/archive.h"

#include "common/log.h"
#include "manager/archive/file.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum {
	OTHERS_MS = 5000, /* until the next check while another manager archives, as it may have died */
	UNKNOWN_MS = 100, /* until the next check while this manager has no id in the database */
};

struct archive {
	struct store *store;
	struct jobs *jobs;
	const char *directory;
	struct event *thread_ended;
	int signal; /* the eventfd */
	struct store_archive op;
	struct archive_file file;
	int64_t tasks;
	struct reeve_error problem; /* why this run has failed; code OK: no failure */
	/* Work on the thread */
	pthread_t thread;
	bool working;
	char *text;
	size_t length;
	bool last;
	bool good;
	struct reeve_error error;
};

/* Ends the run because another manager archives. */
static void leave_to_others(struct archive *a)
{
	jobs_at(a->jobs, JOB_ARCHIVE, jobs_now(a->jobs) + OTHERS_MS);
	jobs_done(a->jobs, JOB_ARCHIVE, NULL, false);
}

static void on_released(struct store_op *op, const struct reeve_error *error)
{
	struct archive *a = (struct archive *)((char *)op - offsetof(struct archive, op));
	(void)error;
	jobs_done(a->jobs, JOB_ARCHIVE, a->problem.code ? &a->problem : NULL, false);
}

static void give(
    struct archive *a, enum store_archive_kind kind, void (*done)(struct store_op *, const struct reeve_error *))
{
	a->op.kind = kind;
	a->op.op.done = done;
	store_archive(a->store, &a->op);
}

static void release(struct archive *a)
{
	give(a, STORE_ARCHIVE_RELEASE, on_released);
}

/* Abandons the partition in this run. `problem` NULL: another manager archives it. */
static void give_up(struct archive *a, const char *problem)
{
	archive_file_abandon(&a->file);
	if (problem)
		error_set(&a->problem, STATUS(ABORTED), "%s is not archived, and stays: %s", a->op.partition, problem);
	release(a);
}

static void ask_next(struct archive *a);

static void on_noted(struct store_op *op, const struct reeve_error *error)
{
	struct archive *a = (struct archive *)((char *)op - offsetof(struct archive, op));
	if (error || a->op.lost) {
		give_up(a, error ? error->message : NULL);
		return;
	}
	log_info("archive", "%s: %lld tasks are in %s", a->op.partition, (long long)a->tasks, a->file.path);
	jobs_at(a->jobs, JOB_TABLES, 0); /* the partition may be dropped now */
	ask_next(a);
}

/* --- thread ---------------------------------------------------------------------------------------------------- */

static void *thread_run(void *arg)
{
	struct archive *a = arg;
	uint64_t one = 1;
	a->good = a->file.fd >= 0 || archive_file_open(&a->file, a->directory, a->op.partition, &a->error);
	a->good = a->good && archive_file_write(&a->file, a->text, a->length, &a->error);
	if (a->good && a->last)
		a->good = archive_file_finish(&a->file, &a->error);
	if (write(a->signal, &one, sizeof one) != sizeof one)
		abort(); /* this cannot fail: the eventfd has room */
	return NULL;
}

static void thread_start(struct archive *a)
{
	a->working = true;
	if (pthread_create(&a->thread, NULL, thread_run, a) != 0) {
		a->working = false;
		free(a->text);
		a->text = NULL;
		give_up(a, "no thread can be started");
	}
}

/* --- partition ------------------------------------------------------------------------------------------------- */

static void on_page(struct store_op *op, const struct reeve_error *error)
{
	struct archive *a = (struct archive *)((char *)op - offsetof(struct archive, op));
	if (error || a->op.lost) {
		give_up(a, error ? error->message : NULL);
		return;
	}
	size_t length = 0;
	for (int i = 0; i < a->op.count; i++)
		length += strlen(a->op.lines[i]) + 1;
	char *end = a->text = mem_malloc(length + 1);
	for (int i = 0; i < a->op.count; i++) {
		end = stpcpy(end, a->op.lines[i]);
		*end++ = '\n';
	}
	a->length = length;
	a->last = a->op.count == 0;
	a->tasks += a->op.count;
	thread_start(a);
}

static void on_thread_ended(evutil_socket_t fd, short what, void *arg)
{
	struct archive *a = arg;
	uint64_t count;
	(void)what;
	if (read(fd, &count, sizeof count) != sizeof count)
		return;
	pthread_join(a->thread, NULL);
	a->working = false;
	free(a->text);
	a->text = NULL;
	if (!a->good) {
		give_up(a, a->error.message);
	} else if (a->last) {
		a->op.file = a->file.path;
		a->op.tasks = a->tasks;
		give(a, STORE_ARCHIVE_NOTE, on_noted);
	} else {
		give(a, STORE_ARCHIVE_PAGE, on_page);
	}
}

static void on_next(struct store_op *op, const struct reeve_error *error)
{
	struct archive *a = (struct archive *)((char *)op - offsetof(struct archive, op));
	if (error)
		error_set(&a->problem, error->code, "cannot find out what is to be archived: %s", error->message);
	if (!error && a->op.lost) {
		leave_to_others(a);
		return;
	}
	if (error || !*a->op.partition) {
		release(a);
		return;
	}
	a->op.after = 0;
	a->tasks = 0;
	give(a, STORE_ARCHIVE_PAGE, on_page);
}

static void ask_next(struct archive *a)
{
	give(a, STORE_ARCHIVE_NEXT, on_next);
}

static bool archive_run(void *arg)
{
	struct archive *a = arg;
	if (!store_manager_id(a->store)) { /* the lock needs this manager's id */
		jobs_at(a->jobs, JOB_ARCHIVE, jobs_now(a->jobs) + UNKNOWN_MS);
		return false;
	}
	a->problem = (struct reeve_error){0};
	ask_next(a);
	return true;
}

struct archive *archive_create(
    struct event_base *base, struct store *store, struct jobs *jobs, const char *directory, struct reeve_error *error)
{
	struct archive *a = mem_calloc(1, sizeof *a);
	a->store = store;
	a->jobs = jobs;
	a->directory = directory;
	a->file.fd = -1;
	a->signal = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (a->signal < 0) {
		error_set(error, STATUS(UNAVAILABLE), "--archive %s: eventfd: %s", directory, strerror(errno));
		free(a);
		return NULL;
	}
	if (access(directory, W_OK | X_OK) < 0)
		log_error("archive", "%s: %s; nothing is archived, and nothing of the history goes, until that is mended",
		    directory, strerror(errno));
	a->thread_ended = event_new(base, a->signal, EV_READ | EV_PERSIST, on_thread_ended, a);
	event_add(a->thread_ended, NULL);
	jobs_bind(jobs, JOB_ARCHIVE, archive_run, a);
	return a;
}

void archive_destroy(struct archive *a)
{
	if (!a)
		return;
	if (a->working)
		pthread_join(a->thread, NULL);
	archive_file_abandon(&a->file);
	free(a->text);
	event_free(a->thread_ended);
	close(a->signal);
	free(a);
}
