#!/usr/bin/env bash
# The audit, of one task and of all: each event comes once, and filters select among them.
# quick
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/raw.bash"

# The audit of all tasks, read in pages, has the same events as the views and tables.
test_all_events_come_once() {
	HISTORY_DAYS=30 # an event here is 20 days old
	start_postgres
	start_manager
	start_worker
	for i in $(seq 800); do echo '{"details":"exit '$((i % 40 == 0))'","max_attempts":2}'; done | reeve submit --bulk - sh --retry-base 1ms >"$DIR/ids"
	reeve wait - <"$DIR/ids" >/dev/null || true
	reeve cancel "$(reeve submit nothing --delay 1h)" >/dev/null
	reeve queue pause default >/dev/null
	wait_until 10 '[ "$(sql "select count(*) from reeve.tasks")" = 0 ]'
	sql "insert into worker_events (worker_id, at, event) values (1, now() - interval '20 days', 'left')" >/dev/null
	sql "select task_id || ' ' || event from (select task_id, event from reeve.audit_log union all select 0, event from reeve.worker_events
		union all select 0, event from reeve.queue_events) e" | sort >"$DIR/wanted"
	reeve audit --limit 100000 --json >"$DIR/events"
	jq -r '"\(.task_id) \(.event)"' "$DIR/events" | sed 's/^null /0 /' | sort >"$DIR/got"
	expect diff "$DIR/wanted" "$DIR/got"
	expect jq -sr 'map(.token) | . == sort | if . then empty else error("not in order") end' "$DIR/events"
	# All events in pages, and the newest ones.
	expect diff <(sort "$DIR/events") <(reeve audit --all --json | sort)
	for limit in 1 7 500 2000; do
		expect diff <(tail -n $limit "$DIR/events" | sort) <(reeve audit --limit $limit --json 2>"$DIR/said" | sort)
		expect_match 'older events' "$(cat "$DIR/said")"
	done
	# Submits whose ids and times are in different orders, as those of several managers.
	sql "insert into tasks (route_id, queue, type, run_at, created, last_updated)
		select 1, 'q', 't', 'infinity', now() - interval '1 minute' * ((n + 1) % 2), now() from generate_series(1, 300) n" >/dev/null
	expect_eq 300 "$(timeout 60 "$REEVE_BIN/reeve" audit --since "1h ago" --limit 100000 --json | jq -r 'select(.event == "submitted" and .task_id > 801) | .task_id' | sort -u | wc -l)"
	for limit in 20 21 22 23; do expect timeout 60 "$REEVE_BIN/reeve" audit --since "1h ago" --limit $limit; done
	sql "delete from tasks where run_at = 'infinity'" >/dev/null
	# Events since a time.
	since=$(sql "select to_char(created at time zone 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"') from reeve.task_history order by task_id offset 400 limit 1")
	sql "select task_id || ' ' || event from reeve.audit_log where at >= '$since'" | sort >"$DIR/wanted"
	reeve audit --since "$since" --limit 100000 --json | jq -r 'select(.task_id > 0) | "\(.task_id) \(.event)"' | sort >"$DIR/got"
	expect diff "$DIR/wanted" "$DIR/got"
	expect diff <(grep -v '^0 ' "$DIR/wanted") <(reeve audit --since "$since" --all --json | jq -r 'select(.task_id > 0) | "\(.task_id) \(.event)"' | sort)
}

times() { # FILE: the events in it, each with its time
	jq -r '"\(.at) \(.task_id) \(.event)"' "$1" | sort
}

# The events before a time, of all tasks: those that a read up to now has before that time; claims of attempts that
# ended later may be missing.
test_the_audit_is_filtered() {
	local a b
	start_postgres
	start_manager
	start_worker first --queue mail --concurrency 1
	start_worker second --queue print --concurrency 1
	a=$(reeve submit sh 'exit 65' --queue mail)
	b=$(reeve submit nothing --queue print)
	expect_fail 1 reeve wait "$a" "$b"
	reeve queue pause mail >/dev/null
	id=$(reeve submit nothing --queue mail)
	reeve update "$id" --priority 3 >/dev/null
	reeve cancel "$id" >/dev/null
	heard() { reeve audit "$@" --json | jq -r '"\(.task_id // 0) \(.event)"' | paste -sd,; }
	expect_eq "$a submitted,$a claimed,$a dead,0 queue_paused,$id submitted,$id updated,$id cancel_requested,$id cancelled" "$(heard --queue mail)"
	expect_eq "$(heard --queue mail)" "$(heard --queue mail --all)"
	expect_eq "$a submitted,$a claimed,$a dead" "$(heard --type sh)"
	expect_eq "$b claimed,$b completed" "$(heard --worker second --event claimed,completed)"
	expect_eq "$a dead,$id cancelled" "$(heard --event dead,cancelled)"
	expect_eq "$id cancelled" "$(heard --event dead,cancelled --limit 1)"
	expect_eq "0 queue_paused" "$(heard --queue mail --event queue_paused)"
	expect_eq "$id updated" "$(heard --queue mail --type nothing --event updated)"
	expect_eq '' "$(heard --queue mail --until '1h ago')"
	expect_eq "$a dead" "$(heard "$a" --event dead)"
	expect_eq "$a claimed,$a dead" "$(heard "$a" --worker first)"
	# One that is older than many others is found, too.
	sql "insert into queue_events (queue, event) select 'other', 'queue_set' from generate_series(1, 30000)"
	expect_eq "$a dead" "$(heard --event dead --limit 5)"
	expect_match 'there is no queue "nosuch"' "$(reeve audit --queue nosuch 2>&1)"
	expect_fail 2 reeve audit --event dead,buried
	expect_match '--event: "dead,buried" has an unknown event; there are submitted, claimed' "$OUTPUT"
	expect_fail 2 reeve audit "$a" --queue mail
	expect_match 'cannot be combined with an ID' "$OUTPUT"
}

test_the_audit_may_end_before_a_time() {
	local since until hour limit answer page
	HISTORY_DAYS=30 # events here are 20 days old
	start_postgres
	start_manager
	start_worker
	for i in $(seq 600); do echo '{"details":"exit '$((i % 40 == 0))'","max_attempts":2}'; done | reeve submit --bulk - sh --retry-base 1ms >"$DIR/ids"
	reeve wait - <"$DIR/ids" >/dev/null || true
	sql "insert into queue_events (at, queue, event) values (now() - interval '20 days', 'old', 'queue_paused'),
		(now() - interval '20 days 30 min', 'old', 'queue_resumed'), (now() - interval '20 days 90 min', 'old', 'queue_set')" >/dev/null
	reeve audit --all --json >"$DIR/events"
	for place in 700 1000 1300; do
		until=$(times "$DIR/events" | sed -n "${place}p" | cut -d' ' -f1)
		since=$(times "$DIR/events" | sed -n "$((place - 150))p" | cut -d' ' -f1)
		jq -cs --arg until "$until" '
			(map(select(.at < $until and .event != "claimed") | {key: "\(.task_id)/\(.attempt)", value: true}) | from_entries) as $over
			| .[] | select(.at < $until and (.event != "claimed" or $over["\(.task_id)/\(.attempt)"]))' "$DIR/events" >"$DIR/wanted"
		reeve audit --until "$until" --all --json >"$DIR/all"
		expect_eq '' "$(comm -23 <(times "$DIR/wanted") <(times "$DIR/all"))" 'missing events'
		expect_eq '' "$(comm -13 <(times "$DIR/events" | awk -v until="$until" '$1 < until') <(times "$DIR/all"))" 'other events'
		expect_eq "$(times "$DIR/all")" "$(reeve audit --until "$until" --limit 100000 --json >"$DIR/newest"; times "$DIR/newest")"
		expect_eq "$(times "$DIR/all" | awk -v since="$since" '$1 >= since')" \
			"$(reeve audit --since "$since" --until "$until" --all --json >"$DIR/between"; times "$DIR/between")"
		for limit in 1 7 150; do
			expect_eq "$(tail -n $limit "$DIR/newest")" "$(reeve audit --until "$until" --limit $limit --json 2>"$DIR/said")"
			expect_match 'older events' "$(cat "$DIR/said")"
		done
	done
	# A time in the future is now; the hour before a time is that of the time.
	expect_eq "$(jq -cs 'sort_by(.at, .task_id)[-20:][]' "$DIR/events")" "$(reeve audit --until +1h --limit 20 --json 2>/dev/null | jq -c .)"
	until=$(sql "select to_char((now() - interval '20 days' + interval '1 min') at time zone 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')")
	expect_eq 'queue_set queue_resumed queue_paused' "$(reeve audit --until "$until" --json | jq -r .event | xargs)"
	hour='' page=''
	while answer=$(raw_hex TaskService/Audit "$(int_field 3 "$(date -d "$until" +%s%6N)")" "$page"); do # a page may be empty
		hour+=$answer
		[[ $answer =~ 10011a(..([0-9a-f]{2})*)$ ]] || break # more, next_page
		page=2a${BASH_REMATCH[1]}
	done
	expect_match "$(int_field 4 32)4a.*$(int_field 4 31)4a" "$hour" # queue_resumed, queue_paused
	expect_no_match "$(int_field 4 29)4a" "$hour"                   # queue_set
	# One task.
	until=$(jq -r 'select(.task_id == 40 and .attempt == 2 and .event == "claimed").at' "$DIR/events")
	expect_eq 'submitted claimed failed' "$(reeve audit 40 --until "$until" --json | jq -r .event | xargs)"
	expect_eq 'submitted claimed failed' "$(reeve audit 40 --until "$until" --all --json | jq -r .event | xargs)"
	expect_eq 'failed' "$(reeve audit 40 --until "$until" --limit 1 --json 2>/dev/null | jq -r .event | xargs)"
	expect_eq '' "$(reeve audit 40 --until '1h ago' --json)"
	expect_fail 2 reeve audit --since '1h ago' --until '2h ago'
	expect_match 'until is not after --since' "$OUTPUT"
	expect_eq '3 until_us is not after since_us' "$(raw_hex TaskService/Audit "$(int_field 2 2)$(int_field 3 2)")"
}

# A task has more events than an answer, and many of them at one moment.
test_all_events_of_a_task() {
	start_postgres
	start_manager
	start_worker
	id=$(reeve submit nothing)
	reeve wait "$id" >/dev/null
	sql "insert into task_events (task_id, version, at, event, note)
		select task_id, last_updated, last_updated, 'updated', n from task_history, generate_series(1, 1100) n" >/dev/null
	reeve audit "$id" --all --json >"$DIR/events"
	expect_eq 1103 "$(sort -u "$DIR/events" | wc -l)"
	expect_eq 1103 "$(wc -l <"$DIR/events")"
	expect_eq 'submitted claimed completed updated' "$(jq -r .event "$DIR/events" | uniq | xargs)"
	expect_eq "$(tail -n 1000 "$DIR/events")" "$(reeve audit "$id" --json 2>"$DIR/said")"
	expect_match 'older events' "$(cat "$DIR/said")"
	expect_eq "$(tail -n 3 "$DIR/events")" "$(reeve audit "$id" --limit 3 --json 2>/dev/null)"
	expect_eq "$(cat "$DIR/events")" "$(reeve audit "$id" --limit 1103 --json)"
	expect_fail 4 reeve audit 99 --all
	expect_fail 4 reeve audit 99
}

run_tests
