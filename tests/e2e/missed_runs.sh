#!/usr/bin/env bash
# Scheduled times that no manager was there for, or too few: what is caught up, what is counted as missed, and what is
# only late.
# timeout 600
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tasks.bash"
. "$(dirname "$0")/firings.bash"

test_what_was_missed() {
	local last
	tables_only
	last=$(sql "select schedule_time_text((schedule_latest(s, now() - interval '3 days', now(), 1))[1]) from (select
		(jsonb_populate_record(null::schedules, '{\"cron\": \"0 2 * * *\", \"zone\": \"UTC\"}')).*) s")
	# No manager ran for ten days, or eleven; each schedule begins at one of its own times.
	for missed in skip one all; do
		schedule "$missed" cron "'0 2 * * *'" catch_up "'$missed'" max_catch_up 3 concurrency_policy "'allow'" \
			next_at "timestamptz '$last' - interval '10 days'"
	done
	start_manager
	wait_outcomes all 'missed submitted submitted submitted'
	wait_outcomes one 'missed submitted'
	wait_outcomes skip 'missed'
	expect_match '^11 were missed, from 20..-..-..T02:00:00Z on$' "$(notes skip)"
	expect_match '^10 were missed' "$(notes one)"
	expect_match '^8 were missed' "$(notes all)"
	# In order, each with its scheduled time in its key.
	day=${last%T*}
	expect_eq "all:$(date -u -d "$day - 2 days" +%F) all:$(date -u -d "$day - 1 day" +%F) all:$day" \
		"$(sql "select string_agg(key, ' ' order by id) from all_tasks where source = 'schedule all'")"
	expect_eq "one:$day" "$(sql "select key from all_tasks where source = 'schedule one'")"
	expect_eq t "$(sql "select bool_and(next_at = timestamptz '$last' + interval '1 day' and last_at = '$last') from schedules")"
}

# A minute of delay is allowed, because managers are restarted or busy.
test_what_is_only_late_is_not_missed() {
	tables_only
	schedule a every_ms 3600000 catch_up "'skip'" start_at "clock_timestamp() - interval '30 s'" next_at "clock_timestamp() - interval '30 s'"
	schedule b every_ms 3600000 catch_up "'skip'" start_at "clock_timestamp() - interval '70 s'" next_at "clock_timestamp() - interval '70 s'"
	start_manager
	wait_outcomes a submitted
	wait_outcomes b missed
}

# Times between two polls of a manager are not missed either, however short the interval is.
test_what_is_only_late_at_short_intervals() {
	tables_only
	for overlap in allow queue; do
		for missed in skip one; do
			schedule "$overlap$missed" every_ms 200 catch_up "'$missed'" concurrency_policy "'$overlap'"
		done
	done
	ticks() { # SINCE: what comes of one in its turns, each of which may be one tick, as the others are due, too
		local until turn
		until=$(sql "select next_at + interval '$1' from schedules where name = '$name'")
		for turn in $(seq 8); do
			sql "select t.outcome from (select * from schedules where name = '$name') s, schedule_fire(s, '$until') t
				where s.next_at <= '$until' order by t.scheduled"
		done | paste -sd ' '
	}
	for name in allowskip allowone; do
		expect_eq 'submitted submitted submitted' "$(ticks '500 ms')"
		expect_eq 'missed submitted submitted submitted submitted submitted' "$(ticks '10050 ms')"
	done
	for name in queueskip queueone; do
		expect_eq 'missed submitted' "$(ticks '500 ms')"
	done
}

# An edit that asks for catch-up makes up for what was missed before it.
test_a_missed_time_is_made_up_for_on_request() {
	local first last
	tables_only
	last=$(sql "select schedule_time_text(date_trunc('second', clock_timestamp() - interval '70 s'))")
	first=$(sql "select schedule_time_text(timestamptz '$last' - interval '4 h')")
	schedule once every_ms 3600000 catch_up "'skip'" start_at "'$last'" next_at "'$last'"
	schedule often every_ms 3600000 catch_up "'skip'" start_at "'$first'" next_at "'$first'"
	start_manager
	wait_outcomes once missed
	wait_outcomes often missed
	for name in once often; do
		reeve schedule edit $name --start "$first" --catch-up one >/dev/null
		wait_outcomes $name submitted
		expect_eq "$name:$last" "$(sql "select key from all_tasks where source = 'schedule $name'")"
	done
	expect_eq '' "$(notes once)"
	expect_eq "5 were missed, from $first on" "$(notes often)"
	expect_eq t "$(sql "select bool_and(scheduled_at = '$last' and missed is null) from schedule_runs")"
}

# If something prevents the run, the time stays a missed one until it takes place.
test_a_missed_time_stays_missed_while_its_run_waits() {
	tables_only
	schedule waits every_ms 3600000 catch_up "'one'" start_at "'2026-01-14 08:00Z'" next_at "'2026-01-14 08:00Z'" \
		queue_action "'start'" action_queue "'q'"
	sql "insert into queues (name, state) values ('q', 'stopping');
		insert into schedule_runs (schedule_id, scheduled_at, outcome, note, missed)
		select id, next_at, 'missed', '3 were missed, from then on', 3 from schedules"
	before=$(sql 'select r::text from schedule_runs r')
	fire() {
		sql "select outcome from schedules s, schedule_fire(s, s.next_at) where name = 'waits'"
	}
	expect_eq later "$(fire)"
	expect_eq "$before" "$(sql 'select r::text from schedule_runs r')"
	sql "update queues set state = 'stopped'"
	expect_eq acted "$(fire)"
	expect_eq 'acted|3 were missed, from then on; queue "q" is running|' "$(sql 'select outcome, note, missed from schedule_runs')"
}

test_a_million_that_were_missed() {
	tables_only
	schedule every every_ms 1000 catch_up "'all'" max_catch_up 5 concurrency_policy "'allow'" start_at "timestamptz '2026-01-01'" next_at "timestamptz '2026-01-01'"
	schedule cron cron "'* * * * *'" zone "'Europe/Berlin'" catch_up "'one'" next_at "timestamptz '2016-01-01'"
	schedule skip cron "'*/5 * * * *'" catch_up "'skip'" next_at "timestamptz '2016-01-01 00:01'"
	start_manager
	wait_until 60 "[ \"\$(tasks_of every)\" -gt 0 ] && [ \"\$(tasks_of cron)\" -gt 0 ] && [[ \$(outcomes skip) = missed* ]]"
	stop manager
	expect_match '^missed( submitted)+( missed| submitted)*$' "$(outcomes every)"
	expect_eq t "$(sql "select (regexp_match(note, '^([0-9]+) were missed'))[1]::bigint
		= extract(epoch from min(scheduled_at) filter (where outcome = 'submitted') over () - '2026-01-01')::bigint
		from schedule_runs r join schedules s on s.id = schedule_id where name = 'every' order by r.id limit 1")"
	expect_match '^more than 1000 were missed, from 2016-01-01T00:00:00Z on' "$(notes cron)"
	expect_match '^missed' "$(outcomes skip)"
	expect_eq t "$(sql "select bool_and(next_at > clock_timestamp() - interval '1 min') from schedules")"
}

# ---- overlap ----

test_a_long_catch_up_delays_no_other() {
	tables_only
	schedule late cron "'* * * * *'" catch_up "'all'" max_catch_up 100 concurrency_policy "'allow'" next_at "now() - interval '1 day'"
	schedule other next_at "now() - interval '1s'" start_at "now() - interval '1s'" every_ms 3600000
	sql 'select count(*) from schedules_fire(1)' >"$DIR/null"
	sql 'select count(*) from schedules_fire(1)' >"$DIR/null"
	expect_eq 1 "$(sql "select count(*) from schedule_runs r join schedules s on s.id = r.schedule_id where s.name = 'other'")"
	# All of its missed times are caught up.
	for _ in {1..7}; do
		sql 'select count(*) from schedules_fire(1)' >"$DIR/null"
	done
	expect [ "$(sql "select count(*) from schedule_runs r join schedules s on s.id = r.schedule_id
		where s.name = 'late' and outcome = 'submitted'")" -ge 100 ]
}

# 300 schedules need 3,000 firings a second; another one needs one. While others are due, each schedule fires once per
# run of the job, so that none waits for more than one firing of each.
test_many_short_intervals_do_not_keep_a_longer_one_waiting() {
	local look others
	tables_only
	sql "insert into schedules (name, every_ms, concurrency_policy, spec, start_at, next_at)
		select 'short' || n, 100, 'allow', '{\"type\": \"nothing\"}', now() - interval '2 s', now() - interval '2 s' from generate_series(1, 300) n"
	schedule longer every_ms 1000 concurrency_policy "'allow'" start_at "now() - interval '2 s'" next_at "now() - interval '2 s'"
	for look in $(seq 200); do
		sql 'select count(*) from schedules_fire(50)' >"$DIR/null"
		[[ $(outcomes longer) != *submitted* ]] || break
	done
	others=$(sql "select count(*) from schedule_runs where outcome = 'submitted'")
	note "$others ticks of others before one of the longer one, $look looks"
	expect [ "$others" -le 700 ]
}

run_tests
