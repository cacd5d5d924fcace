/* The options of reeve-worker. */
#ifndef REEVE_WORKER_PROGRAM_H
#define REEVE_WORKER_PROGRAM_H

#include "common/log.h"
#include "common/options.h"
#include "common/rpc/tls.h"

#include <reeve/worker.h>

struct program_options {
	const char *handlers; /* path of the handlers file */
	enum log_level level; /* of the log */
	struct reeve_worker_options worker;

	/* As parsed, before they are copied to `worker`. */
	const char *config;
	const char *managers, *name, *queues, *types, *log_level, *log_format, *token_file, *result_store;
	struct tls_files tls;
	bool print_options, print_man, once, until_empty, wait_retries;
	bool check; /* check the options and the handlers file, then exit */
	int64_t concurrency, prefetch, drain_timeout_ms, kill_grace_ms, manager_timeout_ms;
};

/* The options of the program, also for --help and the documentation. */
extern const struct option_table program_options_table;

/* Parses the options. True: the program must exit with *code, because it has printed what the options requested, or has
 * reported an error on standard error. */
bool program_options_read(struct program_options *options, int argc, char **argv, int *code);

/* Reads the log level again, from all sources. False: *error has the reason. */
bool program_level_read(int argc, char *const *argv, enum log_level *level, struct reeve_error *error);

#endif
