#!/usr/bin/env bash
# Reads: a slow one keeps no other waiting, and one whose caller has gone ends.
# shellcheck disable=SC1091,SC2016
# quick
. "$(dirname "$0")/lib.sh"

# A foreign lock on the table of workers' events: whoever reads the story of all tasks waits for it, nobody else does.
hold_the_story() {
	mkfifo "$DIR/hold"
	start hold "$REEVE_TEST_PG_BIN/psql" -XAtq -v ON_ERROR_STOP=1 -f "$DIR/hold" "host=$PGDIR user=postgres dbname=reeve"
	exec 9>"$DIR/hold"
	echo 'begin; lock table reeve.worker_events in access exclusive mode;' >&9
	wait_until 10 '[ "$(sql "select count(*) from pg_locks where mode = '\''AccessExclusiveLock'\'' and granted and relation = '\''reeve.worker_events'\''::regclass")" = 1 ]'
}

release_the_story() {
	echo 'rollback;' >&9
}

statements_running() { # of the manager's that read
	sql "select count(*) from pg_stat_activity where application_name in
		('reeve-manager read', 'reeve-manager look', 'reeve-manager look-more') and state = 'active'"
}

took_ms() { # COMMAND…: how long it took; it must succeed
	local begin=${EPOCHREALTIME/./}
	"$@" >"$DIR/took" || fail "exit code $? of: $*"
	echo $(((${EPOCHREALTIME/./} - begin) / 1000))
}

story_slow_reads_do_not_hold_up_quick_ones() {
	start_postgres
	start_manager
	reeve submit sh true >/dev/null
	hold_the_story
	for i in 1 2 3 4 5 6; do
		start "audit$i" "$REEVE_BIN/reeve" --manager "$REEVE_MANAGER" audit --limit 100
	done
	wait_until 10 '[ "$(statements_running)" = 2 ]'
	for words in 'check --failed 5' 'show 1' 'audit 1'; do
		# shellcheck disable=SC2086
		took=$(took_ms reeve $words)
		[ "$took" -lt 1500 ] || fail "reeve $words took $took ms"
	done
	release_the_story
	for i in 1 2 3 4 5 6; do
		ended "audit$i"
		expect_eq 0 "$STATUS" "audit $i"
	done
}

story_reads_of_callers_who_have_gone_end() {
	start_postgres
	start_manager
	reeve submit sh true >/dev/null
	hold_the_story
	for i in 1 2 3 4 5 6 7 8; do
		start "audit$i" "$REEVE_BIN/reeve" --manager "$REEVE_MANAGER" audit --limit 100
	done
	wait_until 10 '[ "$(statements_running)" = 2 ]'
	sleep 0.3
	for i in 1 2 3 4 5 6 7 8; do
		stop "audit$i"
	done
	for words in 'check --failed 5' list; do
		# shellcheck disable=SC2086
		took=$(took_ms reeve $words)
		[ "$took" -lt 1500 ] || fail "reeve $words took $took ms"
	done
	expect_eq 0 "$(statements_running)" 'statements of callers who have gone'
	release_the_story
	reeve audit >"$DIR/audit"
	expect_match submitted "$(cat "$DIR/audit")"
}

# A cancel meant for one statement must never end the next one.
story_a_cancel_ends_nothing_else() {
	start_postgres
	start_manager
	seq 300 | sed 's/.*/{"type":"none","details":"&"}/' >"$DIR/tasks"
	reeve submit --bulk "$DIR/tasks" >/dev/null
	(for ((i = 0; i < 60; i++)); do
		timeout -s KILL "0.0$((RANDOM % 9 + 1))" "$REEVE_BIN/reeve" --manager "$REEVE_MANAGER" audit --limit 10000 >/dev/null || true
	done) &
	for ((i = 0; i < 40; i++)); do
		expect_eq 100 "$(reeve list --json --limit 100 2>"$DIR/said" | wc -l)" "listed the ${i}th time: $(cat "$DIR/said")"
	done
	wait $!
	expect_eq 0 "$(statements_running)" 'statements running'
}

run_stories
