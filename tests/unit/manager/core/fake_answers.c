/* See fake_answers.h. */
#include "tests/unit/manager/core/fake_answers.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

static void on_fetched(void *arg, const struct fetch_answer *answer, const struct reeve_error *error)
{
	struct fake_fetch *fetch = arg;

	fetch->answered++;
	cr_assert_eq(fetch->answered, 1, "a Fetch was answered twice");
	fetch->code = error ? error->code : STATUS(OK);
	snprintf(fetch->message, sizeof fetch->message, "%.150s", error ? error->message : "");
	if (error)
		return;
	cr_assert_leq(answer->won_count, FAKE_WON_MAX);
	for (int i = 0; i < answer->won_count; i++)
		fetch->ids[i] = answer->won[i]->id;
	fetch->count = answer->won_count;
	fetch->commands = answer->command_count;
	fetch->parked_ms = answer->parked_ms;
	fetch->retry_after_ms = answer->retry_after_ms;
}

void fake_fetch_only(struct core *core, struct fake_fetch *fetch, struct fetch_request request)
{
	request.slots = request.slots ? request.slots : 10;
	request.wait_ms = request.wait_ms < 0 ? 0 : request.wait_ms ? request.wait_ms : 10000;
	request.continues |= request.wait_ms > 0;
	*fetch = (struct fake_fetch){0};
	dispatch_fetch(core->dispatch, &request, on_fetched, fetch);
}

void fake_fetch(struct core *core, struct fake_fetch *fetch, struct fetch_request request)
{
	int asked = fake_count(FAKE_REDELIVER);

	fake_fetch_only(core, fetch, request);
	if (fake_count(FAKE_REDELIVER) > asked)
		fake_redeliver(0, NULL);
}

void fake_redeliver(int count, const int64_t *ids)
{
	struct store_redeliver *ask = fake_take(FAKE_REDELIVER);

	cr_assert_not_null(ask, "the journal was not asked");
	ask->life = STORE_LIFE_LIVES;
	ask->won = calloc((size_t)count + 1, sizeof *ask->won);
	ask->won_count = count;
	for (int i = 0; i < count; i++)
		ask->won[i] = (struct store_claimed){.id = ids[i], .token = 1, .details = "", .queue = "q", .type = "t"};
	struct store_claimed *won = ask->won;
	fake_ok(ask);
	free(won);
}

void fake_streams(int count, const struct store_stream *streams)
{
	struct store_streams *look = fake_take(FAKE_STREAMS);
	struct store_stream *copy = calloc((size_t)count + 1, sizeof *copy);

	cr_assert_not_null(look, "no streams were looked for");
	for (int i = 0; i < count; i++)
		copy[i] = streams[i];
	look->streams = copy;
	look->found = count;
	fake_ok(look);
	free(copy);
}

void fake_stream(int route, int32_t priority)
{
	fake_streams(1, &(struct store_stream){route, priority, STORE_TIME_BEGIN});
}

void fake_page(struct store_page *page, int count, const struct store_candidate *rows, int64_t next_due_us)
{
	struct store_candidate *copy = calloc((size_t)count + 1, sizeof *copy);

	cr_assert_leq(count, page->limit);
	for (int i = 0; i < count; i++)
		copy[i] = rows[i];
	page->candidates = copy;
	page->count = count;
	page->next_due_us = next_due_us ? next_due_us : STORE_TIME_NEVER;
	fake_ok(page);
	free(copy);
}

void fake_page_of(struct store_page *page, int64_t first, int count, int64_t due_us)
{
	struct store_candidate *rows = calloc((size_t)count + 1, sizeof *rows);

	for (int i = 0; i < count; i++)
		rows[i] = (struct store_candidate){.id = first + i, .version = due_us, .run_at_us = due_us + i, .bytes = 10};
	fake_page(page, count, rows, 0);
	free(rows);
}

struct store_page *fake_page_taken(int route, int32_t priority)
{
	struct store_page *page = fake_take(FAKE_PAGE);

	cr_assert_not_null(page, "no page is asked for");
	cr_assert_eq(page->route, route);
	cr_assert_eq(page->priority, priority);
	return page;
}

int fake_claim(struct store_claim *claim, int64_t lost)
{
	claim->won = calloc((size_t)claim->count + 1, sizeof *claim->won);
	claim->won_count = 0;
	for (int i = 0; i < claim->count; i++)
		if (claim->tries[i].id != lost)
			claim->won[claim->won_count++] = (struct store_claimed){.id = claim->tries[i].id,
			    .token = claim->tries[i].version + 1,
			    .details = "",
			    .slot = claim->tries[i].slot};
	struct store_claimed *won = claim->won;
	int count = claim->won_count;
	fake_ok(claim);
	free(won);
	return count;
}

int64_t fake_tries(const struct store_claim *claim, int64_t id)
{
	for (int i = 0; i < claim->count; i++)
		if (claim->tries[i].id == id)
			return claim->tries[i].version;
	return 0;
}

struct store_claim *fake_claim_taken(void)
{
	struct store_claim *claim = fake_take(FAKE_CLAIM);

	cr_assert_not_null(claim, "nothing is being claimed");
	return claim;
}
