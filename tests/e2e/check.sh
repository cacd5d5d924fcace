#!/usr/bin/env bash
# `reeve check`, the plugin for monitoring: conditions and their bounds, its output and its exit code.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tasks.bash"

start_postgres
start_manager

checked() { # CODE OPTION…: the command's exit code is that; its output is $OUTPUT, the first line $FIRST
	local want=$1
	shift
	expect_fail "$want" reeve check "$@"
	FIRST=${OUTPUT%%$'\n'*}
}

value() { # CONDITION OPTION…: what it measures
	local label=$1
	shift
	reeve check "$@" --json | jq -r ".conditions[] | select(.name == \"$label\") | .value // .value_ms"
}

dead() { # QUEUE COUNT
	for _ in $(seq "$2"); do
		reeve submit sh "exit 3" --queue "$1" --max-attempts 1
	done | reeve wait - >/dev/null || true
}

schedule() { # NAME 'COLUMN, …' 'VALUE, …': one that no manager looks at before the check has
	sql "insert into schedules (name, $2) values ('$1', $3)"
}

# They name the program where docs/operations.md installs it, and no file that another user could have made before.
test_the_examples_fit_the_installation() {
	local line
	(cd "$TOP/examples/monitoring" && grep -l /usr/local/bin/reeve -- *) >"$DIR/files"
	expect_eq 'icinga2.conf nagios.cfg reeve-check.cron reeve-check.service' "$(xargs <"$DIR/files")"
	expect_eq '' "$(grep -rnE '/usr/bin/reeve|/tmp/' "$TOP/examples/monitoring")"
	# What cron mails: nothing, until something is wrong.
	line=$(sed -E "s,^([^ ]+ ){5},,; s,/usr/local/bin/reeve,$REEVE_BIN/reeve --call-timeout 5s," "$TOP/examples/monitoring/reeve-check.cron")
	expect_eq '' "$(sh -c "$line" 2>&1)"
	expect_match '^REEVE UNKNOWN - ' "$(REEVE_MANAGER=tcp://127.0.0.1:1 sh -c "$line" 2>&1)"
}

test_without_conditions_it_says_whether_manager_and_database_answer() {
	checked 0
	expect_match '^REEVE OK - manager .* and its database answer, 2 conditions are kept\|unserved=0;0;;0 halted=0;;;0
OK unserved: no waiting task lacks a worker that takes it
OK halted: no task waits in a queue that gives none$' "$OUTPUT"
	expect_eq 'OK 0 unserved halted' "$(reeve check --json | jq -r '[.state, .code, .conditions[].name] | join(" ")')"
}

test_without_conditions_tasks_that_no_worker_takes_are_a_warning() {
	local a b
	a=$(reeve submit lonely --queue alone)
	checked 1
	expect_match '^REEVE WARNING - 1 waiting task lacks a worker that takes it, more than 0\|unserved=1;0;;0 halted=0;;;0
WARNING unserved: [^
]*
  1 of queue alone, type lonely
OK halted: no task waits in a queue that gives none$' "$OUTPUT"
	# Workers of other types or queues, workers that have gone, and pull clients do not count.
	start_worker worker --queue alone
	start_worker elsewhere --queue elsewhere
	sql "insert into workers (name, types, manual) values ('hand', '{}', true)"
	b=$(reeve submit sh true --queue elsewhere)
	reeve wait "$b" >/dev/null
	checked 1
	stop elsewhere
	b=$(reeve submit sh true --queue elsewhere)
	checked 2 --unserved 1
	expect_match '2 waiting tasks lack a worker that takes them, more than 1' "$OUTPUT"
	expect_eq '1 alone lonely,1 elsewhere sh' "$({ reeve check --unserved 0, --json || true; } |
		jq -r '[.conditions[0].examples[] | "\(.count) \(.queue) \(.type)"] | join(",")')"
	checked 0 --unserved 1 --type lonely
	checked 1 --queue alone
	# Only the given conditions are checked. Queues that give no tasks do not count.
	checked 0 --failed-waiting 0
	reeve queue pause alone >/dev/null
	checked 0 --unserved 1
	checked 1 # of the other queue; those of a paused one are told, whatever their bounds
	expect_match 'OK halted: 1 task waits in a queue that gives none
  1 of queue alone, which is paused$' "$OUTPUT"
	checked 2 --halted 0 --queue alone --type lonely
	expect_match 'CRITICAL halted: 1 task waits in a queue that gives none, more than 0' "$OUTPUT"
	checked 0 --halted 0 --type sh
	reeve queue resume alone >/dev/null
	checked 2 --unserved 1
	# The result is OK again when no task lacks a worker.
	start_worker elsewhere --queue elsewhere
	reeve wait "$b" >/dev/null
	reeve cancel "$a" >/dev/null
	checked 0
}

test_what_ended_dead_within_the_hour_is_counted() {
	start_worker worker --concurrency 4
	dead wrong 3
	checked 0 --dead-per-hour 3 --queue wrong
	expect_eq 'dead_per_hour=3;;3;0' "${FIRST#*|}"
	checked 1 --dead-per-hour 2,3 --queue wrong
	expect_match '^REEVE WARNING - 3 tasks ended dead within the last hour, more than 2\|dead_per_hour=3;2;3;0$' "$FIRST"
	checked 1 --dead-per-hour 2, --queue wrong
	expect_eq 'dead_per_hour=3;2;;0' "${FIRST#*|}"
	checked 2 --dead-per-hour 0 --type sh
	expect_match '^REEVE CRITICAL - ' "$FIRST"
	expect_match '3 of queue wrong, type sh: exit:3, the latest is task [0-9]+' "$OUTPUT"
	# Tasks of other queues and types do not count, nor do those that ended earlier.
	reeve submit nothing --queue fine --wait >/dev/null
	checked 0 --dead-per-hour 0 --queue fine
	expect_match ', 1 condition is kept' "$FIRST"
	sql "update task_history set last_updated = last_updated - interval '59 minutes' where queue = 'wrong'"
	expect_eq 3 "$(value dead_per_hour --dead-per-hour 10 --queue wrong)"
	sql "update task_history set last_updated = last_updated - interval '2 minutes' where queue = 'wrong'"
	checked 0 --dead-per-hour 0 --queue wrong
}

test_what_has_failed_and_waits_is_counted() {
	local a b
	start_worker worker --concurrency 4
	a=$(reeve submit sh 'exit 4' --queue later --retry-base 1h)
	b=$(reeve submit sh 'exit 4' --queue later --retry-base 1h)
	wait_status 20 "$a" failed
	wait_status 20 "$b" failed
	checked 0 --failed-waiting 2 --queue later
	checked 2 --failed-waiting 1 --queue later
	expect_match '^REEVE CRITICAL - 2 tasks have failed and wait to be tried again, more than 1\|failed=2;;1;0$' "$FIRST"
	expect_match '2 of queue later, type sh: exit:4, the latest is task '"$b"': attempt 1 failed, due again in [0-9]+m' "$OUTPUT"
	# A task that was retried and failed again counts; a cancelled one does not.
	reeve cancel "$b" >/dev/null
	reeve retry "$a" >/dev/null
	wait_until 20 "[ \"\$(field $a attempt)\" = 2 ] && [ \"\$(field $a status)\" = failed ]"
	expect_eq 1 "$(value failed --failed-waiting 0 --queue later)"
	reeve cancel "$a" >/dev/null
	expect_eq 0 "$(value failed --failed-waiting 0 --queue later)"
}

test_the_longest_waiting_task_of_queues_that_give_tasks() {
	local a b
	# No worker serves this queue's type.
	a=$(reeve submit nobody --queue old --priority -5)
	b=$(reeve submit nobody --queue old --priority 5)
	reeve submit nobody --queue old --delay 1h >/dev/null
	checked 0 --oldest-queued 5m --queue old
	sql "update tasks set run_at = run_at - interval '10 minutes' where id = $a;
		update tasks set run_at = run_at - interval '4 minutes' where id = $b"
	checked 2 --oldest-queued 3m,5m --queue old
	expect_match '^REEVE CRITICAL - the task that waits longest is due for 10m.*, longer than 5m\|oldest_queued=60[0-9]\.[0-9]+s;180\.000;300\.000;0$' "$FIRST"
	expect_match "task $a of queue old, type nobody, due for 10m[0-9s]*: no worker takes its type in its queue" "$OUTPUT"
	checked 1 --oldest-queued 5m,1h --type nobody
	# Queues that are paused, not started, or stopped are so on purpose, and do not count.
	reeve queue pause old >/dev/null
	checked 0 --oldest-queued 5m --queue old
	expect_match 'no due task waits' "$OUTPUT"
	reeve queue resume old >/dev/null
	checked 2 --oldest-queued 5m --queue old
	reeve cancel "$a" >/dev/null
	checked 1 --oldest-queued 3m,5m --queue old
	reeve cancel "$b" >/dev/null
	expect_eq 0 "$(value oldest_queued --oldest-queued 5m --queue old)"
}

test_a_failed_task_that_is_due_waits_like_any_other() {
	local a
	start_worker worker --concurrency 4
	a=$(reeve submit sh 'exit 4' --queue overdue --retry-base 1h)
	wait_status 20 "$a" failed
	reeve queue set overdue --resting 1s >/dev/null
	expect_eq 0 "$(value oldest_queued --oldest-queued 5m --queue overdue)"
	stop worker
	sql "update tasks set run_at = clock_timestamp() - interval '1 minute' where id = $a"
	checked 2 --oldest-queued 30s --queue overdue
	reeve cancel "$a" >/dev/null
}

test_attempts_that_run_for_long() {
	local a b
	start_worker worker --concurrency 4
	a=$(reeve submit sh "$HOLD" --queue long --timeout 1h)
	b=$(reeve submit sh "$HOLD" --queue longer --timeout 1h)
	wait_began "$a"
	wait_began "$b"
	checked 0 --longest-running 1h
	wait_until 20 '[ "$(value running_longest --longest-running 1h --queue long)" -gt 300 ]'
	checked 2 --longest-running 300ms --queue long
	expect_match '^REEVE CRITICAL - the attempt that runs longest runs for .*, longer than 300ms\|running_longest=' "$FIRST"
	expect_match "task $a of queue long, type sh, runs for .* at worker worker" "$OUTPUT"
	expect_no_match "task $b " "$OUTPUT"
	wait_until 20 '[ "$(value running_longest --longest-running 1h --queue longer)" -gt 300 ]'
	expect_eq 2 "$(reeve check --longest-running 300ms, --json | jq '.conditions[0].count')"
	expect_eq 'WARNING' "$(reeve check --longest-running 300ms,1h --json | jq -r .state)"
	release
	reeve wait "$a" "$b" >/dev/null
	checked 0 --longest-running 300ms
	expect_match 'no attempt runs' "$OUTPUT"
}

test_schedules_that_are_late() {
	local id
	start_worker worker --concurrency 4
	id=$(reeve submit sh "$HOLD" --timeout 1h)
	wait_began "$id"
	# No manager may fire the schedules while they are checked.
	signal manager STOP
	schedule hourly 'every_ms, spec, next_at' "3600000, '{\"type\": \"sh\", \"queue\": \"reports\"}', now() - interval '20 minutes'"
	schedule waiting 'every_ms, spec, next_at, concurrency_policy, last_task_id' \
		"60000, '{\"type\": \"sh\"}', now() - interval '10 minutes', 'queue', $id"
	schedule idle 'every_ms, spec, next_at, paused' "60000, '{\"type\": \"sh\"}', now() - interval '1 day', true"
	schedule future 'every_ms, spec, next_at' "60000, '{\"type\": \"sh\"}', now() + interval '1 day'"
	schedule opening 'cron, queue_action, action_queue, next_at' "'0 2 * * *', 'start', 'night', now() - interval '15 minutes'"
	measure 5m | cut -d '|' -f 5 >"$DIR/late"
	# In minutes, because some time may pass between the two statements.
	expect_eq 'hourly 20 opening 15 waiting 10' "$(jq -r 'map("\(.name) \(.ms / 60000 | floor)") | join(" ")' "$DIR/late")"
	expect_eq "$id" "$(jq '.[] | select(.name == "waiting").waits_for' "$DIR/late")"
	sql 'update schedules set paused = true'
	signal manager CONT
	wait_until 20 'reeve check >/dev/null'
	checked 0 --schedule-late 1s
	release
}

# Runs the manager's statement for schedules alone. A running manager would fire late schedules before they are seen.
measure() { # DURATION
	sql "prepare c as $(cat "$STATEMENTS/check.sql");
		execute c(null, null, '{schedules}', array[1000 * extract(epoch from interval '$1')]::bigint[])"
}

test_a_schedule_that_waits_for_its_former_run_is_late_and_says_why() {
	local id least late most
	start_worker worker --concurrency 4
	id=$(reeve submit sh "$HOLD" --queue former --timeout 1h)
	wait_began "$id"
	schedule behind 'every_ms, spec, next_at, concurrency_policy, last_task_id' \
		"3600000, '{\"type\": \"sh\", \"queue\": \"former\"}', now() - interval '10 minutes', 'queue', $id"
	checked 2 --schedule-late 1m,5m --queue former
	expect_match '^REEVE CRITICAL - the latest schedule is overdue by 10m.*, longer than 5m\|schedule_latest=60[0-9]' "$FIRST"
	expect_match "schedule behind is overdue by 10m.*: it waits for the end of its former run, task $id" "$OUTPUT"
	checked 0 --schedule-late 1h --type sh
	since() { sql "select floor(extract(epoch from clock_timestamp() - next_at) * 1000)::bigint from schedules where name = 'behind'"; }
	least=$(since)
	late=$(value schedule_latest --schedule-late 1h --queue former)
	most=$(since)
	[ "$least" -le "$late" ] && [ "$late" -le "$most" ] || fail "$late ms, and not from $least to $most"
	sql "update schedules set paused = true where name = 'behind'"
	checked 0 --schedule-late 1m --queue former
	release
	reeve wait "$id" >/dev/null
}

test_callbacks_that_were_given_up() {
	sql "insert into callbacks (batch_id, event, url, state, ended_at)
		select 0, 'batch_end', 'http://hooks.example:81/x', case when n > 3 then 'delivered' else 'given_up' end,
			now() - interval '40 minutes' * (n % 3) from generate_series(1, 6) n"
	checked 2 --callbacks-given-up 1
	expect_match '^REEVE CRITICAL - 2 callbacks were given up within the last hour, more than 1' "$FIRST"
	expect_match '2 to hooks.example:81' "$OUTPUT"
	checked 0 --callbacks-given-up 2
}

test_several_conditions_the_worst_counts_and_comes_first() {
	start_worker worker --concurrency 4
	dead several 2
	checked 2 --dead-per-hour 0,1 --failed-waiting 5 --oldest-queued 1h,2h --longest-running 1h --queue several
	expect_match '^REEVE CRITICAL - 2 tasks ended dead .*\|dead_per_hour=2;0;1;0 failed=0;;5;0 oldest_queued=0\.000s;3600\.000;7200\.000;0 running_longest=0\.000s;;3600\.000;0$' "$FIRST"
	expect_eq 'CRITICAL dead-per-hour:,OK failed-waiting:,OK oldest-queued:,OK longest-running:' \
		"$(tail -n +2 <<<"$OUTPUT" | grep -v '^ ' | cut -d' ' -f1,2 | paste -sd,)"
	expect_eq 'dead_per_hour CRITICAL 2 0 1|failed OK 0 null 5' "$(reeve check --dead-per-hour 0,1 --failed-waiting 5 --queue several --json |
		jq -r '[.conditions[] | [.name, .state, .value, .warning, .critical] | map(tostring) | join(" ")] | join("|")')"
}

test_what_cannot_be_known_is_unknown() {
	checked 3 --failed-waiting many
	expect_match 'REEVE UNKNOWN - --failed-waiting takes CRIT, "WARN,CRIT" or "WARN,", whole numbers from 0, not "many"' "$OUTPUT"
	checked 3 --oldest-queued 10m,5m
	expect_match "--oldest-queued: the warning's bound lies above the critical one" "$OUTPUT"
	checked 3 --oldest-queued ten
	checked 3 --oldest-queued ,5m
	checked 3 --failed-waiting 1,2,3
	checked 3 --failed-waiting -1
	checked 3 --failed-waiting
	checked 3 --nonsense
	expect_match 'REEVE UNKNOWN - wrong usage' "$OUTPUT"
	checked 3 now
	checked 3 --failed-waiting 1 --queue nobody-knows
	expect_match '^REEVE UNKNOWN - queue: there is no queue "nobody-knows"$' "$OUTPUT"
	checked 3 --failed-waiting 1 --type nobody-knows
	expect_match '^REEVE UNKNOWN - there has never been a task of type "nobody-knows"$' "$OUTPUT"
	checked 3 --manager tcp://127.0.0.1:1 --connect-timeout 300ms
	expect_match '^REEVE UNKNOWN - ' "$FIRST"
	expect_eq 'UNKNOWN 3' "$(reeve check --manager tcp://127.0.0.1:1 --connect-timeout 300ms --json | jq -r '[.state, .code] | join(" ")' || true)"
	expect_match 'UNKNOWN' "$(reeve check --help)"
	# Characters that control terminals, and the bar that begins the numbers, do not reach the output.
	expect_eq 1 "$(reeve check --manager 'tcp://127.0.0.1:1|x=1' --connect-timeout 300ms 2>/dev/null | head -n 1 | grep -c '^[^|]*$')"
}

test_of_many_that_have_failed_each_queue_has_its_share_of_the_examples() {
	sql "insert into routes (queue, type) select 'part' || n, 'none' from generate_series(0, 9) n;
		insert into tasks (route_id, queue, type, status, error_code, started, attempt, run_at, created, last_updated)
			select r.id, r.queue, r.type, 'failed', 'E1', now(), 1, now() + interval '40.5 minutes', now(), now()
			from routes r, generate_series(1, 150) where r.queue like 'part%' and r.queue <> 'part9';
		insert into tasks (route_id, queue, type, status, error_code, started, attempt, run_at, created, last_updated)
			select r.id, r.queue, r.type, 'failed', 'lost', now(), 1, now() + interval '40.5 minutes', now(), now()
			from routes r, generate_series(1, 13650) where r.queue = 'part9';
		select counts_recount()" >/dev/null
	checked 2 --failed-waiting 10
	expect_match '^REEVE CRITICAL - 15000 tasks have failed ' "$FIRST"
	expect_match $'\n  of 1000 examined: 910 of queue part9, type none: lost\n  of 1000 examined: 10 of queue part[0-8], type none: E1\n' "$OUTPUT"
	expect_no_match latest "$OUTPUT"
	expect_eq '15000 1000' "$(reeve check --failed-waiting 10 --json | jq -r '.conditions[0] | "\(.count) \(.examined)"')"
	# Up to 1,000 failed tasks, all of them are examined.
	checked 2 --failed-waiting 10 --queue part3
	expect_match '150 of queue part3, type none: E1, the latest is task [0-9]+: attempt 1 failed, due again in 40m' "$OUTPUT"
	expect_no_match 'examined' "$OUTPUT"
	expect_eq '150 150' "$(reeve check --failed-waiting 10 --queue part3 --json | jq -r '.conditions[0] | "\(.count) \(.examined)"')"
	sql "delete from tasks where queue like 'part%'; select counts_recount()" >/dev/null
}

test_missed_and_refused_runs_of_schedules_are_counted() {
	local batch
	start_worker
	checked 0 --runs-missed 0 --runs-refused 0
	expect_match 'OK runs-missed: no scheduled time was missed within the last hour' "$OUTPUT"
	# No manager was there for half an hour.
	schedule often 'every_ms, start_at, next_at, catch_up, spec' "60000, date_trunc('minute', now()) - interval '1 hour',
		date_trunc('minute', now()) - interval '30 minutes', 'one', '{\"type\": \"nothing\", \"queue\": \"o\"}'"
	wait_until 20 '[ "$(sql "select count(*) from schedule_runs where outcome = '"'missed'"'")" = 1 ]'
	checked 2 --runs-missed 0 --schedule-late 1h
	expect_match 'CRITICAL runs-missed: (29|30|31) scheduled times were missed within the last hour, more than 0
  (29|30|31) of schedule often' "$OUTPUT"
	checked 1 --runs-missed 10,100
	reeve submit nothing --queue elsewhere --wait >/dev/null
	checked 0 --runs-missed 0 --queue elsewhere
	sql "update schedule_runs set at = at - interval '1 hour'"
	checked 0 --runs-missed 0
	# Each run is refused, since its batch is closed.
	batch=$(reeve batch open gone --queue o)
	reeve batch close "$batch" >/dev/null
	schedule useless 'every_ms, next_at, spec' "200, now(), '{\"type\": \"nothing\", \"queue\": \"o\", \"batch_id\": $batch}'"
	wait_until 20 '[ "$(sql "select count(*) from schedule_runs where outcome = '"'refused'"'")" -gt 2 ]'
	checked 2 --runs-refused 2 --queue o --type nothing
	expect_match 'CRITICAL runs-refused: [0-9]+ runs of schedules were refused within the last hour, more than 2
  [0-9]+ of schedule useless: batch '"$batch"' ' "$OUTPUT"
	checked 0 --runs-refused 2 --queue elsewhere
	reeve schedule remove useless >/dev/null
	reeve schedule remove often >/dev/null
	checked 0 --runs-refused 2
}

test_the_length_of_the_longest_queue_is_measured() {
	for _ in 1 2 3; do reeve submit lengthy --queue long; done >/dev/null
	reeve submit lengthy --queue long --delay 1h >/dev/null
	reeve submit lengthy --queue short >/dev/null
	checked 2 --queue-length 2 --type lengthy
	expect_match 'queue_length=3;;2;0
CRITICAL queue-length: 3 tasks wait in the longest queue, more than 2
  3 of queue long
  1 of queue short' "$OUTPUT"
	checked 0 --queue-length 3 --type lengthy
	checked 1 --queue-length 0,3 --queue short
	expect_eq 1 "$(value queue_length --queue-length 9 --queue short)"
	for queue in long short; do reeve queue purge $queue; done >/dev/null
	expect_match 'OK queue-length: no task waits in the longest queue' "$(reeve check --queue-length 0 --queue long)"
}

test_it_is_cheap_whatever_waits_and_whatever_has_ended() {
	reeve cancel "$(reeve submit sh)" >/dev/null
	sql "insert into tasks (route_id, priority, queue, type, details, run_at, created, last_updated)
		select (select id from routes where queue = 'default' and type = 'sh'), n % 5, 'default', 'sh', repeat('x', 100),
			now() - interval '1 ms' * n, now(), now() from generate_series(1, 300000) n;
		insert into task_history (keep_until, task_id, route_id, priority, queue, type, details, status, run_at, attempt,
			max_attempts, timeout_ms, retry_base_ms, retry_max_ms, by_report, source, token, created, last_updated)
		select (now() at time zone 'UTC')::date + 1, -n, 1, 0, 'default', 'sh', '', 'completed', now(), 1, 5, 1, 1, 1, true, '',
			now(), now(), now() from generate_series(1, 300000) n;
		update tasks set status = 'failed', started = now(), attempt = 1 where id = (select max(id) from tasks);
		select counts_recount();
		analyze tasks, task_history" >/dev/null
	# The measure is the number of pages read, not time. A scan of either table would read many thousands.
	all="(null, null, '{dead,failed,oldest_queued,running,schedules,callbacks,unserved,halted,missed,refused,queue_length}', '{0,0,0,1000,1000,0,0,0,0,0,0}')"
	sql "prepare c as $(cat "$STATEMENTS/check.sql");
		execute c$all; explain (analyze, buffers, format json) execute c$all" >"$DIR/plan"
	sed -n '/^\[/,$p' "$DIR/plan" | jq '.[0].Plan | ."Shared Hit Blocks" + ."Shared Read Blocks"' >"$DIR/pages"
	note "pages read: $(cat "$DIR/pages")"
	expect [ "$(cat "$DIR/pages")" -lt 3000 ]
	expect_eq OK "$(reeve check --oldest-queued 1h --failed-waiting 10 --json | jq -r .state)"
	sql "delete from tasks; delete from task_history where task_id < 0; select counts_recount()" >/dev/null
}

# This is the last test because it stops the database.
test_a_database_that_is_away_is_unknown() {
	stop_postgres immediate
	checked 3 --call-timeout 3s
	expect_match '^REEVE UNKNOWN - .*database' "$FIRST"
	start_postgres
	wait_until 30 'reeve check --call-timeout 2s >/dev/null'
	checked 0
}

run_tests
