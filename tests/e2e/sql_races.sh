#!/usr/bin/env bash
# Reeve's functions in two transactions at once, of which one commits while the other waits for its rows. No manager runs.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/sql_app.bash"

start_postgres

two_sessions() { # `one` and `two`, with the rights of a manager
	for name in one two; do
		open_session $name reeve
		say $name 'set search_path = reeve'
	done
}

open_batch() { # QUEUE: a batch with a pending task; prints its id
	local id
	id=$(sql "select batch_open(gen_random_uuid(), 'batch', '$1', null, null, false, null, null, null, '', false)")
	sql "select id from submit_task('{\"queue\":\"$1\",\"type\":\"echo\",\"batch_id\":$id}')" >/dev/null
	echo "$id"
}

# Whether a manager ingests a task before the batch is closed, during that, or after it changes nothing.
test_a_batch_that_is_being_closed_takes_tasks() {
	two_sessions
	first=$(open_batch b) second=$(open_batch b)
	sql "select reeve.submit('echo', batch_id => $first)" >/dev/null
	say one "begin; select batch_close(gen_random_uuid(), $first)"
	say_later two 'select ingested, refused from inbox_ingest_next(0, 10)'
	waits_or_said two
	say one commit
	expect_eq '1|' "$(said two)"
	# A task that is submitted during the close.
	say one "begin; select batch_close(gen_random_uuid(), $second)"
	sql "select reeve.submit('echo', batch_id => $second)" >/dev/null
	say one commit
	expect_eq '1|' "$(say two 'select ingested, refused from inbox_ingest_next(0, 10)')"
	expect_eq '2|2|0|0 2|2|0|0' "$(totals "$first") $(totals "$second")"
}

# A newer version may have another type, and the handler of that type must get it.
test_a_newer_version_of_a_task_in_the_inbox_has_its_own_route() {
	two_sessions
	sql "insert into queues (name, batches) values ('v', true); select reeve.submit('a', queue => 'v', key => 'k', version => 1)" >/dev/null
	say one "begin; select reeve.submit('b', queue => 'v', key => 'k', version => 2)" >/dev/null
	say_later two 'select ingested from inbox_ingest_next(0, 10)'
	waits_or_said two
	say one commit
	said two >/dev/null
	say two 'select ingested from inbox_ingest_next(0, 10)' >/dev/null
	expect_eq 'b|b|t' "$(sql "select t.type, r.type, t.batch_id is not null from tasks t join routes r on r.id = t.route_id where t.queue = 'v'")"
}

test_a_task_that_is_run_again_stays_in_the_inbox() {
	two_sessions
	id=$(sql "insert into queues (name, batches) values ('i', true); select reeve.submit('a', queue => 'i', key => 'k', version => 1)")
	sql "select tasks_end(array[row($id, 'cancelled', clock_timestamp(), false, null, null, null, null, null, null)::task_end], 30)" >/dev/null
	expect_eq "$id" "$(say one "begin; select reeve.submit('a', queue => 'i', key => 'k', version => 2)")"
	say_later two 'select ingested from inbox_ingest_next(0, 10)'
	waits_or_said two
	say one commit
	said two >/dev/null
	say two 'select ingested from inbox_ingest_next(0, 10)' >/dev/null
	expect_eq "$id|t" "$(sql "select id, run_at < 'infinity' from tasks where queue = 'i'")"
}

test_a_queue_that_is_being_deleted_is_paused_and_set() {
	two_sessions
	sql "insert into routes (queue, type) values ('stop', 'echo')"
	for call in "queue_control(gen_random_uuid(), 'pause', 'pause', '')" "queue_control(gen_random_uuid(), 'stop', 'stop', '')" \
		"queue_set(gen_random_uuid(), 'set', '{\"max_attempts\":3}', '')"; do
		queue=$(sed "s/[^']*'//;s/'.*//" <<<"$call")
		sql "insert into queues (name) values ('$queue')"
		say one "begin; select from queues where name = '$queue' for no key update" >/dev/null
		say_later two "select from $call"
		waits_or_said two
		say one "select from queue_control(gen_random_uuid(), '$queue', 'delete', ''); commit" >/dev/null
		said two >/dev/null
	done
	expect_eq $'pause|paused|\nset|running|3\nstop|stopping|' \
		"$(sql "select name, state, max_attempts from queues where name in ('pause', 'stop', 'set') order by 1")"
}

# The task is committed before the stop has the queue's row.
test_a_stop_ends_what_was_submitted_while_it_waited() {
	two_sessions
	sql "insert into queues (name, batches) values ('s', true)"
	say one "begin; select from queues where name = 's' for no key update" >/dev/null
	say_later two "select state from queue_control(gen_random_uuid(), 's', 'stop', '')"
	waits_or_said two
	id=$(say one "select id from submit_task('{\"queue\":\"s\",\"type\":\"echo\"}'); commit")
	expect_eq stopping "$(said two)"
	expect_eq 1 "$(sql "select count(*) from queue_stops() where name = 's' and up_to >= $id")"
	expect_eq stopping "$(sql "select state from queues where name = 's'")"
}

run_tests
