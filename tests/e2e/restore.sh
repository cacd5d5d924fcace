#!/usr/bin/env bash
# A database that is restored from a backup (docs/operations.md).
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tasks.bash"

pg() { # PROGRAM OPTION…: one of PostgreSQL's
	"$REEVE_TEST_PG_BIN/$1" -h "$PGDIR" "${@:2}"
}

test_a_backup_of_a_running_system_is_restored() {
	local ended dead held waits later newest
	start_postgres
	start_manager --lease 15s --heartbeat 300ms
	start_worker --type sh,echo
	ended=$(reeve submit echo result --key once --wait --json | jq .id)
	dead=$(reeve submit sh 'exit 65' --json | jq .id)
	wait_status 20 "$dead" dead
	held=$(reeve submit sh "$HOLD")
	wait_began "$held"
	waits=$(reeve submit nothing)
	later=$(reeve submit echo later --at +1h)
	reeve schedule add beat --every 1s --catch-up one echo tick >/dev/null
	pg pg_dump -U reeve --format=custom --schema=reeve --file="$DIR/reeve.dump" reeve
	newest=$(sql 'select max(id) from all_tasks')

	# What happens after the backup is lost.
	reeve schedule remove beat >/dev/null
	reeve retry "$dead" >/dev/null
	wait_status 20 "$dead" dead
	reeve submit echo 'came later' --key after --wait >/dev/null
	release
	wait_status 20 "$held" completed
	stop worker
	stop manager
	sql_let_go
	rm "$DIR/released"

	pg dropdb -U postgres reeve
	pg createdb -U postgres --owner=reeve reeve
	pg pg_restore -U reeve --exit-on-error --single-transaction --dbname=reeve "$DIR/reeve.dump"
	pg vacuumdb -U postgres --analyze-only --quiet reeve
	start_manager --lease 5s --heartbeat 300ms
	start_worker --type sh,echo,nothing
	expect_eq 'completed 1 result' "$(reeve show "$ended" --json | jq -r '"\(.status) \(.attempt) \(.result)"')"
	expect_eq "$ended" "$(reeve submit echo again --key once)" 'a key of before the backup'
	expect_eq 'submitted claimed dead' "$(events "$dead")" 'the retry came after the backup'
	reeve retry "$dead" >/dev/null
	wait_status 20 "$dead" dead
	wait_status 20 "$waits" completed
	# What was executing is executed again when the lease of its worker is over, and its attempt is known.
	wait_began "$held" 2
	release
	wait_status 20 "$held" completed
	expect_match 'submitted claimed .*claimed completed' "$(events "$held")"
	expect_eq queued "$(field "$later" status)"
	# New tasks have ids of their own; what was submitted after the backup is not there.
	expect [ "$(reeve submit echo new --key after)" -gt "$newest" ]
	expect_no_match 'came later' "$(reeve list --all --json)"
	# The schedule goes on.
	newest=$(sql 'select max(id) from all_tasks')
	wait_until 20 "[ \"\$(sql \"select count(*) from all_tasks where id > $newest and source ~ 'beat'\")\" -ge 2 ]"
	expect reeve check
	# Counters agree with the tasks.
	reeve schedule pause beat >/dev/null
	wait_until 20 "[ \"\$(sql 'select string_agg(id::text, chr(32)) from tasks')\" = $later ]"
	expect_eq '[0,1,0,0]' "$(reeve queue list --json | jq -cs '[map(.queued), map(.delayed), map(.executing), map(.failed)] | map(add)')"
}

# A member of the owner creates the history's partitions (docs/operations.md).
test_the_owner_backs_up_and_restores_what_its_members_create() {
	local task split
	start_postgres
	split=(--database "host=$PGDIR dbname=split user=clerk" --no-migrate)
	sql 'create role owner login; create role clerk login; grant owner to clerk'
	pg createdb -U postgres --owner=owner split
	"$REEVE_BIN/reeve-manager" --print-schema | pg psql -X -q -v ON_ERROR_STOP=1 -U owner -d split
	start_manager "${split[@]}"
	task=$(reeve submit nothing)
	expect_eq owner "$(pg psql -XAtq -U postgres -d split -c "select distinct tableowner from pg_tables where schemaname = 'reeve'")"
	pg pg_dump -U owner --format=custom --file="$DIR/split.dump" split
	stop manager
	pg dropdb -U postgres split
	pg createdb -U postgres --owner=owner split
	pg pg_restore -U owner --exit-on-error --single-transaction --dbname=split "$DIR/split.dump"
	start_manager "${split[@]}"
	expect_eq queued "$(field "$task" status)"
	reeve cancel "$task" >/dev/null
}

run_tests
