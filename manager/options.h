/* The manager's options. */
#ifndef REEVE_MANAGER_OPTIONS_H
#define REEVE_MANAGER_OPTIONS_H

#include "common/options.h"
#include "common/rpc/tls.h"

#include <stdbool.h>
#include <sys/types.h>

struct manager_options {
	const char *database, *listen, *socket_mode_text, *config, *name, *log_level, *log_format, *auth, *admin_token_file;
	const char *http, *http_origins;
	bool metrics_open;
	const char *traces;
	int64_t trace_sample;
	int64_t metrics_routes;
	struct tls_files tls;
	bool insecure, create_admin_token, callback_private, no_migrate, log_tasks, print_states, print_options, print_man,
	    print_schema;
	int64_t schema_from;
	mode_t socket_mode; /* socket_mode_text, parsed */
	int64_t lease_ms, heartbeat_ms, expiry_grace_ms, fetch_wait_ms, max_runtime_ms;
	int64_t history_days;
	const char *archive;
	int64_t callback_tries, callback_timeout_ms;
	const char *callback_hosts, *callback_ca;
	int64_t max_details, max_result, max_message;
	int64_t ready_cache, claim_batch, max_routes, max_calls, max_connections, connection_share, address_share,
	    pending_bytes;
};

extern const struct option_table manager_option_table;

/* Reads the command line, environment and file, and checks options that depend on each other. Returns false with
 * *error. */
bool manager_options_read(
    struct manager_options *options, int argc, char **argv, char *wants, struct reeve_error *error);

/* Overwrites the database in the program's arguments if it has a password, since `ps` shows them to all users.
 * Afterwards `options` and argv point to a copy that is kept until exit. */
void manager_options_hide(struct manager_options *options, int argc, char **argv);

#endif
