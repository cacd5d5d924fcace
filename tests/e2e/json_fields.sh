#!/usr/bin/env bash
# quick
# The fields of `--json`, and their order. Programs read them: a change of data/json_fields is a change of what is public.
. "$(dirname "$0")/lib.sh"

fields() { # prints all fields of standard input in their order, each once; gojq would sort them
	python3 -c '
import json, sys
def names(value, of):
	if isinstance(value, dict):
		for key, inner in value.items():
			yield of + key
			yield from names(inner, of + key + ".")
	elif isinstance(value, list):
		for inner in value:
			yield from names(inner, of)
decode, text, values = json.JSONDecoder().raw_decode, sys.stdin.read().strip(), []
while text:
	value, end = decode(text)
	values.append(value)
	text = text[end:].strip()
print(*dict.fromkeys(names(values, "")))'
}

test_each_command_shows_its_fields() {
	start_postgres
	start_manager --callback-tries 1
	start_worker worker --name worker
	reeve queue set jobs --retry-limit 3 >/dev/null
	batch=$(reeve batch open nightly --queue jobs --callback http://127.0.0.1:1/)
	task=$(reeve submit sh 'echo done' --queue jobs --key k --batch "$batch")
	dead=$(reeve submit sh 'echo no >&2; exit 3' --queue jobs --batch "$batch" --retry-limit 0)
	expect_fail 1 reeve wait "$task" "$dead"
	delayed=$(reeve submit nothing --queue later --delay 1h)
	other=$(reeve submit unserved --queue later)
	reeve schedule add nightly --cron '1 0 * * *' --zone Europe/Berlin nothing >/dev/null
	reeve schedule run nightly >/dev/null
	reeve pipeline define - <<<'{"name": "way", "stages": [{"name": "a", "type": "sh", "priority": 3}]}' >/dev/null
	reeve metric put shop orders 17
	reeve token create app --role reader --expires 1d >/dev/null
	reeve batch close "$batch" >/dev/null
	wait_until 20 '[ "$(reeve callback list --state given_up --json)" ]'
	wait_until 20 '[ "$(reeve batch report "$batch" --json | jq -r .batch.ended)" != null ]'
	wait_until 40 '[ "$(reeve stats --activity type --json)" ]'
	export task dead delayed other batch
	while IFS='|' read -r command want; do
		expect [ "$want" ]
		expect_eq "$want" "$(eval "reeve $command --json" | fields)" "reeve $command"
	done <"$(dirname "$0")/data/json_fields"
}

run_tests
