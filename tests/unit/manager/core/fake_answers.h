/* Helpers for tests of the core: they send Fetches and record the answers, and answer pages, queries and claims. */
#ifndef REEVE_TESTS_FAKE_ANSWERS_H
#define REEVE_TESTS_FAKE_ANSWERS_H

#include "manager/core/dispatch.h"
#include "tests/unit/manager/core/fake_store.h"

enum { FAKE_WON_MAX = 400 };

/* A Fetch and its answer. */
struct fake_fetch {
	int answered; /* how often: never more than once */
	int count;
	int64_t ids[FAKE_WON_MAX];
	int commands;
	int64_t parked_ms, retry_after_ms;
	reeve_status code; /* OK, or why it was not answered: */
	char message[160];
};

/* Sends a Fetch. The request's defaults are 10 slots and a wait of 10 s (wait_ms −1: it does not park). If its
 * incarnation is new here, the core queries the journal for it, and gets the answer that it has no tasks. */
void fake_fetch(struct core *core, struct fake_fetch *fetch, struct fetch_request request);

/* The same, but leaves that query open. */
void fake_fetch_only(struct core *core, struct fake_fetch *fetch, struct fetch_request request);

/* Answers the oldest query of the journal for a Fetch with these tasks. Fails the test if there is none. */
void fake_redeliver(int count, const int64_t *ids);

/* Answers the oldest query of discovery with these streams. */
void fake_streams(int count, const struct store_stream *streams);

/* Answers the oldest query of discovery with one stream of this route and priority. */
void fake_stream(int route, int32_t priority);

/* Answers a page. `next_due_us` 0: nothing becomes due later. */
void fake_page(struct store_page *page, int count, const struct store_candidate *rows, int64_t next_due_us);

/* Answers a page with `count` rows: ids from `first` on, due a microsecond apart from `due_us` on, of version
 * due_us. */
void fake_page_of(struct store_page *page, int64_t first, int count, int64_t due_us);

/* Returns the oldest requested page, which must be of this route and priority. */
struct store_page *fake_page_taken(int route, int32_t priority);

/* Answers the claim: all its tasks are won except `lost` (0: none is lost). Returns the number of won tasks. */
int fake_claim(struct store_claim *claim, int64_t lost);

/* Returns the version with which the claim tries this task, or 0 if it does not. */
int64_t fake_tries(const struct store_claim *claim, int64_t id);

/* Returns the claim in flight; fails the test if there is none. */
struct store_claim *fake_claim_taken(void);

#endif
