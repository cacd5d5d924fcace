#!/usr/bin/env bash
# What handlers report about a task's end, on descriptor 3 and by calls: directives, remarks, errors, stack traces and
# the time of the next try.
# quick
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tasks.bash"
. "$(dirname "$0")/disk.bash"

start_postgres
start_manager --heartbeat 1s
start_worker worker --concurrency 4 --queue default

run() { # SCRIPT [OPTION…]: submits it, waits for its end, prints the id
	local id script=$1
	shift
	id=$(reeve submit sh "$script" --retry-base 10ms "$@")
	reeve wait "$id" >/dev/null 2>&1 || true
	echo "$id"
}

end_of() { # ID: what became of it
	reeve show "$1" --json | jq -r '[.status, .attempt, .error_code // "", .last_error // "", .remark // "", .stack_trace // ""] | join("|")'
}

test_success_and_a_remark() {
	id=$(run 'echo "{\"directive\": \"SUCCESS\", \"remark\": \"two pages were empty\"}" >&3; printf done; exit 1')
	expect_eq 'completed|1|||two pages were empty|' "$(end_of "$id")"
	expect_eq 'done' "$(field "$id" result)"
	# With a remark alone the exit code decides.
	expect_eq 'completed|1|||well|' "$(end_of "$(run 'echo "{\"remark\": \"well\"}" >&3')")"
}

# Operators see the progress: remarks go out with the heartbeats while the handler runs.
test_remarks_are_seen_while_it_runs() {
	id=$(reeve submit sh 'say() { printf "{\"remark\": \"%s\"}\n" "$1" >&3; }
		until_is() { until [ -e "'"$DIR"'/$1" ]; do sleep 0.05; done; }
		say "page 1 of 2"; until_is half; say "$(head -c 2001 /dev/zero | tr "\0" x)"; until_is rest; say both')
	wait_until 20 '[ "$(field "$id" remark)" = "page 1 of 2" ]'
	expect_match 'remark +page 1 of 2' "$(reeve show "$id")"
	expect_eq executing "$(field "$id" status)"
	touch "$DIR/half"
	wait_until 20 '[ "$(reeve show "$id" --json | jq ".remark | length")" = 1000 ]'
	touch "$DIR/rest"
	reeve wait "$id" >/dev/null
	expect_eq 'completed both' "$(field "$id" status) $(field "$id" remark)"
	expect_eq 'submitted claimed completed' "$(events "$id")"
}

test_retry_though_it_exits_well() {
	id=$(run 'echo "{\"directive\": \"RETRY\", \"error\": \"busy\", \"error_code\": \"503\"}" >&3' --max-attempts 3)
	expect_eq 'dead|3|503|busy||' "$(end_of "$id")"
	id=$(run '[ "$REEVE_ATTEMPT" = 2 ] || echo "{\"directive\": \"RETRY\"}" >&3')
	expect_eq 'completed 2' "$(field "$id" status) $(field "$id" attempt)"
	expect_eq 'directive:RETRY: the program reports RETRY' "$(event_field "$id" failed note)"
}

# Each attempt's remark is its reason, in the audit and in the groups of errors.
test_the_remark_is_the_reason() {
	id=$(run 'echo "{\"directive\": \"RETRY\", \"remark\": \"page $REEVE_ATTEMPT of 2\"}" >&3' --max-attempts 2)
	expect_eq 'dead|2|directive:RETRY|page 2 of 2|page 2 of 2|' "$(end_of "$id")"
	expect_eq 'directive:RETRY: page 1 of 2' "$(event_field "$id" failed note)"
	expect_eq 'directive:RETRY: page 2 of 2' "$(event_field "$id" dead note)"
	expect_eq 'page 1 of 2,page 2 of 2' "$(reeve errors --json | jq -r '.error | select(startswith("page "))' | sort | paste -sd,)"
}

test_no_retry_though_it_has_attempts_left() {
	id=$(run 'echo "{\"directive\": \"NO_RETRY\", \"remark\": \"no such page\"}" >&3; exit 3' --max-attempts 10)
	expect_eq 'dead|1|exit:3|exit status 3|no such page|' "$(end_of "$id")"
	id=$(run 'echo "{\"directive\": \"NO_RETRY\"}" >&3' --max-attempts 10)
	expect_eq 'dead|1|directive:NO_RETRY|the program reports NO_RETRY||' "$(end_of "$id")"
}

test_the_error_and_the_end_of_standard_error_are_kept() {
	id=$(run 'seq 1 2000 >&2; echo "{\"error\": \"no page 7\", \"remark\": \"seen 6\"}" >&3; exit 3' --max-attempts 1)
	expect_eq 'dead exit:3 no page 7 seen 6' "$(field "$id" status) $(field "$id" error_code) $(field "$id" last_error) $(field "$id" remark)"
	expect_eq "$(seq 1 2000)" "$(reeve show "$id" --json | jq -r .stack_trace)"
	id=$(run 'echo noise >&2; echo "{\"stack_trace\": \"at main\\nat start\"}" >&3; exit 3' --max-attempts 1)
	expect_eq $'at main\nat start' "$(reeve show "$id" --json | jq -r .stack_trace)"
	expect_eq noise "$(field "$id" last_error)"
	# Of output that is too long, the end is kept.
	id=$(run 'head -c 300000 /dev/zero | tr "\0" x >&2; printf "\xff the end" >&2; exit 3' --max-attempts 1)
	expect_eq '65536 the end' "$(sql "select octet_length(stack_trace) || right(stack_trace, 8) from task_history where task_id = $id")"
	expect_eq t "$(sql "select octet_length(last_error) <= 4096 from task_history where task_id = $id")"
}

# The handler's delay overrides the backoff, and is counted by the database's clock.
test_it_sets_the_time_of_the_retry() {
	id=$(reeve submit sh '[ "$REEVE_ATTEMPT" = 2 ] || { echo "{\"retry_in\": \"2s\"}" >&3; exit 3; }' --retry-base 1h)
	reeve wait "$id" >/dev/null
	expect_eq 'completed 2' "$(field "$id" status) $(field "$id" attempt)"
	expect_eq t "$(sql "select run_at - last_updated between '1900ms' and '2100ms' from task_attempts where task_id = $id and attempt = 1")"
	id=$(run '[ "$REEVE_ATTEMPT" = 3 ] || { echo "{\"directive\": \"RETRY\", \"retry_in\": 0}" >&3; }' --retry-base 1h)
	expect_eq 'completed 3' "$(field "$id" status) $(field "$id" attempt)"
}

test_an_object_may_take_several_lines_and_the_last_counts() {
	id=$(run 'jq -n "{directive: \"NO_RETRY\", remark: \"first\", error: \"first\"}" >&3
		jq -n "{remark: \"second\", error_code: \"E7\", news: [{a: 1}]}" >&3')
	expect_eq 'dead|1|E7|first|second|' "$(end_of "$id")"
}

# A directive and its text as one string, in the object or as a line of its own.
test_a_directive_with_its_text_in_one_string() {
	id=$(run 'echo "{\"directive\": \"NO_RETRY | no such number\"}" >&3; exit 3' --max-attempts 10)
	expect_eq 'dead|1|exit:3|no such number|no such number|' "$(end_of "$id")"
	id=$(run 'echo "NO_RETRY | no such number" >&3' --max-attempts 10)
	expect_eq 'dead|1|directive:NO_RETRY|no such number|no such number|' "$(end_of "$id")"
	id=$(run 'echo "RETRY | the line is busy" >&3' --max-attempts 2)
	expect_eq 'dead|2|directive:RETRY|the line is busy|the line is busy|' "$(end_of "$id")"
	id=$(run 'echo "SUCCESS|sent: \"all\"" >&3; printf done; exit 1')
	expect_eq 'completed|1|||sent: "all"|' "$(end_of "$id")"
	id=$(run 'echo "{\"directive\": \"SUCCESS | sent\", \"remark\": \"sent twice\"}" >&3')
	expect_eq 'completed|1|||sent twice|' "$(end_of "$id")"
}

# It may mean that the task must not be done again.
test_an_unknown_directive_is_not_retried() {
	for said in '{"directive": "NO_RETRI"}' '{"directive": "STOP | it is wrong"}' 'STOP | it is wrong' '{"directive": 1}'; do
		id=$(run "echo '$said' >&3; exit 3" --max-attempts 10)
		expect_eq 'dead 1 bad_message' "$(field "$id" status) $(field "$id" attempt) $(field "$id" error_code)" "after $said"
		expect_match 'directive must be SUCCESS, RETRY, NO_RETRY or SKIP' "$(field "$id" last_error)"
	done
}

# A handler declines a task: the worker is not given it again, another one is, and it costs no attempt.
test_a_declined_task_goes_to_another_worker() {
	id=$(reeve submit sh 'if [ "$DECLINES" = yes ]; then echo x >>"'"$DIR"'/declined"; echo "SKIP | not mine" >&3; fi; exit 0' \
		--queue declined --max-attempts 1)
	other=$(reeve submit sh 'echo mine' --queue declined --priority -1)
	DECLINES=yes start_worker picky --queue declined --concurrency 3
	reeve wait "$other" --max-wait 20s >/dev/null
	sleep 2
	expect_eq 'queued 0' "$(field "$id" status) $(reeve show "$id" --json | jq .attempt)"
	expect_eq 1 "$(wc -l <"$DIR/declined")" 'times it was run there'
	expect_match 'skipped: not mine' "$(event_field "$id" returned note)"
	start_worker second --queue declined
	reeve wait "$id" --max-wait 20s >/dev/null
	expect_eq 'completed 1 second' "$(field "$id" status) $(field "$id" attempt) $(field "$id" worker)"
	# A worker that does all that it takes ends, and leaves the rest.
	id=$(reeve submit sh 'echo "{\"directive\": \"SKIP\"}" >&3' --queue left)
	launch_worker once --queue left --until-empty
	ended once
	expect_eq '0 queued' "$STATUS $(field "$id" status)"
	reeve cancel "$id" >/dev/null
}

# The handler may have tried to report a failure, so an operator must decide. Its output is kept.
test_what_is_no_json_is_no_success() {
	for said in 'all is well' '{"directive": "SUCCES"}' '{"directive": 1}' '{"remark": ["a"]}' '{"retry_in": "soon"}' \
		'{"retry_in": 1e300}' '{"retry_in": -1}' '{"error_code": "a\nb"}' '["directive"]' '{"directive": "SUCCESS"' '{} {}'; do
		id=$(run "cat >&3 <<<'$said'; echo on stderr >&2; echo the output")
		expect_eq 'dead 1 bad_message' "$(field "$id" status) $(field "$id" attempt) $(field "$id" error_code)" "after $said"
		expect_match '^descriptor 3: ' "$(field "$id" last_error)"
		expect_eq "$said" "$(field "$id" last_error | grep -oF -- "$said")" 'what is quoted'
		expect_eq $'on stderr\nstandard output:\nthe output' "$(reeve show "$id" --json | jq -r .stack_trace)"
	done
	id=$(run 'head -c 100000 /dev/zero | tr "\0" x >&3; echo the output')
	expect_match '^dead\|1\|bad_message\|descriptor 3: longer than 64 KiB: xxx' "$(end_of "$id")"
	# It can be retried manually.
	reeve retry "$id" >/dev/null
	expect_fail 1 reeve wait "$id"
	# An attempt that failed anyway is retried, and its error includes the problem.
	id=$(run '[ "$REEVE_ATTEMPT" = 2 ] || { echo oops >&3; exit 3; }')
	expect_eq 'completed 2' "$(field "$id" status) $(field "$id" attempt)"
	expect_match 'exit:3: exit status 3 \(and descriptor 3: not a JSON object: oops\)' "$(event_field "$id" failed note)"
}

# The worker has no manager when the handler ends, and reports later.
test_reported_fields_survive_a_resend() {
	start_manager other --lease 60s --heartbeat 1s --expiry-grace 70s
	start_worker cut-off --queue cut-off
	id=$(reeve submit sh "$HOLD"'; echo "{\"directive\": \"NO_RETRY\", \"remark\": \"kept\", \"stack_trace\": \"at x\"}" >&3' \
		--queue cut-off --max-attempts 9)
	wait_began "$id"
	kill_manager other
	release
	wait_until 20 "grep -q 'failed for good' '$DIR/log/cut-off.log'"
	start_manager other --lease 60s --heartbeat 1s --expiry-grace 70s
	expect_fail 1 reeve wait "$id"
	expect_eq 'dead|1|directive:NO_RETRY|kept|kept|at x' "$(end_of "$id")"
}

# Nothing is lost, from each kind of handler to each reader.
test_results_may_be_binary() {
	{ printf 'a\0\377\n\r\n'; head -c 100000 /dev/urandom; } >"$DIR/bytes"
	url="data:application/octet-stream;base64,$(base64 -w 0 "$DIR/bytes")"
	reeve submit sh "cat '$DIR/bytes'" --wait | cmp - "$DIR/bytes"
	id=$(run "cat '$DIR/bytes'")
	reeve wait "$id" --result | cmp - "$DIR/bytes"
	expect_match 'completed.* binary: 100006 bytes' "$(reeve wait "$id")"
	[ "$(field "$id" result)" = "$url" ]
	[ "$(sql "select result from all_tasks where id = $id")" = "$url" ]
	# Of a program that stays, and of a pull client.
	cat >"$DIR/handlers.ini" <<-END
		[handler stays]
		stdio = jq -c --unbuffered '{id, result_base64: .details}'
	END
	start stays "$REEVE_BIN/reeve-worker" --handlers "$DIR/handlers.ini" --name stays
	base64 -w 0 "$DIR/bytes" | reeve submit stays - --wait | cmp - "$DIR/bytes"
	expect_fail 1 reeve submit stays '=' --wait
	expect_match 'bad_message: .*result_base64 must be bytes in base64' "$OUTPUT"
	stop stays
	id=$(reeve submit pulled)
	token=$(reeve fetch --type pulled --json | jq .token)
	reeve report "$id" "$token" --completed - <"$DIR/bytes"
	reeve wait "$id" --result | cmp - "$DIR/bytes"
	# A text that looks like a binary result stays what it is.
	text='data:application/octet-stream;base64,AAAA'
	expect_eq "$text" "$(reeve submit sh "printf %s '$text'" --wait)"
	expect_fail 2 reeve wait "$id" "$id" --result
	expect_match 'result goes with one ID' "$OUTPUT"
	# What is too long says so.
	expect_fail 1 reeve submit sh 'head -c 800000 /dev/zero' --wait
	expect_match 'result-too-long: the result of 1066705 bytes of base64 is longer' "$OUTPUT"
}

# Beside them, a reader reads what a worker has stored and nothing else.
test_long_results_go_to_a_store() {
	local store="$DIR/a store" file
	mkdir "$store"
	head -c 1500000 /dev/urandom >"$DIR/bytes"
	cat >"$DIR/handlers.ini" <<-END
		[handler long]
		exec = cat "$DIR/bytes"
		max-output = 4MiB
		[handler say]
		exec = cat
	END
	for wrong in "$DIR/none" "$DIR/bytes"; do
		expect_fail 2 "$REEVE_BIN/reeve-worker" --handlers "$DIR/handlers.ini" --result-store "$wrong" --check
		expect_match "the result store $wrong: (No such file|Not a directory)" "$OUTPUT"
	done
	start storing "$REEVE_BIN/reeve-worker" --handlers "$DIR/handlers.ini" --name storing --queue stored --result-store "$store"
	reeve submit long --queue stored --wait --result-store "$store" | cmp - "$DIR/bytes"
	id=$(reeve submit long --queue stored)
	expect_match "file://$DIR/a%20store/$id-" "$(COLUMNS='' reeve wait "$id")"
	reeve wait "$id" --result --result-store "$store" | cmp - "$DIR/bytes"
	reeve show "$id" --json | jq -r .result >"$DIR/address"
	reeve wait "$id" --result | cmp - <(tr -d '\n' <"$DIR/address")
	file=$store/$(jq -r '.address | split("/")[-1]' "$DIR/address")
	expect_eq "1500000 $(sha256sum <"$DIR/bytes" | cut -d' ' -f1)" "$(jq -r '"\(.bytes) \(.sha256)"' "$DIR/address")"
	cmp "$file" "$DIR/bytes"
	expect_eq "640 2" "$(stat -c %a "$file") $(find "$store" -type f | wc -l)"
	expect_eq short "$(reeve submit say short --queue stored --wait --result-store "$store")"
	# A handler's text is no reason to read a file.
	for text in "$(sed "s/$id-/1$id-/" "$DIR/address")" "$(jq -c '.address = "file:///etc/passwd"' "$DIR/address")"; do
		expect_eq "$text" "$(reeve submit say "$text" --queue stored --wait --result-store "$store")"
	done
	# What is not the stored result.
	printf x >>"$file"
	expect_fail 1 reeve wait "$id" --result --result-store "$store"
	expect_match "task $id: its stored result .* cannot be read: it has another length" "$OUTPUT"
	head -c 1500000 /dev/zero >"$file"
	expect_fail 1 reeve wait "$id" --result --result-store "$store"
	expect_match 'it has another content' "$OUTPUT"
	rm "$file"
	ln -s "$DIR/bytes" "$file"
	expect_fail 1 reeve wait "$id" --result --result-store "$store"
	expect_match 'Too many levels of symbolic links' "$OUTPUT"
	expect_fail 1 reeve wait "$id" --result --result-store "$DIR"
	expect_match 'No such file' "$OUTPUT"
	expect_fail 2 reeve submit say --result-store "$store"
	expect_match 'result-store goes with --wait' "$OUTPUT"
	stop storing
}

# The task waits for its next attempt, and the store is as it was.
test_a_full_store_fails_the_attempt() {
	local disk
	head -c 1500000 /dev/zero >"$DIR/bytes"
	printf '[handler long]\nexec = cat "%s"\nmax-output = 4MiB\n' "$DIR/bytes" >"$DIR/handlers.ini"
	start full with_disk 2 "$REEVE_BIN/reeve-worker" --handlers "$DIR/handlers.ini" --name full --queue full --result-store "$DIR/disk"
	wait_until 30 'reeve worker list --json | jq -r .name | grep -qx full'
	disk=/proc/$(pid full)/root/$DIR/disk
	head -c 1000000 /dev/zero >"$disk/filler"
	id=$(reeve submit long --queue full --retry-base 1h)
	wait_until 30 '[ "$(field "$id" status)" = failed ]'
	expect_eq "result-store the result of 1500000 bytes cannot be stored in $DIR/disk: No space left on device" \
		"$(field "$id" error_code) $(field "$id" last_error)"
	expect_eq filler "$(ls -A "$disk")"
	rm "$disk/filler"
	reeve retry "$id" >/dev/null
	reeve wait "$id" >/dev/null
	expect_eq 1500000 "$(stat -c %s "$disk"/"$id"-*)"
	stop full
}

test_c_functions_report_the_same_by_calls() {
	start remarks "$REEVE_BIN/example-remarks-worker" "$REEVE_MANAGER"
	id=$(reeve submit book '{"room": 7}')
	reeve wait "$id" >/dev/null
	expect_eq 'completed|1|||asked 1 times|' "$(end_of "$id")"
	id=$(reeve submit book '{"room": 13}' --retry-base 1h)
	reeve wait "$id" >/dev/null
	expect_eq 'completed 3 asked 3 times' "$(field "$id" status) $(field "$id" attempt) $(field "$id" remark)"
	expect_eq '2' "$(sql "select count(*) from task_attempts where task_id = $id and error_code = 'taken' and remark like 'asked%' and run_at - last_updated between '1400ms' and '1600ms'")"
	id=$(reeve submit book '{}' --max-attempts 9)
	expect_fail 1 reeve wait "$id"
	expect_eq 'dead|1|no-room|the details name no room||' "$(end_of "$id" | sed '1s/|[^|]*$/|/;q')"
	expect_match 'example-remarks-worker' "$(reeve show "$id" --json | jq -r .stack_trace)"
	stop remarks
	expect_eq 0 "$STATUS"
}

test_the_smallest_worker_in_c_runs_a_task() {
	start hello "$REEVE_BIN/example-worker" "$REEVE_MANAGER"
	expect_eq 'Hello, Ann!' "$(reeve submit greet Ann --wait)"
	stop hello
	expect_eq 0 "$STATUS"
}

# It asks for more time after 10 s.
test_a_c_function_gets_more_time_and_stops_when_asked() {
	start more "$REEVE_BIN/example-more_time-worker" "$REEVE_MANAGER"
	long=$(reeve submit countdown 300)
	short=$(reeve submit countdown 16 --timeout 15s)
	wait_until 20 '[ "$(field "$long" status)" = executing ]'
	reeve cancel "$long" >/dev/null
	expect_fail 1 reeve wait "$long"
	expect_eq cancelled "$(field "$long" status)"
	reeve wait "$short" >/dev/null
	expect_eq 'zero 1' "$(field "$short" result) $(field "$short" attempt)"
	stop more
	expect_eq 0 "$STATUS"
}

run_tests
