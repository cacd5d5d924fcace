#!/usr/bin/env bash
# HTTP callbacks that notify the events of batches, tasks and attempts: each event once, also while managers die.
# timeout 600
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tasks.bash"
. "$(dirname "$0")/receiver.bash"

events_of() { # NAME BATCH: how often each event came, in the order of their names
	jq -r '.body | fromjson | select((.batch.id? // .batch_id) == '"$2"') | .event' "$DIR/$1.calls" | sort | uniq -c | xargs
}

test_a_batch_notifies_its_begin_its_tasks_and_its_end() {
	start_postgres
	start_manager
	start_worker
	receiver
	echo "$SECRET" >"$DIR/secret"
	id=$(reeve batch open nightly --queue reports --callback "${URL[receiver]}/ok" --callback-secret-file "$DIR/secret" --callback-tasks)
	good=$(reeve submit sh 'printf done' --queue reports --batch "$id")
	bad=$(reeve submit sh 'echo "no such customer" >&2; exit 65' --queue reports --batch "$id")
	reeve batch close "$id" >/dev/null
	wait_until 30 '[ "$(sql "select count(*) from callbacks where state = '"'delivered'"'")" = 4 ]'
	expect_eq '1 batch_begin 1 batch_end 2 task_end' "$(events_of receiver "$id")"
	expect_eq true "$(jq .signed "$DIR/receiver.calls" | sort -u)"
	jq -r '.body | fromjson | select(.event == "batch_begin")' "$DIR/receiver.calls" >"$DIR/begin"
	expect_eq "$id nightly reports false" "$(jq -r '"\(.batch.id) \(.batch.name) \(.batch.queue) \(has("tasks"))"' "$DIR/begin")"
	jq -r '.body | fromjson | select(.event == "batch_end")' "$DIR/receiver.calls" >"$DIR/end"
	expect_eq 'ended 2 0 1 1 null' "$(jq -r '.batch | "\(.state) \(.submitted) \(.pending) \(.completed) \(.failed)"' "$DIR/end") $(jq .truncated "$DIR/end")"
	expect_eq "$good completed 1 worker, $bad dead 1 worker exit:65 no such customer" \
		"$(jq -r '.tasks | map("\(.id) \(.status) \(.attempt) \(.worker)" + if .error_code != "" then " \(.error_code) \(.last_error)" else "" end) | join(", ")' "$DIR/end")"
	# The batch and its tasks are the same as those that the command prints.
	reeve batch report "$id" --json >"$DIR/report"
	fields='del(.duration_ms, .callbacks_waiting, .callbacks_given_up)'
	expect_eq "$(reeve batch list --json | jq -c "select(.id == $id) | $fields")" "$(jq -c ".batch | $fields" "$DIR/end")"
	for task in "$good" "$bad"; do
		jq ".tasks[] | select(.id == $task)" "$DIR/end" >"$DIR/told"
		expect_eq '{}' "$(reeve show "$task" --json | jq -c --slurpfile told "$DIR/told" \
			'. as $shown | $told[0] | with_entries(select(.value != $shown[.key]))')"
	done
	jq -r ".body | fromjson | select(.event == \"task_end\" and .task.id == $bad)" "$DIR/receiver.calls" >"$DIR/task"
	expect_eq "$id nightly dead worker exit:65" "$(jq -r '"\(.batch_id) \(.batch) \(.task.status) \(.task.worker) \(.task.error_code)"' "$DIR/task")"
}

test_each_attempt_is_notified() {
	start_postgres
	start_manager
	start_worker
	receiver
	id=$(reeve batch open tried --queue q --callback "${URL[receiver]}/ok" --callback-tasks --callback-attempts --callback-type told)
	task=$(reeve submit sh '[ "$REEVE_ATTEMPT" = 3 ] || { echo "try $REEVE_ATTEMPT" >&2; exit 7; }' --batch "$id" --backoff fixed:100ms --jitter 0)
	reeve wait "$task" >/dev/null
	reeve batch close "$id" >/dev/null
	wait_until 30 '[ "$(sql "select count(*) from callbacks where state = '"'delivered'"'")" = 5 ]'
	expect_eq '2 attempt_end 1 batch_begin 1 batch_end 1 task_end' "$(events_of receiver "$id")"
	jq -r '.body | fromjson | select(.event == "attempt_end")' "$DIR/receiver.calls" | jq -s 'sort_by(.task.attempt)' >"$DIR/tries"
	expect_eq "1 failed exit:7 try 1,2 failed exit:7 try 2" "$(jq -r 'map(.task | "\(.attempt) \(.status) \(.error_code) \(.last_error)") | join(",")' "$DIR/tries")"
	expect_eq 'true worker' "$(jq -r '.[0] | "\(.task.run_at > .task.ended) \(.worker.name)"' "$DIR/tries")"
	expect_eq 2 "$(sql "select count(*) from all_tasks where type = 'told' and details::jsonb ->> 'event' = 'attempt_end'")"
	expect_fail 4 reeve queue set r --callback-attempts yes
	expect_match 'callback-attempts needs a callback_url or a callback_type' "$OUTPUT"
	# The end of a pipeline's stage is one, too.
	reeve pipeline define - <<<'{"name": "two", "stages": [{"name": "a", "type": "echo"}, {"name": "b", "type": "echo"}]}' >/dev/null
	id=$(reeve batch open staged --queue q --callback "${URL[receiver]}/ok" --callback-attempts)
	reeve submit --pipeline two text --batch "$id" --wait >/dev/null
	wait_until 30 '[ "$(events_of receiver "$id" | xargs)" = "1 attempt_end 1 batch_begin" ]'
	expect_eq "queued text" "$(jq -r ".body | fromjson | select(.event == \"attempt_end\" and .batch_id == $id).task | \"\(.status) \(.result)\"" "$DIR/receiver.calls")"
}

# They come when it is there again, and delay no attempt.
test_each_attempt_is_notified_to_a_receiver_that_was_down() {
	local id task
	start_postgres
	start_manager
	start_worker
	PORT[down]=$(free_port)
	id=$(reeve batch open down --queue q --callback "http://127.0.0.1:${PORT[down]}/ok" --callback-attempts)
	task=$(reeve submit sh 'exit 7' --batch "$id" --max-attempts 4 --backoff fixed:50ms --jitter 0)
	expect_fail 1 reeve wait "$task"
	expect_eq 3 "$(sql "select count(*) from callbacks where batch_id = $id and event = 'attempt_end' and state = 'waiting'")"
	receiver down
	wait_until 90 '[ "$(sql "select count(*) from callbacks where batch_id = $id and event = '"'attempt_end'"' and state = '"'delivered'"'")" = 3 ]'
	expect_eq '1 2 3' "$(jq -r '.body | fromjson | select(.event == "attempt_end").task.attempt' "$DIR/down.calls" | sort -u | xargs)"
}

# Managers are killed again and again. Each event of a batch has one callback, every callback arrives, and a repeated
# call has the same id.
test_nothing_is_lost_or_doubled_while_managers_die() {
	start_postgres
	start_manager one --callback-timeout 1s
	start_manager two --callback-timeout 1s
	export REEVE_MANAGER=${URL[one]},${URL[two]}
	start_worker worker --concurrency 4
	receiver
	for i in $(seq 1 12); do
		id=$(reeve batch open "batch $i" --callback "${URL[receiver]}/fail/1" --callback-tasks)
		for n in 1 2 3; do reeve submit sh 'sleep 0.2' --batch "$id" >/dev/null; done
		reeve batch close "$id" >/dev/null
		if [ $((i % 3)) = 0 ]; then
			name=$([ $((i % 2)) = 0 ] && echo one || echo two)
			kill_manager "$name"
			launch_manager "$name" --callback-timeout 1s
			export REEVE_MANAGER=${URL[one]},${URL[two]}
		fi
	done
	wait_until 90 '[ "$(sql "select count(*) from callbacks where state = '"'delivered'"'")" = 60 ]'
	expect_eq 60 "$(sql 'select count(*) from callbacks')"
	expect_eq '12|1|1|3' "$(sql "select count(*), min(b), min(e), min(t) from (select batch_id, count(*) filter (where event = 'batch_begin') b,
		count(*) filter (where event = 'batch_end') e, count(distinct task_id) t from callbacks group by 1) x where b = 1 and e = 1 and t = 3")"
	expect_eq "$(sql "select 'cb_' || id from callbacks order by 1")" "$(jq -r .id "$DIR/receiver.calls" | sort -u)"
	# All calls with one id are about one event.
	expect_eq 60 "$(jq -r '.id as $id | .body | fromjson | "\($id) \(.event) \(.batch.id? // .batch_id) \(.task.id?)"' "$DIR/receiver.calls" | sort -u | wc -l)"
}

test_the_report_of_a_large_batch_is_cut() {
	start_postgres
	start_manager
	receiver
	batch=$(reeve batch open large --callback "${URL[receiver]}/ok")
	for i in $(seq 1 12000); do echo '{}'; done | reeve submit --bulk - nothing --batch "$batch" >/dev/null
	id=$(sql "insert into callbacks (batch_id, event, url) values ($batch, 'batch_end', '${URL[receiver]}/ok') returning id")
	settled "$id"
	expect_eq 'delivered 1 200' "$(state_of "$id")"
	calls receiver "$id" .body >"$DIR/body"
	expect_eq true "$(jq .truncated "$DIR/body")"
	tasks=$(jq '.tasks | length' "$DIR/body")
	expect [ "$tasks" -gt 2000 ]
	expect [ "$tasks" -le 10000 ]
	expect [ "$(wc -c <"$DIR/body")" -lt 1200000 ]
	# A callback of a batch that does not exist is given up.
	id=$(sql "insert into callbacks (batch_id, event, url) values (999999, 'batch_end', '${URL[receiver]}/ok') returning id")
	settled "$id"
	expect_eq 'given_up 1 the batch is not there any more' "$(state_of "$id")"
}

test_long_details_of_many_tasks_do_not_keep_them_from_ending() {
	local held="from (select array_agg(id) as ids, array_agg(last_updated) as tokens from tasks where status = 'executing') t"
	start_postgres
	start_manager
	id=$(reeve batch open long --queue q --callback-type told --callback-attempts)
	for task in 1 2 3 4 5; do
		reeve submit sh "$task" --queue q --batch "$id" --backoff fixed:1ms --jitter 0 >/dev/null
	done
	sql "update tasks set details = repeat('x', 54000000) where type = 'sh'"
	expect_eq 5 "$(sql "select count(*) from reeve.fetch(types => '{sh}', max_tasks => 5)")"
	expect_eq '5|failed' "$(sql "select count(*), becomes $held cross join lateral attempts_end(ids, tokens,
		array(select 'failed' from unnest(ids)), null, null, true, 7, null, null, null, null, null) group by 2")"
	wait_until 10 '[ "$(sql "select count(*) from tasks where run_at <= clock_timestamp() and type = '"'sh'"'")" = 5 ]'
	expect_eq 5 "$(sql "select count(*) from reeve.fetch(types => '{sh}', max_tasks => 5)")"
	expect_eq 5 "$(sql "select count(*) $held cross join lateral attempts_complete(ids, tokens, array(select 'x' from unnest(ids)), 7, null)")"
	for task in 1 2 3 4 5 6; do
		reeve submit sh "$task" --queue q --batch "$id" >/dev/null
	done
	sql "update tasks set details = repeat('x', 54000000) where type = 'sh' and details <> '6'"
	sql "select tasks_end(array(select (id, 'cancelled', clock_timestamp(), false, null, null, null, null, null, null)::task_end
		from tasks where type = 'sh'), 7)" >/dev/null
	expect_eq 'attempt_end failed true 5, task_end cancelled 6 1, task_end cancelled true 5, task_end completed true 5' \
		"$(sql "select string_agg(concat_ws(' ', event, status, has, n), ', ' order by event, status, has) from (
			select j ->> 'event' as event, j #>> '{task,status}' as status,
				coalesce(j #>> '{task,omitted}', left(j #>> '{task,details}', 1)) as has, count(*) as n
			from (select details::json as j from tasks where type = 'told') t group by 1, 2, 3) t where status is not null")"
}

run_tests
