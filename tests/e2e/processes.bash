# shellcheck shell=bash
# Processes and ports of tests. lib.sh sources this file, and its head explains the functions.

birth() { # PID: prints when that process began, which tells it from a later one of the same number; nothing if it has ended
	set_birth "$1"
	[ -z "$BIRTH" ] || echo "$BIRTH"
}

set_birth() { # PID: the same, in $BIRTH
	BIRTH=''
	set_stat "$1" || return 0
	case ${STAT[0]} in Z | X) ;; *) BIRTH=${STAT[19]} ;; esac
}

set_stat() { # PID: sets $STAT to what its /proc/PID/stat has after the name. It is asked for so often that it starts no process
	local text=''
	{ read -rd '' text <"/proc/$1/stat"; } 2>/dev/null || true
	[ -n "$text" ] || return 1
	read -ra STAT <<<"${text##*) }"
}

ticks_of() { # PID…: prints the processor time, in ticks, of these processes and of their children that they have waited for
	local process total=0
	for process; do
		! set_stat "$process" || total=$((total + STAT[11] + STAT[12] + STAT[13] + STAT[14]))
	done
	echo $total
}

alive() { # NAME
	[ -n "${BORN[$1]:-}" ] && set_birth "${PIDS[$1]}" && [ "$BIRTH" = "${BORN[$1]}" ]
}

pid() { # NAME
	echo "${PIDS[$1]}"
}

start() { # NAME COMMAND…
	local name=$1
	shift
	! alive "$name" || fail "$name is running already"
	"$@" >>"$DIR/log/$name.log" 2>&1 </dev/null &
	PIDS[$name]=$!
	set_birth $!
	BORN[$name]=$BIRTH
	STARTED+=("$name")
}

signal() { # NAME SIGNAL
	alive "$1" || fail "$1 is not running; the end of its log: $(tail -n 5 "$DIR/log/$1.log")"
	kill -s "$2" "${PIDS[$1]}"
}

ended() { # NAME [SECONDS]
	local end=$((SECONDS + ${2:-30} + 1))
	while alive "$1"; do
		[ "$SECONDS" -lt "$end" ] || fail "$1 has not ended within ${2:-30} s"
		pause 0.01
	done
	STATUS=0
	wait "${PIDS[$1]}" 2>/dev/null || STATUS=$?
}

stop() { # NAME [SIGNAL]
	signal "$1" "${2:-TERM}"
	ended "$1"
}

descendants() { # processes of this test (tests/tools/descendants.c), without those that look for them
	REEVE_TEST_DIR='' "$REEVE_BIN/descendants" "$DIR"
}

end_everything() { # last first; what does not go as it should is said, and then the result is 1
	local i name bad=0 end left p again
	cd "$TOP" # or we would count as a process in the test's folder
	for ((i = ${#STARTED[@]} - 1; i >= 0; i--)); do
		name=${STARTED[i]}
		alive "$name" || continue
		case $name in # PostgreSQL's SIGINT is the fast shutdown; SIGTERM would wait for its clients
		postgres) kill -s INT "${PIDS[$name]}" ;;
		# CONT first: later it would undo the SIGSTOPs by which LeakSanitizer halts the threads at exit.
		*) kill -s CONT "${PIDS[$name]}" && kill -s TERM "${PIDS[$name]}" ;;
		esac 2>/dev/null || true
		end=$((SECONDS + 31))
		again=$((SECONDS + 1))
		while alive "$name"; do
			if [ "$SECONDS" -gt "$again" ] && [ "$(cat "/proc/${PIDS[$name]}/comm")" = reeve-worker ]; then
				kill -s TERM "${PIDS[$name]}" || true # it need not wait 30 s for its tasks
				again=$end
			fi
			if [ "$SECONDS" -ge "$end" ]; then
				note "$name has not ended within 30 s of SIGTERM"
				kill -s KILL "${PIDS[$name]}" || true
				bad=1
				break
			fi
			pause 0.01
		done
	done
	STARTED=()
	end=$((SECONDS + 6))
	while left=$(descendants) && [ -n "$left" ]; do
		if [ "$SECONDS" -ge "$end" ]; then
			for p in $left; do
				note "left behind: $p $(tr '\0' ' ' <"/proc/$p/cmdline" | cut -c1-200)"
				kill -s KILL "$p" || true
			done 2>&1
			bad=1
			break
		fi
		pause 0.05
	done
	return $bad
}

free_port() { # out of the range that tests/run holds for this run; a port is given once
	local port last=${REEVE_TEST_PORTS#* }
	set -C # `>` makes a file that was not there, or fails
	for ((port = ${REEVE_TEST_PORTS% *}; port <= last; port++)); do
		[ ! -e "$REEVE_TEST_RUN/ports/$port" ] || continue
		{ : >"$REEVE_TEST_RUN/ports/$port"; } 2>/dev/null || continue
		if ! port_taken "$port"; then
			set +C
			echo "$port"
			return
		fi
	done
	fail "no free port left in $REEVE_TEST_PORTS"
}

port_taken() { # PORT: whether a socket has it here
	local file sockets='' part socket
	for file in /proc/net/tcp /proc/net/tcp6; do
		part=''
		{ read -rd '' part <"$file"; } 2>/dev/null || true # to its end, where `read` says 1
		sockets+=$part
	done
	printf -v socket ':%04X [0-9A-F]+:[0-9A-F]{4} ' "$1"
	[[ $sockets =~ $socket ]]
}

as() { # USER COMMAND…: becomes that user's command, if we may
	local user=$1
	shift
	if [ "$(id -u)" = 0 ]; then
		exec setpriv --reuid="$user" --regid="$(id -g "$user")" --clear-groups -- "$@"
	fi
	exec "$@"
}

as_user() {
	(as "$USER_NAME" "$@")
}
