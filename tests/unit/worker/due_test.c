/* When the parts of a worker are due. The control thread sleeps until the earliest time that they return. They must
 * also return a time that has passed since their last step: perhaps nothing else wakes the thread. What is not due must
 * not wake it. */
#include "worker/reporter.h"
#include "worker/watchdog_check.h"

#include <criterion/criterion.h>

enum { PAST_MS = 1000 };

static struct lease lease;
static struct shared shared = {.lease = &lease};
static struct life life;
static struct accepts accepts = {.users = 1};
static struct handler_set handlers = {.accepts = &accepts};
static struct in_flight in_flight;
static struct fetches fetches;
static struct slots slots = {.concurrency = 10};
static struct session session = {.shared = &shared, .life = &life, .in_flight = &in_flight};
static struct fetcher fetcher = {
    .shared = &shared,
    .life = &life,
    .session = &session,
    .fetches = &fetches,
    .in_flight = &in_flight,
    .slots = &slots,
    .handlers = &handlers,
};

static void serve(void)
{
	session.phase = SESSION_SERVING;
	lease_set(&lease, clock_monotonic_ms() + 3600000, 3600000);
}

Test(due, a_worker_registers_again_after_its_delay)
{
	session.phase = SESSION_UNREGISTERED;
	session.retry.until_ms = PAST_MS;
	cr_expect_eq(session_next_ms(&session), PAST_MS);
	life.phase = LIFE_DRAINING;
	cr_expect_eq(session_next_ms(&session), INT64_MAX, "it does not register");
	session.phase = SESSION_REGISTERING;
	session.give_up_ms = PAST_MS;
	cr_expect_eq(session_next_ms(&session), INT64_MAX, "it has given the Register up");
	session.register_call = 1;
	cr_expect_eq(session_next_ms(&session), PAST_MS);
}

Test(due, a_fetch_is_sent_again_after_its_delay)
{
	serve();
	fetches.retry.until_ms = PAST_MS;
	cr_expect_eq(fetcher_next_ms(&fetcher), PAST_MS, "a new one, for the free slots");
	struct fetch *fetch = fetches_create(&fetches, 10);
	cr_expect_eq(fetcher_next_ms(&fetcher), PAST_MS, "one that no call carries");
	fetches_mark_sent(&fetches, fetch, true);
	cr_expect_eq(fetcher_next_ms(&fetcher), INT64_MAX);
	fetches_mark_unsent(&fetches, fetch);
	session.phase = SESSION_UNREGISTERED;
	cr_expect_eq(fetcher_next_ms(&fetcher), INT64_MAX);
	fetches_reset(&fetches);
}

Test(due, results_are_reported_again_after_their_delay)
{
	struct reporter reporter = {&shared, &session, &in_flight, &slots, &fetcher, {.until_ms = PAST_MS}, NULL};

	cr_expect_eq(reporter_next_ms(&reporter), INT64_MAX);
	in_flight.unacked.waiting_count = 1;
	cr_expect_eq(reporter_next_ms(&reporter), PAST_MS);
	in_flight.unacked.reports = REPORTS_MAX;
	cr_expect_eq(reporter_next_ms(&reporter), INT64_MAX);
}

Test(due, programs_that_run_after_the_lease_are_checked)
{
	enum { LATE_MS = 2000, SEEN_MS = 300, INTERVAL_MS = 100, BEGIN_MS = PAST_MS + LATE_MS - SEEN_MS };
	struct handler handler = {.processes = true};
	struct attempt attempt = {.key = {1, 1}, .place = PLACE_TAKEN, .handler = &handler};
	struct watchdog_check check = {&session, &in_flight, (struct supervisor_client *)&handler, false, 0, 0};

	session.lease_until_ms = PAST_MS;
	in_flight.taken_count = 1;
	HASH_ADD(hh, in_flight.all, key, sizeof attempt.key, &attempt);
	watchdog_check_step(&check, BEGIN_MS - 1);
	cr_expect_eq(watchdog_check_next_ms(&check, BEGIN_MS - 1), BEGIN_MS);
	cr_expect_eq(watchdog_check_next_ms(&check, BEGIN_MS + 1), BEGIN_MS);
	watchdog_check_step(&check, BEGIN_MS + 1);
	cr_expect_eq(watchdog_check_next_ms(&check, BEGIN_MS + 1), BEGIN_MS + 1 + INTERVAL_MS);
	handler.processes = false;
	watchdog_check_step(&check, BEGIN_MS + 1);
	cr_expect_eq(watchdog_check_next_ms(&check, BEGIN_MS + 1), INT64_MAX, "functions do not count");
	HASH_DEL(in_flight.all, &attempt);
}
