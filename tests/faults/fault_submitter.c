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
 *	--piped    of tasks: these belong to the pipeline and have plans (deed.h) that go through its stages a, b, c and d,
 *	           in order and otherwise
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
#include "tests/faults/plan.h"

#include <getopt.h>
#include <inttypes.h>
#include <pthread.h>
#include <reeve/v1/batch_calls.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	CALL_TASKS = 4,
	THREADS_MAX = 32,
	CHOICES_MAX = 1024,
	RECENT = 64, /* acknowledged tasks that a thread remembers, to cancel and query them */
	CALL_TIMEOUT_MS = 3000,
	PAUSE_US = 50 * 1000, /* before a call is sent again */
	FUTURE_MAX = 1000,    /* consecutive refusals without a submit, of all threads: some seconds */
};

/* Kinds of tasks. The duration of a run is random, between min_ms and max_ms. */
static const struct kind {
	const char *name;
	int min_ms, max_ms;
	const char *rest; /* of the details */
	uint32_t max_attempts;
	int64_t timeout_ms, delay_ms;
} kinds[] = {
    {"tiny", 0, 1, "then=complete", 20, 8000, 0},
    {"short", 1, 50, "then=complete", 20, 8000, 0},
    {"medium", 100, 600, "then=complete", 20, 8000, 0},
    {"long", 1500, 4000, "then=complete", 20, 8000, 0},
    {"recover", 5, 60, "fail=2", 20, 8000, 0},
    {"fail", 5, 60, "then=fail", 3, 8000, 0},
    {"fatal", 5, 60, "then=fatal", 5, 8000, 0},
    {"delayed", 5, 60, "then=complete", 20, 8000, 1500},
    {"hang", 0, 0, "then=hang", 2, 1000, 0},
    {"stubborn", 1500, 2500, "stubborn", 2, 1000, 0},
    {"crash", 5, 60, "crash=1", 20, 8000, 0},
    {"poison", 5, 60, "then=crash", 3, 8000, 0},
};

struct choice {
	char name[64];
	unsigned weight;
};

struct choices {
	struct choice list[CHOICES_MAX];
	int count;
	unsigned total;
};

static struct {
	const char *managers, *folder, *name;
	uint64_t seed;
	double rate;
	int64_t count, patience_ms;
	struct choices types, mix;
	unsigned cancel, keyed, again, look, batches, piped; /* percentages */
	const char *callback, *queue, *pipeline;
	int threads, ledger, priority;
	bool clock_jumps;
} options = {.name = "s",
    .seed = 1,
    .rate = 20,
    .cancel = 5,
    .keyed = 10,
    .again = 5,
    .look = 5,
    .threads = 4,
    .patience_ms = 30000};

static struct reeve_client *client;
static atomic_bool stopping, patience_over, finished;
static atomic_long numbers, batches, submitted, acknowledged, cancels, calls_again, unanswered, too_old, wrong;
static atomic_long from_the_future; /* calls refused for this reason since the last submit */

struct submitter {
	pthread_t thread;
	uint64_t random;
	int64_t recent[RECENT];
	long n_recent;
};

/* One call. It keeps its request id when it is sent again. */
struct call {
	uint8_t request_id[REEVE_REQUEST_ID];
	size_t count;
	int64_t batch; /* 0: none */
	Reeve__V1__TaskSpec specs[CALL_TASKS];
	char names[CALL_TASKS][160], details[CALL_TASKS][256]; /* the specs point to these */
	Reeve__V1__SubmittedTask answered[CALL_TASKS];
};

static uint64_t draw(struct submitter *me, uint64_t below)
{
	uint64_t x = me->random; /* splitmix64 */

	me->random = x += 0x9e3779b97f4a7c15u;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return (x ^ (x >> 31)) % below;
}

static const char *choose(struct submitter *me, const struct choices *choices)
{
	unsigned at = (unsigned)draw(me, choices->total);
	int i = 0;

	while (at >= choices->list[i].weight)
		at -= choices->list[i++].weight;
	return choices->list[i].name;
}

static const struct kind *kind_of(const char *name)
{
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
		if (strcmp(kinds[i].name, name) == 0)
			return &kinds[i];
	return NULL;
}

/* Parses "A=3,B=1". */
static bool read_choices(struct choices *choices, const char *text)
{
	char *copy = strdup(text), *rest = NULL;

	if (!copy)
		abort();
	*choices = (struct choices){0};
	for (char *word = strtok_r(copy, ",", &rest); word; word = strtok_r(NULL, ",", &rest)) {
		struct choice *choice = &choices->list[choices->count];

		if (choices->count == CHOICES_MAX || sscanf(word, "%63[^=]=%u", choice->name, &choice->weight) != 2)
			return false;
		choices->total += choice->weight;
		choices->count++;
	}
	free(copy);
	return choices->total > 0;
}

static bool worth_trying_again(enum reeve_code code)
{
	return code == REEVE_DEADLINE_EXCEEDED || code == REEVE_UNAVAILABLE || code == REEVE_ABORTED ||
	       code == REEVE_RESOURCE_EXHAUSTED;
}

/* Counts a failed call. Returns whether to send it again. */
static bool go_on(const char *what, const struct reeve_failure *failure)
{
	if (atomic_load(&patience_over)) {
		atomic_fetch_add(&unanswered, 1);
		return false;
	}
	if (options.clock_jumps && failure->code == REEVE_FAILED_PRECONDITION && strstr(failure->message, "more than a day old")) {
		atomic_fetch_add(&too_old, 1);
		return false;
	}
	/* Until all managers have noticed that the clock was set, one may not know the time that another has returned.
	 * FUTURE_MAX limits this. */
	if (options.clock_jumps && failure->code == REEVE_INVALID_ARGUMENT && strstr(failure->message, "from the future") &&
	    atomic_fetch_add(&from_the_future, 1) < FUTURE_MAX) {
		atomic_fetch_add(&too_old, 1);
		return false;
	}
	if (!worth_trying_again(failure->code)) {
		fprintf(
		    stderr, "fault-submitter: %s: %s: %s\n", what, reeve_code_name(failure->code), failure->message);
		atomic_fetch_add(&wrong, 1);
		return false;
	}
	atomic_fetch_add(&calls_again, 1);
	usleep(PAUSE_US);
	return true;
}

static uint64_t draw_for_plan(void *me, uint64_t below)
{
	return draw(me, below);
}

static void add_piped_task(struct submitter *me, struct call *call)
{
	char *name = call->names[call->count], *details = call->details[call->count], plan[PLAN_BYTES];

	plan_draw(draw_for_plan, me, plan);
	snprintf(name, sizeof call->names[0], "%.64s-%ld", options.name, atomic_fetch_add(&numbers, 1) + 1);
	snprintf(details, sizeof call->details[0], "%.100s %s", name, plan);
	call->specs[call->count++] = (Reeve__V1__TaskSpec){.pipeline = options.pipeline,
	    .details = details,
	    .priority = options.priority + (int32_t)draw(me, 3),
	    .queue = options.queue,
	    .batch_id = call->batch,
	    .key = draw(me, 100) < options.keyed ? name : NULL};
}

static void add_task(struct submitter *me, struct call *call)
{
	const struct kind *kind = kind_of(choose(me, &options.mix));
	static Reeve__V1__RetryPolicy retry = {.base_ms = 100, .max_ms = 1000};
	int run_ms = kind->min_ms + (int)draw(me, (uint64_t)(kind->max_ms - kind->min_ms) + 1);
	char *name = call->names[call->count], *details = call->details[call->count];

	snprintf(name, sizeof call->names[0], "%.120s-%ld", options.name, atomic_fetch_add(&numbers, 1) + 1);
	snprintf(details, sizeof call->details[0], "%s run=%d %s", name, run_ms, kind->rest);
	call->specs[call->count++] = (Reeve__V1__TaskSpec){.type = choose(me, &options.types),
	    .details = details,
	    .max_attempts = kind->max_attempts,
	    .timeout_ms = kind->timeout_ms,
	    .delay_ms = kind->delay_ms,
	    .retry = &retry,
	    .priority = options.priority + (int32_t)draw(me, 3),
	    .queue = options.queue,
	    .batch_id = call->batch,
	    .key = draw(me, 100) < options.keyed ? name : NULL};
}

static bool new_request(struct call *call)
{
	struct reeve_failure failure;

	while (!reeve_request_id(client, call->request_id, &failure))
		if (!go_on("a request id", &failure))
			return false;
	return true;
}

/* Sends a call until it is answered, and records what was acknowledged. Returns false if it gave up. */
static bool send_call(struct call *call)
{
	struct reeve_failure failure;

	while (!reeve_submit(client, call->specs, call->count, call->request_id, call->answered, &failure))
		if (!go_on("submit", &failure)) {
			for (size_t i = 0; i < call->count; i++)
				ledger_write(options.ledger, "{\"ev\":\"refused\",\"name\":\"%s\",\"t\":%" PRId64 "}", call->names[i],
				    ledger_now_us());
			return false;
		}
	atomic_store(&from_the_future, 0);
	for (size_t i = 0; i < call->count; i++)
		ledger_write(options.ledger,
		    "{\"ev\":\"ack\",\"name\":\"%s\",\"id\":%" PRId64 ",\"existing\":%s,\"batch\":%" PRId64
		    ",\"t\":%" PRId64 "}",
		    call->names[i], call->answered[i].id, call->answered[i].existing ? "true" : "false", call->batch,
		    ledger_now_us());
	return true;
}

/* Submits the tasks with keys again, in a new call. The answer must have the same tasks. */
static void send_keys_again(const struct call *call)
{
	struct call again = {0};

	for (size_t i = 0; i < call->count; i++) {
		if (!call->specs[i].key)
			continue;
		memcpy(again.names[again.count], call->names[i], sizeof call->names[i]);
		again.specs[again.count++] = call->specs[i];
	}
	if (again.count && new_request(&again))
		send_call(&again);
}

static void note_submit(const struct call *call, size_t i)
{
	char piped[320] = "", print[LEDGER_PRINT];

	if (call->specs[i].pipeline)
		snprintf(piped, sizeof piped, ",\"pipeline\":\"%.255s\",\"input\":\"%s\"", call->specs[i].pipeline,
		    ledger_print(call->details[i], print));
	ledger_write(options.ledger, "{\"ev\":\"submit\",\"name\":\"%s\",\"t\":%" PRId64 "%s}", call->names[i],
	    ledger_now_us(), piped);
}

static bool submit(struct submitter *me, size_t count, int64_t batch)
{
	struct call call = {.batch = batch};

	while (call.count < count) {
		if (options.pipeline && draw(me, 100) < options.piped)
			add_piped_task(me, &call);
		else
			add_task(me, &call);
	}
	for (size_t i = 0; i < count; i++)
		note_submit(&call, i);
	atomic_fetch_add(&submitted, (long)count);
	bool again = draw(me, 100) < options.again;

	if (!new_request(&call) || !send_call(&call))
		return false;
	atomic_fetch_add(&acknowledged, (long)count);
	for (size_t i = 0; i < count; i++)
		me->recent[me->n_recent++ % RECENT] = call.answered[i].id;
	if (again)
		send_call(&call);
	if (!batch) /* a batch may be closed by then */
		send_keys_again(&call);
	return true;
}

/* Opens, fills and closes a batch. */
static void whole_batch(struct submitter *me)
{
	char name[160];
	struct call opening = {0};
	struct reeve_failure failure;
	Reeve__V1__OpenBatchResponse *opened;
	Reeve__V1__CloseBatchResponse *closed;
	bool adorned = draw(me, 2), called = draw(me, 2);

	snprintf(name, sizeof name, "%.120s.batch-%ld", options.name, atomic_fetch_add(&batches, 1) + 1);
	Reeve__V1__OpenBatchRequest spec = {.name = name,
	    .queue = options.queue,
	    .entry_type = adorned ? "fault-entry" : NULL,
	    .exit_type = adorned ? "fault-exit" : NULL,
	    .callback_type = adorned || !called ? "fault-told" : NULL,
	    .callback_url = called ? options.callback : NULL,
	    .callback_tasks = called && options.callback};

	if (!new_request(&opening))
		return;
	while (!(opened = reeve_batch_open(
	             client, &spec, &(struct reeve_call_options){.request_id = opening.request_id}, &failure)))
		if (!go_on("open a batch", &failure))
			return;
	int64_t id = opened->id;
	Reeve__V1__CloseBatchRequest closing = {.id = id};

	reeve_free(opened);
	ledger_write(options.ledger, "{\"ev\":\"batch\",\"name\":\"%s\",\"id\":%" PRId64 ",\"t\":%" PRId64 "}", name,
	    id, ledger_now_us());
	for (uint64_t calls = 1 + draw(me, 3); calls > 0; calls--)
		if (!submit(me, 1 + (size_t)draw(me, CALL_TASKS), id))
			return;
	/* FAILED_PRECONDITION: an earlier copy of this call has closed it, and its answer was lost. */
	while (!(closed = reeve_batch_close(client, &closing, NULL, &failure)) && failure.code != REEVE_FAILED_PRECONDITION)
		if (!go_on("close a batch", &failure))
			return;
	reeve_free(closed);
	ledger_write(options.ledger, "{\"ev\":\"closed\",\"id\":%" PRId64 ",\"t\":%" PRId64 "}", id, ledger_now_us());
}

/* Returns a random task of those that were last acknowledged to this thread. */
static int64_t pick(struct submitter *me)
{
	return me->recent[draw(me, (uint64_t)(me->n_recent < RECENT ? me->n_recent : RECENT))];
}

/* Cancels the task that was submitted last. */
static void cancel(struct submitter *me)
{
	int64_t id = me->recent[(me->n_recent - 1) % RECENT];
	struct reeve_failure failure;
	Reeve__V1__CancelResponse *changes;

	ledger_write(options.ledger, "{\"ev\":\"cancel\",\"id\":%" PRId64 ",\"t\":%" PRId64 "}", id, ledger_now_us());
	while (!(changes = reeve_cancel(client, &id, 1, "a cancel of the fault tests", &failure)))
		if (!go_on("cancel", &failure))
			return;
	for (size_t i = 0; i < changes->n_tasks; i++)
		ledger_write(options.ledger,
		    "{\"ev\":\"cancelled\",\"id\":%" PRId64 ",\"status\":\"%s\",\"changed\":%s,\"t\":%" PRId64 "}", id,
		    reeve_task_status_name(changes->tasks[i]->status), changes->tasks[i]->changed ? "true" : "false",
		    ledger_now_us());
	atomic_fetch_add(&cancels, 1);
	reeve_free(changes);
}

/* Queries an acknowledged task, for the checker: the task must always exist, and must not change once it has ended. */
static void look(struct submitter *me)
{
	int64_t id = pick(me);
	struct reeve_failure failure;
	Reeve__V1__Task *task;

	while (!(task = reeve_get(client, id, &failure)) && failure.code != REEVE_NOT_FOUND)
		if (!go_on("get", &failure))
			return;
	ledger_write(options.ledger, "{\"ev\":\"seen\",\"id\":%" PRId64 ",\"status\":\"%s\",\"t\":%" PRId64 "}", id,
	    task ? reeve_task_status_name(task->status) : "", ledger_now_us());
	reeve_free(task);
}

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

static bool known_kinds(const struct choices *mix)
{
	for (int i = 0; i < mix->count; i++)
		if (!kind_of(mix->list[i].name))
			return false;
	return true;
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
	            read_choices(
	                &options.mix, "short=50,medium=15,long=8,recover=8,fail=6,fatal=4,delayed=4,hang=2,stubborn=2");

	for (int option; good && (option = getopt_long(argc, argv, "", known, NULL)) != -1;) {
		switch (option) {
		case 'm':
			options.managers = optarg;
			break;
		case 'l':
			options.folder = optarg;
			break;
		case 'n':
			options.name = optarg;
			break;
		case 's':
			options.seed = strtoull(optarg, NULL, 10);
			break;
		case 'r':
			options.rate = atof(optarg);
			break;
		case 'N':
			options.count = atoll(optarg);
			break;
		case 't':
			good = read_choices(&options.types, optarg);
			break;
		case 'x':
			good = read_choices(&options.mix, optarg);
			break;
		case 'c':
			options.cancel = (unsigned)atoi(optarg);
			break;
		case 'b':
			options.batches = (unsigned)atoi(optarg);
			break;
		case 'q':
			options.queue = optarg;
			break;
		case 'i':
			options.pipeline = optarg;
			break;
		case 'I':
			options.piped = (unsigned)atoi(optarg);
			break;
		case 'C':
			options.callback = optarg;
			break;
		case 'k':
			options.keyed = (unsigned)atoi(optarg);
			break;
		case 'a':
			options.again = (unsigned)atoi(optarg);
			break;
		case 'o':
			options.look = (unsigned)atoi(optarg);
			break;
		case 'T':
			options.threads = atoi(optarg);
			break;
		case 'p':
			options.patience_ms = atoll(optarg);
			break;
		case 'P':
			options.priority = atoi(optarg);
			break;
		case 'j':
			options.clock_jumps = true;
			break;
		default:
			good = false;
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
	printf(
	    "%s: %ld tasks submitted, %ld acknowledged, %ld cancels; %ld calls sent again after a failure, %ld never "
	    "answered, %ld too old, %ld refused\n",
	    options.name, atomic_load(&submitted), atomic_load(&acknowledged), atomic_load(&cancels),
	    atomic_load(&calls_again), atomic_load(&unanswered), atomic_load(&too_old), atomic_load(&wrong));
	return atomic_load(&wrong) ? 1 : atomic_load(&unanswered) ? 3 : 0;
}
