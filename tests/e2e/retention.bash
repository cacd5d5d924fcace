# shellcheck shell=bash
# Tasks that ended long ago, for the end-to-end tests that source this file after lib.sh.

HISTORY_DAYS=30

# Changes tasks as if their retention had ended DAYS days ago. Creates the partition of that day: otherwise they would
# be in the default partition.
is_over() { # DAYS CONDITION
	sql "set role reeve; select make_history_partitions((clock_timestamp() at time zone 'UTC')::date - $1, 1);
		update task_history set keep_until = (clock_timestamp() at time zone 'UTC')::date - $1 where $2" >/dev/null
}

day() { # DAYS ago
	sql "select to_char((clock_timestamp() at time zone 'UTC')::date - $1, 'YYYYMMDD')"
}

old_partitions() {
	sql "select count(*) from pg_inherits join pg_class c on c.oid = inhrelid where inhparent = 'task_history'::regclass
		and relname ~ '[0-9]{8}\$' and right(relname, 8) < to_char(clock_timestamp() at time zone 'UTC', 'YYYYMMDD')"
}

all_gone() {
	wait_until 30 '[ "$(old_partitions)" = 0 ]'
}

# Ends one task with each outcome in each of the queues.
end_some() { # QUEUE…: $ID[queue outcome] are set
	local queue
	for queue in "$@"; do
		ID[$queue completed]=$(reeve submit sh 'printf done' --queue "$queue")
		ID[$queue dead]=$(reeve submit sh 'echo bad >&2; exit 3' --queue "$queue" --max-attempts 2 --retry-base 1ms)
		ID[$queue cancelled]=$(reeve submit sh --delay 1h --queue "$queue")
		reeve cancel "${ID[$queue cancelled]}" >/dev/null
	done
	reeve wait "${ID[@]}" >/dev/null || true
}
declare -A ID
