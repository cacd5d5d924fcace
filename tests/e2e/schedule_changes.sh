#!/usr/bin/env bash
# Changes of schedules: edit, pause, resume and remove, also while they fire; and calls that come twice.
# timeout 600
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tasks.bash"
. "$(dirname "$0")/schedules.bash"

start_postgres
start_manager other
start_manager manager

test_a_paused_schedule_does_not_fire_and_a_resumed_one_does_not_catch_up() {
	reeve schedule add pausing --every 100ms nothing --concurrency-policy allow >/dev/null
	wait_until 20 '[ -n "$(runs pausing id)" ]'
	expect_eq 'pausing: paused' "$(at_other schedule pause pausing)"
	expect_eq 'pausing: paused' "$(reeve schedule pause pausing)" # what is so already stays so
	n=$(runs pausing id | wc -l)
	next=$(of pausing .next)
	expect_match 'state +paused' "$(reeve schedule show pausing)"
	expect_match 'pausing .*paused' "$(reeve schedule list)"
	# Managers that poll leave a paused schedule alone.
	sql "select pg_notify('reeve_notify', 'schedules')"
	wait_until 10 "[ \"\$(sql \"select clock_timestamp() > timestamptz '$next' + interval '2s'\")\" = t ]"
	expect_eq "$n $next" "$(runs pausing id | wc -l) $(of pausing .next)"
	resumed=$(sql 'select clock_timestamp()')
	expect_eq '{"name":"pausing","done":"resumed"}' "$(reeve schedule resume pausing --json)"
	wait_until 20 "[ \"\$(runs pausing id | wc -l)\" -gt $n ]"
	at_other schedule resume pausing >/dev/null # changes nothing
	reeve schedule remove pausing >/dev/null
	# The times during the pause caused no runs, and do not count as missed.
	expect_eq 0 "$(sql "select count(*) from schedule_runs where scheduled_at between '$next' and '$resumed'
		and schedule_id = (select schedule_id from schedule_events where schedule = 'pausing' limit 1)")"
	expect_eq 'schedule_added schedule_paused schedule_resumed schedule_removed' \
		"$(at_other audit --json | jq -r 'select(.note == "schedule pausing") | .event' | xargs)"
}

test_calls_that_come_twice_do_their_work_once() {
	id=$(resend id)
	resend schedule "$id" Add '{"schedule":{"name":"twice","every_ms":3600000,"task":{"type":"nothing"}}}' "${URL[manager]}" "${URL[other]}" >"$DIR/answers"
	resend schedule "$id" Add '{"schedule":{"name":"twice","every_ms":3600000,"task":{"type":"nothing"}}}' "${URL[other]}" >>"$DIR/answers"
	expect_eq 'twice twice twice' "$(jq -r .schedule.name "$DIR/answers" | xargs)"
	id=$(resend id)
	for _ in 1 2; do
		resend schedule "$id" Edit '{"schedule":{"name":"twice","task":{"priority":4}},"fields":["task.priority"]}' "${URL[manager]}" "${URL[other]}" >"$DIR/answers"
	done
	expect_eq '4 4' "$(jq .schedule.task.priority "$DIR/answers" | xargs)"
	# A request id of another call is refused.
	expect_fail 4 resend schedule "$id" Control '{"name":"twice","action":"pause"}' "${URL[manager]}"
	expect_match 'request id was used for another call' "$OUTPUT"
	for action in pause resume remove; do
		id=$(resend id)
		expect resend schedule "$id" Control "{\"name\":\"twice\",\"action\":\"$action\"}" "${URL[manager]}" "${URL[other]}" >"$DIR/answers"
		expect resend schedule "$id" Control "{\"name\":\"twice\",\"action\":\"$action\"}" "${URL[other]}" >"$DIR/answers"
	done
	expect_eq 'schedule_added schedule_edited schedule_paused schedule_resumed schedule_removed' \
		"$(sql "select event from schedule_events where schedule = 'twice' order by id" | xargs)"
	# None of the resent calls has restored the schedule.
	expect_fail 4 reeve schedule show twice
	expect_match 'there is no schedule "twice"' "$OUTPUT"
}

test_an_edit_changes_what_is_given() {
	reeve schedule add edited --cron '0 1 * * *' sh 'exit 0' --priority 3 --retry-limit 1 --catch-up all:5 --concurrency-policy forbid --queue q >/dev/null
	next=$(of edited .next)
	at_other schedule edit edited --priority 0 --timeout 5m >/dev/null
	expect_eq "0 300000 2 all 5 forbid q sh exit 0 $next" "$(of edited '[.task.priority, .task.timeout_ms, .task.max_attempts, .catch_up, .max_catch_up,
		.concurrency_policy, .task.queue, .task.type, .task.details, .next] | join(" ")')"
	reeve schedule edit edited echo --catch-up skip --backoff fixed:3s >"$DIR/out"
	expect_match 'type      echo' "$(cat "$DIR/out")"
	expect_eq "echo exit 0 skip 0 fixed 3000 $next" "$(of edited '[.task.type, .task.details, .catch_up, .max_catch_up, .task.retry.kind, .task.retry.base_ms, .next] | join(" ")')"
	# The next scheduled time is computed again, and a paused schedule stays paused.
	reeve schedule pause edited >/dev/null
	reeve schedule edit edited --cron '0 2 * * *' >/dev/null
	expect_match 'T02:00:00' "$(of edited .next)"
	reeve schedule edit edited --zone Asia/Tokyo >/dev/null
	expect_match 'T17:00:00' "$(of edited .next)"
	reeve schedule edit edited --every 1h --start 2026-01-01T00:15:00Z >/dev/null
	expect_match ':15:00' "$(of edited .next)"
	expect_eq ' true' "$(of edited '[.cron, .paused] | join(" ")')"
	reeve schedule edit edited --every 30m >/dev/null # counted from where it was
	expect_match ':(15|45):00' "$(of edited .next)"
	reeve schedule edit edited --manual --key fixed >/dev/null
	expect_eq 'true null fixed' "$(of edited '[.manual, .next, .task.key] | map(tostring) | join(" ")')"
	# From a task to an action on a queue, and back.
	reeve schedule edit edited --queue-action pause --queue letters --cron '0 3 * * *' >/dev/null
	expect_eq 'pause letters null 0 3 * * *' "$(of edited '[.queue_action, .action_queue, .task, .cron] | map(tostring) | join(" ")')"
	reeve schedule edit edited echo back >/dev/null
	expect_eq 'unspecified  echo back default' "$(of edited '[.queue_action, .action_queue, .task.type, .task.details, "default" + .task.queue] | join(" ")')"
	expect_eq 'schedule edited: cron, zone' "$(reeve schedule edit edited --cron '0 1 * * *' --zone UTC >/dev/null; reeve audit --json |
		jq -r 'select(.event == "schedule_edited") | .note' | tail -n 1)"
	# A refused edit changes nothing.
	was=$(of edited .)
	expect_fail 4 reeve schedule edit edited --priority 5 --cron '0 0 30 2 *'
	expect_fail 4 reeve schedule edit edited --priority 5 --zone Mars/Phobos
	expect_fail 4 reeve schedule edit edited --priority 5 --key same
	expect_fail 4 reeve schedule edit edited --start +1h
	expect_fail 2 reeve schedule edit edited
	expect_fail 4 reeve schedule edit nobody --priority 5
	expect_eq "$was" "$(of edited .)"
	reeve schedule remove edited >/dev/null
}

# Each scheduled time has exactly one run, whatever is edited between two runs.
test_an_edit_during_firings_loses_and_doubles_none() {
	local i
	start_worker worker --concurrency 4
	reeve schedule add busy --every 100ms nothing --concurrency-policy allow --catch-up all:1000 >/dev/null
	for i in $(seq 1 40); do
		[ $((i % 2)) = 0 ] && url=${URL[manager]} || url=${URL[other]}
		reeve --manager "$url" schedule edit busy --priority "$i" >/dev/null
		[ $((i % 10)) != 0 ] || wait_until 10 "[ \"\$(runs busy id | wc -l)\" -gt $((3 * i / 10)) ]"
	done
	reeve schedule pause busy >/dev/null
	expect_eq 40 "$(of busy .task.priority)"
	# There is no gap from the first run to the last.
	expect_eq '' "$(sql "select r.id, r.scheduled_at from schedule_runs r join schedules s on s.id = r.schedule_id and s.name = 'busy'
		where not exists (select from schedule_runs b where b.schedule_id = r.schedule_id and b.scheduled_at = r.scheduled_at - interval '100ms')
			and r.scheduled_at <> s.start_at + interval '100ms'")"
	expect_eq 't' "$(sql "select count(*) = count(distinct scheduled_at) and count(*) = count(distinct task_id) and count(*) > 10
		from schedule_runs r join schedules s on s.id = r.schedule_id and s.name = 'busy' where outcome = 'submitted'")"
	expect_eq 0 "$(sql "select count(*) from schedule_runs r join schedules s on s.id = r.schedule_id and s.name = 'busy' where outcome <> 'submitted'")"
	expect_eq "$(runs busy id | wc -l)" "$(sql "select count(*) from all_tasks where source = 'schedule busy'")"
	reeve schedule remove busy >/dev/null
}

# A firing uses the current definition: a manager that read the definition before an edit, a pause or a removal does not
# fire.
test_a_manager_that_read_it_before_a_change_does_not_fire() {
	local change
	made_after() { # SQL: how many ticks are made of a row that was seen before that
		sql "create temp table told (n int);
			do \$\$ declare seen schedules; n int; begin
				select * into seen from schedules where name = 'seen';
				$1
				select count(*) into n from schedule_fire(seen, seen.next_at) where outcome = 'submitted';
				insert into told values (n);
			end \$\$;
			select n from told"
	}
	reeve schedule add seen --every 3650d nothing --concurrency-policy allow >/dev/null
	# The changes include some that do not affect the times.
	for change in "schedule_edit(gen_random_uuid(), 'seen', '{\"task\": {\"priority\": 3}}', '')" \
		"schedule_control(gen_random_uuid(), 'seen', 'pause', '')" "schedule_control(gen_random_uuid(), 'seen', 'resume', '')"; do
		expect_eq 0 "$(made_after "perform $change;")" "$change"
	done
	expect_eq 1 "$(made_after '')"
	expect_eq 0 "$(made_after "perform schedule_control(gen_random_uuid(), 'seen', 'remove', '');")"
	expect_eq 1 "$(runs seen outcome | grep -c submitted)"
}

test_a_removed_one_leaves_its_runs_and_tasks() {
	start_worker
	reeve schedule add gone --every 100ms sh "$HOLD" --concurrency-policy queue >/dev/null
	made() { runs gone outcome task_id "$@" | grep submitted; } # a first firing that is late leaves a missed one, too
	wait_until 20 '[ -n "$(made)" ]'
	task=$(made | cut -d" " -f2)
	wait_began "$task"
	# Once due, it waits for the live run.
	wait_until 20 "[ \"\$(of gone .waits_for)\" = $task ]"
	expect_match "gone .*waits for task $task" "$(reeve schedule list)"
	expect_match "state +waits for task $task" "$(at_other schedule show gone)"
	expect_eq 'gone: removed' "$(at_other schedule remove gone)"
	expect_fail 4 reeve schedule show gone
	expect_match 'there is no schedule "gone"' "$OUTPUT"
	expect_eq "submitted $task executing" "$(made task_status)"
	release
	reeve wait "$task" >/dev/null
	expect_eq "submitted $task completed" "$(made task_status)"
	# The name is free again; the runs of both schedules are listed.
	reeve schedule add gone --manual nothing >/dev/null
	again=$(reeve schedule run gone)
	expect_eq "$task $again" "$(made | cut -d" " -f2 | xargs)"
	reeve schedule remove gone >/dev/null
	expect_fail 4 reeve schedule remove gone
	expect_fail 4 reeve schedule runs never
	expect_match 'there is no schedule "never"' "$OUTPUT"
}

run_tests
