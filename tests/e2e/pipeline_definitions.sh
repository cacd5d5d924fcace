#!/usr/bin/env bash
# Definitions of pipelines: bad ones are refused, and tasks under way go on as they began.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tasks.bash"
. "$(dirname "$0")/pipelines.bash"

test_bad_definitions_are_refused() {
	start_postgres
	start_manager
	refused() { # CODE REGEX JSON
		expect_fail "$1" reeve pipeline define /dev/stdin <<<"$3"
		expect_match "$2" "$OUTPUT"
	}
	stage() { # NAME [MORE]
		printf '{"name": "%s", "type": "t"%s}' "$1" "${2:+, $2}"
	}
	refused 2 'is not JSON' '{"name"'
	refused 2 'must be a JSON object' '[]'
	refused 2 'stages is missing' '{"name": "p"}'
	refused 2 'name is missing' "{\"stages\": [$(stage a)]}"
	refused 2 'stages must be a list' '{"name": "p", "stages": []}'
	refused 2 'retries is not a known field' "{\"name\": \"p\", \"retries\": 1, \"stages\": [$(stage a)]}"
	refused 2 'stages\[0\].color is not a known field' "{\"name\": \"p\", \"stages\": [$(stage a '"color": 1')]}"
	refused 2 'stages\[0\].type is missing' '{"name": "p", "stages": [{"name": "a"}]}'
	refused 2 'stages\[0\].timeout must be a duration' "{\"name\": \"p\", \"stages\": [$(stage a '"timeout": 3')]}"
	refused 2 'stages\[0\].max_attempts must be a whole number from 1' "{\"name\": \"p\", \"stages\": [$(stage a '"max_attempts": 0')]}"
	refused 2 'stages\[0\].backoff: ' "{\"name\": \"p\", \"stages\": [$(stage a '"backoff": "slow"')]}"
	refused 2 'stages\[0\].priority must be' "{\"name\": \"p\", \"stages\": [$(stage a '"priority": 1000001')]}"
	refused 2 'max_steps must be' "{\"name\": \"p\", \"max_steps\": 0, \"stages\": [$(stage a)]}"
	refused 2 'more than 100' "{\"name\": \"p\", \"stages\": [$(for i in $(seq 101); do stage "s$i" && echo; done | paste -sd ,)]}"
	refused 4 'stages\[1\].name is "a", as that of stages\[0\] is' "{\"name\": \"p\", \"stages\": [$(stage a), $(stage a)]}"
	refused 4 'stages\[0\].name is "end"' "{\"name\": \"p\", \"stages\": [$(stage end)]}"
	refused 4 'stages\[0\].next is "c"; there is no such stage' "{\"name\": \"p\", \"stages\": [$(stage a '"next": "c"'), $(stage b)]}"
	refused 4 'a → b → a is an endless loop' "{\"name\": \"p\", \"stages\": [$(stage a), $(stage b '"next": "a"')]}"
	refused 4 'c → c is an endless loop' "{\"name\": \"p\", \"stages\": [$(stage a '"next": "end"'), $(stage c '"next": "c"')]}"
	refused 4 'stages\[0\].type is longer than 255 bytes' "{\"name\": \"p\", \"stages\": [{\"name\": \"a\", \"type\": \"$(printf 'x%.0s' {1..256})\"}]}"
	refused 4 'name .*control' '{"name": "a\u0001b", "stages": [{"name": "a", "type": "t"}]}'
	expect_fail 2 reeve pipeline define "$DIR/not-there"
	expect_fail 4 reeve pipeline show p
	expect_match 'there is no pipeline "p"' "$OUTPUT"
	expect_eq 0 "$(sql 'select count(*) from pipelines')"
	# Stages that only a handler can choose are allowed.
	define "{\"name\": \"p\", \"stages\": [$(stage a '"next": "end"'), $(stage b)]}"
	expect_eq 'end end' "$(reeve pipeline show p --json | jq -r '[.stages[].next] | join(" ")')"
	# What is shown can be defined again.
	reeve pipeline show p --json >"$DIR/shown"
	reeve pipeline define "$DIR/shown" >/dev/null
	expect_eq "$(jq -c .stages "$DIR/shown")" "$(reeve pipeline show p --json | jq -c .stages)"
	expect_match 'NEXT.*a +t +end +5 +1m ' "$(reeve pipeline show p | tr '\n' ' ')"
	expect_match 'p +2 +100 +a ' "$(reeve pipeline list)"
	# Submits.
	expect_fail 4 reeve submit --pipeline none x
	expect_match 'there is no pipeline "none"' "$OUTPUT"
	expect_fail 2 reeve submit --pipeline p t x
	expect_fail 2 reeve submit --pipeline p x --timeout 5s
	expect_match 'timeout cannot be combined with --pipeline' "$OUTPUT"
	echo '{"pipeline": "p", "retry": {"base": "1s"}}' >"$DIR/bulk"
	expect_fail 4 reeve submit --bulk "$DIR/bulk"
	expect_match 'retry cannot be combined with a pipeline' "$OUTPUT"
	printf '%s\n' '{"type": "t"}' '{"pipeline": "none"}' >"$DIR/bulk"
	expect_fail 4 reeve submit --bulk "$DIR/bulk"
	expect_eq 0 "$(sql 'select count(*) from tasks')"
}

test_tasks_under_way_go_on_as_they_began() {
	start_postgres
	start_manager
	define '{"name": "p", "stages": [{"name": "one", "type": "h1"}, {"name": "two", "type": "h2"}]}'
	reeve submit --pipeline p old --queue q >/dev/null
	take --queue q
	expect_eq 'pipeline p: 1 stage, defined' "$(define '{"name": "p", "stages": [{"name": "new", "type": "h3"}]}')"
	old=$id
	reeve report "$id" "$token" --completed r1 >/dev/null
	expect_eq 'queued two 2 h2 p' "$(at "$old") $(field "$old" type) $(field "$old" pipeline)"
	new=$(reeve submit --pipeline p new --queue q)
	expect_eq 'queued new 1' "$(at "$new")"
	expect_eq '1 new' "$(reeve pipeline list --json | jq -r '[(.stages | length), .stages[0].name] | join(" ")')"
	expect_eq 2 "$(sql 'select count(*) from pipelines')"
}

test_a_repeated_submit_is_answered_whatever_the_pipeline_has_become() {
	local http first
	http=http://127.0.0.1:$(free_port)
	start_postgres
	start_manager manager --http "$http"
	submit() {
		curl -sS -m 20 -H 'content-type: application/json' -H 'idempotency-key: k' \
			-d '{"tasks": [{"pipeline": "p", "stage": "two", "queue": "q"}]}' "$http/reeve.v1.TaskService/Submit"
	}
	define '{"name": "p", "stages": [{"name": "one", "type": "h1"}, {"name": "two", "type": "h2"}]}' >/dev/null
	first=$(submit)
	expect_eq "$(sql 'select id from tasks')" "$(jq -r '.tasks[0].id' <<<"$first")"
	define '{"name": "p", "stages": [{"name": "new", "type": "h3"}]}' >/dev/null
	expect_eq "$first" "$(submit)"
	expect_eq 1 "$(sql 'select count(*) from tasks')"
	expect_fail 4 reeve submit --pipeline p --stage two x
	expect_match 'pipeline "p" has no stage "two"' "$OUTPUT"
}

run_tests
