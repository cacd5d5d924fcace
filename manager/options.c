/* The options of reeve-manager. */
#include "manager/options.h"

#include "common/log.h"
#include "manager/store/store.h"

#include <ctype.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define AT(field) OPTION_AT(struct manager_options, field)

static const struct option_spec specs[] = {
    OPT_TEXT('d', "database", AT(database), "CONNINFO",
        "the PostgreSQL database, in libpq's format: \"host=… dbname=…\" or a postgresql:// URI",
        .environment = "REEVE_DATABASE", OPTION_IN_FILE),
    OPT_TEXT('l', "listen", AT(listen), "URL[,URL]",
        "addresses to listen on: tcp://host:port (port 0: a free one; of a host name its first address, which for localhost may be ::1), tls+tcp://host:port, or ipc:///path in a folder that only this user can write to",
        .default_value = "tcp://127.0.0.1:7171", .environment = "REEVE_LISTEN", OPTION_IN_FILE),
    OPT_TEXT(0, "tls-cert", AT(tls.certificate), "FILE",
        "PEM file of the certificate for tls+tcp:// addresses, with its chain", .environment = "REEVE_TLS_CERT",
        OPTION_IN_FILE),
    OPT_TEXT(0, "tls-key", AT(tls.key), "FILE", "PEM file of its key; if not set, the file of the certificate",
        .environment = "REEVE_TLS_KEY", OPTION_IN_FILE),
    OPT_TEXT(0, "tls-ca", AT(tls.ca), "FILE",
        "PEM file of the CA whose certificates callers on tls+tcp:// must have; if not set, they need none",
        .environment = "REEVE_TLS_CA", OPTION_IN_FILE),
    OPT_TEXT(0, "tls-crl", AT(tls.crl), "FILE", "PEM file of the revocation lists of that CA",
        .environment = "REEVE_TLS_CRL", OPTION_IN_FILE),
    OPT_TEXT(0, "socket-mode", AT(socket_mode_text), "MODE",
        "permissions of ipc socket files, in octal: 0600 lets only this user connect, 0660 also its group, 0666 all users",
        .default_value = "0600", OPTION_IN_FILE),
    OPT_CHOICE(0, "auth", AT(auth), "local|required",
        "local: callers on this machine without an access token may do everything; required: only this user and root on an ipc socket may",
        .default_value = "local", OPTION_IN_FILE),
    OPT_FLAG(0, "insecure", AT(insecure),
        "listen with tcp:// on addresses that other machines can reach although connections, with their access tokens, are not encrypted",
        OPTION_IN_FILE),
    OPT_TEXT(0, "admin-token-file", AT(admin_token_file), "FILE",
        "file for the first admin's access token, which a manager creates if callers need one; if not set, it is printed",
        OPTION_IN_FILE),
    OPT_FLAG(0, "create-admin-token", AT(create_admin_token),
        "create or replace the access token of the identity \"admin\", print it or write it to --admin-token-file, and exit"),
    OPT_TEXT(0, "http", AT(http), "URL[,URL]",
        "addresses for calls by HTTP: http://host:port, https://host:port (or tls+http://); if not set, none",
        .environment = "REEVE_HTTP", OPTION_IN_FILE),
    OPT_TEXT(0, "http-origins", AT(http_origins), "ORIGIN[,ORIGIN]",
        "web pages that may call by HTTP, by their origin, such as https://example.org; * for all; if not set, none",
        OPTION_IN_FILE),
    OPT_FLAG(0, "metrics-open", AT(metrics_open),
        "callers by HTTP may read /metrics without an access token; otherwise it needs the role reader",
        OPTION_IN_FILE),
    OPT_INTEGER(0, "metrics-routes", AT(metrics_routes), 0, 1000, "N",
        "how many pairs of queue and type have metrics of their own; the metrics of all others are one, named other",
        .default_value = "100", OPTION_IN_FILE),
    OPT_TEXT(0, "traces", AT(traces), "URL",
        "collector of OpenTelemetry that gets spans of tasks' lives, by OTLP over HTTP: http://host:4318, or with a path; if not set, none",
        .environment = "REEVE_TRACES", OPTION_IN_FILE),
    OPT_INTEGER(0, "trace-sample", AT(trace_sample), 0, 100, "PERCENT",
        "with --traces: for how many tasks without a trace context a trace begins; the others' trace contexts decide",
        .default_value = "1", OPTION_IN_FILE),
    OPT_TEXT(0, "config", AT(config), "FILE", "INI file; its section [manager] can set any of these options",
        .environment = "REEVE_MANAGER_CONFIG"),
    OPT_TEXT(0, "name", AT(name), "NAME", "its name in the audit and in answers to pings; if not set, host/pid",
        OPTION_IN_FILE),
    OPT_FLAG(0, "no-migrate", AT(no_migrate),
        "do not create or change the schema; refuse to start if it would have to change", OPTION_IN_FILE),
    OPT_SPAN(0, "lease", AT(lease_ms), 500, 600000, "time for which a worker counts as alive after a heartbeat",
        .default_value = "15s", OPTION_IN_FILE),
    OPT_SPAN(0, "heartbeat", AT(heartbeat_ms), 100, 240000,
        "interval between a worker's heartbeats; maximum 2/5 of the lease", .default_value = "4s", OPTION_IN_FILE),
    OPT_SPAN(0, "expiry-grace", AT(expiry_grace_ms), 500, 3600000,
        "time from an attempt's timeout until it is reclaimed; longer than the lease", .default_value = "30s",
        OPTION_IN_FILE),
    OPT_SPAN(0, "max-runtime", AT(max_runtime_ms), 1000, INT64_C(30) * 24 * 3600 * 1000,
        "how long extensions may let an attempt run, from its claim on; a longer timeout of its task counts as well",
        .default_value = "24h", OPTION_IN_FILE),
    OPT_SPAN(0, "fetch-wait", AT(fetch_wait_ms), 100, 60000,
        "maximum time that a manager keeps a Fetch open before an empty answer", .default_value = "15s",
        OPTION_IN_FILE),
    OPT_INTEGER(0, "history-days", AT(history_days), 1, 3650, "N",
        "days for which ended tasks are kept, unless their queue sets it", .default_value = "30", OPTION_IN_FILE),
    OPT_TEXT(0, "archive", AT(archive), "DIR",
        "directory for ended tasks: they are written there as JSON lines before they are deleted; for all managers of a database or none",
        OPTION_IN_FILE),
    OPT_INTEGER(0, "callback-tries", AT(callback_tries), 1, 100, "N",
        "maximum number of tries of an HTTP callback; twelve take about a day", .default_value = "12", OPTION_IN_FILE),
    OPT_SPAN(0, "callback-timeout", AT(callback_timeout_ms), 100, 600000, "timeout of one try, with its answer",
        .default_value = "10s", OPTION_IN_FILE),
    OPT_TEXT(0, "callback-hosts", AT(callback_hosts), "HOST[:PORT][,HOST[:PORT]]",
        "hosts that callbacks may go to, at any port or at this one: names, addresses, *.example.org for all names below it; if not set, any",
        OPTION_IN_FILE),
    OPT_FLAG(0, "callback-private", AT(callback_private),
        "callbacks may also go to loopback, link-local and private addresses", OPTION_IN_FILE),
    OPT_TEXT(0, "callback-ca", AT(callback_ca), "FILE",
        "PEM file of the certificates that callbacks and traces by https trust; if not set, the system's",
        OPTION_IN_FILE),
    OPT_SIZE(0, "max-details", AT(max_details), 1, 64 << 20, "maximum size of a task's details",
        .default_value = "1MiB", OPTION_IN_FILE),
    OPT_SIZE(0, "max-result", AT(max_result), 1, 64 << 20, "maximum size of a task's result", .default_value = "1MiB",
        OPTION_IN_FILE),
    OPT_SIZE(0, "max-message", AT(max_message), 65536, 64 << 20, "maximum size of a message; larger than the two above",
        .default_value = "8MiB", OPTION_IN_FILE),
    OPT_INTEGER(0, "ready-cache", AT(ready_cache), 100, 10000000, "N",
        "maximum number of waiting tasks in the ready cache", .default_value = "20000", OPTION_IN_FILE),
    OPT_INTEGER(0, "claim-batch", AT(claim_batch), 1, 10000, "N", "maximum number of tasks in one claim",
        .default_value = "1000", OPTION_IN_FILE),
    OPT_INTEGER(0, "max-routes", AT(max_routes), 1, 10000000, "N",
        "maximum number of pairs of queue and type in use; above it submits of new pairs are refused, except by SQL",
        .default_value = "100000", OPTION_IN_FILE),
    OPT_INTEGER(0, "max-calls", AT(max_calls), 10, 1000000, "N",
        "maximum number of open calls; above it calls are refused. Calls that do not wait have more: those that leases depend on and ordinary ones an eighth each, operators' a sixteenth",
        .default_value = "20000", OPTION_IN_FILE),
    OPT_INTEGER(0, "max-connections", AT(max_connections), 1, 1000000, "N",
        "maximum number of connections, less if the limit of open files is low; above it a new connection replaces the one that is idle longest, or one of an address that has more than half of all, or is refused",
        .default_value = "10000", OPTION_IN_FILE),
    OPT_INTEGER(0, "connection-share", AT(connection_share), 1, 100, "PERCENT",
        "maximum share of one connection in what others leave of --max-calls (at least 64 calls if others have none), of the memory for calls (64 times --max-message) and of --max-pending",
        .default_value = "12", OPTION_IN_FILE),
    OPT_INTEGER(0, "address-share", AT(address_share), 1, 100, "PERCENT",
        "maximum share of one address in what others leave of --max-calls (at least 64 calls if others have none) and of the memory for calls, and in --max-connections",
        .default_value = "100", OPTION_IN_FILE),
    OPT_SIZE(0, "max-pending", AT(pending_bytes), 1 << 20, INT64_C(1) << 40,
        "maximum memory of calls that wait for each of the database connections; above it calls are refused",
        .default_value = "256MiB", OPTION_IN_FILE),
    OPT_CHOICE(0, "log-level", AT(log_level), LOG_LEVELS, "the least urgent messages that it logs",
        .default_value = "info", .environment = "REEVE_LOG_LEVEL", OPTION_IN_FILE),
    OPT_CHOICE(0, "log-format", AT(log_format), LOG_FORMATS,
        "the format of its log: text, or fields as logfmt or as JSON, an object on each line", .default_value = "text",
        .environment = "REEVE_LOG_FORMAT", OPTION_IN_FILE),
    OPT_FLAG(0, "log-tasks", AT(log_tasks),
        "log each step of every task; of one queue's: reeve queue set NAME --verbose yes", OPTION_IN_FILE),
    OPT_FLAG(0, "print-schema", AT(print_schema),
        "print the SQL that creates the database objects, for psql and a later start with --no-migrate, and exit"),
    OPT_INTEGER(0, "schema-from", AT(schema_from), 0, 1000000, "N",
        "with --print-schema: the SQL that upgrades a database of schema version N; of the program's own version, the functions and views",
        .default_value = "0"),
    OPT_FLAG(0, "print-states", AT(print_states), "print the table of states and transitions, in Markdown, and exit"),
    OPT_FLAG(0, "print-options", AT(print_options), "print the table of these options, in Markdown, and exit"),
    OPT_FLAG(0, "print-man", AT(print_man), "print the man page, and exit"),
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
	if (!options_parse(&manager_option_table, o, NULL, NULL, "config", "manager", argc, argv, &operands, wants, error))
		return false;
	if (*wants || o->print_states || o->print_options || o->print_man || o->print_schema)
		return true;
	if (operands > 0)
		return error_set(error, STATUS(INVALID_ARGUMENT), "unexpected argument \"%s\"", argv[1]);
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
