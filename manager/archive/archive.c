/*
 * One thing at a time: an operation of the store, or a job on a thread, or resting. A job's end is told by an eventfd.
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
	REST_S = 60,
	OTHERS_REST_S = 5, /* while another manager archives: it may have died */
};

struct archive {
	struct store *store;
	const char *directory;
	void (*noted)(void *arg);
	void *arg;
	struct event *alarm, *job_ended;
	int signal; /* the eventfd */
	struct store_archive op;
	struct archive_file file;
	int64_t tasks;
	char told[512]; /* what was last complained of */
	/* The job. */
	pthread_t thread;
	bool working;
	bool stopping;
	char *text;
	size_t length;
	bool last;
	bool good;
	struct reeve_error error;
};

static void rest(struct archive *a)
{
	const struct timeval later = {.tv_sec = a->op.lost ? OTHERS_REST_S : REST_S};
	evtimer_add(a->alarm, &later);
}

static void on_released(struct store_op *op, const struct reeve_error *error)
{
	struct archive *a = (struct archive *)((char *)op - offsetof(struct archive, op));
	(void)error;
	rest(a);
}

static void give(struct archive *a, enum store_archive_kind kind, void (*done)(struct store_op *, const struct reeve_error *))
{
	a->op.kind = kind;
	a->op.op.done = done;
	store_archive(a->store, &a->op);
}

static void release(struct archive *a)
{
	give(a, STORE_ARCHIVE_RELEASE, on_released);
}

/* Gives up for now. What is wrong is said once, until it is something else. */
static void give_up(struct archive *a, const char *problem)
{
	archive_file_abandon(&a->file);
	if (problem && !a->stopping && strcmp(problem, a->told) != 0) {
		log_error("archive", "%s is not archived, and stays: %s; tried again every %d s", a->op.partition, problem, REST_S);
		snprintf(a->told, sizeof a->told, "%s", problem);
	}
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
	*a->told = 0;
	a->noted(a->arg);
	ask_next(a);
}

/* --- the thread ------------------------------------------------------------------------------------------------ */

static void *job_run(void *arg)
{
	struct archive *a = arg;
	uint64_t one = 1;
	a->good = a->file.fd >= 0 || archive_file_open(&a->file, a->directory, a->op.partition, &a->error);
	a->good = a->good && archive_file_write(&a->file, a->text, a->length, &a->error);
	if (a->good && a->last)
		a->good = archive_file_finish(&a->file, &a->error);
	if (write(a->signal, &one, sizeof one) != sizeof one)
		abort(); /* an eventfd that has room always takes it */
	return NULL;
}

static void job_start(struct archive *a)
{
	a->working = true;
	if (pthread_create(&a->thread, NULL, job_run, a) != 0) {
		a->working = false;
		free(a->text);
		a->text = NULL;
		give_up(a, "no thread can be started");
	}
}

/* --- a partition ----------------------------------------------------------------------------------------------- */

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
	job_start(a);
}

static void on_job_ended(evutil_socket_t fd, short what, void *arg)
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
	if (error && !a->stopping)
		log_warn("archive", "cannot tell what is to be archived: %s", error->message);
	if (!error && a->op.lost) {
		rest(a);
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

static void on_alarm(evutil_socket_t fd, short what, void *arg)
{
	struct archive *a = arg;
	const struct timeval soon = {.tv_usec = 100 * 1000};
	(void)fd, (void)what;
	if (store_manager_id(a->store))
		ask_next(a);
	else /* nobody could tell that it is this one that archives */
		evtimer_add(a->alarm, &soon);
}

struct archive *archive_create(struct event_base *base, struct store *store, const char *directory,
    void (*noted)(void *arg), void *arg, struct reeve_error *error)
{
	struct archive *a = mem_calloc(1, sizeof *a);
	a->store = store;
	a->directory = directory;
	a->noted = noted;
	a->arg = arg;
	a->file.fd = -1;
	a->signal = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (a->signal < 0) {
		error_set(error, STATUS(UNAVAILABLE), "no eventfd for the archive: %s", strerror(errno));
		free(a);
		return NULL;
	}
	if (access(directory, W_OK | X_OK) < 0)
		log_error("archive", "%s: %s; nothing is archived, and nothing of the history goes, until that is mended", directory,
		    strerror(errno));
	a->alarm = evtimer_new(base, on_alarm, a);
	a->job_ended = event_new(base, a->signal, EV_READ | EV_PERSIST, on_job_ended, a);
	event_add(a->job_ended, NULL);
	const struct timeval now = {0};
	evtimer_add(a->alarm, &now);
	return a;
}

void archive_stop(struct archive *a)
{
	if (a)
		a->stopping = true;
}

void archive_destroy(struct archive *a)
{
	if (!a)
		return;
	if (a->working)
		pthread_join(a->thread, NULL);
	archive_file_abandon(&a->file);
	free(a->text);
	event_free(a->alarm);
	event_free(a->job_ended);
	close(a->signal);
	free(a);
}
