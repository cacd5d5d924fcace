# shellcheck shell=bash
# An application that submits tasks by SQL, for the end-to-end tests that source this file after tasks.bash: its role,
# its sessions, and what became of its tasks.

# Creates an application's role with the only rights that it needs.
grant_app() {
	sql "create role app login; grant usage on schema reeve to app; grant execute on function reeve.submit to app"
}

psql_app() { # OPTION…: psql as the application
	"$REEVE_TEST_PG_BIN/psql" -XAtq -v VERBOSITY=verbose -h "$PGDIR" -U app -d reeve "$@"
}

app() { # SQL
	psql_app -v ON_ERROR_STOP=1 -c "$1"
}

# Open sessions.
#
#	open_session NAME [ROLE]   opens a session of the application, or of another role
#	say NAME SQL           runs statements in it, and prints their output
#	say_later NAME SQL     the same, without waiting for it
#	said NAME              waits for the end of those statements, and prints their output
#	waits_or_said NAME     waits until those statements wait for a lock, or have ended

declare -A SESSION=()

open_session() {
	local fd
	mkfifo "$DIR/$1.in"
	exec {fd}<>"$DIR/$1.in"
	SESSION[$1]=$fd
	echo 0 >"$DIR/$1.count" # in a file: `say` is called in subshells
	PGAPPNAME=$1 start "$1" bash -c 'exec stdbuf -oL "$1" -XAtq -v VERBOSITY=terse -h "$2" -U "$3" -d reeve <"$0" >"$0.out" 2>&1' \
		"$DIR/$1.in" "$REEVE_TEST_PG_BIN/psql" "$PGDIR" "${2:-app}"
}

say_later() {
	local count=$(($(cat "$DIR/$1.count") + 1))
	echo $count >"$DIR/$1.count"
	printf '\\echo <%s\n%s;\n\\echo >%s\n' $count "$2" $count >&"${SESSION[$1]}"
}

said() {
	local count
	count=$(cat "$DIR/$1.count")
	wait_until 60 "grep -qx '>$count' '$DIR/$1.in.out'"
	sed -n "/^<$count\$/,/^>$count\$/{/^[<>]/!p}" "$DIR/$1.in.out"
}

waits_or_said() {
	wait_until 60 "[ \"\$(sql \"select wait_event_type from pg_stat_activity where application_name = '$1'\")\" = Lock ] ||
		grep -qx '>$(cat "$DIR/$1.count")' '$DIR/$1.in.out'"
}

say() {
	say_later "$1" "$2"
	said "$1"
}

totals() { # BATCH: how many tasks were submitted, are pending, completed and failed
	sql "select submitted, pending, completed, failed from batches where id = $1"
}

wait_ended() { # SECONDS ID…
	local seconds=$1
	shift
	wait_until "$seconds" "[ \"\$(sql \"select count(*) from task_history where task_id = any('{$(tr ' ' , <<<"$*")}')\")\" = $# ]"
}

figure() { # TEXT: what was measured; kept where REEVE_TEST_FIGURES says
	note "$1"
	echo "$1" >>"${REEVE_TEST_FIGURES:-/dev/null}"
}

wait_ingested() {
	wait_until 20 "[ \"\$(sql 'select count(*) from inbox')\" = 0 ]"
}
