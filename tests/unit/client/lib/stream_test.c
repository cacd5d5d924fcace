/* Streams of submits: their order, their chunks, and what is reported when a chunk fails. */
#include "tests/unit/client/lib/fixture.h"
#include "tests/unit/compare.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Numbered tasks, and the reports about them. */
struct numbers {
	size_t total, given;
	size_t bad;     /* this one has no type; 0: none */
	size_t padding; /* bytes in each */
	char details[FAKE_SERVER_MAX_DETAILS + 1];
	size_t n_told; /* number of stored or missed tasks, which are reported in order */
	size_t n_stored, n_missed, first_missed;
	enum reeve_code missed_code;
};

static bool give(void *arg, Reeve__V1__TaskSpec *spec)
{
	struct numbers *numbers = arg;

	if (numbers->given == numbers->total)
		return false;
	numbers->given++;
	spec->type = numbers->given == numbers->bad ? "" : "t";
	int used = snprintf(numbers->details, sizeof numbers->details, "task %zu ", numbers->given);
	memset(numbers->details + used, '.', numbers->padding);
	numbers->details[(size_t)used + numbers->padding] = '\0';
	spec->details = numbers->details;
	return true;
}

static void stored(void *arg, size_t first, const Reeve__V1__SubmittedTask *submitted, size_t count)
{
	struct numbers *numbers = arg;

	cr_assert(eq(sz, first, numbers->n_told));
	for (size_t i = 0; i < count; i++) {
		char expected[32];
		const char *details = fake_server_details(fake_server, submitted[i].id);

		snprintf(expected, sizeof expected, "task %zu ", first + i + 1);
		cr_assert(eq(int, strncmp(details, expected, strlen(expected)), 0), "%s", details);
	}
	numbers->n_told += count;
	numbers->n_stored += count;
}

static void missed(void *arg, size_t first, size_t count, const struct reeve_failure *why)
{
	struct numbers *numbers = arg;

	cr_assert(eq(sz, first, numbers->n_told));
	numbers->first_missed = first;
	numbers->missed_code = why->code;
	numbers->n_told += count;
	numbers->n_missed += count;
}

Test(stream, keeps_order_with_several_chunks_under_way, .init = begin, .fini = finish)
{
	struct numbers numbers = {.total = 1000};
	struct reeve_stream stream = {
	    .next = give, .stored = stored, .missed = missed, .arg = &numbers, .chunk_tasks = 50, .in_flight = 4};
	struct fake_server_submit submits[FAKE_SERVER_SUBMITS];

	/* No chunk is answered before four have arrived, and then the last one first. */
	fake_server_hold_submits(fake_server, 4);
	cr_assert(reeve_submit_stream(client, &stream, &failure), "%s", failure.message);
	cr_assert(eq(sz, numbers.n_stored, 1000));
	cr_assert(eq(sz, fake_server_tasks(fake_server), 1000));
	cr_assert(eq(sz, fake_server_submits(fake_server, submits), 20));
	for (int i = 0; i < 20; i++) {
		cr_assert(eq(sz, submits[i].count, 50));
		for (int j = 0; j < i; j++)
			cr_assert(ne(int, memcmp(submits[i].request_id, submits[j].request_id, UUID_BYTES), 0));
	}
}

Test(stream, bounds_the_bytes_of_a_chunk, .init = begin, .fini = finish)
{
	struct numbers numbers = {.total = 10, .padding = 900};
	struct reeve_stream stream = {.next = give, .stored = stored, .arg = &numbers, .chunk_bytes = 2100, .in_flight = 1};
	struct fake_server_submit submits[FAKE_SERVER_SUBMITS];

	cr_assert(reeve_submit_stream(client, &stream, &failure));
	cr_assert(eq(sz, fake_server_submits(fake_server, submits), 5));
	for (int i = 0; i < 5; i++)
		cr_assert(eq(sz, submits[i].count, 2));
	/* A task over the limit is sent alone. */
	numbers = (struct numbers){.total = 2, .padding = 900};
	numbers.n_told = 0;
	stream.chunk_bytes = 10;
	cr_assert(reeve_submit_stream(client, &stream, &failure));
	cr_assert(eq(sz, fake_server_submits(fake_server, submits), 7));
}

Test(stream, ends_with_nothing_to_send, .init = begin, .fini = finish)
{
	struct numbers numbers = {.total = 0};
	struct reeve_stream stream = {.next = give, .stored = stored, .arg = &numbers};

	cr_assert(reeve_submit_stream(client, &stream, &failure));
	cr_assert(eq(sz, fake_server_tasks(fake_server), 0));
}

Test(stream, reports_missing_answers_and_sends_no_more, .init = begin, .fini = finish)
{
	struct numbers numbers = {.total = 100};
	struct reeve_stream stream = {
	    .next = give, .stored = stored, .missed = missed, .arg = &numbers, .chunk_tasks = 10, .in_flight = 1};

	fake_server_fail_submits(fake_server, 3, 1, STATUS(FAILED_PRECONDITION));
	cr_assert(not(reeve_submit_stream(client, &stream, &failure)));
	cr_assert(eq(int, failure.code, REEVE_FAILED_PRECONDITION));
	cr_assert(eq(sz, numbers.n_stored, 30));
	cr_assert(eq(sz, numbers.n_missed, 10));
	cr_assert(eq(sz, numbers.first_missed, 30));
	cr_assert(eq(int, numbers.missed_code, REEVE_FAILED_PRECONDITION));
	cr_assert(eq(sz, fake_server_tasks(fake_server), 30));
}

Test(stream, a_full_manager_is_asked_again, .init = begin, .fini = finish)
{
	struct numbers numbers = {.total = 100};
	struct reeve_stream stream = {
	    .next = give, .stored = stored, .missed = missed, .arg = &numbers, .chunk_tasks = 10, .in_flight = 3};
	struct fake_server_submit submits[FAKE_SERVER_SUBMITS];
	size_t n_ids = 0;

	fake_server_fail_submits(fake_server, 2, 5, STATUS(RESOURCE_EXHAUSTED));
	cr_assert(reeve_submit_stream(client, &stream, &failure), "%s", failure.message);
	cr_assert(eq(sz, numbers.n_stored, 100));
	size_t count = fake_server_submits(fake_server, submits);
	cr_assert(eq(sz, count, 15));
	for (size_t i = 0; i < count; i++) {
		size_t j = 0;

		while (j < i && memcmp(submits[i].request_id, submits[j].request_id, UUID_BYTES) != 0)
			j++;
		n_ids += j == i;
	}
	cr_assert(eq(sz, n_ids, 10), "a chunk kept its request id");
}

Test(stream, a_wrong_task_ends_it, .init = begin, .fini = finish)
{
	struct numbers numbers = {.total = 100, .bad = 25};
	struct reeve_stream stream = {
	    .next = give, .stored = stored, .missed = missed, .arg = &numbers, .chunk_tasks = 10, .in_flight = 2};

	cr_assert(not(reeve_submit_stream(client, &stream, &failure)));
	cr_assert(eq(int, failure.code, REEVE_INVALID_ARGUMENT));
	cr_assert(eq(str, failure.message, "tasks[24].type is empty"));
	cr_assert(eq(sz, numbers.n_stored, 20));
	cr_assert(eq(sz, fake_server_tasks(fake_server), 20));
	cr_assert(eq(sz, numbers.given, 25));
}
