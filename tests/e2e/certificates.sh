#!/usr/bin/env bash
# Certificates from their issue to their end: listed, verified, renewed without a restart, revoked, expired.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tls.bash"

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

test_issued_certificates_are_listed_and_revoked_beside_a_broken_file() {
	local serial
	export REEVE_CERTS_DIR=$DIR/fleet
	reeve certs init >/dev/null
	reeve certs issue m1 --dns m1.example.org >/dev/null
	reeve certs issue w1 --lifetime 2d >/dev/null
	serial=$(openssl x509 -in "$DIR/fleet/w1.pem" -noout -serial | cut -d= -f2)
	reeve certs renew w1 --lifetime 9d >/dev/null
	reeve certs issue brief --lifetime 1s >/dev/null
	wait_until 10 '[ "$(reeve certs list --json | jq -r "select(.name == \"brief\").state")" = expired ]'
	expect_eq 'brief expired m1 valid w1 valid w1 valid' "$(reeve certs list --json | jq -r '.name, .state' | xargs)"
	expect_eq "$serial" "$(reeve certs list --json | jq -r 'select(.name == "w1").serial' | head -n 1)"
	expect_match "^$(date -u -d '9 days' +%F)T" "$(reeve certs list --json | jq -r 'select(.name == "w1").expires' | tail -n 1)"
	expect_match 'NAME +STATE +EXPIRES +NAMES +SERIAL' "$(reeve certs list)"
	expect_match 'm1 +valid +in 36[45]d +URI:reeve://m1, DNS:m1.example.org ' "$(reeve certs list)"
	# What has expired is renewed, too: its file is there, so it is used.
	expect_eq "$DIR/fleet/brief.pem" "$(reeve certs renew --all --within 1d --lifetime 9d)"
	# A file that was cut off prevents no revocation, but may be another one of the name.
	head -c 100 "$DIR/fleet/issued/$serial.pem" >"$DIR/fleet/issued/00.pem"
	expect_fail 4 reeve certs revoke w1
	expect_match 'issued/00.pem: not a PEM file as expected; it is left out' "$OUTPUT"
	expect_match 'not sure that all certificates of w1 are revoked, as files in .*/issued cannot be read: 1' "$OUTPUT"
	expect_eq 'brief expired brief valid m1 valid w1 revoked w1 revoked' "$(reeve certs list --json 2>/dev/null | jq -r '.name, .state' | xargs)"
	expect_fail 4 reeve certs list --dir "$DIR/none"
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
	wait_until 20 'grep -q "it refuses this program.s certificate: revoked" "$DIR/log/w1.log"'
	wait_until 20 "logged_once 'no connection with 127.0.0.1: its certificate has been revoked' 1"
	own ann
	reeve list >/dev/null
}

# Until it has another certificate.
test_a_revoked_manager_loses_its_callers() {
	local part
	issue() {
		reeve certs issue m2 --ip 127.0.0.1 >/dev/null
		for part in key pem; do cp "$CERTS/m2.$part" "$DIR/new" && mv "$DIR/new" "$DIR/m2.$part"; done
	}
	issue
	URL[second]=tls+tcp://127.0.0.1:$(free_port)
	start second "$REEVE_BIN/reeve-manager" --database "$CONNINFO" --no-migrate --listen "${URL[second]}" --tls-cert "$DIR/m2.pem" --tls-key "$DIR/m2.key"
	start_worker careful --manager "${URL[second]}" --tls-crl "$CERTS/crl.pem"
	reeve certs revoke m2 >/dev/null
	wait_until 15 'grep -q "no connection: its certificate has been revoked" "$DIR/log/careful.log"'
	wait_until 10 'grep -q "no connection with 127.0.0.1: it refuses this program.s certificate: revoked" "$DIR/log/second.log"'
	issue
	expect_eq back "$(reeve submit echo back --wait)"
	stop careful
	stop second
}

# Its worker comes back when it finds a new one.
test_a_certificate_that_expires_during_a_run() {
	reeve token create w2 --role worker --certificate
	for lifetime in 5 20 60; do # on a busy machine it may have expired before the worker is registered
		own ann
		reeve certs issue w2 --lifetime ${lifetime}s >/dev/null
		own w2
		launch_worker w2
		wait_until 60 '[ "$(worker_incarnation w2)" != 0 ] || grep -q "certificate: expired" "$DIR/log/w2.log"'
		[ "$(worker_incarnation w2)" = 0 ] || break
		stop w2 KILL
		rm "$DIR/log/w2.log"
	done
	wait_until 70 'grep -q "it refuses this program.s certificate: expired" "$DIR/log/w2.log"'
	reeve certs renew w2 --lifetime 1h >/dev/null
	own ann
	reeve submit echo back --wait
}

run_tests
