#!/usr/bin/env bash
# TLS between managers, workers and `reeve`: refusals, identities by certificate, other machines. (certificates.sh:
# certificates from their issue to their end.)
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tls.bash"

test_tasks_run_through_tls() {
	start_worker
	expect_eq "$(printf %s hello | sha256sum)" "$(reeve submit sha256 hello --wait)"
	# A handler reaches the managers of its worker.
	expect_eq hello "$(reeve submit sh "$REEVE_BIN/reeve submit echo hello --wait" --wait)"
	# Long details and results, of many records.
	head -c 700000 /dev/zero | tr '\0' x | reeve submit echo --wait - >"$DIR/result"
	expect_eq 700000 "$(tr -d '\n' <"$DIR/result" | wc -c)"
}

test_http_passes_through_tls() {
	local url
	url=127.0.0.1:$(free_port)
	start_manager web --tls-cert "$CERTS/manager.pem" --tls-key "$CERTS/manager.key" --http "https://$url"
	call() { # METHOD JSON [OPTION…]
		curl -sS -m 20 --cacert "$CERTS/ca.pem" -H 'content-type: application/json' -d "$2" "${@:3}" "https://$url/reeve.v1.TaskService/$1"
	}
	ann=(--cert "$CERTS/ann.pem" --key "$CERTS/ann.key")
	expect_match '"id":"[0-9]+"' "$(call Submit '{"tasks":[{"type":"nothing","queue":"web"}]}' "${ann[@]}")"
	head -c 700000 /dev/zero | tr '\0' x | jq -Rc '{tasks: [{type: "long", queue: "web", details: .}]}' >"$DIR/long"
	id=$(call Submit @"$DIR/long" "${ann[@]}" | jq -r '.tasks[0].id')
	expect_eq 700000 "$(call Get "{\"id\": $id}" "${ann[@]}" | jq '.task.details | length')"
	expect_match '"code":"unauthenticated","message":"the manager requires a certificate' "$(call Submit '{"tasks":[{"type":"nothing"}]}')"
	# By ALPN.
	expect_eq 2 "$(curl -sS -m 20 --cacert "$CERTS/ca.pem" "${ann[@]}" --http2 -o "$DIR/answer" -w '%{http_version}' "https://$url/healthz")"
	expect_eq 1.1 "$(curl -sS -m 20 --cacert "$CERTS/ca.pem" "${ann[@]}" --http1.1 -o "$DIR/answer" -w '%{http_version}' "https://$url/healthz")"
	expect_match '^grpc-status: 0' "$(printf '\0\0\0\0\0' | curl -sS -m 20 --cacert "$CERTS/ca.pem" "${ann[@]}" --http2 -H 'te: trailers' -H 'content-type: application/grpc' \
		--data-binary @- -D - -o "$DIR/answer" "https://$url/reeve.v1.AdminService/Ping" | grep '^grpc-status')"
	# The clients for Python and Node trust the CA that the variables name. (Without a certificate there is no identity.)
	expect_match 'unauthenticated: the manager requires a certificate' "$(SSL_CERT_FILE=$CERTS/ca.pem PYTHONPATH=$TOP/clients/python python3 -B -c \
		"from reeve import Client; Client('https://$url').submit('nothing')" 2>&1 || true)"
	expect_match 'unauthenticated: the manager requires a certificate' "$(NODE_EXTRA_CA_CERTS=$CERTS/ca.pem node --input-type=module -e \
		"import { Client } from '$TOP/clients/node/index.js'; await new Client('https://$url').submit('nothing')" 2>&1 || true)"
	expect_match 'No ALPN' "$(openssl s_client -connect "$url" -alpn other -CAfile "$CERTS/ca.pem" </dev/null 2>&1)"
	! curl -sS -m 20 "http://$url/" >/dev/null 2>&1 || fail 'a call without TLS'
	wait_until 20 'grep -q "it does not speak TLS" "$DIR/log/web.log"'
}

test_each_refusal_has_its_reason_at_both_ends() {
	local port=${PORT[manager]} since
	expect_refused 'its certificate is for other names than the URL.s' \
		'it refuses this program.s certificate, perhaps because it is for other names' reeve --manager "tls+tcp://localhost:$port"
	expect_refused 'its certificate was not issued by a trusted CA' \
		'it refuses this program.s certificate: not issued by a CA that it trusts' reeve --tls-ca "$OTHER/ca.pem"
	expect_refused 'it refuses this program.s certificate: not issued by a CA that it trusts' \
		'its certificate was not issued by a trusted CA \(--tls-ca\) \(reeve://eve\)' \
		reeve --tls-cert "$OTHER/eve.pem" --tls-key "$OTHER/eve.key"
	expect_refused 4 'the manager requires a certificate \(--tls-cert\)' 'it has no certificate' env -u REEVE_TLS_CERT -u REEVE_TLS_KEY "$REEVE_BIN/reeve"
	expect_refused 'its port speaks TLS: tls[+]tcp:// in place of tcp://' 'it does not speak TLS' reeve --manager "tcp://127.0.0.1:$port"
	expect_refused 'its port does not speak TLS' 'it speaks TLS, and this port does not' reeve --manager "tls+tcp://127.0.0.1:$PLAIN"
	# Its connection ends soon, also if it greets and makes no call.
	python3 - "$port" "$CERTS/ca.pem" <<-END
		import socket, ssl, sys
		context = ssl.create_default_context(cafile=sys.argv[2])
		with context.wrap_socket(socket.create_connection(("127.0.0.1", int(sys.argv[1])), 20), server_hostname="127.0.0.1") as s:
		    s.sendall(bytes.fromhex("0053500000300000"))
		    try:
		        while s.recv(100): pass
		    except ssl.SSLEOFError: pass
	END
	reeve certs issue late --lifetime 1s >/dev/null
	reeve certs issue gone >/dev/null
	cp "$CERTS/gone.pem" "$CERTS/gone.key" "$DIR"
	reeve certs revoke gone >/dev/null
	off_by +2d "$REEVE_PLAIN" certs issue early >/dev/null
	since=$(($(wc -l <"$LOG") + 1))
	signal manager HUP
	wait_until 10 "logged_once 'reloaded on SIGHUP: the certificates' $since"
	sleep 1.1
	own late
	expect_refused 'it refuses this program.s certificate: expired' 'its certificate has expired \(reeve://late\)' reeve
	own early
	expect_refused 'it refuses this program.s certificate: not valid yet' 'its certificate is not valid yet \(reeve://early\)' reeve
	expect_refused 'it refuses this program.s certificate: revoked' 'its certificate has been revoked \(reeve://gone\)' \
		reeve --tls-cert "$DIR/gone.pem" --tls-key "$DIR/gone.key"
	expect_fail 1 openssl s_client -tls1_2 -connect "127.0.0.1:$port"
	expect_match 'alert protocol version' "$OUTPUT"
	wait_until 10 'grep -q "no connection with 127.0.0.1: it offers only versions of TLS before 1.3" "$LOG"'
}

# A manager that admits nobody without an identity.
test_a_certificate_is_an_identity() {
	local socket=ipc://$DIR/socket token
	URL[strict]=tls+tcp://127.0.0.1:$(free_port)
	start strict "$REEVE_BIN/reeve-manager" --database "$CONNINFO" --no-migrate --auth required --listen "$socket,${URL[strict]}" \
		--tls-cert "$CERTS/manager.pem" --tls-key "$CERTS/manager.key"
	admin() { reeve --manager "$socket" "$@"; }
	wait_until 60 'admin stats >/dev/null'
	export REEVE_MANAGER=${URL[strict]}
	reeve certs issue bob >/dev/null
	own bob
	expect_fail 4 reeve list
	expect_match 'the certificate of reeve://bob has no identity, or that has ended, and the call has no access token' "$OUTPUT"
	admin token create bob --role reader --certificate
	wait_until 10 'reeve list >/dev/null 2>&1'
	expect_fail 4 reeve submit nothing
	expect_match '"bob" may not call /reeve.v1.TaskService/Submit' "$OUTPUT"
	expect_match 'bob +reader +certificate' "$(admin token list)"
	expect_fail 2 admin token create eve --role reader --certificate --user root
	expect_fail 4 admin token create bob --role reader --certificate
	expect_match 'there is an identity "bob" already' "$OUTPUT"
	expect_fail 4 admin token rotate bob
	# A token counts before the certificate.
	token=$(admin token create submits --role submitter)
	id=$(REEVE_ACCESS_TOKEN=$token reeve submit nothing)
	expect_match '^submits/.+@' "$(reeve audit "$id" --json | jq -r 'select(.event == "submitted").actor')"
	# An identity of this name by a token is not one by certificate.
	admin token create w3 --role worker >/dev/null
	reeve certs issue w3 >/dev/null
	own w3
	expect_fail 4 reeve fetch
	expect_match 'the certificate of reeve://w3 has no identity' "$OUTPUT"
	reeve certs issue fleet >/dev/null
	admin token create fleet --role worker --certificate
	own fleet
	start_worker w3
	id=$(admin submit echo "done")
	expect_match 'completed .* done$' "$(admin wait "$id")"
	admin token revoke fleet >/dev/null
	wait_until 10 'grep -q "refuses this worker\|has no identity" "$DIR/log/w3.log"'
	stop w3 KILL
	own bob
	admin token revoke bob >/dev/null
	wait_until 10 'expect_fail 4 reeve list'
	stop strict
}

# One whose identity is unknown, has expired or was revoked is refused where others on this machine are admins.
test_a_certificate_without_its_identity_is_refused() {
	local name
	reeve token create short --role reader --certificate --expires 2s
	reeve token create over --role reader --certificate
	for name in none short over; do reeve certs issue $name >/dev/null; done
	named() { REEVE_TLS_CERT=$CERTS/$1.pem REEVE_TLS_KEY=$CERTS/$1.key "$REEVE_PLAIN" "${@:2}"; }
	wait_until 20 'named over list >/dev/null'
	reeve token revoke over >/dev/null
	for name in none short over; do
		wait_until 10 "expect_fail 4 named $name list"
		expect_fail 4 named $name list
		expect_match "the certificate of reeve://$name has no identity, or that has ended" "$OUTPUT"
		expect_fail 4 named $name token list
	done
}

# A handler calls with the access token of its attempt alone: neither the environment nor a descriptor shows it the worker's key.
test_a_handler_cannot_act_as_its_worker() {
	local reeve="'$REEVE_BIN/reeve'" id child said
	reeve token create hands --role worker --certificate
	reeve certs issue hands >/dev/null
	cp "$CERTS/ca.pem" "$CERTS/crl.pem" "$DIR"
	own hands
	handlers <<-END
		[handler sh]
		exec = /bin/bash
		directory = /
		[handler listed]
		exec = /bin/bash
		env = PATH REEVE_TLS_CERT REEVE_TLS_KEY
	END
	cd "$DIR"
	start_worker worker --tls-ca ca.pem --tls-crl crl.pem --tls-cert "$CERTS/hands.pem" --tls-key "$CERTS/hands.key"
	own ann
	for type in sh listed; do
		said=$(reeve submit "$type" 'env | grep -E "^REEVE_TLS|hands[.]"; ls -l /proc/self/fd | grep -F hands; true' --wait)
		expect_eq "REEVE_TLS_CA=$DIR/ca.pem
REEVE_TLS_CRL=$DIR/crl.pem" "$(sort <<<"$said")"
	done
	id=$(reeve submit sh "$reeve submit nothing --delay 1h")
	child=$(reeve wait "$id" --json | jq -r .result)
	expect_eq "$id" "$(reeve show "$child" --json | jq .parent_id)"
	said=$(reeve submit sh "unset REEVE_ATTEMPT_ACCESS_TOKEN; $reeve submit nothing 2>&1; $reeve fetch 2>&1; true" --wait)
	expect_eq 2 "$(grep -c 'the manager requires a certificate (--tls-cert)' <<<"$said")"
	said=$(reeve submit sh "$reeve fetch 2>&1; true" --wait)
	expect_match '"hands" may not call /reeve.v1.WorkerService/Register' "$said"
	stop worker
	reeve token revoke hands >/dev/null
}

# It needs no --insecure; callers beyond the machine need a certificate with an identity, or a token.
test_other_machines_reach_a_manager_by_tls() {
	local url=tls+tcp://10.99.0.1:7000 token
	[ "$(id -u)" = 0 ] || return 0
	start network unshare --net sleep 300
	wait_until 10 '[ "$(readlink "/proc/$(pid network)/ns/net")" != "$(readlink /proc/self/ns/net)" ]'
	in_network() { nsenter --net="/proc/$(pid network)/ns/net" "$@"; }
	in_network ip link set lo up
	in_network ip address add 10.99.0.1/32 dev lo
	token=$(reeve token create boss --role admin)
	reeve certs issue reached --ip 10.99.0.1 >/dev/null
	expect_fail 2 in_network "$REEVE_BIN/reeve-manager" --database "$CONNINFO" --no-migrate --listen "tcp://10.99.0.1:7001,$url" \
		--tls-cert "$CERTS/reached.pem" --tls-key "$CERTS/reached.key"
	expect_match 'other machines can reach tcp://10.99.0.1:7001' "$OUTPUT"
	start reached nsenter --net="/proc/$(pid network)/ns/net" "$REEVE_BIN/reeve-manager" --database "$CONNINFO" --no-migrate \
		--listen "$url" --tls-cert "$CERTS/reached.pem" --tls-key "$CERTS/reached.key"
	reeve certs issue carl >/dev/null
	own carl
	there() { in_network env REEVE_MANAGER=$url "$REEVE_PLAIN" "$@"; }
	wait_until 60 'REEVE_ACCESS_TOKEN=$token there stats >/dev/null 2>&1'
	expect_fail 4 there list
	expect_match 'the certificate of reeve://carl has no identity' "$OUTPUT"
	REEVE_ACCESS_TOKEN=$token there token create carl --role reader --certificate
	wait_until 10 'there list >/dev/null 2>&1'
	REEVE_ACCESS_TOKEN=$token there token revoke carl >/dev/null
	stop reached
	unset REEVE_TLS_CERT REEVE_TLS_KEY
	start reached nsenter --net="/proc/$(pid network)/ns/net" env -u REEVE_TLS_CA "$REEVE_BIN/reeve-manager" --database "$CONNINFO" \
		--no-migrate --listen "$url" --tls-cert "$CERTS/reached.pem" --tls-key "$CERTS/reached.key"
	wait_until 60 'REEVE_ACCESS_TOKEN=$token there stats >/dev/null 2>&1'
	expect_fail 4 there list
	expect_match 'the call has no access token' "$OUTPUT"
	stop reached
}

# The commands of docs/security.md, in a network of its own in which the manager has its name.
# Runs what the configurations in examples/monitoring run, in the fleet of the docs.
monitoring_answers() {
	local examples=$TOP/examples/monitoring command option variable value arguments
	(there "${commands[3]}; ${commands[4]}; $(sed -n 's/^    \(reeve token create\)/\1/p' "$examples/README.md")")
	{
		sed -n 's/^ExecStart=//p' "$examples/reeve-check.service"
		IFS='!' read -ra arguments < <(sed -n 's/^ *check_command *check_reeve//p' "$examples/nagios.cfg")
		command=$(sed -n 's/^ *command_line *//p' "$examples/nagios.cfg")
		for option in 1 2 3; do command=${command/\$ARG$option\$/${arguments[option]}}; done
		printf '%s\n/usr/local/bin/reeve check' "$command"
		while read -r option variable; do
			value=$(sed -n "s/^ *vars\.$variable = \"\(.*\)\"/\1/p" "$examples/icinga2.conf")
			[ -z "$value" ] || printf ' %s %s' "$option" "$value"
		done < <(sed -n 's/^ *"\(--[a-z-]*\)" *= *"\$\(.*\)\$"/\1 \2/p' "$examples/icinga2.conf")
		echo
	} | sed "s,/usr/local/bin/,,; s,/etc/reeve,$folder,g" >"$DIR/monitoring"
	expect_eq 3 "$(grep -c 'check --manager tls+tcp://manager-1:7171 --tls-ca .* --dead-per-hour 0' "$DIR/monitoring")"
	while read -r command; do
		expect_match '^REEVE OK - manager .* answer, [23] conditions are kept' "$(there "$command" </dev/null)" "$command"
	done <"$DIR/monitoring"
}

test_the_fleet_of_the_docs_works() {
	local commands folder=$DIR/docs
	{ [ "$(id -u)" = 0 ] && mountpoint -q /; } || return 0
	unset REEVE_CERTS_DIR REEVE_TLS_CA REEVE_TLS_CERT REEVE_TLS_KEY REEVE_MANAGER
	sql 'delete from identities'
	mapfile -t commands < <(sed -n '/^## Secure a fleet/,/^## Identities/s/^    //p' "$TOP/docs/security.md" | sed -z 's/ \\\n */ /g')
	expect_eq 8 "${#commands[@]}"
	mkdir "$folder"
	printf '127.0.0.1 localhost\n10.99.0.1 manager-1\n' >"$DIR/hosts"
	# shellcheck disable=SC2016
	start network unshare --net --mount bash -c 'mount --bind "$1" /etc/hosts && ip link set lo up && ip address add 10.99.0.1/32 dev lo &&
		: >"$2" && exec sleep 600' - "$DIR/hosts" "$DIR/ready"
	wait_until 10 '[ -e "$DIR/ready" ]'
	there() { # COMMANDS
		exec nsenter --net="/proc/$(pid network)/ns/net" --mount="/proc/$(pid network)/ns/mnt" \
			env PATH="$REEVE_BIN:$PATH" bash -c "cd '$folder' && $1"
	}
	(there "${commands[0]} && ${commands[1]} && cp reeve-certs/ca.pem reeve-certs/manager-1.* .") >/dev/null
	start fleet there "exec ${commands[2]/…/\"$CONNINFO\" --no-migrate}"
	wait_until 60 '[ -e "$folder/admin.token" ]'
	(there "$(printf '%s\n' "${commands[@]:3:4}")")
	default_handlers && cp "$HANDLERS" "$folder/handlers.ini"
	start works there "exec ${commands[7]} --name works"
	submit() { (there "${commands[3]}; export REEVE_ACCESS_TOKEN_FILE=shop.token; reeve submit echo done --queue $1 --wait"); }
	expect_eq "done" "$(submit mail)"
	expect_fail 4 submit other
	expect_fail 4 there "${commands[3]}; reeve list"
	expect_match 'the call has no access token' "$OUTPUT"
	monitoring_answers
	stop works
	stop fleet
}

# REEVE_TEST_RECONNECTS connections, 500 unless it is set: 10,000 take about a minute of CPU time.
test_reconnects_leak_no_memory_and_no_descriptors() {
	local count=${REEVE_TEST_RECONNECTS:-500} before after
	# Without the sanitizer's own memory of what was freed.
	ASAN_OPTIONS=$ASAN_OPTIONS:quarantine_size_mb=1:thread_local_quarantine_size_kb=64 start_manager again \
		--tls-cert "$CERTS/manager.pem" --tls-key "$CERTS/manager.key" --tls-crl "$CERTS/crl.pem"
	reconnect() { "$TOP/tests/tools/tls_reconnects.py" "${PORT[again]}" "$1" "$CERTS/ca.pem" "$CERTS/ann.pem" "$CERTS/ann.key"; }
	used() { echo "$(find "/proc/$(pid again)/fd" | wc -l) $(awk '/^VmRSS/ { print $2 }' "/proc/$(pid again)/status")"; }
	reconnect 200
	sleep 2 # until the last ones are closed
	before=$(used)
	reconnect "$count"
	wait_until 20 '[ "$(used | cut -d" " -f1)" -le "'"${before% *}"'" ]'
	after=$(used)
	note "$count reconnects: descriptors and KiB $before, then $after"
	expect [ $((${after#* } - ${before#* })) -lt 8192 ] # 16 KiB each would be as many at 500
	stop again # the sanitizer reports leaks
}

# 5,000 that send a hello and no more: established connections and new ones go on.
test_abandoned_handshakes_disturb_nobody() {
	local before
	start_worker
	before=$(awk '/^VmRSS/ { print $2 }' "/proc/$(pid manager)/status")
	start crowd python3 "$TOP/tests/tools/abandon.py" "${PORT[manager]}" 5000
	wait_until 60 'grep -q opened "$DIR/log/crowd.log"'
	for _ in 1 2 3; do expect_eq x "$(reeve submit echo x --wait --connect-timeout 60s)"; done
	note "RSS from $before to $(awk '/^VmRSS/ { print $2 }' "/proc/$(pid manager)/status") KiB; $(cat "$DIR/log/crowd.log")"
	expect_no_match 'lost|no answer' "$(cat "$DIR/log/worker.log")"
}

run_tests
