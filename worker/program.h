/* The options of reeve-worker. */
#ifndef REEVE_WORKER_PROGRAM_H
#define REEVE_WORKER_PROGRAM_H

#include "common/log.h"
#include "common/options.h"

#include <reeve/worker.h>

struct program_options {
	const char *handlers; /* the handlers file */
	enum log_level level; /* of the log */
	struct reeve_worker_options worker;

	/* As read, before they become part of `worker`. */
	const char *config;
	const char *managers, *name, *queues, *types, *log_level;
	bool print_options, once, until_empty;
	bool check; /* the handlers file is to be checked, and no more */
	int64_t concurrency, prefetch, drain_timeout_ms, kill_grace_ms;
};

/* What the program takes: for --help and the documentation. */
extern const struct option_table program_options_table;

/* Reads them. True: the program ends here, with *code (help was asked for and given, or something is wrong and was
 * said on standard error). */
bool program_options_read(struct program_options *options, int argc, char **argv, int *code);

/* Reads the log level again, from all sources. False: *error says what is wrong with them by now. */
bool program_level_read(int argc, char *const *argv, enum log_level *level, struct reeve_error *error);

#endif
