#include "worker/news.h"

#include "common/clock.h"
#include "common/limits.h"
#include "common/mem.h"
#include "common/text.h"
#include "common/utf8.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

enum {
	RUNNING_REMARK_MAX_BYTES = 1000, /* maximum for the remark of a running handler */
	LINE_COST = 24,                  /* of a line in a message, beside its text, roughly */
};

struct news *news_create(void)
{
	struct news *news = mem_calloc(1, sizeof *news);

	pthread_mutex_init(&news->lock, NULL);
	news->next = 1;
	news->progress = -1;
	return news;
}

static void drop_first(struct news *news)
{
	struct news_line *first = news->lines;

	DL_DELETE(news->lines, first);
	news->count--;
	news->bytes -= first->length;
	free(first);
}

void news_free(struct news *news)
{
	if (!news)
		return;
	while (news->lines)
		drop_first(news);
	free(news->remark);
	free(news->logged);
	free(news->logged_pointers);
	pthread_mutex_destroy(&news->lock);
	free(news);
}

/* Returns a copy of up to `limit` bytes, with invalid UTF-8 repaired. */
static char *clean_copy(const char *text, size_t length, size_t limit)
{
	char *repaired = utf8_repair(text, length > limit ? utf8_cut(text, limit) : length);
	size_t now = strlen(repaired);

	if (now > limit)
		repaired[utf8_cut(repaired, limit)] = '\0';
	return repaired;
}

static char *clean_remark(const char *remark)
{
	return remark ? clean_copy(remark, strlen(remark), LIMIT_REMARK_BYTES) : NULL;
}

/* Takes over the text; NULL: there is no remark any more. Called with the lock. */
static void set_remark(struct news *news, char *text)
{
	free(news->remark);
	news->remark = text;
	news->remarked = true;
	news->remark_new = text != NULL;
}

void news_progress(struct news *news, double percent, const char *remark)
{
	char *text = clean_remark(remark);

	pthread_mutex_lock(&news->lock);
	if (news->sealed) {
		free(text);
	} else {
		if (percent >= 0)
			news->progress = percent < 100 ? percent : 100;
		if (text)
			set_remark(news, text);
	}
	pthread_mutex_unlock(&news->lock);
}

void news_remark(struct news *news, const char *remark)
{
	char *text = clean_remark(remark);

	pthread_mutex_lock(&news->lock);
	if (news->sealed)
		free(text);
	else
		set_remark(news, text);
	pthread_mutex_unlock(&news->lock);
}

static void add_line(struct news *news, const char *text, size_t length, int64_t now_ms)
{
	char *clean = clean_copy(text, length, LIMIT_LOG_LINE_BYTES);
	size_t kept = strlen(clean);
	struct news_line *line = mem_malloc(sizeof *line + kept + 1);

	line->at_ms = now_ms;
	line->length = kept;
	memcpy(line->text, clean, kept + 1);
	free(clean);
	pthread_mutex_lock(&news->lock);
	if (news->sealed) {
		pthread_mutex_unlock(&news->lock);
		free(line);
		return;
	}
	DL_APPEND(news->lines, line);
	news->next++;
	news->count++;
	news->bytes += kept;
	while (news->count > LIMIT_LOG_LINES || news->bytes > LIMIT_LOG_BYTES)
		drop_first(news);
	pthread_mutex_unlock(&news->lock);
}

void news_log(struct news *news, const char *text, size_t length)
{
	int64_t now_ms = clock_monotonic_ms();
	const char *end = text + length, *newline;

	do {
		newline = memchr(text, '\n', (size_t)(end - text));
		const char *stop = newline ? newline : end;

		add_line(news, text, (size_t)(stop - text) - (stop > text && stop[-1] == '\r'), now_ms);
		text = newline ? newline + 1 : end;
	} while (text < end);
}

/* Returns the number of the first line. */
static int64_t first_number(const struct news *news)
{
	return news->next - (int64_t)news->count;
}

static void copy_lines(const struct news *news, Reeve__V1__AttemptProgress *message, int64_t now_ms)
{
	const struct news_line *line;

	message->first_line = first_number(news);
	message->lines = mem_malloc(news->count * sizeof *message->lines);
	DL_FOREACH (news->lines, line) {
		Reeve__V1__LoggedLine *copy = mem_malloc(sizeof *copy);

		reeve__v1__logged_line__init(copy);
		copy->text = mem_strdup(line->text);
		copy->age_ms = now_ms - line->at_ms;
		message->lines[message->n_lines++] = copy;
	}
}

/* Returns how many bytes of a running handler's remark are sent. */
static size_t sent_length(const char *remark)
{
	size_t length = strlen(remark);

	return length > RUNNING_REMARK_MAX_BYTES ? utf8_cut(remark, RUNNING_REMARK_MAX_BYTES) : length;
}

size_t news_compose(struct news *news, Reeve__V1__AttemptProgress *message, int64_t now_ms, bool *wait)
{
	size_t bytes = 0;

	pthread_mutex_lock(&news->lock);
	if (news->sealed || (news->progress < 0 && !news->remark_new && !news->count)) {
		pthread_mutex_unlock(&news->lock);
		return 0;
	}
	if (news->sent_ms && now_ms - news->sent_ms < LIMIT_PROGRESS_MS) {
		*wait = true;
		pthread_mutex_unlock(&news->lock);
		return 0;
	}
	news->sent_ms = now_ms;
	if (news->progress >= 0) {
		message->last_progress_case = REEVE__V1__ATTEMPT_PROGRESS__LAST_PROGRESS_PROGRESS;
		message->progress = news->progress;
	}
	if (news->remark_new) {
		bytes = sent_length(news->remark);
		if (bytes)
			message->remark = mem_strndup(news->remark, bytes);
	}
	if (news->count)
		copy_lines(news, message, now_ms);
	bytes += 64 + news->bytes + news->count * LINE_COST;
	pthread_mutex_unlock(&news->lock);
	return bytes;
}

void news_clear_message(Reeve__V1__AttemptProgress *message)
{
	for (size_t i = 0; i < message->n_lines; i++) {
		free((char *)message->lines[i]->text);
		free(message->lines[i]);
	}
	free(message->lines);
	if (message->remark[0])
		free((char *)message->remark);
}

void news_acknowledged(struct news *news, const Reeve__V1__AttemptProgress *message)
{
	int64_t next = message->first_line + (int64_t)message->n_lines;

	pthread_mutex_lock(&news->lock);
	if (!news->sealed) {
		if (message->last_progress_case && news->progress == message->progress)
			news->progress = -1;
		if (news->remark_new && sent_length(news->remark) == strlen(message->remark) &&
		    !strncmp(news->remark, message->remark, strlen(message->remark)))
			news->remark_new = false;
		while (news->count && first_number(news) < next)
			drop_first(news);
	}
	pthread_mutex_unlock(&news->lock);
}

size_t news_seal(struct news *news, Reeve__V1__Result *result, char **remark)
{
	int64_t now_ms = clock_monotonic_ms();
	struct news_line *line;
	size_t i = 0;

	pthread_mutex_lock(&news->lock);
	if (!news->sealed && news->remarked) {
		free(*remark);
		*remark = news->remark;
		news->remark = NULL;
	}
	if (!news->sealed && news->count) {
		news->logged = mem_malloc(news->count * sizeof *news->logged);
		news->logged_pointers = mem_malloc(news->count * sizeof *news->logged_pointers);
		DL_FOREACH (news->lines, line) {
			reeve__v1__logged_line__init(&news->logged[i]);
			news->logged[i].text = line->text;
			news->logged[i].age_ms = now_ms - line->at_ms;
			news->logged_pointers[i] = &news->logged[i];
			i++;
		}
	}
	news->sealed = true;
	if (news->progress >= 0) {
		result->last_progress_case = REEVE__V1__RESULT__LAST_PROGRESS_PROGRESS;
		result->progress = news->progress;
	}
	result->first_line = news->count ? first_number(news) : 0;
	result->n_lines = news->count;
	result->lines = news->logged_pointers;
	pthread_mutex_unlock(&news->lock);
	return news->bytes + news->count * LINE_COST;
}
