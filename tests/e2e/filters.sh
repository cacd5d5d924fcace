#!/usr/bin/env bash
# Tasks selected by conditions: listed, retried, cancelled, discarded and changed in bulk.
# timeout 400
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tasks.bash"
. "$(dirname "$0")/faults.bash"
. "$(dirname "$0")/filters.bash"

many() { # COUNT JSON: submits so many alike, and prints their ids
	for _ in $(seq "$1"); do echo "$2"; done | reeve submit --bulk - sh
}

ids() { # ids of the tasks that match
	reeve list --where "$1" --limit 100000 --json | jq .id | sort -n | xargs
}

matching() { # SQL-CONDITION: the same, by the database
	sql "select string_agg(id::text, ' ' order by id) from all_tasks where $1"
}

test_lists_by_every_condition() {
	begin --concurrency 4
	many 3 '{"queue":"mail","details":"echo no route >&2; exit 65"}' >"$DIR/a"
	many 2 '{"queue":"mail","details":"echo no route to host >&2; exit 66","source":"ann","max_attempts":1}' >"$DIR/b"
	many 2 '{"queue":"mail","details":"echo \"it'"'"'s bad\" >&2; exit 65"}' >"$DIR/c"
	reeve submit sh 'exit 3' --queue night --retry-base 1h --retry-max 1h --key k-1 >"$DIR/d"
	reeve submit nothing --delay 1h --source bob >"$DIR/e"
	batch=$(reeve batch open monthly --queue mail)
	reeve submit nothing --queue mail --batch "$batch" >"$DIR/f"
	expect_fail 1 reeve wait - < <(cat "$DIR"/[abcf])
	wait_status 20 "$(cat "$DIR/d")" failed
	all=$(cat "$DIR"/[a-f] | sort -n | xargs)
	expect_eq "$all" "$(ids 'newer=1h')"
	expect_eq "$(ids 'code=exit:65 queue=mail')" \
		"$(reeve list --where code=exit:65 --where queue=mail --json | jq .id | sort -n | xargs)"
	expect_eq '' "$(ids 'older=1h')"
	sql "update task_history set created = created - interval '2 hours' where task_id in ($(paste -sd, "$DIR/a"))"
	expect_eq "$(cat "$DIR/f")" "$(ids "batch=$batch")"
	while IFS='|' read -r where condition; do
		want=$(matching "$condition")
		expect_match '[0-9]' "$want" "$condition"
		expect_eq "$want" "$(ids "$where")" "$where"
	done <<-'END'
		status=dead|status = 'dead'
		status=dead,failed,queued|status in ('dead', 'failed', 'queued')
		queue=mail|queue = 'mail'
		type=nothing|type = 'nothing'
		error='no route'|last_error = 'no route'
		error~"no route"|last_error like '%no route%'
		error~'it''s'|last_error like '%it''s%'
		code=exit:65|error_code = 'exit:65'
		older=1h|created < now() - interval '1 hour'
		newer=1h status=dead|created > now() - interval '1 hour' and status = 'dead'
		key=k-1|key = 'k-1'
		source=ann|source = 'ann'
		queue=mail code=exit:65 error~route status=dead|queue = 'mail' and error_code = 'exit:65' and last_error like '%route%'
	END
	expect_eq "$(cat "$DIR/d")" "$(reeve list --status failed --where 'status=failed,dead' --queue night --json | jq .id)"
	expect_match '^no tasks$' "$(reeve list --where 'status=completed queue=night' 2>&1)"
}

test_one_command_retries_all_of_an_error() {
	begin --concurrency 4
	many 20 '{"queue":"mail","max_attempts":1,"details":"[ -e $REEVE_TEST_DIR/mended ] || { echo no route to host >&2; exit 3; }"}' >"$DIR/ids"
	many 5 '{"queue":"mail","max_attempts":1,"details":"echo other >&2; exit 3"}' >"$DIR/others"
	expect_fail 1 reeve wait - < <(cat "$DIR/ids" "$DIR/others")
	touch "$DIR/mended"
	reeve retry --where 'status=dead queue=mail error="no route to host"' --dry-run >"$DIR/told" 2>"$DIR/said"
	expect_eq 21 "$(wc -l <"$DIR/told")"
	expect_eq 'reeve: 20 tasks would be started again' "$(cat "$DIR/said")"
	expect_eq 25 "$(sql "select count(*) from task_history where status = 'dead'")"
	expect_eq '20 tasks started again' "$(reeve retry --where 'status=dead queue=mail error="no route to host"')"
	expect_eq 20 "$(reeve wait - --json <"$DIR/ids" | jq -r .status | grep -c completed)"
	expect_eq 5 "$(sql "select count(*) from task_history where status = 'dead'")"
	expect_fail 4 reeve retry --where 'status=dead queue=mail error="no route to host"'
	expect_eq 'reeve: no task matches' "$OUTPUT"
	# Without a status: failed, dead and cancelled tasks, and no others.
	expect_eq '5 tasks started again' "$(reeve retry --where 'queue=mail')"
	expect_fail 1 reeve wait - <"$DIR/others"
}

test_cancels_what_waits_and_what_runs() {
	begin --concurrency 2
	many 2 "$(jq -nc --arg s "$HOLD" '{queue: "mail", details: $s}')" >"$DIR/running"
	while read -r id; do wait_began "$id"; done <"$DIR/running"
	many 5 '{"queue":"mail","delay":"1h"}' >"$DIR/waiting"
	other=$(reeve submit nothing --delay 1h)
	expect_eq '7 tasks cancelled or being stopped' "$(reeve cancel --where queue=mail --reason 'closed down')"
	expect_fail 1 reeve wait - --max-wait 20s < <(cat "$DIR/running" "$DIR/waiting")
	expect_eq 'cancelled|7' "$(sql "select status, count(*) from task_history group by 1")"
	expect_eq 7 "$(sql "select count(*) from task_events where event = 'cancel_requested' and note = 'closed down'")"
	expect_eq queued "$(field "$other" status)"
	expect_fail 4 reeve cancel --where queue=mail
	expect_fail 4 reeve cancel --where 'status=cancelled'
	expect_match 'filter.statuses selects tasks that have ended' "$OUTPUT"
}

test_discards_end_dead() {
	begin --concurrency 2
	running=$(reeve submit sh "$HOLD")
	hurt=$(reeve submit sh 'exit 3' --retry-base 1h --retry-max 1h)
	waiting=$(reeve submit nothing --delay 1h --key k)
	wait_began "$running"
	wait_status 20 "$hurt" failed
	reeve discard "$running" "$hurt" "$waiting" --reason 'it will never fit' >"$DIR/told"
	expect_match "$running +executing +yes +its worker stops it.*$hurt +dead +yes.*$waiting +dead +yes" "$(cat "$DIR/told")"
	for id in "$running" "$hurt" "$waiting"; do
		expect_fail 1 reeve wait "$id" --max-wait 20s
		expect_eq 'dead discarded it will never fit' "$(field "$id" status) $(field "$id" error_code) $(field "$id" last_error)"
		expect_match 'discard_requested dead$' "$(events "$id")"
		expect_eq 'it will never fit' "$(event_field "$id" discard_requested note)"
	done
	expect_fail 4 reeve discard "$running" 999999
	expect_match "there is no task 999999" "$OUTPUT"
	expect_no_match "it has ended" "$(reeve discard "$running" --json | jq -r .changed)" # it is as it was wanted
	many 3 '{"delay":"1h"}' >"$DIR/ids"
	expect_eq '3 tasks discarded or being stopped' "$(reeve discard --where 'type=sh status=queued')"
	expect_eq 'discarded by request' "$(field "$(head -n 1 "$DIR/ids")" last_error)"
	# A discard takes precedence over an earlier cancel, and a completion over both.
	signal worker STOP
	id=$(reeve submit nothing)
	signal worker CONT
	reeve wait "$id" >/dev/null
	id=$(reeve submit sh "trap '' TERM; touch $DIR/deaf; until [ -e $DIR/end ]; do sleep 0.05; done; $HOLD")
	wait_until 20 '[ -e "$DIR/deaf" ]'
	reeve cancel "$id" >/dev/null
	expect_match 'yes' "$(reeve discard "$id")"
	expect_fail 4 reeve discard "$id"
	expect_match 'it is being discarded already' "$OUTPUT"
	touch "$DIR/end"
	expect_fail 1 reeve wait "$id" --max-wait 20s
	expect_eq 'dead discarded' "$(field "$id" status) $(field "$id" error_code)"
}

test_changes_the_priority_and_time_of_all_that_match() {
	begin --queue none
	many 5 '{"queue":"mail","delay":"1h"}' >/dev/null
	many 2 '{"queue":"night","delay":"1h"}' >/dev/null
	expect_eq '5 tasks changed' "$(reeve update --where queue=mail --priority 9 --at 2030-01-14T08:00:00Z)"
	expect_eq '0|2 9|5' "$(sql 'select priority, count(*) from tasks group by 1 order by 1' | xargs)"
	expect_eq 5 "$(sql "select count(*) from tasks where queue = 'mail' and run_at = '2030-01-14 08:00Z'")"
	expect_eq '7 tasks changed' "$(reeve update --where type=sh --max-attempts 7)"
	expect_fail 4 reeve update --where 'status=executing' --delay 1h
	expect_match 'selects executing tasks; only their priority and attempts can be changed' "$OUTPUT"
	expect_eq '2 tasks started again' "$(reeve retry --where 'queue=night status=queued')" # due now
	expect_eq 2 "$(sql "select count(*) from tasks where queue = 'night' and run_at <= now()")"
	expect_fail 4 reeve retry --where 'queue=night status=queued' # they are due already
}

used_ms() { # the processor time that the manager and PostgreSQL have used
	local postmaster
	postmaster=$(head -n 1 "$PGDIR/postmaster.pid")
	# shellcheck disable=SC2046
	echo $((10 * $(ticks_of "$(pid manager)" "$postmaster" $(pgrep -P "$postmaster"))))
}

test_thirty_thousand_at_once() {
	start_postgres
	start_manager
	reeve submit nothing --queue many --delay 1h >/dev/null
	sql "insert into tasks (route_id, queue, type, details, run_at, max_attempts, source, created, last_updated, status, attempt, last_error)
		select route_id, queue, type, 'x', run_at, 5, 'me', created, last_updated, 'failed', 1, 'no ' || n % 2
		from tasks, generate_series(1, 30000) n"
	reeve cancel --where 'error="no 1"' --dry-run >"$DIR/told" 2>"$DIR/said"
	expect_eq 'reeve: 15000 tasks would be cancelled or being stopped' "$(cat "$DIR/said")"
	before=$(used_ms)
	expect_eq '30000 tasks changed' "$(reeve update --where 'queue=many status=failed' --priority 3)"
	updated=$(used_ms)
	expect_eq '15000 tasks cancelled or being stopped' "$(reeve cancel --where 'error="no 1"')"
	cancelled=$(used_ms)
	expect_eq '15000 tasks started again' "$(reeve retry --where 'status=cancelled')"
	retried=$(used_ms)
	note "processor time: $((updated - before)) ms for 30000 changes, $((cancelled - updated)) ms for 15000 cancels, $((retried - cancelled)) ms for their retries"
	expect [ $((retried - before)) -lt 20000 ]
	expect_eq 'failed|15000 queued|15001' "$(sql 'select status, count(*) from tasks group by 1 order by 1' | xargs)"
	expect_eq 0 "$(sql 'select count(*) from task_history')"
	expect_eq 30001 "$(reeve list --where 'queue=many' --limit 60000 --json | wc -l)"
}

# A call scans a limited range of ids: tasks that lie far apart are found by several calls.
test_few_among_many_are_found() {
	start_postgres
	start_manager
	reeve submit nothing --queue many --delay 1h >/dev/null
	sql "insert into tasks (id, route_id, queue, type, details, run_at, max_attempts, source, created, last_updated) overriding system value
		select 1000000 * n, route_id, queue, type, 'x', run_at, 5, 'me', created, last_updated from tasks, generate_series(1, 4) n"
	expect_eq '5 tasks cancelled or being stopped' "$(reeve cancel --where 'queue=many')"
	expect_eq '1|1 1000000|1 2000000|1 3000000|1 4000000|0' \
		"$(sql "select task_ids[1], (task_ids[2] > 0)::int from requests where kind = 'cancel_where' and cardinality(existing) > 0 order by 1" | xargs)"
	expect_eq '5 tasks started again' "$(reeve retry --where 'status=cancelled')"
	sql "insert into tasks (id, route_id, queue, type, details, run_at, max_attempts, source, created, last_updated, status) overriding system value
		select 10000000 + n, route_id, queue, type, 'x', run_at, 5, 'me', created, last_updated, 'queued' from tasks, generate_series(1, 300000) n
		where id = 1"
	sql "update tasks set source = 'wanted' where id in (10000001, 10300000)"
	expect_eq '2 tasks discarded or being stopped' "$(reeve discard --where source=wanted)"
	expect_eq '10000001 10300000' "$(sql "select task_id from task_history order by 1" | xargs)"
	expect_fail 4 reeve discard --where source=wanted
	expect_eq 'reeve: no task matches' "$OUTPUT"
}

test_progress_is_shown_while_a_listing_finds_nothing() {
	local list
	start_postgres
	start_manager
	reeve submit nothing --queue many --delay 1h >/dev/null
	sql "insert into tasks (route_id, queue, type, details, run_at, max_attempts, source, created, last_updated)
		select route_id, queue, type, 'x', run_at, 5, 'me', created, last_updated from tasks, generate_series(1, 100000) n"
	start_proxy away manager
	tell away delay up 300
	list="'$REEVE_BIN/reeve' --manager '${PROXY[away]}' list --where source=none"
	script -qec "$list" /dev/null >"$DIR/shown"
	expect_match $'\r\e\\[Kpages read: [0-9]+' "$(cat "$DIR/shown")"
	expect_match $'\r\e\\[Kno tasks' "$(cat "$DIR/shown")"
	expect_match $'\e\\[Kpages read: ' "$(script -qec "$list --json" /dev/null)"
	expect_eq 'no tasks' "$(bash -c "$list" 2>&1)"
}

# A repeated call, as after a lost answer, does nothing more and returns the same, also when it reaches several managers
# at the same moment.
test_a_call_sent_twice_does_its_work_once() {
	start_postgres
	start_manager
	start_manager second
	many 1005 '{"queue":"mail","delay":"1h"}' | sort -n >"$DIR/ids"
	id=$("$REEVE_BIN/resend" id)
	"$REEVE_BIN/resend" cancel-where "$id" mail "${URL[manager]}" "${URL[second]}" "${URL[manager]}" >"$DIR/told"
	"$REEVE_BIN/resend" cancel-where "$id" mail "${URL[second]}" >>"$DIR/told"
	expect_eq "$(head -n 1000 "$DIR/ids" | xargs) > $(sed -n 1000p "$DIR/ids")" "$(sort -u "$DIR/told")"
	expect_eq 1000 "$(sql "select count(*) from task_events where event = 'cancel_requested'")"
	expect_eq 'cancelled|1000 queued|5' "$(sql 'select status, count(*) from all_tasks group by 1 order by 1' | xargs)"
	expect_fail 4 "$REEVE_BIN/resend" cancel "$id" "$(head -n 1 "$DIR/ids")" "${URL[second]}"
	expect_match 'the request id was used for another call' "$OUTPUT"
	expect_eq '5 tasks cancelled or being stopped' "$(reeve cancel --where queue=mail)"
}

# Makes outputs comparable: replaces numbers and times with N, and drops extra blanks.
shape() {
	sed -E 's/[0-9]+([.][0-9]+)?(ms|s|m[0-9]|m|h|d)?([0-9.]+s)?/N/g; s/ +/ /g; s/^ //; s/ $//'
}

# The example of failing tasks in docs/operations.md, command by command.
test_the_worked_example() {
	local line want
	handlers <<-END
		[handler send]
		exec = /bin/bash
		[handler digest]
		exec = /bin/true
	END
	start_postgres
	start_manager "${LONG_LEASES[@]}"
	start_worker worker --concurrency 4
	for _ in 1 2 3; do
		reeve submit send "[ -e $DIR/mended ] || { echo no route to host >&2; exit 3; }" --queue mail --max-attempts 1
	done >"$DIR/ids"
	reeve submit send 'echo bad address >&2; exit 65' --queue mail >>"$DIR/ids"
	reeve submit send 'echo bad address >&2; exit 65' --queue mail >>"$DIR/ids"
	expect_fail 1 reeve wait - <"$DIR/ids"
	reeve submit digest --queue mail --delay 1h >/dev/null
	reeve submit digest --queue mail --delay 1h >/dev/null
	touch "$DIR/mended"
	awk '/^## When tasks fail/ { on = 1; next } /^## / { on = 0 } on && /^    / { print substr($0, 5) }' \
		"$TOP/docs/operations.md" >"$DIR/example"
	expect_eq 6 "$(grep -c '^\$ ' "$DIR/example")" 'documented commands'
	while read -r line; do
		case $line in
		'$ reeve list --running-longer 1s')
			reeve wait - --max-wait 20s <"$DIR/ids" >/dev/null || true
			hung=$(reeve submit send "[ -e $DIR/second ] || { touch $DIR/second; sleep 1000; }" --queue mail --timeout 1h)
			wait_until 20 '[ -n "$(reeve list --running-longer 1s --json)" ]'
			;;
		'$ reeve stats'*) reeve wait "$hung" --max-wait 20s >/dev/null ;;
		'$ '*) ;;
		*) continue ;;
		esac
		want=$(awk -v command="$line" '$0 == command { on = 1; next } /^\$ / { on = 0 } on' "$DIR/example" | shape)
		expect_eq "$want" "$( (eval "${line#\$ }" 2>&1 || true) | shape)" "$line"
	done <"$DIR/example"
}

# They have no tasks, and nothing warns of them, even if another manager has just created them and no notification was sent.
test_queues_without_tasks() {
	start_postgres
	start_manager
	sql "insert into queues (name) values ('set')"
	sql "insert into routes (queue, type) values ('new', 'fresh')"
	for queue in set new; do
		expect_eq '' "$(reeve list --where "queue=$queue" --json 2>&1)"
		expect_eq 'no tasks' "$(reeve list --queue "$queue" 2>&1)"
		expect_fail 4 reeve cancel --where "queue=$queue"
		expect_eq 'reeve: no task matches' "$OUTPUT"
		for command in errors 'stats --by hour' 'batch list' 'queue list'; do
			expect_no_match warning "$(reeve $command --queue "$queue" 2>&1)" "$command $queue"
		done
	done
	expect_eq 'no tasks' "$(reeve list --type fresh 2>&1)"
}

test_unknown_names_give_a_warning() {
	local warning='reeve: warning: queue: there is no queue "nosuch"'
	start_postgres
	start_manager
	start_worker worker --queue none
	reeve submit nothing --delay 1h >/dev/null
	for command in 'list --queue nosuch' 'list --where queue=nosuch' 'errors --queue nosuch' 'stats --by type --queue nosuch' \
		'batch list --queue nosuch' 'queue list --queue nosuch'; do
		expect_eq '' "$(reeve $command --json 2>/dev/null)" "$command"
		expect_eq "$warning" "$(reeve $command --json 2>&1)" "$command"
	done
	for command in cancel discard retry 'update --priority 1' 'cancel --dry-run'; do
		expect_fail 4 reeve $command --where queue=nosuch
		expect_eq "$warning
reeve: no task matches" "$OUTPUT" "$command"
	done
	expect_eq 'reeve: warning: there has never been a task of type "nosuch"
no tasks' "$(reeve list --type nosuch 2>&1)"
	expect_eq 'reeve: warning: there has never been a task of type "nosuch" in queue "default"
no tasks' "$(reeve list --where 'queue=default type=nosuch' 2>&1)"
}

test_ended_tasks_are_purged() {
	begin
	done=$(reeve submit echo 'of user 17' --key k17 --source ann)
	failed=$(reeve submit sh 'echo bad >&2; exit 3' --max-attempts 2 --retry-base 1ms)
	live=$(reeve submit nothing --delay 1h)
	expect_fail 1 reeve wait "$done" "$failed"
	expect_fail 4 reeve purge "$live"
	expect_match "$live +queued +no +it has not ended" "$OUTPUT"
	expect_fail 4 reeve purge --where 'status=queued'
	expect_match 'filter.statuses selects tasks that have not ended; only ended ones can be purged' "$OUTPUT"
	# Only the details and results.
	expect_match "$done +completed +yes" "$(reeve purge "$done" --details-only --reason 'asked for')"
	expect_eq '|' "$(sql "select details, result from task_history where task_id = $done")"
	expect_eq 'submitted claimed completed erased' "$(events "$done")"
	expect_eq 'asked for' "$(event_field "$done" erased note)"
	# All of them.
	expect_eq "$failed $done" "$(reeve purge --where 'newer=1h' --dry-run --json | jq .id | sort -rn | xargs)"
	expect_eq '2 tasks purged' "$(reeve purge --where 'newer=1h')"
	expect_eq "$live" "$(reeve list --json | jq .id)"
	expect_fail 4 reeve show "$done"
	expect_fail 4 reeve purge "$done"
	expect_eq purged "$(events "$failed")"
	expect_eq "$(reeve audit "$live" --json | jq -r .actor)" "$(event_field "$done" purged actor)"
	expect_eq '0|0|0' "$(sql "select (select count(*) from task_attempts), (select count(*) from keys), (select count(*) from task_history)")"
	expect_eq 0 "$(sql 'select coalesce(sum(count), 0) from history_totals')"
	expect_eq 'false' "$(reeve submit nothing --delay 1h --key k17 --json | jq .existing)"
	# A repeated call has the answer of the first one.
	again=$(reeve submit nothing)
	reeve wait "$again" >/dev/null
	request=$("$REEVE_BIN/resend" id)
	for _ in 1 2; do expect_eq "$again" "$("$REEVE_BIN/resend" purge "$request" "$again" "$REEVE_MANAGER")"; done
}

test_members_of_details_that_are_json() {
	begin --queue worked
	a=$(reeve submit nothing '{"user": 17, "vip": true, "order": {"lines": [{"sku": "a b"}]}}')
	b=$(reeve submit nothing '{"user": "17", "vip": false}' --queue worked)
	c=$(reeve submit nothing ' [{"user": 18}]')
	for other in 'user=17' '{"user": 17' '' '17'; do reeve submit nothing "$other" >/dev/null; done
	reeve wait "$b" >/dev/null
	while IFS='|' read -r where want; do
		expect_eq "$want" "$(ids "$where")" "$where"
	done <<-END
		details.user=17|$a $b
		details.user=17 details.vip=true|$a
		details.user=17 status=completed|$b
		details.order.lines.0.sku="a b"|$a
		details.0.user='18'|$c
		details.user=1|
		details.user.name=17|
	END
	expect_eq '1 task changed' "$(reeve update --where 'details.user=17' --priority 5)"
	expect_eq '1 task cancelled or being stopped' "$(reeve cancel --where 'details.user=17 details.vip=true')"
	expect_eq 'cancelled 5' "$(field "$a" status) $(field "$a" priority)"
	# An index serves the same question by SQL.
	sql "create index on tasks using gin (details_json(details) jsonb_path_ops); create index on task_history using gin (details_json(details) jsonb_path_ops);
		set enable_seqscan = off" >/dev/null
	expect_eq "$a" "$(sql "select id from all_tasks where details_json(details) @> '{\"user\": 17}'")"
	expect_match 'Index Scan' "$(sql "set enable_seqscan = off; explain select id from all_tasks where details_json(details) @> '{\"user\": 17}'")"
}

# Details that no parser takes are no reason to refuse a list, nor is a plan of several processes.
test_details_of_any_kind_are_searched() {
	begin --queue worked
	printf '{"user": %s17%s}' "$(printf '[%.0s' $(seq 50000))" "$(printf ']%.0s' $(seq 50000))" >"$DIR/deep"
	for details in "$(cat "$DIR/deep")" '{"user": "\u0000"}' '{"user": 1e999999}' '{"user": 17, "user": 18}' '[1' '{"user": "\ud800"}'; do
		reeve submit nothing - <<<"$details" >>"$DIR/odd"
	done
	wanted=$(reeve submit nothing '{"user": 17}')
	expect_eq "$wanted" "$(ids details.user=17)"
	expect_eq "$(sed -n 4p "$DIR/odd")" "$(ids details.user=18)"
	expect_eq 6 "$(sql "select count(*) from all_tasks where details_json(details) ->> 'user' is distinct from '17'")"
	sql "insert into tasks (route_id, queue, type, details, run_at, source, created, last_updated)
		select route_id, queue, type, '{\"user\": 1}', now(), '', now(), now() from tasks cross join generate_series(1, 20000) where id = $wanted;
		analyze tasks"
	expect_eq "$wanted" "$(sql "set max_parallel_workers_per_gather = 2; set parallel_setup_cost = 0; set parallel_tuple_cost = 0; set min_parallel_table_scan_size = 0;
		select id from all_tasks where details_json(details) ->> 'user' = '17'")"
}

test_conditions_that_do_not_parse() {
	start_postgres
	start_manager
	start_worker worker --queue none
	reeve submit nothing --delay 1h >/dev/null
	before=$(counts)
	for command in list cancel discard retry 'update --priority 1'; do
		expect_fail 2 reeve $command --where 'status=dead colour=red'
		expect_match '--where: there is no such condition; there are status, queue.*colour=red.*\^' "$OUTPUT"
		expect_fail 2 reeve $command --where ''
	done
	for command in cancel discard retry 'update --priority 1'; do
		expect_fail 2 reeve $command --where 'type=nothing' 1
		expect_match 'cannot be combined with ids' "$OUTPUT"
		expect_fail 2 reeve $command --dry-run 1
		expect_fail 4 reeve $command --where 'type=nothing' --running-longer 1h
		expect_match 'no task matches' "$OUTPUT"
		expect_fail 4 reeve $command --where 'status=queued' --running-longer 1h
	done
	for where in details.user details.=x details.user~x 'details.user=' details=x; do
		expect_fail 2 reeve list --where "$where"
	done
	expect_fail 2 reeve list --where "$(for n in $(seq 21); do echo "details.m$n=x"; done)"
	expect_match 'at most 20 conditions on details' "$OUTPUT"
	expect_fail 2 reeve retry --where 'type=nothing' --executing
	expect_eq "$(sed '/^requests/d' <<<"$before")" "$(counts | sed '/^requests/d')"
}

run_tests
