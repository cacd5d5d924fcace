/*
 * What the subcommands of `reeve` share: the entries of their table, common options, and exit.
 *
 * To add a subcommand, write its function in a new file in this directory and add it to the table in commands.c.
 */
#ifndef REEVE_CLIENT_COMMAND_H
#define REEVE_CLIENT_COMMAND_H

#include "common/options.h"

#include <reeve/client.h>
#include <stdbool.h>
#include <stdint.h>

struct command {
	const char *name;
	/* Runs it. argv[0] is the subcommand's name; arguments that came before it on the command line follow it here.
	 * Returns the exit code (common/error.h). */
	int (*run)(int argc, char **argv);
	const char *summary; /* for the list of `reeve --help`; a phrase without a full stop */
};

/* The options that every subcommand takes in addition to its own. */
struct shared_options {
	const char *manager;
	int64_t connect_timeout_ms, call_timeout_ms;
	bool json;
};

extern const struct option_table shared_options_table;

/* Parses a subcommand's options and the shared ones. Returns true to continue, with argv[1] … argv[*operands] as the
 * operands. Returns false with *code set to exit: the help or the version was shown, or a usage error. */
bool command_options(const struct option_table *table, void *target, struct shared_options *shared, int argc,
    char **argv, int *operands, int *code);

/* Prints "reeve SUBCOMMAND: …" and how to get help on standard error; returns EXIT_USAGE. */
int command_usage(const struct option_table *table, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Prints why something failed and returns the exit code for it. */
int command_failed(const struct reeve_failure *failure);

/* Returns the exit code for a failure: unreachable (or refused for now), refused, or 128 + SIGINT for an interrupt. */
int command_exit_code(const struct reeve_failure *failure);

/* Sets whether commands report on standard error what they wait for. */
void command_notices(bool wanted);

/* Prints "reeve: …" on standard error, without control characters. */
void command_log(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Writes JSON to standard output; on a terminal without control characters. */
void command_write_json(const char *json);

/* Prints a result (its `wire`) as one line of JSON. */
void command_print_json(const void *wire);

/* Creates the client that the options request. Returns NULL with *code set after an error message. */
struct reeve_client *command_connect(const struct shared_options *shared, int *code);

/* As command_connect, for a command that changes something: it waits for a manager first, and from then on an interrupt
 * ends the client's calls. Pass the client to command_disconnect, which accepts NULL. */
struct reeve_client *command_connect_to_change(const struct shared_options *shared, int *code);
void command_disconnect(struct reeve_client *client);

/* As command_failed, for a change: if it was interrupted, the change may have been sent, and is not undone. */
int command_change_failed(const struct reeve_failure *failure);

/* Parses the operands argv[1 … count] as task ids; "-" stands for ids on standard input, separated by white space.
 * Returns NULL with *code set after an error message. The caller must free() the ids. */
int64_t *command_ids(const struct option_table *table, int count, char **argv, size_t *n_ids, int *code);

/* Returns the index of the first operand, which is a subcommand's name; 0 if there is none. Only shared options may
 * come before it, and some of those take their value from the next argument. */
int command_find_name(int argc, char **argv);

/* An action of a subcommand that has several: `list` of `reeve batch list`. */
struct command_word {
	const char *name;
	int (*run)(int argc, char **argv);
};

/* Runs the action that the arguments name, moving arguments before the name after it; returns the exit code. `things`:
 * what the subcommand is about, for the message if no action is named; `words` ends with an unnamed entry. */
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
