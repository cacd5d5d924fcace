#!/usr/bin/env bash
# HTTP callbacks: delivered once each, signed, tried again with rests that grow, given up in the end; and what receivers do
# wrong holds up neither other callbacks nor the manager.
# timeout 600
# shellcheck disable=SC1091,SC2016
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tasks.bash"

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

story_a_callback_is_delivered_and_its_signature_is_good() {
	start_postgres
	start_manager
	receiver
	id=$(callback "${URL[receiver]}/ok" "$SECRET" '{"text": "ü €"}')
	settled "$id"
	expect_eq 'delivered 1 200' "$(state_of "$id")"
	expect_eq '/ok true application/json null' "$(calls receiver "$id" '"\(.path) \(.signed) \(.type) \(.expect)"')"
	expect_match '^Reeve/[0-9.]+$' "$(calls receiver "$id" .agent)"
	expect_eq '{"text": "ü €"}' "$(calls receiver "$id" .body)"
	# A secret that is text, another one than the receiver's, and none.
	id=$(callback "${URL[receiver]}/ok" another)
	settled "$id"
	expect_eq false "$(calls receiver "$id" .signed)"
	id=$(callback "${URL[receiver]}/ok" none)
	settled "$id"
	expect_eq null "$(calls receiver "$id" .signed)"
	expect_eq 3 "$(counter callbacks_delivered)"
}

story_failures_are_tried_again_under_the_same_id() {
	start_postgres
	start_manager
	receiver
	id=$(callback "${URL[receiver]}/fail/2")
	settled "$id"
	expect_eq "delivered 3 200 HTTP status 500" "$(state_of "$id")"
	expect_eq 3 "$(calls receiver "$id" | wc -l)"
	expect_eq 'true true true' "$(calls receiver "$id" .signed | xargs)"
	# 1 s and 4 s, less a random part of a quarter at most; up to a second more until it is looked.
	calls receiver "$id" .t >"$DIR/times"
	expect awk 'NR > 1 { rest = $1 - last; low = NR == 2 ? 0.7 : 2.9; if (rest < low || rest > low * 1.5 + 2) exit 1 } { last = $1 }' "$DIR/times"
	expect_eq 2 "$(counter callbacks_failed)"
}

story_gone_gives_up_at_once_and_says_so_once() {
	start_postgres
	start_manager
	receiver
	id=$(callback "${URL[receiver]}/gone?token=secret")
	settled "$id"
	expect_eq 'given_up 1 410 HTTP status 410' "$(state_of "$id")"
	expect_eq "callback $id (task_end of batch 1) to ${URL[receiver]} is given up after 1 tries: HTTP status 410" \
		"$(sed -n 's/.*warn .*manager: //p' "$DIR/log/manager.log" | grep callback)"
	expect_eq 1 "$(counter callbacks_given_up)"
}

story_a_receiver_says_when_it_wants_to_be_called_again() {
	start_postgres
	start_manager
	receiver
	id=$(callback "${URL[receiver]}/later/4")
	settled "$id"
	expect_eq 'delivered 2 200 HTTP status 503' "$(state_of "$id")"
	calls receiver "$id" .t >"$DIR/times"
	expect awk 'NR == 2 && ($1 - last < 4 || $1 - last > 7) { exit 1 } { last = $1 }' "$DIR/times"
}

# Everything that a receiver may do wrong, at once; others' calls and this manager's own go on as ever meanwhile.
story_bad_receivers_hold_up_nobody() {
	start_postgres
	start_manager --callback-attempts 2 --callback-timeout 2s
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
	# What has a status has been answered, however the rest of the answer came.
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

story_a_name_server_that_is_silent_holds_up_nobody() {
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
		start_manager --callback-attempts 1 --callback-timeout 1s
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

# Four at a time to one site: the others have their turns while that hangs, and nothing is lost of what waits for it.
story_a_site_that_hangs_leaves_the_others_their_turns() {
	start_postgres
	start_manager --callback-timeout 1s
	receiver
	receiver slow
	sql "insert into callbacks (batch_id, event, url, payload)
		select 1, 'task_end', '${URL[slow]}/hold', '{}' from generate_series(1, 40)"
	wait_until 20 '[ "$(wc -l <"$DIR/slow.calls")" = 4 ]'
	id=$(callback "${URL[receiver]}/ok")
	settled "$id" 5
	expect_eq 4 "$(sql "select count(*) from callbacks where state = 'waiting' and attempts > 0 and last_error is null")"
	touch "$DIR/slow.calls.go"
	wait_until 60 '[ "$(sql "select count(*) from callbacks where state = '"'delivered'"'")" = 41 ]'
}

# However much waits for one site, and however many sites there are.
story_a_backlog_makes_nobody_slow() {
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

story_a_call_whose_end_the_manager_did_not_live_to_see_is_made_again() {
	start_postgres
	start_manager --callback-timeout 1s
	receiver
	id=$(callback "${URL[receiver]}/hold")
	wait_until 20 '[ -s "$DIR/receiver.calls" ]'
	kill_manager
	touch "$DIR/receiver.calls.go"
	start_manager --callback-timeout 1s
	expect_eq "waiting 1" "$(state_of "$id")"
	settled "$id" 40
	expect_eq 'delivered 2 200' "$(state_of "$id")"
	expect_eq "cb_$id true cb_$id true" "$(calls receiver "$id" '"\(.id) \(.signed)"' | xargs)"
}

# The database goes away while a call is under way: what became of it is noted when it is back, and no call is made twice.
story_an_outage_of_the_database_repeats_no_call() {
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

story_two_managers_share_the_work_and_call_once_each() {
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

story_certificates_are_verified() {
	openssl req -x509 -newkey rsa:2048 -nodes -keyout "$DIR/ca.key" -out "$DIR/ca.pem" -subj /CN=ca -days 2 2>/dev/null
	certificate good IP:127.0.0.1
	certificate other DNS:other.example
	start_postgres
	start_manager trusting --callback-attempts 1 --callback-ca "$DIR/ca.pem"
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
	start_manager --callback-attempts 1
	id=$(callback "${URL[receiver]/http:/https:}/ok")
	settled "$id"
	expect_match '^given_up 1 SSL certificate problem' "$(state_of "$id")"
	expect_eq 1 "$(wc -l <"$DIR/receiver.calls")"
	expect_eq 0 "$(wc -l <"$DIR/other.calls")"
}

story_calls_go_to_the_allowed_hosts_alone() {
	start_postgres
	receiver
	start_manager --callback-hosts '*.example.org,127.0.0.1'
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
}

story_options_are_checked() {
	expect_fail 2 "$REEVE_BIN/reeve-manager" --database x --callback-attempts 0
	expect_match 'callback-attempts' "$OUTPUT"
	expect_fail 2 "$REEVE_BIN/reeve-manager" --database x --callback-timeout 1ms
	expect_match 'callback-timeout' "$OUTPUT"
	expect_fail 2 "$REEVE_BIN/reeve-manager" --database x --callback-ca /nowhere
	expect_match 'callback-ca /nowhere: No such file' "$OUTPUT"
}

# Lowered, the number of tries goes for those that wait, too.
story_of_a_last_try_that_nobody_saw_the_end_of_nothing_more_is_made() {
	start_postgres
	start_manager --callback-attempts 3
	receiver
	id=$(sql "insert into callbacks (batch_id, event, url, payload, attempts)
		values (1, 'task_end', '${URL[receiver]}/ok', '{}', 3) returning id")
	settled "$id"
	expect_match '^given_up 4 nobody knows what became of the last try' "$(state_of "$id")"
	expect_eq 0 "$(wc -l <"$DIR/receiver.calls")"
}

story_what_is_over_goes_after_the_days_of_the_history() {
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

run_stories
