#!/usr/bin/env bash
# Pipelines: tasks pass through stages, and the result of one stage is the input of the next. (pipeline_queues.sh:
# stages with queues of their own; pipeline_definitions.sh: what is defined and refused.)
# timeout 900
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tasks.bash"
. "$(dirname "$0")/pipelines.bash"

# Sets the handlers: `a`, `b` and `c` append their letter to the input; `choose` takes the name of the next stage from
# its input.
chain_handlers() {
	handlers <<-'END'
		[handler a]
		exec = /bin/bash -c "cat; printf a"
		[handler b]
		exec = /bin/bash -c "cat; printf b"
		[handler c]
		exec = /bin/bash -c "cat; printf c"
		[handler echo]
		exec = /bin/cat
		[handler sh]
		exec = /bin/bash
		[handler choose]
		exec = /bin/bash -c "read -r stage rest; printf '{\"stage\": \"%s\"}' \"$stage\" >&3; printf '%s' \"$rest\""
	END
}

ABC='{"name": "abc", "stages": [{"name": "one", "type": "a"}, {"name": "two", "type": "b"}, {"name": "three", "type": "c"}]}'

# Prints the recorded attempts of a task: stage, type, input, result.
stages_of() { # ID
	sql "select concat_ws(' ', stage, type, details, result) from task_attempts where task_id = $1 order by token" | paste -sd ,
}

test_a_task_passes_through_the_stages_in_order() {
	chain_handlers
	start_postgres
	start_manager
	start_worker
	expect_eq 'pipeline abc: 3 stages, defined' "$(define "$ABC")"
	expect_eq 'pipeline abc: 3 stages, unchanged' "$(define "$ABC")"
	id=$(reeve submit --pipeline abc x --delay 1h)
	expect_eq 'a b c' "$(sql "select string_agg(type, ' ' order by id) from routes")" 'the routes are there before they are needed'
	expect reeve retry "$id" >/dev/null
	expect_eq xabc "$(reeve wait "$id" --json | jq -r .result)"
	expect_eq 'completed abc three 3 c 1' "$(reeve show "$id" --json | jq -r '[.status, .pipeline, .stage, .step, .type, .attempt] | join(" ")')"
	expect_match 'pipeline +abc.*stage +three' "$(reeve show "$id" | tr '\n' ' ')"
	expect_eq "abc three" "$(reeve list --json | jq -r '[.pipeline, .stage] | join(" ")')"
	expect_eq 'one a x xa,two b xa xab' "$(stages_of "$id")"
	expect_eq 'submitted retried claimed completed stage claimed completed stage claimed completed' "$(events "$id")"
	expect_eq 'one -> two,two -> three' "$(event_field "$id" stage note | paste -sd ,)"
	expect_eq 0 "$(sql "select count(*) from assignments where open > 0")"
	# The executions of early and late stages are counted by their types.
	expect_eq 'a 1 1 b 1 1 c 1 1' "$(reeve stats --by type --json | jq -sr '[.[] | .counts[]? // . | [.type, .count, .completed] | join(" ")] | sort | join(" ")')"
	# A pipeline of one stage is a task like any other.
	define '{"name": "lone", "stages": [{"name": "all", "type": "b"}]}'
	expect_eq yb "$(reeve submit --pipeline lone y --wait)"
}

test_the_handler_chooses_the_stage() {
	chain_handlers
	start_postgres
	start_manager
	start_worker
	define '{"name": "p", "max_steps": 6, "stages": [{"name": "first", "type": "choose"}, {"name": "second", "type": "choose"},
		{"name": "third", "type": "choose"}, {"name": "last", "type": "echo"}]}'
	# Forward, back, and to the same stage.
	id=$(reeve submit --pipeline p "$(printf 'third\nsecond\nsecond\nlast\nend')")
	handlers_of() { sql "select string_agg(stage, ' ' order by token) from task_attempts where task_id = $1"; }
	cat >"$DIR/walk" <<-'END'
		#!/bin/bash
		read -r stage
		printf '{"directive": "SUCCESS", "stage": "%s"}' "$stage" >&3
		cat
	END
	chmod +x "$DIR/walk"
	stop worker
	handlers <<-END
		[handler choose]
		exec = $DIR/walk
		[handler echo]
		exec = /bin/cat
		[handler sh]
		exec = /bin/bash
	END
	reeve cancel "$id" >/dev/null || true
	start_worker
	id=$(reeve submit --pipeline p "$(printf 'third\nsecond\nsecond\nlast\nthe rest')")
	expect_eq 'the rest' "$(reeve wait "$id" --json | jq -r .result)"
	expect_eq 'first third second second' "$(handlers_of "$id")"
	expect_eq 'completed last 5' "$(at "$id")"
	# An early end.
	id=$(reeve submit --pipeline p "$(printf 'second\nend\nand out')")
	expect_eq 'and out' "$(reeve wait "$id" --json | jq -r .result)"
	expect_eq 'completed second 2' "$(at "$id")"
	# If the handler names no stage, the pipeline's order applies. The stage is in the environment.
	define '{"name": "env", "stages": [{"name": "here", "type": "sh"}]}'
	expect_eq here "$(reeve submit --pipeline env 'printf %s "$REEVE_STAGE"' --wait)"
	expect_eq none "$(reeve submit sh 'printf %s "${REEVE_STAGE:-none}"' --wait)"
	# A stage that does not exist.
	id=$(reeve submit --pipeline p "$(printf 'second\nfourth\nrest')")
	expect_fail 1 reeve wait "$id"
	expect_eq 'dead unknown_stage stage "fourth" was named; pipeline "p" has "first", "second", "third", "last"' \
		"$(field "$id" status) $(field "$id" error_code) $(field "$id" last_error)"
	expect_eq 'dead second 2' "$(at "$id")"
	expect_eq 'rest f' "$(sql "select result, recoverable from task_history where task_id = $id" | tr '|' ' ')"
	# A task without a pipeline.
	id=$(reeve submit choose "$(printf 'second\nrest')")
	expect_fail 1 reeve wait "$id"
	expect_eq 'unknown_stage stage "second" was named, and the task is of no pipeline' "$(field "$id" error_code) $(field "$id" last_error)"
	# A cycle ends at the maximum number of steps.
	id=$(reeve submit --pipeline p "$(yes first | head -n 20)")
	expect_fail 1 reeve wait "$id"
	expect_eq 'dead first 6 too_many_steps' "$(at "$id") $(field "$id" error_code)"
	expect_eq 5 "$(sql "select count(*) from task_attempts where task_id = $id")"
	# A stage that is named together with a failure is invalid.
	id=$(reeve submit sh 'printf "{\"directive\": \"NO_RETRY\", \"error\": \"no\", \"stage\": \"x\"}" >&3')
	expect_fail 1 reeve wait "$id"
	expect_match 'no .*stage cannot be set together with NO_RETRY' "$(field "$id" last_error)"
	id=$(reeve submit sh 'printf "{\"stage\": 7}" >&3')
	expect_fail 1 reeve wait "$id"
	expect_match 'stage must be a string' "$(field "$id" last_error)"
	# A pull client can name a stage, too.
	define '{"name": "hand", "stages": [{"name": "one", "type": "h1"}, {"name": "two", "type": "h2"}, {"name": "three", "type": "h3"}]}'
	reeve submit --pipeline hand go --queue hands >/dev/null
	take --queue hands
	expect_eq 'one go' "$stage $input"
	expect_fail 2 reeve report "$id" "$token" --failed x --stage three
	reeve report "$id" "$token" --completed gone --stage three >/dev/null
	take --queue hands
	expect_eq 'three gone' "$stage $input"
	reeve report "$id" "$token" --completed 'done' >/dev/null
	expect_eq 'completed three 2' "$(at "$id")"
}

test_results_become_inputs_byte_for_byte() {
	start_postgres
	start_manager
	handlers <<-END
		[handler echo]
		exec = /bin/cat
	END
	start_worker
	define '{"name": "copy", "stages": [{"name": "one", "type": "echo"}, {"name": "two", "type": "echo"}, {"name": "three", "type": "echo"}]}'
	printf 'a "quoted" \\ back\\u0041slash\ttab\r\n€ 日本 %%s \x7f{"json": [null]}\n\n' >"$DIR/odd"
	head -c 300000 /dev/urandom | base64 >"$DIR/long"
	: >"$DIR/empty"
	for name in odd long empty; do
		id=$(reeve submit --pipeline copy - <"$DIR/$name")
		reeve wait "$id" >/dev/null
		reeve show "$id" --json | jq -j '.result // ""' >"$DIR/result"
		expect cmp "$DIR/$name" "$DIR/result"
		reeve show "$id" --json | jq -j '.details // ""' >"$DIR/details"
		expect cmp "$DIR/$name" "$DIR/details"
	done
}

test_each_stage_has_its_own_retries() {
	start_postgres
	start_manager
	handlers <<-'END'
		[handler flaky]
		exec = /bin/bash -c "[ $REEVE_ATTEMPT = 3 ] && printf fine"
		[handler once]
		exec = /bin/bash -c "echo broken >&2; exit 1"
	END
	start_worker
	reeve queue set default --retry-limit 0 >/dev/null # stages say it themselves
	define '{"name": "p", "stages": [
		{"name": "patient", "type": "flaky", "max_attempts": 3, "backoff": "fixed:200ms", "jitter": 0, "timeout": "20s"},
		{"name": "hasty", "type": "once", "max_attempts": 1, "priority": 7}]}'
	id=$(reeve submit --pipeline p x --priority 2)
	expect_fail 1 reeve wait "$id"
	expect_eq 'dead hasty 2 1 1 60000 7' "$(at "$id") $(reeve show "$id" --json | jq -r '[.attempt, .max_attempts, .timeout_ms, .priority] | join(" ")')"
	expect_eq 'patient failed 200,patient failed 200,patient completed 0' "$(sql "select concat_ws(' ', stage, outcome,
		round(extract(epoch from run_at - last_updated) * 1000)) from task_attempts where task_id = $id order by token" | paste -sd ,)"
	expect_eq 't broken fine' "$(sql "select recoverable, last_error, details from task_history where task_id = $id" | tr '|' ' ')"
	# A manual retry runs the stage in which the task died, with the same input.
	stop worker
	handlers <<-'END'
		[handler once]
		exec = /bin/bash -c "cat; printf ' now'"
	END
	start_worker
	reeve retry "$id" >/dev/null
	expect_eq 'fine now' "$(reeve wait "$id" --json | jq -r .result)"
	expect_eq 'completed hasty 2' "$(at "$id")"
}

test_a_cancel_during_a_stage_wins_over_the_next_stage() {
	start_postgres
	start_manager
	define '{"name": "p", "stages": [{"name": "one", "type": "h1"}, {"name": "two", "type": "h2"}]}'
	define '{"name": "other", "stages": [{"name": "only", "type": "h3"}]}'
	# A cancel.
	reeve submit --pipeline p go --queue q >/dev/null
	take --queue q
	reeve cancel "$id" --reason 'not wanted' >/dev/null
	reeve report "$id" "$token" --completed r1 >/dev/null
	expect_eq 'cancelled one 1 not wanted' "$(at "$id") $(field "$id" last_error)"
	# In the last stage the completion wins.
	reeve submit --pipeline p go --queue q >/dev/null
	take --queue q
	reeve report "$id" "$token" --completed r1 >/dev/null
	take --queue q
	reeve cancel "$id" >/dev/null
	reeve report "$id" "$token" --completed r2 >/dev/null
	expect_eq 'completed two 2 r2' "$(at "$id") $(field "$id" result)"
	# While the task waits between two stages.
	reeve submit --pipeline p go --queue q >/dev/null
	take --queue q
	reeve report "$id" "$token" --completed r1 >/dev/null
	expect_eq 'queued two 2' "$(at "$id")"
	reeve cancel "$id" >/dev/null
	expect_eq 'cancelled two 2' "$(at "$id")"
	# A manual retry of a pull client's attempt ends it at once: the stage runs again.
	reeve submit --pipeline p go --queue q >/dev/null
	take --queue q
	reeve retry "$id" --executing >/dev/null
	expect_eq 'queued one 1' "$(at "$id")"
	expect_fail 4 reeve report "$id" "$token" --completed r1
	take --queue q
	reeve report "$id" "$token" --completed r1 >/dev/null
	expect_eq 'queued two 2' "$(at "$id")"
	reeve cancel "$id" >/dev/null
	# A kill, and a stop of the queue.
	reeve submit --pipeline p go --queue q >/dev/null
	take --queue q
	reeve discard "$id" >/dev/null
	reeve report "$id" "$token" --completed r1 >/dev/null
	expect_eq 'dead one 1 discarded' "$(at "$id") $(field "$id" error_code)"
	reeve submit --pipeline p go --queue stops >/dev/null
	take --queue stops
	reeve queue stop stops >/dev/null
	wait_until 20 '[ "$(field "$id" cancel_requested)" = true ]'
	reeve report "$id" "$token" --completed r1 >/dev/null
	wait_until 20 '[ "$(reeve queue status stops --json | jq -r .state)" = stopped ]'
	expect_eq 'cancelled one 1' "$(at "$id")" # as a stop does with what runs
	# A newer version: without the pipeline, in it again, and in another one.
	first=$(reeve submit --pipeline p go --queue v --key k --key-version 1)
	take --queue v
	expect_eq "$first" "$(reeve submit plain new --queue v --key k --key-version 2 2>/dev/null)"
	reeve report "$id" "$token" --completed r1 --stage two >/dev/null
	expect_eq 'queued plain new ' "$(field "$id" status) $(field "$id" type) $(field "$id" details) $(field "$id" pipeline)"
	take --queue v
	expect_eq ' new' "$stage $input"
	reeve submit --pipeline other newer --queue v --key k --key-version 3 >/dev/null 2>&1
	reeve report "$id" "$token" --completed r1 >/dev/null
	expect_eq 'queued only 1 other h3 newer' "$(at "$id") $(field "$id" pipeline) $(field "$id" type) $(field "$id" details)"
	reeve submit --pipeline p newest --queue v --key k --key-version 4 >/dev/null 2>&1 # while it waits
	expect_eq 'queued one 1 p h1' "$(at "$id") $(field "$id" pipeline) $(field "$id" type)"
	take --queue v
	reeve report "$id" "$token" --completed r1 >/dev/null
	take --queue v
	reeve report "$id" "$token" --completed r2 >/dev/null
	expect_eq 'completed two 2' "$(at "$id")"
	expect_eq "$first" "$(reeve submit plain again --queue v --key k --key-version 5 2>/dev/null)" # ended
	expect_eq 'queued  plain' "$(field "$first" status) $(field "$first" pipeline) $(field "$first" type)"
	expect_eq "$first" "$id"
	expect_eq 0 "$(sql "select count(*) from assignments where open > 0")"
}

test_a_batch_counts_once_and_a_key_stays() {
	chain_handlers
	start_postgres
	start_manager
	start_worker
	define "$ABC"
	batch=$(reeve batch open b)
	printf '%s\n' '{"pipeline": "abc", "details": "x", "key": "k1"}' '{"type": "echo", "details": "plain"}' \
		'{"pipeline": "abc", "details": "y"}' >"$DIR/bulk"
	mapfile -t ids < <(reeve submit --bulk "$DIR/bulk" --batch "$batch")
	expect_eq 3 "${#ids[@]}"
	reeve wait "${ids[@]}" >/dev/null
	expect_eq 'xabc plain yabc' "$(for id in "${ids[@]}"; do field "$id" result; done | paste -sd ' ')"
	expect_eq "${ids[0]}" "$(reeve submit --pipeline abc other --key k1 2>/dev/null)"
	reeve batch close "$batch" >/dev/null
	reeve batch wait "$batch" >/dev/null
	expect_eq '3 0 3 0' "$(reeve batch report "$batch" --json | jq -r '.batch | [.submitted, .pending, .completed, .failed] | join(" ")')"
	expect_eq 'abc three' "$(reeve batch report "$batch" --json | jq -r '.tasks[0] | [.pipeline, .stage] | join(" ")')"
	expect_eq 1 "$(sql "select count(*) from keys where key = 'k1' and expires_at is null")"
}

test_a_lost_attempt_does_not_take_the_task_on() {
	start_postgres
	start_manager --lease 1s --heartbeat 400ms --expiry-grace 2500ms
	define '{"name": "p", "stages": [{"name": "one", "type": "h1", "timeout": "1s"}, {"name": "two", "type": "h2"}]}'
	reeve submit --pipeline p go --queue q >/dev/null
	take --queue q
	before=$token task=$id
	wait_status 30 "$task" failed
	expect_fail 4 reeve report "$task" "$before" --completed late
	expect_eq 'failed one 1' "$(at "$task")"
	sql "update tasks set timeout_ms = 600000 where id = $task" # the next attempt does not expire within this test
	take --queue q
	expect_eq "$task one go" "$id $stage $input"
	expect_fail 4 reeve report "$task" "$before" --completed late --stage two
	reeve report "$task" "$token" --completed good >/dev/null
	expect_eq 'queued two 2 good' "$(at "$task") $(field "$task" details)"
	# The same report again gets the same ack, and changes nothing.
	expect reeve report "$task" "$token" --completed good >/dev/null
	expect_fail 4 reeve report "$task" "$before" --completed late
	expect_eq 'queued two 2 good' "$(at "$task") $(field "$task" details)"
	expect_eq 1 "$(event_field "$task" stage note | wc -l)"
}

test_the_example_of_the_page_works() {
	local line want
	shape() { # times and who it was are each run's own; ends of lines are
		sed -E 's/[0-9]{4}-[0-9-]+ [0-9:.]+Z/TIME/; s/by [^ ]+@[^ ]+$/by CALLER/; s/ +$//' | sed '/^$/d'
	}
	start_postgres
	start_manager
	handlers <<-'END'
		[handler download]
		exec = /bin/bash -c "printf 'bytes of '; cat"
		[handler resize]
		exec = /bin/bash -c "printf 'small('; cat; printf ')'"
		[handler upload]
		exec = /bin/bash -c "printf 'stored '; cat; echo"
	END
	start_worker
	cd "$DIR"
	awk '/^## An example/ { on = 1; next } /^## / { on = 0 } on && /^    / { print substr($0, 5); next } on && /^$/ { print }' \
		"$TOP/docs/pipelines.md" >page
	sed -n '/^{/,/^\$/p' page | grep -v '^\$' >thumbnails.json
	awk '/^\$/ { began = 1 } began' page >example
	expect_eq 2 "$(grep -c '^\$ ' example)" 'documented commands'
	while read -r line; do
		want=$(awk -v command="$line" '$0 == command { on = 1; next } /^\$ / { on = 0 } on' example | shape)
		eval "${line#\$ }" >said 2>&1
		expect_eq "$want" "$(shape <said)" "$line"
	done < <(grep '^\$ ' example)
	expect_match $'max steps +100\ndefined +TIME, by CALLER\nSTAGE +TYPE +NEXT .*\nshrink +resize +store +2 +1m +exp:1s:1h +-\n' \
		"$(reeve pipeline show thumbnails | shape)"
	cd "$TOP"
}

# Managers are killed repeatedly while tasks pass through stages: each step happens once.
test_managers_are_killed_again_and_again() {
	local i pids=() seed=${REEVE_TEST_SEED:-$RANDOM}
	note "REEVE_TEST_SEED=$seed"
	chain_handlers
	start_postgres
	start_manager manager
	start_manager two
	export REEVE_MANAGER="${URL[manager]},${URL[two]}"
	start_worker worker --concurrency 8
	define "$ABC" >/dev/null
	for i in 1 2 3; do
		(
			for k in 1 2 3 4 5 6 7 8; do
				for n in $(seq 1 12); do printf '{"pipeline":"abc","details":"%s.%s.%s"}\n' $i $k "$n"; done >"$DIR/tasks.$i"
				reeve submit --bulk "$DIR/tasks.$i" --queue q$i >/dev/null
			done
		) &
		pids+=($!)
	done
	RANDOM=$seed
	kill_managers 12
	export REEVE_MANAGER="${URL[manager]},${URL[two]}"
	for i in "${pids[@]}"; do wait "$i"; done
	wait_until 120 '[ "$(sql "select count(*) from tasks")" = 0 ]'
	expect_eq 288 "$(sql "select count(*) from task_history where status = 'completed'")"
	# Each stage was completed once, and its input was the result of the stage before it.
	expect_eq '' "$(sql "select h.task_id, h.result, h.step, a.* from task_history h cross join lateral (
			select count(*) filter (where a.outcome = 'completed') as n, count(*) filter (where a.outcome <> 'completed') as others,
				string_agg(a.stage, ' ' order by token) filter (where a.outcome = 'completed') as stages,
				min(a.details) filter (where a.stage = 'one' and a.outcome = 'completed') as first,
				(select count(*) from task_events e where e.task_id = h.task_id and e.event = 'stage') as steps
			from task_attempts a where a.task_id = h.task_id) a
		where (a.n, a.stages, a.steps, h.step) is distinct from (2, 'one two', 2, 3) or h.result <> a.first || 'abc'")"
	expect_eq 0 "$(sql "select count(*) from assignments where open > 0")"
}

# Submits that wait for the same connection are executed together where possible, and each gets its own answer.
test_submits_that_wait_for_each_other() {
	start_postgres
	start_manager one
	local n pid pids=()
	for n in 1 2 3; do
		define '{"name": "p'$n'", "stages": [{"name": "s", "type": "t'$n'"}]}'
	done
	pid=$(sql "select pid from pg_stat_activity where application_name = 'reeve-manager routes'")
	kill -STOP "$pid"
	for n in 1 2 3 1 2 3; do
		reeve submit --pipeline p$n "$n" >"$DIR/pipeline.$((${#pids[@]}))" &
		pids+=($!)
		reeve submit new$n "$n" --queue q$n >"$DIR/type.$((${#pids[@]}))" &
		pids+=($!)
	done
	sleep 0.7 # they have come to where they wait
	kill -CONT "$pid"
	for pid in "${pids[@]}"; do
		wait "$pid"
		expect_eq 0 $? 'exit code of a submit'
	done
	expect_eq '1 default t1,1 q1 new1,2 default t2,2 q2 new2,3 default t3,3 q3 new3' \
		"$(sql "select distinct concat_ws(' ', details, queue, type) from tasks order by 1" | paste -sd ,)"
	expect_eq 12 "$(sql 'select count(*) from tasks')"
}

run_tests
