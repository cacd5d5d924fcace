#!/usr/bin/env bash
# Tasks by SQL in batches: counted exactly, without waiting for a transaction.
# timeout 600
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tasks.bash"
. "$(dirname "$0")/sql_app.bash"

test_batches_count_exactly_and_wait_for_no_transaction() {
	start_postgres
	handlers <<-'END'
		[handler sh]
		exec = /bin/bash
		[handler echo]
		exec = /bin/cat
		[handler prepare]
		exec = /bin/true
		[handler finish]
		exec = /bin/true
	END
	start_manager
	start_worker worker --concurrency 8
	grant_app
	id=$(reeve batch open mixed --queue b --entry prepare --exit finish)
	open_session shop
	late=$(say shop "begin; select reeve.submit('echo', n::text, batch_id => $id) from generate_series(1, 5) n")
	expect_eq 5 "$(wc -l <<<"$late")"
	expect_eq '0|0|0|0' "$(totals "$id")"
	# The batch begins and its other tasks end while the transaction is open.
	for n in $(seq 20); do echo "{\"details\": \"$n\"}"; done >"$DIR/lines"
	expect timeout 30 "$REEVE_BIN/reeve" wait $(reeve submit echo --bulk "$DIR/lines" --batch "$id") >/dev/null
	expect_eq '20|0|20|0' "$(totals "$id")"
	say shop commit
	wait_ended 20 $late
	expect_eq '25|0|25|0' "$(totals "$id")"
	# The batch is closed while a transaction is open: the task of the transaction ends dead, with the reason.
	open=$(say shop "begin; select reeve.submit('echo', 'too late', batch_id => $id)")
	reeve batch close "$id" >/dev/null
	expect reeve batch wait "$id" --max-wait 20s
	say shop commit
	wait_ended 20 "$open"
	expect_eq 'dead batch_closed' "$(field "$open" status) $(field "$open" error_code)"
	expect_match "batch $id was closed at" "$(field "$open" last_error)"
	expect_eq '25|0|25|0' "$(totals "$id")"
	# Its details are not lost: after a manual retry it runs without the batch.
	reeve retry "$open" >/dev/null
	wait_status 20 "$open" completed
	# A batch whose entry task starts because of a task by SQL.
	first=$(reeve batch open first --queue b --entry prepare)
	only=$(app "select reeve.submit('echo', 'only', batch_id => $first)")
	wait_ended 20 "$only"
	reeve batch close "$first" >/dev/null
	expect reeve batch wait "$first" --max-wait 20s
	expect_eq 'completed|1|1' "$(sql "select entry_status, submitted, completed from batches where id = $first")"
}

# The manager reads the inbox only after both were committed: the task, and the end of the batch.
test_a_batch_takes_what_was_submitted_before_it_was_closed() {
	start_postgres
	start_manager
	start_worker worker
	grant_app
	reeve submit echo --queue b --wait >/dev/null # so that the type is known
	first=$(reeve batch open first --queue b) second=$(reeve batch open second --queue b)
	reeve submit echo --queue b --batch "$second" --wait >/dev/null
	stop manager
	some=$(app "select reeve.submit('echo', n::text, batch_id => $first) from generate_series(1, 3) n")
	more=$(app "select reeve.submit('echo', 'more', batch_id => $second)")
	gone=$(app "select reeve.submit('echo', 'gone', batch_id => $first)")
	sql "set role reeve; select batch_close(gen_random_uuid(), $first), batch_close(gen_random_uuid(), $second); delete from tasks where id = $gone" >/dev/null
	start_manager
	expect reeve batch wait "$first" --max-wait 30s
	expect reeve batch wait "$second" --max-wait 30s
	expect_eq '3|0|3|0 2|0|2|0' "$(totals "$first") $(totals "$second")"
	expect_eq completed "$(sql "select string_agg(distinct status, ' ') from task_history where task_id in ($(xargs <<<"$some" | tr ' ' ,), $more)")"
	expect_eq 0 "$(sql 'select count(*) from inbox')"
}

test_implicit_batches_take_tasks_by_sql() {
	start_postgres
	start_manager
	start_worker worker --concurrency 4
	grant_app
	reeve queue set i --batches yes >/dev/null
	open_session shop
	late=$(say shop "begin; select reeve.submit('echo', 'late', queue => 'i')")
	other=$(reeve submit echo --queue i)
	expect timeout 20 "$REEVE_BIN/reeve" wait "$other" >/dev/null
	wait_until 20 "[ \"\$(sql \"select count(*) from batches where queue = 'i' and phase = 'ended' and submitted = 1\")\" = 1 ]"
	say shop commit
	wait_ended 20 "$late"
	wait_until 20 "[ \"\$(sql \"select count(*) from batches where queue = 'i' and phase = 'ended' and submitted = 1 and completed = 1\")\" = 2 ]"
	expect [ "$(field "$late" batch_id)" -gt "$(field "$other" batch_id)" ]
	# A queue without autostart waits for its start with these tasks, too.
	reeve queue set m --batches yes --autostart no >/dev/null
	waiting=$(app "select reeve.submit('echo', 'wait', queue => 'm')")
	wait_ingested
	expect_eq not_started "$(sql "select state from queues where name = 'm'")"
	reeve queue start m >/dev/null
	wait_ended 20 "$waiting"
}

test_a_stopped_queue_starts_with_what_comes_after_the_stop() {
	start_postgres
	start_manager
	start_worker
	grant_app
	for settings in no yes; do
		q=stopped-$settings
		reeve queue set "$q" --batches $settings >/dev/null
		reeve submit echo --queue "$q" --wait >/dev/null
		open_session "$q"
		# Tasks that were submitted before the stop, in a transaction that commits after it, end like all others.
		before=$(say "$q" "begin; select reeve.submit('echo', queue => '$q')")
		new_type=$(say "$q" "select reeve.submit('echo new', queue => '$q')")
		reeve queue stop "$q" >/dev/null
		wait_until 20 "[ \"\$(sql \"select state from queues where name = '$q'\")\" = stopped ]"
		say "$q" commit
		wait_ended 20 "$before" "$new_type"
		expect_eq 'dead dead' "$(field "$before" status) $(field "$new_type" status)"
		expect_match "queue \"$q\" was stopped" "$(field "$before" last_error)"
		expect_eq stopped "$(sql "select state from queues where name = '$q'")"
		after=$(app "select reeve.submit('echo', 'after', queue => '$q')")
		wait_ended 20 "$after"
		expect_eq completed "$(field "$after" status)"
		expect_eq running "$(sql "select state from queues where name = '$q'")"
	done
}

run_tests
