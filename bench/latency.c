/*
 * Measures one task at a time in an idle system: from just before the submit call to the start of its handler, in
 * another process on the same machine. Bare commits of one row alternate with the tasks at equal intervals, so that all
 * have the same disk and the same other load.
 */
#include "bench/commit.h"
#include "bench/drive.h"

#include <unistd.h>

enum { COUNT = 250, WARM = 20, APART_US = 20000 };

static int64_t sent[COUNT], starts[COUNT], answers[COUNT], plain[COUNT], submits[COUNT];

/* Submits task `i` and waits until it has run. */
static void one_task(struct bench *bench, const struct crew *crew, int i, int64_t runs)
{
	char details[200];
	Reeve__V1__TaskSpec task = {.type = "stamp", .details = details};
	Reeve__V1__SubmittedTask submitted;
	struct reeve_failure failure;

	details_write(details, i);
	sent[i] = now_ns();
	if (!reeve_submit(bench->client, &task, 1, NULL, &submitted, &failure))
		give_up("submitting: %s", failure.message);
	answers[i] = now_ns() - sent[i];
	usleep(APART_US);
	crew_await(crew, runs);
}

void bench_latency(struct bench *bench)
{
	struct commit commit;
	struct crew crew;
	char details[200];

	commit_begin(&commit, bench->conninfo);
	details_write(details, 0);
	crew_warm(bench, &crew, 1);
	for (int i = -WARM; i < COUNT; i++) {
		int at = i < 0 ? 0 : i; /* the measured rounds overwrite the warm-up */

		one_task(bench, &crew, at, atomic_load(&crew.shared->runs) + 1);
		plain[at] = commit_plain(&commit, details);
		usleep(APART_US);
		submits[at] = commit_submit(&commit, details);
		usleep(APART_US);
	}
	for (int i = 0; i < COUNT; i++)
		starts[i] = atomic_load(&crew.shared->started[i]) - sent[i];
	crew_stop(&crew);
	commit_end(&commit);
	report_percentiles("latency", starts, COUNT);
	report_percentiles("latency_submit", answers, COUNT);
	report_percentiles("commit", plain, COUNT);
	report_percentiles("commit_submit", submits, COUNT);
}
