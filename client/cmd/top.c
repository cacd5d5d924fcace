/*
 * `reeve top`. One thread reads, again and again; the main thread draws what it has read, and takes keys and signals.
 * So keys work while no manager answers.
 */
#include "client/cmd/top.h"

#include "client/cmd/command.h"
#include "client/cmd/screen.h"
#include "common/clock.h"
#include "common/mem.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

/* The throughput is that of the last samples, one for each reading. */
enum { SAMPLES = 8 };

struct sample {
	int64_t at_us, completed, others;
};

struct top {
	struct reeve_client *client;
	int64_t interval_ms;
	int news_fd; /* written after each reading */
	struct sample samples[SAMPLES];
	int sample_count;

	pthread_mutex_t lock;
	pthread_cond_t changed;
	/* Guarded by the lock. */
	bool paused, over;
	struct top_data next; /* read, and not taken yet; empty: none */
	char problem[600];
};

/* Adds the rates, from the oldest sample that is kept. A total can fall, when ended tasks are deleted. */
static void add_rates(struct top *top, struct top_data *data)
{
	struct sample now = {clock_monotonic_us(), data->stats->completed, data->stats->dead + data->stats->cancelled},
	              first;

	if (top->sample_count == SAMPLES)
		memmove(top->samples, top->samples + 1, sizeof *top->samples * (size_t)--top->sample_count);
	first = top->sample_count ? top->samples[0] : now;
	if (now.completed < first.completed || now.others < first.others) {
		top->sample_count = 0;
		first = now;
	}
	top->samples[top->sample_count++] = now;
	if (first.at_us == now.at_us)
		return;
	data->completed_rate = (double)(now.completed - first.completed) * 1e6 / (double)(now.at_us - first.at_us);
	data->failed_rate = (double)(now.others - first.others) * 1e6 / (double)(now.at_us - first.at_us);
}

static void publish(struct top *top, struct top_data *data, bool good, const struct reeve_failure *failure)
{
	uint64_t one = 1;

	pthread_mutex_lock(&top->lock);
	if (good) {
		top_free(&top->next);
		top->next = *data;
		*top->problem = '\0';
	} else {
		top_free(data);
		snprintf(top->problem, sizeof top->problem, "%s", failure->message);
	}
	pthread_mutex_unlock(&top->lock);
	if (write(top->news_fd, &one, sizeof one) < 0)
		abort();
}

/* Waits for the interval, and as long as it is paused. Returns false at the end. */
static bool wait_turn(struct top *top)
{
	int64_t until_ms = clock_monotonic_ms() + top->interval_ms;
	struct timespec until = {.tv_sec = until_ms / 1000, .tv_nsec = until_ms % 1000 * 1000000};
	bool over;

	pthread_mutex_lock(&top->lock);
	while (!top->over && pthread_cond_timedwait(&top->changed, &top->lock, &until) != ETIMEDOUT)
		;
	while (!top->over && top->paused)
		pthread_cond_wait(&top->changed, &top->lock);
	over = top->over;
	pthread_mutex_unlock(&top->lock);
	return !over;
}

static void *read_all(void *arg)
{
	struct top *top = arg;

	do {
		struct reeve_failure failure = {0};
		struct top_data data;
		bool good = top_read(&data, top->client, &failure);

		if (good)
			add_rates(top, &data);
		publish(top, &data, good, &failure);
	} while (wait_turn(top));
	return NULL;
}

/* Takes what was read last. */
static void take_news(struct top *top, struct top_data *shown, char *problem, size_t size)
{
	uint64_t count;

	if (read(top->news_fd, &count, sizeof count) < 0 && errno != EAGAIN)
		abort();
	pthread_mutex_lock(&top->lock);
	snprintf(problem, size, "%s", top->problem);
	if (top->next.stats) {
		top_free(shown);
		*shown = top->next;
		top->next = (struct top_data){0};
	}
	pthread_mutex_unlock(&top->lock);
}

static void set_paused(struct top *top, bool paused)
{
	pthread_mutex_lock(&top->lock);
	top->paused = paused;
	pthread_cond_signal(&top->changed);
	pthread_mutex_unlock(&top->lock);
}

/* Draws and takes keys until the user or a signal ends it. Returns the exit code. */
static int show(struct top *top)
{
	struct top_data shown = {0};
	char problem[sizeof top->problem] = "";
	struct top_view view = {.interval_ms = top->interval_ms, .problem = problem};
	int value = 0, code = -1;

	while (code < 0) {
		screen_size(&view.rows, &view.columns);
		char *text = top_text(&view, shown.stats ? &shown : NULL);

		screen_draw(text);
		free(text);
		switch (screen_wait(top->news_fd, -1, &value)) {
		case SCREEN_WOKEN: take_news(top, &shown, problem, sizeof problem); break;
		case SCREEN_SIGNAL: code = 128 + value; break;
		case SCREEN_KEY:
			if (value == 'q' || value == 'Q')
				code = EXIT_OK;
			else if (value == 's')
				view.sort = (view.sort + 1) % TOP_SORTS;
			else if (value == 'p')
				set_paused(top, view.paused = !view.paused);
			break;
		case SCREEN_TIME:
		case SCREEN_DRAW: break;
		}
	}
	top_free(&shown);
	return code;
}

static int run(struct top *top)
{
	pthread_condattr_t monotonic;
	pthread_t reader;
	int code;

	pthread_mutex_init(&top->lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&top->changed, &monotonic);
	pthread_condattr_destroy(&monotonic);
	mem_check(pthread_create(&reader, NULL, read_all, top) == 0);
	screen_enter();
	code = show(top);
	pthread_mutex_lock(&top->lock);
	top->over = true;
	pthread_cond_signal(&top->changed);
	pthread_mutex_unlock(&top->lock);
	screen_close(); /* at once: the reader's call may take a moment to end */
	reeve_client_interrupt(top->client);
	pthread_join(reader, NULL);
	top_free(&top->next);
	pthread_cond_destroy(&top->changed);
	pthread_mutex_destroy(&top->lock);
	return code;
}

struct top_options {
	int64_t interval_ms;
};

static const struct option_spec specs[] = {
    OPT_SPAN(0, "interval", OPTION_AT(struct top_options, interval_ms), 100, 24 * 3600 * 1000, "poll interval",
        .default_value = "2s"),
    {0},
};

static const struct option_table table = {
    .program = "reeve top",
    .usage = "[--interval DURATION]",
    .summary =
        "Shows queues, workers, throughput and running tasks on the whole terminal, again and again. Keys: q quits, s "
        "sorts by what waits, by the oldest, by what is executing or by name, p pauses.",
    .specs = specs,
};

int command_top(int argc, char **argv)
{
	struct top_options options = {0};
	struct shared_options shared = {0};
	struct top top = {0};
	int code;

	if (!command_only_options(&table, &options, &shared, argc, argv, &code))
		return code;
	if (shared.json)
		return command_usage(&table, "--json does not go with it: see reeve queue list, worker list and stats");
	if (!screen_possible()) {
		command_log("top needs a terminal; without one see reeve queue list, worker list and stats");
		return EXIT_USAGE;
	}
	command_notices(false); /* they would stand in the middle of the screen, which says the same */
	if (!screen_open()) {
		command_log("the terminal cannot be used: %s", strerror(errno));
		return EXIT_USAGE;
	}
	top.interval_ms = options.interval_ms;
	top.news_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	mem_check(top.news_fd >= 0);
	top.client = command_connect(&shared, &code);
	if (top.client)
		code = run(&top);
	reeve_client_destroy(top.client);
	close(top.news_fd);
	return code;
}
