/* The list of waiting results, and the counts of waiting and reported ones. */
#include "worker/unacked.h"

#include <assert.h>
#include <utlist.h>

/* Returns the number of results that are enough for a second report. */
static size_t second_report(size_t capacity)
{
	size_t quarter = capacity / 4;

	if (quarter > SECOND_REPORT_MAX)
		return SECOND_REPORT_MAX;
	return quarter ? quarter : 1;
}

bool unacked_report_due(const struct unacked *unacked, size_t capacity)
{
	if (unacked->waiting_count == 0 || unacked->reports >= REPORTS_MAX)
		return false;
	return unacked->reports == 0 || unacked->waiting_count >= second_report(capacity) ||
	    unacked->waiting_bytes >= REPORT_BYTES_MAX;
}

void unacked_add(struct unacked *unacked, struct attempt *attempt)
{
	attempt->place = PLACE_UNACKED;
	DL_APPEND(unacked->waiting, attempt);
	unacked->waiting_count++;
	unacked->waiting_bytes += attempt->result_bytes;
}

static void leave_waiting(struct unacked *unacked, struct attempt *attempt)
{
	DL_DELETE(unacked->waiting, attempt);
	unacked->waiting_count--;
	unacked->waiting_bytes -= attempt->result_bytes;
}

static void leave_reported(struct unacked *unacked, const struct attempt *attempt)
{
	assert(attempt->place == PLACE_REPORTED);
	unacked->reported_count--;
	unacked->reported_bytes -= attempt->result_bytes;
}

size_t unacked_take(struct unacked *unacked, struct attempt **into, size_t max_count, size_t max_bytes)
{
	struct attempt *attempt = unacked->waiting, *next;
	uint64_t group = attempt ? attempt->group : 0;
	size_t count = 0, bytes = 0;

	for (; attempt && attempt->group == group && count < max_count; attempt = next) {
		next = attempt->next;
		if (count && bytes + attempt->result_bytes > max_bytes)
			break;
		bytes += attempt->result_bytes;
		leave_waiting(unacked, attempt);
		attempt->place = PLACE_REPORTED;
		unacked->reported_count++;
		unacked->reported_bytes += attempt->result_bytes;
		into[count++] = attempt;
	}
	return count;
}

void unacked_put_back(struct unacked *unacked, struct attempt *const *attempts, size_t count)
{
	while (count--) {
		struct attempt *attempt = attempts[count];

		leave_reported(unacked, attempt);
		attempt->place = PLACE_UNACKED;
		DL_PREPEND(unacked->waiting, attempt);
		unacked->waiting_count++;
		unacked->waiting_bytes += attempt->result_bytes;
	}
}

void unacked_resend(struct unacked *unacked, struct attempt *attempt)
{
	leave_reported(unacked, attempt);
	attempt->group = 0;
	unacked_add(unacked, attempt);
}

void unacked_split(struct unacked *unacked, struct attempt *const *attempts, size_t count)
{
	uint64_t first = ++unacked->last_group, second = ++unacked->last_group;

	assert(count >= 2);
	for (size_t i = 0; i < count; i++)
		attempts[i]->group = i < count / 2 ? first : second;
	unacked_put_back(unacked, attempts, count);
}

void unacked_remove(struct unacked *unacked, struct attempt *attempt)
{
	if (attempt->place == PLACE_UNACKED)
		leave_waiting(unacked, attempt);
	else
		leave_reported(unacked, attempt);
}
