#!/usr/bin/env bash
# HTTP callbacks: delivered once each, signed, retried with growing delays, given up in the end. (callback_sites.sh:
# where they may go; batch_callbacks.sh: those of batches and attempts.)
# timeout 600
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/faults.bash"
. "$(dirname "$0")/receiver.bash"

test_a_callback_is_delivered_and_its_signature_is_good() {
	start_postgres
	start_manager
	receiver
	id=$(callback "${URL[receiver]}/ok" "$SECRET" '{"text": "ü €"}')
	settled "$id"
	expect_eq 'delivered 1 200' "$(state_of "$id")"
	expect_eq '/ok true application/json null' "$(calls receiver "$id" '"\(.path) \(.signed) \(.type) \(.expect)"')"
	expect_match '^Reeve/[0-9.]+$' "$(calls receiver "$id" .agent)"
	expect_eq '{"text": "ü €"}' "$(calls receiver "$id" .body)"
	# A secret in plain text that is not the receiver's, and no secret.
	id=$(callback "${URL[receiver]}/ok" another)
	settled "$id"
	expect_eq false "$(calls receiver "$id" .signed)"
	id=$(callback "${URL[receiver]}/ok" none)
	settled "$id"
	expect_eq null "$(calls receiver "$id" .signed)"
	wait_until 20 '[ "$(counter callbacks_delivered)" = 3 ]'
}

test_failures_are_retried_under_the_same_id() {
	start_postgres
	start_manager
	receiver
	sql "create table public.rests (ms int);
		create function public.note_rest() returns trigger language plpgsql security definer as 'begin
			insert into public.rests values (extract(epoch from new.next_at - clock_timestamp()) * 1000); return null; end';
		create trigger note_rest after update of last_status on callbacks for each row when (new.state = 'waiting' and new.takes = old.takes)
			execute function public.note_rest()" >/dev/null
	id=$(callback "${URL[receiver]}/fail/2")
	settled "$id"
	expect_eq "delivered 3 200 HTTP status 500" "$(state_of "$id")"
	expect_eq 3 "$(calls receiver "$id" | wc -l)"
	expect_eq 'true true true' "$(calls receiver "$id" .signed | xargs)"
	# The retry delays are 1 s and 4 s, less up to a quarter of jitter, and are kept. (A busy machine may write them down a bit later.)
	sql 'select ms from public.rests order by 1' >"$DIR/rests"
	expect awk '{ max = NR == 1 ? 1000 : 4000; if ($1 > max || $1 < max * 3 / 4 - 500) exit 1 } END { if (NR != 2) exit 1 }' "$DIR/rests"
	calls receiver "$id" .t >"$DIR/times"
	expect awk 'NR > 1 && $1 - last < (NR == 2 ? 0.7 : 2.9) { exit 1 } { last = $1 }' "$DIR/times"
	wait_until 20 '[ "$(counter callbacks_failed)" = 2 ]'
}

test_gone_gives_up_at_once_and_is_logged_once() {
	start_postgres
	start_manager
	receiver
	id=$(callback "${URL[receiver]}/gone?token=secret")
	settled "$id"
	expect_eq 'given_up 1 410 HTTP status 410' "$(state_of "$id")"
	wait_until 20 "grep -q 'callback $id .* is given up' '$DIR/log/manager.log'"
	expect_eq "callback $id (task_end of batch 1) to ${URL[receiver]} is given up after 1 try: HTTP status 410" \
		"$(sed -n 's/.*warn .*manager: //p' "$DIR/log/manager.log" | grep callback)"
	wait_until 20 '[ "$(counter callbacks_given_up)" = 1 ]'
}

test_a_receiver_chooses_the_next_attempts_time() {
	start_postgres
	start_manager
	receiver
	id=$(callback "${URL[receiver]}/later/4")
	settled "$id"
	expect_eq 'delivered 2 200 HTTP status 503' "$(state_of "$id")"
	calls receiver "$id" .t >"$DIR/times"
	expect awk 'NR == 2 && ($1 - last < 4 || $1 - last > 20) { exit 1 } { last = $1 }' "$DIR/times"
}

# While the clock is hours ahead, a retry is scheduled in 3 s; then the clock is set right. Nothing waits for those
# hours.
test_the_databases_clock_is_set_back() {
	start_postgres_with_clock
	jump 18000
	start_manager
	receiver
	id=$(callback "${URL[receiver]}/later/3")
	wait_until 20 "[ \"\$(sql \"select last_status from callbacks where id = $id\")\" = 503 ]"
	jump 0
	settled "$id" 30
	expect_eq 'delivered 2 200 HTTP status 503' "$(state_of "$id")"
	# A callback that is scheduled afterwards waits for its full delay.
	id=$(callback "${URL[receiver]}/later/4")
	settled "$id" 30
	calls receiver "$id" .t >"$DIR/times"
	expect awk 'NR == 2 && ($1 - last < 4 || $1 - last > 20) { exit 1 } { last = $1 }' "$DIR/times"
}

test_a_call_interrupted_by_its_managers_death_is_repeated() {
	start_postgres
	start_manager --callback-timeout 1s
	receiver
	id=$(callback "${URL[receiver]}/hold")
	wait_until 20 '[ -s "$DIR/receiver.calls" ]'
	kill_manager
	touch "$DIR/receiver.calls.go"
	start_manager --callback-timeout 1s
	expect_eq "waiting 0" "$(state_of "$id")"
	settled "$id" 40
	expect_eq 'delivered 1 200' "$(state_of "$id")"
	expect_eq "cb_$id true cb_$id true" "$(calls receiver "$id" '"\(.id) \(.signed)"' | xargs)"
}

# The database fails during a call: the result is recorded when the database is back, and no call is made twice.
test_an_outage_of_the_database_repeats_no_call() {
	start_postgres
	start_manager --callback-timeout 20s
	receiver
	id=$(callback "${URL[receiver]}/hold")
	wait_until 20 '[ -s "$DIR/receiver.calls" ]'
	stop_postgres immediate
	touch "$DIR/receiver.calls.go"
	start_postgres
	settled "$id" 30
	expect_eq 'delivered 1 200' "$(state_of "$id")"
	expect_eq 1 "$(calls receiver "$id" | wc -l)"
}

test_two_managers_share_the_work_and_call_once_each() {
	start_postgres
	start_manager one
	start_manager two
	receiver
	receiver other
	for round in 1 2 3; do
		sql "insert into callbacks (batch_id, event, url, payload)
			select 1, 'task_end', case n % 2 when 0 then '${URL[receiver]}' else '${URL[other]}' end || '/ok', '{}'
			from generate_series(1, 200) n"
		wait_until 60 '[ "$(sql "select count(*) from callbacks where state = '"'delivered'"' and attempts = 1")" = $((200 * round)) ]'
	done
	expect_eq 600 "$(cat "$DIR"/*.calls | wc -l)"
	expect_eq 600 "$(jq -r .id "$DIR"/*.calls | sort -u | wc -l)"
	delivered() { REEVE_MANAGER=${URL[$1]} counter callbacks_delivered; }
	wait_until 20 '[ $(($(delivered one) + $(delivered two))) = 600 ]' # they count after they have recorded it
	one=$(delivered one) two=$(delivered two)
	note "one $one, two $two"
	expect [ "$one" -gt 0 ]
	expect [ "$two" -gt 0 ]
}

test_options_are_checked() {
	expect_fail 2 "$REEVE_BIN/reeve-manager" --database dbname=x --callback-tries 0
	expect_match 'callback-tries' "$OUTPUT"
	expect_fail 2 "$REEVE_BIN/reeve-manager" --database dbname=x --callback-timeout 1ms
	expect_match 'callback-timeout' "$OUTPUT"
	expect_fail 2 "$REEVE_BIN/reeve-manager" --database dbname=x --callback-ca /nowhere
	expect_match 'callback-ca /nowhere: No such file' "$OUTPUT"
}

# A manager that loses its connection, or dies, right after it has taken a callback makes no call.
test_takes_without_a_call_are_no_attempts() {
	start_postgres
	start_manager
	receiver
	stop manager
	id=$(callback "${URL[receiver]}/ok")
	{
		echo 'set search_path = reeve;'
		printf 'prepare take as\n%s;\n' "$(cat "$STATEMENTS/callbacks_take.sql")"
		for n in $(seq 12); do
			echo "execute take(16, 4, 1, '{}', '{}', null); select pg_sleep(0.01);"
		done
	} | "$REEVE_TEST_PG_BIN/psql" -XAtq -v ON_ERROR_STOP=1 -h "$PGDIR" -U reeve -d reeve >"$DIR/taken"
	expect_eq 12 "$(grep -c "^$id|" "$DIR/taken")"
	start_manager
	settled "$id"
	expect_eq 'delivered 1 200' "$(state_of "$id")"
}

# A lower --callback-tries also applies to callbacks that wait already.
test_callbacks_beyond_a_lowered_limit_are_given_up() {
	start_postgres
	start_manager --callback-tries 3
	receiver
	id=$(sql "insert into callbacks (batch_id, event, url, payload, attempts)
		values (1, 'task_end', '${URL[receiver]}/ok', '{}', 3) returning id")
	settled "$id"
	expect_match '^given_up 3 it has been tried as often as --callback-tries says' "$(state_of "$id")"
	expect_eq 0 "$(wc -l <"$DIR/receiver.calls")"
}

test_ended_callbacks_are_removed_after_the_days_of_the_history() {
	start_postgres
	start_manager --history-days 3
	sql "insert into callbacks (batch_id, event, url, payload, state, ended_at)
		select 1, 'task_end', 'http://127.0.0.1/', '{}', s, now() - d * interval '1 day' - interval '1 minute'
		from unnest(array['delivered', 'given_up']) s, generate_series(0, 5) d"
	stop manager
	start_manager --history-days 3
	wait_until 20 '[ "$(sql "select count(*) from callbacks")" = 6 ]'
	expect_eq 0 "$(sql "select count(*) from callbacks where ended_at < now() - interval '3 days'")"
}

test_callbacks_are_listed() {
	start_postgres
	start_manager --callback-tries 2
	receiver
	good=$(callback "${URL[receiver]}/ok")
	bad=$(callback "${URL[receiver]}/unavailable/3600")
	settled "$good"
	wait_until 20 "[ \"\$(state_of $bad)\" = 'waiting 1 503 HTTP status 503' ]"
	expect_match "$bad +1 +1 +task_end +waiting +1 +503 .*(again in .*: )?HTTP status 503" "$(reeve callback list)"
	sql "update callbacks set next_at = clock_timestamp() where id = $bad"
	settled "$bad"
	expect_eq "$bad given_up, $good delivered" "$(reeve callback list --json | jq -rs 'map("\(.id) \(.state)") | join(", ")')"
	expect_eq '["attempts","batch_id","created","ended","event","id","last_error","last_status","state","task_id","url"]' \
		"$(reeve callback list --state given_up --json | jq -c keys)"
	expect_eq "$good" "$(reeve callback list --batch 1 --state delivered --json | jq .id)"
	# Only operators see what receivers have answered.
	for role in reader operator; do reeve token create "$role" --role "$role" --output "$DIR/$role"; done
	of_bad() { reeve --access-token-file "$DIR/$1" callback list --state given_up --json | jq -c '[.last_status, .last_error]'; }
	wait_until 10 'of_bad operator >/dev/null'
	expect_eq '[503,"HTTP status 503"]' "$(of_bad operator)"
	expect_eq '[0,"failed"]' "$(of_bad reader)"
	expect_fail 4 reeve callback list --batch 2
	expect_eq 'reeve: there is no batch 2' "$OUTPUT"
	reeve batch open one >/dev/null
	expect_match 'no callbacks' "$(reeve callback list --batch "$(reeve batch open two)" 2>&1)"
	expect_match "there are more callbacks than the 1 shown" "$(reeve callback list --limit 1 2>&1)"
	expect_no_match 'there are more' "$(reeve callback list --limit 2 2>&1)"
	expect_fail 2 reeve callback list --state ended
	expect_match 'it takes waiting, delivered or given_up' "$OUTPUT"
	expect_fail 2 reeve callback list --batch x
	expect_match 'batch: "x" is not a whole number' "$OUTPUT"
	expect_match 'Usage: reeve callback list' "$(reeve callback list --help)"
	expect_match 'list  ' "$(reeve callback --help)"
}

test_urls_and_secrets_are_checked_where_they_are_given() {
	start_postgres
	start_manager
	for url in ftp://example.org/ example.org http:// 'http://a b/' http://user:word@example.org/; do
		expect_fail 4 reeve batch open x --callback "$url"
		expect_match '--callback ' "$OUTPUT"
	done
	echo whsec_x >"$DIR/secret"
	expect_fail 4 reeve batch open x --callback http://example.org/ --callback-secret-file "$DIR/secret"
	expect_match 'callback_secret begins with whsec_, and is not base64 after that' "$OUTPUT"
	expect_eq 0 "$(sql 'select count(*) from batches')"
}

# The example of docs/callbacks.md.
test_the_receiver_of_the_docs_works() {
	start_postgres
	start_manager
	start_worker
	PORT[doc]=$(free_port)
	start doc "$TOP/examples/callbacks/receiver.py" "${PORT[doc]}" "$SECRET"
	wait_until 20 "(exec 3<>/dev/tcp/127.0.0.1/${PORT[doc]}) 2>/dev/null"
	echo "$SECRET" >"$DIR/secret"
	id=$(reeve batch open nightly --callback "http://127.0.0.1:${PORT[doc]}/" --callback-secret-file "$DIR/secret")
	reeve submit nothing --batch "$id" >/dev/null
	reeve batch close "$id" >/dev/null
	wait_until 20 'grep -qx "nightly: 1 completed, 0 failed" "$DIR/log/doc.log"'
	# A call that is signed with another secret is refused, and has no effect.
	echo another >"$DIR/secret"
	id=$(reeve batch open forged --callback "http://127.0.0.1:${PORT[doc]}/" --callback-secret-file "$DIR/secret")
	reeve submit nothing --batch "$id" >/dev/null
	reeve batch close "$id" >/dev/null
	wait_until 20 "[ \"\$(sql \"select count(*) from callbacks where batch_id = $id and last_status = 401\")\" = 2 ]"
	expect_no_match forged "$(cat "$DIR/log/doc.log")"
}

run_tests
