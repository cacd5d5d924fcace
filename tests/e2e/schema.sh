#!/usr/bin/env bash
# The database objects: the manager creates, upgrades and replaces them itself, or another role does with what it
# prints.
. "$(dirname "$0")/lib.sh"
HISTORY_DAYS=30
. "$(dirname "$0")/tasks.bash"

NEWEST=$(find "$TOP/sql/migrations" -name '*.sql' -printf '%f\n' | sort | tail -n 1 | sed 's/.*_to_0*//;s/\.sql$//')

psql_reeve() { # DATABASE [OPTION…]: psql as the role reeve
	"$REEVE_TEST_PG_BIN/psql" -XAtq -v ON_ERROR_STOP=1 -h "$PGDIR" -U reeve -d "$@" 2>&1
}

in_older() { # SQL: in the database `older`
	psql_reeve older -c 'set search_path = reeve' -c "$1"
}

new_database() { # NAME
	"$REEVE_TEST_PG_BIN/psql" -Xq -h "$PGDIR" -U postgres -d postgres -c "create database $1 owner reeve"
}

# Restores a database as the first release left it, a day ago; data/version_8.sh describes what is in it.
version_8() { # DATABASE
	gzip -dc "$TOP/tests/e2e/data/version_8.sql.gz" | psql_reeve "$1" >/dev/null
	psql_reeve "$1" <<-'END'
		do $$
		declare
		  days constant int := current_date - 1 - (select max(applied)::date from reeve.schema_migrations);
		  places record;
		begin
		  for places in
		    select c.table_name, string_agg(format('%1$I = %1$I + %2$s', c.column_name,
		      case c.data_type when 'date' then days::text else format('interval ''%s h''', 24 * days) end), ', ') as changes
		    from information_schema.columns c join information_schema.tables t using (table_schema, table_name)
		    where c.table_schema = 'reeve' and t.table_type = 'BASE TABLE' and c.table_name !~ '^task_history_'
		      and c.data_type in ('date', 'timestamp with time zone')
		    group by 1
		  loop
		    execute format('update reeve.%I set %s', places.table_name, places.changes);
		  end loop;
		end $$;
	END
}

# Prints the objects of a database, except the partitions of days, which each manager creates.
objects() { # DATABASE
	"$REEVE_TEST_PG_BIN/pg_dump" --schema-only --no-owner -h "$PGDIR" -U postgres -T 'reeve.task_history_2*' "$1" |
		grep -v '^\(--\|\\\|$\)' | grep -v 'task_history_2[0-9]*'
	psql_reeve "$1" -c 'select name, hash, release from reeve.schema_definitions order by 1' -c 'select name from reeve.locks order by 1'
}

migrations() { # DATABASE: which it has had
	psql_reeve "$1" -c 'select version, name from reeve.schema_migrations order by 1'
}

no_migrate() { # DATABASE: a manager's start; it is to refuse
	"$REEVE_BIN/reeve-manager" --no-migrate --database "host=$PGDIR user=reeve dbname=$1" --listen tcp://127.0.0.1:0
}

print_schema() { # [VERSION]: for a new database, or one of that version
	"$REEVE_BIN/reeve-manager" --print-schema ${1:+--schema-from "$1"}
}

test_the_printed_schema_is_what_a_manager_creates_and_accepts() {
	start_postgres --empty
	start_manager
	stop manager
	new_database printed
	expect_fail 4 no_migrate printed
	expect_match "the database's schema is version 0, this program needs $NEWEST; start once without --no-migrate" "$OUTPUT"
	print_schema >"$DIR/schema.sql"
	expect_eq '' "$(psql_reeve printed <"$DIR/schema.sql")" 'what psql says'
	expect_eq "$(objects reeve)" "$(objects printed)" 'what there is'
	expect_eq "$(migrations reeve)" "$(migrations printed)"
	CONNINFO="host=$PGDIR user=reeve dbname=printed"
	start_manager manager --no-migrate
	launch_worker
	expect_eq hello "$(reeve submit echo hello --wait)"
	# Running the printed schema a second time is refused.
	OUTPUT=$(psql_reeve printed <"$DIR/schema.sql") && fail 'it was taken twice'
	expect_match "this is for a schema of version 0, and it is $NEWEST" "$OUTPUT"
	expect_eq hello "$(reeve submit echo hello --wait)"
	# All functions use only existing objects: here PostgreSQL checks each of their bodies.
	expect_eq '' "$(print_schema "$NEWEST" | sed '/^set local check_function_bodies/d' | psql_reeve printed)"
}

test_an_older_schema_is_refused_and_brought_up_from_print() {
	start_postgres
	new_database older
	version_8 older
	expect_fail 4 no_migrate older
	expect_match "the database's schema is version 8, this program needs $NEWEST; .* what --print-schema --schema-from 8 prints" "$OUTPUT"
	expect_eq 8 "$(in_older 'select max(version) from schema_migrations')"
	OUTPUT=$(print_schema | psql_reeve older) && fail 'the wrong part was taken'
	expect_match 'this is for a schema of version 0, and it is 8' "$OUTPUT"
	expect_eq '' "$(print_schema 8 | psql_reeve older)"
	expect_eq "$(objects reeve)" "$(objects older)"
	# The counts of live and ended tasks equal those of a recount, and the old rows suit the new schema.
	totals='select * from live_totals(null) order by 1; select * from history_totals order by 1, 2; select * from live_due order by 1, 2'
	before=$(in_older "$totals")
	in_older 'select counts_recount()' >/dev/null
	expect_eq "$(in_older "$totals")" "$before" 'the counts'
	expect_eq 5 "$(in_older 'select sum(count) from history_totals')"
	expect_eq 1 "$(in_older "select count(*) from task_events where event = 'late_result'")"
	expect_eq t "$(in_older "select bool_and(attempts > 0 and takes = attempts) from callbacks")"
	CONNINFO="host=$PGDIR user=reeve dbname=older"
	start_manager manager --no-migrate
	expect_match '^[0-9]+$' "$(reeve submit nothing)"
	# An incomplete output is an error.
	expect_fail 1 bash -c '"$1" --print-schema >/dev/full' - "$REEVE_BIN/reeve-manager"
	expect_match 'reeve-manager: cannot write to standard output: No space left on device' "$OUTPUT"
	# There is no newer schema, and no upgrade from a version that was never released.
	expect_fail 2 print_schema "$((NEWEST + 1))"
	expect_match "the newest schema this program knows is $NEWEST" "$OUTPUT"
	expect_fail 2 print_schema old
	for version in 7 $((NEWEST - 1)); do
		expect_fail 2 print_schema "$version"
		expect_match "schema-from is $version, a version that no release had; this program upgrades version 8" "$OUTPUT"
		in_older "delete from schema_migrations where version > $version;
			insert into schema_migrations (version, name) values ($version, 'unknown') on conflict do nothing"
		expect_fail 4 "$REEVE_BIN/reeve-manager" --database "$CONNINFO" --listen tcp://127.0.0.1:0
		expect_match "schema is version $version, which no release had and this program cannot upgrade to its $NEWEST" "$OUTPUT"
	done
}

ended_as() { # DETAILS STATUS RESULT: how that task ended
	wait_until 20 "[ \"\$(sql \"select status, result from task_history where details = '$1'\")\" = '$2|$3' ]"
}

test_a_database_of_version_8_is_upgraded_in_place_and_its_tasks_run() {
	start_postgres --empty
	version_8 reeve
	new_database fresh
	print_schema | psql_reeve fresh
	sql 'create role shop'
	for database in reeve fresh; do psql_reeve "$database" -c 'grant execute on function reeve.submit to shop'; done
	was=$(sql "select task_id, status, result, last_error, created from task_history order by 1")
	# A task that plain SQL has set to executing gets an attempt that expires.
	stuck=$(sql "update tasks set status = 'executing' where details = 'due' returning id")
	key=$(sql "select task_id from keys where key = 'completed'")
	next=$(sql "select next_at from schedules where name = 'later'")
	start_manager
	expect_eq "$(objects fresh)" "$(objects reeve)" 'what there is'
	expect_match "applied 0008_to_00$NEWEST: version $NEWEST" "$(cat "$DIR/log/manager.log")"

	# There is one reeve.submit, and the role that could execute it before still can.
	expect_eq t "$(sql "select has_function_privilege('shop', oid, 'execute') from pg_proc where pronamespace = 'reeve'::regnamespace and proname = 'submit'")"

	# The attempt that plain SQL began expires, unless a command ends it before.
	expect_eq t "$(sql "select t.expiry = a.next_expiry and t.expiry > now() and a.open = 1 from tasks t join assignments a on a.id = t.assignment_id where t.id = $stuck")"
	expect_match "$stuck +queued +yes" "$(reeve retry "$stuck" --executing)"

	# Existing rows and settings are unchanged.
	expect_eq "$was" "$(sql "select task_id, status, result, last_error, created from task_history where last_updated < now() - interval '1 h' order by 1")"
	expect_eq "$key" "$(reeve submit echo 'not run' --key completed)"
	expect_eq '{"existing":true,"restarted":false}' \
		"$(reeve submit echo 'not run' --queue parked --key versioned --key-version 2 --json | jq -c 'del(.id)')"
	expect_eq '9|7000' "$(sql "select max_attempts, retry_base_ms from tasks where id = $(reeve submit echo 'by its queue' --queue parked)")"
	expect_eq 'later f|paused t' "$(reeve schedule list --json | jq -r '"\(.name) \(.paused // false | tostring | .[0:1])"' | sort | paste -sd '|')"
	expect_eq "$next" "$(sql "select next_at from schedules where name = 'later'")"
	expect_eq 'later 1' "$(sql "select s.name, count(*) from schedules s join schedule_runs r on r.schedule_id = s.id group by 1" | tr '|' ' ')"
	expect_eq 17 "$(reeve metric list shop --json | jq .value)"

	# Tasks that waited, had failed, were executing, came from an application, or are in the second stage of their
	# pipeline, run.
	handlers <<-'END'
		[handler echo]
		exec = /bin/cat
		[handler fresh]
		exec = /bin/cat
		[handler sh]
		exec = /bin/bash
		[handler b]
		exec = /bin/bash -c "cat; printf b"
	END
	touch "$DIR/go"
	start_worker
	for details in due delayed 'version 3' 'by its queue' 'by an application' 'first of two' 'second of two'; do
		ended_as "$details" completed "$details"
	done
	wait_until 20 "[ \"\$(sql \"select status, result, stage from task_history where pipeline_id is not null\")\" = 'completed|xab|two' ]"
	wait_until 20 "[ \"\$(sql \"select string_agg(result || attempt, ', ' order by result) from task_history where type = 'sh' and status = 'completed'\")\" = 'ran again 2, tried again 2' ]"
	# The batch began, and ends.
	wait_until 20 "[ \"\$(sql \"select phase, completed, failed, entry_status, exit_status from batches where name = 'nightly'\")\" = 'ended|2|0|completed|completed' ]"
	# A newer version runs, the schedule continues, and the paused queue is resumed.
	reeve submit echo 'version 4' --queue parked --key versioned --key-version 4 >/dev/null
	ended_as 'version 4' completed 'version 4'
	reeve schedule run later >/dev/null
	wait_until 20 "[ \"\$(sql \"select count(*) from task_history where details = 'by schedule'\")\" = 2 ]"
	expect_eq queued "$(sql "select status from tasks where details = 'of a paused queue'")"
	reeve queue resume halted >/dev/null
	ended_as 'of a paused queue' completed 'of a paused queue'
	# One task is due in the far future; all tasks are counted.
	wait_until 20 "[ \"\$(sql 'select sum(queued), sum(delayed), sum(executing), sum(failed) from live_totals(null)')\" = '0|1|0|0' ]"
	expect_eq "$(sql 'select count(*) from task_history')" "$(sql 'select sum(count) from history_totals')"
}

# Changes three definitions as if another build of this release had written them: time_us is wrong, the others have only
# another hash.
other_definitions() { # RELEASE
	sql "set role reeve; update schema_definitions set hash = 'other', release = '$1', applied = '2001-01-01'
			where name in ('functions/time_us', 'functions/submit', 'views/dead_tasks');
		create or replace function time_us(at timestamptz) returns bigint language sql immutable strict parallel safe as 'select 7::bigint'"
}

definitions_are() { # HOW-MANY TIME-US: so many have a hash of this program's form
	expect_eq "$1|$2" "$(sql "select count(*) filter (where hash ~ '^[0-9a-f]{64}$'), time_us('epoch') from schema_definitions")"
}

test_functions_of_another_build_are_replaced_next_to_a_running_manager() {
	start_postgres
	start_manager
	start_worker
	sql 'create role app login; grant usage on schema reeve to app; grant execute on function submit to app; grant select on dead_tasks to app'
	all=$(sql 'select count(*) from schema_definitions')
	before=$(objects reeve)
	other_definitions 0.0.10
	definitions_are $((all - 3)) 7
	expect_fail 4 no_migrate reeve
	expect_match "the text of 3 functions and views .* is not this program's; start once without --no-migrate, or let its owner run what --print-schema --schema-from $NEWEST prints" "$OUTPUT"
	definitions_are $((all - 3)) 7
	# Of two managers that start at once, one replaces them.
	launch_manager second
	start_manager third
	wait_until 20 "reeve --manager ${URL[second]} stats"
	expect_eq 1 "$(cat "$DIR"/log/{second,third}.log | grep -c '3 functions and views have the text of Reeve')"
	definitions_are "$all" 0
	expect_eq "$before" "$(objects reeve)"
	expect_eq 3 "$(sql "select count(*) from schema_definitions where applied > (select max(applied) from schema_migrations)
		and name in ('functions/time_us', 'functions/submit', 'views/dead_tasks')")"
	# Applications keep their rights, and the running manager continues.
	"$REEVE_TEST_PG_BIN/psql" -XAtq -h "$PGDIR" -U app -d reeve -c "select reeve.submit('echo')" -c 'select from reeve.dead_tasks' >/dev/null
	expect_eq hello "$(reeve --manager "${URL[manager]}" submit echo hello --wait)"
	stop second
	stop third

	# Definitions of a newer release stay: its managers need them, and this manager can use them.
	other_definitions 10.0.0
	start_manager second --no-migrate
	expect_match 'the functions and views are those of Reeve 10.0.0, and stay' "$(cat "$DIR/log/second.log")"
	stop second
	start_manager third
	definitions_are $((all - 3)) 7
	# --print-schema replaces them, too, whatever their release.
	expect_eq '' "$(print_schema "$NEWEST" | psql_reeve reeve)"
	definitions_are "$all" 0
	expect_eq "$before" "$(objects reeve)"
}

test_overloads_of_submit_that_other_builds_made_go_and_applications_keep_their_rights() {
	others() { # two other builds: one with a further parameter, and one with fewer
		sql "set role reeve;
			do \$\$ begin
				execute (select format('create function submit(%s, further int default 0) returns bigint language sql as %L',
					pg_get_function_arguments(oid), 'select 1::bigint') from pg_proc
					where pronamespace = 'reeve'::regnamespace and proname = 'submit');
				execute (select format('grant execute on function %s to later', oid::regprocedure) from pg_proc
					where pronamespace = 'reeve'::regnamespace and proname = 'submit' and 'further' = any(proargnames));
			end \$\$;
			create function submit(type text default null, details text default '') returns bigint language sql as 'select 2::bigint';
			grant execute on function submit(text, text) to shop"
		other_definitions 0.0.10
	}
	one_is_left() {
		expect_eq 't|t|t|f' "$(sql "select pronargs > 3, has_function_privilege('shop', oid, 'execute'),
				has_function_privilege('later', oid, 'execute'), has_function_privilege('public', oid, 'execute')
			from pg_proc where pronamespace = 'reeve'::regnamespace and proname = 'submit'")"
		expect_match '^[0-9]+$' "$(sql "select submit('echo')")"
	}
	start_postgres
	sql 'create role shop; create role later'
	others
	start_manager
	one_is_left
	stop manager
	# By psql, also if it makes a savepoint for each statement.
	others
	expect_eq '' "$(print_schema "$NEWEST" | psql_reeve reeve -v ON_ERROR_ROLLBACK=on)"
	one_is_left
}

# A role that may use the existing objects, but create none.
test_a_manager_without_the_right_to_make_anything_works() {
	start_postgres
	sql "create role clerk login; grant usage on schema reeve to clerk; grant all on all tables in schema reeve to clerk;
		grant all on all sequences in schema reeve to clerk;
		do \$\$ declare day text; begin
			for day in select relname from pg_class where relname ~ '^task_history_[0-9]{8}\$' loop
				execute 'drop table ' || day;
			end loop;
		end \$\$" >/dev/null
	CONNINFO="host=$PGDIR user=clerk dbname=reeve"
	other_definitions 0.1.0
	expect_fail 4 "$REEVE_BIN/reeve-manager" --database "$CONNINFO" --listen tcp://127.0.0.1:0
	expect_match 'role "clerk" lacks a right for creating functions/submit: .*owner.* what --print-schema prints' "$OUTPUT"
	print_schema "$NEWEST" | psql_reeve reeve >/dev/null
	start_manager manager --no-migrate
	start_worker
	expect_eq hello "$(reeve submit echo hello --wait)"
	expect_eq '' "$(reeve doctor --json | jq -r '.findings[] | select(.severity == "critical" and .area == "rights")' || true)"
	wait_until 20 'grep -q "cannot make partitions of the history" "$DIR/log/manager.log"'
	expect_eq 1 "$(sql 'select count(*) from task_history_default')"
}

# What docs/ lets the owner of the tables do.
test_a_session_needs_no_search_path() {
	local batch
	start_postgres
	start_manager
	start_worker
	reeve submit echo hello --wait >/dev/null
	reeve submit echo to-go --wait >/dev/null
	batch=$(reeve batch open nightly)
	reeve wait "$(reeve submit nothing --batch "$batch")" >/dev/null
	reeve submit unknown --batch "$batch" >/dev/null
	expect_eq "$batch|open|t" "$(plain_sql 'select id, state, remaining_ms >= 0 from reeve.batches_shown')"
	expect_eq 1 "$(plain_sql 'select reeve.make_history_partitions(current_date + 400, 1)')"
	plain_sql "create table reeve.task_history_20200101 partition of reeve.task_history for values from ('2020-01-01') to ('2020-01-02')" >/dev/null
	expect_eq 'task_history_20200101|f' "$(plain_sql 'select * from reeve.history_over(current_date)')"
	plain_sql "delete from reeve.task_history where details = 'to-go'" >/dev/null
	expect_eq 1 "$(plain_sql "select sum(t.count) from reeve.history_totals t join reeve.routes r on r.id = t.route_id where r.type = 'echo'")"
}

# Each statement that a manager sends suits the current tables and functions.
test_every_statement_can_be_prepared() {
	local file count=0
	start_postgres
	for file in "$STATEMENTS"/*.sql; do
		grep -vm1 '^--' "$file" | grep -qiE '^(select|with|insert|update|delete)\b' || continue
		printf '\\echo %s\nprepare s as\n%s;\ndeallocate s;\n' "$(basename "$file")" "$(cat "$file")"
	done >"$DIR/statements"
	count=$(grep -c '^prepare' "$DIR/statements")
	expect [ "$count" -ge 100 ]
	PGOPTIONS='-c search_path=reeve' psql_reeve reeve -f "$DIR/statements" >"$DIR/prepared" || fail "$(tail -n 4 "$DIR/prepared")"
	expect_eq "$count" "$(wc -l <"$DIR/prepared")"
}

# The build reads the heads of the statements, and the compiler checks that the messages have these fields.
test_a_head_that_does_not_fit_its_statement_is_an_error() {
	head_of() { # [OPTION...]: of the statement on standard input
		cat >"$DIR/statement.sql"
		awk -v columns="$TOP/sql/columns" "$@" -f "$TOP/sql/heads.awk" "$DIR/statement.sql"
	}
	compiled() { # EXPRESSION
		printf '#include <reeve/v1/metric.pb-c.h>\nenum { x = %s };\n' "$1" |
			cc -fsyntax-only -I "${REEVE_BIN%/bin}/generated" -xc - 2>&1
	}
	expect_eq '' "$(echo 'select 1' | head_of)" 'a statement without a head'
	expect_eq '&reeve__v1__list_metrics_request__descriptor, &reeve__v1__list_metrics_response__descriptor, "metrics", "category? limit", "name .more"' \
		"$(head_of <<<'-- takes ListMetricsRequest: category?, limit
-- gives ListMetricsResponse.metrics: name,
--   .more
select $1, $2')"
	expect_fail 1 head_of <<<'-- takes ListMetricsRequest: category
-- gives ListMetricsResponse.metrics: name
select $1, $2'
	expect_match 'it takes 1 fields and has 2 parameters' "$OUTPUT"
	expect_fail 1 head_of <<<'-- gives ListMetricsResponse.metrics: [unknown]
select 1'
	expect_match 'there are no columns in' "$OUTPUT"
	good=$(head_of -v check=1 <<<'-- gives ListMetricsResponse.metrics: name
select 1')
	expect_eq '' "$(compiled "$good")"
	expect_match 'no member named .nome' "$(compiled "${good/name/nome}")"
}

# tests/unit/manager/core/cluster_test.c has the same ids for the function in C.
test_shards_are_those_of_the_manager() {
	start_postgres
	start_manager
	expect_eq '1 1 0 0 5 6' "$(sql "select string_agg(shard_of(id, 7)::text, ' ' order by id)
		from unnest('{1,118,361,88570,1743392197,34315188682438}'::bigint[]) id")"
}

run_tests
