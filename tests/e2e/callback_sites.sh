#!/usr/bin/env bash
# The sites that HTTP callbacks go to: certificates, private addresses and allowed hosts; and no bad receiver delays the
# others.
# timeout 600
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tasks.bash"
. "$(dirname "$0")/faults.bash"
. "$(dirname "$0")/locks.bash"
. "$(dirname "$0")/receiver.bash"
. "$(dirname "$0")/pace.bash"

# More callbacks of one site are locked than it may have in flight.
test_locked_callbacks_hide_none_of_their_site() {
	start_postgres
	start_manager
	receiver
	for n in $(seq 9); do callback "${URL[receiver]}/ok/$n" >>"$DIR/ids"; done &
	wait $!
	while read -r id; do settled "$id"; done <"$DIR/ids"
	last=$(tail -n 1 "$DIR/ids")
	stop manager
	sql "update callbacks set state = 'waiting', attempts = 0, ended_at = null, next_at = clock_timestamp() + interval '1ms' * id"
	hold holder "select from callbacks where id < $last for update"
	start_manager
	settled "$last"
	expect_eq 8 "$(sql "select count(*) from callbacks where state = 'waiting'")"
	let_go holder
	while read -r id; do settled "$id"; done <"$DIR/ids"
}

# Everything that a receiver may do wrong, at once. Other callbacks, and calls to the manager, go on.
test_bad_receivers_delay_no_other() {
	start_postgres
	start_manager --callback-tries 2 --callback-timeout 2s
	receiver
	start_worker
	start_calls calls
	started calls
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
	wait_until 20 '[ "$(counter callbacks_given_up)" = 9 ]'
	expect_eq 9 "$(grep -c "warn .*is given up after 2 tries" "$DIR/log/manager.log")"
	wait_until 20 '[ "$(counter callbacks_failed)" = 18 ]'
	stop_calls calls
	expect [ "$(wc -l <"$DIR/log/calls.log")" -gt 100 ]
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
				sleep(60);
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
	settled "$good"
	while read -r id; do
		settled "$id"
		expect_match '^given_up 1 .*timed out' "$(state_of "$id")"
	done <"$DIR/ids"
	stop calls
	expect [ "$(cut -d' ' -f2 "$DIR/log/calls.log" | sort -n | tail -n 1)" -lt 20000 ]
	begin=$SECONDS
	stop manager
	expect [ $((SECONDS - begin)) -lt 20 ]
}

# One site gets up to four calls at a time: while it hangs the other sites get theirs, also bad ones, and calls to the
# manager go on; and none of its callbacks is lost.
test_a_site_that_hangs_leaves_the_others_their_turns() {
	start_postgres
	start_manager --callback-timeout 1m --callback-tries 1
	receiver
	receiver slow
	start_worker
	start_calls calls
	started calls
	sql "insert into callbacks (batch_id, event, url, payload)
		select 1, 'task_end', '${URL[slow]}/hold', '{}' from generate_series(1, 40)"
	wait_until 20 '[ "$(wc -l <"$DIR/slow.calls")" = 4 ]'
	for path in close endless-head unknown ok; do
		if [ $path = unknown ]; then id=$(callback http://nobody.invalid/); else id=$(callback "${URL[receiver]}/$path"); fi
		expect_they_go_on 2 "$(ms)" calls
		settled "$id"
	done
	expect_eq 'delivered 1 200' "$(state_of "$id")"
	expect_eq 4 "$(sql "select count(*) from callbacks where state = 'waiting' and takes > 0 and last_error is null")"
	stop_calls calls
	touch "$DIR/slow.calls.go"
	wait_until 60 "[ \"\$(sql \"select count(*) from callbacks where state = 'delivered' and url = '${URL[slow]}/hold'\")\" = 40 ]"
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
		settled "$id"
		echo $(($(ms) - begin)) >>"$DIR/took"
	done
	note "ms: $(xargs <"$DIR/took")"
	expect [ "$(sort -n "$DIR/took" | head -n 1)" -lt 4500 ] # other load does not delay all of them
}

# Neither many callbacks for one site nor many sites delay another callback.
# measures time
test_a_backlog_delays_no_other_callback() {
	start_postgres -c autovacuum=off
	start_manager --callback-timeout 1m
	receiver
	receiver slow
	sql "insert into callbacks (batch_id, event, url, payload, next_at)
			select 1, 'task_end', '${URL[slow]}/hang', '{}', now() - interval '1 hour' from generate_series(1, 100000);
		insert into callbacks (batch_id, event, url, payload, next_at)
			select 1, 'task_end', 'http://host' || n || '.invalid/', '{}', now() + interval '1 hour' from generate_series(1, 500) n"
	for i in 1 2 3 4 5; do
		begin=$(ms)
		id=$(callback "${URL[receiver]}/ok")
		settled "$id"
		echo $(($(ms) - begin)) >>"$DIR/took"
	done
	# No other callback had to end for them.
	expect_eq '4|0' "$(sql "select sum(takes), sum(attempts) from callbacks where state = 'waiting'")"
	note "ms: $(xargs <"$DIR/took")"
	expect [ "$(sort -n "$DIR/took" | head -n 1)" -lt 1000 ] # other load does not delay all of them
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
	for host in 127.0.0.1 localhost 0 2130706433 0x7f.1 '[::1]' '[::ffff:127.0.0.1]'; do
		id=$(callback "http://$host:${PORT[receiver]}/ok")
		settled "$id"
		expect_match '^given_up 1 .*loopback, link-local or private address' "$(state_of "$id")" "$host"
	done
	expect_eq '' "$(cat "$DIR/receiver.calls" 2>/dev/null)"
}

# In a network of its own, in which all these addresses are of this machine, and a receiver listens at all but the last one. The
# address counts to which a call connects, not the name.
test_public_addresses_alone_are_called_whatever_their_names() {
	local host id public=203.0.113.7 port=8080
	{ [ "$(id -u)" = 0 ] && mountpoint -q /; } || return 0
	start_postgres
	cat >"$DIR/hosts" <<-END
		127.0.0.1 localhost
		$public public.example.org
		10.0.0.1 private.example.org
		203.0.113.8 both.example.org
		10.0.0.1 both.example.org
	END
	# shellcheck disable=SC2016
	start network unshare --net --mount bash -c 'mount --bind "$1" /etc/hosts && ip link set lo up && : >"$2" && exec sleep 600' - "$DIR/hosts" "$DIR/ready"
	wait_until 10 '[ -e "$DIR/ready" ]'
	inside=(nsenter --net="/proc/$(pid network)/ns/net" --mount="/proc/$(pid network)/ns/mnt")
	for host in $public 203.0.113.8 10.0.0.1 172.16.0.1 192.168.0.1 100.64.0.1 169.254.169.254; do
		"${inside[@]}" ip address add "$host/32" dev lo
	done
	for host in $public 10.0.0.1 172.16.0.1 192.168.0.1 100.64.0.1 169.254.169.254 127.0.0.1; do
		start "at-$host" "${inside[@]}" "$TOP/tests/tools/http_receiver.py" --address "$host" --port $port --log "$DIR/$host.calls" --secret "$SECRET"
		wait_until 20 "${inside[*]} bash -c 'exec 3<>/dev/tcp/$host/$port' 2>/dev/null"
	done
	export REEVE_MANAGER=ipc://$DIR/strict
	http_proxy=http://127.0.0.1:$port start strict "${inside[@]}" "$REEVE_BIN/reeve-manager" --database "$CONNINFO" --listen "$REEVE_MANAGER" \
		--callback-tries 1 --callback-hosts "*.example.org,$public,10.0.0.1,172.16.0.1,192.168.0.1,100.64.0.1,169.254.169.254,127.0.0.1"
	wait_until 60 'reeve stats >/dev/null'
	for host in $public public.example.org; do
		id=$(callback "http://$host:$port/ok")
		settled "$id"
		expect_eq 'delivered 1 200' "$(state_of "$id")" "$host"
	done
	expect_eq 2 "$(wc -l <"$DIR/$public.calls")"
	for host in 10.0.0.1 172.16.0.1 192.168.0.1 100.64.0.1 169.254.169.254 127.0.0.1 private.example.org; do
		id=$(callback "http://$host:$port/ok")
		settled "$id"
		expect_match '^given_up 1 .*loopback, link-local or private address' "$(state_of "$id")" "$host"
	done
	id=$(callback "http://both.example.org:$port/ok")
	settled "$id"
	expect_match '^given_up 1 ' "$(state_of "$id")"
	expect_eq 2 "$(cat "$DIR"/*.calls | wc -l)"
	stop strict
	# An administrator can allow them.
	start strict "${inside[@]}" "$REEVE_BIN/reeve-manager" --database "$CONNINFO" --listen "$REEVE_MANAGER" --callback-private
	wait_until 60 'reeve stats >/dev/null'
	id=$(callback "http://private.example.org:$port/ok")
	settled "$id"
	expect_eq 'delivered 1 200' "$(state_of "$id")"
	expect_eq 1 "$(wc -l <"$DIR/10.0.0.1.calls")"
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

run_tests
