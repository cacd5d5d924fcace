/* What running handlers report: bounded, repaired, and sent at most once a second. */
#include "worker/news.h"

#include "common/limits.h"
#include "common/utf8.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static struct news *news;

static void open_news(void)
{
	news = news_create();
}

static void close_news(void)
{
	news_free(news);
}

TestSuite(news, .init = open_news, .fini = close_news);

static void log_text(const char *text)
{
	news_log(news, text, strlen(text));
}

/* Composes what is new at a time; returns the number of lines. */
static size_t compose(Reeve__V1__AttemptProgress *message, int64_t now_ms)
{
	bool wait = false;

	reeve__v1__attempt_progress__init(message);
	news_compose(news, message, now_ms, &wait);
	return message->n_lines;
}

Test(news, texts_become_lines)
{
	Reeve__V1__AttemptProgress message;

	log_text("one\ntwo\r\n\n\xff three\n");
	cr_assert_eq(compose(&message, 5000), 4);
	cr_expect_eq(message.first_line, 1);
	cr_expect_str_eq(message.lines[0]->text, "one");
	cr_expect_str_eq(message.lines[1]->text, "two");
	cr_expect_str_eq(message.lines[2]->text, "");
	cr_expect_str_eq(message.lines[3]->text, "\xef\xbf\xbd three");
	news_clear_message(&message);
}

/* A character of four bytes does not fit any more. */
Test(news, a_text_is_cut_between_characters)
{
	Reeve__V1__AttemptProgress message;
	char text[2 + 2000 * 4] = "a";

	for (int i = 0; i < 2000; i++)
		memcpy(text + 1 + 4 * (size_t)i, "\xf0\x9f\x98\x80", 4);
	text[sizeof text - 1] = '\n';
	news_log(news, text, sizeof text);
	cr_assert_eq(compose(&message, 5000), 1);
	cr_expect_eq(strlen(message.lines[0]->text), 4093);
	cr_expect(utf8_valid(message.lines[0]->text, 4093));
	news_clear_message(&message);
}

Test(news, the_oldest_lines_are_dropped)
{
	Reeve__V1__AttemptProgress message;

	for (int i = 0; i < 3 * LIMIT_LOG_LINES; i++)
		log_text("line");
	cr_assert_eq(compose(&message, 5000), LIMIT_LOG_LINES);
	cr_expect_eq(message.first_line, 2 * LIMIT_LOG_LINES + 1);
	news_clear_message(&message);
}

Test(news, a_text_without_an_end_is_bounded)
{
	size_t length = (size_t)64 << 20, bytes = 0;
	char *text = malloc(length);
	Reeve__V1__AttemptProgress message;

	memset(text, 0xc3, length); /* invalid UTF-8, which is longer when it is repaired */
	for (int i = 0; i < 100; i++)
		news_log(news, text, length);
	free(text);
	cr_assert_eq(compose(&message, 5000), LIMIT_LOG_BYTES / (LIMIT_LOG_LINE_BYTES / 3 * 3));
	for (size_t i = 0; i < message.n_lines; i++) {
		cr_expect_leq(strlen(message.lines[i]->text), LIMIT_LOG_LINE_BYTES);
		bytes += strlen(message.lines[i]->text);
	}
	cr_expect_leq(bytes, LIMIT_LOG_BYTES);
	cr_expect_eq(message.first_line + (int64_t)message.n_lines, 101);
	news_clear_message(&message);
}

Test(news, it_is_sent_once_a_second_until_it_is_acknowledged)
{
	Reeve__V1__AttemptProgress first, message;
	bool wait = false;

	log_text("one");
	news_progress(news, 40, "page 1");
	news_progress(news, -1, NULL); /* both stay */
	cr_assert_eq(compose(&first, 5000), 1);
	cr_expect_eq(first.progress, 40);
	cr_expect_str_eq(first.remark, "page 1");
	log_text("two");
	news_remark(news, "page 2");
	reeve__v1__attempt_progress__init(&message);
	cr_expect_eq(news_compose(news, &message, 5999, &wait), 0);
	cr_expect(wait);
	news_acknowledged(news, &first);
	news_clear_message(&first);
	cr_assert_eq(compose(&message, 6000), 1);
	cr_expect_eq(message.first_line, 2);
	cr_expect_str_eq(message.lines[0]->text, "two");
	cr_expect_str_eq(message.remark, "page 2");
	cr_expect_eq(message.last_progress_case, 0, "it is unchanged");
	news_clear_message(&message);
	/* Without an acknowledgement it is sent again. */
	cr_assert_eq(compose(&message, 7000), 1);
	news_acknowledged(news, &message);
	news_clear_message(&message);
	/* The handler starts over. */
	news_progress(news, 0, NULL);
	compose(&message, 8000);
	cr_expect_eq(message.last_progress_case, REEVE__V1__ATTEMPT_PROGRESS__LAST_PROGRESS_PROGRESS);
	cr_expect_eq(message.progress, 0);
	news_acknowledged(news, &message);
	news_clear_message(&message);
	wait = false;
	cr_expect_eq(news_compose(news, &message, 9000, &wait), 0);
	cr_expect_not(wait);
}

Test(news, a_remark_that_begins_like_the_one_before_is_sent)
{
	Reeve__V1__AttemptProgress message;

	news_remark(news, "page 1");
	compose(&message, 5000);
	cr_expect_str_eq(message.remark, "page 1");
	news_remark(news, "page 12"); /* while the call is open */
	news_acknowledged(news, &message);
	news_clear_message(&message);
	compose(&message, 6000);
	cr_expect_str_eq(message.remark, "page 12");
	news_acknowledged(news, &message);
	news_clear_message(&message);
	compose(&message, 7000);
	cr_expect_str_eq(message.remark, "");
}

Test(news, the_result_has_what_is_left)
{
	Reeve__V1__Result result = REEVE__V1__RESULT__INIT;
	Reeve__V1__AttemptProgress message;
	char *remark = strdup("of the outcome");

	log_text("one");
	cr_assert_eq(compose(&message, 5000), 1);
	news_progress(news, 250, NULL);
	news_progress(news, -1, NULL);
	news_remark(news, "last");
	log_text("two");
	for (int i = 0; i < 2; i++) {
		news_seal(news, &result, &remark);
		cr_expect_eq(result.n_lines, 2);
		cr_expect_eq(result.first_line, 1);
		cr_expect_str_eq(result.lines[1]->text, "two");
		cr_expect_eq(result.progress, 100);
		cr_expect_str_eq(remark, "last");
		news_acknowledged(news, &message); /* comes too late: the result keeps its lines */
	}
	news_clear_message(&message);
	free(remark);
}
