/* An origin has a lane while it has waiting operations. */
#include "manager/store/fair.h"

#include "common/hash.h"

#include <assert.h>
#include <stdlib.h>
#include <utlist.h>

enum { UNIT = 1000 }; /* of turns, for a weight of 1 */

static int64_t work_of(const struct store_op *op)
{
	return UNIT * (int64_t)(op->weight > 0 ? op->weight : 1);
}

struct lane {
	uint64_t origin;
	int64_t end; /* the turn of its last operation */
	int count;
	size_t bytes;
	UT_hash_handle hh;
};

static struct lane *lane_of(const struct fair *fair, uint64_t origin)
{
	struct lane *lane;
	HASH_FIND(hh, fair->lanes, &origin, sizeof origin, lane);
	return lane;
}

static struct lane *lane_enter(struct fair *fair, const struct store_op *op)
{
	struct lane *lane = lane_of(fair, op->origin);
	if (!lane) {
		lane = mem_calloc(1, sizeof *lane);
		lane->origin = op->origin;
		HASH_ADD(hh, fair->lanes, origin, sizeof lane->origin, lane);
	}
	lane->count++;
	lane->bytes += op->bytes;
	return lane;
}

/* Inserts an operation after all with the same or an earlier turn. Searches from both ends at once. */
static void insert(struct store_op **waiting, struct store_op *op)
{
	struct store_op *from_head = *waiting, *from_tail = from_head ? from_head->prev : NULL;
	for (; from_head; from_head = from_head->next, from_tail = from_tail->prev) {
		if (from_tail->turn <= op->turn) {
			DL_APPEND_ELEM(*waiting, from_tail, op);
			return;
		}
		if (from_head->turn > op->turn) {
			DL_PREPEND_ELEM(*waiting, from_head, op);
			return;
		}
	}
	DL_APPEND(*waiting, op);
}

void fair_add(struct fair *fair, struct store_op **waiting, struct store_op *op)
{
	op->turn = fair->now;
	if (op->origin) {
		struct lane *lane = lane_enter(fair, op);
		int64_t after = lane->end > fair->now ? lane->end : fair->now;
		op->turn = lane->end = after + work_of(op);
	}
	insert(waiting, op);
}

void fair_begin(struct fair *fair, const struct store_op *op)
{
	if (!op->origin)
		return;
	assert(fair->lanes); /* the lane of this operation is among them */
	fair->now += work_of(op) / HASH_COUNT(fair->lanes);
}

void fair_return(struct fair *fair, struct store_op *op)
{
	if (op->origin)
		lane_enter(fair, op);
}

void fair_leave(struct fair *fair, struct store_op *op)
{
	struct lane *lane = op->origin ? lane_of(fair, op->origin) : NULL;
	if (!lane)
		return;
	lane->bytes -= op->bytes;
	if (--lane->count > 0)
		return;
	HASH_DEL(fair->lanes, lane);
	free(lane);
}

size_t fair_bytes(const struct fair *fair, uint64_t origin)
{
	const struct lane *lane = origin ? lane_of(fair, origin) : NULL;
	return lane ? lane->bytes : 0;
}
