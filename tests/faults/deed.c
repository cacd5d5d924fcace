#include "tests/faults/deed.h"

#include "tests/faults/ledger.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ALIVE_MS = 15 };

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
	bool good;

	if (!copy)
		abort();
	*deed = (struct deed){.then = DEED_COMPLETE};
	word = strtok_r(copy, " \n", &rest);
	good = word && strlen(word) < sizeof deed->name;
	if (good)
		ledger_name(deed->name, sizeof deed->name, word);
	while (good && (word = strtok_r(NULL, " \n", &rest)))
		good = parse_word(deed, word);
	free(copy);
	return good;
}

static void note(const struct deed_attempt *attempt, const char *event)
{
	ledger_write(attempt->ledger, "{\"ev\":\"%s\",\"task\":%" PRId64 ",\"token\":%" PRId64 ",\"t\":%" PRId64 "}",
	    event, attempt->task, attempt->token, ledger_now_us());
}

static void note_start(const struct deed *deed, const struct deed_attempt *attempt)
{
	ledger_write(attempt->ledger,
	    "{\"ev\":\"start\",\"task\":%" PRId64 ",\"token\":%" PRId64 ",\"attempt\":%u,\"t\":%" PRId64
	    ",\"host\":\"%s\",\"worker\":\"%s\",\"pid\":%d,\"name\":\"%s\"}",
	    attempt->task, attempt->token, attempt->attempt, ledger_now_us(), attempt->host, attempt->worker,
	    (int)getpid(), deed->name);
}

static void note_end(const struct deed_attempt *attempt, enum deed_end end)
{
	ledger_write(attempt->ledger,
	    "{\"ev\":\"end\",\"task\":%" PRId64 ",\"token\":%" PRId64 ",\"t\":%" PRId64 ",\"outcome\":\"%s\"}",
	    attempt->task, attempt->token, ledger_now_us(), outcomes[end]);
}

enum deed_end deed_perform(const struct deed *deed, const struct deed_attempt *attempt)
{
	enum deed_end end = attempt->attempt <= deed->crash  ? DEED_CRASH
	                    : attempt->attempt <= deed->fail ? DEED_FAIL
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
		note_end(attempt, end);
	return end;
}
