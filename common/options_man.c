/* Writes man pages: roff with the macros of man(7). */
#include "common/options_internal.h"

#include <ctype.h>
#include <string.h>

/* Writes a text whose lines may begin with a control character. */
static void put_text(const char *text, FILE *out)
{
	bool at_begin = true;

	for (; *text; text++) {
		if (at_begin && (*text == '.' || *text == '\''))
			fputs("\\&", out);
		if (*text == '\\')
			fputs("\\e", out);
		else if (*text == '-')
			fputs("\\-", out);
		else
			fputc(*text, out);
		at_begin = *text == '\n';
	}
}

static void put_option(const struct option_spec *spec, FILE *out)
{
	char help[1024];

	if (!spec->help)
		return;
	fputs(".TP\n", out);
	if (spec->letter)
		fprintf(out, "\\fB\\-%c\\fR, ", spec->letter);
	fputs("\\fB\\-\\-", out);
	put_text(spec->name, out);
	fputs("\\fR", out);
	if (spec->type != OPTION_FLAG) {
		fputs(" \\fI", out);
		put_text(spec->argument ? spec->argument : "VALUE", out);
		fputs("\\fR", out);
	}
	fputc('\n', out);
	option_help(spec, help, sizeof help);
	put_text(help, out);
	fputc('\n', out);
}

static void put_options(const struct option_table *table, const struct option_table *except, FILE *out)
{
	for (const struct option_spec *spec = table ? table->specs : NULL; spec && spec->name; spec++)
		if (!except || !option_declared(except, spec->name))
			put_option(spec, out);
}

static void put_title(const struct option_table *table, FILE *out)
{
	for (const char *c = table->program; *c; c++)
		fputc(*c == ' ' ? '-' : toupper((unsigned char)*c), out);
}

void options_man(const struct option_table *table, const struct option_table *extra, const char *phrase, FILE *out)
{
	fputs(".TH ", out);
	put_title(table, out);
	fprintf(out, " 1 \"\" \"Reeve %s\" \"Reeve\"\n.SH NAME\n", REEVE_VERSION);
	for (const char *c = table->program; *c; c++)
		fputs(*c == ' ' || *c == '-' ? "\\-" : (char[]){*c, '\0'}, out);
	fputs(" \\- ", out);
	put_text(phrase, out);
	fputs("\n.SH SYNOPSIS\n\\fB", out);
	put_text(table->program, out);
	fputs("\\fR ", out);
	put_text(table->usage, out);
	fputs("\n.SH DESCRIPTION\n", out);
	put_text(table->summary, out);
	fputs("\n.SH OPTIONS\n", out);
	put_options(table, NULL, out);
	put_options(extra, table, out);
	fputs(".TP\n\\fB\\-h\\fR, \\fB\\-\\-help\\fR\nshow the help and exit\n"
	      ".TP\n\\fB\\-V\\fR, \\fB\\-\\-version\\fR\nshow the version and exit\n",
	    out);
	if (table->epilogue) {
		fputs(".SH NOTES\n.nf\n", out);
		put_text(table->epilogue, out);
		fputs("\n.fi\n", out);
	}
}
