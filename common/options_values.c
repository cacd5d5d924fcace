/* The values of options: checks strings by the option's type and stores them, in a struct or in a message. */
#include "common/clock.h"
#include "common/field.h"
#include "common/json_names.h"
#include "common/mem.h"
#include "common/options_internal.h"
#include "common/text.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Memory that is kept until exit, since options point into it: strings from a file,
 * joined texts, and lists. */
struct kept {
	struct kept *next;
	max_align_t memory[];
};

static struct kept *all_kept;

static void *keep(size_t size)
{
	struct kept *kept = mem_malloc(sizeof *kept + size);

	kept->next = all_kept;
	all_kept = kept;
	return kept->memory;
}

const char *option_keep(const char *text, size_t length)
{
	char *kept = keep(length + 1);

	memcpy(kept, text, length);
	kept[length] = '\0';
	return kept;
}

bool size_parse(const char *text, int64_t *bytes)
{
	static const struct {
		const char *name;
		int shift;
	} units[] = {{"", 0}, {"B", 0}, {"KiB", 10}, {"MiB", 20}, {"GiB", 30}, {"TiB", 40}};
	char *end;

	if (!isdigit((unsigned char)*text))
		return false;
	errno = 0;
	int64_t value = strtoll(text, &end, 10);
	if (errno)
		return false;
	for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
		if (strcasecmp(end, units[i].name) != 0)
			continue;
		if (value > INT64_MAX >> units[i].shift)
			return false;
		*bytes = value << units[i].shift;
		return true;
	}
	return false;
}

bool flag_parse(const char *text, bool *value)
{
	static const char *const words[][2] = {{"no", "yes"}, {"false", "true"}, {"off", "on"}, {"0", "1"}};

	for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
		for (int j = 0; j < 2; j++) {
			if (strcasecmp(text, words[i][j]) == 0) {
				*value = j;
				return true;
			}
		}
	}
	return false;
}

static bool integer_parse(const char *text, int64_t *value)
{
	char *end;

	if (!isdigit((unsigned char)*text) && !((*text == '-' || *text == '+') && isdigit((unsigned char)text[1])))
		return false;
	errno = 0;
	*value = strtoll(text, &end, 10);
	return errno == 0 && *end == '\0';
}

bool version_parse(const char *text, int64_t *version)
{
	return strspn(text, "0123456789") == 4 && text[4] == '-' ? time_parse(text, version) : integer_parse(text, version);
}

/* Writes the words of a choice, "text|code", into `out`. */
static void write_words(const struct option_spec *spec, const ProtobufCEnumDescriptor *words, char *out, size_t size)
{
	size_t used = 0;

	snprintf(out, size, "%s", spec->argument);
	if (!words || strchr(spec->argument, '|'))
		return;
	for (unsigned i = 0; i < words->n_values && used < size; i++) {
		char word[JSON_NAME_BYTES];

		if (words->values[i].value && json_enum_word(words, words->values[i].value, word))
			used += (size_t)snprintf(out + used, size - used, "%s%s", used ? "|" : "", word);
	}
}

/* Writes "it takes hour, day or type". */
static void write_choices(const struct option_spec *spec, const ProtobufCEnumDescriptor *words, char *out, size_t size)
{
	char list[256];
	FILE *text = fmemopen(out, size, "w");

	if (!text)
		abort();
	write_words(spec, words, list, sizeof list);
	fputs("it takes ", text);
	for (const char *at = list; *at; at++) {
		if (*at != '|')
			fputc(*at, text);
		else
			fputs(strchr(at + 1, '|') ? ", " : " or ", text);
	}
	fclose(text);
}

const char *option_takes(const struct option_spec *spec, const ProtobufCFieldDescriptor *field, char *out, size_t size)
{
	static const char *const kinds[] = {
	    [OPTION_FLAG] = "yes or no",
	    [OPTION_TEXT] = "a text",
	    [OPTION_JOINED] = "a text",
	    [OPTION_NAME] = "a name",
	    [OPTION_INTEGER] = "a whole number",
	    [OPTION_DURATION] = "a duration like 250ms, 5s, 1m30s or 2h",
	    [OPTION_SIZE] = "a size like 512, 64KiB or 1MiB",
	    [OPTION_LIST] = "names separated by commas",
	    [OPTION_VERSION] = "a time like 2026-01-14T08:00:00Z or a whole number",
	    [OPTION_TIME] = "a time like 2026-01-14T08:00:00Z, \"2026-01-14 08:00\", now, +5m or \"5m ago\"",
	};
	bool texts = spec->type == OPTION_TEXT || spec->type == OPTION_JOINED || spec->type == OPTION_NAME ||
	    spec->type == OPTION_LIST;
	char low[64], high[64];

	if (spec->type == OPTION_CHOICE) {
		write_choices(spec, field && field->type == PROTOBUF_C_TYPE_ENUM ? field->descriptor : NULL, out, size);
	} else if (texts && spec->argument) {
		snprintf(out, size, "it takes %s", spec->argument);
	} else if (spec->min == 0 && spec->max == 0) {
		snprintf(out, size, "it takes %s", kinds[spec->type]);
	} else {
		snprintf(out, size, "it takes %s from %s to %s", kinds[spec->type],
		    option_number(spec, spec->min, low, sizeof low), option_number(spec, spec->max, high, sizeof high));
	}
	return out;
}

/* The option whose value is being set, and where that goes. */
struct setting {
	const struct option_spec *spec;
	const char *where; /* the option as the user wrote it, for errors */
	void *at;
	const ProtobufCFieldDescriptor *field; /* NULL: a member of the program's struct */
	struct reeve_error *error;
};

/* Sets an error like "--delay: "-5s" is negative; it takes …" and returns false. Cuts a long value, and shows control
 * characters as '?'. */
static bool complain(const struct setting *setting, const char *text, const char *problem)
{
	char shown[64], wants[320];
	size_t length = strlen(text);

	if (length > sizeof shown - 1)
		length = utf8_cut(text, sizeof shown - 1);
	for (size_t i = 0; i < length; i++)
		shown[i] = iscntrl((unsigned char)text[i]) ? '?' : text[i];
	shown[length] = '\0';
	return error_set(setting->error, STATUS(INVALID_ARGUMENT), "%s: \"%s\" %s; %s", setting->where, shown, problem,
	    option_takes(setting->spec, setting->field, wants, sizeof wants));
}

/* Parses a number of the option's type. Returns NULL, or what is wrong with the string. */
static const char *parse_number(const struct option_spec *spec, const char *text, int64_t *value)
{
	int64_t ignored;

	switch (spec->type) {
	case OPTION_VERSION: return version_parse(text, value) ? NULL : "is neither a time nor a whole number";
	case OPTION_INTEGER: return integer_parse(text, value) ? NULL : "is not a whole number";
	case OPTION_DURATION:
		if (duration_parse(text, value))
			return NULL;
		return *text == '-' && duration_parse(text + 1, &ignored) ? "is negative" : "is not a duration";
	case OPTION_SIZE:
		if (size_parse(text, value))
			return NULL;
		return *text == '-' && size_parse(text + 1, &ignored) ? "is negative" : "is not a size";
	default: return time_parse(text, value) ? NULL : "is not a time";
	}
}

/* Adds the names between the commas, without the blanks around them. Returns false if a name is empty. */
static bool add_names(struct option_list *list, const char *text)
{
	for (const char *at = text;; at++) {
		size_t length = strcspn(at, ","), blanks = strspn(at, " \t");
		const char *end = at + length;

		at += blanks < length ? blanks : length;
		while (end > at && (end[-1] == ' ' || end[-1] == '\t'))
			end--;
		if (end == at)
			return false;
		const char **items = keep((list->count + 1) * sizeof *items);

		if (list->count)
			memcpy(items, list->items, list->count * sizeof *items);
		list->items = items;
		list->items[list->count++] = option_keep(at, (size_t)(end - at));
		at += strcspn(at, ",");
		if (!*at)
			return true;
	}
}

/* Finds a field by its path; creates the messages inside. */
static void *field_by_path(ProtobufCMessage *message, const char *path, const ProtobufCFieldDescriptor **found)
{
	for (;;) {
		*found = field_step(message->descriptor, &path);
		void *at = field_at(message, *found);

		if (!*path)
			return at;
		if (!*(ProtobufCMessage **)at) {
			const ProtobufCMessageDescriptor *inner = (*found)->descriptor;

			*(ProtobufCMessage **)at = keep(inner->sizeof_message);
			protobuf_c_message_init(inner, *(ProtobufCMessage **)at);
		}
		message = *(ProtobufCMessage **)at;
	}
}

static void store_number(const struct setting *setting, int64_t number)
{
	switch (setting->field ? setting->field->type : PROTOBUF_C_TYPE_INT64) {
	case PROTOBUF_C_TYPE_INT32:
	case PROTOBUF_C_TYPE_SINT32:
	case PROTOBUF_C_TYPE_UINT32:
	case PROTOBUF_C_TYPE_ENUM: *(int32_t *)setting->at = (int32_t)number; return;
	case PROTOBUF_C_TYPE_BOOL: *(protobuf_c_boolean *)setting->at = number != 0; return;
	default: memcpy(setting->at, &number, sizeof number);
	}
}

static bool set_flag(const struct setting *setting, const char *text)
{
	bool flag;

	if (!flag_parse(text, &flag))
		return complain(setting, text, "is neither yes nor no");
	if (setting->field)
		store_number(setting, flag);
	else
		memcpy(setting->at, &flag, sizeof flag);
	return true;
}

/* Returns true if the word is one of "text|code". */
static bool is_listed(const char *words, const char *word)
{
	size_t length = strlen(word);

	for (const char *at = words; at; at = strchr(at, '|') ? strchr(at, '|') + 1 : NULL)
		if (length && strncmp(at, word, length) == 0 && (at[length] == '|' || !at[length]))
			return true;
	return false;
}

static bool set_choice(const struct setting *setting, const char *text)
{
	const char *words = setting->spec->argument;
	bool has_list = strchr(words, '|') != NULL;
	int number;

	if (setting->field && setting->field->type == PROTOBUF_C_TYPE_BOOL)
		return set_flag(setting, text);
	if (has_list && !is_listed(words, text))
		return complain(setting, text, "is invalid");
	if (!setting->field || setting->field->type != PROTOBUF_C_TYPE_ENUM) {
		memcpy(setting->at, &text, sizeof text);
		return true;
	}
	/* An enumeration's 0 stands for "not set", unless it is in the list. */
	if (!json_enum_number(setting->field->descriptor, text, &number) || (!number && !has_list))
		return complain(setting, text, "is invalid");
	store_number(setting, number);
	return true;
}

static bool set_list(const struct setting *setting, const char *text)
{
	struct option_list own, *list = setting->at;
	char *owner;

	if (!setting->field)
		return add_names(list, text) || complain(setting, text, "holds an empty name");
	owner = (char *)setting->at - setting->field->offset;
	own.count = *(size_t *)(owner + setting->field->quantifier_offset);
	own.items = *(const char ***)setting->at;
	if (!add_names(&own, text))
		return complain(setting, text, "holds an empty name");
	*(size_t *)(owner + setting->field->quantifier_offset) = own.count;
	*(const char ***)setting->at = own.items;
	return true;
}

static bool set_number(const struct setting *setting, const char *text)
{
	const struct option_spec *spec = setting->spec;
	int64_t number;
	const char *problem = parse_number(spec, text, &number);

	if (!problem && spec->type == OPTION_TIME && number <= 0)
		return error_set(setting->error, STATUS(INVALID_ARGUMENT), "%s lies before 1970", setting->where);
	if (!problem && (spec->min != 0 || spec->max != 0) && (number < spec->min || number > spec->max))
		problem = "is out of range";
	if (problem)
		return complain(setting, text, problem);
	store_number(setting, number);
	return true;
}

bool option_is_set(const struct option_message *message, const char *field)
{
	for (size_t i = 0; i < message->n_set; i++)
		if (strcmp(message->set[i], field) == 0)
			return true;
	return false;
}

void option_note(struct option_message *message, const char *field)
{
	if (option_is_set(message, field))
		return;
	if (message->n_set == OPTION_FIELDS)
		abort();
	message->set[message->n_set++] = field;
}

static void set_text(const struct setting *s, const char *text)
{
	const char *before = NULL;
	char *joined;

	if (s->spec->type == OPTION_JOINED)
		memcpy(&before, s->at, sizeof before);
	if (before) {
		joined = keep(strlen(before) + strlen(text) + 2);
		sprintf(joined, "%s %s", before, text);
		text = joined;
	}
	memcpy(s->at, &text, sizeof text);
}

bool option_set(const struct option_spec *spec, void *target, const char *where, const char *text, bool is_default,
    struct reeve_error *error)
{
	struct setting setting = {.spec = spec, .where = where, .error = error};

	if (spec->place.field) {
		struct option_message *message = target;

		setting.at = field_by_path(message->message, spec->place.field, &setting.field);
		if (!is_default)
			option_note(message, spec->place.field);
	} else {
		setting.at = (char *)target + spec->place.offset;
	}
	switch (spec->type) {
	case OPTION_NAME:
		if (!*text)
			return error_set(error, STATUS(INVALID_ARGUMENT), "%s is empty", where);
		/* fall through */
	case OPTION_TEXT:
	case OPTION_JOINED: set_text(&setting, text); return true;
	case OPTION_CHOICE: return set_choice(&setting, text);
	case OPTION_LIST: return set_list(&setting, text);
	case OPTION_FLAG: return set_flag(&setting, text);
	default: return set_number(&setting, text);
	}
}
