/* A plugin: a handler in C that reeve-worker loads. */
#include <reeve/worker.h>
#include <stdio.h>

static int greet(const struct reeve_attempt *attempt, struct reeve_outcome *outcome)
{
	char text[256];

	if (!*attempt->details)
		return reeve_outcome_fatal(outcome, "nobody", "there is nobody to greet");
	snprintf(text, sizeof text, "Hello, %s!", attempt->details);
	return reeve_outcome_complete(outcome, text);
}

const struct reeve_plugin reeve_plugin = {REEVE_PLUGIN_ABI, greet};
