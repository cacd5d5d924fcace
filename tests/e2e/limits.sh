#!/usr/bin/env bash
# Limits: values of the maximum length, more data than a message holds, raised and lowered limits, and calls for
# thousands of tasks.
# parts 2
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tasks.bash"

text_of() { # BYTES: so much text that does not compress to nothing
	local text LC_ALL=C
	text=$(head -c $(($1 * 3 / 4 + 3)) /dev/urandom | base64 -w 0)
	printf %s "${text:0:$1}"
}

# A statement is longer than the largest block of memory that is allowed here: the sanitizer refuses the allocation,
# like a system that has no memory left.
test_a_manager_without_memory_says_so_and_ends() {
	start_postgres
	ASAN_OPTIONS=allocator_may_return_null=1:max_allocation_size_mb=3:handle_abort=0:detect_leaks=0:log_path=$DIR/sanitizer-said \
		start_manager manager --max-details 4MiB
	head -c 2500000 /dev/zero | tr '\0' x >"$DIR/details"
	start submitter bash -c '"$1" submit nothing - <"$2"' - "$REEVE_BIN/reeve" "$DIR/details"
	ended manager
	expect_eq 134 "$STATUS"
	expect_match 'error reeve-manager: out of memory: 4194304 bytes could not be allocated' "$(tail -n 1 "$DIR/log/manager.log")"
	# The client resends the call that was not acknowledged.
	start_manager manager --max-details 4MiB
	ended submitter
	expect_eq 2500000 "$(sql "select length(details) from tasks where id = $(cat "$DIR/log/submitter.log")")"
}

# The manager's own code allocates memory only through functions that check the result.
test_a_manager_asks_for_memory_where_it_is_checked() {
	local build=$REEVE_BIN/..
	nm -A "$build"/manager/libreeve_{manager_core,store,services,callbacks,archive}.a "$build"/common/libreeve_common.a \
		"$build"/manager/embedded/libreeve_embedded.a "$build"/manager/CMakeFiles/reeve-manager.dir/*.o |
		grep -v ':mem.c.o:' >"$DIR/symbols"
	expect [ "$(grep -c ' U mem_calloc$' "$DIR/symbols")" -ge 40 ]
	expect_eq '' "$(grep -E ' U (malloc|calloc|realloc|reallocarray|strdup|strndup|asprintf|vasprintf)$' "$DIR/symbols")"
}

# Sixteen tasks with details and results of a mebibyte each: more than fits into one message at any step from the
# submitter to the worker and back.
test_more_than_a_message_holds() {
	start_postgres
	start_manager
	start_worker worker --concurrency 4 --prefetch 16
	for i in $(seq 1 16); do
		text_of 1048000 | jq -Rc "{type: \"echo\", details: (\"$i \" + .)}"
	done >"$DIR/tasks"
	reeve submit --bulk "$DIR/tasks" >"$DIR/ids"
	reeve wait - --json <"$DIR/ids" >"$DIR/ended"
	expect_eq 16 "$(wc -l <"$DIR/ended")"
	expect_eq "$(jq -r .details "$DIR/tasks" | sort | sha256sum)" "$(jq -r .result "$DIR/ended" | sort | sha256sum)"
	expect_eq 16 "$(sql "select count(*) from task_history where result = details and attempt = 1")"
	expect_eq 16 "$(reeve list --limit 1000 --json | wc -l)"
}

test_limits_may_be_raised() {
	handlers <<-END
		[handler echo]
		exec = /bin/cat
		max-output = 20MiB
		[handler sh]
		exec = /bin/bash
		max-output = 20MiB
	END
	start_postgres
	start_manager --max-details 12MiB --max-result 12MiB --max-message 16MiB
	start_worker
	text_of $((12 * 1048576)) >"$DIR/want"
	reeve submit echo - --wait <"$DIR/want" >"$DIR/got"
	expect cmp "$DIR/want" "$DIR/got"
	for i in 1 2; do jq -Rc '{type: "echo", details: .}' <"$DIR/want"; done | reeve submit --bulk - --wait >/dev/null
	expect_eq 3 "$(sql "select count(*) from task_history where result = details and length(result) = $((12 * 1048576))")"
	expect_fail 4 reeve submit echo - < <(cat "$DIR/want" - <<<x)
	expect_match "details is longer than $((12 * 1048576)) bytes" "$OUTPUT"
	expect_fail 1 reeve submit sh "head -c $((12 * 1048576 + 1)) /dev/zero | tr '\\0' x" --wait
	expect_match 'result-too-long' "$OUTPUT"
}

test_limits_may_be_lowered() {
	start_postgres
	start_manager --max-details 2KiB --max-result 2KiB --max-message 68KiB
	start_worker worker --concurrency 4 --prefetch 300
	x=$(text_of 2048)
	for i in $(seq 1 200); do echo "{\"details\":\"$x\"}"; done | reeve submit --bulk - echo >"$DIR/ids"
	reeve wait - --json <"$DIR/ids" >"$DIR/ended"
	expect_eq 200 "$(jq -r .result "$DIR/ended" | grep -cxF "$x")"
	expect_eq 200 "$(reeve list --limit 1000 --json | wc -l)"
	expect_fail 4 reeve submit echo "${x}x"
	expect_match 'details is longer than 2048 bytes' "$OUTPUT"
	expect_fail 1 reeve submit sh 'head -c 2049 /dev/zero | tr "\0" x' --wait
	expect_match 'result-too-long' "$OUTPUT"
	expect_fail 1 reeve submit sh 'head -c 4000 /dev/zero | tr "\0" x >&2; exit 1' --max-attempts 1 --wait
	expect_match 'exit:1: .*xxx' "$OUTPUT" # errors are cut, not refused
}

# With its list, the report would not fit into the messages of any manager, and the callback task would wait for ever.
test_the_report_to_a_callback_task_fits_into_lowered_limits() {
	local batch
	start_postgres
	start_manager --max-details 4KiB --max-result 4KiB --max-message 68KiB
	start_worker worker --concurrency 4
	batch=$(reeve batch open "$(text_of 250)" --callback-type sha256)
	for _ in $(seq 150); do echo '{}'; done | reeve submit --bulk - nothing --batch "$batch" >/dev/null
	reeve batch close "$batch" >/dev/null
	reeve batch wait "$batch"
	wait_until 10 "[ \"\$(sql \"select count(*) from task_history where type = 'sha256' and status = 'completed' and details like '%batch_end%'\")\" = 1 ]"
	expect_match '"truncated" ?: ?true' "$(sql "select details from task_history where type = 'sha256' and details like '%batch_end%'")"
}

shown_of() { # ID: what `show` has of its details and result
	reeve show "$1" --json | jq -r '"\(.status) \(.details | @json) \(.result | @json) \(.omitted | tojson)"'
}

# Details and a result that fit into a message, but not together, and with them the longest error, remark and stack trace.
test_a_task_longer_than_a_message_is_shown_in_part() {
	start_postgres
	start_manager --max-details 4KiB --max-result 4KiB --max-message 68KiB
	both=$(reeve submit nothing "$(text_of 4096)" --delay 1h)
	longer=$(reeve submit nothing short --delay 1h)
	reeve cancel "$both" "$longer" >/dev/null
	x=$(text_of 34000)
	sql "update task_history set result = '$x' where task_id = $both;
		update task_history set result = repeat('$x', 2), last_error = repeat('e', 16384), error_code = repeat('e', 255),
			remark = repeat('r', 4096), stack_trace = repeat('s', 65536) where task_id = $longer" >/dev/null
	expect_eq "cancelled \"\" \"$x\" {\"bytes\":4096,\"details_bytes\":4096,\"result_bytes\":0}" "$(shown_of "$both")"
	expect_eq "details      omitted: 4096 bytes, too long for the manager's messages" "$(reeve show "$both" | grep ' omitted: ')"
	expect_eq 'cancelled "short" "" {"bytes":68000,"details_bytes":0,"result_bytes":68000}' "$(shown_of "$longer")"
	expect_eq "result       omitted: 68000 bytes, too long for the manager's messages" "$(reeve show "$longer" | grep ' omitted: ')"
	# A report of a batch goes on after a task whose details it omits.
	batch=$(reeve batch open part)
	ids=$(printf '{"details":"%s"}\n' 1 2 3 4 | reeve submit --bulk - nothing --batch "$batch")
	# shellcheck disable=SC2086
	reeve cancel $ids >/dev/null
	sql "update task_history set details = repeat('d', 40000), result = '$x' where task_id = ${ids%%$'\n'*}" >/dev/null
	expect_eq "$ids" "$(reeve batch report "$batch" --full --json | jq '.tasks[].id')"
	expect_eq 40000 "$(reeve batch report "$batch" --full --json | jq '.tasks[0].omitted.details_bytes')"
	expect_eq '16384 4096 8000' "$(reeve show "$longer" --json | jq -r '"\(.last_error | length) \(.remark | length) \(.stack_trace | length)"')"
}

# A result of a task that ran under a higher limit: `wait` shows how long it is, with those of other tasks.
test_a_result_longer_than_a_message_is_omitted_from_a_wait() {
	start_postgres
	start_manager
	start_worker
	long=$(reeve submit sh 'head -c 900000 /dev/zero | tr "\0" x')
	fits=$(reeve submit sh 'head -c 400000 /dev/zero | tr "\0" y')
	reeve wait "$long" "$fits" >/dev/null
	text_of 600000 >"$DIR/once"
	ids=$(for i in 1 2; do reeve submit echo - --key "long-$i" <"$DIR/once"; done)
	# shellcheck disable=SC2086
	reeve wait $ids >/dev/null
	stop manager
	start_manager --max-details 128KiB --max-result 128KiB --max-message 512KiB
	short=$(reeve submit echo short)
	# shellcheck disable=SC2086
	timeout 60 "$REEVE_BIN/reeve" wait "$long" "$fits" $ids "$short" --json >"$DIR/ended"
	expect_eq "$(printf '%s\n' "$long completed 0 {\"bytes\":900000,\"details_bytes\":0,\"result_bytes\":900000}" "$fits completed 400000 null" \
		"$(for id in $ids; do echo "$id completed 0 {\"bytes\":600000,\"details_bytes\":0,\"result_bytes\":600000}"; done)" "$short completed 5 null")" \
		"$(jq -r '"\(.id) \(.status) \(.result | length) \(.omitted | tojson)"' "$DIR/ended" | sort -n)"
	expect_match "$long +sh +completed .* omitted: 900000 bytes, too long for the manager's messages \(--max-message\)" \
		"$(timeout 60 "$REEVE_BIN/reeve" wait "$long" "$short")"
	# The key's task has ended, so the submit waits for nothing.
	expect_fail 1 timeout 60 "$REEVE_BIN/reeve" submit echo - --key long-1 --wait <<<'again'
	expect_match "task ${ids%%$'\n'*} completed, but its result has 600000 bytes, too long for the manager's messages; raise --max-message .*: reeve show ${ids%%$'\n'*}$" "$OUTPUT"
	stop manager
	start_manager
	expect_eq "$(cat "$DIR/once")" "$(reeve submit echo again --key long-1 --wait)"
}

# A task that was submitted under a higher limit waits, does not delay other tasks, and runs when the limit is raised
# again.
test_details_above_a_lowered_limit_wait() {
	start_postgres
	start_manager
	long=$(text_of 900000 | reeve submit sh - --priority 9)
	stop manager
	start_manager --max-details 128KiB --max-result 128KiB --max-message 512KiB
	start_worker worker --concurrency 1
	reeve submit echo short --wait >/dev/null
	expect_eq 'queued 0' "$(sql "select concat_ws(' ', status, attempt) from tasks where id = $long")"
	expect_match "task $long waits: its details have 900000 bytes, and this manager's messages hold [0-9]+ .--max-message" \
		"$(cat "$DIR/log/manager.log")"
	expect_eq "details      omitted: 900000 bytes, too long for the manager's messages" "$(reeve show "$long" | grep ' omitted: ')"
	expect_eq 'queued "" "" {"bytes":900000,"details_bytes":900000,"result_bytes":0}' "$(shown_of "$long")"
	why="its details are too long for the manager's messages (--max-message)"
	expect_eq 'details_too_long' "$(field "$long" waiting.reason)"
	expect_eq "waits        $why" "$(reeve show "$long" | grep '^waits ')"
	expect_eq "$long details_too_long" "$(reeve list --status queued --json | jq -r '"\(.id) \(.waiting.reason)"')"
	expect_eq "task $long (sh in queue default) waits: $why" "$(reeve wait "$long" --max-wait 5s 2>&1 | grep -o 'task .* waits: .*')"
	expect_eq "task $long of queue default, type sh, due for N: $why" \
		"$(reeve check --oldest-queued 0s 2>&1 | sed -n 's/^ *\(task.* due for \)[^:]*/\1N/p')"
	stop manager
	start_manager
	expect_eq 900000 "$(field "$long" details | tr -d '\n' | wc -c)"
	expect_eq '' "$(field "$long" omitted)"
	expect_eq '' "$(field "$long" waiting.reason | grep -x details_too_long)"
	wait_until 20 '[ "$(reeve show "$long" --json | jq .attempt)" -gt 0 ]'
}

# One manager claims two tasks, and freezes before it can answer. The other manager delivers the task that it can send,
# and requeues the one that it cannot send, which uses up no attempt. (PostgreSQL commits a claim whose rows fit into
# the buffers of the connection, although the manager does not read them.)
test_details_above_another_managers_limit_are_given_by_none_but_the_first() {
	local options=(--lease 60s --heartbeat 1s --expiry-grace 70s)
	start_postgres
	start_manager one "${options[@]}"
	long=$(text_of 80000 | reeve submit echo -)
	short=$(reeve submit echo short)
	# A claim waits as long as this table has a row.
	sql "create table public.gate as select true; grant select on public.gate to public;
		create function public.slow() returns trigger language plpgsql as 'begin
			while exists (select from public.gate) loop perform pg_sleep(0.1); end loop; return null; end';
		create trigger slow after insert on assignments for each statement execute function public.slow()" >/dev/null
	PORT[two]=$(free_port)
	REEVE_MANAGER=${URL[one]},tcp://127.0.0.1:${PORT[two]} launch_worker
	wait_until 20 "[ \"\$(sql \"select wait_event from pg_stat_activity where application_name = 'reeve-manager claim'\")\" = PgSleep ]"
	signal one STOP
	sql 'delete from public.gate'
	wait_until 20 '[ "$(sql "select count(*) from tasks where status = '"'executing'"'")" = 2 ]'
	start_manager two "${options[@]}" --max-details 2KiB --max-result 2KiB --max-message 68KiB
	sql 'drop trigger slow on assignments' >/dev/null
	expect_eq short "$(reeve wait "$short" --max-wait 20s --json | jq -r .result)"
	wait_until 20 '[ "$(sql "select status, attempt from tasks where id = $long")" = "queued|0" ]'
	expect_eq 'submitted claimed requeued' "$(events "$long")"
	expect_match "task $long waits: its details have 80000 bytes, and this manager's messages hold [0-9]+ .--max-message" \
		"$(cat "$DIR/log/two.log")"
	expect_eq 'submitted claimed completed' "$(events "$short")"
	signal one CONT
	REEVE_MANAGER=${URL[one]}
	start_worker other
	reeve wait "$long" --max-wait 20s --json >"$DIR/ended"
	expect_eq '1 other 80000' "$(jq -r '"\(.attempt) \(.worker) \(.result | length)"' "$DIR/ended")"
}

# Names, keys and errors of the maximum length make the longest possible lists and audits.
test_long_lists_and_audits_come_in_pieces() {
	start_postgres
	start_manager
	for i in $(seq 1 3000); do echo "{\"key\":\"$i\"}"; done | reeve submit --bulk - nothing --delay 1h --queue "$(text_of 255)" \
		--source "$(text_of 255)" >"$DIR/ids"
	sql "update tasks set last_error = repeat('x', 16384), error_code = repeat('x', 255)"
	expect_eq "$(sort -nr "$DIR/ids")" "$(reeve list --limit 10000 --json | jq .id)"
	expect_eq 3001 "$(reeve list --limit 3000 | wc -l)"
	reeve cancel - --reason "$(text_of 1000)" <"$DIR/ids" >"$DIR/told"
	expect_eq 3000 "$(grep -c ' cancelled  *yes' "$DIR/told")"
	expect_fail 1 reeve wait - --json < <(cat "$DIR/ids")
	expect_eq 3000 "$(wc -l <<<"$OUTPUT")"
	expect_eq 5000 "$(reeve audit --limit 5000 --json 2>/dev/null | wc -l)"
	expect_eq 9000 "$(reeve audit --limit 100000 --json | wc -l)"
	expect_eq 9000 "$(reeve audit --all --json | wc -l)"
}

test_thousands_of_ids_at_once() {
	start_postgres
	start_manager
	for i in $(seq 1 10500); do echo '{}'; done | reeve submit --bulk - nothing --delay 1h >"$DIR/ids"
	expect_fail 1 reeve wait - --max-wait 0 < <(cat "$DIR/ids")
	expect_match '10500 tasks have not ended' "$OUTPUT"
	reeve update - --priority 3 <"$DIR/ids" >/dev/null
	reeve cancel - <"$DIR/ids" >/dev/null
	expect_fail 1 reeve wait - < <(cat "$DIR/ids")
	expect_eq 10500 "$(grep -c ' cancelled ' <<<"$OUTPUT")"
	reeve retry - --json <"$DIR/ids" | jq -c .changed | sort | uniq -c | xargs >"$DIR/told"
	expect_eq '10500 true' "$(cat "$DIR/told")"
	expect_eq "$(sort -nr "$DIR/ids")" "$(reeve list --limit 20000 --json | jq .id)"
	expect_eq 52500 "$(reeve audit --limit 100000 --json | wc -l)" # submitted, updated, cancel_requested, cancelled, retried
	expect_eq 10500 "$(sql "select count(*) from tasks where status = 'queued' and priority = 3 and attempt = 0")"
}

run_tests
