/*
 * How many attempts have completed and failed, by queue and batch, since the worker started. Heartbeats carry the
 * counts that have changed. Of very many queues and batches, the oldest are forgotten once a manager has them.
 *
 * Data only; guarded by the worker's lock.
 */
#ifndef REEVE_WORKER_COUNTS_H
#define REEVE_WORKER_COUNTS_H

#include "common/hash.h"

#include <reeve/v1/worker.pb-c.h>
#include <stdbool.h>

enum {
	COUNTS_MAX = 1000,
	COUNTS_SENT_MAX = 100, /* in a heartbeat */
};

struct count {
	int64_t completed, failed;
	bool changed; /* no heartbeat with these numbers has been acknowledged */
	UT_hash_handle hh;
	int64_t batch_id; /* part of the key; 0: none */
	char queue[];     /* part of the key */
};

/* All zero: none. */
struct counts {
	struct count *all; /* uthash */
};

/* What a heartbeat carries. */
struct counts_sent {
	size_t count;
	Reeve__V1__WorkerCount items[COUNTS_SENT_MAX];
	Reeve__V1__WorkerCount *list[COUNTS_SENT_MAX];
};

void counts_add(struct counts *counts, const char *queue, int64_t batch_id, bool completed);

/* Fills in counts that have changed. They point to these, which are not freed until counts_sent_acked has been called.
 */
void counts_send(const struct counts *counts, struct counts_sent *sent);

/* Notes that a manager has acknowledged them. */
void counts_sent_acked(struct counts *counts, const struct counts_sent *sent);

/* Has all sent again, for a new incarnation. */
void counts_resend(struct counts *counts);

void counts_clear(struct counts *counts);

#endif
