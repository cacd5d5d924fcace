/*
 * Each caller has a heap of its polls, by time. Callers with a poll whose time has come are in a list: the first one
 * gives one poll and goes to the end. The others are in a heap by the time of their earliest poll.
 */
#include "manager/core/polls.h"

#include "common/hash.h"

#include <stdbool.h>
#include <stdlib.h>
#include <utlist.h>

struct poll_caller {
	uint64_t origin;
	struct deadlines polls;
	struct deadline next; /* its earliest poll */
	bool due;             /* it is in the list */
	struct poll_caller *prev_due, *next_due;
	UT_hash_handle hh;
};

static struct poll_caller *find_caller(const struct polls *polls, uint64_t origin)
{
	struct poll_caller *caller;
	HASH_FIND(hh, polls->callers, &origin, sizeof origin, caller);
	return caller;
}

static struct poll_caller *get_caller(struct polls *polls, uint64_t origin)
{
	struct poll_caller *caller = find_caller(polls, origin);
	if (caller)
		return caller;
	caller = mem_calloc(1, sizeof *caller);
	caller->origin = origin;
	HASH_ADD(hh, polls->callers, origin, sizeof caller->origin, caller);
	return caller;
}

static void leave_due(struct polls *polls, struct poll_caller *caller)
{
	if (caller->due)
		DL_DELETE2(polls->due, caller, prev_due, next_due);
	caller->due = false;
}

static void enter_due(struct polls *polls, struct poll_caller *caller)
{
	deadlines_remove(&polls->next, &caller->next);
	DL_APPEND2(polls->due, caller, prev_due, next_due);
	caller->due = true;
}

/* To be called when a caller's polls have changed. Frees a caller without polls. */
static void update_caller(struct polls *polls, struct poll_caller *caller)
{
	const struct deadline *first = deadlines_first(&caller->polls);
	if (first) {
		if (!caller->due)
			deadlines_set(&polls->next, &caller->next, first->at_ms);
		return;
	}
	leave_due(polls, caller);
	deadlines_remove(&polls->next, &caller->next);
	HASH_DEL(polls->callers, caller);
	deadlines_free(&caller->polls);
	free(caller);
}

void polls_add(struct polls *polls, struct poll *poll, uint64_t origin, int64_t at_ms)
{
	poll->caller = get_caller(polls, origin);
	polls_later(polls, poll, at_ms);
}

void polls_share(struct polls *polls, struct poll *poll, uint64_t origin)
{
	const struct poll_caller *caller = find_caller(polls, origin);
	if (poll->caller->polls.count <= 1 + (caller ? caller->polls.count : 0))
		return;
	polls_remove(polls, poll);
	polls_add(polls, poll, origin, poll->deadline.at_ms);
}

void polls_remove(struct polls *polls, struct poll *poll)
{
	deadlines_remove(&poll->caller->polls, &poll->deadline);
	update_caller(polls, poll->caller);
	poll->caller = NULL;
}

void polls_later(struct polls *polls, struct poll *poll, int64_t at_ms)
{
	deadlines_set(&poll->caller->polls, &poll->deadline, at_ms);
	update_caller(polls, poll->caller);
}

struct poll *polls_take(struct polls *polls, int64_t now_ms)
{
	struct deadline *next;
	while ((next = deadlines_first(&polls->next)) && next->at_ms <= now_ms)
		enter_due(polls, (struct poll_caller *)((char *)next - offsetof(struct poll_caller, next)));
	while (polls->due) {
		struct poll_caller *caller = polls->due;
		struct deadline *first = deadlines_first(&caller->polls);
		leave_due(polls, caller);
		if (first->at_ms <= now_ms) {
			enter_due(polls, caller);
			return (struct poll *)((char *)first - offsetof(struct poll, deadline));
		}
		update_caller(polls, caller);
	}
	return NULL;
}

int64_t polls_next_ms(const struct polls *polls)
{
	const struct deadline *next = deadlines_first(&polls->next);
	return polls->due ? 0 : next ? next->at_ms : INT64_MAX;
}

void polls_free(struct polls *polls)
{
	deadlines_free(&polls->next);
}
