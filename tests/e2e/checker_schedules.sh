#!/usr/bin/env bash
# The checker of the fault tests, for pipelines, schedules and tasks submitted by SQL: it finds nothing in a run without
# violations, and each violation that a test inserts.
. "$(dirname "$0")/lib.sh"
. "$TOP/tests/e2e/checker.bash"

# Makes the run: two managers, programs and functions, tasks of a pipeline by calls and by SQL, and all kinds of
# schedules, which are paused, resumed, edited and run manually.
the_run() {
	start_fleet
	sql "create role app login; grant usage on schema reeve to app; grant execute on function reeve.submit to app;
		create table public.fault_orders (name text primary key, task_id bigint); grant insert, select on public.fault_orders to app, reeve" >/dev/null
	start k python3 "$TOP/tests/faults/fault_schedules.py" --bin "$REEVE_BIN" --managers "$REEVE_MANAGER" --ledger "$LEDGERS" \
		--name k --seed 3 --changes 16 --pause 0.4 --pipeline line --gate gate
	wait_until 30 'grep -q added "$DIR/log/k.log"'
	start q python3 "$TOP/tests/faults/fault_sql.py" --database "${CONNINFO/user=reeve/user=app}" --ledger "$LEDGERS" --name q --seed 5 \
		--count 60 --rate 20 --long 3 --pipeline line
	start_submitter l --count 90 --rate 30 --seed 7 --pipeline line --piped 90 --mix short=1 --cancel 5 --batches 20
	wait_until 30 "[ \"\$(sql \"select count(*) from schedule_runs where outcome = 'overlapped'\")\" -gt 0 ]"
	"$CHECK" --database "$CONNINFO" --ledgers "$LEDGERS" --running --one-clock >"$DIR/while" 2>&1 || true
	for name in l q k; do
		ended $name 90
		expect_eq 0 "$STATUS" "exit code of $name; it said: $(cat "$DIR/log/$name.log")"
	done
	wait_until 60 all_ended
	for name in programs functions one two; do
		stop $name
		expect_eq 0 "$STATUS" "exit code of $name"
	done
}

test_nothing_is_found_where_all_went_well() {
	expect_nothing_found
	# The run has everything that the other tests need, and each kind of outcome.
	expect_eq 'too_many_steps unknown_stage' "$(sql "select distinct error_code from task_history
		where error_code in ('unknown_stage', 'too_many_steps') order by 1" | xargs)"
	expect_eq 'acted overlapped submitted' "$(sql "select distinct outcome from schedule_runs where outcome <> 'missed' order by 1" | xargs)" # a busy machine misses some
	expect_eq 'schedule_edited schedule_paused schedule_resumed' "$(sql "select distinct event from schedule_events
		where event in ('schedule_edited', 'schedule_paused', 'schedule_resumed') order by 1" | xargs)"
}

# ---- pipelines ----

# Picks a task of three stages in order, each with one attempt; `first` and `second` are the tokens of the first two.
some_piped() {
	some 'id token name first second' "select task_id, $TOKEN, $NAME, ends[1], ends[2] from task_history h,
		lateral (select array_agg($TOKEN order by token) as ends from task_attempts a where a.task_id = h.task_id) a
		where status = 'completed' and step = 3 and stage = 'c' and details like 'l-%' and cardinality(ends) = 2 and pipeline_id = 1
			and (select array_agg(stage order by token) from task_attempts a where a.task_id = h.task_id) = '{a,b}' order by task_id"
}

of() { # ID TOKEN: a condition
	echo "task_id = $1 and $TOKEN = $2"
}

test_a_step_is_missing() {
	copy
	some_piped
	change "update task_history set step = 4 where task_id = $id"
	check
	expect_found 'I6 step-missing' "task $id .*is in step 4; its attempts tell of 3"
	copy
	change "delete from task_attempts where $(of $id $first)"
	check
	expect_found 'I6 step-missing' "task $id .*is in step 3; its attempts tell of 2" and others
}

test_a_step_is_done_twice() {
	copy
	some_piped
	change "update task_history set step = 2 where task_id = $id"
	check
	expect_found 'I1 step-twice' "task $id .*is in step 2; its attempts have entered 3"
	copy
	change "create temp table twin as select * from task_attempts where $(of $id $second); update twin set token = token + interval '1 us',
		last_updated = last_updated + interval '1 us'; insert into task_attempts select * from twin"
	check
	expect_found 'I1 step-twice' "task $id .*is in step 3; its attempts have entered 4" and others
}

test_a_step_is_ignored() {
	copy
	some_piped
	change "update task_attempts set details = null where $(of $id $second)"
	check
	expect_found 'I3 step-ignored' "task $id .*token $second.* completed its stage, and no step followed" and others
}

test_a_task_is_in_a_wrong_stage() {
	copy
	some_piped
	edit "/\"ev\":\"end\",\"task\":$id,\"token\":$first,/s/\"next\":null/\"next\":\"d\"/"
	check
	expect_found 'I3 step-astray' "task $id .*step 2 was in stage b; it should be d: the handler of .*token $first.* chose stage d"
	copy
	change "update task_attempts set stage = 'c' where $(of $id $first)"
	check
	expect_found 'I3 step-astray' "task $id .*step 1 was in stage c; it should be a: it is the first" and others
	copy
	edit "/\"ev\":\"start\",\"task\":$id,\"token\":$first,/s/\"type\":\"stage-a\"/\"type\":\"stage-c\"/"
	check
	expect_found 'I3 step-astray' "task $id .*of step 1, in stage a of type stage-a, was given to the handler of stage-c"
	copy
	change "update task_history set pipeline_id = null where task_id = $id"
	check
	expect_found 'I3 step-astray' "task $id .*was submitted to pipeline line, and is of None" and others
}

test_an_input_is_not_the_result_before() {
	copy
	some_piped
	change "update task_history set details = details || ' ' where task_id = $id"
	check
	expect_found 'I3 step-input' "task $id .*step 3 has the input .*the step before gave" and others
	copy
	change "update task_attempts set result = result || ' ' where $(of $id $first);
		update task_attempts set details = details || ' ' where $(of $id $second)"
	check
	expect_found 'I3 stale-result' "task $id .*of step 1 has the result .*its handler gave" and others
	expect_found 'I3 step-input' "task $id .*of step 2 was given .*the step's input is" and others
	copy
	change "update task_attempts set details = 'else' where $(of $id $first)"
	check
	expect_found 'I3 step-input' "task $id .*step 1 has the input 'else' .*it was submitted with" and others
}

test_a_stage_is_completed_without_a_handler() {
	copy
	some_piped
	edit "/\"ev\":\"end\",\"task\":$id,\"token\":$first,/d"
	check
	expect_found 'I3 unearned' "task $id .*token $first.* is said completed; its handler ended it: not at all"
}

test_a_lost_attempt_goes_on() {
	copy
	some_piped
	change "insert into task_events (task_id, version, event) select task_id, token, 'late_result' from task_attempts where $(of $id $first)"
	check
	expect_found 'I3 late-counted' "task $id"
}

test_a_step_begins_before_the_one_before_has_ended() {
	copy
	some_piped
	edit "/\"ev\":\"start\",\"task\":$id,\"token\":$second,/s/\"t\":[0-9]*/\"t\":$(($(time_of $id $first end) - 1))/"
	check
	expect_found 'I2 step-early' "task $id .*of step 2 had begun before .* had ended step 1" and others
}

test_an_end_contradicts_the_last_step() {
	copy
	some_piped
	change "update task_history set status = 'dead', last_error = 'x', error_code = 'unknown_stage' where task_id = $id"
	edit "/\"ev\":\"seen\",\"id\":$id,/d"
	check
	expect_found 'I3 step-end' "task $id .*is dead \(unknown_stage\) in step 3, stage c" and others
	copy
	edit "/\"ev\":\"end\",\"task\":$id,\"token\":$token,/s/\"next\":[^}]*/\"next\":\"a\"/"
	check
	expect_found 'I3 step-end' "task $id .*is completed .*its handler chose stage a, which is a"
	copy
	some 'id' "select task_id from task_history where error_code = 'too_many_steps' and details like 'l-%'"
	change "update task_history set step = step - 1 where task_id = $id"
	check
	expect_found 'I3 step-end' "task $id .*is dead \(too_many_steps\)" and others
}

test_a_stage_has_more_attempts_than_it_may() {
	copy
	some 'id' "select task_id from task_attempts where stage is not null and outcome = 'failed' order by 1"
	change "update pipelines set stages = (select jsonb_agg(s || '{\"max_attempts\": 1}') from jsonb_array_elements(stages) s)"
	check
	expect_found 'I5 endless' "task $id .*whose stage has at most 1" and others
}

test_the_audit_lacks_a_step() {
	copy
	some_piped
	change "delete from task_events where task_id = $id and event = 'stage' and note = 'a -> b'"
	check
	expect_found 'I6 step-untold' "task $id .*its audit tells of the steps .*'b -> c'.*it should be"
	copy
	change "update task_events set note = 'a -> c' where task_id = $id and event = 'stage' and note = 'a -> b'"
	check
	expect_found 'I6 step-untold' "task $id .*'a -> c'"
}

# ---- schedules ----

# Picks a firing of SCHEDULE that submitted a task, neither the first nor the last.
some_tick() { # SCHEDULE
	some 'run id planned schedule' "select r.id, task_id, (extract(epoch from scheduled_at) * 1000000)::bigint, schedule_id
		from schedule_runs r join schedules s on s.id = schedule_id
		where s.name = '$1' and outcome = 'submitted' and scheduled_at is not null order by r.id offset 3"
}

test_a_scheduled_time_fires_twice() {
	copy
	some_tick rapid
	change "alter table schedule_runs drop constraint schedule_runs_schedule_id_scheduled_at_key;
		insert into schedule_runs (schedule_id, scheduled_at, outcome, note) select schedule_id, scheduled_at, 'overlapped', '' from schedule_runs
			where id = $run"
	check
	expect_found 'I1 firing-twice' "schedule rapid has two runs, $run and [0-9]+, for " and others
	copy
	change "update schedule_runs set task_id = $id where id = (select id from schedule_runs where schedule_id = $schedule and id > $run
		and outcome = 'submitted' order by id limit 1)"
	check
	expect_found 'I1 firing-twice' "task $id is that of the runs \[$run, " and others
}

test_a_scheduled_time_is_missing() {
	copy
	some_tick rapid
	change "delete from schedule_runs where id = $run"
	check
	expect_found 'I1 firing-lost' 'schedule rapid has nothing for .* and 0 more, until' and others
	expect_found 'I1 firing-made-of-nothing' "task $id \(rapid\) is of schedule rapid .*no run tells of it" and others
	copy
	change "delete from schedule_runs where id = $run; delete from task_history where task_id = $id"
	check
	expect_found 'I1 firing-lost' 'schedule rapid has nothing for .* and 0 more, until' and others
}

test_a_schedule_goes_on_late_after_a_resume() {
	copy
	some 'schedule name at' "select e.schedule_id, e.schedule, (extract(epoch from e.at) * 1000000)::bigint from schedule_events e
		join schedules s on s.id = e.schedule_id
		where event = 'schedule_resumed' and every_ms is not null and (select count(*) from schedule_runs r
			where r.schedule_id = e.schedule_id and r.scheduled_at > e.at) > 1 order by e.id"
	change "delete from schedule_runs where id = (select id from schedule_runs where schedule_id = $schedule
		and scheduled_at > to_timestamp($at / 1000000.0) order by scheduled_at limit 1)"
	check
	expect_found 'I1 firing-lost' "schedule $name was rescheduled at .*the first firing after that is" and others
}

# Rescheduling after an edit takes some time; a scheduled time may lie within it.
test_a_firing_during_an_edit_is_no_violation() {
	copy
	some 'event planned made' "select e.id, (extract(epoch from r.scheduled_at) * 1000000)::bigint, (extract(epoch from r.at) * 1000000)::bigint
		from schedule_events e, lateral (select * from schedule_runs r where r.schedule_id = e.schedule_id and r.scheduled_at > e.at
			order by r.scheduled_at limit 1) r
		where e.event = 'schedule_edited' and e.note = 'every_ms' and not exists (select from schedule_events
			where schedule_id = e.schedule_id and id > e.id and at <= r.at) order by e.id"
	change "update schedule_events set at = to_timestamp(($planned + $made) / 2000000.0) where id = $event"
	check
	expect_match ' 0 violations$' "$OUTPUT"
}

test_a_firing_is_not_at_its_time() {
	copy
	some_tick rapid
	change "update schedule_runs set scheduled_at = scheduled_at + interval '1 ms' where id = $run"
	check
	expect_found 'I3 firing-off' "schedule rapid has run $run planned for .*comes every 200 ms" and others
	copy
	some_tick rapid
	change "update schedule_runs set at = scheduled_at - interval '1 ms' where id = $run"
	check
	expect_found 'I6 firing-order' 'schedule rapid: the tick of .* was made at'
	copy
	change "update schedule_runs set scheduled_at = now() where id = (select min(id) from schedule_runs where scheduled_at is null)"
	check
	expect_found 'I(3 firing-off|6 firing-order)' 'schedule ' and others
}

test_a_task_lacks_the_key_of_its_firing() {
	copy
	some_tick rapid
	change "update task_history set key = key || '0' where task_id = $id"
	check
	expect_found 'I3 firing-key' "schedule rapid: the task of .*task $id .* has the key rapid:.*; it should be rapid:.*Z" and others
	copy
	change "update task_history set source = 'someone' where task_id = $id"
	check
	expect_found 'I3 firing-key' "schedule rapid: the task of .*task $id .* is of someone"
}

test_a_firings_task_is_lost() {
	copy
	some_tick rapid
	change "delete from task_history where task_id = $id"
	check
	expect_found 'I1 firing-lost' "run $run of schedule $schedule made task $id; no table has it" and others
}

test_a_firing_has_an_impossible_outcome() {
	copy
	some_tick rapid
	change "update schedule_runs set outcome = 'overlapped' where id = $run"
	check
	expect_found 'I6 firing-outcome' "run $run of schedule $schedule is overlapped, with task $id" and others
	copy
	change "update schedule_runs set outcome = 'refused', note = 'x', task_id = null where id = $run"
	check
	expect_found 'I6 firing-outcome' "schedule rapid: run $run is refused \(x\)" and others
	copy
	change "update schedule_runs set outcome = 'missed', note = '2 were missed, from 2026-01-01T00:00:00Z on', task_id = null where id = $run"
	check
	expect_found 'I6 firing-outcome' "schedule rapid: run $run says that '2 were missed" and others
}

test_two_runs_overlap() {
	copy
	some_tick queued
	change "update task_history set created = (select min(created) from task_history where source = 'schedule queued') where task_id = $id"
	check
	expect_found 'I2 firing-overlap' "schedule queued, whose runs do not overlap: task $id .*ended at"
	copy
	some 'id' "select task_id from schedule_runs r join schedules s on s.id = schedule_id where s.name = 'skipped' and task_id is not null
		and scheduled_at is not null order by r.id desc"
	change "update task_history set created = (select min(created) from task_history where source = 'schedule skipped') where task_id = $id"
	check
	expect_found 'I2 firing-overlap' "schedule skipped, whose runs do not overlap: task $id" and others
}

test_a_schedule_is_late() {
	copy
	change "update schedules set updated = next_at + interval '10 s' where name = 'rapid'"
	check
	expect_found 'I4 firing-late' 'schedule rapid was paused at .*had not been made'
}

test_a_queue_is_acted_on_twice() {
	copy
	some n "select count(*) + 100 from queue_events where queue = 'gate' and actor = 'schedule gate-pause'"
	change "insert into queue_events (queue, event, actor) select 'gate', 'queue_paused', 'schedule gate-pause' from generate_series(1, 100)"
	check
	expect_found 'I1 firing-twice' "schedule gate-pause acted [0-9]+ times by its runs, and $n times by the events of gate"
}

test_a_schedule_is_lost() {
	copy
	change "delete from schedules where name = 'minutely'"
	check
	expect_found 'I1 firing-lost' 'schedule minutely was acknowledged; no table has it' and others
	copy
	some 'run id' 'select id, task_id from schedule_runs where scheduled_at is null'
	change "delete from schedule_runs where id = $run"
	check
	expect_found 'I1 firing-lost' "run $run of schedule .*, a manual one, was acknowledged; no table has it" and others
	copy
	change "update schedule_runs set task_id = 1 where id = $run"
	check
	expect_found 'I1 firing-lost' "run $run of schedule .*, a manual one, was acknowledged with task $id, and has 1" and others
}

# ---- SQL ----

some_order() {
	some 'name id' 'select name, task_id from public.fault_orders order by 1'
}

test_a_committed_submit_created_no_task() {
	copy
	some_order
	change "delete from task_history where task_id = $id"
	check
	expect_found 'I1 lost' "$name was submitted by SQL as task $id, and committed; no table has it" and others
	copy
	change "update public.fault_orders set task_id = 1 where name = '$name'"
	check
	expect_found 'I1 mixed-up' "$name was submitted by SQL as task 1, and is task $id"
}

test_a_task_is_there_and_its_transaction_is_not() {
	copy
	some_order
	change "delete from public.fault_orders where name = '$name'"
	check
	expect_found 'I1 half-made' "task $id .*was submitted by SQL; what its transaction did besides is not there"
	line submit "{\"ev\":\"rolled_back\",\"name\":\"$name\",\"t\":1}"
	check
	expect_found 'I1 half-made' "task $id .*was submitted by SQL; what its transaction did besides was rolled back"
	copy
	line submit "{\"ev\":\"rolled_back\",\"name\":\"$name\",\"t\":1}"
	check
	expect_found 'I1 half-made' "$name was rolled back by its submitter, and a row of its transaction is there"
}

the_run
run_tests
