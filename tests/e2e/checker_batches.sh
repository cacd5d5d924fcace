#!/usr/bin/env bash
# The checker of the fault tests, for batches: it finds nothing in a run without violations, and each violation that a
# test inserts.
. "$(dirname "$0")/lib.sh"
. "$TOP/tests/e2e/checker.bash"

# Makes the run: two managers, programs and functions, batches with callbacks, and some tasks of no batch.
the_run() {
	start_fleet
	start_batches
	start_submitter s --count 10 --rate 60 --seed 7 --mix short=1
	end_run
}

test_nothing_is_found_where_all_went_well() {
	expect_nothing_found
}

some_batch() { # one with all that there is: entry, exit, callbacks both ways
	some 'id name entry exit' "select id, name, entry_id, exit_id from batches
		where entry_id is not null and callback_url is not null and completed > 0 order by id"
}

test_a_batch_is_lost() {
	copy
	some_batch
	change "delete from batches where id = $id"
	check
	expect_found 'I1 batch-lost' "the batch $name was acknowledged as $id" and others
}

test_a_batch_is_opened_twice() {
	copy
	some_batch
	change "update batches set name = '$name' where id = (select min(id) from batches where id <> $id and name <> '$name')"
	check
	expect_found 'I1 batch-made-twice' "the batch $name was opened as"
}

test_a_batch_counts_wrongly() {
	copy
	some_batch
	change "update batches set completed = completed - 1, failed = failed + 1 where id = $id"
	check
	expect_found 'I6 batch-counts' "batch $id "
}

test_a_batch_does_not_end() {
	copy
	some_batch
	change "update batches set phase = 'exit', ended_at = null where id = $id"
	check
	expect_found 'I4 batch-not-ended' "batch $id " and others
	check --running
	expect_no_match 'batch-not-ended' "$OUTPUT"
}

test_a_batch_ends_before_its_tasks() {
	copy
	some_batch
	change "update batches set ended_at = started_at where id = $id"
	check
	expect_found 'I3 batch-ended-early' "batch $id .*ended before its task" and others
}

test_a_batch_has_two_exit_tasks() {
	copy
	some_batch
	change "update task_history set batch_id = $id, type = 'fault-exit' where task_id = (
		select min(task_id) from task_history where batch_id is null and type = 'fault-exec')"
	check
	expect_found 'I1 batch-made-twice' "batch $id .*2 exit tasks" and others
}

test_a_batchs_exit_comes_too_early() {
	copy
	some_batch
	change "update task_history set created = (select started_at from batches where id = $id) where task_id = $exit"
	check
	expect_found 'I6 batch-order' "batch $id .*its exit task was made before" and others
}

test_a_batchs_entry_comes_too_late() {
	copy
	some_batch
	change "update task_history set last_updated = (select ended_at from batches where id = $id) where task_id = $entry"
	check
	expect_found 'I6 batch-order' "batch $id .*was claimed before the entry task had ended" and others
}

test_a_callback_is_created_twice() {
	copy
	some_batch
	change "insert into callbacks (batch_id, event, url, state, ended_at)
		select batch_id, event, url, 'delivered', now() from callbacks where batch_id = $id and event = 'batch_end'"
	check
	expect_found 'I1 batch-told-twice' "batch $id .*was called by HTTP of batch_end .*2 times" and others
}

test_a_callback_is_missing() {
	copy
	some_batch
	change "delete from callbacks where batch_id = $id and event = 'batch_begin'"
	check
	expect_found 'I6 batch-event-missing' "batch $id .*nobody was called by HTTP of batch_begin" and others
}

test_a_callback_was_never_delivered() {
	copy
	some 'id batch' "select id, batch_id from callbacks where state = 'delivered' order by id"
	sed -i "/\"cb_$id\"/d" "$LEDGERS/http.received"
	check
	expect_found 'I6 batch-told-wrongly' "callback $id is said delivered, and was received by nobody"
}

test_a_callback_task_is_missing() {
	copy
	some_batch
	change "update task_history set details = '{}' where task_id = (
		select min(task_id) from task_history where type = 'fault-told' and details like '%\"batch_end\"%')"
	check
	expect_found 'I6 batch-event-missing' 'nobody was told by a task of batch_end'
}

the_run
run_tests
