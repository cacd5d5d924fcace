#!/usr/bin/env bash
# The SQL statements that leases depend on, one at a time. Each condition in them is needed: a simpler design failed
# without it.
# quick
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/ledger.bash"
. "$(dirname "$0")/locks.bash"

# Sets up a database as a manager creates it, with a worker (id 1) and a route. Only the test uses it.
set_up() {
	start_postgres
	start_manager
	stop manager
	sql "insert into routes (queue, type) values ('q', 't');
		insert into workers (name, host, pid) values ('w', 'h', 7)" >/dev/null
}

# Prints a statement's parameters, separated by commas: those given, then null for each of the others.
padded() { # NAME PARAMETER…
	local name=$1 count list
	shift
	count=$(grep -v '^--' "$STATEMENTS/$name.sql" | grep -o '\$[0-9]*' | tr -d '$' | sort -n | tail -n 1)
	list=$(printf ', %s' "$@")
	while [ $# -lt "$count" ]; do
		list="$list, null"
		set -- "$@" null
	done
	echo "${list#, }"
}

# Runs one of the manager's statements. Its parameters are SQL literals, or NULL. Prints columns separated by |.
run() { # NAME PARAMETER…
	local name=$1 list
	list=$(padded "$@")
	sql "set role reeve; prepare s as $(<"$STATEMENTS/$name.sql")
		; execute s($list)"
}

tasks() { # COUNT: makes tasks that wait; their ids are 1 and following
	sql "insert into tasks (route_id, queue, type, run_at, created, last_updated)
		select 1, 'q', 't', now(), now(), now() from generate_series(1, $1)" >/dev/null
}

claim() { # ID WORKER FETCH: prints the ids won
	local version
	version=$(sql "select last_updated from tasks where id = $1")
	run claim "'{$1}'" "'{\"$version\"}'" "'{1}'" "'{$2}'" "'{$3}'" 60000 | cut -d '|' -f 1
}

beat() { # '{SEQ}': a heartbeat of worker 1
	run heartbeat "'{1}'" "$1" "'{running}'" "'{0}'" "'{0}'" "'{0}'"
}

token() { # ID
	sql "select last_updated from tasks where id = $1"
}

lose() { # WORKER: whatever its heartbeats say
	sql "update workers set lost = true, gone_at = now() where id = $1" >/dev/null
}

end_attempt() { # ID OUTCOME: prints what becomes of the task
	run end_attempts "'{$1}'" "'{\"$(token "$1")\"}'" "'{$2}'" "'{e}'" "'{c}'" "$([[ $2 = lost || $2 = requeued ]] && echo false || echo true)" 30 |
		cut -d '|' -f 3
}

test_the_times_must_go_together() {
	start_postgres
	manager() {
		timeout 20 "$REEVE_BIN/reeve-manager" --database "$CONNINFO" --listen tcp://127.0.0.1:0 "$@"
	}
	expect_fail 2 manager --lease 1s --heartbeat 401ms --expiry-grace 2s
	expect_match 'heartbeat .401 ms. must be at most 2/5 of --lease .1000 ms.' "$OUTPUT"
	expect_fail 2 manager --lease 2s
	expect_match 'heartbeat .4000 ms.' "$OUTPUT"
	expect_fail 2 manager --lease 1s --heartbeat 400ms --expiry-grace 1s
	expect_match 'expiry-grace .1000 ms. must be longer than --lease .1000 ms.' "$OUTPUT"
	expect_fail 2 manager --lease 499ms --heartbeat 100ms
	expect_fail 2 manager --lease 500ms --heartbeat 99ms
	start_manager --lease 1s --heartbeat 400ms --expiry-grace 1001ms
	start_worker
	reeve submit nothing --wait
}

test_a_claim_needs_a_worker_that_is_not_lost() {
	set_up
	tasks 3
	expect_eq 1 "$(claim 1 1 1)"
	lose 1
	expect_eq '' "$(claim 2 1 2)"
	expect_eq '' "$(claim 3 99 1)" 'a worker that there is not'
	expect_eq 'executing queued queued' "$(sql 'select status from tasks order by id' | xargs)"
}

test_heartbeats_only_move_forward_and_revive_no_worker() {
	set_up
	expect_eq 1 "$(beat "'{5}'")"
	expect_eq '' "$(beat "'{5}'")" 'doubled'
	expect_eq '' "$(beat "'{4}'")" 'late'
	expect_eq 5 "$(sql 'select hb_seq from workers')"
	lose 1
	expect_eq '' "$(beat "'{6}'")"
	expect_eq 't 5' "$(sql "select lost, hb_seq from workers" | tr '|' ' ')"
}

test_a_worker_that_moved_on_is_not_lost() {
	set_up
	beat "'{5}'" >/dev/null
	expect_eq '' "$(run worker_lose "'{1}'" "'{4}'" "'m'")"
	expect_eq f "$(sql 'select lost from workers')"
	expect_eq '1|w' "$(run worker_lose "'{1}'" "'{5}'" "'m'")"
	expect_eq '' "$(run worker_lose "'{1}'" "'{5}'" "'m'")" 'twice'
	expect_eq 't|t' "$(sql 'select lost, gone_at is not null from workers')"
	expect_eq 'lost m 1' "$(sql "select event, actor, count(*) from worker_events group by 1, 2" | tr '|' ' ')"
	expect_eq '' "$(run workers_watch | cut -d '|' -f 1)" 'who is lost is not watched'
}

# Callers can invent workers as fast as they like: of many that are lost at once, the log names only a few.
test_the_log_names_a_few_of_many_that_are_lost() {
	set_up
	sql "delete from workers; insert into workers (name, lease_ms) select 'made up ' || n, 500 from generate_series(1, 300) n" >/dev/null
	start_manager
	wait_until 20 '[ "$(sql "select count(*) from workers where not lost")" = 0 ]'
	wait_until 20 'grep -q "lease: 290 more workers are lost: no heartbeat for a lease" "$DIR/log/manager.log"'
	expect_eq 10 "$(grep -c 'worker made up .* is lost: no heartbeat for a lease' "$DIR/log/manager.log")"
}

# The heartbeat begins before the loss and commits after it: the loss leaves a row that is locked, and then finds the new
# number in it.
test_a_heartbeat_under_way_forestalls_the_loss() {
	set_up
	(
		printf 'prepare s as\n%s;\nbegin;\n' "$(cat "$STATEMENTS/heartbeat.sql")"
		echo "execute s($(padded heartbeat "'{1}'" "'{5}'" "'{running}'" "'{0}'" "'{0}'" "'{0}'"));"
		echo "\\! touch $DIR/beating; until [ -e $DIR/lost ]; do sleep 0.05; done"
		echo 'commit;'
	) | "$REEVE_TEST_PG_BIN/psql" -XAtq "host=$PGDIR user=reeve dbname=reeve options=-csearch_path=reeve" >/dev/null &
	pid=$!
	wait_until 10 '[ -e "$DIR/beating" ]'
	expect_eq '' "$(run worker_lose "'{1}'" "'{0}'" "'m'")"
	touch "$DIR/lost"
	wait "$pid"
	expect_eq '' "$(run worker_lose "'{1}'" "'{0}'" "'m'")"
	expect_eq 'f|5' "$(sql 'select lost, hb_seq from workers')"
}

test_the_scan_finds_what_lost_workers_hold() {
	set_up
	sql "insert into workers (name) values ('other')" >/dev/null
	tasks 5
	claim 1 1 1 >/dev/null
	claim 2 1 2 >/dev/null
	claim 3 2 1 >/dev/null
	expect_eq '' "$(run lost_find 50 NULL 0 0)" 'while all live'
	lose 1
	expect_eq '1 2' "$(run lost_find 50 NULL 0 0 | cut -d '|' -f 1 | xargs)"
	expect_eq '1 2' "$(run lost_find 50 "'{1,2}'" 0 0 | cut -d '|' -f 1 | xargs)"
	expect_eq '' "$(run lost_find 50 "'{2}'" 0 0 | cut -d '|' -f 1 | xargs)"
	expect_eq 1 "$(run lost_find 1 NULL 0 0 | grep -c "^[0-9]")" 'as many journal rows as wanted'
	expect_match 'its worker w was lost' "$(run lost_find 50 NULL 0 0)"
	expect_eq failed "$(end_attempt 1 lost)"
	expect_eq failed "$(end_attempt 2 lost)"
	expect_eq '' "$(run lost_find 50 NULL 0 0)"
	sql 'delete from workers where id = 2' >/dev/null
	expect_eq 3 "$(run lost_find 50 NULL 0 0 | cut -d '|' -f 1)" 'a worker without a row counts as lost'
	expect_eq 2 "$(sql "select count(*) from task_events where event = 'reclaimed' and note like 'lost; last heartbeat of worker w%'")"
}

# Several notifications name the same worker, and several scans find the same attempts: each attempt still ends once.
test_an_attempt_that_is_found_twice_ends_once() {
	set_up
	tasks 2
	claim 1 1 1 >/dev/null
	claim 2 1 2 >/dev/null
	lose 1
	expect_eq '1 2' "$(run lost_find 50 "'{1,1,1}'" 0 0 | cut -d '|' -f 1 | xargs)"
	sql 'update tasks set max_attempts = 1 where id = 1' >/dev/null
	one=$(token 1) two=$(token 2)
	expect_eq 'dead failed' "$(run end_attempts "'{1,2,1,2}'" "'{\"$one\",\"$two\",\"$one\",\"$two\"}'" "'{lost,lost,lost,lost}'" "'{e,e,e,e}'" "'{c,c,c,c}'" false 30 |
		cut -d '|' -f 3 | xargs)"
	expect_eq '1|1|1' "$(sql 'select (select count(*) from task_history), (select count(*) from task_attempts), (select count(*) from tasks)')"
	expect_eq '0|0' "$(sql 'select min(open), max(open) from assignments where closed_at is not null')"
}

# One locked row does not keep the others from being reclaimed.
test_what_is_locked_is_left_for_later() {
	set_up
	tasks 3
	for n in 1 2 3; do claim $n 1 $n >/dev/null; done
	hold holder 'select from tasks where id = 2 for update'
	expect_eq '1|t 2|f 3|t' "$(run attempts_lock "'{1,2,3}'" "'{\"$(token 1)\",\"$(token 2)\",\"$(token 3)\"}'" "'{}'" | cut -d '|' -f 1,2 | xargs)"
	start_manager # it finds the worker silent, and does the same
	sql "update workers set lease_ms = 500" >/dev/null
	wait_until 20 "[ \"\$(sql 'select status from tasks order by id' | xargs)\" = 'failed executing failed' ]"
	let_go holder
	wait_until 10 "[ \"\$(sql 'select status from tasks order by id' | xargs)\" = 'failed failed failed' ]"
}

# One transaction keeps the row of a batch: a report waits for it once, and not if that is known. It gets the other.
test_a_batch_that_is_kept_is_waited_for_once() {
	set_up
	sql "insert into batches (name, queue, implicit) select n, 'q', false from generate_series(1, 2) n" >/dev/null
	hold holder 'select from batches where id = 1 for update'
	expect_eq '1|t|t 2|f|f' "$(sql "set lock_timeout = 40; select * from batches_try_lock('{2,1}', '{}')" | xargs)"
	expect_eq '1|f|t 2|f|f' "$(sql "set lock_timeout = 40; select * from batches_try_lock('{2,1}', '{1}')" | xargs)"
	expect_eq '1|f|t 2|f|f' "$(sql "set lock_timeout = 40; select * from batches_try_lock('{2,1}', null)" | xargs)"
	let_go holder
}

# The claim begins while the worker is alive, and its snapshot shows the worker so.
test_the_scan_finds_what_is_claimed_after_the_loss() {
	set_up
	tasks 1
	version=$(token 1)
	(
		printf 'prepare s as\n%s;\nbegin;\n' "$(cat "$STATEMENTS/claim.sql")"
		echo "execute s('{1}', '{\"$version\"}', '{1}', '{1}', '{1}', 60000);"
		echo "\\! touch $DIR/claimed; until [ -e $DIR/lost ]; do sleep 0.05; done"
		echo 'commit;'
	) | "$REEVE_TEST_PG_BIN/psql" -XAtq "host=$PGDIR user=reeve dbname=reeve options=-csearch_path=reeve" >/dev/null &
	pid=$!
	wait_until 10 '[ -e "$DIR/claimed" ]'
	run worker_lose "'{1}'" "'{0}'" "'m'" >/dev/null
	expect_eq '' "$(run lost_find 50 NULL 0 0)"
	touch "$DIR/lost"
	wait "$pid"
	expect_eq 1 "$(run lost_find 50 NULL 0 0 | cut -d '|' -f 1)"
}

# Only tasks that never arrived are requeued: not those that the worker has, that it still waits for, that a later Fetch
# got, or that belong to another worker.
test_what_is_requeued_can_never_come_to_run() {
	set_up
	sql "insert into workers (name) values ('other')" >/dev/null
	tasks 6
	for n in 1 2 3 4; do claim $n 1 $n >/dev/null; done
	claim 5 2 1 >/dev/null
	unarrived() { # HIGHEST WAITING HELD-IDS HELD-TOKENS LOWEST
		run requeue_find "'{1}'" "'{$1}'" "'{$5}'" "'{${2:+1}}'" "'{$2}'" "'{${3:+1}}'" "'{$3}'" "'{$4}'" | sed '$d' | cut -d '|' -f 1 | xargs
	}
	expect_eq '1 2 3 4' "$(unarrived 9 '' '' '' 0)"
	expect_eq '1 2 3' "$(unarrived 3 '' '' '' 0)" 'Fetches above the highest sent'
	expect_eq '1 3 4' "$(unarrived 9 2 '' '' 0)" 'Fetches waited for'
	expect_eq '1 2 4' "$(unarrived 9 '' 3 "\"$(token 3)\"" 0)" 'attempts held'
	expect_eq '1 2 3 4' "$(unarrived 9 '' 3 '"2020-01-01"' 0)" 'an older attempt is another one'
	expect_eq '3 4' "$(unarrived 9 '' '' '' 3)" 'from the lowest Fetch on'
	expect_eq 3 "$(run requeue_find "'{1}'" "'{9}'" "'{3}'" "'{}'" "'{}'" "'{}'" "'{}'" "'{}'" | tail -n 1 | cut -d '|' -f 3)" 'the lowest that is open'
	expect_eq '2::1 3::1 4::1 5::2 :1:1 :1:2' "$(run requeue_find "'{1,2,77}'" "'{9,9,9}'" "'{0,0,0}'" "'{1,2}'" "'{1,3}'" "'{2}'" "'{4}'" \
		"'{\"$(token 4)\"}'" | cut -d '|' -f 1,3,4 | tr '|' : | sort | xargs)" 'of several workers, each by what it has said itself'
	expect_eq queued "$(end_attempt 1 requeued)"
	expect_eq '2 3 4' "$(unarrived 9 '' '' '' 0)"
	expect_eq 0 "$(sql 'select attempt from tasks where id = 1')"
}

test_the_third_time_in_a_row_counts() {
	set_up
	tasks 2
	n=0
	attempt() { # OUTCOME: what becomes of task 1, and its attempt
		claim 1 1 $((++n)) >/dev/null
		echo "$(end_attempt 1 "$1") $(sql 'select attempt from tasks where id = 1')"
	}
	expect_eq 'queued 0' "$(attempt requeued)"
	n=1
	expect_eq 'queued 0' "$(attempt lease_ended)"
	n=2
	expect_eq 'queued 0' "$(attempt returned)" 'a drain does not count, and the attempts start from 1 again'
	n=3
	expect_eq 'failed 1' "$(attempt requeued)"
	n=4
	expect_eq 'failed 2' "$(attempt lease_ended)" 'nor do those that follow'
	n=5
	expect_eq 'failed 3' "$(attempt failed)"
	n=6
	expect_eq 'queued 3' "$(attempt requeued)" 'it is a row no more'
	expect_eq t "$(sql "select count(*) = 7 and bool_and(by_report = (outcome <> 'requeued')) from task_attempts")"
}

test_more_time_is_given_under_the_token_and_up_to_a_bound() {
	set_up
	tasks 1
	sql 'update workers set lease_ms = 1000' >/dev/null
	claim 1 1 1 >/dev/null
	token=$(token 1)
	sql "update tasks set timeout_ms = 1000, expiry = last_updated + interval '2s' where id = 1" >/dev/null
	expect_eq '' "$(run extend "'{1}'" "'{\"2020-01-01\"}'" "'{60000}'" 3600000 1000)"
	expect_eq 60000 "$(run extend "'{1}'" "'{\"$token\"}'" "'{60000}'" 3600000 1000 | cut -d '|' -f 3)"
	expect_eq t "$(sql "select expiry between now() + interval '55s' and now() + interval '62s' and last_updated = '$token' from tasks")"
	run extend "'{1}'" "'{\"$token\"}'" "'{1000}'" 3600000 1000 >/dev/null
	expect_eq t "$(sql "select expiry > now() + interval '50s' from tasks")" 'no less than before'
	granted=$(run extend "'{1}'" "'{\"$token\"}'" "'{600000}'" 120000 1000 | cut -d '|' -f 3)
	expect [ "$granted" -le 120000 ]
	expect [ "$granted" -ge 100000 ]
	expect_eq t "$(sql "select expiry <= '$token'::timestamptz + interval '121s' from tasks")"
	end_attempt 1 failed >/dev/null
	expect_eq '' "$(run extend "'{1}'" "'{\"$token\"}'" "'{60000}'" 3600000 1000)" 'it is over'
}

# The manager that claims may have a shorter lease and expiry grace than the manager where the worker registered.
test_no_attempt_expires_within_its_workers_lease() {
	set_up
	tasks 1
	sql 'update workers set lease_ms = 100000' >/dev/null
	claim 1 1 1 >/dev/null
	expect_eq t "$(sql "select expiry - last_updated between interval '159s' and interval '161s' from tasks")"
	run extend "'{1}'" "'{\"$(token 1)\"}'" "'{200000}'" 3600000 1000 >/dev/null
	expect_eq t "$(sql "select expiry - last_updated between interval '299s' and interval '310s' from tasks")"
}

test_a_name_is_one_living_workers() {
	set_up
	register() { # HOST PID PREVIOUS
		run register "'{w}'" "'{$1}'" "'{$2}'" "'{v}'" "'{1}'" "'{0}'" "'{0}'" "'{$3}'" "'{false}'" "'{}'" "'{}'" 15000 "'{null}'" "'{me}'" | cut -d '|' -f 2-4
	}
	expect_eq '|h|7' "$(register h 8 0)" 'another process'
	expect_eq '|h|7' "$(register g 7 0)" 'another host'
	expect_eq 1 "$(sql 'select count(*) from workers')"
	expect_eq '2||' "$(register h 7 0)" 'the same, which did not hear the answer'
	expect_eq '3||' "$(register h 7 2)"
	expect_eq '1|f 2|t 3|f' "$(sql 'select id, lost from workers order by id' | xargs)" 'what it names is over, and nothing else'
	expect_eq returned "$(sql 'select event from worker_events where worker_id = 2 and event <> '"'registered'")"
	lose 1
	expect_eq '|h|7' "$(register g 1 0)"
	expect_eq '4||' "$(register g 1 3)" 'it was this one, elsewhere'
	sql "insert into workers (name) values ('victim')" >/dev/null
	expect_eq '6||' "$(register g 1 5)"
	expect_eq f "$(sql 'select lost from workers where id = 5')" 'a stranger ends nobody'
	expect_eq '|g|1' "$(register h 7 2)"
	expect_eq f "$(sql 'select lost from workers where id = 4')"
}

# Each session begins before it could see the row of the other.
test_of_two_that_register_at_once_one_gets_the_name() {
	set_up
	lose 1
	register_as() { # HOST [COMMAND…]: psql's, before the commit
		{
			printf 'prepare l as\n%s;\nprepare s as\n%s;\nbegin;\n' "$(cat "$STATEMENTS/register_lock.sql")" \
				"$(cat "$STATEMENTS/register.sql")"
			echo "execute l('{w}'); execute s($(padded register "'{w}'" "'{$1}'" "'{1}'" "'{v}'" "'{1}'" "'{0}'" "'{0}'" "'{0}'" "'{false}'" "'{}'" "'{}'" 15000 "'{null}'" "'{$1}'"));"
			printf '%s\n' "${@:2}" 'commit;'
		} | "$REEVE_TEST_PG_BIN/psql" -XAtq "host=$PGDIR user=reeve dbname=reeve options=-csearch_path=reeve"
	}
	register_as first "\\! touch $DIR/registered" "$UNTIL_AWAITED;" >"$DIR/first" &
	pid=$!
	wait_until 10 '[ -e "$DIR/registered" ]'
	register_as second >"$DIR/second"
	wait "$pid"
	expect_match '\|first\|1' "$(cat "$DIR/second")"
	expect_eq 1 "$(sql 'select count(*) from workers where not lost')"
}

# A manager ends an attempt by its expiry only if its own clock agrees, and if it has itself watched the attempt for
# long enough.
test_expiry_does_not_depend_on_the_databases_clock_alone() {
	set_up
	tasks 2
	claim 1 1 1 >/dev/null
	claim 2 1 2 >/dev/null
	sql "update tasks set expiry = now() - interval '1s', timeout_ms = 5000, last_updated = now() - interval '10s' where id = 1;
		update tasks set expiry = now() + interval '1h' where id = 2;
		update assignments set next_expiry = now() - interval '1s'" >/dev/null
	found() { # NOW BOUNDARY WATCHED-MS
		run expired_find 100 "$1" "$2" "$3" "'-infinity'" 0 | cut -d '|' -f 1
	}
	expect_eq 1 "$(found "'infinity'" 0 0)"
	expect_eq '' "$(found "now() - interval '1min'" 0 0)" 'a clock that has jumped ahead'
	expect_eq '' "$(found "'infinity'" 1 0)" 'from before the watch'
	expect_eq '' "$(found "'infinity'" 1 8000)"
	expect_eq 1 "$(found "'infinity'" 1 9100)" 'watched for its whole time'
	run expired_advance 0 0 "'-infinity'" 0 "'infinity'" 0 >/dev/null
	expect_eq 1 "$(found "'infinity'" 0 0)"
}

# A transaction that only reads does not wait for a synchronous standby, so it must not reveal what the standby may not
# have.
test_a_notice_of_an_earlier_commit_is_a_commit() {
	set_up
	tasks 2
	claim 1 1 1 >/dev/null
	sql "insert into requests (id, task_ids) values ('018f0000-0000-7000-8000-000000000001', '{1}')" >/dev/null
	commits() { # NAME PARAMETER…: whether it has a transaction id, which a commit record follows
		local name=$1 list
		list=$(padded "$@")
		{
			printf 'prepare s as\n%s;\nbegin;\n\\o /dev/null\n' "$(cat "$STATEMENTS/$name.sql")"
			echo "execute s($list);"
			printf '\\o\nselect pg_current_xact_id_if_assigned() is not null;\ncommit;\n'
		} | "$REEVE_TEST_PG_BIN/psql" -XAtq -v ON_ERROR_STOP=1 "host=$PGDIR user=reeve dbname=reeve options=-csearch_path=reeve"
	}
	expect_eq t "$(commits redeliver "'{1}'" "'{1}'" 1000 1000)"
	expect_eq f "$(commits redeliver "'{1,9}'" "'{2,1}'" 1000 1000)" 'nothing to tell, no commit'
	expect_eq t "$(commits submit_recall "'{018f0000-0000-7000-8000-000000000001}'")"
	token=$(token 1)
	run complete "'{1}'" "'{\"$token\"}'" "'{r}'" 30 >/dev/null
	expect_eq t "$(commits late_results "'{1}'" "'{\"$token\"}'" "'{completed}'" "'{1}'" "'{NULL}'" "'{x}'")"
}

run_tests
