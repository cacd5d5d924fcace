#!/usr/bin/env bash
# Tasks by SQL: submitted in an application's own transaction. Who may submit, what arrives, and what is refused.
# (sql_inbox.sh, sql_keys.sh and sql_batches.sh: how managers take these tasks.)
# timeout 600
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tasks.bash"
. "$(dirname "$0")/sql_app.bash"

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
	# The linear backoff of a stage begins with 0, not with the queue's resting period.
	reeve queue set tuned --resting 5s >/dev/null
	reeve pipeline define - <<<'{"name": "steady", "stages": [{"name": "one", "type": "t", "backoff": "linear:2s"}]}' >/dev/null
	reeve schedule add steady --manual --pipeline steady --queue tuned >/dev/null
	for id in "$(app "select reeve.submit(pipeline => 'steady', queue => 'tuned')")" "$(reeve submit --pipeline steady --queue tuned)" \
		"$(reeve schedule run steady --json | jq .task_id)"; do
		expect_eq 0 "$(sql "select retry_base_ms from tasks where id = $id")"
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
	refused 22001 'details has 10001 bytes; at most 10000 are allowed' "'t', repeat('x', 10001)"
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
	said=$(cd "$TOP" && export PGHOST=$PGDIR PGDATABASE=reeve PATH=$REEVE_TEST_PG_BIN:$PATH &&
		eval "$(sed -n '/^## Rights/,/^## Parameters/s/^    psql/psql -Xq/p' docs/sql.md)")
	expect_match '^order 1 has task [0-9]+$' "$said"
	wait_ended 20 "${said##* }"
	expect_eq ann@example.org "$(field "${said##* }" result | jq -r .to)"
	expect_eq 1 "$(sql 'select count(*) from shop.orders')"
	expect_eq 1 "$(sql 'select count(*) from all_tasks')"
}

run_tests
