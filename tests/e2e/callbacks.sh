#!/usr/bin/env bash
# HTTP callbacks: delivered once each, signed, retried with growing delays, given up in the end. A bad receiver delays
# neither other callbacks nor the manager.
# timeout 600
# long
# parts 2
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tasks.bash"
. "$(dirname "$0")/faults.bash"

SECRET=whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw

receiver() { # [NAME] [OPTION…]: its URL is ${URL[NAME]}, what it was told is in $DIR/NAME.calls
	local name=receiver
	case ${1:--} in -*) ;; *) name=$1 && shift ;; esac
	PORT[$name]=${PORT[$name]:-$(free_port)}
	URL[$name]=http://127.0.0.1:${PORT[$name]}
	start "$name" "$TOP/tests/tools/http_receiver.py" --port "${PORT[$name]}" --log "$DIR/$name.calls" --secret "$SECRET" "$@"
	wait_until 20 "(exec 3<>/dev/tcp/127.0.0.1/${PORT[$name]}) 2>/dev/null"
	touch "$DIR/$name.calls"
}

callback() { # URL [SECRET] [PAYLOAD]: puts one there, as what ends tasks does; prints its id
	sql "insert into callbacks (batch_id, task_id, event, url, secret, payload) values (1, 1, 'task_end', '$1',
		nullif('${2:-$SECRET}', 'none'), '${3:-{\"event\": \"task_end\"\}}') returning id"
}

state_of() { # ID: state, tries, status, error
	sql "select concat_ws(' ', state, attempts, last_status, last_error) from callbacks where id = $1"
}

settled() { # ID [SECONDS]: waits until it is delivered or given up
	wait_until "${2:-30}" "[ \"\$(sql \"select state from callbacks where id = $1\")\" != waiting ]"
}

counter() { # NAME: of REEVE_MANAGER
	reeve stats --json | jq ".counters[] | select(.name == \"$1\") | .value"
}

calls() { # NAME ID [FILTER]: of the calls of this callback
	jq -r "select(.id == \"cb_$2\") | ${3:-.path}" "$DIR/$1.calls"
}

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
	expect_eq 3 "$(counter callbacks_delivered)"
}

test_failures_are_retried_under_the_same_id() {
	start_postgres
	start_manager
	receiver
	id=$(callback "${URL[receiver]}/fail/2")
	settled "$id"
	expect_eq "delivered 3 200 HTTP status 500" "$(state_of "$id")"
	expect_eq 3 "$(calls receiver "$id" | wc -l)"
	expect_eq 'true true true' "$(calls receiver "$id" .signed | xargs)"
	# The retry delays are 1 s and 4 s, less up to a quarter of jitter, plus up to a second until the next poll.
	calls receiver "$id" .t >"$DIR/times"
	expect awk 'NR > 1 { rest = $1 - last; low = NR == 2 ? 0.7 : 2.9; if (rest < low || rest > low * 1.5 + 2) exit 1 } { last = $1 }' "$DIR/times"
	expect_eq 2 "$(counter callbacks_failed)"
}

test_gone_gives_up_at_once_and_is_logged_once() {
	start_postgres
	start_manager
	receiver
	id=$(callback "${URL[receiver]}/gone?token=secret")
	settled "$id"
	expect_eq 'given_up 1 410 HTTP status 410' "$(state_of "$id")"
	expect_eq "callback $id (task_end of batch 1) to ${URL[receiver]} is given up after 1 try: HTTP status 410" \
		"$(sed -n 's/.*warn .*manager: //p' "$DIR/log/manager.log" | grep callback)"
	expect_eq 1 "$(counter callbacks_given_up)"
}

test_a_receiver_chooses_the_next_attempts_time() {
	start_postgres
	start_manager
	receiver
	id=$(callback "${URL[receiver]}/later/4")
	settled "$id"
	expect_eq 'delivered 2 200 HTTP status 503' "$(state_of "$id")"
	calls receiver "$id" .t >"$DIR/times"
	expect awk 'NR == 2 && ($1 - last < 4 || $1 - last > 7) { exit 1 } { last = $1 }' "$DIR/times"
}

# More callbacks of one site are locked than it may have in flight.
test_locked_callbacks_hide_none_of_their_site() {
	start_postgres
	start_manager
	receiver
	for n in $(seq 9); do callback "${URL[receiver]}/ok/$n" >>"$DIR/ids"; done &
	wait $!
	while read -r id; do settled "$id"; done <"$DIR/ids"
	last=$(tail -n 1 "$DIR/ids")
	sql "update callbacks set state = 'waiting', attempts = 0, ended_at = null, next_at = clock_timestamp() + interval '3s' + interval '1ms' * id"
	start holder "$REEVE_TEST_PG_BIN/psql" -XAtq -h "$PGDIR" -U postgres -d reeve -c "set application_name = 'holder'" -c begin \
		-c "select from reeve.callbacks where id < $last for update" -c 'select pg_sleep(60)'
	settled "$last" 10
	expect_eq 8 "$(sql "select count(*) from callbacks where state = 'waiting'")"
	sql "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'holder'" >/dev/null
	ended holder 10
	while read -r id; do settled "$id" 10; done <"$DIR/ids"
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
	settled "$id" 15
	expect_eq 'delivered 2 200 HTTP status 503' "$(state_of "$id")"
	# A callback that is scheduled afterwards waits for its full delay.
	id=$(callback "${URL[receiver]}/later/4")
	settled "$id" 15
	calls receiver "$id" .t >"$DIR/times"
	expect awk 'NR == 2 && ($1 - last < 4 || $1 - last > 7) { exit 1 } { last = $1 }' "$DIR/times"
}

# Everything that a receiver may do wrong, at once. Other callbacks, and calls to the manager, are not delayed.
test_bad_receivers_delay_no_other() {
	start_postgres
	start_manager --callback-tries 2 --callback-timeout 2s
	receiver
	start_worker
	start calls "$REEVE_BIN/steady-calls" 2
	wait_until 20 '[ -s "$DIR/log/calls.log" ]'
	nobody=$(free_port)
	declare -A id=()
	for path in hang status/500 status/404 close endless endless-head half moved; do
		id[$path]=$(callback "${URL[receiver]}/$path")
	done
	id[refused]=$(callback "http://127.0.0.1:$nobody/")
	id[unknown]=$(callback "http://nobody.invalid/")
	id[plain]=$(callback "https://127.0.0.1:${PORT[receiver]}/")
	id[good]=$(callback "${URL[receiver]}/ok")
	for path in "${!id[@]}"; do settled "${id[$path]}" 60; done
	# A response with a status counts as an answer, even if the rest of it is incomplete or endless.
	for path in good endless half; do expect_match '^delivered 1 200' "$(state_of "${id[$path]}")" "$path"; done
	expect_match '^given_up 2 .*(timed out|Timeout)' "$(state_of "${id[hang]}")"
	expect_eq 'given_up 2 500 HTTP status 500' "$(state_of "${id[status/500]}")"
	expect_eq 'given_up 2 404 HTTP status 404' "$(state_of "${id[status/404]}")"
	expect_eq 'given_up 2 301 HTTP status 301; redirects are not followed' "$(state_of "${id[moved]}")"
	expect_match '^given_up 2 .*(Empty reply|reset)' "$(state_of "${id[close]}")"
	expect_match '^given_up 2 .*head is longer than 64 KiB' "$(state_of "${id[endless-head]}")"
	expect_match '^given_up 2 .*(Failed to|Could.?n.t) connect' "$(state_of "${id[refused]}")"
	expect_match '^given_up 2 .*resolve host' "$(state_of "${id[unknown]}")"
	expect_match '^given_up 2 .*SSL' "$(state_of "${id[plain]}")"
	expect_eq 9 "$(counter callbacks_given_up)"
	expect_eq 9 "$(grep -c "warn .*is given up after 2 tries" "$DIR/log/manager.log")"
	expect_eq 18 "$(counter callbacks_failed)"
	stop calls
	expect_eq 0 "$STATUS"
	expect [ "$(wc -l <"$DIR/log/calls.log")" -gt 100 ]
	slowest=$(cut -d' ' -f2 "$DIR/log/calls.log" | sort -n | tail -n 1)
	note "slowest call: $slowest ms"
	expect [ "$slowest" -lt 1500 ]
}

test_a_name_server_that_is_silent_delays_no_other() {
	cat >"$DIR/slow.c" <<-END
		#include <dlfcn.h>
		#include <netdb.h>
		#include <string.h>
		#include <unistd.h>
		int getaddrinfo(const char *host, const char *port, const struct addrinfo *hints, struct addrinfo **found)
		{
			int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **) = dlsym(RTLD_NEXT, "getaddrinfo");
			if (host && strstr(host, ".silent")) {
				sleep(6);
				return EAI_AGAIN;
			}
			return real(host, port, hints, found);
		}
	END
	cc -D_GNU_SOURCE -shared -fPIC -o "$DIR/slow.so" "$DIR/slow.c"
	start_postgres
	receiver
	ASAN_OPTIONS=$ASAN_OPTIONS:verify_asan_link_order=0 LD_PRELOAD=$DIR/slow.so \
		start_manager --callback-tries 1 --callback-timeout 1s
	start_worker
	start calls "$REEVE_BIN/steady-calls" 1
	for i in 1 2 3 4 5 6; do callback "http://host$i.silent/" >>"$DIR/ids"; done
	good=$(callback "${URL[receiver]}/ok")
	settled "$good" 5
	while read -r id; do
		settled "$id" 10
		expect_match '^given_up 1 .*timed out' "$(state_of "$id")"
	done <"$DIR/ids"
	stop calls
	expect [ "$(cut -d' ' -f2 "$DIR/log/calls.log" | sort -n | tail -n 1)" -lt 1500 ]
	begin=$SECONDS
	stop manager
	expect [ $((SECONDS - begin)) -lt 5 ]
}

# One site gets up to four calls at a time: while it hangs the other sites get theirs, and none of its callbacks is
# lost.
test_a_site_that_hangs_leaves_the_others_their_turns() {
	start_postgres
	start_manager --callback-timeout 1s
	receiver
	receiver slow
	sql "insert into callbacks (batch_id, event, url, payload)
		select 1, 'task_end', '${URL[slow]}/hold', '{}' from generate_series(1, 40)"
	wait_until 20 '[ "$(wc -l <"$DIR/slow.calls")" = 4 ]'
	id=$(callback "${URL[receiver]}/ok")
	settled "$id" 5
	expect_eq 4 "$(sql "select count(*) from callbacks where state = 'waiting' and takes > 0 and last_error is null")"
	touch "$DIR/slow.calls.go"
	wait_until 60 '[ "$(sql "select count(*) from callbacks where state = '"'delivered'"'")" = 41 ]'
}

# Four sites that hang, each with a backlog, have all calls at once: the first to end makes room for another site.
test_sites_that_hang_leave_the_next_call_to_another() {
	local begin id
	start_postgres
	start_manager --callback-timeout 3s
	receiver
	for i in 1 2 3 4; do
		receiver "slow$i"
		sql "insert into callbacks (batch_id, event, url, payload, next_at)
			select 1, 'task_end', '${URL[slow$i]}/hang', '{}', now() - interval '1 hour' from generate_series(1, 40)"
	done
	wait_until 20 '[ "$(sql "select count(*) from callbacks where takes > 0")" -ge 16 ]'
	for i in 1 2 3; do
		begin=$(ms)
		id=$(callback "${URL[receiver]}/ok")
		settled "$id" 10
		note "$(($(ms) - begin)) ms"
		expect [ $(($(ms) - begin)) -lt 4500 ]
	done
}

# Neither many callbacks for one site nor many sites delay another callback.
test_a_backlog_delays_no_other_callback() {
	start_postgres -c autovacuum=off
	start_manager --callback-timeout 1s
	receiver
	receiver slow
	sql "insert into callbacks (batch_id, event, url, payload, next_at)
			select 1, 'task_end', '${URL[slow]}/hang', '{}', now() - interval '1 hour' from generate_series(1, 100000);
		insert into callbacks (batch_id, event, url, payload, next_at)
			select 1, 'task_end', 'http://host' || n || '.invalid/', '{}', now() + interval '1 hour' from generate_series(1, 500) n"
	for i in 1 2 3 4 5; do
		begin=$(ms)
		id=$(callback "${URL[receiver]}/ok")
		settled "$id" 5
		expect [ $(($(ms) - begin)) -lt 2500 ]
	done
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
	sql "insert into callbacks (batch_id, event, url, payload)
		select 1, 'task_end', case n % 2 when 0 then '${URL[receiver]}' else '${URL[other]}' end || '/ok', '{}'
		from generate_series(1, 600) n"
	wait_until 60 '[ "$(sql "select count(*) from callbacks where state = '"'delivered'"' and attempts = 1")" = 600 ]'
	expect_eq 600 "$(cat "$DIR"/*.calls | wc -l)"
	expect_eq 600 "$(jq -r .id "$DIR"/*.calls | sort -u | wc -l)"
	one=$(REEVE_MANAGER=${URL[one]} counter callbacks_delivered)
	two=$(REEVE_MANAGER=${URL[two]} counter callbacks_delivered)
	note "one $one, two $two"
	expect_eq 600 $((one + two))
	expect [ "$one" -gt 50 ]
	expect [ "$two" -gt 50 ]
}

certificate() { # NAME HOST: NAME.pem and NAME.key, signed by ca.pem
	openssl req -newkey rsa:2048 -nodes -keyout "$DIR/$1.key" -out "$DIR/$1.csr" -subj "/CN=$2" 2>/dev/null
	openssl x509 -req -in "$DIR/$1.csr" -CA "$DIR/ca.pem" -CAkey "$DIR/ca.key" -CAcreateserial -days 2 -out "$DIR/$1.pem" \
		-extfile <(echo "subjectAltName = $2") 2>/dev/null
}

test_certificates_are_verified() {
	openssl req -x509 -newkey rsa:2048 -nodes -keyout "$DIR/ca.key" -out "$DIR/ca.pem" -subj /CN=ca -days 2 2>/dev/null
	certificate good IP:127.0.0.1
	certificate other DNS:other.example
	start_postgres
	start_manager trusting --callback-tries 1 --callback-ca "$DIR/ca.pem"
	receiver --certificate "$DIR/good.pem" --key "$DIR/good.key"
	receiver other --certificate "$DIR/other.pem" --key "$DIR/other.key"
	id=$(callback "${URL[receiver]/http:/https:}/ok")
	settled "$id"
	expect_eq 'delivered 1 200' "$(state_of "$id")"
	expect_eq true "$(calls receiver "$id" .signed)"
	id=$(callback "${URL[other]/http:/https:}/ok")
	settled "$id"
	expect_match '^given_up 1 SSL: no alternative certificate subject name' "$(state_of "$id")"
	stop trusting
	start_manager --callback-tries 1
	id=$(callback "${URL[receiver]/http:/https:}/ok")
	settled "$id"
	expect_match '^given_up 1 SSL certificate problem' "$(state_of "$id")"
	expect_eq 1 "$(wc -l <"$DIR/receiver.calls")"
	expect_eq 0 "$(wc -l <"$DIR/other.calls")"
}

# The manager's environment names a proxy, which would call any address. The allowed names do not matter.
test_calls_reach_no_private_address() {
	start_postgres
	receiver
	PORT[strict]=$(free_port) URL[strict]=tcp://127.0.0.1:${PORT[strict]}
	export REEVE_MANAGER=${URL[strict]}
	http_proxy=${URL[receiver]} start strict "$REEVE_BIN/reeve-manager" --database "$CONNINFO" --listen "${URL[strict]}" --callback-tries 1
	wait_until 60 'reeve stats >/dev/null'
	for host in 127.0.0.1 localhost 0 2130706433 0x7f.1 '[::1]' '[::ffff:127.0.0.1]' 10.0.0.1 169.254.169.254; do
		id=$(callback "http://$host:${PORT[receiver]}/ok")
		settled "$id"
		expect_match '^given_up 1 .*loopback, link-local or private address' "$(state_of "$id")" "$host"
	done
	expect_eq '' "$(cat "$DIR/receiver.calls" 2>/dev/null)"
}

test_calls_go_to_the_allowed_hosts_alone() {
	start_postgres
	receiver
	start_manager --callback-hosts "*.example.org,127.0.0.1:${PORT[receiver]},localhost:1"
	good=$(callback "${URL[receiver]}/ok")
	bad=$(callback "http://localhost:${PORT[receiver]}/ok")
	user=$(callback "http://127.0.0.1@localhost:${PORT[receiver]}/ok")
	file=$(callback "file:///etc/passwd")
	for id in "$good" "$bad" "$user" "$file"; do settled "$id"; done
	expect_eq 'delivered 1 200' "$(state_of "$good")"
	expect_match '^given_up 1 .*none of those that --callback-hosts allows' "$(state_of "$bad")"
	expect_match "^given_up 1 the URL has a user's name" "$(state_of "$user")"
	expect_match '^given_up 1 the URL does not begin with http:// or https://' "$(state_of "$file")"
	expect_eq 1 "$(wc -l <"$DIR/receiver.calls")"
	stop manager
	start_manager --callback-hosts ''
	id=$(callback "${URL[receiver]}/ok")
	settled "$id"
	expect_match '^given_up 1 .*none of those that --callback-hosts allows' "$(state_of "$id")"
	expect_eq 1 "$(wc -l <"$DIR/receiver.calls")"
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

events_of() { # NAME BATCH: how often each event came, in the order of their names
	jq -r '.body | fromjson | select((.batch.id? // .batch_id) == '"$2"') | .event' "$DIR/$1.calls" | sort | uniq -c | xargs
}

test_a_batch_notifies_its_begin_its_tasks_and_its_end() {
	start_postgres
	start_manager
	start_worker
	receiver
	echo "$SECRET" >"$DIR/secret"
	id=$(reeve batch open nightly --queue reports --callback "${URL[receiver]}/ok" --callback-secret-file "$DIR/secret" --callback-tasks)
	good=$(reeve submit sh 'printf done' --queue reports --batch "$id")
	bad=$(reeve submit sh 'echo "no such customer" >&2; exit 65' --queue reports --batch "$id")
	reeve batch close "$id" >/dev/null
	wait_until 30 '[ "$(sql "select count(*) from callbacks where state = '"'delivered'"'")" = 4 ]'
	expect_eq '1 batch_begin 1 batch_end 2 task_end' "$(events_of receiver "$id")"
	expect_eq true "$(jq .signed "$DIR/receiver.calls" | sort -u)"
	jq -r '.body | fromjson | select(.event == "batch_begin")' "$DIR/receiver.calls" >"$DIR/begin"
	expect_eq "$id nightly reports false" "$(jq -r '"\(.batch.id) \(.batch.name) \(.batch.queue) \(has("tasks"))"' "$DIR/begin")"
	jq -r '.body | fromjson | select(.event == "batch_end")' "$DIR/receiver.calls" >"$DIR/end"
	expect_eq 'ended 2 0 1 1 null' "$(jq -r '.batch | "\(.state) \(.submitted) \(.pending) \(.completed) \(.failed)"' "$DIR/end") $(jq .truncated "$DIR/end")"
	expect_eq "$good completed 1 worker, $bad dead 1 worker exit:65 no such customer" \
		"$(jq -r '.tasks | map("\(.id) \(.status) \(.attempt) \(.worker)" + if .error_code != "" then " \(.error_code) \(.last_error)" else "" end) | join(", ")' "$DIR/end")"
	# The batch and its tasks are the same as those that the command prints.
	reeve batch report "$id" --json >"$DIR/report"
	fields='del(.duration_ms, .callbacks_waiting, .callbacks_given_up)'
	expect_eq "$(reeve batch list --json | jq -c "select(.id == $id) | $fields")" "$(jq -c ".batch | $fields" "$DIR/end")"
	for task in "$good" "$bad"; do
		jq ".tasks[] | select(.id == $task)" "$DIR/end" >"$DIR/told"
		expect_eq '{}' "$(reeve show "$task" --json | jq -c --slurpfile told "$DIR/told" \
			'. as $shown | $told[0] | with_entries(select(.value != $shown[.key]))')"
	done
	jq -r ".body | fromjson | select(.event == \"task_end\" and .task.id == $bad)" "$DIR/receiver.calls" >"$DIR/task"
	expect_eq "$id nightly dead worker exit:65" "$(jq -r '"\(.batch_id) \(.batch) \(.task.status) \(.task.worker) \(.task.error_code)"' "$DIR/task")"
}

test_each_attempt_is_notified() {
	start_postgres
	start_manager
	start_worker
	receiver
	id=$(reeve batch open tried --queue q --callback "${URL[receiver]}/ok" --callback-tasks --callback-attempts --callback-type told)
	task=$(reeve submit sh '[ "$REEVE_ATTEMPT" = 3 ] || { echo "try $REEVE_ATTEMPT" >&2; exit 7; }' --batch "$id" --backoff fixed:100ms --jitter 0)
	reeve wait "$task" >/dev/null
	reeve batch close "$id" >/dev/null
	wait_until 30 '[ "$(sql "select count(*) from callbacks where state = '"'delivered'"'")" = 5 ]'
	expect_eq '2 attempt_end 1 batch_begin 1 batch_end 1 task_end' "$(events_of receiver "$id")"
	jq -r '.body | fromjson | select(.event == "attempt_end")' "$DIR/receiver.calls" | jq -s 'sort_by(.task.attempt)' >"$DIR/tries"
	expect_eq "1 failed exit:7 try 1,2 failed exit:7 try 2" "$(jq -r 'map(.task | "\(.attempt) \(.status) \(.error_code) \(.last_error)") | join(",")' "$DIR/tries")"
	expect_eq 'true worker' "$(jq -r '.[0] | "\(.task.run_at > .task.ended) \(.worker.name)"' "$DIR/tries")"
	expect_eq 2 "$(sql "select count(*) from all_tasks where type = 'told' and details::jsonb ->> 'event' = 'attempt_end'")"
	expect_fail 4 reeve queue set r --callback-attempts yes
	expect_match 'callback-attempts needs a callback_url or a callback_type' "$OUTPUT"
	# The end of a pipeline's stage is one, too.
	reeve pipeline define - <<<'{"name": "two", "stages": [{"name": "a", "type": "echo"}, {"name": "b", "type": "echo"}]}' >/dev/null
	id=$(reeve batch open staged --queue q --callback "${URL[receiver]}/ok" --callback-attempts)
	reeve submit --pipeline two text --batch "$id" --wait >/dev/null
	wait_until 30 '[ "$(events_of receiver "$id" | xargs)" = "1 attempt_end 1 batch_begin" ]'
	expect_eq "queued text" "$(jq -r ".body | fromjson | select(.event == \"attempt_end\" and .batch_id == $id).task | \"\(.status) \(.result)\"" "$DIR/receiver.calls")"
}

# They come when it is there again, and delay no attempt.
test_each_attempt_is_notified_to_a_receiver_that_was_down() {
	local id task begin
	start_postgres
	start_manager
	start_worker
	PORT[down]=$(free_port)
	id=$(reeve batch open down --queue q --callback "http://127.0.0.1:${PORT[down]}/ok" --callback-attempts)
	task=$(reeve submit sh 'exit 7' --batch "$id" --max-attempts 4 --backoff fixed:50ms --jitter 0)
	begin=$(ms)
	expect_fail 1 reeve wait "$task"
	expect [ $(($(ms) - begin)) -lt 10000 ]
	expect_eq 3 "$(sql "select count(*) from callbacks where batch_id = $id and event = 'attempt_end' and state = 'waiting'")"
	receiver down
	wait_until 90 '[ "$(sql "select count(*) from callbacks where batch_id = $id and event = '"'attempt_end'"' and state = '"'delivered'"'")" = 3 ]'
	expect_eq '1 2 3' "$(jq -r '.body | fromjson | select(.event == "attempt_end").task.attempt' "$DIR/down.calls" | sort -u | xargs)"
}

# Managers are killed again and again. Each event of a batch has one callback, every callback arrives, and a repeated
# call has the same id.
test_nothing_is_lost_or_doubled_while_managers_die() {
	start_postgres
	start_manager one --callback-timeout 1s
	start_manager two --callback-timeout 1s
	export REEVE_MANAGER=${URL[one]},${URL[two]}
	start_worker worker --concurrency 4
	receiver
	for i in $(seq 1 12); do
		id=$(reeve batch open "batch $i" --callback "${URL[receiver]}/fail/1" --callback-tasks)
		for n in 1 2 3; do reeve submit sh 'sleep 0.2' --batch "$id" >/dev/null; done
		reeve batch close "$id" >/dev/null
		if [ $((i % 3)) = 0 ]; then
			name=$([ $((i % 2)) = 0 ] && echo one || echo two)
			kill_manager "$name"
			launch_manager "$name" --callback-timeout 1s
			export REEVE_MANAGER=${URL[one]},${URL[two]}
		fi
	done
	wait_until 90 '[ "$(sql "select count(*) from callbacks where state = '"'delivered'"'")" = 60 ]'
	expect_eq 60 "$(sql 'select count(*) from callbacks')"
	expect_eq '12|1|1|3' "$(sql "select count(*), min(b), min(e), min(t) from (select batch_id, count(*) filter (where event = 'batch_begin') b,
		count(*) filter (where event = 'batch_end') e, count(distinct task_id) t from callbacks group by 1) x where b = 1 and e = 1 and t = 3")"
	expect_eq "$(sql "select 'cb_' || id from callbacks order by 1")" "$(jq -r .id "$DIR/receiver.calls" | sort -u)"
	# All calls with one id are about one event.
	expect_eq 60 "$(jq -r '.id as $id | .body | fromjson | "\($id) \(.event) \(.batch.id? // .batch_id) \(.task.id?)"' "$DIR/receiver.calls" | sort -u | wc -l)"
}

test_the_report_of_a_large_batch_is_cut() {
	start_postgres
	start_manager
	receiver
	batch=$(reeve batch open large --callback "${URL[receiver]}/ok")
	for i in $(seq 1 12000); do echo '{}'; done | reeve submit --bulk - nothing --batch "$batch" >/dev/null
	id=$(sql "insert into callbacks (batch_id, event, url) values ($batch, 'batch_end', '${URL[receiver]}/ok') returning id")
	settled "$id"
	expect_eq 'delivered 1 200' "$(state_of "$id")"
	calls receiver "$id" .body >"$DIR/body"
	expect_eq true "$(jq .truncated "$DIR/body")"
	tasks=$(jq '.tasks | length' "$DIR/body")
	expect [ "$tasks" -gt 2000 ]
	expect [ "$tasks" -le 10000 ]
	expect [ "$(wc -c <"$DIR/body")" -lt 1200000 ]
	# A callback of a batch that does not exist is given up.
	id=$(sql "insert into callbacks (batch_id, event, url) values (999999, 'batch_end', '${URL[receiver]}/ok') returning id")
	settled "$id"
	expect_eq 'given_up 1 the batch is not there any more' "$(state_of "$id")"
}

test_callbacks_are_listed() {
	start_postgres
	start_manager --callback-tries 2
	receiver
	good=$(callback "${URL[receiver]}/ok")
	bad=$(callback "${URL[receiver]}/status/503")
	settled "$good"
	wait_until 20 "[ \"\$(state_of $bad)\" = 'waiting 1 503 HTTP status 503' ]"
	expect_match "$bad +1 +1 +task_end +waiting +1 +503 .*(again in .*: )?HTTP status 503" "$(reeve callback list)"
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
