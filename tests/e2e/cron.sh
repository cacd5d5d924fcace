#!/usr/bin/env bash
# Cron expressions and time zones, as the database's functions interpret them.
. "$(dirname "$0")/lib.sh"

# A database with Reeve's tables, and no running manager.
start_postgres
start_manager
stop manager

test_cron_agrees_with_a_scan_of_every_minute() {
	python3 "$TOP/tests/tools/cron_oracle.py" >"$DIR/oracle"
	expect [ "$(wc -l <"$DIR/oracle")" -gt 800 ]
	PGOPTIONS='-c search_path=reeve' "$REEVE_TEST_PG_BIN/psql" -XAtq -v ON_ERROR_STOP=1 -h "$PGDIR" -U postgres -d reeve >"$DIR/differ" <<-END
		create temp table oracle (expr text, zone text, since bigint, upto bigint, fires bigint[]);
		\\copy oracle from '$DIR/oracle'
		with found as (
		  select o.*, array(
		    with recursive f(at) as (
		      select cron_after(cron_plan_of(o.expr), o.zone, to_timestamp(o.since))
		      union all select cron_after(cron_plan_of(o.expr), o.zone, at) from f where at <= to_timestamp(o.upto))
		    select extract(epoch from at)::bigint from f where at <= to_timestamp(o.upto) order by at) as got
		  from oracle o)
		select expr, zone, 'missing', array(select to_timestamp(unnest(fires)) except select to_timestamp(unnest(got))),
		  'not planned', array(select to_timestamp(unnest(got)) except select to_timestamp(unnest(fires)))
		from found where fires <> got;
	END
	expect_eq '' "$(head -n 20 "$DIR/differ")"
}

next() { # EXPRESSION ZONE TIME…: what comes after each
	local expr=$1 zone=$2
	shift 2
	sql "select string_agg(schedule_time_text(cron_after(cron_plan_of('$expr'), '$zone', t::timestamptz)), ' ' order by n)
		from unnest(string_to_array('$*', ' ')) with ordinality u(t, n)"
}

# The rules of docs/schedules.md.
test_the_rule_for_skipped_and_repeated_hours() {
	# Times of day: a skipped time fires when the gap ends, a repeated one fires the first time only.
	expect_eq '2026-03-28T01:30:00Z 2026-03-29T01:00:00Z 2026-03-30T00:30:00Z' "$(next '30 2 * * *' Europe/Berlin \
		2026-03-28T00:00Z 2026-03-28T01:30Z 2026-03-29T01:00Z)"
	expect_eq '2026-10-25T00:30:00Z 2026-10-26T01:30:00Z' "$(next '30 2 * * *' Europe/Berlin 2026-10-25T00:00Z 2026-10-25T00:30Z)"
	# Several skipped times, and one at the end of the gap, fire once.
	expect_eq '2026-03-29T00:30:00Z 2026-03-29T01:00:00Z 2026-03-29T01:30:00Z' "$(next '*/30 1-3 * * *' Europe/Berlin \
		2026-03-29T00:00Z 2026-03-29T00:30Z 2026-03-29T01:00Z)"
	# Expressions for every hour go by the time that passes.
	expect_eq '2026-03-29T01:30:00Z 2026-10-25T00:30:00Z 2026-10-25T01:30:00Z' "$(next '30 * * * *' Europe/Berlin \
		2026-03-29T00:30Z 2026-10-24T23:30Z 2026-10-25T00:30Z)"
	# A midnight and a day that did not exist.
	expect_eq '2018-11-04T03:00:00Z 2018-11-05T02:00:00Z' "$(next '@daily' America/Sao_Paulo 2018-11-04T00:00Z 2018-11-04T03:00Z)"
	expect_eq '2011-12-30T10:00:00Z 2011-12-30T22:00:00Z' "$(next '0 12 * * *' Pacific/Apia 2011-12-29T22:00Z 2011-12-30T10:00Z)"
}

test_the_date_in_a_key_is_that_of_a_skipped_time() {
	key() { # EXPRESSION ZONE TIME: of its firing at that time
		sql "select schedule_key(jsonb_populate_record(null::schedules, jsonb_build_object('name', 'x', 'cron', '$1', 'zone', '$2',
			'spec', '{}'::jsonb)), '$3')"
	}
	# The last hour of a Saturday is skipped, and the firing of 23:30 is at midnight.
	expect_eq '2027-03-28T01:00:00Z 2027-03-29T00:30:00Z' "$(next '30 23 * * *' America/Nuuk 2027-03-27T12:00Z 2027-03-28T01:00Z)"
	expect_eq 'x:2027-03-27' "$(key '30 23 * * *' America/Nuuk 2027-03-28T01:00Z)"
	expect_eq 'x:2027-03-28' "$(key '30 23 * * *' America/Nuuk 2027-03-29T00:30Z)"
	expect_eq 'x:2027-03-28' "$(key '0 0 * * *' America/Nuuk 2027-03-28T01:00Z)"
	# A midnight and a day that did not exist.
	expect_eq 'x:2018-11-04' "$(key '@daily' America/Sao_Paulo 2018-11-04T03:00Z)"
	expect_eq 'x:2011-12-30' "$(key '0 12 * * *' Pacific/Apia 2011-12-30T10:00Z)"
	expect_eq 'x:2011-12-31' "$(key '0 12 * * *' Pacific/Apia 2011-12-30T22:00Z)"
}

test_years_without_a_leap_day() {
	expect_eq '2096-02-29T00:00:00Z 2104-02-29T00:00:00Z' "$(next '0 0 29 2 *' UTC 2092-03-01 2096-02-29)"
	expect_eq '2032-02-29T00:00:00Z' "$(next '0 0 29 2 */7' UTC 2026-01-01)" # a Sunday, too
	# Where both days are given, and neither is *, either of them matches.
	expect_eq '2026-02-02T00:00:00Z 2026-02-13T00:00:00Z' "$(next '0 0 13 2 mon' UTC 2026-01-31 2026-02-09)"
}

# The last times that a schedule has missed are found without a walk through all of them, because the manager that fires
# schedules has other work to do.
test_the_last_of_many_are_found_by_reading_few() {
	local calls
	expect_eq '1000 2026-05-15T06:20:00Z 2026-05-15T22:59:00Z' "$(sql "
		select cardinality(l) || ' ' || schedule_time_text(l[1]) || ' ' || schedule_time_text(l[1000])
		from schedule_latest(jsonb_populate_record(null::schedules, jsonb_build_object('cron', '* 1-22 * * *', 'zone', 'UTC')),
		  '2025-05-16', '2026-05-16', 1000) l")"
	calls=$(sql "set track_functions = 'pl';
		select 'the call' from schedule_latest(jsonb_populate_record(null::schedules,
		  jsonb_build_object('cron', '* 1-22 * * *', 'zone', 'UTC')), '2025-05-16', '2026-05-16', 1000) l;
		select calls from pg_stat_xact_user_functions where funcname = 'cron_after'" | tail -n 1)
	note "$calls times were looked for"
	expect [ "$calls" -gt 1000 ] && expect [ "$calls" -lt 5000 ]
}

# The error message names the field, the problem, and the accepted values.
test_invalid_expressions() {
	local expr want
	while IFS='|' read -r expr want; do
		expect_eq "$want" "$(sql "select cron_check('$expr')")" "$expr"
	done <<-'END'
		* * * * *|
		0 2 * * 7|
		59 23 31 DEC Sun-Sat|
		0 9 * * fri-sun|
		0	9  * * 1,3,5|
		@Daily|
		|it has 0 fields; five are wanted: minute, hour, day of the month, month, day of the week
		* * * *|it has 4 fields; five are wanted: minute, hour, day of the month, month, day of the week
		0 0 2 * * *|it has 6 fields; five are wanted: minute, hour, day of the month, month, day of the week
		@reboot|@reboot is not known; there are @hourly, @daily, @midnight, @weekly, @monthly, @yearly and @annually
		60 * * * *|minute: there is no 60; it takes 0 to 59
		* 24 * * *|hour: there is no 24; it takes 0 to 23
		* * 0 * *|day of the month: there is no 0; it takes 1 to 31
		* * * 13 *|month: there is no 13; it takes 1 to 12 or jan to dec
		* * * juno *|month: there is no juno; it takes 1 to 12 or jan to dec
		* * * * 8|day of the week: there is no 8; it takes 0 to 7 or sun to sat
		* * * * mon-|day of the week: "mon-" is none of *, a number, a range and a list of these, with or without a step; it takes 0 to 7 or sun to sat
		1,,2 * * * *|minute: "" is none of *, a number, a range and a list of these, with or without a step; it takes 0 to 59
		-5 * * * *|minute: "-5" is none of *, a number, a range and a list of these, with or without a step; it takes 0 to 59
		99999999999 * * * *|minute: "99999999999" is none of *, a number, a range and a list of these, with or without a step; it takes 0 to 59
		0 0 ? * *|day of the month: "?" is none of *, a number, a range and a list of these, with or without a step; it takes 1 to 31
		50-10 * * * *|minute: the range 50-10 goes backwards; write it as two, like 50-59,0-10
		*/0 * * * *|minute: a step of 0; it takes 0 to 59, with a step of 1 to 60
		*/90 * * * *|minute: a step of 90; it takes 0 to 59, with a step of 1 to 60
		5/15 * * * *|minute: 5/15 has a step and no range; write 5-59/15
		0 0 30 2 *|it never fires: no day of the month is in one of its months
		0 0 31 4,6,9,11 *|it never fires: no day of the month is in one of its months
	END
	expect_match 'more than 1000 characters' "$(sql "select cron_check(repeat('1,', 600) || '1 * * * *')")"
}

test_unknown_time_zones() {
	expect_eq 'Europe/Berlin UTC' "$(sql "select string_agg(proper, ' ' order by proper) from unnest('{europe/berlin,utc}'::text[]) z, zone_find(z)")"
	expect_eq '4' "$(sql "select count((zone_find(z)).problem) from unnest('{Europe/Nowhere,CEST,EST5EDT4,+02:00}'::text[]) z")"
	expect_eq 'there is no time zone "Mars"; it takes names like UTC, Europe/Berlin and America/New_York' "$(sql "select problem from zone_find('Mars')")"
}

run_tests
