# shellcheck shell=bash
# `bench/run scale`: ratios for many types, a slow database, many workers and many tasks. Sourced by bench/run.
#
# Each part prints lines `name value unit`. scale_ratios lists which figures are divided by which.

STREAM_TYPES=1000 STREAM_RATE=1500 STREAM_SECONDS=8 COLD_TYPES=10000 COLD_SECONDS=8
read -r LISTED_FEW LISTED_MANY <<<"${REEVE_BENCH_LISTED:-20000 200000}"
read -r IDLE_FEW IDLE_MANY <<<"${REEVE_BENCH_IDLE:-100 10000}"
SCALE_PIDS=() SCALE_URLS=() SCALE_MANAGERS=() SCALE_BIN='' # whose managers are measured

free_port() { # below the range that outgoing connections take theirs from
	local port
	for port in $(shuf -i 28000-31999 -n 50); do
		if ! ss -Hltn "sport = :$port" | grep -q .; then
			echo "$port"
			return
		fi
	done
	fail "no free port"
}

await_file() { # FILE PATTERN: the first match
	local end=$((SECONDS + 60))
	until grep -om1 "$2" "$1" 2>/dev/null; do
		[ "$SECONDS" -lt "$end" ] || fail "no $2 in $1 within a minute"
		sleep 0.02
	done
}

scale_manager() { # BIN DATABASE DELAY-MS: one more, with the database that far away
	local bin=$1 database=$2 delay=$3 n=${#SCALE_MANAGERS[@]} where port
	where=$(conninfo "$database")
	if [ "$delay" -gt 0 ]; then
		port=$(free_port)
		"$BUILD/bin/reeve-test-proxy" --listen "$port" --to "$PGHOST/.s.PGSQL.5432" --control "$DIR/proxy$n" 2>>"$DIR/proxy.log" &
		SCALE_PIDS+=($!)
		until [ -S "$DIR/proxy$n" ]; do sleep 0.02; done
		"$BUILD/bin/reeve-test-proxy" --tell "$DIR/proxy$n" delay up "$delay" >/dev/null
		where="hostaddr=127.0.0.1 port=$port user=postgres dbname=$database sslmode=disable gssencmode=disable"
	fi
	: >"$DIR/manager$n.log"
	"$bin/reeve-manager" --database "$where" --listen tcp://127.0.0.1:0 --max-connections 30000 --max-calls 50000 \
		>>"$DIR/manager$n.log" 2>&1 &
	SCALE_MANAGERS+=($!)
	SCALE_PIDS+=($!)
	SCALE_URLS+=("$(await_file "$DIR/manager$n.log" 'tcp://[0-9.:]*')")
}

scale_stop() {
	local pid
	for pid in "${SCALE_MANAGERS[@]}"; do kill "$pid" 2>/dev/null || true; done
	for pid in "${SCALE_MANAGERS[@]}"; do wait "$pid" || true; done
	for pid in "${SCALE_PIDS[@]}"; do kill "$pid" 2>/dev/null || true; done
	for pid in "${SCALE_PIDS[@]}"; do wait "$pid" 2>/dev/null || true; done
	rm -f "$DIR"/proxy[0-9]*
	SCALE_PIDS=() SCALE_URLS=() SCALE_MANAGERS=()
}

not_well() { # an earlier revision may end as badly as it likes
	say "  it did not end well: $(tail -n 1 "$DIR/scale.log")"
	[ "$SCALE_BIN" != "$BUILD/bin" ] || touch "$DIR/not-well"
	tail -n 2 "$DIR/manager0.log" | sed 's/^/  manager: /' >&2
}

joined() {
	local IFS=,
	echo "$*"
}

scale_streams() { # ROUND BIN
	local delay managers orders=("1 2" "2 1") which n
	for delay in 1 8; do
		which=$((($1 + (delay > 1)) % 2))
		for managers in ${orders[which]}; do
			say "round $1: scale, $STREAM_TYPES types, $managers managers, the database $delay ms away"
			createdb scale
			for ((n = 0; n < managers; n++)); do scale_manager "$2" scale "$delay"; done
			"$BUILD/bin/bench-streams" "streams_${managers}_${delay}ms" "$(joined "${SCALE_URLS[@]}")" "$STREAM_TYPES" "$STREAM_RATE" \
				"$STREAM_SECONDS" 2>>"$DIR/scale.log" || not_well
			scale_stop
			dropdb --force scale
		done
	done
}

scale_cold() { # ROUND BIN
	local managers n
	for managers in 1 2; do
		say "round $1: scale, a cold start with $COLD_TYPES types, $managers managers, the database 8 ms away"
		createdb scale
		scale_manager "$2" scale 0
		"$BUILD/bin/bench-streams" fill "${SCALE_URLS[0]}" "$COLD_TYPES" fill 1 2>>"$DIR/scale.log"
		scale_stop
		psql -qX -d scale -c 'analyze'
		for ((n = 0; n < managers; n++)); do scale_manager "$2" scale 8; done
		"$BUILD/bin/bench-streams" "cold_$managers" "$(joined "${SCALE_URLS[@]}")" "$COLD_TYPES" cold "$COLD_SECONDS" 2>>"$DIR/scale.log" ||
			not_well
		scale_stop
		dropdb --force scale
	done
}

scale_idle() { # ROUND BIN
	local label count
	for label in few many; do
		count=$IDLE_FEW
		[ $label = few ] || count=$IDLE_MANY
		say "round $1: scale, $count idle workers and $count routes that nobody serves"
		createdb scale
		scale_manager "$2" scale 0
		"$BUILD/bin/bench-scale" --manager "${SCALE_URLS[0]}" --workers "$count" --routes "$count" --pid "${SCALE_MANAGERS[0]}" --reconnect \
			2>>"$DIR/scale.log" | sed "s/^\([a-z0-9_]*\)/idle_\1_$label/" || not_well
		scale_stop
		dropdb --force scale
	done
}

LISTINGS=(list 'list --where status=dead' 'list --where key=none' 'queue list' 'queue status default' 'worker list' stats 'stats --by type' errors
	'audit --limit 100' 'check --failed-waiting 1000000000')

scale_listings() { # ROUND BIN
	local size label count listing name try url port
	for label in few many; do
		count=$LISTED_FEW
		[ $label = few ] || count=$LISTED_MANY
		say "round $1: scale, listings with $count tasks waiting and $count in the history"
		createdb scale
		scale_manager "$2" scale 0
		url=${SCALE_URLS[0]} port=$(free_port)
		"$TOP/tests/scale/relay.py" "$port" "${url##*:}" "$DIR/pages" 2>>"$DIR/scale.log" &
		SCALE_PIDS+=($!)
		for ((size = 0; size < count; size += 100000)); do # what is run, and stays in the history
			"$BUILD/bin/bench-drive" drain "$(conninfo scale)" "$url" "$BUILD/bin/bench-worker" $((count - size < 100000 ? count - size : 100000)) \
				"$PROCESSES" "$CONCURRENCY" "$PREFETCH" >>"$DIR/drive.log" 2>&1
		done
		"$BUILD/bin/bench-streams" fill "$url" 100 fill $((count / 100)) 2>>"$DIR/scale.log"
		psql -qX -d scale -c 'vacuum analyze'
		for listing in "${LISTINGS[@]}"; do
			name=listed_$(tr -c 'a-z0-9\n' _ <<<"${listing//--/}" | tr -s _)
			for try in 1 2 3 4 5 6; do
				: >"$DIR/pages"
				"$2/reeve" $listing --manager "tcp://127.0.0.1:$port" >/dev/null 2>>"$DIR/scale.log" || not_well
				[ -s "$DIR/pages" ] || not_well # no call was seen
				[ $try = 1 ] || awk '$2 > longest { longest = $2 } END { print longest + 0 }' "$DIR/pages"
			done | sort -n | awk -v name="${name}_$label" '{ v[NR] = $1 } END { printf "%s %.1f ms\n", name, v[int((NR + 1) / 2)] }'
		done
		scale_stop
		dropdb --force scale
	done
}

ticks() { # PID: the CPU time that it has used, in hundredths of a second
	awk '{ sub(/.*\) /, ""); print $12 + $13 }' "/proc/$1/stat"
}

# The manager's CPU time for a task: 4 worker processes with 64 slots each, and 256 with one.
scale_slots() { # ROUND BIN
	local slots before tasks=$((TASKS < 20000 ? TASKS : 20000))
	for slots in 64 1; do
		say "round $1: scale, $((256 / slots)) workers with $slots slots"
		createdb scale
		scale_manager "$2" scale 0
		before=$(ticks "${SCALE_MANAGERS[0]}")
		"$BUILD/bin/bench-drive" drain "$(conninfo scale)" "${SCALE_URLS[0]}" "$BUILD/bin/bench-worker" "$tasks" $((256 / slots)) $slots 0 \
			>/dev/null 2>>"$DIR/scale.log" || not_well
		awk -v name="slots_cpu_$slots" -v ticks=$(($(ticks "${SCALE_MANAGERS[0]}") - before)) -v tasks="$tasks" \
			'BEGIN { printf "%s %.1f us\n", name, ticks * 10000 / tasks }'
		scale_stop
		dropdb --force scale
	done
}

scale_pair() { # ROUND BIN
	local managers orders=("1 2" "2 1") n
	for managers in ${orders[$1 % 2]}; do
		say "round $1: scale, $managers managers, tasks of one type"
		createdb scale
		for ((n = 0; n < managers; n++)); do scale_manager "$2" scale 0; done
		"$BUILD/bin/bench-drive" e2e "$(conninfo scale)" "$(joined "${SCALE_URLS[@]}")" "$BUILD/bin/bench-worker" "$TASKS" 4 "$CONCURRENCY" \
			"$PREFETCH" 2>>"$DIR/scale.log" | sed "s/^/pair_${managers}_/" || not_well
		scale_stop
		dropdb --force scale
	done
}

measure_scale() { # ROUND BIN
	local part
	SCALE_BIN=$2
	for part in ${REEVE_BENCH_SCALE:-streams cold idle listings slots pair}; do
		"scale_$part" "$1" "$2"
	done
}

# Prints the prefixes of the measured figures, for bench/check_targets.
scale_prefixes() {
	local part
	for part in ${REEVE_BENCH_SCALE:-streams cold idle listings slots pair}; do
		echo "${part/listings/listed}"
	done
}

scale_ratios() { # NAME A B, a line each: A of a round ÷ B of the same round
	local delay name
	for delay in 1 8; do
		for name in p50 p99 later_p50 later_p99 oldest rate; do
			echo "streams_2_vs_1_${delay}ms_$name streams_2_${delay}ms_$name streams_1_${delay}ms_$name"
		done
	done
	for name in first p99 later_p99; do
		echo "cold_2_vs_1_$name cold_2_$name cold_1_$name"
	done
	for name in e2e e2e_single64; do
		echo "pair_2_vs_1_$name pair_2_$name pair_1_$name"
	done
	echo "slots_cpu_1_vs_64 slots_cpu_1 slots_cpu_64"
	sed -n 's/^\(listed_.*\)_few .*/\1_many_vs_few \1_many \1_few/p; s/^\(idle_.*\)_few .*/\1_many_vs_few \1_many \1_few/p' "$DIR/medians"
}
