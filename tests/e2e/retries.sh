#!/usr/bin/env bash
# Tasks that fail: retried after a growing delay, given up in the end, or retried manually.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tasks.bash"

start_postgres
start_manager
start_worker worker --concurrency 4

# A script that fails until `make_good` lets it succeed.
UNTIL_GOOD='[ -e "$REEVE_TEST_DIR/good.$REEVE_TASK_ID" ] && printf "attempt %s" "$REEVE_ATTEMPT" && exit
echo "attempt $REEVE_ATTEMPT failed" >&2
exit 3'

make_good() { # ID
	touch "$SUITE_DIR/good.$1"
}

# The retry delays double after each attempt, up to a maximum, minus a random part. All times are the database's.
test_delays_grow_to_a_maximum_with_jitter() {
	for i in $(seq 1 20); do echo '{"details":"exit 3"}'; done | reeve submit --bulk - sh --queue rests --max-attempts 6 \
		--retry-base 100ms --retry-max 400ms >"$DIR/ids"
	expect_fail 1 reeve wait - <"$DIR/ids"
	expect_eq 20 "$(sql "select count(*) from task_history where queue = 'rests' and status = 'dead' and attempt = 6")"
	sql "create temp view rests as
			select a.task_id, a.attempt, extract(epoch from a.run_at - a.last_updated) * 1000 as rest,
				least(100 * 2 ^ (a.attempt - 1), 400) as full_rest, a.run_at, n.token as next
			from task_attempts a join task_history h using (task_id)
				join lateral (select token from task_attempts x where x.task_id = a.task_id and x.attempt = a.attempt + 1
					union all select h.token where h.attempt = a.attempt + 1) n on true
			where h.queue = 'rests';
		select attempt, count(*) from rests group by 1 order by 1;
		select count(*) from rests where rest > full_rest + 0.001 or rest < full_rest / 2;
		select count(*) from rests where next < run_at;
		select count(distinct round((rest / full_rest)::numeric, 3)) > 30 from rests;
		select min(next - run_at) < '500ms' from rests" >"$DIR/rests"
	expect_eq '1|20 2|20 3|20 4|20 5|20 0 0 t t' "$(xargs <"$DIR/rests")"
}

test_the_first_retry_delay_is_a_second_by_default() {
	id=$(reeve submit sh 'exit 3')
	wait_status 20 "$id" failed
	expect_eq t "$(sql "select run_at - last_updated between '500ms' and '1s' from task_attempts where task_id = $id and attempt = 1")"
	expect_eq 'submitted claimed failed' "$(events "$id" | cut -d' ' -f1-3)"
	reeve cancel "$id" >/dev/null
}

test_a_list_shows_why_a_task_failed() {
	id=$(reeve submit sh 'exit 3' --retry-base 1h)
	wait_status 20 "$id" failed
	expect_match 'exit:3: exit status 3' "$(reeve list --status failed)"
	reeve cancel "$id" >/dev/null
}

test_a_fatal_error_is_never_retried() {
	id=$(reeve submit sh 'echo "the data is bad" >&2; exit 65' --max-attempts 10 --retry-base 1ms)
	expect_fail 1 reeve wait "$id"
	expect_eq dead "$(field "$id" status)"
	expect_eq 1 "$(field "$id" attempt)"
	expect_eq exit:65 "$(field "$id" error_code)"
	expect_eq 'the data is bad' "$(field "$id" last_error)"
	expect_eq 'submitted claimed dead' "$(events "$id")"
	# A fatal error after failures that were not fatal.
	id=$(reeve submit sh '[ $REEVE_ATTEMPT = 3 ] && exit 65; exit 1' --max-attempts 10 --retry-base 1ms)
	expect_fail 1 reeve wait "$id"
	expect_eq '3 exit:65' "$(field "$id" attempt) $(field "$id" error_code)"
}

test_attempts_are_used_up() {
	id=$(reeve submit sh 'echo "no $REEVE_ATTEMPT" >&2; exit 3' --max-attempts 3 --retry-base 10ms)
	expect_fail 1 reeve wait "$id"
	expect_match 'dead +3 .* exit:3: no 3' "$OUTPUT"
	expect_eq 'dead 3 exit:3 no 3' "$(field "$id" status) $(field "$id" attempt) $(field "$id" error_code) $(field "$id" last_error)"
	expect_eq 'submitted claimed failed claimed failed claimed dead' "$(events "$id")"
	expect_eq $'exit:3: no 1\nexit:3: no 2' "$(event_field "$id" failed note)"
	expect_eq 'exit:3: no 3' "$(event_field "$id" dead note)"
	expect_eq '1 2 3' "$(event_field "$id" claimed attempt | xargs)"
	id=$(reeve submit sh 'exit 3' --max-attempts 1)
	expect_fail 1 reeve wait "$id"
	expect_eq 'submitted claimed dead' "$(events "$id")"
}

test_success_ends_the_failures() {
	id=$(reeve submit sh '[ $REEVE_ATTEMPT = 3 ] || exit 3; printf good' --retry-base 10ms)
	reeve wait "$id"
	expect_eq 'completed 3 good' "$(field "$id" status) $(field "$id" attempt) $(field "$id" result)"
	expect_eq 'submitted claimed failed claimed failed claimed completed' "$(events "$id")"
	expect [ "$(field "$id" first_started)" '<' "$(field "$id" started)" ]
	# The last error stays, and is called an earlier one.
	expect_match $'earlier error:\nexit status 3' "$(reeve show "$id")"
}

test_the_end_of_standard_error_is_the_error() {
	error_of() { # SCRIPT
		id=$(reeve submit sh "$1" --max-attempts 1)
		expect_fail 1 reeve wait "$id"
		expect_eq dead "$(field "$id" status)"
		reeve show "$id" --json | jq -r .last_error
	}
	expect_eq 'exit status 7' "$(error_of 'echo "not an error"; exit 7')"
	expect_match 'the very end$' "$(error_of 'head -c 3000000 /dev/zero | tr "\0" x >&2; echo the very end >&2; exit 1')"
	long=$(error_of 'head -c 3000000 /dev/zero | tr "\0" x >&2; exit 1')
	expect [ ${#long} -lt 20000 ]
	expect [ ${#long} -gt 1000 ]
	expect_match 'bad.*byte' "$(error_of 'printf "bad\xff\xfebyte" >&2; exit 1')"
	expect_match 'signal 9' "$(error_of 'kill -9 $$')"
	expect_eq signal:9 "$(field "$(reeve list --limit 1 --json | jq .id)" error_code)"
	id=$(reeve submit sh 'printf "a\0b\e[31mred" >&2; exit 1' --max-attempts 1)
	expect_fail 1 reeve wait "$id"
	expect_no_match $'\e' "$OUTPUT"
	expect_match 'a.*b' "$(field "$id" last_error)"
}

# No worker has such a handler: the task waits, and runs when a worker with the handler starts.
test_a_type_without_a_worker_waits() {
	id=$(reeve submit rare hello)
	expect_fail 1 reeve wait "$id" --max-wait 1s
	expect_eq queued "$(field "$id" status)"
	handlers <<-END
		[handler rare]
		exec = /bin/cat
	END
	start_worker rare
	expect_eq completed "$(reeve wait "$id" --json | jq -r .status)"
	expect_eq rare "$(field "$id" worker)"
}

test_a_failed_task_is_retried_now() {
	id=$(reeve submit sh "$UNTIL_GOOD" --retry-base 1h)
	wait_status 20 "$id" failed
	make_good "$id"
	reeve retry "$id" >/dev/null
	reeve wait "$id" >/dev/null
	expect_eq 'completed 2' "$(field "$id" status) $(field "$id" attempt)"
	expect_eq 'submitted claimed failed retried claimed completed' "$(events "$id")"
	expect_match '@' "$(event_field "$id" retried actor)"
}

test_a_delayed_task_is_made_due() {
	id=$(reeve submit echo hi --delay 1h)
	reeve retry "$id" >/dev/null
	reeve wait "$id" >/dev/null
	expect_eq 'submitted retried claimed completed' "$(events "$id")"
}

test_a_dead_task_is_retried_from_history_and_keeps_its_audit() {
	id=$(reeve submit sh "$UNTIL_GOOD" --max-attempts 2 --retry-base 10ms --retry-max 1h --key dead --queue again \
		--priority 3 --source someone --timeout 7s)
	expect_fail 1 reeve wait "$id"
	kept='.id, .queue, .type, .priority, .max_attempts, .timeout_ms, .key, .source, .details, .created, .first_started'
	before=$(reeve show "$id" --json | jq -c "[$kept]")
	reeve retry "$id" >/dev/null
	expect_fail 1 reeve wait "$id"
	make_good "$id"
	reeve retry "$id" >/dev/null
	reeve wait "$id" >/dev/null
	expect_eq "$before" "$(reeve show "$id" --json | jq -c "[$kept]")"
	expect_eq 'attempt 1' "$(field "$id" result)"
	expect_eq 'completed 1' "$(field "$id" status) $(field "$id" attempt)"
	expect_eq 'submitted claimed failed claimed dead retried claimed failed claimed dead retried claimed completed' "$(events "$id")"
	expect_eq '1 2 1 2 1' "$(event_field "$id" claimed attempt | xargs)"
	expect_eq $'exit:3: attempt 2 failed\nexit:3: attempt 2 failed' "$(event_field "$id" dead note)"
	reeve audit "$id" --json | jq -r .token | sort -nc
	# The key still belongs to this task.
	expect_eq "$id" "$(reeve submit sh --key dead --queue again 2>/dev/null)"
}

test_cancelled_and_completed_tasks_are_retried_too() {
	id=$(reeve submit sh 'printf "%s" "$REEVE_ATTEMPT $REEVE_TOKEN"' --delay 1h)
	reeve cancel "$id" --reason first >/dev/null
	reeve retry "$id" >/dev/null
	reeve wait "$id" >/dev/null
	first=$(field "$id" result)
	reeve retry "$id" >/dev/null
	reeve wait "$id" >/dev/null
	second=$(field "$id" result)
	expect_eq '1 1' "${first% *} ${second% *}"
	expect [ "${second#* }" -gt "${first#* }" ]
	expect_eq 'submitted cancel_requested cancelled retried claimed completed retried claimed completed' "$(events "$id")"
	expect_eq false "$(reeve show "$id" --json | jq .cancel_requested)"
}

test_many_are_retried_at_once_and_each_is_reported() {
	for i in $(seq 1 50); do echo '{"details":"exit 65"}'; done | reeve submit --bulk - sh --queue many >"$DIR/ids"
	expect_fail 1 reeve wait - <"$DIR/ids"
	fresh=$(reeve submit nothing --delay 1h)
	code=0
	reeve retry - 999999999 "$fresh" --json <"$DIR/ids" >"$DIR/told" || code=$?
	expect_eq 4 $code
	expect_eq 51 "$(jq -r 'select(.changed) | .id' "$DIR/told" | wc -l)"
	expect_eq '{"id":999999999,"not_found":true}' "$(grep not_found "$DIR/told")"
	expect_fail 1 reeve wait - <"$DIR/ids"
	expect_eq 100 "$(sql "select count(*) from audit_log l join task_history h on h.task_id = l.task_id
		where h.queue = 'many' and l.event = 'dead'")"
	# Without ids there is nothing to do: `reeve list … | jq .id | reeve retry -` when nothing is dead.
	for command in retry cancel discard wait; do
		expect_eq 0 "$(reeve $command - </dev/null 2>&1; echo $?)" "$command"
	done
}

# Twenty callers retry a task at once: it does not run twenty times.
test_a_retry_by_many_at_once_happens_once() {
	id=$(reeve submit sh 'echo >>"$REEVE_TEST_DIR/runs.$REEVE_TASK_ID"; exit 65')
	expect_fail 1 reeve wait "$id"
	for i in $(seq 1 20); do reeve retry "$id" --json >"$DIR/told.$i" & done
	wait
	expect_fail 1 reeve wait "$id"
	runs=$(wc -l <"$SUITE_DIR/runs.$id")
	# Each retry found the task either ended (one more run) or waiting (due now, no further run).
	retried=$(sql "select count(*) from task_attempts where task_id = $id and status = 'dead'")
	expect_eq $((retried + 1)) "$runs"
}

test_a_running_task_is_not_retried() {
	id=$(reeve submit sh "$HOLD")
	wait_until 20 "[ -e $SUITE_DIR/began.$id.1 ]"
	token=$(field "$id" token)
	expect_fail 4 reeve retry "$id"
	expect_match "$id +executing +no +it is executing" "$OUTPUT"
	expect_eq "$token" "$(field "$id" token)"
	touch "$SUITE_DIR/released"
	reeve wait "$id" >/dev/null
	expect_eq 'submitted claimed completed' "$(events "$id")"
}

test_more_attempts_are_given_and_taken() {
	id=$(reeve submit sh "$UNTIL_GOOD" --max-attempts 2 --retry-base 1h)
	wait_status 20 "$id" failed
	expect_fail 2 reeve update "$id" --max-attempts 0
	reeve update "$id" --max-attempts 3 >/dev/null
	reeve retry "$id" >/dev/null
	wait_until 20 "[ \"\$(field $id attempt)\" = 2 ] && [ \"\$(field $id status)\" = failed ]"
	expect_fail 4 reeve update "$id" --max-attempts 1
	expect_match 'below the attempts already made' "$OUTPUT"
	reeve update "$id" --max-attempts 2 >/dev/null
	reeve retry "$id" >/dev/null
	expect_fail 1 reeve wait "$id"
	expect_match dead "$(field "$id" status)"
}

run_tests
