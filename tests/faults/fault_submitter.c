/*
 * A submitter for the fault tests. It creates a steady load that continues through outages, and records what was
 * acknowledged in the ledger FOLDER/NAME.submit. It stops on SIGTERM (or after --count tasks) and prints what it did.
 *
 *	fault-submitter --managers URL[,URL] --ledger FOLDER --name NAME [--seed N] [--rate TASKS-A-SECOND] [--count N]
 *	                [--types TYPE=WEIGHT,…] [--mix KIND=WEIGHT,…] [--cancel %] [--keyed %] [--again %] [--look %]
 *	                [--threads N] [--patience MS] [--priority N] [--batches %] [--callback URL] [--queue NAME]
 *	                [--pipeline NAME] [--piped %] [--clock-jumps]
 *
 * Each call submits one to four tasks, NAME-1, NAME-2 and so on, of the kinds below. A call without an answer is sent
 * again with its request id until it is answered; after the stop, only for --patience (30 s). The options with % are
 * percentages:
 *
 *	--keyed    of tasks: these have a key and are submitted a second time with it
 *	--again    of calls: these are sent a second time with their request id
 *	--cancel   of calls: these are followed by a cancel of one of their tasks
 *	--look     of calls: these are followed by a query of an earlier task
 *	--batches  of calls: a batch replaces these. It is opened (some with entry and exit tasks, callbacks as tasks or to
 *	           the URL), filled by up to three calls, and closed. The types fault-entry, fault-exit and fault-told
 *	           belong to batches.
 *	--piped    of tasks: these belong to the pipeline and have plans (script.h) that go through its stages a, b, c and
 *d, in order and otherwise
 *
 * A task has one of three priorities, from --priority (0) upwards. --seed determines what the submitter does, but not
 * when.
 *
 * With --clock-jumps a repeated call may be refused because its request id has become more than a day old, and, for
 * some seconds until all managers know the time, because the id is from the future.
 *
 * Exit codes: 0: every call was answered; 1: some calls were refused or answered wrongly; 2: the options are invalid;
 * 3: some calls were not answered in time.
 */
#include "tests/faults/ledger.h"
#include "tests/faults/submitter.h"

#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { THREADS_MAX = 32, CALL_TIMEOUT_MS = 3000 };

struct submitter_options options = {.name = "s",
    .seed = 1,
    .rate = 20,
    .cancel = 5,
    .keyed = 10,
    .again = 5,
    .look = 5,
    .threads = 4,
    .patience_ms = 30000};

struct reeve_client *client;
atomic_bool patience_over;
atomic_long numbers;

static atomic_bool stopping, finished;

/* Returns the number of tasks for the next call; 0: enough have been submitted. */
static size_t next_count(struct submitter *me)
{
	size_t count = 1 + (size_t)draw(me, CALL_TASKS);
	int64_t left = options.count ? options.count - atomic_load(&numbers) : CALL_TASKS;

	return left <= 0 ? 0 : (int64_t)count < left ? count : (size_t)left;
}

static void *run(void *arg)
{
	struct submitter *me = arg;
	/* On average a call has (1 + CALL_TASKS) / 2 tasks. */
	double pause_us = 1e6 * options.threads * (1 + CALL_TASKS) / 2 / options.rate;
	size_t count;

	while (!atomic_load(&stopping) && (count = next_count(me)) > 0) {
		int64_t next_us = ledger_now_us() + (int64_t)(pause_us * (0.5 + (double)draw(me, 1000) / 1000));

		if (draw(me, 100) < options.batches)
			whole_batch(me);
		else
			submit(me, count, 0);
		if (me->n_recent && draw(me, 100) < options.cancel)
			cancel(me);
		if (me->n_recent && draw(me, 100) < options.look)
			look(me);
		while (!atomic_load(&stopping) && ledger_now_us() < next_us)
			usleep(next_us - ledger_now_us() < 20000 ? 1000 : 10000);
	}
	return NULL;
}

static void stop(int signal_number)
{
	(void)signal_number;
	atomic_store(&stopping, true);
}

/* Sets patience_over when the patience after a stop is over. Runs until all threads have ended. */
static void *watch(void *arg)
{
	int64_t until_us = 0;

	(void)arg;
	while (!atomic_load(&finished)) {
		usleep(10000);
		if (until_us == 0 && atomic_load(&stopping))
			until_us = ledger_now_us() + options.patience_ms * 1000;
		if (until_us != 0 && ledger_now_us() > until_us)
			atomic_store(&patience_over, true);
	}
	return NULL;
}

static bool read_options(int argc, char **argv)
{
	static const struct option known[] = {
	    {"managers", required_argument, NULL, 'm'},
	    {"ledger", required_argument, NULL, 'l'},
	    {"name", required_argument, NULL, 'n'},
	    {"seed", required_argument, NULL, 's'},
	    {"rate", required_argument, NULL, 'r'},
	    {"count", required_argument, NULL, 'N'},
	    {"types", required_argument, NULL, 't'},
	    {"mix", required_argument, NULL, 'x'},
	    {"cancel", required_argument, NULL, 'c'},
	    {"keyed", required_argument, NULL, 'k'},
	    {"again", required_argument, NULL, 'a'},
	    {"look", required_argument, NULL, 'o'},
	    {"threads", required_argument, NULL, 'T'},
	    {"patience", required_argument, NULL, 'p'},
	    {"priority", required_argument, NULL, 'P'},
	    {"batches", required_argument, NULL, 'b'},
	    {"callback", required_argument, NULL, 'C'},
	    {"queue", required_argument, NULL, 'q'},
	    {"pipeline", required_argument, NULL, 'i'},
	    {"piped", required_argument, NULL, 'I'},
	    {"clock-jumps", no_argument, NULL, 'j'},
	    {0},
	};
	bool good = read_choices(&options.types, "fault-exec=1,fault-function=3") &&
	    read_choices(&options.mix, "short=50,medium=15,long=8,recover=8,fail=6,fatal=4,delayed=4,hang=2,stubborn=2");

	for (int option; good && (option = getopt_long(argc, argv, "", known, NULL)) != -1;) {
		switch (option) {
		case 'm': options.managers = optarg; break;
		case 'l': options.folder = optarg; break;
		case 'n': options.name = optarg; break;
		case 's': options.seed = strtoull(optarg, NULL, 10); break;
		case 'r': options.rate = atof(optarg); break;
		case 'N': options.count = atoll(optarg); break;
		case 't': good = read_choices(&options.types, optarg); break;
		case 'x': good = read_choices(&options.mix, optarg); break;
		case 'c': options.cancel = (unsigned)atoi(optarg); break;
		case 'b': options.batches = (unsigned)atoi(optarg); break;
		case 'q': options.queue = optarg; break;
		case 'i': options.pipeline = optarg; break;
		case 'I': options.piped = (unsigned)atoi(optarg); break;
		case 'C': options.callback = optarg; break;
		case 'k': options.keyed = (unsigned)atoi(optarg); break;
		case 'a': options.again = (unsigned)atoi(optarg); break;
		case 'o': options.look = (unsigned)atoi(optarg); break;
		case 'T': options.threads = atoi(optarg); break;
		case 'p': options.patience_ms = atoll(optarg); break;
		case 'P': options.priority = atoi(optarg); break;
		case 'j': options.clock_jumps = true; break;
		default: good = false;
		}
	}
	return good && optind == argc && options.folder && options.rate > 0 && options.threads > 0 &&
	    options.threads <= THREADS_MAX && known_kinds(&options.mix);
}

int main(int argc, char **argv)
{
	static struct submitter submitters[THREADS_MAX];
	struct sigaction action = {.sa_handler = stop};
	struct reeve_failure failure;
	pthread_t watcher;

	if (!read_options(argc, argv)) {
		fprintf(stderr, "fault-submitter: wrong options; its head says which there are\n");
		return 2;
	}
	options.ledger = ledger_open(options.folder, options.name, "submit");
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGINT, &action, NULL);
	client = reeve_client_create(&(struct reeve_client_options){.managers = options.managers,
	                                 .actor = options.name,
	                                 .connect_timeout_ms = CALL_TIMEOUT_MS,
	                                 .call_timeout_ms = CALL_TIMEOUT_MS},
	    &failure);
	if (!client) {
		fprintf(stderr, "fault-submitter: %s\n", failure.message);
		return 2;
	}
	pthread_create(&watcher, NULL, watch, NULL);
	for (int i = 0; i < options.threads; i++) {
		submitters[i].random = options.seed * 1000003 + (uint64_t)i;
		pthread_create(&submitters[i].thread, NULL, run, &submitters[i]);
	}
	for (int i = 0; i < options.threads; i++)
		pthread_join(submitters[i].thread, NULL);
	atomic_store(&finished, true);
	pthread_join(watcher, NULL);
	reeve_client_destroy(client);
	close(options.ledger);
	printf("%s: %ld tasks submitted, %ld acknowledged, %ld cancels; %ld calls sent again after a failure, %ld never "
	       "answered, %ld too old, %ld refused\n",
	    options.name, atomic_load(&outcomes.submitted), atomic_load(&outcomes.acknowledged),
	    atomic_load(&outcomes.cancels), atomic_load(&outcomes.calls_again), atomic_load(&outcomes.unanswered),
	    atomic_load(&outcomes.too_old), atomic_load(&outcomes.wrong));
	return atomic_load(&outcomes.wrong) ? 1 : atomic_load(&outcomes.unanswered) ? 3 : 0;
}
