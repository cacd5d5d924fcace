# shellcheck shell=bash
# Other tasks while something is locked: callers who submit one task after the other, and how often statements wait for
# the lock. For the end-to-end tests that source this file, after faults.bash if they need both.

SHORT=(--lease 4s --heartbeat 800ms --expiry-grace 6s)

# Options of PostgreSQL: it logs each wait of more than 2 ms for a lock, and who has the lock. See waits_of.
LOCK_LOG=(-c log_lock_waits=on -c deadlock_timeout=2ms)

expect_at_most() { # MS GOT WHAT
	note "$3: $2 ms (at most $1)"
	[ "$2" -le "$1" ] || fail "$3: $2 ms; expected at most $1 ms"
}

# Starts two callers that submit tasks, each the next one 40 ms after its last has ended.
start_calls() { # NAME [QUEUE [BATCH]]
	start "$1" "$REEVE_BIN/steady-calls" 2 nothing "${@:2}"
}

stop_calls() { # NAME…
	local name
	for name; do
		stop "$name"
		expect_eq 0 "$STATUS" "exit code of $name"
	done
}

started() { # NAME…: waits until a task of each of these callers has ended
	local name
	for name; do wait_until 20 "grep -q ' wait ' '$DIR/log/$name.log'"; done
}

ended_since() { # NAME MS: how many tasks of start_calls NAME were submitted after that time and have ended
	awk -v since="$2" '
		$3 == "submit" && $1 >= since { begun[$4] }
		$3 == "wait" && $4 in begun { ended++ }
		END { print ended + 0 }' "$DIR/log/$1.log"
}

# Waits until so many tasks of each of these callers that were submitted after that time have ended.
expect_they_go_on() { # COUNT MS NAME…
	local name count=$1 since=$2
	for name in "${@:3}"; do wait_until 30 "[ \$(ended_since '$name' '$since') -ge $count ]"; done
}

# Prints how often statements of managers' connections with ROLE waited for a lock that one of these sessions had. Other
# load on the machine does not change that, as it changes times. If $LOGGED is set, only the log after so many lines counts.
waits_of() { # ROLE PID…
	tail -n +$((${LOGGED:-0} + 1)) "$DIR/log/postgres.log" | awk -v role="reeve-manager $1 " -v pids=" ${*:2} " '
		/still waiting for/ { waits = index($0, role) }
		waits && sub(/.*DETAIL: +Process(es)? holding the lock: /, "") {
			sub(/\..*/, "")
			count = split($0, holders, ", ")
			for (i = 1; i <= count; i++)
				if (index(pids, " " holders[i] " ")) {
					all++
					break
				}
			waits = 0
		}
		END { print all + 0 }'
}

# Expects that statements of that role waited for a lock of these sessions between LEAST and MOST times.
expect_lock_waits() { # ROLE LEAST MOST PID…
	local waits
	waits=$(waits_of "$1" "${@:4}")
	note "$1: $waits waits for the lock ($2 to $3)"
	[ "$waits" -ge "$2" ] && [ "$waits" -le "$3" ] || fail "statements of the role $1 waited for the lock $waits times; expected $2 to $3 times"
}

longest() { # NAME: the longest that any of its tasks took, in ms
	awk '$3 == "submit" { begun[$4] = $1 }
		$3 == "wait" && $1 + $2 - begun[$4] > longest { longest = $1 + $2 - begun[$4] }
		END { print longest + 0 }' "$DIR/log/$1.log"
}
