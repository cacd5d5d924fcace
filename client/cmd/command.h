/*
 * What the commands of `reeve` share: their table, common options, and exit.
 *
 * To add a command, write its function in the file of its noun and add a row to the table in command_table.h.
 */
#ifndef REEVE_CLIENT_COMMAND_H
#define REEVE_CLIENT_COMMAND_H

#include "client/cmd/command_table.h"
#include "common/options.h"
#include "common/rpc/tls.h"

#include <jansson.h>
#include <reeve/client.h>
#include <stdbool.h>
#include <stdint.h>

/* Shorter names of the contract's values. */
#define TASK(status) REEVE__V1__TASK_STATUS__TASK_STATUS_##status

struct call;

struct command {
	const char *noun;
	const char *verb;
	/* Runs it. argv[0] is the verb; arguments that came before it on the command line follow it here. Returns the exit
	 * code (common/error.h). */
	int (*run)(int argc, char **argv);
	const struct call *call; /* instead, for a command that makes one call */
	const char *summary;     /* for the lists of --help; a phrase without a full stop */
};

/* The value of a numeric option that is not set. */
#define NOT_GIVEN INT64_MIN

/* The options that every command takes in addition to its own. */
struct shared_options {
	const char *manager, *token_file;
	struct tls_files tls;
	int64_t connect_timeout_ms, call_timeout_ms;
	bool json;
	const char *color;
};

extern const struct option_table shared_options_table;

/* Parses a command's options and the shared ones. Returns true to continue, with argv[1] … argv[*operands] as the
 * operands. Returns false with *code set to exit: the help or the version was shown, or a usage error. */
bool command_options(const struct option_table *table, void *target, struct shared_options *shared, int argc,
    char **argv, int *operands, int *code);

/* As command_options, for a command without operands. */
bool command_only_options(
    const struct option_table *table, void *target, struct shared_options *shared, int argc, char **argv, int *code);

/* As command_options, for a command with one operand: the name of a `noun`, such as "queue". Returns the name; NULL
 * with *code set to exit. */
const char *command_named(const struct option_table *table, void *target, struct shared_options *shared,
    const char *noun, int argc, char **argv, int *code);

/* Returns the only one of these operands, as command_named does. */
const char *command_operand(const struct option_table *table, const char *noun, int operands, char **argv, int *code);

/* Prints "reeve COMMAND: …" and how to get help on standard error; returns EXIT_USAGE. */
int command_usage(const struct option_table *table, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Prints why something failed and returns the exit code for it. If the message begins with the path of a field that an
 * option of the command sets ("filter.queue is …"), the option takes its place ("--queue is …"). */
int command_failed(const struct reeve_failure *failure);

/* Returns the exit code for a failure: unreachable (or refused for now), refused, or 128 + SIGINT for an interrupt. */
int command_exit_code(const struct reeve_failure *failure);

/* Sets whether commands report on standard error what they wait for. */
void command_notices(bool wanted);

/* Prints "reeve: …" on standard error, without control characters. */
void command_log(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Prints the warning of an answer that has one. */
void command_warn(const void *answer);

/* Writes JSON to standard output; on a terminal without control characters. */
void command_write_json(const char *json);

/* Reads standard input up to somewhat more than `limit` bytes (0: 64 MiB); `what` is its name in messages. Returns NULL
 * with *code set after an error message. The caller must free() it. */
char *command_read_input(const char *what, size_t limit, int *code);

/* Reads a result from standard input, any bytes, and returns the text that stands for it. Otherwise like
 * command_read_input. */
char *command_read_result(int *code);

/* Writes a message as JSON, or prints it as one line. */
void command_write_message(const void *message);
void command_print_json(const void *message);

/* Prints a JSON object as one line, and releases it. */
void command_print_object(json_t *object);

/* Parses a whole number from 1. */
bool command_number(const char *text, int64_t *number);

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

/* All commands; the last row has no verb. */
extern const struct command command_rows[];

/* Returns `reeve NOUN VERB`, or `reeve VERB` if the noun is NULL; NULL if there is none. */
const struct command *command_find(const char *noun, const char *verb);

/* Returns whether it is a noun. */
bool command_is_noun(const char *name);

/* Passes all nouns, with what they are about. */
void command_nouns(void (*put)(void *arg, const char *noun, const char *about), void *arg);

/* Passes the tables of a command's options; NULL: those of `reeve` itself. */
void command_tables(const struct command *command, options_see *see, void *arg);

/* Runs `reeve` with its arguments and returns the exit code. */
int command_main(int argc, char **argv);

#define DECLARE_COMMAND(noun_, verb_, run_, summary_) int run_(int argc, char **argv);
#define DECLARE_CALL(noun_, verb_, call_, summary_) extern const struct call call_;
COMMANDS(DECLARE_COMMAND, DECLARE_CALL)
#undef DECLARE_COMMAND
#undef DECLARE_CALL

#endif
