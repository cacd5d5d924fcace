# shellcheck shell=bash
# `bench/run growth`: the cost of each maintenance job with few and with many tasks. Sourced by bench/run.
#
# Prints lines `name value unit`. growth_ratios lists which figures are divided by which.

read -ra GROWTH_TASKS <<<"${REEVE_BENCH_GROWTH:-1000000 3000000 10000000}"

measure_growth() {
	local tasks
	# The touched pages are counted, so no other process may touch any.
	psql -qXc 'alter system set autovacuum = off' -c 'select pg_reload_conf()' >/dev/null
	for tasks in "${GROWTH_TASKS[@]}"; do
		say "growth: $tasks tasks of 34 days are loaded"
		createdb growth
		"$BUILD/bin/bench-growth" "$(conninfo growth)" 2>>"$DIR/growth.log"
		psql -qX -d growth -v n="$tasks" -f "$TOP/bench/growth.sql" >>"$DIR/growth.log" 2>&1
		checkpoint
		say "growth: every maintenance job with $tasks tasks"
		"$BUILD/bin/bench-growth" "$(conninfo growth)" "$tasks" 2>>"$DIR/growth.log"
		dropdb --force growth
	done
	psql -qXc 'alter system reset autovacuum' -c 'select pg_reload_conf()' >/dev/null
}

# NAME A B, a line each: with the most tasks ÷ with the second most. With the fewest, a page of work is not full.
growth_ratios() {
	local most=${GROWTH_TASKS[-1]} before=${GROWTH_TASKS[-2]:-${GROWTH_TASKS[-1]}}
	sed -n "s/^\(growth_.*\)_$before .*/\1_ratio \1_$most \1_$before/p" "$DIR/medians"
}
