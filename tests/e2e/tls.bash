# shellcheck shell=bash
# A manager with TLS, its certificates, and those of its callers. A suite that sources this has the manager on the URL of
# `manager`, and without TLS on the port $PLAIN.

. "$(dirname "$0")/clocks.bash"

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

# Whether the manager has logged this since the given line, and only once.
logged_once() { # REGEX SINCE
	[ "$(tail -n "+$2" "$LOG" | grep -cE "$1")" = 1 ]
}

# Each call of the client ends with this message, and the manager logs its own once.
expect_refused() { # [CODE] CLIENTS MANAGERS COMMAND…
	local since=$(($(wc -l <"$LOG") + 1)) code=3 clients managers limit
	[[ $1 != ? ]] || { code=$1 && shift; }
	clients=$1 managers=$2
	shift 2
	for _ in 1 2; do
		for limit in 1 5 20; do # a busy machine may need more for the handshake
			expect_fail "$code" "$@" --connect-timeout ${limit}s list
			[[ ! $OUTPUT =~ $clients ]] || break
		done
		expect_match "$clients" "$OUTPUT"
	done
	wait_until 10 "logged_once 'no connection with 127.0.0.1: $managers' $since"
}
