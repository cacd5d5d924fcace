#!/usr/bin/env bash
# The trace context of the submitter (W3C traceparent): it goes in by every way of submitting, and comes out at the handler.
. "$(dirname "$0")/lib.sh"

A=00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01
B=00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00
LATER=cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-what-the-future-brings
SHOW='printf %s "$TRACEPARENT"'
unset TRACEPARENT

result() { # ID: of a task that has completed
	reeve wait "$1" >/dev/null
	reeve show "$1" --json | jq -r .result
}

test_each_way_in_leads_to_the_handler() {
	local id
	start_postgres
	start_manager
	TRACEPARENT=$LATER start_worker worker --concurrency 4 # a program's own is not its handlers'
	# The option, the environment, and neither; the option wins.
	expect_eq "$A" "$(reeve submit sh "$SHOW" --traceparent "$A" --wait)"
	expect_eq "$B" "$(TRACEPARENT=$B reeve submit sh "$SHOW" --wait)"
	expect_eq "$A" "$(TRACEPARENT=$B reeve submit sh "$SHOW" --traceparent "$A" --wait)"
	expect_eq '' "$(TRACEPARENT='' reeve submit sh "$SHOW" --wait)"
	# A file: each line may have its own, and the option is the default.
	printf '{"type": "sh", "details": "%s", "traceparent": "%s"}\n{"type": "sh", "details": "%s"}\n' \
		"${SHOW//\"/\\\"}" "$LATER" "${SHOW//\"/\\\"}" >"$DIR/tasks.jsonl"
	mapfile -t ids < <(reeve submit --bulk "$DIR/tasks.jsonl" --traceparent "$B")
	expect_eq "$LATER" "$(result "${ids[0]}")"
	expect_eq "$B" "$(result "${ids[1]}")"
	# SQL, with a route that exists and through the inbox.
	expect_eq "$A" "$(result "$(sql "select submit('sh', \$\$$SHOW\$\$, traceparent => '$A')")")"
	expect_eq "$B" "$(result "$(sql "select submit('sh', \$\$$SHOW\$\$, queue => 'new', traceparent => '$B')")")"
	# What a handler submits belongs to the trace of its own task.
	expect_eq "$A" "$(reeve submit sh "'$REEVE_BIN/reeve' submit sh '$SHOW' --wait" --traceparent "$A" --wait)"
	# All stages of a pipeline have it, and a batch's tasks. A schedule's runs begin traces of their own.
	reeve pipeline define - >/dev/null <<<'{"name": "way", "stages": [{"name": "a", "type": "sh"}, {"name": "b", "type": "sh"}]}'
	id=$(reeve submit --pipeline way "printf 'echo \$TRACEPARENT %s' \$TRACEPARENT" --traceparent "$B")
	expect_eq "$B $B" "$(result "$id")"
	id=$(reeve submit sh "$SHOW" --batch "$(reeve batch open nightly)" --traceparent "$B")
	expect_eq "$B" "$(result "$id")"
	TRACEPARENT=$A reeve schedule add hourly --every 1h sh "$SHOW" >/dev/null
	TRACEPARENT=$A reeve schedule run hourly >/dev/null
	expect_eq '' "$(result "$(sql "select max(task_id) from schedule_runs")")"
}

# A function in C gets it in its struct, and a program in C sets it in the spec.
test_c_programs_submit_and_get_it() {
	start_postgres
	start_manager
	start traced "$REEVE_BIN/traced-worker" "$REEVE_MANAGER"
	id=$(TRACEPARENT=$A reeve submit traced)
	expect_eq "$A" "$(result "$id")"
	child=$(sql "select task_id from task_history where key = 'child of $id'" || true)
	wait_until 10 "[ \"\$(sql \"select count(*) from task_history where key = 'child of $id'\")\" = 1 ]"
	expect_eq "$A" "$(sql "select result from task_history where key = 'child of $id'")" "child $child"
}

test_it_is_kept_and_shown() {
	local id
	token() { reeve show "$id" --json | jq -r .token; }
	start_postgres
	start_manager
	id=$(reeve submit sh 'exit 65' --traceparent "$A" --key k --key-version 1)
	expect_eq "$A" "$(reeve list --json | jq -r .traceparent)"
	expect_match "^traceparent  ?$A\$" "$(reeve show "$id" | grep trace)"
	expect_eq "$A" "$(reeve fetch --type sh --json | jq -r .traceparent)"
	reeve report "$id" "$(token)" --fatal no >/dev/null
	expect_eq "dead $A" "$(reeve show "$id" --json | jq -r '"\(.status) \(.traceparent)"')"
	expect_eq "$A" "$(sql 'select traceparent from task_history')"
	# A retry keeps it; a newer version has its own, whether the task waits, executes or has ended.
	reeve retry "$id" >/dev/null
	expect_eq "queued $A" "$(sql 'select status, traceparent from tasks' | tr '|' ' ')"
	reeve submit sh - --key k --key-version 2 --traceparent "$B" </dev/null >/dev/null 2>&1
	expect_eq "$B" "$(reeve show "$id" --json | jq -r .traceparent)"
	expect_eq "$B" "$(reeve fetch --type sh --json | jq -r .traceparent)"
	reeve submit sh - --key k --key-version 3 --traceparent "$A" </dev/null >/dev/null 2>&1
	expect_eq "executing $B" "$(reeve show "$id" --json | jq -r '"\(.status) \(.traceparent)"')"
	reeve report "$id" "$(token)" --completed >/dev/null
	expect_eq "queued $A" "$(reeve show "$id" --json | jq -r '"\(.status) \(.traceparent)"')"
	reeve cancel "$id" >/dev/null
	expect_eq "cancelled $A" "$(reeve show "$id" --json | jq -r '"\(.status) \(.traceparent)"')"
	reeve submit sh - --key k --key-version 4 </dev/null >/dev/null 2>&1
	expect_eq 'queued ' "$(reeve show "$id" --json | jq -r '"\(.status) \(.traceparent)"')"
}

# The same is refused by the command, by managers (schedules have no check of their own before) and in SQL.
test_what_is_invalid_is_refused() {
	local text
	start_postgres
	start_manager
	while read -r text; do
		expect_fail 4 reeve submit nothing --traceparent "$text"
		expect_match 'traceparent (is not a W3C traceparent|has a trace id or parent id of zeros)' "$OUTPUT" "$text"
		printf '{"type": "nothing"}\n{"type": "nothing", "traceparent": "%s"}\n' "$text" >"$DIR/tasks.jsonl"
		expect_fail 4 reeve submit --bulk "$DIR/tasks.jsonl"
		expect_match 'tasks.jsonl:2: traceparent ' "$OUTPUT"
		expect_fail 1 sql "select submit('nothing', traceparent => '$text')"
		expect_match 'it must be a W3C traceparent' "$OUTPUT" "$text"
	done <<-END
		x
		${A%-01}
		$A-more
		${A^^}
		ff${A#00}
		0${A#00}
		00-00000000000000000000000000000000-b7ad6b7169203331-01
		00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01
		00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0g
		00_0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01
		cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01.more
	END
	expect_fail 2 reeve submit nothing --traceparent ''
	# What another program has left in the environment is no reason to refuse a task.
	expect_match 'TRACEPARENT is ignored: it is not a W3C traceparent' "$(TRACEPARENT=bad reeve submit nothing 2>&1)"
	expect_eq '1|' "$(sql 'select count(*), max(traceparent) from tasks')"
	reeve submit nothing --traceparent "$LATER" >/dev/null
	sql "select submit('nothing', traceparent => '$LATER')" >/dev/null
	expect_eq 2 "$(sql "select count(*) from tasks where traceparent = '$LATER'")"
}

run_tests
