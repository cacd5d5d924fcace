/* `reeve man`: the man pages of all commands, from their tables of options. */
#include "client/cmd/command.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static const struct option_table man_table = {
    .program = "reeve man",
    .usage = "DIR",
    .summary = "Writes the man pages of reeve and all its commands into a directory.",
    .epilogue = "Example: reeve man /usr/local/share/man/man1",
};

struct page {
	const char *folder, *phrase;
	bool failed;
};

static void write_page(const struct option_table *table, const struct option_table *extra, void *arg)
{
	struct page *page = arg;
	char path[512];
	FILE *out;

	snprintf(path, sizeof path, "%s/%s.1", page->folder, table->program);
	for (char *c = path + strlen(page->folder) + 1; *c; c++)
		if (*c == ' ')
			*c = '-';
	out = fopen(path, "we");
	if (out)
		options_man(table, extra, page->phrase, out);
	if (!out || fclose(out) != 0) {
		command_log("cannot write %s: %s", path, strerror(errno));
		page->failed = true;
	}
}

int command_man(int argc, char **argv)
{
	struct shared_options shared = {0};
	struct page page = {0};
	int operands, code;

	if (!command_options(&man_table, NULL, &shared, argc, argv, &operands, &code))
		return code;
	if (operands != 1)
		return command_usage(&man_table, "give one directory");
	page.folder = argv[1];
	page.phrase = "submit tasks to Reeve, follow them and change them";
	command_tables(NULL, write_page, &page);
	for (const struct command *command = command_rows; command->verb && !page.failed; command++) {
		page.phrase = command->summary;
		if (strcmp(command->verb, "help") != 0)
			command_tables(command, write_page, &page);
	}
	return page.failed ? EXIT_REFUSED : EXIT_OK;
}
