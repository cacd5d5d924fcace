/* The options of reeve-manager. */
#include "manager/options.h"

#include "manager/store/store.h"

#include <ctype.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define AT(field)                                                                                                      \
	{                                                                                                                  \
		.offset = offsetof(struct manager_options, field)                                                              \
	}

static const struct option_spec specs[] = {
    {"database", OPTION_TEXT, AT(database), NULL, 0, 0, "REEVE_DATABASE", "CONNINFO",
        "the PostgreSQL database, in libpq's format: \"host=… dbname=…\" or a postgresql:// URI", 'd', true},
    {"listen", OPTION_TEXT, AT(listen), "tcp://127.0.0.1:7171", 0, 0, "REEVE_LISTEN", "URL[,URL]",
        "addresses to listen on: tcp://host:port (port 0: a free one; of a host name its first address, which for "
        "localhost may be ::1) or ipc:///path in a folder that only this user can write to",
        'l', true},
    {"socket-mode", OPTION_TEXT, AT(socket_mode_text), "0600", 0, 0, NULL, "MODE",
        "permissions of ipc socket files, in octal: 0600 lets only this user connect, 0660 also its group, 0666 all users",
        0, true},
    {"config", OPTION_TEXT, AT(config), NULL, 0, 0, "REEVE_MANAGER_CONFIG", "FILE",
        "INI file; its section [manager] can set any of these options", 'c', false},
    {"name", OPTION_TEXT, AT(name), NULL, 0, 0, NULL, "NAME",
        "its name in the audit and in answers to pings; if not set, host/pid", 0, true},
    {"no-migrate", OPTION_FLAG, AT(no_migrate), NULL, 0, 0, NULL, NULL,
        "do not create or change the schema; refuse to start if it would have to change", 0, true},
    {"lease", OPTION_DURATION, AT(lease_ms), "15s", 500, 600000, NULL, "D",
        "time for which a worker counts as alive after a heartbeat", 0, true},
    {"heartbeat", OPTION_DURATION, AT(heartbeat_ms), "4s", 100, 240000, NULL, "D",
        "interval between a worker's heartbeats; maximum 2/5 of the lease", 0, true},
    {"expiry-grace", OPTION_DURATION, AT(expiry_grace_ms), "30s", 500, 3600000, NULL, "D",
        "time from an attempt's timeout until it is reclaimed; longer than the lease", 0, true},
    {"max-runtime", OPTION_DURATION, AT(max_runtime_ms), "24h", 1000, INT64_C(30) * 24 * 3600 * 1000, NULL, "D",
        "how long extensions may let an attempt run, from its claim on; a longer timeout of its task counts as well", 0,
        true},
    {"fetch-wait", OPTION_DURATION, AT(fetch_wait_ms), "15s", 100, 60000, NULL, "D",
        "maximum time that a manager keeps a Fetch open before an empty answer", 0, true},
    {"history-days", OPTION_INTEGER, AT(history_days), "30", 1, 3650, NULL, "N",
        "days for which finished tasks are kept, unless their queue sets it", 0, true},
    {"archive", OPTION_TEXT, AT(archive), NULL, 0, 0, NULL, "DIR",
        "directory for finished tasks: they are written there as JSON lines before they are deleted; for all managers of a "
        "database or none",
        0, true},
    {"callback-attempts", OPTION_INTEGER, AT(callback_attempts), "12", 1, 100, NULL, "N",
        "maximum number of tries of an HTTP callback; twelve take about a day", 0, true},
    {"callback-timeout", OPTION_DURATION, AT(callback_timeout_ms), "10s", 100, 600000, NULL, "D",
        "timeout of one try, with its answer", 0, true},
    {"callback-hosts", OPTION_TEXT, AT(callback_hosts), NULL, 0, 0, NULL, "HOST[,HOST]",
        "hosts that callbacks may go to: names, addresses, *.example.org for all names below it; if not set, any", 0,
        true},
    {"callback-ca", OPTION_TEXT, AT(callback_ca), NULL, 0, 0, NULL, "FILE",
        "PEM file of the certificates that https callbacks trust; if not set, the system's", 0, true},
    {"max-details", OPTION_SIZE, AT(max_details), "1MiB", 1, 64 << 20, NULL, "SIZE", "maximum size of a task's details",
        0, true},
    {"max-result", OPTION_SIZE, AT(max_result), "1MiB", 1, 64 << 20, NULL, "SIZE", "maximum size of a task's result", 0,
        true},
    {"max-message", OPTION_SIZE, AT(max_message), "8MiB", 65536, 64 << 20, NULL, "SIZE",
        "maximum size of a message; larger than the two above", 0, true},
    {"window", OPTION_INTEGER, AT(window), "20000", 100, 10000000, NULL, "N",
        "maximum number of waiting tasks in the ready cache", 0, true},
    {"claim-batch", OPTION_INTEGER, AT(claim_batch), "1000", 1, 10000, NULL, "N",
        "maximum number of tasks in one claim", 0, true},
    {"max-routes", OPTION_INTEGER, AT(max_routes), "100000", 1, 10000000, NULL, "N",
        "maximum number of pairs of queue and type in use; above it submits of new pairs are refused, except by SQL", 0,
        true},
    {"max-calls", OPTION_INTEGER, AT(max_calls), "20000", 10, 1000000, NULL, "N",
        "maximum number of open calls; above it calls are refused. Calls that do not wait have more: those that leases depend on "
        "and ordinary ones an eighth each, operators' a sixteenth",
        0, true},
    {"max-connections", OPTION_INTEGER, AT(max_connections), "10000", 1, 1000000, NULL, "N",
        "maximum number of connections, less if the limit of open files is low; above it a new connection replaces the one "
        "that is idle longest, or one of an address that has more than half of all, or is refused",
        0, true},
    {"connection-share", OPTION_INTEGER, AT(connection_share), "12", 1, 100, NULL, "PERCENT",
        "maximum share of one connection in what others leave of --max-calls (at least 64 calls if others have none), of the memory for "
        "calls (64 times --max-message) and of --max-pending",
        0, true},
    {"address-share", OPTION_INTEGER, AT(address_share), "100", 1, 100, NULL, "PERCENT",
        "maximum share of one address in what others leave of --max-calls (at least 64 calls if others have none) and of the memory for "
        "calls, and in --max-connections",
        0, true},
    {"max-pending", OPTION_SIZE, AT(pending_bytes), "256MiB", 1 << 20, INT64_C(1) << 40, NULL, "SIZE",
        "maximum memory of calls that wait for each of the database connections; above it calls are refused", 0, true},
    {"log-level", OPTION_TEXT, AT(log_level), "info", 0, 0, "REEVE_LOG_LEVEL", "LEVEL", "error, warn, info or debug", 0,
        true},
    {"log-tasks", OPTION_FLAG, AT(log_tasks), NULL, 0, 0, NULL, NULL,
        "log each step of every task; of one queue's: reeve queue set NAME --verbose yes", 0, true},
    {"print-schema", OPTION_FLAG, AT(print_schema), NULL, 0, 0, NULL, NULL,
        "print the SQL that creates the database objects, for psql and a later start with --no-migrate, and exit", 0,
        false},
    {"schema-from", OPTION_INTEGER, AT(schema_from), "0", 0, 1000000, NULL, "N",
        "with --print-schema: the SQL that upgrades a database of schema version N; of the program's own version, the functions "
        "and views",
        0, false},
    {"print-states", OPTION_FLAG, AT(print_states), NULL, 0, 0, NULL, NULL,
        "print the table of states and transitions, in Markdown, and exit", 0, false},
    {"print-options", OPTION_FLAG, AT(print_options), NULL, 0, 0, NULL, NULL,
        "print the table of these options, in Markdown, and exit", 0, false},
    {0},
};

const struct option_table manager_option_table = {
    .program = "reeve-manager",
    .usage = "--database CONNINFO [--listen URL[,URL]] [OPTION...]",
    .summary =
        "Keeps Reeve's tasks in PostgreSQL, assigns them to workers and answers calls about them. Any number of managers can "
        "share a database; all are equal.",
    .epilogue = "Exit codes: 0 stopped by a signal, 1 failed (an address in use), 2 wrong options,\n"
                "3 no database reachable, 4 the database's schema, version or rights are unsuitable.",
    .specs = specs,
};

/* Parses permissions in octal, which must let the owner read and write. Returns false with *error if they are
 * invalid. */
static bool read_mode(const char *text, mode_t *mode, struct reeve_error *error)
{
	char *end;
	unsigned long value = strtoul(text, &end, 8);

	*mode = (mode_t)value;
	return (isdigit((unsigned char)*text) && !*end && value <= 0777 && (value & 0600) == 0600) ||
	    error_set(error, STATUS(INVALID_ARGUMENT),
	        "--socket-mode takes permissions in octal, from 0600 to 0777, not \"%s\"", text);
}

bool manager_options_read(struct manager_options *o, int argc, char **argv, char *wants, struct reeve_error *error)
{
	int operands;
	/* Parse once to find --config, then again with the file. */
	if (!options_parse(&manager_option_table, o, NULL, NULL, NULL, "manager", argc, argv, &operands, wants, error))
		return false;
	if (*wants || o->print_states || o->print_options || o->print_schema)
		return true;
	if (operands > 0)
		return error_set(error, STATUS(INVALID_ARGUMENT), "unexpected argument \"%s\"", argv[1]);
	if (o->config &&
	    !options_parse(&manager_option_table, o, NULL, NULL, o->config, "manager", argc, argv, &operands, wants, error))
		return false;
	if (!o->database || !*o->database)
		return error_set(error, STATUS(INVALID_ARGUMENT),
		    "--database is missing: say which PostgreSQL database, as in --database \"host=/run/postgresql dbname=reeve\"");
	if (!store_check_conninfo(o->database, error) || !read_mode(o->socket_mode_text, &o->socket_mode, error))
		return false;
	if (o->heartbeat_ms * 5 > o->lease_ms * 2)
		return error_set(error, STATUS(INVALID_ARGUMENT),
		    "--heartbeat (%lld ms) must be at most 2/5 of --lease (%lld ms), so that one may be lost",
		    (long long)o->heartbeat_ms, (long long)o->lease_ms);
	if (o->expiry_grace_ms <= o->lease_ms)
		return error_set(error, STATUS(INVALID_ARGUMENT),
		    "--expiry-grace (%lld ms) must be longer than --lease (%lld ms)", (long long)o->expiry_grace_ms,
		    (long long)o->lease_ms);
	if (o->max_message < o->max_details + 65536 || o->max_message < o->max_result + 65536)
		return error_set(error, STATUS(INVALID_ARGUMENT),
		    "--max-message must be at least 64KiB more than --max-details and --max-result");
	if (o->callback_ca && access(o->callback_ca, R_OK) != 0)
		return error_set(error, STATUS(INVALID_ARGUMENT), "--callback-ca %s: %s", o->callback_ca, strerror(errno));
	return true;
}

void manager_options_hide(struct manager_options *o, int argc, char **argv)
{
	size_t length = strlen(o->database);

	if (!store_has_password(o->database))
		return;
	for (int i = 1; i < argc; i++) {
		char *shown = argv[i];
		size_t before = strlen(shown) - length;

		if (strlen(shown) < length || strcmp(shown + before, o->database) != 0)
			continue;
		argv[i] = mem_strdup(shown); /* SIGHUP reads it again */
		o->database = argv[i] + before;
		memset(shown + before, '*', length);
	}
}
