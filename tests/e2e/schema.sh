#!/usr/bin/env bash
# The database objects, made by the manager itself or by somebody else from what it prints.
# shellcheck disable=SC1091,SC2016
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tasks.bash"

NEWEST=$(find "$TOP/sql/migrations" -name '*.sql' -printf '%f\n' | sort | tail -n 1 | sed 's/_.*//;s/^0*//')

psql_reeve() { # DATABASE: runs what comes from stdin as the role reeve
	"$REEVE_TEST_PG_BIN/psql" -Xq -v ON_ERROR_STOP=1 -h "$PGDIR" -U reeve -d "$1" 2>&1
}

new_database() { # NAME
	"$REEVE_TEST_PG_BIN/psql" -Xq -h "$PGDIR" -U postgres -d postgres -c "create database $1 owner reeve"
}

# What there is in a database, but for the partitions of days, which each manager makes.
objects() { # DATABASE
	"$REEVE_TEST_PG_BIN/pg_dump" --schema-only --no-owner -h "$PGDIR" -U postgres -T 'reeve.task_history_2*' "$1" |
		grep -v '^\(--\|\\\|$\)' | grep -v 'task_history_2[0-9]*'
	"$REEVE_TEST_PG_BIN/psql" -XAtq -h "$PGDIR" -U postgres -d "$1" -c 'select version, name from reeve.schema_migrations order by 1'
}

no_migrate() { # DATABASE: a manager's start; it is to refuse
	"$REEVE_BIN/reeve-manager" --no-migrate --database "host=$PGDIR user=reeve dbname=$1" --listen tcp://127.0.0.1:0
}

story_the_printed_schema_is_what_a_manager_makes_and_takes() {
	start_postgres --empty
	start_manager
	stop manager
	new_database printed
	expect_fail 4 no_migrate printed
	expect_match "the database's schema is version 0, this program needs $NEWEST; start once without --no-migrate" "$OUTPUT"
	"$REEVE_BIN/reeve-manager" --print-schema >"$DIR/schema.sql"
	expect_eq '' "$(psql_reeve printed <"$DIR/schema.sql")" 'what psql says'
	expect_eq "$(objects reeve)" "$(objects printed)" 'what there is'
	CONNINFO="host=$PGDIR user=reeve dbname=printed"
	start_manager manager --no-migrate
	launch_worker
	expect_eq hello "$(reeve submit echo hello --wait)"
	# Once is enough.
	OUTPUT=$(psql_reeve printed <"$DIR/schema.sql") && fail 'it was taken twice'
	expect_match "this is for a schema of version 0, and it is $NEWEST" "$OUTPUT"
	expect_eq hello "$(reeve submit echo hello --wait)"
}

story_an_older_schema_is_refused_and_brought_up_from_print() {
	start_postgres --empty
	start_manager
	stop manager
	new_database older
	"$REEVE_BIN/reeve-manager" --print-schema >"$DIR/schema.sql"
	# As it was shipped at version 3.
	{
		sed '/^execute reeve_schema_note(.3., /q' "$DIR/schema.sql"
		echo 'commit;'
	} | psql_reeve older >/dev/null
	expect_fail 4 no_migrate older
	expect_match "the database's schema is version 3, this program needs $NEWEST" "$OUTPUT"
	expect_eq 3 "$("$REEVE_TEST_PG_BIN/psql" -XAtq -h "$PGDIR" -U postgres -d older -c 'select max(version) from reeve.schema_migrations')"
	OUTPUT=$("$REEVE_BIN/reeve-manager" --print-schema --schema-from 2 | psql_reeve older) && fail 'the wrong part was taken'
	expect_match 'this is for a schema of version 2, and it is 3' "$OUTPUT"
	"$REEVE_BIN/reeve-manager" --print-schema --schema-from 3 | psql_reeve older >"$DIR/said"
	expect_eq '' "$(cat "$DIR/said")"
	expect_eq "$(objects reeve)" "$(objects older)"
	CONNINFO="host=$PGDIR user=reeve dbname=older"
	start_manager manager --no-migrate
	expect_match '^[0-9]+$' "$(reeve submit nothing)"
	# Half of it is not taken for all of it.
	expect_fail 1 bash -c '"$1" --print-schema >/dev/full' - "$REEVE_BIN/reeve-manager"
	expect_match 'reeve-manager: cannot write to standard output: No space left on device' "$OUTPUT"
	# There is nothing newer.
	expect_fail 2 "$REEVE_BIN/reeve-manager" --print-schema --schema-from "$NEWEST"
	expect_match "the newest schema this program knows is $NEWEST" "$OUTPUT"
	expect_fail 2 "$REEVE_BIN/reeve-manager" --print-schema --schema-from old
}

# What has ended is counted since version 10: its tables may be long, and everybody waits meanwhile.
story_live_tasks_alone_are_counted_by_the_migration() {
	start_postgres --empty
	new_database older
	"$REEVE_BIN/reeve-manager" --print-schema >"$DIR/schema.sql"
	{
		sed '/^execute reeve_schema_note(.10., /q' "$DIR/schema.sql"
		echo 'commit;'
	} | psql_reeve older >/dev/null
	in_older() { "$REEVE_TEST_PG_BIN/psql" -XAtq -v ON_ERROR_STOP=1 -h "$PGDIR" -U reeve -d older -c 'set search_path = reeve' -c "$1"; }
	in_older "insert into routes (queue, type) values ('q', 't');
		insert into tasks (route_id, queue, type, status, run_at, created, last_updated)
			select 1, 'q', 't', case when n <= 2 then 'failed' else 'queued' end, now() + case when n > 7 then interval '1 h' else '0' end, now(), now()
			from generate_series(1, 10) n;
		insert into history_counts values (1, 'dead', 77); insert into history_changes values (current_date, 1, 'dead', 5)"
	CONNINFO="host=$PGDIR user=reeve dbname=older"
	start_manager
	expect_eq '1|5|3|0|2' "$(in_older 'select * from live_totals(null)')"
	expect_eq '1|dead|82' "$(in_older 'select * from history_totals')"
}

# A role that may use what is there, and make nothing.
story_a_manager_without_the_right_to_make_anything_works() {
	start_postgres --empty
	"$REEVE_BIN/reeve-manager" --print-schema >"$DIR/schema.sql"
	psql_reeve reeve <"$DIR/schema.sql" >/dev/null
	sql "create role clerk login; grant usage on schema reeve to clerk; grant all on all tables in schema reeve to clerk;
		grant all on all sequences in schema reeve to clerk" >/dev/null
	CONNINFO="host=$PGDIR user=clerk dbname=reeve"
	start_manager manager --no-migrate
	start_worker
	expect_eq hello "$(reeve submit echo hello --wait)"
	expect_match 'cannot make partitions of the history' "$(cat "$DIR/log/manager.log")"
	expect_eq 1 "$(sql 'select count(*) from task_history_default')"
}

run_stories
