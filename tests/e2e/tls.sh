#!/usr/bin/env bash
# TLS between managers, workers and `reeve`: certificates, refusals, reloading.
. "$(dirname "$0")/lib.sh"

CERTS=$DIR/certs
export REEVE_CERTS_DIR=$CERTS
reeve certs init >"$DIR/log/certs.log"
reeve certs issue manager --ip 127.0.0.1 >>"$DIR/log/certs.log"
reeve certs issue ann --uri test:ann >>"$DIR/log/certs.log" # of no identity: an admin, as all callers on this machine
REEVE_CERTS_DIR=$DIR/other reeve certs init >>"$DIR/log/certs.log"
REEVE_CERTS_DIR=$DIR/other reeve certs issue eve >>"$DIR/log/certs.log"
OTHER=$DIR/other
TRANSPORT=tls+tcp
export REEVE_TLS_CA=$CERTS/ca.pem
start_postgres
own() { # NAME: sets the certificate of the callers that follow
	export REEVE_TLS_CERT=$CERTS/$1.pem REEVE_TLS_KEY=$CERTS/$1.key
}
own ann
PLAIN=$(free_port)
start_secure_manager() { # [OPTION…]
	start_manager manager --tls-cert "$CERTS/manager.pem" --tls-key "$CERTS/manager.key" --tls-crl "$CERTS/crl.pem" "$@"
}
start_secure_manager --listen "tls+tcp://127.0.0.1:${PORT[manager]:=$(free_port)},tcp://127.0.0.1:$PLAIN"
LOG=$DIR/log/manager.log
LIBRARY=/usr/lib/$(uname -m)-linux-gnu/faketime/libfaketime.so.1
[ -e "$LIBRARY" ] || LIBRARY=$(find /usr/lib -name libfaketime.so.1 2>/dev/null | head -n 1)

off_by() { # SPEC COMMAND…: with a wall clock that far off
	ASAN_OPTIONS=$ASAN_OPTIONS:verify_asan_link_order=0 LD_PRELOAD=$LIBRARY FAKETIME=$1 FAKETIME_DONT_FAKE_MONOTONIC=1 "${@:2}"
}

# Whether the manager has logged this since the given line, and only once.
logged_once() { # REGEX SINCE
	[ "$(tail -n "+$2" "$LOG" | grep -cE "$1")" = 1 ]
}

# Each call of the client ends with this message, and the manager logs its own once.
expect_refused() { # [CODE] CLIENTS MANAGERS COMMAND…
	local since=$(($(wc -l <"$LOG") + 1)) code=3 clients managers
	[[ $1 != ? ]] || { code=$1 && shift; }
	clients=$1 managers=$2
	shift 2
	for _ in 1 2; do
		expect_fail "$code" "$@" --connect-timeout 1s list
		expect_match "$clients" "$OUTPUT"
	done
	wait_until 10 "logged_once 'no connection with 127.0.0.1: $managers' $since"
}

test_certificates_are_issued_and_never_overwritten() {
	local serial
	export REEVE_CERTS_DIR=$DIR/fleet
	expect_fail 4 reeve certs issue early
	expect_match 'there is no such folder; `reeve certs init` creates a CA' "$OUTPUT"
	expect_eq "$DIR/fleet/ca.pem" "$(reeve certs init --name Fleet)"
	expect_fail 4 reeve certs init
	expect_match 'ca.pem exists; it is not overwritten' "$OUTPUT"
	reeve certs issue m1 --dns m1.example.org,localhost --ip ::1 --uri reeve://managers/1 >/dev/null
	expect_fail 4 reeve certs issue m1
	expect_match 'm1.pem exists; `reeve certs renew m1` renews it' "$OUTPUT"
	reeve certs issue w1 >/dev/null
	expect_eq '600 ca.key
600 m1.key
600 w1.key' "$(cd "$DIR/fleet" && stat -c '%a %n' ./*.key | sed 's|\./||')"
	expect_eq 700 "$(stat -c %a "$DIR/fleet")"
	cd "$DIR/fleet"
	expect_eq 'm1.pem: OK
w1.pem: OK' "$(openssl verify -x509_strict -crl_check -CAfile ca.pem -CRLfile crl.pem m1.pem w1.pem)"
	OUTPUT=$(openssl x509 -in m1.pem -noout -text)
	expect_match 'DNS:m1.example.org, DNS:localhost, IP Address:0:0:0:0:0:0:0:1, URI:reeve://managers/1' "$OUTPUT"
	expect_match 'TLS Web Server Authentication, TLS Web Client Authentication' "$OUTPUT"
	expect_match 'prime256v1' "$OUTPUT"
	OUTPUT=$(openssl x509 -in w1.pem -noout -text)
	expect_match 'URI:reeve://w1' "$OUTPUT"
	expect_no_match 'Server Authentication' "$OUTPUT"
	reeve certs issue long --lifetime 20000d >/dev/null
	expect_eq "$(openssl x509 -in ca.pem -noout -enddate)" "$(openssl x509 -in long.pem -noout -enddate)" 'not longer than the CA'
	for OUTPUT in 'issue ../x' 'issue ca' 'issue .x' "issue $(printf '%065d' 1)" 'issue y --dns a,b/c' 'issue y --ip 1.2.3' \
		'issue y --uri nocolon' 'issue' 'issue y z' 'issue y --lifetime 0s' 'renew' 'renew w1 --all' 'revoke'; do
		# shellcheck disable=SC2086
		expect_fail 2 reeve certs $OUTPUT
	done
	[ ! -e y.pem ] && [ ! -e y.key ] || fail 'a refused certificate has files'

	serial=$(openssl x509 -in w1.pem -noout -serial)
	cp w1.key before.txt
	expect_eq '' "$(reeve certs renew --all --within 30d)"
	expect_eq "$DIR/fleet/w1.pem" "$(reeve certs renew w1 --lifetime 2d)"
	cmp w1.key before.txt
	[ "$serial" != "$(openssl x509 -in w1.pem -noout -serial)" ] || fail 'the same serial number'
	expect_eq "$DIR/fleet/w1.pem" "$(reeve certs renew --all --within 30d --new-key)"
	! cmp -s w1.key before.txt || fail 'the same key'
	! openssl x509 -in w1.pem -noout -checkend 180000 >/dev/null || fail 'another lifetime than before'
	expect_fail 4 reeve certs renew nosuch
	expect_match "there is no certificate \"nosuch\" in $DIR/fleet" "$OUTPUT"
	expect_match 'URI:reeve://w1' "$(openssl x509 -in w1.pem -noout -text)"
	openssl verify -CAfile ca.pem w1.pem >/dev/null
	expect_eq "$DIR/fleet/crl.pem" "$(reeve certs revoke w1)"
	[ ! -e w1.pem ] && [ ! -e w1.key ] || fail 'a revoked certificate is still there'
	expect_eq 3 "$(openssl crl -in crl.pem -noout -text | grep -c 'Serial Number: ')" 'all that were issued for the name'
	expect_fail 4 reeve certs revoke w1
	expect_match 'there is no valid certificate "w1" that is not revoked' "$OUTPUT"
	reeve certs issue w1 >/dev/null
	expect_eq 'm1.pem: OK
w1.pem: OK' "$(openssl verify -crl_check -CAfile ca.pem -CRLfile crl.pem m1.pem w1.pem)"
}

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
	expect_match 'No ALPN' "$(openssl s_client -connect "$url" -alpn other -CAfile "$CERTS/ca.pem" </dev/null 2>&1)"
	! curl -sS -m 20 "http://$url/" >/dev/null 2>&1 || fail 'a call without TLS'
	wait_until 5 'grep -q "it does not speak TLS" "$DIR/log/web.log"'
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

# Callers refuse it, with the reason; so does its log.
test_a_managers_certificate_is_verified() {
	local name manager=("$REEVE_BIN/reeve-manager" --database "$CONNINFO" --no-migrate)
	off_by +2d "$REEVE_PLAIN" certs issue early-manager --ip 127.0.0.1 >/dev/null
	reeve certs issue late-manager --ip 127.0.0.1 --lifetime 1s >/dev/null
	reeve certs issue gone-manager --ip 127.0.0.1 >/dev/null
	cp "$CERTS"/gone-manager.* "$CERTS/early-manager".* "$CERTS/late-manager".* "$DIR"
	reeve certs revoke gone-manager >/dev/null
	sleep 1.1
	for name in early late gone; do
		URL[$name]=tls+tcp://127.0.0.1:$(free_port)
		start "$name" "${manager[@]}" --listen "${URL[$name]}" --tls-cert "$DIR/$name-manager.pem" --tls-key "$DIR/$name-manager.key"
		LOG=$DIR/log/$name.log
		wait_until 20 'grep -q "listening on" "$LOG"'
		case $name in
		early) expect_refused 'its certificate is not valid yet' 'it refuses this program.s certificate: not valid yet' \
			reeve --manager "${URL[early]}" ;;
		late) expect_refused 'its certificate has expired' 'it refuses this program.s certificate: expired' \
			reeve --manager "${URL[late]}" ;;
		gone) expect_refused 'its certificate has been revoked' 'it refuses this program.s certificate: revoked' \
			reeve --manager "${URL[gone]}" --tls-crl "$CERTS/crl.pem" ;;
		esac
	done
	expect_match 'tls: --tls-cert .*late-manager.pem: the certificate has expired' "$(cat "$DIR/log/late.log")"
}

# For a manager that sees next year's end.
test_what_expires_soon_is_reported() {
	expect_no_match certificates "$(reeve doctor || true)"
	off_by +360d start_manager soon --tls-cert "$CERTS/manager.pem" --tls-key "$CERTS/manager.key"
	wait_until 10 'grep -q "tls: --tls-cert .*manager.pem: the certificate expires in" "$DIR/log/soon.log"'
	expect_fail 2 reeve doctor # the tests' PostgreSQL has no fsync
	expect_match 'warning  certificates: .*manager.pem: the certificate expires in 4d' "$OUTPUT"
	stop soon
	export REEVE_MANAGER=${URL[manager]}
	handlers <<<$'[handler nothing]\nexec = /bin/true'
	check() { "$REEVE_BIN/reeve-worker" --check --handlers "$HANDLERS" "$@"; }
	expect_eq '' "$(check 2>&1)"
	expect_match 'reeve-worker: --tls-cert .*ann.pem: the certificate expires in 4d' "$(off_by +360d check 2>&1)"
	expect_fail 2 off_by +400d check
	expect_match 'reeve-worker: --tls-cert .*ann.pem: the certificate has expired' "$OUTPUT"
	expect_fail 2 check --tls-key "$CERTS/manager.key"
	expect_match 'no key of the certificate can be read' "$OUTPUT"
	expect_eq '' "$(check --manager tcp://127.0.0.1:1 --tls-key "$CERTS/manager.key" 2>&1)"
}

test_a_manager_needs_files_that_fit() {
	local manager=("$REEVE_BIN/reeve-manager" --database "$CONNINFO" --listen "tls+tcp://127.0.0.1:$(free_port)" --no-migrate)
	unset REEVE_TLS_CERT REEVE_TLS_KEY REEVE_TLS_CA
	expect_fail 2 "${manager[@]}"
	expect_match 'needs a certificate and its key \(--tls-cert, --tls-key\)' "$OUTPUT"
	expect_fail 2 "${manager[@]}" --tls-cert "$CERTS/manager.pem"
	expect_match "tls-key $CERTS/manager.pem: no key of the certificate can be read" "$OUTPUT"
	expect_fail 2 "${manager[@]}" --tls-cert "$CERTS/manager.pem" --tls-key "$CERTS/ann.key"
	expect_fail 2 "${manager[@]}" --tls-cert "$CERTS/manager.pem" --tls-key "$CERTS/manager.key" --tls-crl "$CERTS/crl.pem"
	expect_match 'tls-crl needs --tls-ca' "$OUTPUT"
	expect_fail 2 reeve --manager "${URL[manager]}" --tls-ca /nowhere list
	expect_match '^reeve: --tls-ca /nowhere: no certificate can be read: No such file' "$OUTPUT"
}

# By itself within seconds, or at once on SIGHUP.
test_a_renewed_certificate_is_used_without_a_restart() {
	local since
	since=$(($(wc -l <"$LOG") + 1))
	serial() { openssl s_client -connect "127.0.0.1:${PORT[manager]}" </dev/null 2>/dev/null | openssl x509 -noout -serial; }
	expect_eq "$(serial)" "$(openssl x509 -in "$CERTS/manager.pem" -noout -serial)"
	reeve certs renew manager >/dev/null
	wait_until 10 "logged_once 'read the changed files of certificates again' $since"
	expect_eq "$(serial)" "$(openssl x509 -in "$CERTS/manager.pem" -noout -serial)"
	cp "$CERTS/manager.pem" "$DIR/good"
	echo broken >"$CERTS/manager.pem"
	signal manager HUP
	wait_until 10 "logged_once 'reloading on SIGHUP: .*manager.pem: no certificate can be read.*; what was read of it before stays in use' $since"
	reeve list >/dev/null
	# The revocation list that has changed with it counts nevertheless.
	reeve certs issue out >/dev/null
	cp "$CERTS/out".* "$DIR"
	reeve certs revoke out >/dev/null
	signal manager HUP
	wait_until 10 '! REEVE_TLS_CERT=$DIR/out.pem REEVE_TLS_KEY=$DIR/out.key "$REEVE_PLAIN" --connect-timeout 1s list >"$DIR/said" 2>&1 &&
		grep -q "it refuses this program.s certificate: revoked" "$DIR/said"'
	cp "$DIR/good" "$CERTS/manager.pem"
	signal manager HUP
	wait_until 10 "logged_once 'reloaded on SIGHUP: the certificates' $since"
	reeve list >/dev/null
}

test_a_revoked_worker_loses_its_connection() {
	local LOG=$DIR/log/revoking.log
	reeve token create w1 --role worker --certificate
	start_manager revoking --tls-cert "$CERTS/manager.pem" --tls-key "$CERTS/manager.key" --tls-crl "$CERTS/crl.pem"
	reeve certs issue w1 >/dev/null
	own w1
	start_worker w1
	reeve certs revoke w1 >/dev/null
	signal revoking HUP
	wait_until 5 'grep -q "it refuses this program.s certificate: revoked" "$DIR/log/w1.log"'
	wait_until 5 "logged_once 'no connection with 127.0.0.1: its certificate has been revoked' 1"
	own ann
	reeve list >/dev/null
}

# Its worker comes back when it finds a new one.
test_a_certificate_that_expires_during_a_run() {
	reeve token create w2 --role worker --certificate
	reeve certs issue w2 --lifetime 5s >/dev/null
	own w2
	start_worker w2
	wait_until 12 'grep -q "it refuses this program.s certificate: expired" "$DIR/log/w2.log"'
	reeve certs renew w2 --lifetime 1h >/dev/null
	own ann
	reeve submit echo back --wait
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
	wait_until 5 'named over list >/dev/null'
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
		environment = PATH REEVE_TLS_CERT REEVE_TLS_KEY
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
	for _ in 1 2 3; do expect_eq x "$(timeout 10 "$REEVE_BIN/reeve" submit echo x --wait)"; done
	note "RSS from $before to $(awk '/^VmRSS/ { print $2 }' "/proc/$(pid manager)/status") KiB; $(cat "$DIR/log/crowd.log")"
	expect_no_match 'lost|no answer' "$(cat "$DIR/log/worker.log")"
}

run_tests
