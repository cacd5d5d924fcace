/* Output for people: widths, ages, cells without control characters, tables that fit. */
#include "client/cmd/table.h"
#include "client/cmd/terminal.h"
#include "tests/unit/compare.h"

#include <criterion/criterion.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void begin(void)
{
	setlocale(LC_CTYPE, "C.UTF-8");
}

static const char *age(int64_t seconds_ago)
{
	static char text[32];
	const int64_t now = INT64_C(1768377600000000);

	return terminal_age(now, now - seconds_ago * 1000000, text, sizeof text);
}

Test(terminal, ages_are_short)
{
	char text[32];

	cr_assert(eq(str, (char *)age(0), "0s"));
	cr_assert(eq(str, (char *)age(119), "119s"));
	cr_assert(eq(str, (char *)age(120), "2m"));
	cr_assert(eq(str, (char *)age(7199), "119m"));
	cr_assert(eq(str, (char *)age(7200), "2h"));
	cr_assert(eq(str, (char *)age(86400 * 3), "3d"));
	cr_assert(eq(str, (char *)age(-300), "in 5m"));
	cr_assert(eq(str, (char *)terminal_age(5, 0, text, sizeof text), "-"));
	cr_assert(eq(str, (char *)terminal_age(1, 2, text, sizeof text), "0s"), "clocks differ");
	cr_assert(eq(str, (char *)terminal_age(1, 600002, text, sizeof text), "in 1s"));
	cr_assert(eq(str, (char *)terminal_time(INT64_C(1768377600123456), text, sizeof text), "2026-01-14 08:00:00.123Z"));
	cr_assert(eq(str, (char *)terminal_time(0, text, sizeof text), "-"));
}

/* Times are in the local zone, as they are read. */
Test(terminal, times_are_local)
{
	char text[40];

	setenv("TZ", "Europe/Berlin", 1);
	tzset();
	cr_assert(
	    eq(str, (char *)terminal_time(INT64_C(1768377600123456), text, sizeof text), "2026-01-14 09:00:00.123+01:00"));
	cr_assert(eq(str, (char *)terminal_minute(INT64_C(1783987200000000), text, sizeof text), "2026-07-14 02:00+02:00"));
	setenv("TZ", "XYZ3:30", 1);
	tzset();
	cr_assert(eq(str, (char *)terminal_minute(INT64_C(1768377600000000), text, sizeof text), "2026-01-14 04:30-03:30"));
}

Test(terminal, text_cannot_steer_it, .init = begin)
{
	char *out = NULL;
	size_t size;
	FILE *file = open_memstream(&out, &size);
	char *line = terminal_one_line("a\tb\x1b[31m\nc\xc2\x9b"
	                               "d\x7f caf\xc3\xa9\n");

	cr_assert(eq(str, line,
	    "a b\\x1b[31m c\\xc2\\x9b"
	    "d\\x7f caf\xc3\xa9"));
	free(line);
	terminal_write_clean(file, "x\x1b]0;t\x07\ty\n");
	fclose(file);
	cr_assert(eq(str, out, "x\\x1b]0;t\\x07\ty\n"));
	free(out);
}

/* A name that is displayed from right to left looks like another name; a line separator begins a new line. */
Test(terminal, text_cannot_change_its_order, .init = begin)
{
	char *out = NULL;
	size_t size;
	FILE *file = open_memstream(&out, &size);
	char *line = terminal_one_line("a\xe2\x80\xae"
	                               "b\xe2\x81\xa6\xe2\x80\xa8\xd8\x9c"
	                               "c \xd8\xb9\xe2\x82\xac\xe2\x80\xa6\xe2");

	cr_assert(eq(str, line,
	    "a\\xe2\\x80\\xae"
	    "b\\xe2\\x81\\xa6\\xe2\\x80\\xa8\\xd8\\x9c"
	    "c \xd8\xb9\xe2\x82\xac\xe2\x80\xa6\xe2"));
	free(line);
	terminal_write_json(file, "{\n\t\"a\": \"\xc2\x9b\x7f\xe2\x80\xae\xe2\x82\xac\"}");
	fclose(file);
	cr_assert(eq(str, out, "{\n\t\"a\": \"\\u009b\\u007f\\u202e\xe2\x82\xac\"}"));
	free(out);
}

Test(terminal, measures_by_character, .init = begin)
{
	int width;

	cr_assert(eq(int, terminal_width("caf\xc3\xa9"), 4));
	cr_assert(eq(int, terminal_width("\xe4\xb8\xad\xe6\x96\x87"), 4), "wide characters");
	cr_assert(eq(int, terminal_width("bad \xff"), 5));
	cr_assert(eq(sz, terminal_cut("caf\xc3\xa9s", 4, &width), 5));
	cr_assert(eq(int, width, 4));
	cr_assert(eq(sz, terminal_cut("\xe4\xb8\xad\xe6\x96\x87", 3, &width), 3));
	cr_assert(eq(int, width, 2));
}

static const struct column columns[] = {
    COL_NUMBER("ID", NULL), COL_TEXT("TYPE", NULL), COL_WORD("STATUS", NULL), COL_TEXT("NOTE", NULL), {0}};

static char *written(int terminal_wide, bool colour)
{
	struct table *table = table_create(columns);
	char *out = NULL;
	size_t size;
	FILE *file = open_memstream(&out, &size);

	table_number(table, 7);
	table_text(table, "mail");
	table_coloured(table, "dead", "\x1b[31m");
	table_text(table, "a long text of what went wrong\nand why");
	table_number(table, 12345);
	table_text(table, "\xe4\xb8\xad\xe6\x96\x87 report");
	table_text(table, "queued");
	table_text(table, "");
	table_write(table, file, terminal_wide, colour);
	fclose(file);
	table_destroy(table);
	return out;
}

Test(table, is_aligned, .init = begin)
{
	char *out = written(0, false);

	cr_assert(eq(str, out,
	    "   ID  TYPE         STATUS  NOTE\n"
	    "    7  mail         dead    a long text of what went wrong and why\n"
	    "12345  \xe4\xb8\xad\xe6\x96\x87 report  queued  -\n"));
	free(out);
}

Test(table, fits_the_terminal, .init = begin)
{
	char *out = written(40, false);

	cr_assert(eq(str, out,
	    "   ID  TYPE         STATUS  NOTE\n"
	    "    7  mail         dead    a long text\xe2\x80\xa6\n"
	    "12345  \xe4\xb8\xad\xe6\x96\x87 report  queued  -\n"));
	free(out);
	/* The widest column shrinks first, then the gaps, then columns with words, but no column with numbers. */
	out = written(30, false);
	cr_assert(eq(str, out,
	    "   ID TYPE     STATUS NOTE\n"
	    "    7 mail     dead   a long \xe2\x80\xa6\n"
	    "12345 \xe4\xb8\xad\xe6\x96\x87 re\xe2\x80\xa6 queued -\n"));
	free(out);
	out = written(23, false);
	cr_assert(eq(str, out,
	    "   ID TYPE  STAT\xe2\x80\xa6 NOTE\n"
	    "    7 mail  dead  a lo\xe2\x80\xa6\n"
	    "12345 \xe4\xb8\xad\xe6\x96\x87\xe2\x80\xa6 queu\xe2\x80\xa6 -\n"));
	free(out);
	/* Columns that do not fit are left out, visibly. */
	out = written(14, false);
	cr_assert(eq(str, out,
	    "   ID TYPE  \xe2\x80\xa6\n    7 mail  \xe2\x80\xa6\n12345 \xe4\xb8\xad\xe6\x96\x87\xe2\x80\xa6 \xe2\x80\xa6\n"));
	free(out);
	out = written(1, false);
	cr_assert(eq(str, out, "\xe2\x80\xa6\n\xe2\x80\xa6\n\xe2\x80\xa6\n"));
	free(out);
}

Test(table, colours_the_text_alone, .init = begin)
{
	char *out = written(0, true);

	cr_assert(strstr(out, "mail         \x1b[31mdead\x1b[0m    a long") != NULL, "%s", out);
	free(out);
}
