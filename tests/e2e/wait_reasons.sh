#!/usr/bin/env bash
# The reason why a task waits: shown for tasks and batches, and by commands that wait.
# timeout 600
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tasks.bash"
. "$(dirname "$0")/queues.bash"

start_postgres
start_manager other
start_manager manager

waiting() { # ID: why it waits, as numbers
	reeve show "$1" --json | jq -c '.waiting | if . then [.reason, .task_id, .workers, .slots, .busy] else "no" end'
}

waits() { # ID: the same in words
	reeve show "$1" | sed -n 's/^waits *//p'
}

test_the_reason_why_a_task_waits_is_shown() {
	local lonely a b c id entry manager=${URL[other]}
	lonely=$(reeve submit lonely --queue why)
	expect_eq '["no_worker",0,0,0,0]' "$(waiting "$lonely")"
	expect_eq 'no worker takes its type in its queue' "$(waits "$lonely")"
	expect_match "$lonely +queued .* no worker takes its type in its queue" "$(reeve list --queue why)"
	# A worker at the other manager counts, but only for its types and queues.
	REEVE_MANAGER=$manager start_worker worker --queue why --concurrency 1
	expect_eq '["no_worker",0,0,0,0]' "$(waiting "$lonely")"
	a=$(reeve submit sh "$HOLD" --queue why)
	wait_began "$a"
	expect_eq '"no"' "$(waiting "$a")"
	expect_eq '' "$(waits "$a")"
	b=$(reeve submit sh true --queue why)
	c=$(reeve submit sh true --queue elsewhere-why)
	expect_eq '["workers_busy",0,1,1,1]' "$(waiting "$b")"
	expect_eq 'the only slot of the worker that takes it is busy' "$(waits "$b")"
	expect_eq '["no_worker",0,0,0,0]' "$(waiting "$c")"
	# A list shows the same for all tasks at once, from either manager.
	expect_eq "$b workers_busy,$a null,$lonely no_worker" \
		"$(at_other list --queue why --json | jq -sr '[.[] | "\(.id) \(.waiting.reason)"] | join(",")')"
	reeve worker pause worker >/dev/null
	wait_until 10 "[ \"\$(waits $b)\" = 'the worker that takes it is paused or drains' ]"
	expect_eq '["workers_paused",0,1,0,0]' "$(waiting "$b")"
	# The state of the queue takes precedence over that of the workers.
	reeve queue pause why >/dev/null
	expect_eq 'its queue is paused' "$(waits "$b")"
	expect_eq '["queue_paused",0,0,0,0]' "$(waiting "$lonely")"
	reeve queue resume why >/dev/null
	reeve worker resume worker >/dev/null
	release
	reeve wait "$a" "$b" >/dev/null
	expect_eq '"no" "no"' "$(waiting "$a") $(waiting "$b")"
	# Due times.
	a=$(reeve submit sh true --queue why --delay 1h)
	expect_eq '["not_due",0,0,0,0]' "$(waiting "$a")"
	expect_match '^due in [56][0-9]m$' "$(waits "$a")"
	b=$(reeve submit sh 'exit 3' --queue why --retry-base 1h --jitter 0)
	wait_status 10 "$b" failed
	expect_eq '["retry_delay",0,0,0,0]' "$(waiting "$b")"
	expect_match '^attempt 1 failed, due again in [56][0-9]m$' "$(waits "$b")"
	expect_match "$b +failed .* attempt 1 failed, due again in [0-9]+m, exit:3" "$(reeve list --queue why)"
	# Once it is due again, it waits like any other task.
	stop worker
	reeve retry "$b" >/dev/null
	expect_match "$b +failed .* no worker takes its type in its queue, exit:3" "$(reeve list --queue why)"
	# A batch's entry task, which itself has a reason for waiting.
	id=$(reeve batch open first --queue why --entry lonely)
	c=$(reeve submit sh true --batch "$id")
	entry=$(reeve batch report "$id" --json | jq .batch.entry_id)
	expect_eq "[\"batch_entry\",$entry,0,0,0]" "$(waiting "$c")"
	expect_eq "task $entry, the entry task of its batch, has not ended" "$(waits "$c")"
	expect_eq '["no_worker",0,0,0,0]' "$(waiting "$entry")"
	# A queue that has not been started.
	reeve queue set why-held --autostart no >/dev/null
	expect_eq 'its queue has not been started' "$(waits "$(reeve submit sh true --queue why-held)")"
	# Short-lived reasons: a queue that is being stopped, and a task by SQL that no manager has ingested yet.
	expect_eq '{{1,0,0,0,0}}' "$(sql "begin; update queues set state = 'stopping' where name = 'why-held';
		select tasks_waiting(array[max(id)], null) from tasks where queue = 'why-held'; rollback")"
	expect_eq '{{4,0,0,0,0}}' "$(sql "begin; create temp table x as select submit('sh', queue => 'new to all') as id;
		select tasks_waiting(array[id], null) from x; rollback")"
}

batch_waits() { # ID: what is told of its first task that waits, by its report and in the list, which must be the same
	local said
	said=$(reeve batch report "$1" | sed -n 's/^waits *//p')
	expect_eq "${said:--}" "$(reeve batch list --queue why-batches | sed -n "s/^ *$1 .* \\(-\\|task [0-9]*: .*\\)$/\\1/p")" 'in the list'
	expect_eq "$(reeve batch report "$1" --json | jq -c .batch.first_waiting)" \
		"$(reeve batch list --queue why-batches --json | jq -c "select(.id == $1).first_waiting")" 'in the list'
	echo "$said"
}

test_a_batch_says_why_its_first_task_waits() {
	local id other a b entry
	id=$(reeve batch open first --queue why-batches --entry lonely)
	expect_eq '' "$(batch_waits "$id")"
	a=$(reeve submit sh "$HOLD" --batch "$id")
	b=$(reeve submit sh true --batch "$id" --delay 1h)
	entry=$(reeve batch report "$id" --json | jq .batch.entry_id)
	expect_eq "task $entry: no worker takes its type in its queue" "$(batch_waits "$id")"
	expect_eq "[$entry,\"no_worker\"]" "$(reeve batch report "$id" --json | jq -c '.batch.first_waiting | [.id, .waiting.reason]')"
	reeve queue pause why-batches >/dev/null
	expect_eq "task $entry: its queue is paused" "$(batch_waits "$id")"
	# Another batch in the same list, without an entry task: its own first task.
	other=$(reeve batch open second --queue why-batches)
	reeve submit sh true --batch "$other" >"$DIR/first"
	reeve submit sh true --batch "$other" >/dev/null
	expect_eq "task $(cat "$DIR/first"): its queue is paused" "$(batch_waits "$other")"
	reeve queue resume why-batches >/dev/null
	reeve batch close "$other" >/dev/null
	# A running task is skipped; a task that is due later shows when.
	handlers <<-END
		[handler sh]
		exec = /bin/bash
		[handler lonely]
		exec = /bin/true
	END
	start_worker worker --queue why-batches --concurrency 2
	reeve batch wait "$other" >/dev/null
	expect_eq '' "$(batch_waits "$other")"
	wait_began "$a"
	expect_match "^task $b: due in [56][0-9]m$" "$(batch_waits "$id")"
	release
	reeve wait "$a" >/dev/null
	reeve cancel "$b" >/dev/null
	reeve batch close "$id" >/dev/null
	wait_until 10 "[ \"\$(reeve batch report $id --json | jq -r .batch.state)\" = ended ]"
	expect_eq '' "$(batch_waits "$id")"
	stop worker
}

test_a_command_that_waits_says_why_once_for_each_reason() {
	local id waiter status=0
	"$REEVE_BIN/reeve" submit lonely --queue patience --wait >"$DIR/out" 2>"$DIR/said" &
	waiter=$!
	wait_until 20 'grep -q "waits: no worker" "$DIR/said"'
	reeve queue pause patience >/dev/null
	wait_until 20 'grep -q "waits: its queue" "$DIR/said"'
	pause 4 # it looks every three seconds
	id=$(reeve list --queue patience --json | jq .id)
	reeve cancel "$id" >/dev/null
	wait "$waiter" || status=$?
	expect_eq 1 "$status"
	expect_eq '' "$(cat "$DIR/out")" 'on standard output'
	expect_eq "reeve: task $id (lonely in queue patience) waits: no worker takes its type in its queue
reeve: task $id (lonely in queue patience) waits: its queue is paused" "$(grep -v 'is cancelled' "$DIR/said")"
}

# Of several tasks, the command names one that waits, not one that runs; also on a terminal, where it draws a progress
# bar.
test_a_command_that_waits_for_several_says_why_one_of_them_does() {
	local failed waiter status=0
	start_worker worker --queue several --concurrency 2
	jq -nc --arg hold "$HOLD" '{details: $hold}, {details: "exit 3"}, {details: "true"}' >"$DIR/tasks"
	script -qec "'$REEVE_BIN/reeve' --manager '$REEVE_MANAGER' submit --bulk '$DIR/tasks' sh --queue several --retry-base 1h --jitter 0 --wait" \
		/dev/null >"$DIR/said" &
	waiter=$!
	wait_until 20 'grep -q "waits: attempt 1 failed" "$DIR/said"'
	failed=$(reeve list --queue several --status failed --json | jq .id)
	reeve cancel "$failed" >/dev/null
	release
	wait "$waiter" || status=$?
	expect_eq 1 "$status"
	expect_match 'waiting \[#* *\] [0-9]/3' "$(cat "$DIR/said")"
	expect_match "reeve: task $failed \(sh in queue several\) waits: attempt 1 failed, due again in [56][0-9]m" "$(cat "$DIR/said")"
	expect_eq 1 "$(grep -c 'waits: ' "$DIR/said")"
	stop worker
}

run_tests
