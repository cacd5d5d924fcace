#!/usr/bin/env bash
# The commands for schedules: add, list, manual run, and what they refuse. (schedule_changes.sh: edit, pause, resume and
# remove; firings.sh: when schedules fire.)
# timeout 600
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tasks.bash"
. "$(dirname "$0")/schedules.bash"

start_postgres
start_manager other
start_manager manager

counts_all() { # of all that a refused call may have left behind
	counts
	sql "select 'schedules', count(*) from schedules union all select 'schedule_events', count(*) from schedule_events
		union all select 'schedule_runs', count(*) from schedule_runs"
}

test_a_schedule_is_added_shown_and_listed() {
	reeve schedule add nightly --cron '1 0 * * *' --zone europe/berlin report '{"days":1}' --queue reports >"$DIR/added"
	for line in 'schedule +nightly' 'when +1 0 \* \* \*' 'zone +Europe/Berlin' 'queue +reports' 'type +report' \
		'catch-up +one' 'concurrency policy +queue' 'next +2[0-9-]+ 2[23]:01:00.000Z' 'source +.*@'; do
		expect_match "$line" "$(cat "$DIR/added")"
	done
	# Another manager shows the same.
	expect_match 'details +\{"days":1\}' "$(at_other schedule show nightly)"
	expect_eq 'nightly 1 0 * * * Europe/Berlin false one queue false report reports {"days":1}' "$(at_other schedule show nightly --json |
		jq -r '[.name, .cron, .zone, .manual, .catch_up, .concurrency_policy, .paused, .task.type, .task.queue, .task.details] | join(" ")')"
	reeve schedule add beat --every 1h --start 2026-01-01T00:30:00Z ping --catch-up all:3 --concurrency-policy allow >/dev/null
	expect_eq '3600000 2026-01-01T00:30:00.000000Z all 3 allow' "$(of beat '[.every_ms, .start, .catch_up, .max_catch_up, .concurrency_policy] | join(" ")')"
	expect_match 'T[0-9]+:30:00.000000Z$' "$(of beat .next)"
	reeve schedule add 'on demand' --manual ping --catch-up skip --concurrency-policy forbid >/dev/null
	expect_eq 'true skip forbid null' "$(of 'on demand' '[.manual, .catch_up, .concurrency_policy, .next] | map(tostring) | join(" ")')"
	reeve schedule add close --cron '0 8 * * *' --queue-action stop --queue reports >/dev/null
	expect_eq 'stop reports null' "$(of close '[.queue_action, .action_queue, .task] | map(tostring) | join(" ")')"
	# The list is ordered by name, without details.
	expect_eq 'beat close nightly on demand' "$(at_other schedule list --json | jq -r .name | xargs)"
	expect_eq null "$(reeve schedule list --json | jq -r 'select(.name == "nightly").task.details')"
	reeve schedule list >"$DIR/list"
	expect_match 'nightly +1 0 \* \* \* +Europe/Berlin +report +2[-0-9]+ 2[23]:01:00.000Z +- +-' "$(cat "$DIR/list")"
	expect_match 'close +0 8 \* \* \* +UTC +stop queue reports' "$(cat "$DIR/list")"
	expect_match 'on demand +manual +UTC +ping +- +-' "$(cat "$DIR/list")"
	expect_match 'beat +every 1h +UTC +ping' "$(cat "$DIR/list")"
	# Names are unique.
	before=$(counts_all)
	expect_fail 4 at_other schedule add nightly --every 1h report
	expect_match 'there is a schedule "nightly" already; edit it' "$OUTPUT"
	expect_eq "$before" "$(counts_all)"
	# The audit names the caller.
	expect_eq 'schedule beat schedule close schedule nightly schedule on demand' "$(reeve audit --json |
		jq -r 'select(.event == "schedule_added") | .note' | sort | xargs)"
	expect_match '@' "$(reeve audit --json | jq -r 'select(.event == "schedule_added") | .actor' | head -n 1)"
	for name in beat 'on demand' close nightly; do reeve schedule remove "$name" >/dev/null; done
	expect_match 'no schedules' "$(reeve schedule list 2>&1)"
}

test_scheduled_times_are_previewed() {
	reeve schedule add weekdays --cron '30 9 * * 1-5' --zone Europe/Berlin ping >/dev/null
	reeve schedule show weekdays --next 10 >"$DIR/shown"
	expect_eq 10 "$(sed -n '/^scheduled/,$p' "$DIR/shown" | wc -l)"
	expect_eq "$(sql "select string_agg(day::date || ' ' || to_char((day::date + time '9:30') at time zone 'Europe/Berlin' at time zone 'UTC', 'HH24:MI'), ',' order by day)
		from (select day from generate_series(now()::date - 1, now()::date + 20, '1 day') day(day)
			where extract(isodow from day) < 6 and (day::date + time '9:30') at time zone 'Europe/Berlin' > now() limit 10) x")" \
		"$(reeve schedule show weekdays --next 10 --json | jq -r '[.scheduled[] | .[0:10] + " " + .[11:16]] | join(",")')"
	expect_eq "$(of weekdays .next)" "$(reeve schedule show weekdays --next 1 --json | jq -r '.scheduled[0]')"
	reeve schedule add leap --cron '0 0 29 2 *' ping >/dev/null
	expect_eq '02-29 02-29 02-29' "$(reeve schedule show leap --next 3 --json | jq -r '[.scheduled[][5:10]] | join(" ")')"
	reeve schedule add beat --every 90s --start 2026-01-01T00:00:00Z ping >/dev/null
	expect_eq '90 90' "$(reeve schedule show beat --next 3 --json | jq -r '[.scheduled[][0:19] + "Z" | fromdate] | [.[1] - .[0], .[2] - .[1]] | join(" ")')"
	reeve schedule add hand --manual ping >/dev/null
	expect_eq 0 "$(reeve schedule show hand --next 3 --json | jq '.scheduled | length')"
	for name in weekdays leap beat hand; do reeve schedule remove $name >/dev/null; done
}

test_every_option_of_submit_arrives_at_the_task() {
	start_worker
	batch=$(reeve batch open mine --queue q)
	printf 'from\nstdin' | reeve schedule add all --manual sh - --queue q --priority 7 --delay 1h --key '{name}/{date}' --key-ttl 2h \
		--batch "$batch" --retry-limit 6 --timeout 7m --backoff list:1s,1m,1h --jitter 0 --source me >"$DIR/added"
	expect_match 'jitter    0 %' "$(cat "$DIR/added")"
	expect_match 'backoff   list:1s,1m,1h' "$(cat "$DIR/added")"
	id=$(at_other schedule run all)
	expect_eq "q sh from stdin 7 7 420000 me $batch queued" "$(reeve show "$id" --json |
		jq -r '[.queue, .type, (.details | gsub("\n"; " ")), .priority, .max_attempts, .timeout_ms, .source, .batch_id, .status] | join(" ")')"
	expect_eq 't|{"kind": "list", "delays_ms": [1000, 60000, 3600000], "jitter_percent": 0}' \
		"$(sql "select run_at - created between '3599s' and '3601s', retry_policy from tasks where id = $id")"
	expect_eq t "$(sql "select k.expires_at - t.created between '7199s' and '7201s' from keys k join tasks t on t.id = k.task_id where t.id = $id")"
	reeve cancel "$id" >/dev/null
	reeve schedule add plain --manual echo 'hello' >/dev/null
	id=$(reeve schedule run plain)
	reeve wait "$id" >/dev/null
	expect_eq 'default hello 0 5 60000 schedule plain' "$(reeve show "$id" --json |
		jq -r '[.queue, .result, .priority, .max_attempts, .timeout_ms, .source] | join(" ")')"
	# A linear backoff without a base begins with the queue's resting period, as with any submit.
	reeve queue set rests --resting 5s >/dev/null
	reeve schedule add linear --manual echo --queue rests --backoff linear:3s --max-attempts 4 >/dev/null
	a=$(reeve schedule run linear)
	b=$(reeve submit echo --queue rests --backoff linear:3s --max-attempts 4)
	expect_eq "$(sql "select distinct retry_base_ms, retry_max_ms, retry_policy, max_attempts from all_tasks a left join lateral (
		select retry_base_ms, retry_max_ms, retry_policy from tasks where id = a.id union all
		select retry_base_ms, retry_max_ms, retry_policy from task_history where task_id = a.id) x on true where a.id in ($a, $b)" | wc -l)" 1
	for name in all plain linear; do reeve schedule remove $name >/dev/null; done
}

test_a_schedule_of_a_pipeline() {
	start_worker
	echo '{"name":"two","stages":[{"name":"one","type":"echo"},{"name":"next","type":"sha256","max_attempts":2}]}' >"$DIR/two.json"
	reeve pipeline define "$DIR/two.json" >/dev/null
	reeve schedule add piped --every 1h --pipeline two hello --priority 2 >"$DIR/out"
	expect_match 'pipeline  two' "$(cat "$DIR/out")"
	expect_match 'piped .* pipeline two' "$(reeve schedule list)"
	id=$(reeve schedule run piped)
	reeve wait "$id" >/dev/null
	expect_eq "two next 2 $(printf hello | sha256sum | cut -c1-64)" "$(reeve show "$id" --json | jq -r '[.pipeline, .stage, .step, .result[0:64]] | join(" ")')"
	was=$(of piped .task)
	expect_fail 4 reeve schedule edit piped --timeout 5m
	expect_match '--timeout cannot be combined with a pipeline' "$OUTPUT"
	expect_fail 4 reeve schedule edit piped --pipeline nothing
	expect_match 'there is no pipeline "nothing"' "$OUTPUT"
	expect_fail 2 reeve schedule edit piped --pipeline two echo hello
	expect_match 'a TYPE cannot be combined with --pipeline' "$OUTPUT"
	expect_fail 2 reeve schedule add other --manual --pipeline two --timeout 5m
	expect_fail 4 reeve schedule add other --manual --pipeline nothing
	expect_eq "$was" "$(of piped .task)"
	# To a task with a type, and back.
	reeve schedule edit piped --pipeline two --stage next >/dev/null
	expect_eq next "$(of piped .task.stage)"
	reeve schedule edit piped echo hello --timeout 5m >/dev/null
	expect_eq ' echo  300000' "$(of piped '.task | [.pipeline, .type, .stage, .timeout_ms] | join(" ")')"
	reeve schedule edit piped --pipeline two >/dev/null
	expect_eq 'two  0 2 hello' "$(of piped '.task | [.pipeline, .type, .timeout_ms, .priority, .details] | join(" ")')"
	reeve schedule remove piped >/dev/null
}

test_a_schedule_fires_repeatedly_and_its_runs_are_listed() {
	start_worker
	# Each task takes longer than the interval; all firings wait, and are caught up.
	reeve schedule add fast --every 200ms sh 'sleep 0.3; printf hello' --catch-up all:1000 >/dev/null
	wait_until 60 '[ "$(runs fast outcome | grep -c submitted)" -ge 4 ]'
	reeve schedule pause fast >/dev/null
	wait_until 60 '[ "$(runs fast task_status | sort -u)" = completed ]'
	expect_eq submitted "$(runs fast outcome | sort -u)"
	# The scheduled times are 200 ms apart, and no run fired earlier than scheduled.
	expect_eq '' "$(sql "select r.scheduled_at from schedule_runs r join schedules s on s.id = r.schedule_id where s.name = 'fast'
		and (extract(epoch from r.scheduled_at - s.start_at) * 1000)::bigint % 200 <> 0 or r.at < r.scheduled_at")"
	expect_eq t "$(sql "select extract(epoch from max(scheduled_at) - min(scheduled_at)) * 1000 = 200 * (count(*) - 1) from schedule_runs r
		join schedules s on s.id = r.schedule_id where s.name = 'fast'")" 'none is left out'
	expect_eq 'hello schedule fast' "$(reeve show "$(runs fast task_id | tail -n 1)" --json | jq -r '[.result, .source] | join(" ")')"
	last=$(runs fast id task_id outcome | tail -n 1)
	reeve schedule runs fast >"$DIR/runs"
	expect_match "${last%% *} +2[-0-9]+ [:0-9.]+Z +2[-0-9]+ [:0-9.]+Z +submitted +$(cut -d' ' -f2 <<<"$last") +completed" "$(sed -n 2p "$DIR/runs")"
	expect_eq "submitted $(cut -d' ' -f2 <<<"$last")" "$(of fast '[.last_outcome, .last_task_id] | join(" ")')"
	# Paging.
	n=$(runs fast id | wc -l)
	expect_eq 2 "$(at_other schedule runs fast --limit 2 --json | wc -l)"
	expect_eq "$((n - 1))" "$(reeve schedule runs fast --before "${last%% *}" --json | wc -l)"
	reeve schedule remove fast >/dev/null
}

test_a_manual_run_does_not_affect_the_schedule() {
	reeve schedule add hand --cron '0 0 1 1 *' nothing --concurrency-policy forbid >/dev/null
	next=$(of hand .next)
	a=$(reeve schedule run hand)
	reeve schedule pause hand >/dev/null
	b=$(at_other schedule run hand) # a paused one, and while the former goes on
	[ "$a" != "$b" ] || fail "$a twice"
	expect_eq "$next" "$(of hand .next)"
	expect_eq "0 submitted $a queued 0 submitted $b queued" "$(runs hand planned outcome task_id task_status | xargs)"
	expect_match '@' "$(runs hand actor | head -n 1)"
	expect_match "^[0-9]+ +manual +2.* submitted +$b +queued +.*@" "$(reeve schedule runs hand | sed -n 2p | sed 's/^ *//')"
	# A resent call, also to another manager, returns the same run.
	id=$(resend id)
	resend schedule "$id" Run '{"name":"hand"}' "${URL[manager]}" "${URL[other]}" "${URL[manager]}" >"$DIR/answers"
	resend schedule "$id" Run '{"name":"hand"}' "${URL[other]}" >>"$DIR/answers"
	expect_eq 4 "$(wc -l <"$DIR/answers")"
	expect_eq 1 "$(jq .run.task_id "$DIR/answers" | sort -u | wc -l)"
	expect_eq 3 "$(runs hand id | wc -l)"
	expect_eq 3 "$(sql "select count(*) from tasks where source = 'schedule hand'")"
	reeve schedule remove hand >/dev/null
}

# A time window: one schedule starts the queue, another stops it.
test_a_schedule_starts_and_stops_a_queue() {
	reeve queue set window --autostart no >/dev/null
	reeve schedule add open --manual --queue-action start --queue window >/dev/null
	id=$(reeve submit nothing --queue window)
	expect_eq not_started "$(reeve queue status window --json | jq -r .state)"
	reeve schedule run open 2>"$DIR/said"
	expect_match 'acted: queue "window" is running' "$(cat "$DIR/said")"
	expect_eq acted "$(runs open outcome)"
	reeve schedule add shut --every 300ms --queue-action stop --queue window >/dev/null
	wait_status 20 "$id" dead
	expect_eq queue_stopped "$(field "$id" error_code)"
	wait_until 20 '[ -n "$(runs shut outcome | grep -x acted)" ]'
	expect_eq 'schedule shut' "$(reeve audit --json | jq -r 'select(.event == "queue_stop_requested" and .note == "queue window").actor' | head -n 1)"
	reeve schedule remove open >/dev/null
	reeve schedule remove shut >/dev/null
}

test_errors_name_the_invalid_input() {
	local before line code words
	reeve schedule add there --every 1h nothing >/dev/null
	reeve schedule add acting --every 1h --queue-action stop --queue q >/dev/null
	open=$(reeve batch open b --queue elsewhere)
	before=$(counts_all)
	head -c 1100000 /dev/zero | tr '\0' x >"$DIR/long"
	# CODE | expected error | arguments
	while IFS='|' read -r code words line; do
		[ -n "$line" ] || continue
		eval "expect_fail $code reeve schedule $line"
		expect_match "$words" "$OUTPUT" "$line"
	done <<-'END'
		4|--cron: it never fires|add x --cron '0 0 30 2 *' nothing
		4|--cron: .*4 fields|add x --cron '0 0 30 2' nothing
		4|--cron: .*minute|add x --cron '60 0 * * *' nothing
		4|--cron: .*hour|add x --cron '0 24 * * *' nothing
		4|--cron: |add x --cron 'nonsense' nothing
		4|--cron: |add x --cron '0 0 */0 * *' nothing
		4|--cron: |add x --cron '0 0 1-40 * *' nothing
		4|--cron has 300 bytes; at most 255|add x --cron "$(printf '%300s' '* * * * *')" nothing
		2|--cron is empty|add x --cron '' nothing
		2|--zone is empty|edit there --zone ''
		4|no time zone "Mars/Phobos"|add x --cron '0 0 * * *' --zone Mars/Phobos nothing
		4|no time zone "../../etc/passwd"|add x --cron '0 0 * * *' --zone ../../etc/passwd nothing
		4|--zone holds a control|add x --cron '0 0 * * *' --zone $'a\nb' nothing
		2|--every: .*from 100ms to|add x --every 99ms nothing
		2|--every: .*from 100ms to|add x --every 3651d nothing
		2|--every: .*negative|add x --every -5s nothing
		2|--every: .*is not a duration|add x --every often nothing
		4|--start lies more than 3650 days ahead|add x --every 5s --start 2200-01-01 nothing
		2|--start lies before 1970|add x --every 5s --start 1960-01-01 nothing
		2|--start: .*is not a time|add x --every 5s --start soon nothing
		2|--start needs --every|add x --cron '0 0 * * *' --start +5m nothing
		2|--cron, --every and --manual cannot be combined|add x --cron '0 0 * * *' --every 5s nothing
		2|--cron, --every and --manual cannot be combined|add x --manual --every 5s nothing
		2|a schedule needs --cron, --every or --manual|add x nothing
		2|the task's TYPE is missing|add x --manual
		2|the schedule's NAME is missing|add
		2|the schedule's NAME is empty|add '' --manual nothing
		4|schedule.name is longer than 255 bytes|add "$(printf 'n%.0s' {1..256})" --manual nothing
		4|schedule.name holds a control character|add $'a\tb' --manual nothing
		4|--key is longer than 255 bytes when|add "$(printf 'n%.0s' {1..255})" --every 1h nothing
		4|there is a schedule "there" already|add there --manual nothing
		2|--catch-up: "all:0" is invalid; it takes skip, one or all:N|add x --manual nothing --catch-up all:0
		2|--catch-up: "all:1001" is invalid|add x --manual nothing --catch-up all:1001
		2|--catch-up: "all" is invalid|add x --manual nothing --catch-up all
		2|--catch-up: "some" is invalid|add x --manual nothing --catch-up some
		2|--concurrency-policy: "both" is invalid; it takes allow, forbid or queue|add x --manual nothing --concurrency-policy both
		2|--at cannot be used here|add x --manual nothing --at +5m
		2|--key-version cannot be used here|add x --manual nothing --key k --key-version 3
		4|--key-ttl needs a key|add x --manual nothing --key-ttl 5m
		4|--key is "k", the same for all|add x --every 5s nothing --key k
		4|--key has \{day\}; \{name\}|add x --every 5s nothing --key '{name}{day}'
		4|--key holds a control character|edit there --priority 1 nothing --key $'a\nb'
		4|details is longer than|add x --manual nothing - <"$DIR/long"
		4|details holds a NUL byte|add x --manual nothing - < <(printf 'a\0b')
		4|there is no batch 12345|add x --manual nothing --batch 12345
		4|batch [0-9]+ is of queue "elsewhere", the schedule's tasks of "q"|add x --manual nothing --queue q --batch $open
		2|--queue-action and a TYPE cannot be combined|add x --manual --queue-action stop --queue q nothing
		2|--queue-action needs a --queue|add x --manual --queue-action stop
		2|--queue-action: "purge" is invalid; it takes start|add x --manual --queue-action purge --queue q
		2|takes no options of a task but --queue|add x --manual --queue-action stop --queue q --priority 3
		2|unknown option --sometimes|add x --sometimes nothing
		2|--start needs --every|edit acting --cron '0 0 * * *' --zone UTC --start +1h
		2|nothing is to be changed|edit there
		4|there is no schedule "nobody"|edit nobody --priority 3
		4|schedule.task is given, and the schedule acts on a queue|edit acting --priority 3
		4|there is no schedule "nobody"|show nobody
		4|there is no schedule "nobody"|pause nobody
		4|there is no schedule "nobody"|resume nobody
		4|there is no schedule "nobody"|run nobody
		4|there is no schedule "nobody"|remove nobody
		4|there is no schedule "nobody"|runs nobody
		2|the schedule.s name is missing|show
		2|unexpected argument "b": give one schedule|pause a b
		2|--next: .*from 1 to 1000|show there --next 1001
		2|unknown verb "fly"|fly
	END
	# Requests that the command would not send.
	while IFS='|' read -r words method line; do
		expect_fail 4 resend schedule "$(resend id)" "$method" "$line" "$REEVE_MANAGER"
		expect_match "^INVALID_ARGUMENT: .*$words" "$OUTPUT" "$line"
	done <<-'END'
		schedule is missing|Add|{}
		schedule needs one of cron, every_ms and manual|Add|{"schedule":{"name":"x","task":{"type":"t"}}}
		schedule.cron, every_ms and manual cannot be combined|Add|{"schedule":{"name":"x","every_ms":500,"manual":true,"task":{"type":"t"}}}
		schedule needs a task or a queue_action|Add|{"schedule":{"name":"x","manual":true}}
		schedule.task and schedule.queue_action cannot be combined|Add|{"schedule":{"name":"x","manual":true,"task":{"type":"t"},"queue_action":"stop","action_queue":"q"}}
		schedule.task.type is empty|Add|{"schedule":{"name":"x","manual":true,"task":{"type":""}}}
		schedule.task.run_at_us cannot be used|Add|{"schedule":{"name":"x","manual":true,"task":{"type":"t","run_at":"2030-01-01T00:00:00Z"}}}
		schedule.task.version cannot be used|Add|{"schedule":{"name":"x","manual":true,"task":{"type":"t","key":"k","version":4}}}
		schedule.every_ms is 99|Add|{"schedule":{"name":"x","every_ms":99,"task":{"type":"t"}}}
		schedule.every_ms is -1|Add|{"schedule":{"name":"x","every_ms":-1,"task":{"type":"t"}}}
		schedule.max_catch_up is 0|Add|{"schedule":{"name":"x","manual":true,"catch_up":"all","task":{"type":"t"}}}
		schedule.max_catch_up needs catch_up ALL|Add|{"schedule":{"name":"x","manual":true,"catch_up":"one","max_catch_up":4,"task":{"type":"t"}}}
		schedule.queue_action is 5|Add|{"schedule":{"name":"x","manual":true,"queue_action":"purge","action_queue":"q"}}
		schedule.action_queue is empty|Add|{"schedule":{"name":"x","manual":true,"queue_action":"stop"}}
		schedule.task.priority is 2000000|Add|{"schedule":{"name":"x","manual":true,"task":{"type":"t","priority":2000000}}}
		fields is empty|Edit|{"schedule":{"name":"there"}}
		fields has "colour"|Edit|{"schedule":{"name":"there"},"fields":["colour"]}
		fields has "task.colour"|Edit|{"schedule":{"name":"there"},"fields":["task.colour"]}
		schedule.manual is false|Edit|{"schedule":{"name":"there"},"fields":["manual"]}
		fields: cron, every_ms and manual cannot be combined|Edit|{"schedule":{"name":"there","manual":true,"cron":"0 0 * * *"},"fields":["manual","cron"]}
		fields: a task and a queue_action cannot be combined|Edit|{"schedule":{"name":"there","queue_action":"stop"},"fields":["task.priority","queue_action"]}
		action_queue need each other|Edit|{"schedule":{"name":"there","action_queue":"q"},"fields":["action_queue"]}
		schedule.task.type is empty|Edit|{"schedule":{"name":"there"},"fields":["task.type"]}
		schedule.task.timeout_ms is|Edit|{"schedule":{"name":"there","task":{"timeout_ms":999999999999}},"fields":["task.timeout_ms"]}
		fields has max_catch_up without catch_up|Edit|{"schedule":{"name":"there","catch_up":"all","max_catch_up":3},"fields":["max_catch_up"]}
		start_us needs every_ms|Edit|{"schedule":{"name":"acting","manual":true,"start":"2030-01-01T00:00:00Z"},"fields":["manual","start_us"]}
		action is 0|Control|{"name":"there"}
		name is empty|Control|{"action":"pause"}
		preview is 1001|Show|{"name":"there","preview":1001}
		limit is 1001|List|{"limit":1001}
		limit is 1001|Runs|{"name":"there","limit":1001}
	END
	expect_eq "$before" "$(counts_all)"
	reeve schedule remove there >/dev/null
	reeve schedule remove acting >/dev/null
}

test_a_long_list_is_read_in_pages() {
	sql "insert into schedules (name, every_ms, next_at, paused, spec)
		select 'many ' || lpad(n::text, 4, '0'), 3600000, now() + interval '1 hour', true, '{\"type\":\"t\"}' from generate_series(1, 2500) n"
	expect_eq 2500 "$(reeve schedule list --json | jq -r .name | grep '^many' | sort -u | wc -l)"
	sql "delete from schedules where name like 'many %'"
}

test_all_commands_have_help() {
	for word in '' add list show runs pause resume run edit remove; do
		expect_match '^Usage: reeve schedule' "$(reeve schedule $word --help)"
	done
	expect_no_match '--at TIME|--key-version N' "$(reeve schedule add --help)" # they are refused
	expect_match '--at TIME.*--key-version N' "$(reeve submit --help)"
}

test_the_example_in_c_as_it_is_documented() {
	start remarks "$REEVE_BIN/example-remarks-worker" "$REEVE_MANAGER"
	wait_until 10 '[ -n "$(reeve worker list --json)" ]'
	awk '/^    \$ example-schedule/ { on = 1; next } /^$/ { on = 0 } on { print substr($0, 5) }' "$TOP/docs/client.md" >"$DIR/documented"
	eval "set -- $(sed -n 's/^    \$ example-schedule [^ ]* //p' "$TOP/docs/client.md")"
	"$REEVE_BIN/example-schedule" "$REEVE_MANAGER" "$@" >"$DIR/printed"
	expect_eq "$(cat "$DIR/documented")" "$(cat "$DIR/printed")"
	expect_fail 1 "$REEVE_BIN/example-schedule" tcp://127.0.0.1:1 book '{}'
	expect_match '^UNAVAILABLE: no manager reachable' "$OUTPUT"
	stop remarks
}

# Replaces numbers, times, names of users and spaces, because these differ between runs.
shape() {
	sed -E 's/-?[0-9]+([.][0-9]+)?/N/g; s/source .*/source/; s/[a-z]+@[^ ]+/USER/g; s/ +/ /g; s/^ //; s/ $//'
}

# The examples of docs/schedules.md, command by command.
test_the_worked_example() {
	local line want section
	PATH=$REEVE_BIN:$PATH
	for section in 'An example' 'Set the time'; do
		awk -v section="## $section" '$0 == section { on = 1; next } /^## / { on = 0 } on && /^    / { print substr($0, 5); next } on && /^$/ { print }' \
			"$TOP/docs/schedules.md" | cat -s | awk '/^\$/ { began = 1 } began && /^reeve/ { exit } began' >"$DIR/example"
		expect [ "$(grep -c '^\$ ' "$DIR/example")" -ge 2 ]
		while read -r line; do
			case $line in '$ '*) ;; *) continue ;; esac
			want=$(awk -v command="$line" '$0 == command { on = 1; next } /^\$ / { on = 0 } on' "$DIR/example" | shape)
			eval "${line#\$ }" >"$DIR/said" 2>&1 || fail "exit code $? of: $line"
			# Compares only output that the page shows.
			[ -z "$want" ] || expect_eq "$want" "$(shape <"$DIR/said")" "$line"
		done <"$DIR/example"
	done
	reeve schedule remove try >/dev/null
}

test_a_past_start_runs_at_once_on_request() {
	past=$(date -u -d '-150 minutes' +%Y-%m-%dT%H:%M:%SZ)
	reeve schedule add past-phase --every 1h --start "$past" --concurrency-policy allow nothing >/dev/null
	reeve schedule add past-one --every 1h --start "$past" --catch-up one --concurrency-policy allow nothing >/dev/null
	reeve schedule add past-all --every 1h --start "$past" --catch-up all:2 --concurrency-policy allow nothing >/dev/null
	reeve schedule add past-edited --every 1h --start "$past" --concurrency-policy allow nothing >/dev/null
	reeve schedule edit past-edited --start "$past" >/dev/null
	runs_of() { reeve schedule runs "$1" --json | jq -r '"\(.outcome) \(.scheduled)"' | sort | paste -sd,; }
	at() { date -u -d "@$(($(date -d "$past" +%s) + 3600 * $1))" +%Y-%m-%dT%H:%M:%S.000000Z; }
	# What was before is not missed: it was never scheduled.
	wait_until 20 '[ "$(runs_of past-all | tr , "\n" | wc -l)" = 2 ]'
	expect_eq "submitted $(at 1),submitted $(at 2)" "$(runs_of past-all)"
	wait_until 20 '[ "$(runs_of past-one)" ]'
	expect_eq "submitted $(at 2)" "$(runs_of past-one)"
	expect_eq "$(at 3)" "$(reeve schedule show past-all --json | jq -r .next)"
	expect_eq '' "$(runs_of past-phase)$(runs_of past-edited)"
	reeve schedule edit past-edited --start "$past" --catch-up one >/dev/null
	wait_until 20 '[ "$(runs_of past-edited)" ]'
	expect_eq "submitted $(at 2)" "$(runs_of past-edited)"
	reeve schedule add none --every 1h --start "$past" --catch-up skip nothing >/dev/null
	expect_eq "$(at 3)" "$(reeve schedule show none --json | jq -r .next)"
	# Of many millions of times since 1970 three.
	reeve schedule add many --every 10s --start 1970-01-01T00:00:01Z --catch-up all:3 --concurrency-policy allow nothing >/dev/null
	wait_until 20 '[ "$(reeve schedule runs many --json | wc -l)" -ge 3 ]'
	reeve schedule pause many >/dev/null
	expect_eq submitted "$(reeve schedule runs many --json | jq -r .outcome | sort -u)"
	expect [ "$(reeve schedule runs many --json | wc -l)" -le 5 ]
	# The longest interval, and the most times.
	reeve schedule add rare --every 3650d --start 2000-01-01T00:00:00Z --catch-up all:1000 --concurrency-policy allow nothing >/dev/null
	wait_until 20 '[[ $(runs_of rare) = *2019-12-27* ]]'
	expect_match '^submitted 2000-01-01T[^,]*,submitted 2009-12-29T[^,]*,submitted 2019-12-27T' "$(runs_of rare)"
	# By SQL, too.
	expect_eq "$(at 3)" "$(sql "select reeve.schedule('phase-sql', 'nothing', every => '1 h', start => '$past')" >/dev/null; reeve schedule show phase-sql --json | jq -r .next)"
	sql "select reeve.schedule('one-sql', 'nothing', every => '1 h', start => '$past', catch_up => 'one')" >/dev/null
	wait_until 20 '[ "$(runs_of one-sql)" ]'
	expect_eq "submitted $(at 2)" "$(runs_of one-sql)"
}

run_tests
