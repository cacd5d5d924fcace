/* What tests of the core do again and again: send Fetches and remember their answers, answer pages, looks and claims. */
#ifndef REEVE_TESTS_FAKE_ANSWERS_H
#define REEVE_TESTS_FAKE_ANSWERS_H

#include "manager/core/dispatch.h"
#include "tests/unit/manager/core/fake_store.h"

enum { FAKE_WON_MOST = 400 };

/* A Fetch and what it was answered. */
struct fake_fetch {
	int answered;              /* how often: never more than once */
	int count;
	int64_t ids[FAKE_WON_MOST];
	int orders;
	int64_t parked_ms, again_in_ms;
	reeve_status code;         /* OK, or why it was not answered */
};

/* Sends it; the slots are 10 and it parks for 10 s unless the request says otherwise (wait_ms −1: it does not park). If its
 * incarnation is new here, the journal is asked what it was given, and says nothing. */
void fake_fetch(struct core *core, struct fake_fetch *fetch, struct fetch_request request);

/* The same without that answer. */
void fake_fetch_only(struct core *core, struct fake_fetch *fetch, struct fetch_request request);

/* Answers the oldest question of a Fetch to the journal: these tasks. Fails the test if there is none. */
void fake_redeliver(int count, const int64_t *ids);

/* Answers the oldest look for streams: these. */
void fake_streams(int count, const struct store_stream *streams);

/* Answers the oldest look for streams: one of this route and priority. */
void fake_stream(int route, int32_t priority);

/* Answers a page. `next_due_us` 0: nothing becomes due later. */
void fake_page(struct store_page *page, int count, const struct store_candidate *rows, int64_t next_due_us);

/* A page with `count` rows: ids from `first` on, due a microsecond apart from `due_us` on, of version due_us. */
void fake_page_of(struct store_page *page, int64_t first, int count, int64_t due_us);

/* The page that is asked for next, which must be of this route and priority. */
struct store_page *fake_page_taken(int route, int32_t priority);

/* Answers the claim: all are won, but for `lost` (0: none is lost). Returns how many were won. */
int fake_claim(struct store_claim *claim, int64_t lost);

/* Whether the claim tries this task, and with which version (0: not tried). */
int64_t fake_tries(const struct store_claim *claim, int64_t id);

/* The claim that is under way; fails the test if there is none. */
struct store_claim *fake_claim_taken(void);

#endif
