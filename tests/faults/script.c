#include "tests/faults/script.h"

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
    [SCRIPT_COMPLETE] = "complete",
    [SCRIPT_FAIL] = "fail",
    [SCRIPT_FATAL] = "fatal",
    [SCRIPT_HANG] = "hang",
    [SCRIPT_CRASH] = "crash",
};

static const char *const outcomes[] = {
    [SCRIPT_COMPLETE] = "completed",
    [SCRIPT_FAIL] = "failed",
    [SCRIPT_FATAL] = "fatal",
    [SCRIPT_STOPPED] = "stopped",
};

static bool parse_then(struct script *script, const char *text)
{
	for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
		if (strcmp(text, ends[i]) == 0) {
			script->then = (enum script_end)i;
			return true;
		}
	}
	return false;
}

/* Parses one STEP of a plan, without the slash after it. Returns false if it is invalid. */
static bool parse_step(struct script *script, const char *step, size_t length)
{
	char text[SCRIPT_PLAN], *at = text;

	memcpy(text, step, length);
	text[length] = '\0';
	script->run_ms = strtoll(at, &at, 10);
	if (*at == 'f')
		script->fail = (unsigned)strtoul(at + 1, &at, 10);
	switch (*at) {
	case '>':
		snprintf(script->stage, sizeof script->stage, "%s", at + 1);
		return script->stage[0] && strlen(at + 1) < sizeof script->stage;
	case '.': script->ends_here = true; break;
	case '!': script->then = SCRIPT_FATAL; break;
	case '-': script->then = SCRIPT_FAIL; break;
	case '\0': return true;
	default: return false;
	}
	return at[1] == '\0';
}

/* Parses a plan. Its first STEP is for this stage, the others are for the stages after it. */
static bool parse_plan(struct script *script, const char *plan, bool loop)
{
	size_t length = strcspn(plan, "/"), whole = strlen(plan);
	const char *rest = plan + length + (plan[length] == '/');

	if (whole >= sizeof script->plan || !parse_step(script, plan, length))
		return false;
	if (loop && *rest)
		snprintf(script->plan, sizeof script->plan, "%s/%.*s", rest, (int)length, plan);
	else
		snprintf(script->plan, sizeof script->plan, "%s", loop ? plan : rest);
	return true;
}

static bool parse_word(struct script *script, const char *word)
{
	if (sscanf(word, "run=%" SCNd64, &script->run_ms) == 1 || sscanf(word, "fail=%u", &script->fail) == 1 ||
	    sscanf(word, "crash=%u", &script->crash) == 1)
		return true;
	if (strcmp(word, "stubborn") == 0)
		return script->stubborn = true;
	if (strncmp(word, "until=", 6) == 0)
		return snprintf(script->until, sizeof script->until, "%s", word + 6) < (int)sizeof script->until;
	return strncmp(word, "then=", 5) == 0 && parse_then(script, word + 5);
}

bool script_parse(struct script *script, const char *details)
{
	char *copy = strdup(details), *rest = NULL, *word;
	const char *plan = NULL;
	bool good, loop = false, tail = false;

	if (!copy)
		abort();
	*script = (struct script){.then = SCRIPT_COMPLETE};
	word = strtok_r(copy, " \n", &rest);
	good = word && strlen(word) < sizeof script->name;
	if (good)
		ledger_name(script->name, sizeof script->name, word);
	while (good && !tail && (word = strtok_r(NULL, " \n", &rest))) {
		if (strncmp(word, "plan=", 5) == 0)
			plan = word + 5;
		else if (strcmp(word, "loop") == 0)
			loop = true;
		else if (strncmp(word, "from=", 5) == 0)
			script->piped = tail = true; /* do not parse what follows */
		else
			good = parse_word(script, word);
	}
	script->loop = loop;
	if (good && plan) {
		script->piped = true;
		good = parse_plan(script, plan, loop);
	}
	free(copy);
	return good;
}

void script_result(const struct script *script, int64_t token, char *text)
{
	if (!script->piped)
		snprintf(text, SCRIPT_RESULT, "%s %" PRId64, script->name, token);
	else
		snprintf(text, SCRIPT_RESULT, "%s%s%s%s from=%" PRId64 "%s", script->name, script->plan[0] ? " plan=" : "",
		    script->plan, script->loop ? " loop" : "", token, TAIL);
}

static void note(const struct script_attempt *attempt, const char *event)
{
	ledger_write(attempt->ledger, "{\"ev\":\"%s\",\"task\":%" PRId64 ",\"token\":%" PRId64 ",\"t\":%" PRId64 "}", event,
	    attempt->task, attempt->token, ledger_now_us());
}

static void note_start(const struct script *script, const struct script_attempt *attempt)
{
	char print[LEDGER_PRINT], piped[256] = "";

	if (script->piped)
		snprintf(piped, sizeof piped, ",\"type\":\"%.100s\",\"input\":\"%s\"", attempt->type,
		    ledger_print(attempt->details, print));
	ledger_write(attempt->ledger,
	    "{\"ev\":\"start\",\"task\":%" PRId64 ",\"token\":%" PRId64 ",\"attempt\":%u,\"t\":%" PRId64
	    ",\"host\":\"%s\",\"worker\":\"%s\",\"pid\":%d,\"name\":\"%s\"%s}",
	    attempt->task, attempt->token, attempt->attempt, ledger_now_us(), attempt->host, attempt->worker, (int)getpid(),
	    script->name, piped);
}

static void note_end(const struct script *script, const struct script_attempt *attempt, enum script_end end)
{
	char result[SCRIPT_RESULT], print[LEDGER_PRINT], piped[256] = "";

	if (script->piped && end == SCRIPT_COMPLETE) {
		script_result(script, attempt->token, result);
		snprintf(piped, sizeof piped, ",\"result\":\"%s\",\"next\":%s%s%s", ledger_print(result, print),
		    script->ends_here      ? "false"
		        : script->stage[0] ? "\""
		                           : "null",
		    script->stage, script->stage[0] ? "\"" : "");
	}
	ledger_write(attempt->ledger,
	    "{\"ev\":\"end\",\"task\":%" PRId64 ",\"token\":%" PRId64 ",\"t\":%" PRId64 ",\"outcome\":\"%s\"%s}",
	    attempt->task, attempt->token, ledger_now_us(), outcomes[end], piped);
}

static bool must_wait(const struct script *script)
{
	return script->until[0] && access(script->until, F_OK) != 0;
}

enum script_end script_perform(const struct script *script, const struct script_attempt *attempt)
{
	enum script_end end = attempt->attempt <= script->crash ? SCRIPT_CRASH
	    : attempt->attempt <= script->fail                  ? SCRIPT_FAIL
	                                                        : script->then;
	int64_t until_us;
	bool told = false;

	note_start(script, attempt);
	until_us = ledger_now_us() + script->run_ms * 1000;
	for (;;) {
		int64_t wait_ms =
		    end == SCRIPT_HANG || must_wait(script) ? ALIVE_MS : (until_us - ledger_now_us() + 999) / 1000;

		if (wait_ms <= 0)
			break;
		if (attempt->told(attempt->arg, wait_ms < ALIVE_MS ? (int)wait_ms : ALIVE_MS) && !told) {
			told = true;
			note(attempt, "told");
			if (!script->stubborn) {
				end = SCRIPT_STOPPED;
				break;
			}
		}
		note(attempt, "alive");
	}
	if (end != SCRIPT_CRASH)
		note_end(script, attempt, end);
	return end;
}
