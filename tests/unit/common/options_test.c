/* Options from every source, the precedence of the sources, and the errors for invalid options. */
#include "common/options.h"
#include "tests/unit/compare.h"

#include <criterion/criterion.h>
#include <reeve/v1/task.pb-c.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct values {
	const char *queue, *config;
	int64_t priority, delay, limit, at;
	bool json, verbose;
	struct option_list names;
};

struct shared {
	const char *manager;
};

#define FIELD(field) .place = OPTION_AT(struct values, field)

static const struct option_spec specs[] = {
    {.name = "queue",
        .type = OPTION_TEXT,
        FIELD(queue),
        .default_value = "default",
        .letter = 'q',
        .argument = "NAME",
        .help = "The queue.",
        .environment = "TESTER_QUEUE",
        .in_file = true},
    {.name = "priority",
        .type = OPTION_INTEGER,
        FIELD(priority),
        .default_value = "7",
        .min = -10,
        .max = 10,
        .letter = 'p',
        .argument = "N",
        .help = "How urgent | how soon it runs.",
        .environment = "TESTER_PRIORITY",
        .in_file = true},
    {.name = "delay", .type = OPTION_DURATION, FIELD(delay), .help = "Later."},
    {.name = "config", .type = OPTION_TEXT, FIELD(config), .environment = "TESTER_CONFIG"},
    {.name = "limit",
        .type = OPTION_SIZE,
        FIELD(limit),
        .default_value = "1MiB",
        .min = 1,
        .max = 1 << 30,
        .help = "At most.",
        .in_file = true},
    {.name = "at", .type = OPTION_TIME, FIELD(at), .help = "When."},
    {.name = "json", .type = OPTION_FLAG, FIELD(json), .letter = 'j', .help = "JSON.", .in_file = true},
    {.name = "names", .type = OPTION_LIST, FIELD(names), .letter = 'n', .argument = "A[,A]", .help = "Names."},
    {.name = "verbose", .type = OPTION_FLAG, FIELD(verbose), .letter = 'v', .help = "Say more."},
    {0},
};
static const struct option_table table = {"tester", "[WORD]...", "Tests.", "Ends.", specs};

static const struct option_spec shared_specs[] = {
    {.name = "manager", .type = OPTION_TEXT, .place = OPTION_AT(struct shared, manager), .help = "Whom to ask."},
    {0},
};
static const struct option_table shared_table = {"shared", "", "", NULL, shared_specs};

static struct values values;
static struct shared shared;
static struct reeve_error error;
static char *arguments[32];
static int operands;
static char wants;

/* Parses the arguments up to NULL, after --config with a file, or without it if `file` is NULL. */
static bool parse(const char *file, ...)
{
	va_list list;
	int count = 1;

	memset(&values, 0, sizeof values);
	memset(&shared, 0, sizeof shared);
	memset(&error, 0, sizeof error);
	arguments[0] = "tester";
	if (file) {
		arguments[count++] = "--config";
		arguments[count++] = (char *)file;
	}
	va_start(list, file);
	while ((arguments[count] = va_arg(list, char *)))
		count++;
	va_end(list);
	return options_parse(
	    &table, &values, &shared_table, &shared, "config", "tester", count, arguments, &operands, &wants, &error);
}

static const char *write_file(const char *text)
{
	static char path[64];
	snprintf(path, sizeof path, "/tmp/reeve-options-XXXXXX");
	int file = mkstemp(path);

	cr_assert(ge(int, file, 0));
	cr_assert(eq(sz, (size_t)write(file, text, strlen(text)), strlen(text)));
	close(file);
	return path;
}

Test(options, has_defaults)
{
	cr_assert(parse(NULL, NULL));
	cr_assert(eq(str, (char *)values.queue, "default"));
	cr_assert(eq(i64, values.priority, 7));
	cr_assert(eq(i64, values.limit, 1 << 20));
	cr_assert(eq(i64, values.delay, 0));
	cr_assert(not(values.json));
	cr_assert(eq(ptr, (void *)shared.manager, NULL));
	cr_assert(eq(int, operands, 0));
}

Test(options, reads_every_way_of_writing)
{
	cr_assert(parse(NULL, "one", "--queue=mail", "-", "--priority", "-5", "-jv", "--delay=1m30s", "two", "--manager",
	              "tcp://a:1", "--at", "2026-01-14T08:00:00Z", "--limit", "64KiB", "--", "--three", "-4", NULL),
	    "%s", error.message);
	cr_assert(eq(str, (char *)values.queue, "mail"));
	cr_assert(eq(i64, values.priority, -5));
	cr_assert(values.json && values.verbose);
	cr_assert(eq(i64, values.delay, 90000));
	cr_assert(eq(i64, values.at, INT64_C(1768377600000000)));
	cr_assert(eq(i64, values.limit, 65536));
	cr_assert(eq(str, (char *)shared.manager, "tcp://a:1"));
	cr_assert(eq(int, operands, 5));
	cr_assert(eq(str, arguments[1], "one"));
	cr_assert(eq(str, arguments[2], "-"));
	cr_assert(eq(str, arguments[3], "two"));
	cr_assert(eq(str, arguments[4], "--three"));
	cr_assert(eq(str, arguments[5], "-4"));

	cr_assert(parse(NULL, "-qfast", "-jp", "3", "--verbose=no", "--queue=", NULL));
	cr_assert(eq(str, (char *)values.queue, ""));
	cr_assert(eq(i64, values.priority, 3));
	cr_assert(not(values.verbose));
}

static void refused(const char *message)
{
	cr_assert(eq(str, error.message, (char *)message));
	cr_assert(eq(int, error.code, STATUS(INVALID_ARGUMENT)));
}

Test(options, lists_grow_with_each_mention)
{
	cr_assert(parse(NULL, "--names", "a, b c ,d", "-n", "e", "--names=f", NULL), "%s", error.message);
	cr_assert(eq(sz, values.names.count, 5));
	static const char *const names[] = {"a", "b c", "d", "e", "f"};
	for (size_t i = 0; i < values.names.count; i++)
		cr_assert(eq(str, (char *)values.names.items[i], (char *)names[i]));
	cr_assert(parse(NULL, NULL));
	cr_assert(eq(sz, values.names.count, 0));
	static const char *const bad[] = {"", ",", "a,,b", "a,", " ,a"};
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		cr_assert(not(parse(NULL, "--names", bad[i], NULL)));
		cr_assert(ne(ptr, strstr(error.message, "holds an empty name; it takes A[,A]"), NULL), "%s", error.message);
	}
}

Test(options, names_the_error)
{
	cr_assert(not(parse(NULL, "--priority", "high", NULL)));
	refused("--priority: \"high\" is not a whole number; it takes a whole number from -10 to 10");
	cr_assert(not(parse(NULL, "--priority=11", NULL)));
	refused("--priority: \"11\" is out of range; it takes a whole number from -10 to 10");
	cr_assert(not(parse(NULL, "-p", "99999999999999999999", NULL)));
	refused("-p: \"99999999999999999999\" is not a whole number; it takes a whole number from -10 to 10");
	cr_assert(not(parse(NULL, "--priority=", NULL)));
	refused("--priority: \"\" is not a whole number; it takes a whole number from -10 to 10");
	cr_assert(not(parse(NULL, "--delay", "-5s", NULL)));
	refused("--delay: \"-5s\" is negative; it takes a duration like 250ms, 5s, 1m30s or 2h");
	cr_assert(not(parse(NULL, "--limit", "0", NULL)));
	refused("--limit: \"0\" is out of range; it takes a size like 512, 64KiB or 1MiB from 1 to 1GiB");
	cr_assert(not(parse(NULL, "--at", "soon", NULL)));
	cr_assert(ne(ptr, strstr(error.message, "--at: \"soon\" is not a time; it takes a time like"), NULL));
	cr_assert(not(parse(NULL, "--json=maybe", NULL)));
	refused("--json: \"maybe\" is neither yes nor no; it takes yes or no");
	cr_assert(not(parse(NULL, "--queue", NULL)));
	refused("--queue needs a value; it takes NAME");
	cr_assert(not(parse(NULL, "--qeueu=x", NULL)));
	refused("unknown option --qeueu (tester --help lists them)");
	cr_assert(not(parse(NULL, "-jx", NULL)));
	refused("unknown option -jx (tester --help lists them)");
	cr_assert(not(parse(NULL, "-3.5", NULL)));
	refused("unknown option -3.5 (tester --help lists them; put -- before a negative number)");
	cr_assert(not(parse(NULL, "--delay", "a\nb", NULL)));
	cr_assert(ne(ptr, strstr(error.message, "\"a?b\""), NULL));
}

Test(options, stronger_sources_win)
{
	const char *path =
	    write_file("; comment\n[other]\nnonsense = 1\n[tester]\nqueue = file ; inline\npriority = 1\njson = on\n");

	cr_assert(parse(path, NULL), "%s", error.message);
	cr_assert(eq(str, (char *)values.queue, "file"));
	cr_assert(eq(i64, values.priority, 1));
	cr_assert(values.json);
	setenv("TESTER_QUEUE", "environment", 1);
	setenv("TESTER_PRIORITY", "2", 1);
	cr_assert(parse(path, "--priority", "3", NULL), "%s", error.message);
	cr_assert(eq(str, (char *)values.queue, "environment"));
	cr_assert(eq(i64, values.priority, 3));
	setenv("TESTER_QUEUE", "", 1);
	cr_assert(parse(path, NULL));
	cr_assert(eq(str, (char *)values.queue, "file"));
	setenv("TESTER_CONFIG", path, 1);
	cr_assert(parse(NULL, "a", "--", "-b", NULL));
	cr_assert(eq(str, (char *)values.queue, "file"));
	cr_assert(eq(int, operands, 2));
	setenv("TESTER_CONFIG", "/nonexistent", 1);
	cr_assert(parse(path, NULL), "%s", error.message);
	setenv("TESTER_PRIORITY", "x", 1);
	cr_assert(not(parse(path, NULL)));
	refused("TESTER_PRIORITY: \"x\" is not a whole number; it takes a whole number from -10 to 10");
	unlink(path);
}

Test(options, a_bad_file_names_its_line)
{
	static char text[70000];
	char expected[512];
	static const struct {
		const char *text;
		const char *message;
	} cases[] = {
	    {"[tester]\n\nqueue = a\npriority = x\n",
	        "4: priority: \"x\" is not a whole number; it takes a whole number from -10 to 10"},
	    {"[tester]\nspeed = 5\n", "2: speed is not a setting of this section"},
	    {"[tester]\ndelay = 5s\n", "2: delay is not a setting of this section"},
	    {"[tester]\nqueue = a\n  priority = x\n",
	        "3: priority: \"x\" is not a whole number; it takes a whole number from -10 to 10"},
	    {"[tester]\nqueue\n", "2: neither [SECTION] nor NAME = VALUE: queue"},
	    {"[tester\nqueue = a\n", "1: a section without its ]"},
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		const char *path = write_file(cases[i].text);

		cr_assert(not(parse(path, NULL)), "case %zu", i);
		snprintf(expected, sizeof expected, "%s:%s", path, cases[i].message);
		refused(expected);
		unlink(path);
	}

	memset(text, 'x', sizeof text);
	memcpy(text, "[tester]\nqueue = ", 17);
	text[sizeof text - 1] = '\0';
	const char *path = write_file(text);
	cr_assert(not(parse(path, NULL)));
	snprintf(expected, sizeof expected, "%s:2: the line is too long or not UTF-8 text", path);
	refused(expected);
	unlink(path);
	cr_assert(not(parse("/nonexistent/reeve.ini", NULL)));
	refused("/nonexistent/reeve.ini: No such file or directory");
}

Test(options, help_comes_first)
{
	setenv("TESTER_PRIORITY", "nonsense", 1);
	cr_assert(parse(NULL, "--help", "--nonsense", NULL));
	cr_assert(eq(chr, wants, 'h'));
	cr_assert(parse(NULL, "-V", NULL));
	cr_assert(eq(chr, wants, 'V'));
	unsetenv("TESTER_PRIORITY");
	cr_assert(parse(NULL, "--queue", "--help", NULL));
	cr_assert(eq(chr, wants, 0));
	cr_assert(eq(str, (char *)values.queue, "--help"));
}

Test(options, shows_itself)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	options_help(&table, &shared_table, out);
	fclose(out);
	cr_assert(eq(int, memcmp(text, "Usage: tester [WORD]...\n\nTests.\n", 31), 0), "%s", text);
	cr_assert(ne(ptr, strstr(text, "  -p, --priority N          How urgent | how soon it runs. (default: 7;\n"), NULL),
	    "%s", text);
	cr_assert(ne(ptr, strstr(text, "\n                            TESTER_PRIORITY)\n"), NULL), "%s", text);
	cr_assert(ne(ptr, strstr(text, "      --manager VALUE       Whom to ask.\n"), NULL), "%s", text);
	cr_assert(ne(ptr, strstr(text, "  -h, --help                show this and exit\n"), NULL), "%s", text);
	cr_assert(ne(ptr, strstr(text, "\nEnds.\n"), NULL), "%s", text);
	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
		cr_assert(le(sz, strlen(line), 80), "%s", line);
	free(text);

	out = open_memstream(&text, &size);
	options_markdown(&table, out);
	fclose(out);
	cr_assert(ne(ptr, strstr(text, "| `--priority N` | `7` | How urgent \\| how soon it runs. (`TESTER_PRIORITY`) |\n"),
	              NULL),
	    "%s", text);
	free(text);
}

Test(options, reads_sizes)
{
	int64_t bytes;

	cr_assert(size_parse("512", &bytes) && bytes == 512);
	cr_assert(size_parse("0", &bytes) && bytes == 0);
	cr_assert(size_parse("64KiB", &bytes) && bytes == 65536);
	cr_assert(size_parse("1mib", &bytes) && bytes == 1048576);
	cr_assert(size_parse("3GiB", &bytes) && bytes == INT64_C(3221225472));
	static const char *const bad[] = {
	    "", "-1", "+1", "1K", "KiB", "1.5MiB", "1 MiB", "99999999999999999999", "9999999999TiB"};
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		cr_assert(not(size_parse(bad[i], &bytes)), "%s", bad[i]);
}

/* A choice; and options that fill in a message, with the messages inside. */

struct filled {
	struct option_message message;
	const char *by;
};

static const struct option_spec filled_specs[] = {
    OPT_CHOICE(0, "by", OPTION_AT(struct filled, by), "text|code|type", "How."),
    OPT_CHOICE('s', "status", OPTION_FIELD("status"), "STATUS", "Only these."),
    OPT_NAME('q', "queue", OPTION_FIELD("queue"), "NAME", "Its queue.", .default_value = "default"),
    OPT_INTEGER('n', "limit", OPTION_FIELD("limit"), 1, 100, "N", "How many."),
    OPT_SPAN(0, "older", OPTION_FIELD("filter.older_ms"), 0, 0, "Its age."),
    {0},
};
static const struct option_table filled_table = {"tester", "", "Tests.", NULL, filled_specs};

static bool fill(struct filled *filled, Reeve__V1__ListRequest *request, const char *argument)
{
	char *argv[] = {(char *)"tester", (char *)argument, NULL}, asked;
	int n_operands;

	reeve__v1__list_request__init(request);
	*filled = (struct filled){.message.message = &request->base};
	return options_parse(&filled_table, filled, NULL, NULL, NULL, NULL, 2, argv, &n_operands, &asked, &error);
}

Test(options, fill_in_a_message)
{
	Reeve__V1__ListRequest request;
	struct filled filled;

	cr_assert(fill(&filled, &request, "--status=dead"), "%s", error.message);
	cr_assert(eq(int, request.status, REEVE__V1__TASK_STATUS__TASK_STATUS_DEAD));
	cr_assert(eq(str, (char *)request.queue, "default"));
	cr_assert(option_is_set(&filled.message, "status"));
	cr_assert(not(option_is_set(&filled.message, "queue")), "a default does not count as set");
	cr_assert(fill(&filled, &request, "--older=90s"), "%s", error.message);
	cr_assert(request.filter && request.filter->older_ms == 90000);
	cr_assert(fill(&filled, &request, "-n7"), "%s", error.message);
	cr_assert(eq(u32, request.limit, 7));
}

Test(options, choices_and_names_are_checked)
{
	Reeve__V1__ListRequest request;
	struct filled filled;

	cr_assert(fill(&filled, &request, "--by=code"), "%s", error.message);
	cr_assert(eq(str, (char *)filled.by, "code"));
	cr_assert(not(fill(&filled, &request, "--by=cod")));
	cr_assert(eq(str, error.message, "--by: \"cod\" is invalid; it takes text, code or type"));
	cr_assert(not(fill(&filled, &request, "--status=unspecified")));
	cr_assert(eq(str, error.message,
	    "--status: \"unspecified\" is invalid; it takes queued, executing, failed, completed, dead or cancelled"));
	cr_assert(not(fill(&filled, &request, "--queue=")));
	cr_assert(eq(str, error.message, "--queue is empty"));
}
