#include "tests/faults/deed.h"

#include "tests/faults/ledger.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ALIVE_MS = 15 };

/* The end of each result in a pipeline: bytes that a program on the way to the next stage could misinterpret. */
static const char TAIL[] = "  \t\"\\ {}'$1 %s \x01 \r\n\n\xc3\xa9\xe2\x82\xac\xf0\x9f\x8c\xb1 .";

static const char *const ends[] = {
    [DEED_COMPLETE] = "complete",
    [DEED_FAIL] = "fail",
    [DEED_FATAL] = "fatal",
    [DEED_HANG] = "hang",
    [DEED_CRASH] = "crash",
};

static const char *const outcomes[] = {
    [DEED_COMPLETE] = "completed",
    [DEED_FAIL] = "failed",
    [DEED_FATAL] = "fatal",
    [DEED_STOPPED] = "stopped",
};

static bool parse_then(struct deed *deed, const char *text)
{
	for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
		if (strcmp(text, ends[i]) == 0) {
			deed->then = (enum deed_end)i;
			return true;
		}
	}
	return false;
}

/* Parses one STEP of a plan, without the slash after it. Returns false if it is invalid. */
static bool parse_step(struct deed *deed, const char *step, size_t length)
{
	char text[DEED_PLAN], *at = text;

	memcpy(text, step, length);
	text[length] = '\0';
	deed->run_ms = strtoll(at, &at, 10);
	if (*at == 'f')
		deed->fail = (unsigned)strtoul(at + 1, &at, 10);
	switch (*at) {
	case '>':
		snprintf(deed->stage, sizeof deed->stage, "%s", at + 1);
		return deed->stage[0] && strlen(at + 1) < sizeof deed->stage;
	case '.': deed->ends_here = true; break;
	case '!': deed->then = DEED_FATAL; break;
	case '-': deed->then = DEED_FAIL; break;
	case '\0': return true;
	default: return false;
	}
	return at[1] == '\0';
}

/* Parses a plan. Its first STEP is for this stage, the others are for the stages after it. */
static bool parse_plan(struct deed *deed, const char *plan, bool loop)
{
	size_t length = strcspn(plan, "/"), whole = strlen(plan);
	const char *rest = plan + length + (plan[length] == '/');

	if (whole >= sizeof deed->plan || !parse_step(deed, plan, length))
		return false;
	if (loop && *rest)
		snprintf(deed->plan, sizeof deed->plan, "%s/%.*s", rest, (int)length, plan);
	else
		snprintf(deed->plan, sizeof deed->plan, "%s", loop ? plan : rest);
	return true;
}

static bool parse_word(struct deed *deed, const char *word)
{
	if (sscanf(word, "run=%" SCNd64, &deed->run_ms) == 1 || sscanf(word, "fail=%u", &deed->fail) == 1 ||
	    sscanf(word, "crash=%u", &deed->crash) == 1)
		return true;
	if (strcmp(word, "stubborn") == 0)
		return deed->stubborn = true;
	return strncmp(word, "then=", 5) == 0 && parse_then(deed, word + 5);
}

bool deed_parse(struct deed *deed, const char *details)
{
	char *copy = strdup(details), *rest = NULL, *word;
	const char *plan = NULL;
	bool good, loop = false, tail = false;

	if (!copy)
		abort();
	*deed = (struct deed){.then = DEED_COMPLETE};
	word = strtok_r(copy, " \n", &rest);
	good = word && strlen(word) < sizeof deed->name;
	if (good)
		ledger_name(deed->name, sizeof deed->name, word);
	while (good && !tail && (word = strtok_r(NULL, " \n", &rest))) {
		if (strncmp(word, "plan=", 5) == 0)
			plan = word + 5;
		else if (strcmp(word, "loop") == 0)
			loop = true;
		else if (strncmp(word, "from=", 5) == 0)
			deed->piped = tail = true; /* do not parse what follows */
		else
			good = parse_word(deed, word);
	}
	deed->loop = loop;
	if (good && plan) {
		deed->piped = true;
		good = parse_plan(deed, plan, loop);
	}
	free(copy);
	return good;
}

void deed_result(const struct deed *deed, int64_t token, char *text)
{
	if (!deed->piped)
		snprintf(text, DEED_RESULT, "%s %" PRId64, deed->name, token);
	else
		snprintf(text, DEED_RESULT, "%s%s%s%s from=%" PRId64 "%s", deed->name, deed->plan[0] ? " plan=" : "",
		    deed->plan, deed->loop ? " loop" : "", token, TAIL);
}

static void note(const struct deed_attempt *attempt, const char *event)
{
	ledger_write(attempt->ledger, "{\"ev\":\"%s\",\"task\":%" PRId64 ",\"token\":%" PRId64 ",\"t\":%" PRId64 "}", event,
	    attempt->task, attempt->token, ledger_now_us());
}

static void note_start(const struct deed *deed, const struct deed_attempt *attempt)
{
	char print[LEDGER_PRINT], piped[256] = "";

	if (deed->piped)
		snprintf(piped, sizeof piped, ",\"type\":\"%.100s\",\"input\":\"%s\"", attempt->type,
		    ledger_print(attempt->details, print));
	ledger_write(attempt->ledger,
	    "{\"ev\":\"start\",\"task\":%" PRId64 ",\"token\":%" PRId64 ",\"attempt\":%u,\"t\":%" PRId64
	    ",\"host\":\"%s\",\"worker\":\"%s\",\"pid\":%d,\"name\":\"%s\"%s}",
	    attempt->task, attempt->token, attempt->attempt, ledger_now_us(), attempt->host, attempt->worker, (int)getpid(),
	    deed->name, piped);
}

static void note_end(const struct deed *deed, const struct deed_attempt *attempt, enum deed_end end)
{
	char result[DEED_RESULT], print[LEDGER_PRINT], piped[256] = "";

	if (deed->piped && end == DEED_COMPLETE) {
		deed_result(deed, attempt->token, result);
		snprintf(piped, sizeof piped, ",\"result\":\"%s\",\"next\":%s%s%s", ledger_print(result, print),
		    deed->ends_here      ? "false"
		        : deed->stage[0] ? "\""
		                         : "null",
		    deed->stage, deed->stage[0] ? "\"" : "");
	}
	ledger_write(attempt->ledger,
	    "{\"ev\":\"end\",\"task\":%" PRId64 ",\"token\":%" PRId64 ",\"t\":%" PRId64 ",\"outcome\":\"%s\"%s}",
	    attempt->task, attempt->token, ledger_now_us(), outcomes[end], piped);
}

enum deed_end deed_perform(const struct deed *deed, const struct deed_attempt *attempt)
{
	enum deed_end end = attempt->attempt <= deed->crash ? DEED_CRASH
	    : attempt->attempt <= deed->fail                ? DEED_FAIL
	                                                    : deed->then;
	int64_t until_us;
	bool told = false;

	note_start(deed, attempt);
	until_us = ledger_now_us() + deed->run_ms * 1000;
	for (;;) {
		int64_t rest_ms = end == DEED_HANG ? ALIVE_MS : (until_us - ledger_now_us() + 999) / 1000;

		if (rest_ms <= 0)
			break;
		if (attempt->told(attempt->arg, rest_ms < ALIVE_MS ? (int)rest_ms : ALIVE_MS) && !told) {
			told = true;
			note(attempt, "told");
			if (!deed->stubborn) {
				end = DEED_STOPPED;
				break;
			}
		}
		note(attempt, "alive");
	}
	if (end != DEED_CRASH)
		note_end(deed, attempt, end);
	return end;
}
