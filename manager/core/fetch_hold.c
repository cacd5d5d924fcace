/*
 * Fetches of callers that do not read their answers. A connection with a full answer unread gets no more tasks until
 * half of that is read: they would only take memory here, and other workers may be idle. For the same reason tasks are
 * read only for a part of a connection's Fetches at a time. Those that are held go on in the order in which they came.
 */
#include "manager/core/dispatch_internal.h"

#include <stdlib.h>
#include <utlist.h>

enum {
	WORK_MAX = 100
}; /* of the Fetches of a connection for which tasks are read: as many as one statement redelivers */

/* A connection with such Fetches, or with held ones. */
struct reader {
	uint64_t origin;
	int work;
	struct fetch *held;         /* list: those in state HELD, the first one first */
	struct reader *prev, *next; /* while it has some */
	UT_hash_handle hh;
};

static struct reader *reader_of(const struct fetch *f)
{
	struct reader *reader;
	HASH_FIND(hh, f->dispatch->readers, &f->request.origin, sizeof f->request.origin, reader);
	return reader;
}

static struct reader *reader_take(const struct fetch *f)
{
	struct reader *reader = reader_of(f);
	if (reader)
		return reader;
	reader = mem_calloc(1, sizeof *reader);
	reader->origin = f->request.origin;
	HASH_ADD(hh, f->dispatch->readers, origin, sizeof reader->origin, reader);
	return reader;
}

static void reader_leave(struct dispatch *d, struct reader *reader)
{
	if (reader->work || reader->held)
		return;
	HASH_DEL(d->readers, reader);
	free(reader);
}

static bool has_room(const struct fetch *f, int work)
{
	const struct reader *reader = f->request.origin && work ? reader_of(f) : NULL;
	return !reader || reader->work + work <= WORK_MAX;
}

static bool backlogged(const struct fetch *f)
{
	return f->request.backlogged &&
	    f->request.backlogged(f->request.caller, f->dispatch->base->options.max_answer_bytes);
}

static void hold(struct fetch *f, int work, fetch_start *start)
{
	fetch_move(f, HELD); /* if it is held already, this may free its reader */
	struct reader *reader = reader_take(f);
	f->held_work = work;
	f->start = start;
	if (!reader->held)
		DL_APPEND(f->dispatch->holding, reader);
	DL_APPEND2(reader->held, f, held_prev, held_next);
	fetch_timer(f, f->until_ms);
}

void fetch_unhold(struct fetch *f)
{
	struct reader *reader = reader_of(f);
	DL_DELETE2(reader->held, f, held_prev, held_next);
	if (reader->held) {
		if (!f->resumed) /* the next one may need less */
			dispatch_eased(f->dispatch);
		return;
	}
	DL_DELETE(f->dispatch->holding, reader);
	reader_leave(f->dispatch, reader);
}

void fetch_end_held(struct fetch *f)
{
	struct reeve_error error;
	error_set(&error, STATUS(UNAVAILABLE),
	    backlogged(f) ? "the connection has too many unread answers; read them, then ask again"
	                  : "earlier Fetches of the connection wait for the database; ask again");
	fetch_end(f, NULL, &error);
}

bool fetch_held_waiting(const struct fetch *f)
{
	return f->state == HELD && f->start == fetch_wait;
}

bool fetch_pass(struct fetch *f)
{
	if (f->granted || f->passed)
		return f->passed;
	f->passed = backlogged(f);
	if (f->passed)
		DL_APPEND2(f->dispatch->passed, f, held_prev, held_next);
	return f->passed;
}

void fetches_hold(struct dispatch *d)
{
	for (struct fetch *f; (f = d->passed);) {
		DL_DELETE2(d->passed, f, held_prev, held_next);
		f->passed = false;
		hold(f, 0, fetch_wait);
	}
}

void fetches_resume(struct dispatch *d)
{
	struct reader *reader, *next_reader;
	struct fetch *f, *next;
	if (!d->eased)
		return;
	d->eased = false;
	DL_FOREACH_SAFE (d->holding, reader, next_reader) {
		DL_FOREACH_SAFE2 (reader->held, f, next, held_next) { /* the last one may free the reader */
			if (!has_room(f, f->held_work) || backlogged(f))
				break;
			f->resumed = f->start != fetch_wait;
			fetch_move(f, ASKING);
			f->start(f);
		}
	}
}

void dispatch_eased(struct dispatch *d)
{
	if (!d->holding)
		return;
	d->eased = true;
	base_dispatch(d->base);
}

void fetch_idle(struct fetch *f)
{
	struct reader *reader = f->work ? reader_of(f) : NULL;
	if (!reader)
		return;
	reader->work -= f->work;
	f->work = 0;
	reader_leave(f->dispatch, reader);
	dispatch_eased(f->dispatch);
}

bool fetch_begin(struct fetch *f, int work, fetch_start *start)
{
	fetch_idle(f);
	struct reader *reader = f->request.origin ? reader_take(f) : NULL;
	bool waits = reader && reader->held && !f->resumed;
	f->resumed = false;
	if (waits || !has_room(f, work) || backlogged(f)) {
		hold(f, work, start);
		return false;
	}
	if (reader) {
		reader->work += work;
		f->work = work;
	}
	return true;
}
