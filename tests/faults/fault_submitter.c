/*
 * A submitter of the fault tests: steady load that goes on through outages, with a ledger of what was acknowledged, in
 * FOLDER/NAME.submit. It stops on SIGTERM (or after --count tasks) and says what it did.
 *
 *	fault-submitter --managers URL[,URL] --ledger FOLDER --name NAME [--seed N] [--rate TASKS-A-SECOND] [--count N]
 *	                [--types TYPE=WEIGHT,…] [--mix KIND=WEIGHT,…] [--cancel %] [--keyed %] [--again %] [--look %]
 *	                [--threads N] [--patience MS] [--priority N] [--batches %] [--callback URL] [--queue NAME]
 *	                [--pipeline NAME] [--piped %]
 *
 * Each call submits one to four tasks, NAME-1, NAME-2 and so on, of the kinds below. A call that is not answered is
 * sent again with its request id until it is; after the stop for as long as the patience lasts (30 s). Some tasks have
 * a key and are submitted a second time with it, some calls are sent a second time with their request id, some are
 * followed by a cancel of one of theirs, or a look at an earlier task: so many of a hundred as the options say.
 * Some turns make a whole batch instead of a call: it is opened (with entry and exit tasks, callbacks as tasks and to
 *the URL), filled by up to three calls, and closed. The types fault-entry, fault-exit and fault-told belong to them.
 * Some tasks are of the pipeline, and have plans (deed.h) that go through its stages a, b, c and d in order and
 *otherwise. Priorities are one of three, from that of the option (0) on. What it does depends on the seed; when, on the
 *world.
 *
 * With --clock-jumps a call that is sent again may be refused because its request id has become more than a day old, and for some
 * seconds, until all managers know the time, because it is from the future.
 *
 * Exit code 0: every call was answered; 3: some were not in time; 1: some were refused, or answered wrongly.
 */
#include "tests/faults/ledger.h"
#include "tests/faults/plan.h"

#include <getopt.h>
#include <inttypes.h>
#include <pthread.h>
#include <reeve/client.h>
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
	RECENT = 64, /* acknowledged tasks of a thread that it cancels and looks at */
	CALL_TIMEOUT_MS = 3000,
	PAUSE_US = 50 * 1000, /* before a call is sent again */
	FUTURE_MAX = 1000,    /* calls in a row without a submit, of all threads: some seconds */
};

/* Kinds of tasks. The run's length is chosen at random between the two. */
static const struct kind {
	const char *name;
	int least_ms, most_ms;
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
	unsigned cancel, keyed, again, look, batches, piped; /* out of a hundred */
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
static atomic_long from_the_future; /* calls refused so since the last submit */

struct submitter {
	pthread_t thread;
	uint64_t random;
	int64_t recent[RECENT];
	long n_recent;
};

/* One call, which keeps its request id however often it is sent. */
struct call {
	uint8_t request_id[REEVE_REQUEST_ID];
	size_t count;
	int64_t batch; /* 0: none */
	struct reeve_task_spec specs[CALL_TASKS];
	char names[CALL_TASKS][160], details[CALL_TASKS][256]; /* what the specs point to */
	struct reeve_submitted answered[CALL_TASKS];
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

/* "A=3,B=1" */
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

/* After a call that failed: whether to send it again. */
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
	/* Until all managers have noticed that the clock was set, one may not know the time that another has told; no longer. */
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
	call->specs[call->count++] = (struct reeve_task_spec){.pipeline = options.pipeline,
	    .details = details,
	    .priority = options.priority + (int32_t)draw(me, 3),
	    .queue = options.queue,
	    .batch_id = call->batch,
	    .key = draw(me, 100) < options.keyed ? name : NULL};
}

static void add_task(struct submitter *me, struct call *call)
{
	const struct kind *kind = kind_of(choose(me, &options.mix));
	int run_ms = kind->least_ms + (int)draw(me, (uint64_t)(kind->most_ms - kind->least_ms) + 1);
	char *name = call->names[call->count], *details = call->details[call->count];

	snprintf(name, sizeof call->names[0], "%.120s-%ld", options.name, atomic_fetch_add(&numbers, 1) + 1);
	snprintf(details, sizeof call->details[0], "%s run=%d %s", name, run_ms, kind->rest);
	call->specs[call->count++] = (struct reeve_task_spec){.type = choose(me, &options.types),
	    .details = details,
	    .max_attempts = kind->max_attempts,
	    .timeout_ms = kind->timeout_ms,
	    .delay_ms = kind->delay_ms,
	    .retry_base_ms = 100,
	    .retry_max_ms = 1000,
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

/* Sends it until it is answered, and writes down what was acknowledged. */
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

/* The tasks with keys once more, in a call of its own: it must be answered the same tasks. */
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
	if (!batch) /* its second submit would be of a batch that may be closed by then */
		send_keys_again(&call);
	return true;
}

/* A batch from its opening to its closing. */
static void whole_batch(struct submitter *me)
{
	char name[160];
	struct call opening = {0};
	struct reeve_failure failure;
	struct reeve_batch *closed;
	int64_t id;
	bool adorned = draw(me, 2), called = draw(me, 2);

	snprintf(name, sizeof name, "%.120s.batch-%ld", options.name, atomic_fetch_add(&batches, 1) + 1);
	struct reeve_batch_spec spec = {.name = name,
	    .queue = options.queue,
	    .entry_type = adorned ? "fault-entry" : NULL,
	    .exit_type = adorned ? "fault-exit" : NULL,
	    .callback_type = adorned || !called ? "fault-told" : NULL,
	    .callback_url = called ? options.callback : NULL,
	    .callback_tasks = called && options.callback};

	if (!new_request(&opening))
		return;
	while (!reeve_batch_open(client, &spec, opening.request_id, &id, &failure))
		if (!go_on("open a batch", &failure))
			return;
	ledger_write(options.ledger, "{\"ev\":\"batch\",\"name\":\"%s\",\"id\":%" PRId64 ",\"t\":%" PRId64 "}", name,
	    id, ledger_now_us());
	for (uint64_t calls = 1 + draw(me, 3); calls > 0; calls--)
		if (!submit(me, 1 + (size_t)draw(me, CALL_TASKS), id))
			return;
	/* Closed before: by this very call, whose answer was lost. */
	while (!(closed = reeve_batch_close(client, id, &failure)) && failure.code != REEVE_FAILED_PRECONDITION)
		if (!go_on("close a batch", &failure))
			return;
	reeve_batch_free(closed);
	ledger_write(options.ledger, "{\"ev\":\"closed\",\"id\":%" PRId64 ",\"t\":%" PRId64 "}", id, ledger_now_us());
}

/* One of the tasks that this thread has had acknowledged lately. */
static int64_t pick(struct submitter *me)
{
	return me->recent[draw(me, (uint64_t)(me->n_recent < RECENT ? me->n_recent : RECENT))];
}

/* One of the tasks just submitted. */
static void cancel(struct submitter *me)
{
	int64_t id = me->recent[(me->n_recent - 1) % RECENT];
	struct reeve_failure failure;
	struct reeve_changes *changes;

	ledger_write(options.ledger, "{\"ev\":\"cancel\",\"id\":%" PRId64 ",\"t\":%" PRId64 "}", id, ledger_now_us());
	while (!(changes = reeve_cancel(client, &id, 1, "a cancel of the fault tests", &failure)))
		if (!go_on("cancel", &failure))
			return;
	for (size_t i = 0; i < changes->count; i++)
		ledger_write(options.ledger,
		    "{\"ev\":\"cancelled\",\"id\":%" PRId64 ",\"status\":\"%s\",\"changed\":%s,\"t\":%" PRId64 "}", id,
		    reeve_task_status_name(changes->changes[i].status), changes->changes[i].changed ? "true" : "false",
		    ledger_now_us());
	atomic_fetch_add(&cancels, 1);
	reeve_changes_free(changes);
}

/* An acknowledged task is there whenever one looks, and once it has ended it stays so. */
static void look(struct submitter *me)
{
	int64_t id = pick(me);
	struct reeve_failure failure;
	struct reeve_task *task;

	while (!(task = reeve_get(client, id, &failure)) && failure.code != REEVE_NOT_FOUND)
		if (!go_on("get", &failure))
			return;
	ledger_write(options.ledger, "{\"ev\":\"seen\",\"id\":%" PRId64 ",\"status\":\"%s\",\"t\":%" PRId64 "}", id,
	    task ? reeve_task_status_name(task->status) : "", ledger_now_us());
	reeve_task_free(task);
}

/* How many tasks the next call is to have; 0: enough have been submitted. */
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

/* Until all threads have ended, or the patience after a stop is over. */
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
