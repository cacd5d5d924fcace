/* Conditions as users type them: what they mean, and where they are invalid. */
#include "client/cmd/where.h"

#include "client/cmd/command.h"
#include "tests/unit/compare.h"

#include <criterion/criterion.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct where where;
static struct reeve_error error;

static const Reeve__V1__TaskFilter *parsed(const char *text)
{
	where_free(&where);
	cr_assert(where_parse(&where, text, NULL, &error), "%s", error.message);
	return &where.filter;
}

static void begin(void)
{
	setlocale(LC_CTYPE, "C.UTF-8"); /* as the program does, for the width of characters */
}

static void finish(void)
{
	where_free(&where);
}

/* Expects that it is refused with this message, with the mark at this column from 0; negative: no mark. */
static void refused(const char *text, const char *message, int column)
{
	char want[1024];

	where_free(&where);
	cr_assert(not(where_parse(&where, text, NULL, &error)), "%s", text);
	if (column < 0)
		snprintf(want, sizeof want, "%s", message);
	else
		snprintf(want, sizeof want, "%s\n  %s\n  %*s^", message, text, column, "");
	cr_assert(eq(str, error.message, want));
}

TestSuite(where, .init = begin, .fini = finish);

Test(where, every_condition)
{
	const Reeve__V1__TaskFilter *w =
	    parsed(" status=dead,failed  queue=mail type=send error=no error~ro code=exit:3 older=1h30m newer=2d "
	           "running_longer=90 batch=7 key=k-1 source=ann@host details.user=17 details.a.0=\"b c\"\n");
	cr_assert(eq(sz, w->n_statuses, 2));
	cr_assert(w->statuses[0] == TASK(DEAD) && w->statuses[1] == TASK(FAILED));
	cr_assert(eq(str, (char *)w->queue, "mail"));
	cr_assert(eq(str, (char *)w->type, "send"));
	cr_assert(eq(str, (char *)w->error, "no"));
	cr_assert(eq(str, (char *)w->error_contains, "ro"));
	cr_assert(eq(str, (char *)w->error_code, "exit:3"));
	cr_assert(eq(i64, w->older_ms, 5400000));
	cr_assert(eq(i64, w->newer_ms, 172800000));
	cr_assert(eq(i64, w->running_longer_ms, 90000));
	cr_assert(eq(i64, w->batch_id, 7));
	cr_assert(eq(str, (char *)w->key, "k-1"));
	cr_assert(eq(str, (char *)w->source, "ann@host"));
	cr_assert(eq(sz, w->n_details, 2));
	cr_assert(eq(str, (char *)w->details[0]->path, "user"));
	cr_assert(eq(str, (char *)w->details[0]->value, "17"));
	cr_assert(eq(str, (char *)w->details[1]->path, "a.0"));
	cr_assert(eq(str, (char *)w->details[1]->value, "b c"));
}

Test(where, what_is_not_given_says_nothing)
{
	const Reeve__V1__TaskFilter *w = parsed("type=t");
	cr_assert(eq(sz, w->n_statuses, 0));
	cr_assert(eq(ptr, (void *)w->queue, NULL));
	cr_assert(eq(i64, w->older_ms, 0));
}

Test(where, values_in_quotes)
{
	cr_assert(eq(str, (char *)parsed("error='no route to host' type=t")->error, "no route to host"));
	cr_assert(eq(str, (char *)where.filter.type, "t"));
	cr_assert(eq(str, (char *)parsed("error='it''s \\n \"so\"'")->error, "it's \\n \"so\""));
	cr_assert(eq(str, (char *)parsed("error~\"a \\\"b\\\" \\\\ c\\nd\\te\\rf 'g'\"")->error_contains,
	    "a \"b\" \\ c\nd\te\rf 'g'"));
	cr_assert(eq(str, (char *)parsed("error='two\nlines'")->error, "two\nlines"));
	cr_assert(eq(str, (char *)parsed("error=a=b~c'd\"e")->error, "a=b~c'd\"e"));
	cr_assert(eq(sz, parsed("status=\"dead,queued,dead\"")->n_statuses, 2));
	cr_assert(where.statuses[0] == TASK(DEAD) && where.statuses[1] == TASK(QUEUED));
	cr_assert(eq(str, (char *)parsed("queue='status=dead'")->queue, "status=dead"));
}

Test(where, errors_name_the_position)
{
	const char *names = "there is no such condition; there are " WHERE_NAMES;

	refused("", "it is empty; there are " WHERE_NAMES, -1);
	refused(" \t\n ", "it is empty; there are " WHERE_NAMES, -1);
	refused("colour=red", names, 0);
	refused("status=dead colour=red", names, 12);
	refused("type=t or type=u", names, 7);
	refused("=dead", names, 0);
	refused("Status=dead", names, 0);
	refused("stat=dead", names, 0);
	refused("status", "status must be followed by = and a value", 6);
	refused("status =dead", "status must be followed by = and a value", 6);
	refused("queue~mail", "queue takes = alone; ~ goes with error", 5);
	refused("status=", "status has no value", 7);
	refused("queue='' type=t", "queue has no value", 6);
	refused("type=t queue=", "queue has no value", 13);
	refused("type=t type=u", "type is given twice", 7);
	refused("older=soon", "older takes a duration like 90s, 5m, 1h30m or 2d", 6);
	refused("older=-5s", "older takes a duration like 90s, 5m, 1h30m or 2d", 6);
	refused("older=0", "older takes a duration like 90s, 5m, 1h30m or 2d", 6);
	refused("newer=999999999999999999999d", "newer takes a duration like 90s, 5m, 1h30m or 2d", 6);
	refused("batch=0", "batch takes a whole number from 1", 6);
	refused("batch=7x", "batch takes a whole number from 1", 6);
	refused("batch=99999999999999999999", "batch takes a whole number from 1", 6);
	refused("error='open", "this quote is never closed", 6);
	refused("error='open''", "this quote is never closed", 6);
	refused("error=\"open\\\"", "this quote is never closed", 6);
	refused("error='a'b", "a blank must follow the quote", 9);
	refused("error=\"a\\qb\"", "only \", \\, n, t and r can follow a backslash", 8);
	refused("error=\"a\\", "only \", \\, n, t and r can follow a backslash", 8);
	const char *statuses =
	    "status takes queued, executing, failed, completed, dead or cancelled, or several with commas";
	refused("status=ded", statuses, 7);
	refused("status=dead,,failed", statuses, 12);
	refused("status=dead,", statuses, 12);
}

/* Columns count characters. Of a long condition, the error shows a part, in one line. */
Test(where, the_place_in_long_and_foreign_texts)
{
	char text[2000];

	refused("error='ä€' typ=t", "there is no such condition; there are " WHERE_NAMES, 11);
	where_free(&where);
	snprintf(text, sizeof text, "error='%0*d' typ=t %0*d", 1000, 0, 500, 0);
	cr_assert(not(where_parse(&where, text, NULL, &error)));
	cr_assert(strstr(error.message, "000' typ=t 000") != NULL, "%s", error.message);
	cr_assert(lt(sz, strlen(error.message), 400));
	where_free(&where);
	cr_assert(not(where_parse(&where, "error='a\nb' typ=t", NULL, &error)));
	cr_assert(strstr(error.message, "\n  error='a b' typ=t\n              ^") != NULL, "%s", error.message);
	where_free(&where);
	memset(text, 0x80, 200);
	strcpy(text + 200, "=");
	cr_assert(not(where_parse(&where, text, NULL, &error)));
}
