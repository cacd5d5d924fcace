/* Writes --help, at a width of 80 columns, and the Markdown table of docs/config.md. */
#include "common/clock.h"
#include "common/options_internal.h"

#include <inttypes.h>
#include <string.h>

enum { HELP_COLUMNS = 80, HELP_INDENT = 28, USAGE_INDENT = 7 };

static const char *size_format(int64_t bytes, char *out, size_t size)
{
	static const char *const units[] = {"", "KiB", "MiB", "GiB", "TiB"};
	size_t unit = 0;

	while (bytes != 0 && bytes % 1024 == 0 && unit + 1 < sizeof units / sizeof *units) {
		bytes /= 1024;
		unit++;
	}
	snprintf(out, size, "%" PRId64 "%s", bytes, units[unit]);
	return out;
}

const char *option_number(const struct option_spec *spec, int64_t value, char *out, size_t size)
{
	switch (spec->type) {
	case OPTION_DURATION: return duration_format(value, out, size);
	case OPTION_SIZE: return size_format(value, out, size);
	case OPTION_TIME: return time_format(value, out, size);
	default: snprintf(out, size, "%" PRId64, value); return out;
	}
}

/* Writes words from the cursor's column on. Breaks lines at HELP_COLUMNS and indents the next ones by `indent`. */
static void write_wrapped(const char *text, int column, int indent, FILE *out)
{
	bool first = true;

	while (*text) {
		int length = (int)strcspn(text, " \n");

		if (!first && column + 1 + length > HELP_COLUMNS) {
			fprintf(out, "\n%*s", indent, "");
			column = indent;
			first = true;
		}
		fprintf(out, "%s%.*s", first ? "" : " ", length, text);
		column += length + !first;
		first = false;
		text += length;
		text += strspn(text, " \n");
	}
	fputc('\n', out);
}

void option_help(const struct option_spec *spec, char *out, size_t size)
{
	bool shows_default = spec->default_value && spec->type != OPTION_FLAG;

	snprintf(out, size, "%s%s%s%s%s%s", spec->help, shows_default || spec->environment ? " (" : "",
	    shows_default ? "default: " : "", shows_default ? spec->default_value : "",
	    shows_default && spec->environment ? "; " : "", spec->environment ? spec->environment : "");
	if (shows_default || spec->environment) {
		size_t used = strlen(out);

		snprintf(out + used, size - used, ")");
	}
}

static void write_option(const struct option_spec *spec, FILE *out)
{
	char help[1024];
	int column;

	if (!spec->help)
		return;
	if (spec->letter)
		column = fprintf(out, "  -%c, --%s", spec->letter, spec->name);
	else
		column = fprintf(out, "      --%s", spec->name);
	if (spec->type != OPTION_FLAG)
		column += fprintf(out, " %s", spec->argument ? spec->argument : "VALUE");
	if (column + 2 > HELP_INDENT) {
		fputc('\n', out);
		column = 0;
	}
	fprintf(out, "%*s", HELP_INDENT - column, "");
	option_help(spec, help, sizeof help);
	write_wrapped(help, HELP_INDENT, HELP_INDENT, out);
}

bool option_declared(const struct option_table *table, const char *name)
{
	for (const struct option_spec *spec = table->specs; spec && spec->name; spec++)
		if (!strcmp(spec->name, name))
			return true;
	return false;
}

static options_see *observer;
static void *observer_arg;

void options_observe(options_see *see, void *arg)
{
	observer = see;
	observer_arg = arg;
}

void options_help(const struct option_table *table, const struct option_table *extra, FILE *out)
{
	static const struct option_spec standard[] = {
	    {.name = "help", .type = OPTION_FLAG, .letter = 'h', .help = "show this and exit"},
	    {.name = "version", .type = OPTION_FLAG, .letter = 'V', .help = "show the version and exit"},
	};

	if (observer) {
		observer(table, extra, observer_arg);
		return;
	}
	int column = fprintf(out, "Usage: %s ", table->program);
	write_wrapped(table->usage, column, USAGE_INDENT, out);
	fputc('\n', out);
	write_wrapped(table->summary, 0, 0, out);
	fprintf(out, "\nOptions:\n");
	for (const struct option_spec *spec = table->specs; spec && spec->name; spec++)
		write_option(spec, out);
	for (const struct option_spec *spec = extra ? extra->specs : NULL; spec && spec->name; spec++)
		if (!option_declared(table, spec->name)) /* the table's own has precedence */
			write_option(spec, out);
	for (size_t i = 0; i < sizeof standard / sizeof *standard; i++)
		write_option(&standard[i], out);
	if (table->epilogue)
		fprintf(out, "\n%s\n", table->epilogue);
}

/* Writes a cell of a Markdown table. Escapes bars, which would end it. */
static void write_cell(const char *text, FILE *out)
{
	for (; *text; text++)
		fprintf(out, "%s%c", *text == '|' ? "\\" : "", *text);
}

void options_markdown(const struct option_table *table, FILE *out)
{
	fprintf(out, "| option | default | meaning |\n|---|---|---|\n");
	for (const struct option_spec *spec = table->specs; spec && spec->name; spec++) {
		bool valued = spec->type != OPTION_FLAG;
		const char *default_value = valued ? spec->default_value : NULL;

		if (!spec->help)
			continue;
		fprintf(out, "| `--%s", spec->name);
		if (valued) {
			fputc(' ', out);
			write_cell(spec->argument ? spec->argument : "VALUE", out);
		}
		fprintf(out, "` | %s%s%s | ", default_value ? "`" : "", default_value ? default_value : "",
		    default_value ? "`" : "");
		write_cell(spec->help, out);
		if (spec->environment)
			fprintf(out, " (`%s`)", spec->environment);
		fprintf(out, "%s |\n", spec->in_file ? "" : "; not in the file");
	}
}
