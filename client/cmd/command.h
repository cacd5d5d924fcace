/*
 * What the subcommands of `reeve` share: the entry of their table, the options that all take, and how they end.
 *
 * To add a subcommand, write its function in a file beside this one and give it a line in the table of commands.c.
 */
#ifndef REEVE_CLIENT_COMMAND_H
#define REEVE_CLIENT_COMMAND_H

#include "common/options.h"

#include <reeve/client.h>
#include <stdbool.h>
#include <stdint.h>

struct command {
	const char *name;
	/* Runs it. argv[0] is the subcommand's name; what stood before it on the command line comes after it here.
	 * Returns the exit code (common/error.h). */
	int (*run)(int argc, char **argv);
	const char *summary; /* for the list of `reeve --help`; a phrase without a full stop */
};

/* The options that every subcommand takes beside its own. */
struct shared_options {
	const char *manager;
	int64_t connect_timeout_ms, call_timeout_ms;
	bool json;
};

extern const struct option_table shared_options_table;

/* Reads a subcommand's options and the shared ones. True: go on; argv[1] … argv[*operands] are the operands. False:
 * it ends here (help or the version was shown, or the usage was wrong and the user was told) with *code. */
bool command_options(const struct option_table *table, void *target, struct shared_options *shared, int argc,
    char **argv, int *operands, int *code);

/* Says "reeve SUBCOMMAND: …" and how to get help on standard error; returns EXIT_USAGE. */
int command_usage(const struct option_table *table, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Tells the user why something failed and returns the exit code for it. */
int command_failed(const struct reeve_failure *failure);

/* The exit code for a failure: unreachable (or refusing for now), refused, or 128 + SIGINT for an interrupt. */
int command_exit_code(const struct reeve_failure *failure);

/* Whether it is said on standard error what a command waits for, from now on. */
void command_notices(bool wanted);

/* Says "reeve: …" on standard error, without control characters. */
void command_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Writes a JSON text to standard output; on a terminal so that it cannot steer it. */
void command_write_json(const char *json);

/* Prints a result (its `wire`) as one line of JSON. */
void command_print_json(const void *wire);

/* Creates the client that the options ask for. NULL: the user was told, *code is set. */
struct reeve_client *command_connect(const struct shared_options *shared, int *code);

/* The same for what changes something: it has met a manager by then, and from then on an interrupt ends its calls. It is for
 * command_disconnect, which takes NULL, too. */
struct reeve_client *command_connect_to_change(const struct shared_options *shared, int *code);
void command_disconnect(struct reeve_client *client);

/* As command_failed, of a change: when it was interrupted, it may have been sent, and is not taken back. */
int command_change_failed(const struct reeve_failure *failure);

/* Reads the operands argv[1 … count] as task ids; a "-" among them stands for those on standard input, separated by
 * white space. NULL: the user was told, *code is set. free() it. */
int64_t *command_ids(const struct option_table *table, int count, char **argv, size_t *n_ids, int *code);

/* The index of the first operand, which is a subcommand's name; 0 if there is none. Only shared options may stand before it,
 * and some of those take their value from the next argument. */
int command_find_name(int argc, char **argv);

/* A word of a subcommand that has several: `list` of `reeve batch list`. */
struct command_word {
	const char *name;
	int (*run)(int argc, char **argv);
};

/* Runs the word that the arguments name, with those that stood before it behind it; returns the exit code. `things`: what the
 * subcommand is about, for the message if none is named; `words` ends with one without a name. */
int command_words(const struct option_table *table, const char *things, const struct command_word *words, int argc, char **argv);

/* Runs `reeve` with its arguments and returns the exit code. */
int command_main(int argc, char **argv);

/* The subcommands, by file. */
int command_submit(int argc, char **argv);
int command_wait(int argc, char **argv);
int command_show(int argc, char **argv);
int command_list(int argc, char **argv);
int command_audit(int argc, char **argv);
int command_cancel(int argc, char **argv);
int command_kill(int argc, char **argv);
int command_retry(int argc, char **argv);
int command_update(int argc, char **argv);
int command_queues(int argc, char **argv);
int command_queue(int argc, char **argv);
int command_workers(int argc, char **argv);
int command_worker(int argc, char **argv);
int command_scale(int argc, char **argv);
int command_fetch(int argc, char **argv);
int command_report(int argc, char **argv);
int command_extend(int argc, char **argv);
int command_stats(int argc, char **argv);
int command_errors(int argc, char **argv);
int command_check(int argc, char **argv);
int command_batch(int argc, char **argv);
int command_schedule(int argc, char **argv);
int command_pipeline(int argc, char **argv);
int command_metric(int argc, char **argv);
int command_dev(int argc, char **argv);
int command_batch_callbacks(int argc, char **argv);

#endif
