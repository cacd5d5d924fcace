/* Sharing the tasks with other managers: each prefers the ids of its own shard. */
#include "manager/core/window_internal.h"

enum {
	OTHERS_MS = 500,             /* so long another manager is given to take a task of its slice */
};

bool window_is_others(const struct window *w, int64_t id)
{
	return w->slices > 1 && id % w->slices != w->slice;
}

/* A task of another slice was passed over. The first one is remembered: reading goes back there when need be. */
void stream_pass_over(struct stream *s, const struct store_candidate *c)
{
	const struct store_candidate *was = &s->passed;
	if (was->id && (was->run_at_us < c->run_at_us || (was->run_at_us == c->run_at_us && was->id <= c->id)))
		return;
	s->passed = *c;
	s->passed_ms = core_now(s->window->core);
	s->probing = false;
}

/* Reads the stream whole, from the first task that was passed over. */
void stream_read_whole(struct stream *s, int64_t for_ms)
{
	struct store_candidate from = s->passed;
	s->whole = true;
	s->whole_until_ms = core_now(s->window->core) + for_ms;
	s->passed.id = 0;
	stream_rewind(s, from.run_at_us, from.id - 1);
}

/* The first task that was passed over is tried when the others have had their time. Returns when that will be. */
int64_t stream_probe_passed(struct stream *s, int64_t now_ms)
{
	struct window *w = s->window;
	struct known *k;
	if (!s->passed.id)
		return INT64_MAX;
	if (s->probing) {
		HASH_FIND(hh, w->known, &s->passed.id, sizeof s->passed.id, k);
		if (k)
			return INT64_MAX;
		s->probing = false; /* its claim failed, or it does not wait any more: once again, later */
		s->passed_ms = now_ms;
	}
	if (now_ms < s->passed_ms + OTHERS_MS)
		return s->passed_ms + OTHERS_MS;
	s->probing = true;
	HASH_FIND(hh, w->known, &s->passed.id, sizeof s->passed.id, k);
	if (k)
		return INT64_MAX;
	stream_add_candidate(s, &s->passed);
	HASH_FIND(hh, w->known, &s->passed.id, sizeof s->passed.id, k);
	k->probe = true;
	return INT64_MAX;
}

void window_slice(struct window *w, int slices, int slice)
{
	struct stream *s, *tmp;
	w->slices = slices;
	w->slice = slice;
	HASH_ITER (hh, w->streams, s, tmp) {
		s->passed.id = 0;
		s->whole = false;
	}
	window_rewind_all(w);
}
