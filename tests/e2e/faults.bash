# shellcheck shell=bash
# Helpers for tests with faults: a network that loses, delays, duplicates and reorders messages, hosts that are cut off,
# a database that does not answer or whose clock jumps. Sourced after lib.sh; sources tests/faults/faults.bash (ledgers
# and their checker).
#
#	$SHORT, $CALM, $LONG         options of a manager: short leases; longer ones; so long ones that a restart on a busy
#	                             machine ends none
#	LEASE_US, BACK_US            the short lease in µs; the limit in µs for service to be back after a fault
#	start_proxy NAME MANAGER|postgres    starts a proxy (tests/tools/proxy.c) in front of that manager or of PostgreSQL,
#	                             which need not be up yet. ${PROXY[NAME]} is a manager's proxy as a URL; PostgreSQL's is
#	                             for `start_manager NAME` with CONNINFO=${PROXY[NAME]}
#	tell NAME COMMAND…           sends the proxy a command
#	applied NAME                 prints how often the proxy's rules have applied
#	start_host NAME              starts a host of its own, linked to this machine. Skips the test where that is not
#	                             permitted
#	near_host NAME MANAGER       sets ${NEAR[@]}: options by which that manager also listens at this end of the link
#	on_host NAME COMMAND…        runs a command on the host
#	link NAME down|up            cuts the host off; connects it again
#	start_postgres_with_clock    start_postgres, with a clock that `jump SECONDS` sets that far ahead of the machine's
#	standby_absent, standby_back make COMMITs wait for a standby that does not answer; stop that
#	submit_scripts PREFIX COUNT DETAILS [MEMBERS]   submits tasks PREFIX-1 … in one call, of the type $TYPE (fault-exec
#	                             unless set), with MEMBERS added to their JSON; sets ${IDS[@]} to their ids
#	send FILE URL                sends a call that a proxy has copied or taken, unchanged; prints what raw-call prints
#	end_load [SUBMITTER…]        stops the submitters (`load` unless given), and waits until all has ended (all_ended)
#	conclude [--jumped] WORKER…  stops the workers, which must exit with 0, while their manager runs; then runs the
#	                             checker. --jumped: the database's clock has been set
#	respawn FILE COMMAND…        (with `start`) runs the command again and again until FILE exists
#	kill_now NAME                kills it by SIGKILL; sets $KILLED_US to the time on the ledgers' clock
#	worker_lost NAME             whether an incarnation of that worker was marked lost
#	outcomes                     prints the outcomes of attempts that did not end their task: "expired 1 lost 3"
#	expect_first_attempts        expects that no ended task has counted more than one attempt
#	starts [WORKER]              prints how many attempts have begun, by the ledgers
#	running_of WORKER AT_US      prints the tasks whose attempts there had begun at that time, and not ended
#	last_sign WORKER [UNTIL_US]  prints the time of the last sign of life of its handlers
#	last_end ID…                 prints when the last of these tasks' attempts ended
#	all_begun UNTIL_US           returns whether all tasks have begun that were acknowledged until then
#	longest_wait FROM_US         prints the longest wait, in µs, of tasks that began after FROM_US: from the
#	                             acknowledgment, or from FROM_US if that is later, to the first start
#	expect_within US FROM_US TO_US WHAT   expects the time from FROM_US to TO_US to be at most US
#	back_after_restart FAULT_US UP_US COUNT   waits until so many attempts have begun after a restart, which was complete at
#	                             UP_US, and two workers have sent heartbeats. Notes how long that took in $DIR/back
#	expect_fastest_back          expects that the fastest of the restarts was good

. "$TOP/tests/faults/faults.bash"

exec 7>&2 # for the results of tests

SHORT=(--lease 2s --heartbeat 400ms --expiry-grace 3s --fetch-wait 500ms)
CALM=(--lease 4s --heartbeat 500ms --expiry-grace 6s --fetch-wait 500ms)
LONG=(--lease 60s --heartbeat 500ms --expiry-grace 70s --fetch-wait 500ms)
LEASE_US=2000000
BACK_US=30000000 # for busy machines
declare -A PROXY=() HOST_LINK=() HOST_ADDRESS=()

# ---- the network ----

start_proxy() { # NAME MANAGER|postgres
	local port
	port=$(free_port)
	if [ "$2" = postgres ]; then
		start "$1" "$REEVE_BIN/reeve-test-proxy" --listen "$port" --to "$PGDIR/.s.PGSQL.5432" \
			--control "$DIR/$1.control" --speaks postgres
		PROXY[$1]="hostaddr=127.0.0.1 port=$port user=reeve dbname=reeve sslmode=disable gssencmode=disable"
	else
		PORT[$2]=${PORT[$2]:-$(free_port)}
		start "$1" "$REEVE_BIN/reeve-test-proxy" --listen "$port" --to "127.0.0.1:${PORT[$2]}" \
			--control "$DIR/$1.control" --speaks sp
		PROXY[$1]=tcp://127.0.0.1:$port
	fi
	wait_until 30 "[ -S '$DIR/$1.control' ]"
}

tell() { # NAME COMMAND…
	"$REEVE_BIN/reeve-test-proxy" --tell "$DIR/$1.control" "${@:2}" >/dev/null || fail "the proxy $1 does not take '${*:2}'"
}

applied() { # NAME
	"$REEVE_BIN/reeve-test-proxy" --tell "$DIR/$1.control" status | sed -n 's/^applied //p'
}

# The host is a network namespace without a name. It ends with the process that holds it, and so does the link.
start_host() { # NAME
	local port link n
	if ! unshare --net true 2>/dev/null || ! command -v ip >/dev/null; then
		echo "  SKIPPED (making a network namespace is not permitted here):" >&7
		exit 0
	fi
	port=$(free_port) # nobody else has it, so the addresses made of it are nobody else's
	link=rv$port
	n=$((4 * (port - 20000)))
	HOST_ADDRESS[$1]=10.99.$((n / 256)).$((n % 256 + 1))
	start "$1" unshare --net sleep infinity
	wait_until 30 "[ \"\$(readlink /proc/$(pid "$1")/ns/net)\" != \"\$(readlink /proc/self/ns/net)\" ]"
	ip link add "$link" type veth peer name far netns "$(pid "$1")"
	ip address add "${HOST_ADDRESS[$1]}/30" dev "$link"
	ip link set "$link" up
	on_host "$1" ip address add "10.99.$((n / 256)).$((n % 256 + 2))/30" dev far
	on_host "$1" ip link set far up
	on_host "$1" ip link set lo up
	HOST_LINK[$1]=$link
}

near_host() { # NAME MANAGER
	PORT[$2]=${PORT[$2]:-$(free_port)}
	NEAR=(--listen "tcp://127.0.0.1:${PORT[$2]},tcp://${HOST_ADDRESS[$1]}:${PORT[$2]}" --insecure)
}

on_host() { # NAME COMMAND…
	nsenter --net="/proc/$(pid "$1")/ns/net" -- "${@:2}"
}

link() { # NAME down|up
	ip link set "${HOST_LINK[$1]}" "$2"
}

# Starts a fault-exec worker on HOST. Its manager must listen near the host.
start_fault_exec_on() { # HOST NAME MANAGER [OPTION…]
	local host=$1 name=$2 url=tcp://${HOST_ADDRESS[$1]}:${PORT[$3]} before
	shift 3
	fault_folder
	before=$(worker_incarnation "$name")
	[ -e "$DIR/host.token" ] || reeve token create hosts --role worker --output "$DIR/host.token"
	FAULT_LEDGER=$LEDGERS FAULT_WORKER=$name FAULT_HOST=$host REEVE_ACCESS_TOKEN_FILE=$DIR/host.token start "$name" \
		nsenter --net="/proc/$(pid "$host")/ns/net" -- "$REEVE_BIN/reeve-worker" --manager "$url" \
		--handlers "$(fault_handlers)" --name "$name" "$@"
	await_registered "$name" "$before"
}

# ---- the database ----

# Runs PostgreSQL with tests/tools/set_clock.c, copied to where PostgreSQL's user can read it.
start_postgres_with_clock() {
	local program
	jump 0
	mkdir "$DIR/programs"
	cp "$REEVE_BIN/set-clock.so" "$DIR/programs"
	for program in psql pg_ctl; do ln -s "$REEVE_TEST_PG_BIN/$program" "$DIR/programs/$program"; done
	cat >"$DIR/programs/postgres" <<-END
		#!/bin/sh
		export LD_PRELOAD=$DIR/programs/set-clock.so SET_CLOCK_FILE=$DIR/clock
		exec $REEVE_TEST_PG_BIN/postgres "\$@"
	END
	chmod +x "$DIR/programs/postgres"
	REEVE_TEST_PG_BIN=$DIR/programs start_postgres
}

jump() { # SECONDS
	touch -d "@$1" "$DIR/clock"
}

standby_absent() {
	sql "alter system set synchronous_standby_names = 'nobody'"
	sql 'select pg_reload_conf()' >/dev/null
	wait_until 10 "[ \"\$(sql 'show synchronous_standby_names')\" = nobody ]"
}

standby_back() {
	sql 'alter system reset synchronous_standby_names'
	sql 'select pg_reload_conf()' >/dev/null
}

# ---- load ----

submit_scripts() { # PREFIX COUNT DETAILS [MEMBERS]
	local n time
	fault_folder
	time=$(now_us)
	for ((n = 1; n <= $2; n++)); do
		printf '{"ev":"submit","name":"%s-%d","t":%s}\n' "$1" $n "$time"
	done >>"$LEDGERS/$1.submit"
	for ((n = 1; n <= $2; n++)); do
		printf '{"type":"%s","details":"%s-%d %s"%s}\n' "${TYPE:-fault-exec}" "$1" $n "$3" "${4:+,$4}"
	done | reeve submit --bulk - >"$DIR/ids"
	time=$(now_us)
	awk -v prefix="$1" -v t="$time" '{
		printf "{\"ev\":\"ack\",\"name\":\"%s-%d\",\"id\":%d,\"existing\":false,\"t\":%s}\n", prefix, NR, $1, t
	}' "$DIR/ids" >>"$LEDGERS/$1.submit"
	mapfile -t IDS <"$DIR/ids"
}

send() { # FILE URL
	"$REEVE_BIN/raw-call" "$2" - <"$1"
}

end_load() { # [SUBMITTER…]
	local name
	for name in "${@:-load}"; do
		stop "$name"
		expect_eq 0 "$STATUS" "exit code of the submitter $name"
	done
	wait_until 60 all_ended
}

conclude() { # [--jumped] WORKER…
	local name clock=--one-clock
	if [ "${1:-}" = --jumped ]; then clock='' && shift; fi
	for name; do signal "$name" TERM; done
	for name; do
		ended "$name"
		expect_eq 0 "$STATUS" "exit code of $name"
	done
	check_faults $clock
}

respawn() { # FILE COMMAND…
	local file=$1
	shift
	until [ -e "$file" ]; do
		"$@" || true
		sleep 0.1
	done
}

# ---- observations ----

kill_now() { # NAME
	KILLED_US=$(now_us)
	stop "$1" KILL
}

worker_lost() { # NAME
	[ "$(sql "select count(*) from workers where name = '$1' and lost")" != 0 ]
}

outcomes() {
	sql 'select outcome, count(*) from task_attempts group by 1 order by 1' | tr '|\n' '  ' | sed 's/ $//'
}

expect_first_attempts() {
	expect_eq '' "$(sql 'select task_id, attempt from task_history where attempt <> 1 limit 5')" 'attempts counted'
}

starts() { # [WORKER]
	cat "$LEDGERS/${1:-}"*.handler 2>/dev/null | grep -c '"ev":"start"' || true
}

running_of() { # WORKER FROM_US
	jq -rs --argjson at "$2" '
		(map(select(.ev == "end" and .t <= $at).token)) as $ended
		| [.[] | select(.ev == "start" and .t <= $at and (.token | IN($ended[]) | not)) | .task] | unique[]' \
		"$LEDGERS/$1.handler"
}

last_sign() { # WORKER [UNTIL_US]
	jq -rs --argjson until "${2:-null}" '[.[] | .t | select($until == null or . <= $until)] | max // 0' "$LEDGERS/$1.handler"
}

last_end() { # ID…
	cat "$LEDGERS"/*.handler | jq -rs --arg ids "$*" '($ids | split(" ") | map(tonumber)) as $ids
		| [.[] | select(.ev == "end" and (.task | IN($ids[]))) | .t] | max // 0'
}

all_begun() { # UNTIL_US
	cat "$LEDGERS"/*.submit "$LEDGERS"/*.handler | jq -es --argjson until "$1" '
		(reduce (.[] | select(.ev == "start")) as $s ({}; .["\($s.task)"] = true)) as $begun
		| all(.[] | select(.ev == "ack" and .t <= $until); $begun["\(.id)"])' >/dev/null
}

longest_wait() { # FROM_US
	local us id
	read -r us id < <(cat "$LEDGERS"/*.submit "$LEDGERS"/*.handler | jq -rs --argjson from "$1" '
		(reduce (.[] | select(.ev == "ack")) as $a ({}; .["\($a.id)"] |= ([. // $a.t, $a.t] | min))) as $acked
		| (reduce (.[] | select(.ev == "start")) as $s ({}; .["\($s.task)"] |= ([. // $s.t, $s.t] | min))) as $begun
		| [$begun | to_entries[] | select($acked[.key] and .value > $from)
			| [.value - ([$acked[.key], $from] | max), .key]]
		| max // [0, "-"] | "\(.[0]) \(.[1])"')
	note "task $id waited the longest: $((us / 1000)) ms"
	echo "$us"
}

expect_within() { # US FROM_US TO_US WHAT
	local took=$(($3 - $2))
	note "$4: $((took / 1000)) ms"
	[ "$took" -le "$1" ] || fail "$4: $((took / 1000)) ms, and not within $(($1 / 1000)) ms"
}

# With the leases of $LONG, nothing that waits for the end of a lease is in time.
back_after_restart() { # FAULT_US UP_US COUNT
	local at down_us now since
	since=$(sql 'select clock_timestamp()')
	at=$(starts '') # of any worker
	wait_until 20 "[ \"\$(starts)\" -gt $((at + $3)) ]"
	now=$(now_us)
	expect_within "$BACK_US" "$1" "$now" 'back'
	# The restart itself shows how busy the machine is: it may take as long again until all is under way, up to 5 s.
	down_us=$(($2 - $1 < 5000000 ? $2 - $1 : 5000000))
	echo $(((now - $2 - down_us) / 1000)) >>"$DIR/back"
	wait_until 10 "[ \"\$(sql \"select count(*) from workers where hb_at > '$since'\")\" = 2 ]" # which renews their leases
}

# Other load does not delay all of them.
expect_fastest_back() {
	note "under way again, in ms more than the restart took: $(xargs <"$DIR/back")"
	expect [ "$(sort -n "$DIR/back" | head -n 1)" -le 3000 ]
}
