/* Shared options, task ids as operands, and error messages. */
#include "client/cmd/command.h"
#include "common/mem.h"
#include "common/result_text.h"

#include "client/cmd/fields.h"
#include "client/cmd/interrupts.h"
#include "client/cmd/terminal.h"

#include <ctype.h>
#include <errno.h>
#include <jansson.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { INTERRUPTED = 128 + SIGINT, INPUT_MAX = 64 * 1024 * 1024 };

static const struct option_spec shared_specs[] = {
    OPT_TEXT(0, "manager", OPTION_AT(struct shared_options, manager), "URL[,URL]", "addresses of the managers",
        .default_value = "tcp://127.0.0.1:7171", .environment = "REEVE_MANAGER"),
    OPT_TEXT(0, "access-token-file", OPTION_AT(struct shared_options, token_file), "FILE",
        "file with the access token; if not set, $REEVE_ACCESS_TOKEN has the token, or $REEVE_ACCESS_TOKEN_FILE names the file"),
    OPT_TEXT(0, "tls-cert", OPTION_AT(struct shared_options, tls.certificate), "FILE",
        "PEM file of a certificate for tls+tcp:// managers, with its chain", .environment = "REEVE_TLS_CERT"),
    OPT_TEXT(0, "tls-key", OPTION_AT(struct shared_options, tls.key), "FILE",
        "PEM file of its key; if not set, the file of the certificate", .environment = "REEVE_TLS_KEY"),
    OPT_TEXT(0, "tls-ca", OPTION_AT(struct shared_options, tls.ca), "FILE",
        "PEM file of the CA that must have issued the managers' certificates; if not set, the system's CAs",
        .environment = "REEVE_TLS_CA"),
    OPT_TEXT(0, "tls-crl", OPTION_AT(struct shared_options, tls.crl), "FILE",
        "PEM file of the revocation lists of that CA", .environment = "REEVE_TLS_CRL"),
    OPT_SPAN(0, "connect-timeout", OPTION_AT(struct shared_options, connect_timeout_ms), 1, 24 * 3600 * 1000,
        "timeout for finding a manager", .default_value = "5s"),
    OPT_SPAN(0, "call-timeout", OPTION_AT(struct shared_options, call_timeout_ms), 1, 24 * 3600 * 1000,
        "timeout of each call once a manager is found", .default_value = "30s"),
    OPT_FLAG(0, "json", OPTION_AT(struct shared_options, json), "write one JSON object per line"),
    OPT_CHOICE(0, "color", OPTION_AT(struct shared_options, color), "auto|always|never",
        "colors in tables; auto: on a terminal, unless NO_COLOR is set", .default_value = "auto"),
    {0},
};

const struct option_table shared_options_table = {
    .program = "reeve",
    .usage = "[OPTION]... COMMAND [ARGUMENT]...",
    .summary = "Submits tasks to Reeve, follows them and changes them.",
    .specs = shared_specs,
};

static const struct option_table *running; /* the options of the command; NULL: not parsed yet */

bool command_options(const struct option_table *table, void *target, struct shared_options *shared, int argc,
    char **argv, int *operands, int *code)
{
	struct reeve_error error = {0};
	char wants;

	running = table;
	if (!options_parse(
	        table, target, &shared_options_table, shared, NULL, NULL, argc, argv, operands, &wants, &error)) {
		*code = command_usage(table, "%s", error.message);
		return false;
	}
	if (!wants)
		terminal_colour_set(shared->color);
	if (wants == 'h')
		options_help(table, &shared_options_table, stdout);
	else if (wants == 'V')
		printf("reeve %s\n", REEVE_VERSION);
	*code = EXIT_OK;
	return !wants;
}

bool command_only_options(
    const struct option_table *table, void *target, struct shared_options *shared, int argc, char **argv, int *code)
{
	int operands;

	if (!command_options(table, target, shared, argc, argv, &operands, code))
		return false;
	if (operands > 0)
		*code = command_usage(table, "unexpected argument \"%s\"", argv[1]);
	return operands == 0;
}

const char *command_operand(const struct option_table *table, const char *noun, int operands, char **argv, int *code)
{
	if (operands == 0)
		*code = command_usage(table, "the %s's name is missing; `reeve %s list` lists the names", noun, noun);
	else if (operands > 1)
		*code = command_usage(table, "unexpected argument \"%s\": give one %s", argv[2], noun);
	else if (!*argv[1])
		*code = command_usage(table, "the %s's name is empty", noun);
	else
		return argv[1];
	return NULL;
}

const char *command_named(const struct option_table *table, void *target, struct shared_options *shared,
    const char *noun, int argc, char **argv, int *code)
{
	int operands;

	if (!command_options(table, target, shared, argc, argv, &operands, code))
		return NULL;
	return command_operand(table, noun, operands, argv, code);
}

int command_usage(const struct option_table *table, const char *format, ...)
{
	char text[1024];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof text, format, arguments);
	va_end(arguments);
	fprintf(stderr, "%s: ", table->program);
	terminal_write_clean(stderr, text);
	fprintf(stderr, "\nUsage: %s %s\n", table->program, table->usage);
	return EXIT_USAGE;
}

void command_log(const char *format, ...)
{
	char text[1024];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof text, format, arguments);
	va_end(arguments);
	fputs("reeve: ", stderr);
	terminal_write_clean(stderr, text);
	fputc('\n', stderr);
}

void command_warn(const void *answer)
{
	const ProtobufCMessageDescriptor *descriptor = ((const ProtobufCMessage *)answer)->descriptor;
	const ProtobufCFieldDescriptor *field;

	if (!protobuf_c_message_descriptor_get_field_by_name(descriptor, "warning"))
		return;
	const char *warning = *(const char **)fields_at(answer, "warning", &field);
	if (*warning)
		command_log("warning: %s", warning);
}

int command_exit_code(const struct reeve_failure *failure)
{
	switch (failure->code) {
	case REEVE_UNAVAILABLE:
	case REEVE_DEADLINE_EXCEEDED:
	case REEVE_RESOURCE_EXHAUSTED:
	case REEVE_ABORTED: return EXIT_UNREACHABLE;
	case REEVE_CANCELLED: return INTERRUPTED;
	default: return EXIT_REFUSED;
	}
}

/* True if two paths lead to the same field, one of them through more messages: "filter.queue" and "queue". */
static bool same_field(const char *a, size_t a_length, const char *b, size_t b_length)
{
	if (a_length < b_length)
		return same_field(b, b_length, a, a_length);
	return memcmp(a + a_length - b_length, b, b_length) == 0 &&
	    (a_length == b_length || a[a_length - b_length - 1] == '.');
}

/* Returns the name of the option for a field; NULL: no option sets it. */
static const char *option_of(const char *path, size_t length)
{
	const struct option_spec *spec = running && length ? running->specs : NULL;

	for (; spec && spec->name; spec++)
		if (spec->place.field && same_field(path, length, spec->place.field, strlen(spec->place.field)))
			return spec->name;
	return NULL;
}

int command_failed(const struct reeve_failure *failure)
{
	const char *rest = failure->message + strspn(failure->message, "abcdefghijklmnopqrstuvwxyz0123456789_.");
	const char *option =
	    *rest == ' ' || *rest == ':' ? option_of(failure->message, (size_t)(rest - failure->message)) : NULL;

	if (option)
		command_log("--%s%s", option, rest);
	else
		command_log("%s", failure->message);
	return command_exit_code(failure);
}

/* Reports on a terminal that no manager answers, or that one answers again. */
static void report_absence(void *arg, bool back)
{
	const struct shared_options *shared = arg;

	fputs("\r\033[K", stderr); /* erase a progress bar */
	if (back)
		command_log("a manager answers again");
	else
		command_log("no manager answers at %s; still trying", shared->manager);
}

static void report_refused(void *arg, const char *message)
{
	(void)arg;
	fputs("\r\033[K", stderr);
	command_log("the manager refuses for now: %s; still trying", message);
}

static bool notices = true;

void command_notices(bool wanted)
{
	notices = wanted;
}

/* Also in scripts: half a minute without output looks like a command that hangs. */
static void report_waiting(void *arg, const char *message)
{
	(void)arg;
	if (terminal_columns(stderr) > 0)
		fputs("\r\033[K", stderr);
	command_log("waiting for a manager that can answer: %s", message);
}

void command_write_json(const char *json)
{
	if (terminal_columns(stdout))
		terminal_write_json(stdout, json);
	else
		fputs(json, stdout);
}

void command_write_message(const void *message)
{
	char *json = reeve_json(message);

	command_write_json(json);
	free(json);
}

/* Reads standard input, with a NUL behind it. More than the limit is read; then the manager or the client's check
 * refuses it as too long. */
static char *read_input(size_t limit, size_t *length, int *code)
{
	size_t capacity = 64 * 1024;
	char *text = mem_malloc(capacity + 1);

	*length = 0;
	while (*length <= limit) {
		size_t more = fread(text + *length, 1, capacity - *length, stdin);

		*length += more;
		if (more == 0)
			break;
		if (*length == capacity)
			text = mem_realloc(text, (capacity *= 2) + 1);
	}
	text[*length] = '\0';
	if (!ferror(stdin))
		return text;
	command_log("standard input cannot be read");
	*code = EXIT_USAGE;
	free(text);
	return NULL;
}

char *command_read_input(const char *what, size_t limit, int *code)
{
	size_t length;
	char *text = read_input(limit ? limit : INPUT_MAX, &length, code);

	if (!text || strlen(text) == length)
		return text;
	command_log("%s holds a NUL byte", what);
	*code = EXIT_REFUSED;
	free(text);
	return NULL;
}

char *command_read_result(int *code)
{
	size_t length;
	char *result = read_input(INPUT_MAX, &length, code), *text = result ? result_encode(result, length) : NULL;

	if (!text)
		return result;
	free(result);
	return text;
}

void command_print_json(const void *message)
{
	command_write_message(message);
	putchar('\n');
}

void command_print_object(json_t *object)
{
	char *text = json_dumps(object, JSON_COMPACT);

	mem_check(text != NULL);
	command_write_json(text);
	putchar('\n');
	free(text);
	json_decref(object);
}

struct reeve_client *command_connect(const struct shared_options *shared, int *code)
{
	bool watched = notices && terminal_columns(stderr) > 0;
	struct reeve_client_options options = {
	    .managers = shared->manager,
	    .token_file = shared->token_file,
	    .tls_cert = shared->tls.certificate,
	    .tls_key = shared->tls.key,
	    .tls_ca = shared->tls.ca,
	    .tls_crl = shared->tls.crl,
	    .connect_timeout_ms = shared->connect_timeout_ms,
	    .call_timeout_ms = shared->call_timeout_ms,
	    .absent = watched ? report_absence : NULL,
	    .refused = watched ? report_refused : NULL,
	    .waiting = notices ? report_waiting : NULL,
	    .absent_arg = (void *)(uintptr_t)shared,
	};
	struct reeve_failure failure = {0};
	struct reeve_client *client;

	/* If the reader of our output goes away, a write fails (commands.c); no signal must end the process. */
	signal(SIGPIPE, SIG_IGN);
	client = reeve_client_create(&options, &failure);
	if (!client) {
		/* The URL or a file is invalid; no manager was called yet. */
		command_log("%s", failure.message);
		*code = EXIT_USAGE;
	}
	return client;
}

struct reeve_client *command_connect_to_change(const struct shared_options *shared, int *code)
{
	struct reeve_failure failure = {0};
	struct reeve_client *client;

	interrupts_hold();
	client = command_connect(shared, code);
	interrupts_watch(client, false);
	if (!client || reeve_client_ready(client, &failure))
		return client;
	*code = command_failed(&failure);
	command_disconnect(client);
	return NULL;
}

void command_disconnect(struct reeve_client *client)
{
	interrupts_watch(NULL, false);
	reeve_client_destroy(client);
}

int command_change_failed(const struct reeve_failure *failure)
{
	if (failure->code != REEVE_CANCELLED)
		return command_failed(failure);
	command_log("interrupted; the change may still be made");
	return INTERRUPTED;
}

/* A growing list of ids. */
struct id_list {
	int64_t *ids;
	size_t count, capacity;
};

static void add_id(struct id_list *list, int64_t id)
{
	if (list->count == list->capacity) {
		list->capacity = list->capacity ? 2 * list->capacity : 64;
		list->ids = mem_realloc(list->ids, list->capacity * sizeof *list->ids);
	}
	list->ids[list->count++] = id;
}

bool command_number(const char *text, int64_t *number)
{
	char *end;

	errno = 0;
	*number = isdigit((unsigned char)*text) ? strtoll(text, &end, 10) : 0;
	return *number > 0 && !errno && *end == '\0';
}

static bool read_id(struct id_list *list, const char *text)
{
	int64_t id;

	if (!command_number(text, &id))
		return false;
	add_id(list, id);
	return true;
}

/* Reads ids until the end of standard input. Returns false if `word` is not an id. */
static bool read_ids(struct id_list *list, char word[32])
{
	while (scanf("%31s", word) == 1) {
		if (!read_id(list, word))
			return false;
	}
	return true;
}

int64_t *command_ids(const struct option_table *table, int count, char **argv, size_t *n_ids, int *code)
{
	struct id_list list = {0};
	char word[32];

	for (int i = 1; i <= count; i++) {
		bool from_input = strcmp(argv[i], "-") == 0;

		if (from_input ? read_ids(&list, word) : read_id(&list, argv[i]))
			continue;
		*code =
		    command_usage(table, "\"%s\" is not a task id; ids are whole numbers from 1", from_input ? word : argv[i]);
		free(list.ids);
		return NULL;
	}
	if (list.count == 0) { /* standard input may be empty: then there is nothing to do */
		*code = count ? 0 : command_usage(table, "the tasks' ids are missing");
		return NULL;
	}
	*n_ids = list.count;
	return list.ids;
}
