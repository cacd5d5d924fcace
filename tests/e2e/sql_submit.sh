#!/usr/bin/env bash
# Tasks by SQL: submitted in an application's own transaction, which delays no other caller, however long it stays open.
# timeout 900
# long
# parts 3
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/locks.bash"
. "$(dirname "$0")/tasks.bash"

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
#	open_session NAME      opens a session of the application
#	say NAME SQL           runs statements in it, and prints their output
#	say_later NAME SQL     the same, without waiting for it
#	said NAME              waits for the end of those statements, and prints their output

declare -A SESSION=()

open_session() {
	local fd
	mkfifo "$DIR/$1.in"
	exec {fd}<>"$DIR/$1.in"
	SESSION[$1]=$fd
	echo 0 >"$DIR/$1.count" # in a file: `say` is called in subshells
	start "$1" bash -c 'exec stdbuf -oL "$1" -XAtq -v VERBOSITY=terse -h "$2" -U app -d reeve <"$0" >"$0.out" 2>&1' \
		"$DIR/$1.in" "$REEVE_TEST_PG_BIN/psql" "$PGDIR"
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

test_a_role_acts_for_itself() {
	start_postgres
	start_manager
	start_worker
	grant_app
	sql "create role mallory login; grant usage on schema reeve to mallory; grant execute on function reeve.submit to mallory"
	mallory() {
		"$REEVE_TEST_PG_BIN/psql" -XAtq -v VERBOSITY=verbose -v ON_ERROR_STOP=1 -h "$PGDIR" -U mallory -d reeve -c "$1"
	}
	id=$(app "select reeve.submit('echo', 'mine', key => 'order', version => 1)")
	expect_eq "$id" "$(app "select reeve.submit('echo', 'mine', key => 'order', source => 'import')")"
	wait_ended 20 "$id"
	for parameters in '' ', version => 2' ", version => 2, source => 'app'"; do
		expect_fail 1 mallory "select reeve.submit('echo', 'not mine', key => 'order'$parameters)"
		expect_match '42501.*the key "order" in the queue "default" is of another caller.s task' "$OUTPUT"
	done
	expect_eq "mine" "$(reeve show "$id" --json | jq -r .details)"
	expect_eq "$id" "$(app "select reeve.submit('echo', 'newer', key => 'order', version => 2, source => 'import')")"
	expect_eq app/import "$(sql "select source from all_tasks where id = $id")"
	taken=$(mallory "select reeve.submit('echo', key => 'order', queue => 'other', source => 'app')")
	expect_eq mallory/app "$(sql "select source from all_tasks where id = $taken")"
	# The schema's owner names any source, and uses all keys.
	expect_eq "$id" "$(sql "select reeve.submit('echo', key => 'order', source => 'shop')")"
}

test_a_task_is_there_when_its_transaction_commits_or_not_at_all() {
	start_postgres
	start_manager
	start_worker
	grant_app
	app "begin; select reeve.submit('echo', 'rolled back'); rollback"
	kept=$(app "begin; select reeve.submit('echo', 'kept'); commit")
	mixed=$(app "begin; select reeve.submit('echo', 'before'); savepoint s; select reeve.submit('echo', 'undone');
		rollback to s; select reeve.submit('echo', 'after'); commit")
	alone=$(app "select reeve.submit('echo', 'by itself')")
	# A known type with a new priority.
	wait_ended 20 "$alone"
	high=$(app "select reeve.submit('echo', 'first of all', priority => 9)")
	wait_ended 20 "$high"
	wait_ended 20 $kept $(sed -n '1p;3p' <<<"$mixed") "$alone"
	expect_eq 'after before by itself first of all kept' "$(sql "select result from task_history order by 1" | xargs)"
	expect_eq 'app app app app app' "$(sql "select source from task_history" | xargs)"
	expect_eq 'submitted claimed completed' "$(events "$kept")"
	expect_eq 5 "$(sql 'select count(*) from all_tasks')"
	# A session that dies has submitted nothing.
	open_session dying
	say dying "begin; select reeve.submit('echo', 'died')" >/dev/null
	stop dying KILL
	wait_until 20 "[ \"\$(sql \"select count(*) from pg_stat_activity where usename = 'app'\")\" = 0 ]"
	expect_eq 0 "$(sql "select count(*) from all_tasks where details = 'died'")"
}

test_an_application_needs_two_rights_and_has_no_more() {
	start_postgres
	start_manager
	sql 'create role app login'
	expect_fail 1 app "select reeve.submit('echo')"
	expect_match '42501.*schema reeve' "$OUTPUT"
	sql 'grant usage on schema reeve to app'
	expect_fail 1 app "select reeve.submit('echo')"
	expect_match '42501.*function submit' "$OUTPUT"
	sql 'grant execute on function reeve.submit to app'
	app "select reeve.submit('echo')" >/dev/null
	# The application has no rights for anything else.
	for call in 'select * from reeve.tasks' 'delete from reeve.inbox' 'select * from reeve.inbox_ingest(0, 10)' \
		"select reeve.queue_set(gen_random_uuid(), 'q', '{}', 'x')" "select reeve.submit_task('{\"type\": \"x\"}')" \
		"select reeve.route_of('q', 't')" 'create table reeve.x ()' "select reeve.max_details()"; do
		PGOPTIONS='-c search_path=reeve' expect_fail 1 app "$call"
		expect_match 42501 "$OUTPUT" "$call"
	done
	# This is all that it has, of everything in the schema; a role without rights has nothing. Functions without prosecdef run with
	# the caller's own rights.
	sql 'create role stranger login'
	local objects="select concat_ws(' ', string_agg(c.relname, ' ')) from pg_class c where relnamespace = 'reeve'::regnamespace
		and case when relkind = 'S' then has_sequence_privilege('ROLE', oid, 'usage, select, update')
			when relkind in ('r', 'p', 'v', 'm', 'f') then has_table_privilege('ROLE', oid, 'select, insert, update, delete, truncate, references, trigger')
				or has_any_column_privilege('ROLE', oid, 'select, insert, update, references') end"
	local functions="select concat_ws(' ', string_agg(proname, ' ')) from pg_proc where pronamespace = 'reeve'::regnamespace and prosecdef and has_function_privilege('ROLE', oid, 'execute')"
	for of in 'app submit' 'stranger '; do
		expect_eq '' "$(sql "${objects//ROLE/${of% *}}")" "$of"
		expect_eq "${of#* }" "$(sql "${functions//ROLE/${of% *}}")" "$of"
		expect_eq f "$(sql "select has_schema_privilege('${of% *}', 'reeve', 'create')")"
	done
	expect_eq 't f' "$(sql "select has_schema_privilege('app', 'reeve', 'usage')") $(sql "select has_schema_privilege('stranger', 'reeve', 'usage')")"
	# Temporary tables of the caller are not used in place of Reeve's tables.
	app "create temporary table tasks (like pg_class); create temporary table keys (id int); create temporary table queues (id int);
		set search_path = pg_temp, public; select reeve.submit('echo', 'mine', key => 'k')" >/dev/null
	expect_eq 2 "$(sql 'select count(*) from reeve.tasks')"
	# Nor is a cast that the caller defines for a type of its own executed with the owner's rights.
	sql 'grant execute on function reeve.schedule to app; create schema shop authorization app'
	app "create type shop.parcel as (weight int);
		create function shop.open(p shop.parcel) returns text language plpgsql as \$\$ begin delete from reeve.tasks; return 'opened'; end \$\$;
		create cast (shop.parcel as text) with function shop.open(shop.parcel)"
	expect_eq '(7)' "$(sql "select details from reeve.tasks where id = $(app "select reeve.submit('echo', row(7)::shop.parcel)")")"
	app "select reeve.schedule('daily', 'echo', row(7)::shop.parcel, every => '1 day')" >/dev/null
	expect_eq '3 (7)' "$(sql 'select count(*) from reeve.tasks') $(sql "select spec ->> 'details' from reeve.schedules")"
	# Only functions for applications run with their owner's rights, and none is for all.
	expect_eq 'complete extend fail fetch schedule submit unschedule' "$(sql "select string_agg(proname, ' ' order by proname) from pg_proc where pronamespace = 'reeve'::regnamespace and prosecdef")"
	for call in fetch 'complete(1, 1)' "fail(1, 1, 'x')" "extend(1, 1, '1 s')"; do
		expect_fail 1 app "select reeve.${call/#fetch/fetch()}"
		expect_match 42501 "$OUTPUT" "$call"
	done
}

test_every_parameter_arrives() {
	start_postgres
	start_manager
	grant_app
	reeve queue set tuned --retry-limit 8 --backoff fixed:7s >/dev/null
	sql "insert into routes (queue, type) values ('q', 't')"
	plain=$(app "select reeve.submit('t', queue => 'q')")
	expect_eq 'q|t||0|5|60000|1000|3600000||||app|t|t' "$(sql "select queue, type, details, priority, max_attempts, timeout_ms, retry_base_ms,
		retry_max_ms, retry_policy, key, batch_id, source, run_at = created, blocked_run_at is null from tasks where id = $plain")"
	full=$(app "select reeve.submit('t', '{\"a\": \"ü\"}', queue => 'q', priority => -7, delay => '1 day 1 hour', key => 'k', key_ttl => '2 hours',
		max_attempts => 3, timeout => '1 min 30.5 s', backoff => 'poly:250ms:1.5', jitter => 10, source => 'shop')")
	expect_eq 'q|t|{"a": "ü"}|-7|3|90500|250|3600000|{"kind": "polynomial", "exponent": 1.5, "jitter_percent": 10}|k|app/shop|t' \
		"$(sql "select queue, type, details, priority, max_attempts, timeout_ms, retry_base_ms, retry_max_ms, retry_policy, key, source,
		run_at = created + interval '25 hours' from tasks where id = $full")"
	expect_eq 7200000 "$(sql "select keep_ms from keys where key = 'k' and task_id = $full")"
	expect_eq "$full" "$(app "select reeve.submit('t', queue => 'q', key => 'k')")"
	at=$(app "select reeve.submit('t', queue => 'q', run_at => '2090-01-14 08:00+01')")
	expect_eq '2090-01-14T07:00:00Z' "$(field "$at" run_at | sed 's/[.]0*Z/Z/')"
	past=$(app "select reeve.submit('t', queue => 'q', run_at => '1999-01-01')")
	expect_eq t "$(sql "select run_at = created from tasks where id = $past")"
	queues=$(app "select reeve.submit('t', queue => 'tuned')")
	expect_eq '9|7000|{"kind": "fixed"}' "$(sql "select max_attempts, retry_base_ms, retry_policy from tasks where id = $queues")"
	# Backoffs are stored as the command stores them.
	for backoff in fixed:5s linear:2s linear:2s:500ms exp:250ms exp:1s:1m poly:1s poly:1s:3 list:1s,5s,1m30s list:0; do
		id=$(app "select reeve.submit('t', queue => 'q', delay => '1 day', backoff => '$backoff')")
		other=$(reeve submit t --queue q --delay 1d --backoff $backoff)
		expect_eq t "$(sql "select (a.retry_base_ms, a.retry_max_ms, a.retry_policy) is not distinct from (b.retry_base_ms, b.retry_max_ms,
			b.retry_policy) from tasks a, tasks b where a.id = $id and b.id = $other")" "$backoff"
	done
	# Details of other types are stored as text; NULL is none.
	app "select reeve.submit('t', '{\"a\":[1,\"ü\"]}'::jsonb, queue => 'kinds'), reeve.submit('t', json '{\"a\":1}', queue => 'kinds'),
		reeve.submit('t', 42, queue => 'kinds'), reeve.submit('t', null, queue => 'kinds'), reeve.submit('t', 'x'::varchar, queue => 'kinds')" >/dev/null
	expect_eq '{"a": [1, "ü"]}|{"a":1}|42||x' "$(sql "select string_agg(details, '|' order by id) from tasks where queue = 'kinds'")"
	# A task with a batch gets the batch's queue, as with the command.
	batch=$(reeve batch open nightly --queue b)
	id=$(app "select reeve.submit('t', batch_id => $batch)")
	wait_ingested
	expect_eq "b $batch" "$(sql "select queue, batch_id from tasks where id = $id" | tr '|' ' ')"
}

test_a_task_by_sql_passes_through_a_pipeline() {
	letter_handlers
	start_postgres
	start_manager
	start_worker
	grant_app
	printf '%s' '{"name": "ab", "stages": [{"name": "one", "type": "a", "max_attempts": 2, "priority": 4}, {"name": "two", "type": "b"}]}' |
		reeve pipeline define - >/dev/null
	first=$(app "select reeve.submit(pipeline => 'ab', details => 'x')")
	wait_ended 20 "$first"
	expect_eq 'xab completed two' "$(field "$first" result) $(field "$first" status) $(field "$first" stage)"
	# One pipeline has all its routes already, another one half of them.
	again=$(app "select reeve.submit(pipeline => 'ab', details => 'y')")
	printf '%s' '{"name": "ac", "stages": [{"name": "one", "type": "a"}, {"name": "two", "type": "b"}, {"name": "three", "type": "b"}]}' |
		reeve pipeline define - >/dev/null
	sql "insert into routes (queue, type) values ('half', 'a')"
	half=$(app "select reeve.submit(pipeline => 'ac', details => 'z', queue => 'half')")
	wait_ended 20 "$again" "$half"
	expect_eq 'yab zabb' "$(field "$again" result) $(field "$half" result)"
	plan=$(app "select reeve.submit(pipeline => 'ab', delay => '1 day', priority => 1)")
	expect_eq 'a|2|4|one|1' "$(sql "select type, max_attempts, priority, stage, step from tasks where id = $plan")"
}

test_a_newer_version_by_sql_runs_the_task_again() {
	start_postgres
	start_manager
	start_worker
	grant_app
	id=$(app "select reeve.submit('echo', 'one', key => 'site', version => 1)")
	wait_ended 20 "$id"
	expect_eq "$id" "$(app "select reeve.submit('echo', 'same', key => 'site', version => 1)")"
	expect_eq "$id" "$(app "begin; select reeve.submit('echo', 'undone', key => 'site', version => 9); rollback")"
	expect_eq 'one 1' "$(field "$id" result) $(field "$id" version)"
	expect_eq "$id" "$(app "select reeve.submit('echo', 'two', key => 'site', version => 2)")"
	wait_until 20 "[ \"\$(sql \"select result from task_history where task_id = $id\")\" = two ]"
	expect_eq 'submitted claimed completed restarted claimed completed' "$(events "$id")"
	# A type that nobody knew before; the manager creates its route. And a queue with batches of its own.
	app "select reeve.submit('sha256', 'three', key => 'site', version => 3)" >/dev/null
	wait_until 20 "[ \"\$(sql \"select type from task_history where task_id = $id\")\" = sha256 ]"
	reeve queue set own --batches yes >/dev/null
	batched=$(app "select reeve.submit('echo', 'one', queue => 'own', key => 'k', version => 1)")
	wait_until 20 "[ \"\$(sql \"select phase from batches where queue = 'own'\")\" = ended ]"
	app "select reeve.submit('echo', 'two', queue => 'own', key => 'k', version => 2)" >/dev/null
	wait_until 20 "[ \"\$(sql \"select string_agg(phase || submitted || pending || completed, ' ') from batches where queue = 'own'\")\" = 'ended101 ended101' ]"
	expect_eq two "$(field "$batched" result)"
	# While it executes it runs again afterwards, also as a type that nobody knew.
	held=$(app "select reeve.submit('sh', 'until [ -e $DIR/go ]; do sleep 0.05; done', key => 'held', version => reeve.version_of('2026-01-14 08:00Z'))")
	wait_status 20 "$held" executing
	expect_eq "$held" "$(app "select reeve.submit('echo', 'again', queue => 'default', key => 'held', version => reeve.version_of('2026-01-14 08:00:01Z'))")"
	expect_eq false "$(reeve submit echo old --key held --key-version 2026-01-14T08:00:00.5Z --json | jq .restarted)"
	touch "$DIR/go"
	wait_until 20 "[ \"\$(sql \"select result from task_history where task_id = $held\")\" = again ]"
	expect_eq 'submitted claimed newer_version completed restarted claimed completed' "$(events "$held")"
	# A waiting one; and one that is submitted twice in a transaction, before a manager has seen it.
	later=$(app "select reeve.submit('nothing', 'x', key => 'later', version => 1, delay => '1 day')")
	app "select reeve.submit('echo', 'now', key => 'later', version => 2)" >/dev/null
	twice=$(app "begin; select reeve.submit('new', 'x', queue => 'unknown', key => 'twice', version => 1);
		select reeve.submit('newer', 'y', queue => 'unknown', key => 'twice', version => 2); commit" | sort -u)
	wait_ended 20 "$later"
	wait_ingested
	expect_eq 'newer y' "$(field "$twice" type) $(field "$twice" details)"
	expect_eq '' "$(sql "$(cat "$TOP/tests/faults/live_counts.sql")")"
}

refused() { # SQLSTATE MESSAGE ARGUMENTS: the call is refused so
	expect_fail 1 app "select reeve.submit($3)"
	expect_match "ERROR:  $1: $2" "$OUTPUT" "$3"
}

test_invalid_input_is_refused_and_nothing_is_lost() {
	start_postgres
	start_manager manager --max-details 10000
	grant_app
	batch=$(reeve batch open one --queue q)
	closed=$(reeve batch open two --queue q)
	reeve batch close "$closed" >/dev/null
	before=$(counts)
	refused 22004 'type is NULL' ''
	refused 22004 'type is NULL' 'null'
	refused 22001 'details has 10001 bytes; at most 10000 are taken' "'t', repeat('x', 10001)"
	refused 22001 'details has 12000 bytes' "'t', repeat('ü', 6000)"
	refused 22023 'type is empty' "''"
	refused 22001 'type has 256 bytes; at most 255' "repeat('x', 256)"
	refused 22023 'type holds a control' "E'a\\nb'"
	refused 22023 'type holds a control' "U&'a\\0085b'"
	refused 22023 'queue is empty' "'t', queue => ''"
	refused 22001 'queue has 300 bytes' "'t', queue => repeat('x', 300)"
	refused 22023 'key is empty' "'t', key => ''"
	refused 22001 'key has 256' "'t', key => repeat('x', 256)"
	refused 22023 'key holds' "'t', key => E'\\t'"
	refused 22023 'source is empty' "'t', source => ''"
	refused 22001 'source has' "'t', source => repeat('x', 256)"
	refused 22023 'priority is 1000001; it must be from -1000000 to 1000000' "'t', priority => 1000001"
	refused 22023 'priority is -1000001' "'t', priority => -1000001"
	refused 22023 'delay is -00:00:01' "'t', delay => '-1 s'"
	refused 22023 'delay is 101 years' "'t', delay => '101 years'"
	refused 22023 'delay and run_at cannot be combined' "'t', delay => '1 s', run_at => now()"
	refused 22023 'run_at is infinity' "'t', run_at => 'infinity'"
	refused 22023 'run_at is -infinity' "'t', run_at => '-infinity'"
	refused 22023 'run_at is 1969' "'t', run_at => '1969-12-31 00:00Z'"
	refused 22023 'run_at is 10000' "'t', run_at => '10000-01-02 00:00Z'"
	refused 22023 'version needs a key' "'t', version => 1"
	refused 22023 'version is 0; it must be at least 1' "'t', key => 'k', version => 0"
	refused 22023 'version cannot be combined with batch_id by SQL' "'t', key => 'k', version => 1, batch_id => $batch"
	refused 22023 'key_ttl needs a key' "'t', key_ttl => '1 h'"
	refused 22023 'key_ttl is 00:00:00' "'t', key => 'k', key_ttl => '0'"
	refused 22023 'max_attempts is 0; it must be from 1 to 10000' "'t', max_attempts => 0"
	refused 22023 'max_attempts is 10001' "'t', max_attempts => 10001"
	refused 22023 'timeout is 31 days; it must be from 00:00:00.001 to 30 days' "'t', timeout => '31 days'"
	refused 22023 'timeout is 00:00:00' "'t', timeout => '0'"
	refused 22023 'backoff is "often": it is invalid' "'t', backoff => 'often'"
	refused 22023 'backoff is "exp:5x"' "'t', backoff => 'exp:5x'"
	refused 22023 'backoff is "fixed:0": it has a delay of 0' "'t', backoff => 'fixed:0'"
	refused 22023 'backoff is "fixed:1s:2s"' "'t', backoff => 'fixed:1s:2s'"
	refused 22023 'backoff is "poly:1s:11": the exponent' "'t', backoff => 'poly:1s:11'"
	refused 22023 'backoff is "fixed:366d"' "'t', backoff => 'fixed:366d'"
	refused 22023 'jitter is 101' "'t', backoff => 'fixed:1s', jitter => 101"
	refused 22023 'jitter needs backoff' "'t', jitter => 10"
	refused 22023 'there is no batch 999' "'t', batch_id => 999"
	refused 22023 "batch $batch is of queue \"q\", the task of \"other\"" "'t', queue => 'other', batch_id => $batch"
	refused 55000 "batch $closed was closed at" "'t', batch_id => $closed"
	refused 22023 'there is no pipeline "no"' "pipeline => 'no'"
	refused 22023 'type cannot be combined with pipeline' "'t', pipeline => 'no'"
	refused 42883 'function reeve.submit' "'t', verson => 3"
	expect_eq "$before" "$(counts)"
	expect_eq 0 "$(sql 'select count(*) from inbox')"
	# Values of the maximum length arrive. After a refused submit, an application that handles the error can continue
	# its transaction.
	app "select reeve.submit('t', repeat('x', 10000), key => repeat('k', 255))" >/dev/null
	expect_eq 2 "$(app "begin; select reeve.submit('t'); savepoint s;
		do \$\$ begin perform reeve.submit('t', null); exception when null_value_not_allowed then null; end \$\$;
		select reeve.submit('t'); commit" | wc -l)"
	# The smallest limit of the running managers applies.
	start_manager second --max-details 5000
	refused 22001 'details has 6000 bytes; at most 5000' "'t', repeat('x', 6000)"
	stop second
	app "select reeve.submit('t', repeat('x', 6000))" >/dev/null
}

# Measures the times, in ms, from a transaction's commit to the claim of its task.
# measures time
test_a_commit_is_noticed_at_once_however_long_the_transaction_was_open() {
	local n=50 open=${REEVE_LONG_TRANSACTION_S:-20} pids=()
	start_postgres -c max_connections=150
	start_manager other # one without workers: it prefers half of the tasks, and must not keep them from being taken
	start_manager
	handlers <<-END
		[handler sh]
		exec = /bin/bash
		[handler late]
		exec = /bin/true
		[handler passing]
		exec = /bin/true
	END
	start_worker worker --concurrency 100 # always with a free slot
	grant_app
	reeve wait "$(reeve submit late)" "$(reeve submit passing)" >/dev/null
	for i in $(seq "$n"); do
		# Each transaction commits at a different time.
		app "begin; select reeve.submit('late', '$i'); select pg_sleep($open + $i * 0.2); commit;
			select extract(epoch from clock_timestamp())" >"$DIR/long.$i" &
		pids+=($!)
	done
	# At the same time other tasks run, of the same stream and of another.
	(
		while [ ! -e "$DIR/enough" ]; do
			for i in $(seq 10); do echo '{}'; done | reeve submit late --bulk - >/dev/null
			app "select reeve.submit('passing') from generate_series(1, 10)" >/dev/null
			sleep 0.5
		done
	) &
	passing=$!
	for pid in "${pids[@]}"; do wait "$pid"; done
	touch "$DIR/enough"
	wait "$passing"
	for i in $(seq "$n"); do
		read -r id < <(sed -n 1p "$DIR/long.$i")
		wait_ended 20 "$id"
		sql "select greatest(0, round(1000 * (extract(epoch from first_started) - $(tail -n 1 "$DIR/long.$i"))))
			from task_history where task_id = $id"
	done | sort -n >"$DIR/times"
	figure "open for $open s, $n times: median $(sed -n "$((n / 2))p" "$DIR/times") ms, worst $(tail -n 1 "$DIR/times") ms"
	expect_eq "$n" "$(wc -l <"$DIR/times")"
	# A busy machine delays single tasks, so the limits apply to the median and the 90th percentile.
	expect [ "$(sed -n "$((n / 2))p" "$DIR/times")" -le 100 ]
	expect [ "$(sed -n "$((n * 9 / 10))p" "$DIR/times")" -le 1000 ]
}

test_a_new_type_in_an_open_transaction_delays_no_other() {
	start_postgres
	start_manager
	start_worker
	grant_app
	open_session shop
	first=$(say shop "begin; select reeve.submit('echo', 'by sql', queue => 'new')")
	expect_match '^[0-9]+$' "$first"
	# The same new type and queue by a call, and in another queue from another session.
	expect_eq 'by call' "$(timeout 10 "$REEVE_BIN/reeve" submit echo 'by call' --queue new --wait)"
	other=$(app "select reeve.submit('echo', 'another', queue => 'newer')")
	wait_ended 20 "$other"
	expect_eq '' "$(sql "select id from tasks")"
	say shop commit
	wait_ended 20 "$first"
	expect_eq 'by sql' "$(field "$first" result)"
	expect_eq 0 "$(sql 'select count(*) from task_history where route_id = 0')"
	expect_eq 0 "$(sql 'select count(*) from inbox')"
	# A submit that is rolled back leaves no type.
	say shop "begin; select reeve.submit('never'); rollback" >/dev/null
	expect_eq 0 "$(sql "select count(*) from routes where type = 'never'")"
}

# Each of many new types is ingested without reading all the others; otherwise the last ones would wait very long.
test_many_new_types_are_ingested_one_by_one() {
	local read
	start_postgres
	start_manager
	grant_app
	stop manager
	expect_eq 1000 "$(app "select count(reeve.submit('type ' || n)) from generate_series(1, 1000) n")"
	sql 'analyze tasks; analyze inbox'
	read=$(sql "select ingested from inbox_ingest(0, 10);
		select seq_tup_read + idx_tup_fetch from pg_stat_xact_user_tables where relname = 'tasks'" | paste -sd ' ')
	note "ingested, and rows of tasks read: $read"
	expect_match '^1 [0-9]+$' "$read"
	expect [ "${read#1 }" -lt 200 ]
	start_manager
	wait_until 120 '[ "$(sql "select count(*) from inbox")" = 0 ]'
	expect_eq 1000 "$(sql 'select count(distinct route_id) from tasks where route_id > 0')"
}

# A task in the inbox behaves like any waiting task.
test_a_task_that_is_not_ingested_yet_can_be_shown_changed_and_ended() {
	start_postgres
	start_manager
	start_worker
	grant_app
	open_session lock
	sql 'grant select, update on reeve.inbox to app'
	batch=$(reeve batch open b)
	stop manager
	b=$(app "select reeve.submit('echo', 'b', queue => 'w')")
	c=$(app "select reeve.submit('echo', 'c', queue => 'w', delay => '1 day')")
	d=$(app "select reeve.submit('echo', 'd', queue => 'w')")
	# While these rows are locked, no manager can ingest them.
	e=$(app "select reeve.submit('echo', 'e', batch_id => $batch)")
	f=$(app "select reeve.submit('echo', 'f', batch_id => $batch)")
	expect_eq 5 "$(say lock "begin; select task_id from reeve.inbox for update" | wc -l)"
	start_manager
	start_worker second
	for id in "$b" "$c" "$d"; do
		expect_eq queued "$(field "$id" status)"
		expect_match "$id +queued" "$(reeve list)"
	done
	reeve update "$c" --priority 5 --delay 0s >/dev/null
	reeve update "$b" --priority 7 >/dev/null
	expect_eq '7 5' "$(field "$b" priority) $(field "$c" priority)"
	reeve cancel "$d" "$e" >/dev/null
	expect_eq 'cancelled cancelled' "$(field "$d" status) $(field "$e" status)"
	expect_eq '0|0|0|0' "$(totals "$batch")" 'it was never counted'
	expect_eq 0 "$(sql 'select count(*) from assignments where closed_at is null')"
	# A retry before a manager has created the route.
	expect_eq d "$(reeve retry "$d" >/dev/null && timeout 20 "$REEVE_BIN/reeve" wait "$d" >/dev/null && field "$d" result)"
	say lock rollback
	wait_ended 20 "$b" "$c" "$f"
	expect_eq '1|0|1|0' "$(totals "$batch")"
	expect_eq 'b c' "$(field "$b" result) $(field "$c" result)"
	wait_ingested
	expect_eq 3 "$(sql "select count(*) from task_history where route_id = (select id from routes where queue = 'w')")"
}

test_an_open_key_keeps_only_those_waiting_who_want_it() {
	start_postgres
	start_manager
	start_manager second
	start_worker worker --concurrency 8
	grant_app
	reeve submit nothing --queue q --wait >/dev/null
	open_session shop
	open_session rival
	id=$(say shop "begin; select reeve.submit('nothing', queue => 'q', key => 'k')")
	say_later rival "begin; select reeve.submit('nothing', queue => 'q', key => 'k')"
	for n in 1 2 3; do
		url=${URL[manager]}
		[ $n = 3 ] || url=${URL[second]}
		reeve submit nothing --queue q --key k --manager "$url" >"$DIR/same.$n" 2>"$DIR/same.$n.log" &
		same[n]=$!
	done
	wait_until 20 'blocked keys'
	# At the same time, more than a thousand submits with other keys, through both managers.
	began=$(ms)
	for n in $(seq 500); do echo "{\"key\": \"key $n\"}"; done >"$DIR/keyed"
	for name in manager second; do
		timeout 60 "$REEVE_BIN/reeve" submit nothing --queue q --bulk "$DIR/keyed" --manager "${URL[$name]}" >"$DIR/ids.$name" 2>"$DIR/bulk.log"
		expect_eq 500 "$(sort -u "$DIR/ids.$name" | wc -l)"
	done
	expect_eq "$(cat "$DIR/ids.manager")" "$(cat "$DIR/ids.second")"
	pids=()
	for n in $(seq 40); do
		url=${URL[manager]}
		[ $((n % 2)) = 0 ] || url=${URL[second]}
		timeout 60 "$REEVE_BIN/reeve" submit nothing --queue q --key "single $n" --manager "$url" >>"$DIR/single" &
		pids+=($!)
	done
	for pid in "${pids[@]}"; do wait "$pid"; done
	figure "others took $(($(ms) - began)) ms"
	expect_eq 40 "$(sort -u "$DIR/single" | wc -l)"
	expect_eq 540 "$(sql "select count(*) from keys where key <> 'k'")"
	for n in 1 2 3; do expect_eq '' "$(cat "$DIR/same.$n")"; done
	say shop commit >/dev/null
	for n in 1 2 3; do
		wait "${same[n]}"
		expect_eq "$id" "$(cat "$DIR/same.$n")"
	done
	expect_eq "$id" "$(said rival)"
	say rival commit
	wait_ended 20 "$id"
	expect_eq 1 "$(sql "select count(*) from all_tasks where key = 'k'")"
	# After a rollback, the key goes to the next submit.
	gone=$(say shop "begin; select reeve.submit('nothing', queue => 'q', key => 'r')")
	say_later rival "select reeve.submit('nothing', queue => 'q', key => 'r')"
	wait_until 20 "[ \"\$(sql \"select count(*) from pg_stat_activity where usename = 'app' and wait_event_type = 'Lock'\")\" = 1 ]"
	say shop rollback
	next=$(said rival)
	expect [ "$next" != "$gone" ]
	expect_eq "$next" "$(reeve submit nothing --queue q --key r 2>/dev/null)"
	# A submit whose key stays locked is answered with an error in the end: the caller may try again.
	say shop "begin; select reeve.submit('nothing', queue => 'q', key => 'never')" >/dev/null
	expect_fail 3 timeout 60 "$REEVE_BIN/reeve" submit nothing --queue q --key never
	expect_match 'its key is used by a transaction that is not committed yet' "$OUTPUT"
}

# Sixty callers each want a different key of an open transaction. Without the shorter lock timeout, it takes 300 ms to
# find each of them.
# measures time
test_many_open_keys_keep_no_others_waiting() {
	local n=60 pids=() began
	start_postgres
	start_manager
	grant_app
	reeve submit nothing --queue q >/dev/null
	open_session shop
	say shop "begin; select count(reeve.submit('nothing', queue => 'q', key => 'k' || i)) from generate_series(1, $n) i" >/dev/null
	for i in $(seq $n); do
		"$REEVE_BIN/reeve" submit nothing --queue q --key "k$i" >>"$DIR/same" 2>>"$DIR/same.log" &
		pids+=($!)
	done
	wait_until 20 'blocked submit'
	began=$(ms)
	timeout 60 "$REEVE_BIN/reeve" submit nothing --queue other >/dev/null
	figure "it took $(($(ms) - began)) ms"
	expect [ $(($(ms) - began)) -lt $((n * 300 / 2)) ]
	say shop commit
	for pid in "${pids[@]}"; do wait "$pid" || true; done
	expect_eq $((n + 2)) "$(sql 'select count(*) from tasks')"
}

test_who_waits_for_an_open_key_holds_no_batch_and_no_edit() {
	start_postgres
	start_manager
	grant_app
	batch=$(reeve batch open b --queue q)
	open_session shop
	id=$(say shop "begin; select reeve.submit('nothing', queue => 'q', key => 'k')")
	"$REEVE_BIN/reeve" submit nothing --batch "$batch" --queue q --key k >"$DIR/same" 2>"$DIR/same.log" &
	caller=$!
	for _ in $(seq 30); do
		wait_until 20 'blocked keys'
		expect_eq '' "$(sql "select pid from pg_locks where relation = 'batches'::regclass and mode <> 'AccessShareLock'")"
		expect_eq "$batch" "$(sql "select id from batches where id = $batch for update nowait")"
	done
	say shop commit
	wait "$caller"
	expect_eq "$id" "$(cat "$DIR/same")"
	# Nor does a manual run of a schedule: it gets an error, and the other operations of its connection are executed.
	reeve schedule add export --manual nothing --queue q --key fixed >/dev/null
	id=$(say shop "begin; select reeve.submit('nothing', queue => 'q', key => 'fixed')")
	expect_fail 3 timeout 100 "$REEVE_BIN/reeve" schedule run export
	expect_match 'is used by a transaction that is not committed yet; try again' "$OUTPUT"
	say shop commit
	expect_eq "$id" "$(reeve schedule run export)"
}

test_a_key_whose_lifetime_is_over_is_free() {
	start_postgres
	start_manager
	start_worker
	grant_app
	one=$(app "select reeve.submit('nothing', key => 'k', key_ttl => '10 ms')")
	wait_ended 20 "$one"
	two=$(app "select reeve.submit('nothing', key => 'k')")
	expect [ "$one" != "$two" ]
	expect_eq "$two" "$(app "select reeve.submit('nothing', key => 'k')")"
	# An ended task can be retried even while an open transaction gives its key to another task.
	three=$(app "select reeve.submit('nothing', key => 'other')")
	wait_ended 20 "$three"
	sql "update keys set expires_at = clock_timestamp() where key = 'other'"
	open_session shop
	four=$(say shop "begin; select reeve.submit('nothing', key => 'other')")
	expect [ "$three" != "$four" ]
	expect timeout 20 "$REEVE_BIN/reeve" retry "$three" >/dev/null
	say shop commit
	wait_ended 20 "$three" "$four"
}

test_batches_count_exactly_and_wait_for_no_transaction() {
	start_postgres
	handlers <<-'END'
		[handler sh]
		exec = /bin/bash
		[handler echo]
		exec = /bin/cat
		[handler prepare]
		exec = /bin/true
		[handler finish]
		exec = /bin/true
	END
	start_manager
	start_worker worker --concurrency 8
	grant_app
	id=$(reeve batch open mixed --queue b --entry prepare --exit finish)
	open_session shop
	late=$(say shop "begin; select reeve.submit('echo', n::text, batch_id => $id) from generate_series(1, 5) n")
	expect_eq 5 "$(wc -l <<<"$late")"
	expect_eq '0|0|0|0' "$(totals "$id")"
	# The batch begins and its other tasks end while the transaction is open.
	for n in $(seq 20); do echo "{\"details\": \"$n\"}"; done >"$DIR/lines"
	expect timeout 30 "$REEVE_BIN/reeve" wait $(reeve submit echo --bulk "$DIR/lines" --batch "$id") >/dev/null
	expect_eq '20|0|20|0' "$(totals "$id")"
	say shop commit
	wait_ended 20 $late
	expect_eq '25|0|25|0' "$(totals "$id")"
	# The batch is closed while a transaction is open: the task of the transaction ends dead, with the reason.
	open=$(say shop "begin; select reeve.submit('echo', 'too late', batch_id => $id)")
	reeve batch close "$id" >/dev/null
	expect reeve batch wait "$id" --max-wait 20s
	say shop commit
	wait_ended 20 "$open"
	expect_eq 'dead batch_closed' "$(field "$open" status) $(field "$open" error_code)"
	expect_match "batch $id was closed at" "$(field "$open" last_error)"
	expect_eq '25|0|25|0' "$(totals "$id")"
	# Its details are not lost: after a manual retry it runs without the batch.
	reeve retry "$open" >/dev/null
	wait_status 20 "$open" completed
	# A batch whose entry task starts because of a task by SQL.
	first=$(reeve batch open first --queue b --entry prepare)
	only=$(app "select reeve.submit('echo', 'only', batch_id => $first)")
	wait_ended 20 "$only"
	reeve batch close "$first" >/dev/null
	expect reeve batch wait "$first" --max-wait 20s
	expect_eq 'completed|1|1' "$(sql "select entry_status, submitted, completed from batches where id = $first")"
}

# The manager reads the inbox only after both were committed: the task, and the end of the batch.
test_a_batch_takes_what_was_submitted_before_it_was_closed() {
	start_postgres
	start_manager
	start_worker worker
	grant_app
	reeve submit echo --queue b --wait >/dev/null # so that the type is known
	first=$(reeve batch open first --queue b) second=$(reeve batch open second --queue b)
	reeve submit echo --queue b --batch "$second" --wait >/dev/null
	stop manager
	some=$(app "select reeve.submit('echo', n::text, batch_id => $first) from generate_series(1, 3) n")
	more=$(app "select reeve.submit('echo', 'more', batch_id => $second)")
	gone=$(app "select reeve.submit('echo', 'gone', batch_id => $first)")
	sql "set role reeve; select batch_close(gen_random_uuid(), $first), batch_close(gen_random_uuid(), $second); delete from tasks where id = $gone" >/dev/null
	start_manager
	expect reeve batch wait "$first" --max-wait 30s
	expect reeve batch wait "$second" --max-wait 30s
	expect_eq '3|0|3|0 2|0|2|0' "$(totals "$first") $(totals "$second")"
	expect_eq completed "$(sql "select string_agg(distinct status, ' ') from task_history where task_id in ($(xargs <<<"$some" | tr ' ' ,), $more)")"
	expect_eq 0 "$(sql 'select count(*) from inbox')"
}

test_implicit_batches_take_tasks_by_sql() {
	start_postgres
	start_manager
	start_worker worker --concurrency 4
	grant_app
	reeve queue set i --batches yes >/dev/null
	open_session shop
	late=$(say shop "begin; select reeve.submit('echo', 'late', queue => 'i')")
	other=$(reeve submit echo --queue i)
	expect timeout 20 "$REEVE_BIN/reeve" wait "$other" >/dev/null
	wait_until 20 "[ \"\$(sql \"select count(*) from batches where queue = 'i' and phase = 'ended' and submitted = 1\")\" = 1 ]"
	say shop commit
	wait_ended 20 "$late"
	wait_until 20 "[ \"\$(sql \"select count(*) from batches where queue = 'i' and phase = 'ended' and submitted = 1 and completed = 1\")\" = 2 ]"
	expect [ "$(field "$late" batch_id)" -gt "$(field "$other" batch_id)" ]
	# A queue without autostart waits for its start with these tasks, too.
	reeve queue set m --batches yes --autostart no >/dev/null
	waiting=$(app "select reeve.submit('echo', 'wait', queue => 'm')")
	wait_ingested
	expect_eq not_started "$(sql "select state from queues where name = 'm'")"
	reeve queue start m >/dev/null
	wait_ended 20 "$waiting"
}

test_a_stopped_queue_starts_with_what_comes_after_the_stop() {
	start_postgres
	start_manager
	start_worker
	grant_app
	for settings in no yes; do
		q=stopped-$settings
		reeve queue set "$q" --batches $settings >/dev/null
		reeve submit echo --queue "$q" --wait >/dev/null
		open_session "$q"
		# Tasks that were submitted before the stop, in a transaction that commits after it, end like all others.
		before=$(say "$q" "begin; select reeve.submit('echo', queue => '$q')")
		new_type=$(say "$q" "select reeve.submit('echo new', queue => '$q')")
		reeve queue stop "$q" >/dev/null
		wait_until 20 "[ \"\$(sql \"select state from queues where name = '$q'\")\" = stopped ]"
		say "$q" commit
		wait_ended 20 "$before" "$new_type"
		expect_eq 'dead dead' "$(field "$before" status) $(field "$new_type" status)"
		expect_match "queue \"$q\" was stopped" "$(field "$before" last_error)"
		expect_eq stopped "$(sql "select state from queues where name = '$q'")"
		after=$(app "select reeve.submit('echo', 'after', queue => '$q')")
		wait_ended 20 "$after"
		expect_eq completed "$(field "$after" status)"
		expect_eq running "$(sql "select state from queues where name = '$q'")"
	done
}

test_tasks_that_came_while_no_manager_was_there_are_found() {
	start_postgres
	start_manager
	grant_app
	reeve queue set i --batches yes >/dev/null
	reeve submit nothing --wait >/dev/null &
	waiting=$!
	start_worker
	wait "$waiting"
	batch=$(reeve batch open b)
	kill_manager
	known=$(app "select reeve.submit('nothing')")
	new=$(app "select reeve.submit('echo', queue => 'new')")
	implicit=$(app "select reeve.submit('nothing', queue => 'i')")
	explicit=$(app "select reeve.submit('nothing', batch_id => $batch)")
	start_manager
	wait_ended 60 "$known" "$new" "$implicit" "$explicit"
	expect_eq 4 "$(sql "select count(*) from task_history where task_id >= $known and status = 'completed'")"
	# The notification is lost: the next poll finds them.
	sql "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'reeve-manager listen'" >/dev/null
	a=$(app "select reeve.submit('nothing')")
	b=$(app "select reeve.submit('nothing', queue => 'newer')")
	wait_ended 60 "$a" "$b"
}

# Two managers, one of which is killed in each round: each task is ingested once, and batches count exactly.
test_managers_that_die_while_they_ingest_lose_and_double_nothing() {
	start_postgres
	start_manager
	start_manager second
	export REEVE_MANAGER="${URL[manager]},${URL[second]}"
	start_worker worker --concurrency 8
	grant_app
	reeve queue set i --batches yes >/dev/null
	batch=$(reeve batch open b --queue e)
	for round in 1 2 3 4; do
		(app "select reeve.submit('nothing', queue => 'i') from generate_series(1, 120)" >/dev/null) &
		one=$!
		(app "select reeve.submit('nothing', batch_id => $batch) from generate_series(1, 120)" >/dev/null) &
		two=$!
		app "select reeve.submit('nothing', queue => 'n$round') from generate_series(1, 40)" >/dev/null
		case $round in [13]) name=manager ;; *) name=second ;; esac
		kill_manager $name
		wait $one
		wait $two
		start_manager $name
	done
	wait_until 120 "[ \"\$(sql 'select count(*) from task_history')\" = 1120 ]"
	expect_eq 0 "$(sql "select count(*) from tasks")"
	expect_eq 0 "$(sql "select count(*) from inbox")"
	expect_eq 1120 "$(sql "select count(*) from task_history where status = 'completed'")"
	expect_eq 0 "$(sql 'select count(*) from (select from task_history group by task_id having count(*) > 1) d')"
	expect_eq '480|0|480|0' "$(totals "$batch")"
	expect_eq '480|0|480|0' "$(sql "select sum(submitted), sum(pending), sum(completed), sum(failed) from batches where implicit")"
	expect_eq 0 "$(sql "select count(*) from batches b where b.submitted <> (select count(*) from task_history h where h.batch_id = b.id)")"
}

test_many_rows_of_a_table_become_tasks_by_one_statement() {
	start_postgres
	start_manager
	start_worker worker --concurrency 8
	grant_app
	reeve submit nothing --queue many --wait >/dev/null
	began=$(ms)
	expect_eq 10000 "$(app "select count(reeve.submit('nothing', n::text, queue => 'many', delay => '1 hour')) from generate_series(1, 10000) n")"
	figure "10,000 tasks by one statement: $(($(ms) - began)) ms"
	began=$(ms)
	expect_eq 10000 "$(app "select count(reeve.submit('nothing', n::text, queue => 'fresh', delay => '1 hour')) from generate_series(1, 10000) n")"
	wait_ingested
	figure "10,000 tasks of a new type: $(($(ms) - began)) ms until all were ingested"
}

test_the_example_runs() {
	start_postgres
	start_manager
	handlers <<-END
		[handler mail]
		exec = /bin/cat
	END
	start_worker
	grant_app
	sql 'create schema shop authorization app'
	said=$(PGOPTIONS='-c search_path=shop' psql_app -v ON_ERROR_STOP=1 -f "$TOP/examples/sql/orders.sql")
	expect_match '^order 1 has task [0-9]+$' "$said"
	wait_ended 20 "${said##* }"
	expect_eq ann@example.org "$(field "${said##* }" result | jq -r .to)"
	expect_eq 1 "$(sql 'select count(*) from shop.orders')"
	expect_eq 1 "$(sql 'select count(*) from all_tasks')"
}

run_tests
