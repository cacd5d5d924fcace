/* The list of waiting results, and the counts of waiting and reported ones. */
#include "worker/outbox.h"

#include <assert.h>
#include <utlist.h>

void outbox_add(struct outbox *outbox, struct attempt *attempt)
{
	attempt->place = PLACE_OUTBOX;
	DL_APPEND(outbox->waiting, attempt);
	outbox->waiting_count++;
	outbox->waiting_bytes += attempt->result_bytes;
}

static void leave_waiting(struct outbox *outbox, struct attempt *attempt)
{
	DL_DELETE(outbox->waiting, attempt);
	outbox->waiting_count--;
	outbox->waiting_bytes -= attempt->result_bytes;
}

static void leave_reported(struct outbox *outbox, const struct attempt *attempt)
{
	assert(attempt->place == PLACE_REPORTED);
	outbox->reported_count--;
	outbox->reported_bytes -= attempt->result_bytes;
}

size_t outbox_take(struct outbox *outbox, struct attempt **into, size_t max_count, size_t max_bytes)
{
	struct attempt *attempt = outbox->waiting, *next;
	uint64_t group = attempt ? attempt->group : 0;
	size_t count = 0, bytes = 0;

	for (; attempt && attempt->group == group && count < max_count; attempt = next) {
		next = attempt->next;
		if (count && bytes + attempt->result_bytes > max_bytes)
			break;
		bytes += attempt->result_bytes;
		leave_waiting(outbox, attempt);
		attempt->place = PLACE_REPORTED;
		outbox->reported_count++;
		outbox->reported_bytes += attempt->result_bytes;
		into[count++] = attempt;
	}
	return count;
}

void outbox_put_back(struct outbox *outbox, struct attempt *const *attempts, size_t count)
{
	while (count--) {
		struct attempt *attempt = attempts[count];

		leave_reported(outbox, attempt);
		attempt->place = PLACE_OUTBOX;
		DL_PREPEND(outbox->waiting, attempt);
		outbox->waiting_count++;
		outbox->waiting_bytes += attempt->result_bytes;
	}
}

void outbox_again(struct outbox *outbox, struct attempt *attempt)
{
	leave_reported(outbox, attempt);
	attempt->group = 0;
	outbox_add(outbox, attempt);
}

void outbox_split(struct outbox *outbox, struct attempt *const *attempts, size_t count)
{
	uint64_t first = ++outbox->last_group, second = ++outbox->last_group;

	assert(count >= 2);
	for (size_t i = 0; i < count; i++)
		attempts[i]->group = i < count / 2 ? first : second;
	outbox_put_back(outbox, attempts, count);
}

void outbox_remove(struct outbox *outbox, struct attempt *attempt)
{
	if (attempt->place == PLACE_OUTBOX)
		leave_waiting(outbox, attempt);
	else
		leave_reported(outbox, attempt);
}
